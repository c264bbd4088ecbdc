//! The simulator finds every engine that is broken on purpose.

use perennial_sim::hunt::{Broken, MUTATIONS, hunt};

#[test]
fn every_broken_engine_is_found() {
    let hunters: Vec<_> = MUTATIONS
        .chunks(MUTATIONS.len().div_ceil(2))
        .map(|half| {
            std::thread::spawn(move || {
                let found = |broken: &Broken| (broken.0, hunt(*broken, 0..2_000));
                half.iter().map(found).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut missed = Vec::new();
    for (mutation, found) in hunters.into_iter().flat_map(|hunter| hunter.join().unwrap()) {
        match found {
            Some(found) => println!("{mutation:?}: {}: {:.200}", found.by, found.violation),
            None => missed.push(mutation),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
