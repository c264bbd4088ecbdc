//! Numbers that tell the order of arrival.

use perennial_store::Order;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives out orders: each larger than all before, and close to the time, so that orders of different
/// processes and openings compare as one would expect.
#[derive(Default)]
pub struct Sequencer(AtomicU64);

/// A millisecond holds about a million orders.
const PER_MS: u32 = 20;

impl Sequencer {
    /// The next order.
    pub fn next(&self, now_ms: u64) -> Order {
        let floor = now_ms << PER_MS;
        let advance = |last: u64| Some((last + 1).max(floor));
        let last = match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance) {
            Ok(last) | Err(last) => last,
        };
        Order((last + 1).max(floor))
    }

    /// Makes every later order larger than this one.
    pub fn pass(&self, order: Order) {
        self.0.fetch_max(order.0, Ordering::Relaxed);
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
        let orders = Sequencer::default();
        let (first, second) = (orders.next(1_000), orders.next(1_000));
        assert!(second > first);
        assert!(orders.next(1) > second);
        orders.pass(Order(u64::MAX / 2));
        assert!(orders.next(1_000) > Order(u64::MAX / 2));
    }
}
