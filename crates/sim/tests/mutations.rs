//! The simulator can fail: every engine that is broken on purpose is found.

use perennial_sim::hunt::{MUTATIONS, hunt};

#[test]
fn every_broken_engine_is_found() {
    let found: Vec<_> = std::thread::scope(|scope| {
        let halves = MUTATIONS.chunks(MUTATIONS.len().div_ceil(2));
        let hunters: Vec<_> = halves
            .map(|half| {
                scope.spawn(|| {
                    half.iter()
                        .map(|mutation| (*mutation, hunt(*mutation, 2_000)))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        hunters.into_iter().flat_map(|hunter| hunter.join().unwrap()).collect()
    });
    for (mutation, found) in &found {
        match found {
            Some(found) => println!("{mutation:?}: {}: {:.200}", found.by, found.violation),
            None => println!("{mutation:?}: NOT FOUND"),
        }
    }
    let missed: Vec<_> = found
        .iter()
        .filter(|(_, found)| found.is_none())
        .map(|(mutation, _)| mutation)
        .collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
