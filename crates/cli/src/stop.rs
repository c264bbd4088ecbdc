//! Requests to stop.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether SIGTERM requested the stop. The signal belongs to the process, and so does its exit code.
static TERMINATED: AtomicBool = AtomicBool::new(false);

/// Resolves when the user or the system requests a stop.
pub async fn requested() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => TERMINATED.store(true, Ordering::Relaxed),
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The exit code of a stopped process: 128 and the signal's number, as shells have it.
pub fn exit_code() -> u8 {
    match TERMINATED.load(Ordering::Relaxed) {
        true => 143,
        false => 130,
    }
}
