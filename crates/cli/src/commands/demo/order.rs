//! Orders and their steps. Everything about an order follows from its number, so that a rerun has the same orders.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How often a payment is attempted. No order needs more.
pub const PAYMENT_ATTEMPTS: u32 = 4;

/// One batch of orders: the input of the workflow that places them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// From 1, one more with each batch that is started on a store.
    pub number: u32,
    /// How many orders it has.
    pub orders: u32,
    /// How long it waits between waves of orders, in milliseconds.
    pub pause_ms: u64,
}

/// A batch comes in this many waves, so that at any moment some orders are old and some are new.
const WAVES: u32 = 15;

impl Batch {
    /// The instance of the workflow that places the orders.
    pub fn instance(number: u32) -> String {
        format!("{INSTANCE_PREFIX}batch-{number}")
    }

    /// All orders.
    pub fn orders(self) -> impl Iterator<Item = Order> {
        (1..=self.orders).map(move |number| Order {
            batch: self.number,
            number,
        })
    }

    /// Whether `instance` is the workflow of one of its orders, and not of a shipping or a courier.
    pub fn has_order(self, instance: &str) -> bool {
        let number = instance.strip_prefix(&order_prefix(self.number));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Whether `instance` is the workflow of the courier of one of its orders.
    pub fn has_courier(self, instance: &str) -> bool {
        let order = instance.strip_suffix(COURIER_SUFFIX);
        order.is_some_and(|order| self.has_order(order))
    }

    /// All orders, in waves.
    pub fn waves(self) -> Vec<Vec<Order>> {
        let orders: Vec<Order> = self.orders().collect();
        let size = self.orders.div_ceil(WAVES).max(1) as usize;
        orders.chunks(size).map(<[Order]>::to_vec).collect()
    }
}

/// The prefix of every instance of the demo; nothing else in a store is ever touched.
pub const INSTANCE_PREFIX: &str = "perennial-demo-";
const COURIER_SUFFIX: &str = "-courier";

fn order_prefix(batch: u32) -> String {
    format!("{INSTANCE_PREFIX}{batch}-order-")
}

/// One order: the input of its workflow, of its shipping and of its courier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// The batch it belongs to.
    pub batch: u32,
    /// From 1.
    pub number: u32,
}

impl Order {
    /// The instance of its workflow.
    pub fn instance(self) -> String {
        format!("{}{:05}", order_prefix(self.batch), self.number)
    }

    /// The instance of its shipping, a sub-workflow.
    pub fn shipping(self) -> String {
        format!("{}-shipping", self.instance())
    }

    /// The instance of its courier, a workflow that the booking starts.
    pub fn courier(self) -> String {
        format!("{}{COURIER_SUFFIX}", self.instance())
    }

    /// How many lines must be packed, 1 to 4.
    pub fn lines(self) -> u32 {
        1 + (self.random(1) % 4) as u32
    }

    /// Whether the payment service is down at this attempt: at every fourth, but never at the last.
    pub fn payment_fails(self, attempt: u32) -> bool {
        attempt < PAYMENT_ATTEMPTS && self.random(100 + u64::from(attempt)).is_multiple_of(4)
    }

    /// Whether the courier refuses the parcel, which undoes the order: about one in twelve.
    pub fn refused(self) -> bool {
        self.random(2).is_multiple_of(12)
    }

    /// How long the courier takes to answer, in milliseconds.
    pub fn courier_ms(self) -> u64 {
        50 + self.random(3) % 200
    }

    /// A number that looks random but is the same in every run (splitmix64).
    fn random(self, purpose: u64) -> u64 {
        let seed = u64::from(self.batch) << 48 ^ u64::from(self.number) << 16 ^ purpose;
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The step `action` of this order.
    pub fn step(self, action: Action, part: u32) -> Step {
        Step {
            order: self,
            action,
            part,
        }
    }
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Takes the goods off the shelf.
    ReserveStock,
    /// Charges the customer; the part is the attempt.
    ChargePayment,
    /// Packs one line; the part is the line.
    PackLine,
    /// Books a courier, who will confirm or refuse.
    BookCourier,
    /// The courier confirms or refuses.
    AnswerBooking,
    /// Gives the parcel to the courier.
    HandOver,
    /// Tells the customer.
    SendReceipt,
    /// Undoes the payment.
    RefundPayment,
    /// Undoes the reservation.
    ReleaseStock,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::ReserveStock,
        Self::ChargePayment,
        Self::PackLine,
        Self::BookCourier,
        Self::AnswerBooking,
        Self::HandOver,
        Self::SendReceipt,
        Self::RefundPayment,
        Self::ReleaseStock,
    ];

    /// The name of its activity.
    pub fn activity(self) -> &'static str {
        match self {
            Self::ReserveStock => "reserve-stock",
            Self::ChargePayment => "charge-payment",
            Self::PackLine => "pack-line",
            Self::BookCourier => "book-courier",
            Self::AnswerBooking => "answer-booking",
            Self::HandOver => "hand-over",
            Self::SendReceipt => "send-receipt",
            Self::RefundPayment => "refund-payment",
            Self::ReleaseStock => "release-stock",
        }
    }
}

/// One activity of one order: the unit that must not run again once its outcome is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    /// Of which order.
    pub order: Order,
    /// What is done.
    pub action: Action,
    /// Which line or attempt, from 1.
    pub part: u32,
}

/// The step's name in the ledger, without spaces.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}#{}",
            self.order.batch,
            self.order.number,
            self.action.activity(),
            self.part
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_knows_its_orders() {
        let batch = Batch {
            number: 1,
            orders: 100_000,
            pause_ms: 0,
        };
        let own = Order { batch: 1, number: 7 };
        let far = Order {
            batch: 1,
            number: 100_000,
        };
        assert!(batch.has_order(&own.instance()) && batch.has_order(&far.instance()));
        let other = Order { batch: 11, number: 7 };
        for not in [own.shipping(), own.courier(), other.instance(), Batch::instance(1)] {
            assert!(!batch.has_order(&not), "{not}");
        }
        assert!(batch.has_courier(&own.courier()));
        for not in [own.instance(), own.shipping(), other.courier()] {
            assert!(!batch.has_courier(&not), "{not}");
        }
    }

    #[test]
    fn every_batch_of_some_hundred_orders_has_every_fate() {
        for number in 1..20 {
            let batch = Batch {
                number,
                orders: 300,
                pause_ms: 0,
            };
            assert_eq!(batch.waves().concat(), batch.orders().collect::<Vec<_>>());
            let orders: Vec<Order> = batch.orders().collect();
            let refused = orders.iter().filter(|order| order.refused()).count();
            assert!((5..60).contains(&refused), "{refused} refused in batch {number}");
            let retried = orders.iter().filter(|order| order.payment_fails(1)).count();
            assert!((40..110).contains(&retried), "{retried} retried in batch {number}");
            assert!(orders.iter().all(|order| (1..=4).contains(&order.lines())));
            assert!(orders.iter().all(|order| !order.payment_fails(PAYMENT_ATTEMPTS)));
        }
    }
}
