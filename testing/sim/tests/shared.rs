//! Several processes at once on one store: many seeds, one seed many times, and seeds that once failed.

use perennial_sim::{Kind, Report, run};

#[test]
fn a_thousand_seeds_of_several_processes_are_clean() {
    let report = Report::of_seeds(&[Kind::Shared], 0..1_000, 2, 5);
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

fn are_clean(seeds: &[u64]) {
    for seed in seeds {
        let violations = run(&Kind::Shared.of_seed(*seed), false).violations;
        assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
    }
}

#[test]
fn a_lost_reply_is_not_resolved_by_what_another_process_wrote() {
    are_clean(&[15, 48, 345, 641, 945, 1_050, 1_322, 1_337]);
}

#[test]
fn a_claim_that_finds_no_work_is_released() {
    are_clean(&[66, 2_567, 4_334]);
}

#[test]
fn a_message_is_not_handed_out_that_another_process_has_consumed() {
    are_clean(&[185, 4_080]);
}

#[test]
fn an_activity_that_was_read_for_longer_than_its_lease_is_claimed_again() {
    are_clean(&[379, 539, 1_063]);
}

#[test]
fn an_activity_that_was_claimed_since_it_was_due_is_left_to_its_holder() {
    are_clean(&[28_708]);
}

#[test]
fn a_message_whose_reply_was_lost_is_consumed_once() {
    are_clean(&[524, 1_397]);
}

#[test]
fn work_that_an_old_poll_does_not_return_is_not_taken_for_gone() {
    are_clean(&[1_639, 2_089]);
}

#[test]
fn a_renewal_or_a_release_whose_caller_is_gone_ends_in_order() {
    are_clean(&[1_830, 2_666, 18_910]);
}

#[test]
fn messages_that_were_read_for_a_claim_that_is_over_do_not_come_back() {
    are_clean(&[5_693, 17_309]);
}

#[test]
fn a_message_that_left_a_tombstone_is_gone_and_not_damaged() {
    are_clean(&[6_678]);
}

#[test]
fn an_activity_whose_renewal_meets_an_outage_is_not_lost() {
    are_clean(&[18_040]);
}

#[test]
fn deliveries_before_the_first_turn_are_counted_through_claims_that_run_out() {
    are_clean(&[20_736, 22_820, 28_011]);
}

#[test]
fn a_claim_made_ahead_is_not_revived_when_the_clock_is_put_back() {
    are_clean(&[25_603]);
}

#[test]
fn a_tree_is_deleted_whole_although_a_child_is_too_new_to_be_seen() {
    are_clean(&[26_097]);
}

#[test]
fn a_deletion_that_is_decided_is_not_cancelled_by_an_old_read() {
    are_clean(&[12_445, 27_382]);
}

#[test]
fn a_lease_that_was_prolonged_too_late_is_not_handed_out() {
    are_clean(&[34_050]);
}

#[test]
fn a_lease_that_was_renewed_lasts_though_the_clock_is_put_back() {
    are_clean(&[33_770]);
}

#[test]
fn a_turn_that_another_process_rolled_forward_and_claimed_is_not_free() {
    are_clean(&[61_345]);
}

#[test]
fn nothing_remains_of_work_that_was_left_to_another_process() {
    are_clean(&[90, 7_916]);
}

#[test]
fn a_claim_that_expired_in_memory_is_not_written() {
    are_clean(&[36_515]);
}

#[test]
fn activities_claimed_by_the_process_that_finished_a_turn_stay_its_own() {
    are_clean(&[34_187]);
}

#[test]
fn a_message_in_a_head_leaves_it_with_the_lease_as_it_was() {
    are_clean(&[1_243]);
}

#[test]
fn a_message_that_another_process_took_out_of_a_head_is_not_handed_out_again() {
    are_clean(&[38_630]);
}

#[test]
fn a_process_overtaken_by_a_clock_that_is_ahead_holds_nothing() {
    are_clean(&[464, 17_513, 19_088]);
}

#[test]
fn a_process_that_is_killed_while_it_leaves_does_not_stall_the_run() {
    are_clean(&[8_110_449]);
}

#[test]
fn a_claim_whose_messages_another_process_consumed_is_removed_when_it_lapses() {
    are_clean(&[7_003_866]);
}

#[test]
fn intents_do_not_count_as_removed_because_one_of_them_was_gone() {
    are_clean(&[1_794_970_861_711]);
}

#[test]
fn a_deletion_removes_a_message_that_an_old_read_does_not_show() {
    are_clean(&[1_794_992_922_749]);
}

#[test]
fn a_turn_handed_out_on_a_lease_that_a_clock_ahead_has_ended_holds_nothing() {
    are_clean(&[1_794_998_219_092]);
}

#[test]
fn a_claim_that_lapsed_is_not_restored_after_a_commit_of_its_process_made_another() {
    are_clean(&[1_794_999_282_202]);
}

#[test]
fn a_deletion_does_not_release_the_claims_of_its_process() {
    are_clean(&[1_794_999_846_723]);
}
