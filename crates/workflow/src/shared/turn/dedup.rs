//! Deduplication of clients' messages, where many processes share the store.
//!
//! A client whose reply was lost looks for its message. If that is gone, it was consumed or never stored; the client cannot
//! tell which, and stores it again under the same id. The head lists what was consumed recently, so it is not consumed twice.
//! What comes through an outbox has tombstones for that, and a second start, result or cancellation changes nothing.

use crate::board::{Handed, MessageKind};
use crate::mutation::mutant;
use crate::order::arrived_ms;
use crate::records::head::Head;
use crate::records::message;
use crate::tuning::{CONSUMED_REMEMBERED, CONSUMED_REMEMBERED_MS};
use perennial_store::{Order, RecordId};

/// The entry of a message in the head: its order and its sender.
fn text(id: &RecordId) -> String {
    id.below(&message::root()).unwrap_or_default().replace('/', "-")
}

fn must_be_consumed_once(sort: MessageKind) -> bool {
    matches!(sort, MessageKind::Queue | MessageKind::Event)
}

/// Whether the head says that a message was consumed before.
pub fn was_consumed(head: &Head, id: &RecordId) -> bool {
    !head.recently_consumed.is_empty() && head.recently_consumed.contains(&text(id))
}

/// Notes in the head that a turn has consumed these messages.
pub fn note_consumed(head: &mut Head, handed: &[Handed], now_ms: u64) {
    mutant!(ForgetConsumed, return);
    let is_recent = |order: Order| arrived_ms(order).saturating_add(CONSUMED_REMEMBERED_MS) > now_ms;
    head.recently_consumed
        .retain(|text| order_of(text).is_some_and(is_recent));
    let consumed = handed
        .iter()
        .filter(|handed| must_be_consumed_once(handed.sort) && handed.origin.is_none() && is_recent(handed.order));
    let new = consumed.map(|handed| text(&handed.id));
    let new: Vec<String> = new.filter(|text| !head.recently_consumed.contains(text)).collect();
    head.recently_consumed.extend(new);
    let too_many = head.recently_consumed.len().saturating_sub(CONSUMED_REMEMBERED);
    head.recently_consumed.drain(..too_many);
}

fn order_of(text: &str) -> Option<Order> {
    let (order, _) = text.split_once('-')?;
    u64::from_str_radix(order, 16).ok().map(Order)
}
