//! What people and monitoring want to see.

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use super::access::{Store, script};
use crate::error::StoreError;
use crate::job::Job;

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

/// A part of the list of pending jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page {
    /// Pending jobs, partition by partition, in the order of their deadlines.
    pub jobs: Vec<Job>,
    /// Where the list goes on, if it does.
    pub next: Option<String>,
}

impl Store {
    /// What everything looks like now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    pub async fn overview(&self) -> Result<Overview, StoreError> {
        self.refresh().await?;
        let partitions = 0..self.partitions();
        let views = try_join_all(partitions.map(|partition| self.view(partition))).await?;
        let mut ahead = vec![0; SECONDS_AHEAD];
        for (_, of_one) in &views {
            ahead.iter_mut().zip(of_one).for_each(|(sum, count)| *sum += count);
        }
        let partitions: Vec<PartitionView> = views.into_iter().map(|(view, _)| view).collect();
        Ok(Overview {
            pending: partitions.iter().map(|one| one.pending).sum(),
            unacknowledged: partitions.iter().map(|one| one.unacknowledged).sum(),
            unread: partitions.iter().map(|one| one.unread).sum(),
            unread_ms: partitions.iter().map(|one| one.unread_ms).max().unwrap_or(0),
            unacknowledged_ms: partitions
                .iter()
                .map(|one| one.unacknowledged_ms)
                .max()
                .unwrap_or(0),
            dead: partitions.iter().map(|one| one.dead).sum(),
            lag_ms: partitions.iter().map(|one| one.lag_ms).max().unwrap_or(0),
            ahead,
            nodes: self.nodes().await?,
            partitions,
        })
    }

    async fn view(&self, partition: u16) -> Result<(PartitionView, Vec<u64>), StoreError> {
        type Reply = (String, i64, u64, u64, u64, u64, u64, u64, u64);
        let mut call = script!("overview").key(self.base(partition));
        call.arg(SECONDS_AHEAD);
        let reply: Vec<redis::Value> = self.call(&call).await?.value;
        let ahead = reply.iter().skip(9).filter_map(|value| match value {
            redis::Value::Int(count) => u64::try_from(*count).ok(),
            _ => None,
        });
        let ahead = ahead.collect();
        let head = redis::Value::Array(reply.into_iter().take(9).collect());
        let (lease, left, pending, lag_ms, ready, held, dead, unread_ms, held_ms): Reply =
            redis::from_redis_value(head).map_err(redis::RedisError::from)?;
        let (token, node) = lease.split_once('@').unwrap_or(("0", ""));
        let view = PartitionView {
            partition,
            node: node.to_owned(),
            token: token.parse().unwrap_or(0),
            lease_left_ms: u64::try_from(left).unwrap_or(0),
            pending,
            unacknowledged: ready + held,
            unread: ready,
            unread_ms,
            unacknowledged_ms: unread_ms.max(held_ms),
            dead,
            lag_ms,
        };
        Ok((view, ahead))
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, StoreError> {
        let mut loan = self.link().loan().await?;
        let key = format!("{}:said", self.nodes_base());
        let said: Vec<String> =
            redis::cmd("HVALS").arg(key).query_async(&mut loan.connection).await?;
        let mut nodes: Vec<NodeView> =
            said.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(nodes)
    }
}
