//! Waits for jobs that have fired, in whatever partition and on whatever node, and takes them. One inbox
//! serves all that wait in a process. What a consumer does not acknowledge in time is given to another one,
//! so a job can arrive twice, with the same id.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout_at};

use crate::error::Result;
use crate::settings::{MOST_PARTITIONS, Settings};
use crate::store::{Delivery, Nack, Receipt, Store, Taken};

/// How often all partitions are asked though no notice has come: jobs whose consumer has died send none.
const SWEEP: Duration = Duration::from_millis(500);

/// Distance of tries to connect again.
const RETRY: Duration = Duration::from_millis(100);

/// What the waiting tasks and the one that hears share.
struct News {
    /// Partitions in which jobs may be ready.
    maybe: Vec<AtomicBool>,
    changed: Notify,
    closed: AtomicBool,
}

impl News {
    // ORDERING: Relaxed, here and below; a flag carries no data, and `Notify` or the next sweep brings
    // what it says to every task.
    fn all(&self) {
        self.maybe
            .iter()
            .for_each(|flag| flag.store(true, Ordering::Relaxed));
        self.changed.notify_one();
    }

    fn one(&self, partition: usize) {
        if let Some(flag) = self.maybe.get(partition) {
            // ORDERING: see `all`.
            flag.store(true, Ordering::Relaxed);
        }
        self.changed.notify_one();
    }

    fn flagged(&self, partitions: u16) -> Vec<u16> {
        // ORDERING: see `all`.
        let flagged = self
            .maybe
            .iter()
            .zip(0..partitions)
            .filter(|(flag, _)| flag.swap(false, Ordering::Relaxed));
        flagged.map(|(_, partition)| partition).collect()
    }
}

/// Where the jobs of a namespace arrive.
pub(crate) struct Inbox {
    store: Store,
    news: Arc<News>,
    hearing: JoinHandle<()>,
}

impl Inbox {
    pub(crate) fn open(store: Store) -> Self {
        let maybe = (0..MOST_PARTITIONS)
            .map(|_| AtomicBool::new(true))
            .collect();
        let news = Arc::new(News {
            maybe,
            changed: Notify::new(),
            closed: AtomicBool::new(false),
        });
        let hearing = tokio::spawn(hear(store.clone(), Arc::clone(&news)));
        Self {
            store,
            news,
            hearing,
        }
    }

    /// Takes at most `most` jobs, to be ended within `hold`. Waits until there is one, or it is `end`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`](crate::StoreError::Away).
    pub(crate) async fn take(&self, most: usize, hold: Duration, end: Instant) -> Result<Taken> {
        loop {
            let arrived = self.take_now(most, hold).await?;
            let mut changed = pin!(self.news.changed.notified());
            // From here on `close` is heard.
            changed.as_mut().enable();
            // ORDERING: Relaxed; `enable` and `notify_waiters` take the same lock.
            let closed = self.news.closed.load(Ordering::Relaxed);
            if !arrived.deliveries.is_empty() || closed || Instant::now() >= end {
                return Ok(arrived);
            }
            let _ = timeout_at(end.into(), changed).await;
        }
    }

    async fn take_now(&self, most: usize, hold: Duration) -> Result<Taken> {
        let mut flagged = self.news.flagged(self.store.partitions());
        // A request for few jobs asks few partitions; the others are left to other tasks.
        fastrand::shuffle(&mut flagged);
        let others = flagged.split_off(flagged.len().min(most));
        let count = flagged.len();
        let asked = flagged.iter().enumerate().map(|(at, &partition)| {
            let share = most / count + usize::from(at < most % count);
            self.store.take(partition, share, hold)
        });
        others
            .iter()
            .for_each(|&partition| self.news.one(partition.into()));
        let mut arrived = Taken {
            left: others.len() as u64,
            ..Taken::default()
        };
        let mut failed = None;
        for (partition, taken) in flagged.iter().zip(join_all(asked).await) {
            let left = match taken {
                Ok(taken) => {
                    arrived.deliveries.extend(taken.deliveries);
                    arrived.orphans += taken.orphans;
                    arrived.died += taken.died;
                    taken.left
                }
                Err(error) => {
                    failed = Some(error);
                    1
                }
            };
            arrived.left += left;
            if left > 0 {
                self.news.one((*partition).into());
            }
        }
        if let Some(error) = failed.filter(|_| arrived.deliveries.is_empty()) {
            return Err(error);
        }
        if arrived.left > 0 {
            self.news.changed.notify_one();
        }
        if arrived.orphans > 0 {
            tracing::error!(arrived.orphans, "jobs without a record: evicted?");
        }
        Ok(arrived)
    }

    /// Ends every wait, now and later.
    pub(crate) fn close(&self) {
        // ORDERING: see `take`.
        self.news.closed.store(true, Ordering::Relaxed);
        self.news.changed.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: see `take`.
        self.news.closed.load(Ordering::Relaxed)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.hearing.abort();
    }
}

/// Hears in which partitions jobs are ready, for as long as the inbox is there.
async fn hear(store: Store, news: Arc<News>) {
    loop {
        if let Err(error) = hear_on(&store, &news).await {
            tracing::debug!("no notices of ready jobs: {error}");
        }
        news.all();
        tokio::time::sleep(RETRY).await;
    }
}

async fn hear_on(store: &Store, news: &News) -> redis::RedisResult<()> {
    let mut connection = store.link.pubsub().await?;
    connection.subscribe(store.ready_channel()).await?;
    // What became ready before is not announced again.
    news.all();
    let mut sweep = interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut notices = connection.on_message();
    loop {
        tokio::select! {
            notice = notices.next() => match notice {
                Some(notice) => match notice.get_payload::<u16>() {
                    Ok(partition) => {
                        store.learn(partition.saturating_add(1));
                        news.one(partition.into());
                    }
                    Err(_) => news.all(),
                },
                None => return Ok(()),
            },
            _ = sweep.tick() => {
                let _ = store.refresh().await;
                news.all();
            }
        }
    }
}

/// How long one request waits for something new.
const WAIT: Duration = Duration::from_secs(1);

/// Jobs taken at a time.
const BATCH: usize = 512;

/// Distance of tries while Redis does not answer.
const AGAIN: Duration = Duration::from_millis(50);

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
    pub async fn connect(settings: Settings, hold: Duration) -> Result<Self> {
        let inbox = Inbox::open(Store::open(settings).await?);
        Ok(Self {
            inbox,
            hold,
            ready: VecDeque::new(),
        })
    }

    /// The next job. Waits as long as there is none, and while Redis is away. Dropping the future loses
    /// nothing: what was read and not returned comes again.
    pub async fn next(&mut self) -> Delivery {
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                return delivery;
            }
            match self
                .inbox
                .take(BATCH, self.hold, Instant::now() + WAIT)
                .await
            {
                Ok(arrived) => self.ready.extend(arrived.deliveries),
                Err(error) => {
                    tracing::debug!("no delivery: {error}");
                    tokio::time::sleep(AGAIN).await;
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
    /// [`StoreError::Away`](crate::StoreError::Away); what was not acknowledged is delivered again.
    pub async fn acknowledge(&self, deliveries: &[Delivery]) -> Result<u64> {
        self.store()
            .acknowledge(&receipts(deliveries))
            .await
            .map(count)
    }

    /// Gives failed jobs back: they come again after their backoff, or are dead if their attempts are used
    /// up.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`](crate::StoreError::Away); what was not given back is delivered again.
    pub async fn fail(&self, deliveries: &[Delivery], reason: &str) -> Result<()> {
        let nack = Nack {
            reason: reason.to_owned(),
            ..Nack::default()
        };
        self.store()
            .nack(&receipts(deliveries), &nack)
            .await
            .map(drop)
    }

    /// Holds jobs for longer: `hold` from now. Returns how many of them were still held.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`](crate::StoreError::Away).
    pub async fn extend(&self, deliveries: &[Delivery], hold: Duration) -> Result<u64> {
        self.store()
            .extend(&receipts(deliveries), hold)
            .await
            .map(count)
    }

    /// The jobs of the namespace.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inbox.store
    }
}

fn count(held: Vec<bool>) -> u64 {
    held.into_iter().map(u64::from).sum()
}

fn receipts(deliveries: &[Delivery]) -> Vec<Receipt> {
    deliveries.iter().map(|one| one.receipt.clone()).collect()
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}
