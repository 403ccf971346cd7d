//! What people and monitoring want to see.

use futures_util::future::try_join_all;
use redis::Cmd;
use serde::{Deserialize, Serialize};

use super::access::{Store, script};
use crate::error::Result;

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
    /// [`StoreError::Away`].
    pub async fn overview(&self) -> Result<Overview> {
        self.refresh().await?;
        let partitions = 0..self.partitions();
        let views = try_join_all(partitions.map(|partition| self.view(partition))).await?;
        let mut ahead = vec![0; SECONDS_AHEAD];
        for (_, of_one) in &views {
            ahead.iter_mut().zip(of_one).for_each(|(sum, count)| *sum += count);
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
            self.run(script!("overview"), partition, SECONDS_AHEAD).await?;
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
        let mut nodes: Vec<NodeView> =
            said.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(nodes)
    }
}
