//! What only the node that has leased a partition asks of it, and what people and monitoring want to see.

use futures_util::future::try_join_all;
use redis::Cmd;
use serde::{Deserialize, Serialize};

use super::schedules::Passed;
use super::{Store, Timed};
use crate::error::Result;

/// Jobs made ready, and moments read, by one script; Redis does nothing else meanwhile.
const MOST_AT_ONCE: usize = 1000;
const PAGE: usize = 1000;

/// The lease as it was granted, `token@node`, or how many milliseconds another node's lease lasts if nothing
/// is heard of that node.
pub(crate) type Acquired = (Option<String>, u64);

/// Whether a lease is held, notices of near jobs sent so far, and the clock of Redis in microseconds.
pub(crate) type Renewed = (bool, u64, u64);

/// What firing came to.
#[derive(Debug)]
pub(crate) struct Fired {
    pub(crate) now_us: u64,
    /// What is left: the earliest moment at which something is due.
    pub(crate) next_ms: Option<u64>,
    /// One for each job.
    pub(crate) lateness_ms: Vec<u64>,
    /// Schedules whose moment has passed.
    pub(crate) passed: Vec<Passed>,
}

/// A page of the window: the clock of Redis in microseconds, notices sent so far, up to which moment,
/// inclusive, every moment is known now, whether there is more, and the moments.
pub(crate) type Loaded = (u64, u64, u64, bool, Vec<u64>);

impl Store {
    /// Takes a partition, if it is free.
    pub(crate) async fn acquire(&self, partition: u16, node: &str) -> Result<Timed<Acquired>> {
        let args = (node, self.settings().lease_ms());
        self.timed(script!("acquire"), self.base(partition), args)
            .await
    }

    /// Prolongs a lease.
    pub(crate) async fn renew(&self, partition: u16, lease: &str) -> Result<Timed<Renewed>> {
        let args = (lease, self.settings().lease_ms());
        self.timed(script!("renew"), self.base(partition), args)
            .await
    }

    pub(crate) async fn release(&self, partition: u16, lease: &str) -> Result<()> {
        self.run::<u8>(script!("release"), partition, lease)
            .await
            .map(drop)
    }

    /// Makes due jobs ready for the consumers; nothing if the lease is not held any more.
    pub(crate) async fn fire(&self, partition: u16, lease: &str) -> Result<Timed<Option<Fired>>> {
        type Reply = (i64, Option<i64>, Option<Vec<u64>>, Option<Vec<Passed>>);
        let args = (lease, MOST_AT_ONCE, self.ready_channel(), partition);
        let Timed {
            value,
            sent,
            received,
        } = self
            .timed::<Reply>(script!("fire"), self.base(partition), args)
            .await?;
        let (now, next, lateness, passed) = value;
        let value = lateness.map(|lateness_ms| Fired {
            now_us: now.unsigned_abs(),
            next_ms: next.and_then(|next| u64::try_from(next).ok()),
            lateness_ms,
            passed: passed.unwrap_or_default(),
        });
        Ok(Timed {
            value,
            sent,
            received,
        })
    }

    /// Reads moments after `after` (everything if `None`).
    pub(crate) async fn load(&self, partition: u16, after: Option<u64>) -> Result<Timed<Loaded>> {
        let after = after.map_or_else(|| "-inf".to_owned(), |after| format!("({after}"));
        let args = (after, self.settings().window_ms(), PAGE);
        self.timed(script!("load"), self.base(partition), args)
            .await
    }

    /// Says that a node is alive; the names of all that are.
    pub(crate) async fn beat(&self, node: &str, said: &str) -> Result<Vec<String>> {
        let args = (node, said, self.settings().lease_ms());
        Ok(self
            .timed(script!("beat"), self.nodes_base(), args)
            .await?
            .value)
    }

    /// Takes a node off the list of those that are alive.
    pub(crate) async fn leave(&self, node: &str) -> Result<()> {
        let base = self.nodes_base();
        let _: u64 = self.ask(&Cmd::zrem(format!("{base}:alive"), node)).await?;
        let _: u64 = self.ask(&Cmd::hdel(format!("{base}:said"), node)).await?;
        Ok(())
    }

    fn nodes_base(&self) -> String {
        format!("{}:{{nodes}}", self.settings().namespace)
    }
}

/// Seconds ahead that the overview counts jobs in.
const SECONDS_AHEAD: usize = 30;

/// The whole namespace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// Jobs that wait for their time.
    pub pending: u64,
    /// Jobs that were handed out and are not acknowledged yet.
    pub unacknowledged: u64,
    /// Jobs that have fired and that no consumer has taken yet.
    pub unread: u64,
    /// How long the first of them has waited, in milliseconds.
    pub unread_ms: u64,
    /// How long ago the oldest unacknowledged job has fired, in milliseconds.
    pub unacknowledged_ms: u64,
    /// Jobs whose attempts are used up.
    pub dead: u64,
    /// How long the oldest overdue job has been due, in milliseconds.
    pub lag_ms: u64,
    /// Jobs due within each of the next seconds; the first one includes what is overdue.
    pub ahead: Vec<u64>,
    /// The nodes that are alive.
    pub nodes: Vec<NodeView>,
    /// All partitions.
    pub partitions: Vec<PartitionView>,
}

/// A node as it describes itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Where it serves HTTP, if it does.
    pub address: String,
    /// Partitions it holds.
    pub partitions: usize,
    /// Jobs it has fired since its start.
    pub fired: u64,
    /// Moments that it has armed.
    pub armed: usize,
}

/// A partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartitionView {
    /// Its number.
    pub partition: u16,
    /// The name of the node that holds it; empty if none does.
    pub node: String,
    /// The fencing token of its lease; 0 without one.
    pub token: u64,
    /// How long its lease lasts if nothing is heard of the node.
    pub lease_left_ms: u64,
    /// Jobs that wait for their time.
    pub pending: u64,
    /// Jobs that were handed out and are not acknowledged yet.
    pub unacknowledged: u64,
    /// Jobs that have fired and that no consumer has taken yet.
    pub unread: u64,
    /// How long the first of them has waited.
    pub unread_ms: u64,
    /// How long ago the oldest unacknowledged job has fired.
    pub unacknowledged_ms: u64,
    /// Jobs whose attempts are used up.
    pub dead: u64,
    /// How long the oldest overdue job has been due.
    pub lag_ms: u64,
}

impl Store {
    /// What everything looks like now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`](crate::StoreError::Away).
    pub async fn overview(&self) -> Result<Overview> {
        self.refresh().await?;
        let partitions = 0..self.partitions();
        let views = try_join_all(partitions.map(|partition| self.view(partition))).await?;
        let mut ahead = vec![0; SECONDS_AHEAD];
        for (_, of_one) in &views {
            ahead
                .iter_mut()
                .zip(of_one)
                .for_each(|(sum, count)| *sum += count);
        }
        let partitions: Vec<PartitionView> = views.into_iter().map(|(view, _)| view).collect();
        let sum = |of: fn(&PartitionView) -> u64| partitions.iter().map(of).sum();
        let longest = |of: fn(&PartitionView) -> u64| partitions.iter().map(of).max().unwrap_or(0);
        Ok(Overview {
            pending: sum(|one| one.pending),
            unacknowledged: sum(|one| one.unacknowledged),
            unread: sum(|one| one.unread),
            unread_ms: longest(|one| one.unread_ms),
            unacknowledged_ms: longest(|one| one.unacknowledged_ms),
            dead: sum(|one| one.dead),
            lag_ms: longest(|one| one.lag_ms),
            ahead,
            nodes: self.nodes().await?,
            partitions,
        })
    }

    async fn view(&self, partition: u16) -> Result<(PartitionView, Vec<u64>)> {
        type Reply = (String, i64, u64, u64, u64, u64, u64, u64, u64, Vec<u64>);
        let (lease, left, pending, lag_ms, unread, held, dead, unread_ms, held_ms, ahead): Reply =
            self.run(script!("overview"), partition, SECONDS_AHEAD)
                .await?;
        let (token, node) = lease.split_once('@').unwrap_or(("0", ""));
        let view = PartitionView {
            partition,
            node: node.to_owned(),
            token: token.parse().unwrap_or(0),
            lease_left_ms: u64::try_from(left).unwrap_or(0),
            pending,
            unacknowledged: unread + held,
            unread,
            unread_ms,
            unacknowledged_ms: unread_ms.max(held_ms),
            dead,
            lag_ms,
        };
        Ok((view, ahead))
    }

    async fn nodes(&self) -> Result<Vec<NodeView>> {
        let said: Vec<String> = self.ask(&Cmd::hvals(self.nodes_base() + ":said")).await?;
        let mut nodes: Vec<NodeView> = said
            .iter()
            .filter_map(|text| serde_json::from_str(text).ok())
            .collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(nodes)
    }
}
