//! Takes what has fired. What a consumer does not acknowledge in time is given to another one, so a job can
//! arrive twice, with the same id.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::inbox::Inbox;
use crate::settings::Settings;
use crate::store::{Delivery, Nack, Receipt, Store};

/// How long one request waits for something new.
const WAIT: Duration = Duration::from_secs(1);

/// Jobs taken at a time.
const BATCH: usize = 512;

/// Distance of tries while Redis does not answer.
const RETRY: Duration = Duration::from_millis(50);

/// One consumer of a namespace.
pub struct Consumer {
    inbox: Inbox,
    hold: Duration,
    ready: VecDeque<Delivery>,
}

impl Consumer {
    /// Connects. Each job has to be ended within `hold`; later it is given to any consumer again.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open`].
    pub async fn connect(settings: Settings, hold: Duration) -> Result<Self, StoreError> {
        let inbox = Inbox::open(Store::open(settings).await?);
        Ok(Self { inbox, hold, ready: VecDeque::new() })
    }

    /// The next job. Waits as long as there is none, and while Redis is away. Dropping the future loses
    /// nothing: what was read and not returned comes again.
    pub async fn next(&mut self) -> Delivery {
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                return delivery;
            }
            match self.inbox.take(BATCH, self.hold, Instant::now() + WAIT).await {
                Ok(arrived) => self.ready.extend(arrived.deliveries),
                Err(error) => {
                    tracing::debug!("no delivery: {error}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Whatever is at hand without waiting, after [`next`](Self::next).
    pub fn more(&mut self) -> Vec<Delivery> {
        self.ready.drain(..).collect()
    }

    /// The next job and whatever is at hand with it.
    pub(crate) async fn batch(&mut self) -> Vec<Delivery> {
        let first = self.next().await;
        [vec![first], self.more()].concat()
    }

    /// Ends jobs; how many of them were still held.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; what was not acknowledged is delivered again.
    pub async fn acknowledge(&self, deliveries: &[Delivery]) -> Result<u64, StoreError> {
        let held = self.store().acknowledge(&receipts(deliveries)).await?;
        Ok(held.iter().filter(|held| **held).count() as u64)
    }

    /// Gives failed jobs back: they come again after their backoff, or are dead if their attempts are used
    /// up.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; what was not given back is delivered again.
    pub async fn fail(&self, deliveries: &[Delivery], reason: &str) -> Result<(), StoreError> {
        let nack = Nack { reason: reason.to_owned(), ..Nack::default() };
        self.store().nack(&receipts(deliveries), &nack).await.map(drop)
    }

    /// Holds jobs for longer: `hold` from now. Returns how many of them were still held.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    pub async fn extend(&self, deliveries: &[Delivery], hold: Duration) -> Result<u64, StoreError> {
        let held = self.store().extend(&receipts(deliveries), hold).await?;
        Ok(held.iter().filter(|held| **held).count() as u64)
    }

    /// The jobs of the namespace.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.inbox.store()
    }
}

fn receipts(deliveries: &[Delivery]) -> Vec<Receipt> {
    deliveries.iter().map(|one| one.receipt.clone()).collect()
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("hold", &self.hold).finish_non_exhaustive()
    }
}
