//! The activities: each writes its start and its end to the ledger and takes a moment in between.

use super::ledger::Ledger;
use super::order::{Action, Order, Step};
use duroxide::ActivityContext;
use duroxide::runtime::registry::ActivityRegistry;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// The world that activities act upon.
pub struct Shop {
    /// Where every execution is written down.
    pub ledger: Ledger,
    /// Where couriers are booked.
    pub couriers: UnboundedSender<Order>,
    /// How long a step takes.
    pub step: Duration,
}

/// All activities.
pub fn registry(shop: &Arc<Shop>) -> ActivityRegistry {
    Action::ALL
        .iter()
        .fold(ActivityRegistry::builder(), |builder, action| {
            let shop = Arc::clone(shop);
            builder.register_typed(action.activity(), move |_: ActivityContext, step: Step| {
                let shop = Arc::clone(&shop);
                async move { shop.perform(step).await }
            })
        })
        .build()
}

impl Shop {
    async fn perform(&self, step: Step) -> Result<String, String> {
        self.ledger.started(step).map_err(|e| e.to_string())?;
        tokio::time::sleep(self.step).await;
        let outcome = self.act(step);
        self.ledger.finished(step, outcome.is_ok()).map_err(|e| e.to_string())?;
        outcome
    }

    fn act(&self, step: Step) -> Result<String, String> {
        match step.action {
            Action::ChargePayment if step.order.payment_fails(step.part) => Err("the payment service is down".into()),
            Action::BookCourier => {
                // Nobody listens any more when the demo is being stopped; the next run finds the booking.
                let _ = self.couriers.send(step.order);
                Ok("booked".into())
            }
            _ => Ok("done".into()),
        }
    }
}
