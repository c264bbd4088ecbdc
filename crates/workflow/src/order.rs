//! Numbers that give the order of arrival.

use perennial_store::Order;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives out orders: each larger than all before, and close to the time, so that orders of different
/// processes and openings compare as one would expect.
#[derive(Default)]
pub struct Sequencer {
    last: AtomicU64,
    /// The low bits of every order, where processes share a store: they make it unlikely that two processes give out the same.
    mark: Option<u64>,
}

/// A millisecond holds about a million orders.
const PER_MS: u32 = 20;
/// How many bits of an order identify the process.
const MARK: u32 = 10;

impl Sequencer {
    /// A sequencer of one of many processes.
    pub fn of_process(seed: u64) -> Self {
        Self {
            last: AtomicU64::default(),
            mark: Some(seed % (1 << MARK)),
        }
    }

    /// The next order.
    pub fn next(&self, now_ms: u64) -> Order {
        let after = |last: u64| {
            let next = (last + 1).max(now_ms << PER_MS);
            match self.mark {
                None => next,
                Some(mark) => (next.div_ceil(1 << MARK) << MARK) + mark,
            }
        };
        let advance = |last: u64| Some(after(last));
        let last = match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance) {
            Ok(last) | Err(last) => last,
        };
        Order(after(last))
    }

    /// Makes every later order larger than this one.
    pub fn pass(&self, order: Order) {
        self.last.fetch_max(order.0, Ordering::Relaxed);
    }
}

/// When something with this order arrived, in milliseconds since the Unix epoch.
pub fn arrived_ms(order: Order) -> u64 {
    order.0 >> PER_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_grow_within_a_millisecond_and_when_the_clock_steps_back() {
        for orders in [Sequencer::default(), Sequencer::of_process(77)] {
            let (first, second) = (orders.next(1_000), orders.next(1_000));
            assert!(second > first);
            assert!(orders.next(1) > second);
            orders.pass(Order(u64::MAX / 2));
            assert!(orders.next(1_000) > Order(u64::MAX / 2));
        }
    }

    #[test]
    fn processes_with_different_marks_never_give_out_the_same_order() {
        let (one, other) = (Sequencer::of_process(1), Sequencer::of_process(2));
        let given: Vec<Order> = (0..500).flat_map(|_| [one.next(5), other.next(5)]).collect();
        let distinct: std::collections::BTreeSet<Order> = given.iter().copied().collect();
        assert_eq!(distinct.len(), given.len());
    }
}
