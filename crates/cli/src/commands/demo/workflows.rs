//! The workflows: a batch places orders, an order is paid, packed and shipped by a courier, and undone if he refuses.

use super::order::{Action, Batch, Order, PAYMENT_ATTEMPTS};
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use std::time::Duration;

/// The workflow that places the orders of a batch.
pub const PLACE_BATCH: &str = "place-batch";
const ORDER: &str = "order";
const SHIPPING: &str = "shipping";
/// The workflow of a courier who was booked.
pub const COURIER: &str = "courier";
/// The queue in which a shipping workflow finds the courier's answer.
pub const ANSWERS: &str = "courier";

/// How an order ended.
pub const DELIVERED: &str = "delivered";
/// How an order ended that was undone.
pub const COMPENSATED: &str = "compensated";
/// The courier's answers.
pub const CONFIRMED: &str = "confirmed";
/// The courier's other answer.
pub const REFUSED: &str = "refused";

/// All workflows.
pub fn registry() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register_typed(PLACE_BATCH, place_batch)
        .register_typed(ORDER, order)
        .register_typed(SHIPPING, shipping)
        .register_typed(COURIER, courier)
        .build()
}

/// Starts every order, each as a separate workflow, in waves. A wave and the timer for the next one are one commit:
/// after a crash no order is missing and none comes twice.
async fn place_batch(ctx: OrchestrationContext, batch: Batch) -> Result<u32, String> {
    for wave in batch.waves() {
        for order in wave {
            ctx.schedule_orchestration_typed(ORDER, order.instance(), &order);
        }
        if batch.pause_ms > 0 {
            ctx.schedule_timer(Duration::from_millis(batch.pause_ms)).await;
        }
    }
    Ok(batch.orders)
}

async fn order(ctx: OrchestrationContext, order: Order) -> Result<String, String> {
    perform(&ctx, order, Action::ReserveStock, 1).await?;
    charge(&ctx, order).await?;

    let lines = (1..=order.lines()).map(|line| {
        ctx.schedule_activity_typed::<_, String>(Action::PackLine.activity(), &order.step(Action::PackLine, line))
    });
    for packed in ctx.join(lines.collect()).await {
        packed?;
    }

    // A short time to change one's mind.
    ctx.schedule_timer(Duration::from_millis(200)).await;

    let shipped = ctx
        .schedule_sub_orchestration_with_id_typed::<_, String>(SHIPPING, order.shipping(), &order)
        .await;
    match shipped {
        Ok(_) => {
            perform(&ctx, order, Action::SendReceipt, 1).await?;
            Ok(DELIVERED.into())
        }
        Err(_) => {
            perform(&ctx, order, Action::RefundPayment, 1).await?;
            perform(&ctx, order, Action::ReleaseStock, 1).await?;
            Ok(COMPENSATED.into())
        }
    }
}

/// Tries again after a growing pause, because a payment service that was down is usually up again soon.
async fn charge(ctx: &OrchestrationContext, order: Order) -> Result<(), String> {
    let mut attempt = 1;
    loop {
        match perform(ctx, order, Action::ChargePayment, attempt).await {
            Ok(()) => return Ok(()),
            Err(error) if attempt >= PAYMENT_ATTEMPTS => return Err(error),
            Err(_) => ctx.schedule_timer(Duration::from_millis(50 * u64::from(attempt))).await,
        }
        attempt += 1;
    }
}

async fn shipping(ctx: OrchestrationContext, order: Order) -> Result<String, String> {
    perform(&ctx, order, Action::BookCourier, 1).await?;
    let answer = ctx.dequeue_event(ANSWERS).await;
    if answer != CONFIRMED {
        return Err(format!("the courier {answer} the parcel"));
    }
    perform(&ctx, order, Action::HandOver, 1).await?;
    Ok(answer)
}

/// The courier decides in his own time, whatever happens to the process that booked him.
async fn courier(ctx: OrchestrationContext, order: Order) -> Result<(), String> {
    ctx.schedule_timer(Duration::from_millis(order.courier_ms())).await;
    perform(&ctx, order, Action::AnswerBooking, 1).await
}

async fn perform(ctx: &OrchestrationContext, order: Order, action: Action, part: u32) -> Result<(), String> {
    let step = order.step(action, part);
    ctx.schedule_activity_typed::<_, String>(action.activity(), &step)
        .await
        .map(drop)
}
