//! The courier: a client outside all workflows who answers bookings with an external event.

use super::order::Order;
use super::workflows::{CONFIRMED, COURIER, REFUSED};
use duroxide::Client;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

/// Answers bookings until the shop closes. An answer that cannot be stored is told to `failed`.
pub async fn run(
    client: Client,
    mut bookings: UnboundedReceiver<Order>,
    failed: impl Fn(String) + Send + Sync + 'static,
) {
    let client = Arc::new(client);
    let failed = Arc::new(failed);
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = answers.join_next() => {}
            booking = bookings.recv() => match booking {
                Some(order) => {
                    let (client, failed) = (Arc::clone(&client), Arc::clone(&failed));
                    answers.spawn(async move {
                        if let Err(error) = answer(&client, order).await {
                            failed(format!("could not store the courier's answer to order {}: {error}", order.number));
                        }
                    });
                }
                None => break,
            },
        }
    }
    while answers.join_next().await.is_some() {}
}

/// An answer is a message in the shipping workflow's queue: it waits there if it comes early, and a second one,
/// sent because a crash hid whether the first was sent, is never read.
async fn answer(client: &Client, order: Order) -> Result<(), duroxide::ClientError> {
    tokio::time::sleep(Duration::from_millis(order.courier_ms())).await;
    let answer = if order.refused() { REFUSED } else { CONFIRMED };
    client.enqueue_event(order.shipping(), COURIER, answer).await
}
