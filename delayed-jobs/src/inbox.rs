//! Waits for jobs that have fired, in whatever partition and on whatever node, and takes them. One inbox
//! serves all that wait in a process.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout_at};

use crate::error::StoreError;
use crate::settings::MOST_PARTITIONS;
use crate::store::{Store, Taken};

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
        self.maybe.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
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
        let maybe = (0..MOST_PARTITIONS).map(|_| AtomicBool::new(true)).collect();
        let news = Arc::new(News { maybe, changed: Notify::new(), closed: AtomicBool::new(false) });
        let hearing = tokio::spawn(hear(store.clone(), Arc::clone(&news)));
        Self { store, news, hearing }
    }

    /// Takes at most `most` jobs, to be ended within `hold`. Waits until there is one, or it is `end`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    pub(crate) async fn take(
        &self,
        most: usize,
        hold: Duration,
        end: Instant,
    ) -> Result<Taken, StoreError> {
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

    async fn take_now(&self, most: usize, hold: Duration) -> Result<Taken, StoreError> {
        let mut flagged = self.news.flagged(self.store.partitions());
        // A request for few jobs asks few partitions; the others are left to other tasks.
        fastrand::shuffle(&mut flagged);
        let others = flagged.split_off(flagged.len().min(most));
        let count = flagged.len();
        let asked = flagged.iter().enumerate().map(|(at, &partition)| {
            let share = most / count + usize::from(at < most % count);
            self.store.take(partition, share, hold)
        });
        others.iter().for_each(|&partition| self.news.one(partition.into()));
        let mut arrived = Taken { left: others.len() as u64, ..Taken::default() };
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

    pub(crate) fn store(&self) -> &Store {
        &self.store
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

async fn hear_on(store: &Store, news: &News) -> Result<(), redis::RedisError> {
    let mut connection = store.link().pubsub().await?;
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
