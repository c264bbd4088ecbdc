//! The activities: each records its start in the ledger, takes a moment, and does its part of the order.

use super::ledger::Ledger;
use super::order::{Action, Order, Step};
use super::workflows::{ANSWERS, CONFIRMED, COURIER, REFUSED};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, ClientError};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// How long an activity waits for a store that cannot be written to just now.
const PAUSE: Duration = Duration::from_millis(200);

/// The state that activities act upon.
pub struct Shop {
    /// Where every execution is recorded.
    pub ledger: Ledger,
    /// How long a step takes.
    pub step: Duration,
    /// Receives the reason why the demo cannot go on.
    pub problem: Box<dyn Fn(String) + Send + Sync>,
}

/// All activities.
pub fn registry(shop: &Arc<Shop>) -> ActivityRegistry {
    Action::ALL
        .iter()
        .fold(ActivityRegistry::builder(), |builder, action| {
            let shop = Arc::clone(shop);
            builder.register_typed(action.activity(), move |ctx: ActivityContext, step: Step| {
                let shop = Arc::clone(&shop);
                async move { shop.perform(&ctx, step).await }
            })
        })
        .build()
}

impl Shop {
    async fn perform(&self, ctx: &ActivityContext, step: Step) -> Result<String, String> {
        loop {
            match self.ledger.started(step).await {
                Ok(()) => break,
                Err(error) => self.failed("write to the ledger", &error, error.is_transient()).await,
            }
        }
        tokio::time::sleep(self.step).await;
        match step.action {
            Action::ChargePayment if step.order.payment_fails(step.part) => Err("the payment service is down".into()),
            Action::BookCourier => Ok(self.book(ctx, step.order).await),
            Action::AnswerBooking => Ok(self.answer(ctx, step.order).await),
            _ => Ok("done".into()),
        }
    }

    /// Sends the order to the courier, which is a separate workflow: a booking that was sent gets its answer, whichever
    /// process dies now. A second booking, sent because a crash hid the first, is ignored.
    async fn book(&self, ctx: &ActivityContext, order: Order) -> String {
        let client = ctx.get_client();
        while let Err(error) = client.start_orchestration_typed(order.courier(), COURIER, order).await {
            self.not_sent("book a courier", &error).await;
        }
        "booked".into()
    }

    /// Sends the courier's answer: a message in the shipping workflow's queue. It waits there if it is early, and a
    /// second one is never read.
    async fn answer(&self, ctx: &ActivityContext, order: Order) -> String {
        let client = ctx.get_client();
        let answer = if order.refused() { REFUSED } else { CONFIRMED };
        while let Err(error) = client.enqueue_event(&order.shipping(), ANSWERS, answer).await {
            self.not_sent("store the courier's answer", &error).await;
        }
        answer.into()
    }

    async fn not_sent(&self, attempted: &str, error: &ClientError) {
        self.failed(attempted, error, error.is_retryable()).await;
    }

    /// Waits before the next attempt. A store that is away is no reason for an order to fail; a lasting failure ends
    /// the demo.
    async fn failed(&self, attempted: &str, error: &impl Display, passes: bool) {
        if !passes {
            (self.problem)(format!("could not {attempted}: {error}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
