//! Many seeds; one seed many times; and seeds that once failed.

use perennial_sim::config::COLD_SEEDS;
use perennial_sim::{Config, Kind, Report, run};

#[test]
fn two_thousand_seeds_are_clean() {
    let report = Report::of_seeds(&[Kind::Alone], 0..2_000, 2, 5);
    println!("{report}");
    assert!(report.failed.is_empty(), "{:#?}", report.failed);
}

/// Commits that name different records overtake each other.
#[test]
fn a_thousand_seeds_with_cold_reads_are_clean() {
    let report = Report::of_seeds(&[Kind::Alone], COLD_SEEDS..COLD_SEEDS + 2_000, 2, 5);
    println!("{report}");
    assert!(report.failed.is_empty(), "{:#?}", report.failed);
}

#[test]
fn a_seed_replays_exactly() {
    let cold = [COLD_SEEDS, COLD_SEEDS + 2];
    for seed in (0..40).chain([283, 316, 400, 952, 4_313]).chain(cold) {
        let first = run(&Config::of_seed(seed), true).trace;
        for _ in 0..2 {
            let again = run(&Config::of_seed(seed), true).trace;
            let differs = first.iter().zip(&again).position(|(one, other)| one != other);
            if let Some(at) = differs {
                panic!("seed {seed} differs in line {at}:\n{}\n{}", first[at], again[at]);
            }
            assert_eq!(first.len(), again.len(), "seed {seed}");
        }
    }
}

fn is_clean(seed: u64) {
    let violations = run(&Config::of_seed(seed), false).violations;
    assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
}

#[test]
fn a_turn_that_was_read_for_longer_than_its_lease_is_not_handed_out_twice() {
    is_clean(2);
}

#[test]
fn a_lease_that_ran_out_stays_so_when_the_clock_is_put_back() {
    is_clean(316);
}

#[test]
fn a_lost_reply_is_resolved_however_long_the_store_is_out() {
    is_clean(380);
}

#[test]
fn the_execution_that_became_current_while_pruning_is_kept() {
    is_clean(400);
    is_clean(1_391);
}

#[test]
fn a_turn_that_is_committed_while_its_instance_is_deleted_leaves_nothing() {
    is_clean(728);
}

#[test]
fn a_result_whose_commit_returns_after_its_instance_was_deleted_is_not_queued() {
    is_clean(20_493);
    is_clean(42_449);
}

#[test]
fn a_client_that_has_seen_a_result_does_not_see_less_next() {
    is_clean(21_121);
}

#[test]
fn fresh_seeds_are_taken_from_the_clock_and_printed() {
    let told = || {
        let sim = std::process::Command::new(env!("CARGO_BIN_EXE_perennial-sim"))
            .args(["--fresh", "3", "--threads", "1"])
            .output()
            .unwrap();
        let text = String::from_utf8(sim.stdout).unwrap();
        let range = text.lines().next().and_then(|line| line.strip_prefix("fresh seeds "));
        let (from, to) = range
            .and_then(|range| range.split_once(".."))
            .expect("the range is told");
        let seeds: (u64, u64) = (from.parse().unwrap(), to.parse().unwrap());
        // Three of each kind.
        assert!(text.contains("\n6 seeds in"), "{text}");
        seeds
    };
    let (first, again) = (told(), told());
    assert_eq!(first.1 - first.0, 3);
    assert!(first.0 > 1_790_000_000_000 && again.0 >= first.1, "{first:?} {again:?}");
}
