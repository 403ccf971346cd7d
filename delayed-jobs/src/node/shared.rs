//! What the tasks of a node share.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tickwheel::Timer;
use tokio::sync::{mpsc, oneshot};

use super::clock::RedisClock;
use super::news::News;
use super::tenure::{Moment, Partition};
use crate::http::guard::{Fill, Tokens};
use crate::inbox::Inbox;
use crate::metrics::Metrics;
use crate::store::{NodeView, Store};

/// A wish to hear of near jobs of a partition; dropped once that is so, or cannot be.
pub(super) type Wish = (u16, oneshot::Sender<()>);

/// One node.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) store: Store,
    pub(crate) metrics: Arc<Metrics>,
    pub(super) address: Mutex<String>,
    /// As many as a namespace can have.
    pub(super) possible: Arc<[Partition]>,
    pub(super) timer: Timer<Moment>,
    pub(super) clock: RedisClock,
    pub(super) wishes: mpsc::UnboundedSender<Wish>,
    pub(crate) tokens: Tokens,
    pub(crate) fill: Fill,
    pub(super) news: News,
    pub(super) last_reached: Mutex<Instant>,
    /// Where deliveries arrive, once a consumer has asked for one.
    pub(super) inbox: OnceLock<Inbox>,
}

impl Shared {
    /// Those that the namespace has now.
    pub(super) fn partitions(&self) -> &[Partition] {
        &self.possible[..usize::from(self.store.partitions())]
    }

    pub(crate) fn held(&self) -> usize {
        self.partitions().iter().filter(|one| one.lease().is_some()).count()
    }

    /// What the node says of itself.
    pub(crate) fn view(&self) -> NodeView {
        NodeView {
            name: self.name.clone(),
            address: self.address.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            partitions: self.held(),
            fired: self.metrics.fired.get(),
            armed: self.armed(),
        }
    }

    pub(crate) fn armed(&self) -> usize {
        self.partitions().iter().map(Partition::armed).sum()
    }

    /// Where its HTTP server listens.
    pub(crate) fn set_address(&self, address: String) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        self.inbox.get_or_init(|| Inbox::open(self.store.clone()))
    }

    pub(super) fn reached(&self) {
        *self.last_reached.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long ago Redis has answered a beat.
    pub(crate) fn silence(&self) -> Duration {
        self.last_reached.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}
