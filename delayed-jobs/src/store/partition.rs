//! What only the node that has leased a partition asks of it, and what people and monitoring want to see.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use redis::Cmd;
use serde::{Deserialize, Serialize};

use super::queues::Limits;
use super::schedules::Passed;
use super::{Store, Timed};
use crate::error::Result;
use crate::job::Queue;

/// Jobs made ready by one script; Redis does nothing else meanwhile.
const MOST_AT_ONCE: usize = 1000;

/// The lease as it was granted, `token@node`, or how many milliseconds another node's lease lasts if nothing
/// is heard of that node; whether the partition knows the birth of the namespace; and when its last lease was prolonged, in
/// milliseconds since 1970.
pub(crate) type Acquired = (Option<String>, u64, bool, u64);

/// Whether a lease is held, the first moment at which something is due or -1, the clock of Redis in microseconds, and by
/// how many milliseconds it was set back since the last renewal.
pub(crate) type Renewed = (bool, i64, u64, u64);

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
    /// Jobs whose attempts were used up when their holds ended.
    pub(crate) died: u64,
}

impl Store {
    /// Takes a partition, if it is free.
    pub(crate) async fn acquire(&self, partition: u16, node: &str) -> Result<Timed<Acquired>> {
        let args = (node, self.settings().lease_ms(), &*self.agreed().birth);
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
        type Reply = (i64, Option<i64>, Option<Vec<u64>>, Option<Vec<Passed>>, u64);
        let args = (lease, MOST_AT_ONCE, self.ready_channel());
        let Timed {
            value,
            sent,
            received,
        } = self
            .timed::<Reply>(script!("fire"), self.base(partition), args)
            .await?;
        let (now, next, lateness, passed, died) = value;
        let value = lateness.map(|lateness_ms| Fired {
            now_us: now.unsigned_abs(),
            next_ms: next.and_then(|next| u64::try_from(next).ok()),
            lateness_ms,
            passed: passed.unwrap_or_default(),
            died,
        });
        Ok(Timed {
            value,
            sent,
            received,
        })
    }

    /// Counts the dead jobs of a partition.
    pub(super) async fn dead_in(&self, partition: u16) -> Result<u64> {
        Ok(self.view(partition).await?.0.dead)
    }

    /// Says that a node is alive, and what it has done since its last beat; the names of all that are alive.
    pub(crate) async fn beat(&self, node: &str, said: &str, done: &Past) -> Result<Vec<String>> {
        let Past {
            fired,
            failed,
            late_ms,
        } = *done;
        let lease_ms = self.settings().lease_ms();
        let args = (node, said, lease_ms, fired, failed, late_ms, PART_MS, PARTS);
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

/// The parts of the past that the overview shows: ten minutes.
const PARTS: usize = 60;
const PART_MS: u64 = 10_000;

/// What nodes have done within some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Jobs they have fired.
    pub fired: u64,
    /// Failed attempts that they were told of, over HTTP or by receivers of webhooks.
    pub failed: u64,
    /// The most that one of them was late, in milliseconds.
    pub late_ms: u64,
}

impl Past {
    /// Adds what was done besides.
    pub(crate) fn add(&mut self, more: &Self) {
        self.fired += more.fired;
        self.failed += more.failed;
        self.late_ms = self.late_ms.max(more.late_ms);
    }
}

/// The whole namespace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// Jobs that wait for their time.
    pub pending: u64,
    /// Jobs that have fired and that no consumer has taken yet.
    pub waiting: u64,
    /// How long the first of them has waited, in milliseconds.
    pub waiting_ms: u64,
    /// Jobs that consumers hold.
    pub running: u64,
    /// How long ago one of them was taken, in milliseconds: in each partition, of each queue, the one whose hold ends first.
    pub running_ms: u64,
    /// Jobs whose attempts are used up.
    pub dead: u64,
    /// How long the oldest overdue job has been due, in milliseconds.
    pub lag_ms: u64,
    /// When Redis was last found without what it had kept, or a part of it, in milliseconds since 1970. Jobs, idempotency
    /// keys, schedules, pauses and limits of before are gone there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost_ms: Option<u64>,
    /// Jobs due within each of the next seconds; the first one includes what is overdue.
    pub ahead: Vec<u64>,
    /// The last ten minutes in parts of 10 s, the one under way being last.
    #[serde(default)]
    pub past: Vec<Past>,
    /// The queues that have jobs which are pending, waiting or running, are paused, or have limits; the default one always.
    pub queues: Vec<QueueView>,
    /// The nodes that are alive.
    pub nodes: Vec<NodeView>,
    /// All partitions.
    pub partitions: Vec<PartitionView>,
}

/// A queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueView {
    /// Its name.
    pub queue: Queue,
    /// Jobs that wait for their time.
    pub pending: u64,
    /// Jobs that have fired and that no consumer has taken yet.
    pub waiting: u64,
    /// How long the first of them has waited, in milliseconds.
    pub waiting_ms: u64,
    /// Jobs that consumers hold.
    pub running: u64,
    /// How long ago one of them was taken, in milliseconds; see [`Overview::running_ms`].
    pub running_ms: u64,
    /// Whether it hands nothing out.
    pub paused: bool,
    /// What it hands out at most.
    #[serde(flatten, skip_deserializing)]
    pub limits: Limits,
}

impl QueueView {
    fn new(queue: Queue) -> Self {
        Self {
            queue,
            pending: 0,
            waiting: 0,
            waiting_ms: 0,
            running: 0,
            running_ms: 0,
            paused: false,
            limits: Limits::default(),
        }
    }

    /// Adds what another partition has of the queue.
    fn add(&mut self, (pending, waiting, running, waiting_ms, running_ms): Counts) {
        self.pending += pending;
        self.waiting += waiting;
        self.waiting_ms = self.waiting_ms.max(waiting_ms);
        self.running += running;
        self.running_ms = self.running_ms.max(running_ms);
    }
}

/// Finds a queue among others, or adds it.
fn queue(queues: &mut BTreeMap<Queue, QueueView>, name: Queue) -> &mut QueueView {
    queues
        .entry(name.clone())
        .or_insert_with(|| QueueView::new(name))
}

/// What a partition has of a queue: jobs that are pending, waiting and running, and the ages of the latter two.
type Counts = (u64, u64, u64, u64, u64);

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
    /// Jobs that have fired and that no consumer has taken yet.
    pub waiting: u64,
    /// How long the first of them has waited.
    pub waiting_ms: u64,
    /// Jobs that consumers hold.
    pub running: u64,
    /// How long ago one of them was taken; see [`Overview::running_ms`].
    pub running_ms: u64,
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
        let (limits, paused) = self.queue_rules().await?;
        let mut queues = BTreeMap::new();
        let (mut ahead, mut partitions) = (vec![0; SECONDS_AHEAD], Vec::new());
        for (view, of_queues, ahead_of_one) in views {
            partitions.push(view);
            for (sum, count) in ahead.iter_mut().zip(ahead_of_one) {
                *sum += count;
            }
            for (name, counts) in of_queues {
                queue(&mut queues, name).add(counts);
            }
        }
        for (name, limits) in limits {
            queue(&mut queues, name).limits = limits;
        }
        for name in paused {
            queue(&mut queues, name).paused = true;
        }
        let sum = |of: fn(&PartitionView) -> u64| partitions.iter().map(of).sum();
        let longest = |of: fn(&PartitionView) -> u64| partitions.iter().map(of).max().unwrap_or(0);
        Ok(Overview {
            pending: sum(|one| one.pending),
            waiting: sum(|one| one.waiting),
            waiting_ms: longest(|one| one.waiting_ms),
            running: sum(|one| one.running),
            running_ms: longest(|one| one.running_ms),
            dead: sum(|one| one.dead),
            lag_ms: longest(|one| one.lag_ms),
            lost_ms: self.lost_ms().await?,
            ahead,
            past: self.past().await?,
            queues: queues.into_values().collect(),
            nodes: self.nodes().await?,
            partitions,
        })
    }

    /// Returns what a partition looks like, what it has of each queue, and how many jobs are due in each second ahead.
    async fn view(
        &self,
        partition: u16,
    ) -> Result<(PartitionView, Vec<(Queue, Counts)>, Vec<u64>)> {
        type OfQueue = (String, u64, u64, u64, u64, u64);
        type Reply = (String, i64, u64, u64, Vec<u64>, Vec<OfQueue>);
        let (lease, left, lag_ms, dead, ahead, queues): Reply = self
            .run(script!("overview"), partition, SECONDS_AHEAD)
            .await?;
        let (token, node) = lease.split_once('@').unwrap_or(("0", ""));
        let mut all = QueueView::new(Queue::default());
        let mut of_queues = Vec::with_capacity(queues.len());
        for (name, pending, waiting, running, waiting_ms, running_ms) in queues {
            let counts = (pending, waiting, running, waiting_ms, running_ms);
            all.add(counts);
            of_queues.push((Queue::of_suffix(&name), counts));
        }
        let view = PartitionView {
            partition,
            node: node.to_owned(),
            token: token.parse().unwrap_or(0),
            lease_left_ms: u64::try_from(left).unwrap_or(0),
            pending: all.pending,
            waiting: all.waiting,
            waiting_ms: all.waiting_ms,
            running: all.running,
            running_ms: all.running_ms,
            dead,
            lag_ms,
        };
        Ok((view, of_queues, ahead))
    }

    async fn past(&self) -> Result<Vec<Past>> {
        let args = (PART_MS, PARTS);
        let parts = self.timed::<Vec<(u64, u64, u64)>>(script!("past"), self.nodes_base(), args);
        let past = |(fired, failed, late_ms)| Past {
            fired,
            failed,
            late_ms,
        };
        Ok(parts.await?.value.into_iter().map(past).collect())
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
