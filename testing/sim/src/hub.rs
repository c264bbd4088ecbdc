//! How clients reach the processes: each workflow's clients live in one of them, and move on when it dies.

use crate::life::Life;
use duroxide::Client;
use duroxide::providers::Provider;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// The clients' access to a process.
pub struct Port {
    /// The process.
    pub life: Arc<Life>,
    /// Its provider.
    pub provider: Arc<dyn Provider>,
    /// A client on its provider.
    pub client: Client,
}

impl Port {
    /// Access to a process through its provider.
    pub fn new(life: &Arc<Life>, provider: Arc<dyn Provider>) -> Arc<Self> {
        Arc::new(Self {
            life: Arc::clone(life),
            client: Client::new(Arc::clone(&provider)),
            provider,
        })
    }

    /// Does something in the process; `None` if the process dies meanwhile.
    pub async fn within<T>(&self, doing: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.life.ended() => None,
            done = doing => Some(done),
        }
    }

    /// The name under which it sends: a different one for each process, where several live at once.
    pub fn sender(&self) -> u32 {
        match self.life.scene.config.is_shared() {
            true => self.life.number,
            false => 0,
        }
    }
}

/// Access to all live processes.
pub struct Hub {
    ports: Mutex<Vec<Option<Arc<Port>>>>,
    opened: Notify,
}

impl Hub {
    /// This many processes, none of which is live yet.
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            ports: Mutex::new(vec![None; count]),
            opened: Notify::new(),
        })
    }

    /// A process is ready.
    pub fn open(&self, member: usize, port: Arc<Port>) {
        if let Some(place) = self.ports.lock().get_mut(member) {
            *place = Some(port);
        }
        self.opened.notify_waiters();
    }

    /// The process with this number, or the next live one.
    fn living(&self, home: usize) -> Option<Arc<Port>> {
        let ports = self.ports.lock();
        let from = home.checked_rem(ports.len())?;
        let all = ports.iter().cycle().skip(from).take(ports.len());
        all.flatten().find(|port| !port.life.is_over()).cloned()
    }

    /// The same, waiting until one is live.
    pub async fn port(&self, home: usize) -> Arc<Port> {
        loop {
            let mut opened = std::pin::pin!(self.opened.notified());
            opened.as_mut().enable();
            if let Some(port) = self.living(home) {
                return port;
            }
            opened.await;
        }
    }
}
