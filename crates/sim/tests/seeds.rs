//! Many seeds; one seed many times; and what was found once.

use perennial_sim::{Config, Report, run};

#[test]
fn two_thousand_seeds_are_clean() {
    let report = Report::of_seeds(0..2_000, 2, 5);
    println!("{report}");
    assert!(report.failed.is_empty(), "{:#?}", report.failed);
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [1, 2, 3, 7, 11, 283, 316, 952] {
        let first = run(&Config::of_seed(seed), true).trace;
        for _ in 0..5 {
            let again = run(&Config::of_seed(seed), true).trace;
            let differs = first.iter().zip(&again).position(|(one, other)| one != other);
            if let Some(at) = differs {
                panic!("seed {seed} differs in line {at}:\n{}\n{}", first[at], again[at]);
            }
            assert_eq!(first.len(), again.len(), "seed {seed}");
        }
    }
}
