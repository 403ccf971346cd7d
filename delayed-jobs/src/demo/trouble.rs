//! Nodes that are killed and paused at random.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::PATIENCE;
use crate::local::NodeProcess;
use crate::settings::Settings;

/// The nodes of the demonstration, and how often they were killed and paused.
pub(super) struct Crew<'a> {
    program: &'a Path,
    settings: &'a Settings,
    nodes: Vec<NodeProcess>,
    pub(super) kills: usize,
    pub(super) pauses: usize,
}

impl<'a> Crew<'a> {
    pub(super) async fn start(
        program: &'a Path,
        settings: &'a Settings,
        count: u16,
    ) -> io::Result<Self> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(NodeProcess::start(program, settings, "127.0.0.1:0").await?);
        }
        Ok(Self { program, settings, nodes, kills: 0, pauses: 0 })
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address().to_owned()).collect()
    }

    /// Makes trouble until `end`; afterwards all nodes run.
    pub(super) async fn trouble(
        &mut self,
        seed: u64,
        end: Instant,
        say: impl Fn(&str),
    ) -> io::Result<()> {
        let mut random = Rng::with_seed(seed ^ 0x7261_6e64);
        let lease = self.settings.lease;
        loop {
            tokio::time::sleep((lease * 2).mul_f64(random.f64())).await;
            if Instant::now() >= end {
                return Ok(());
            }
            // One node at a time, or two; never all.
            let first = random.usize(..self.nodes.len());
            let second = (first + 1) % self.nodes.len();
            let both = random.f64() < 0.3 && self.nodes.len() > 2;
            let victims = if both { vec![first, second] } else { vec![first] };
            let kill = random.bool();
            // Some pauses are longer than a lease.
            let time = (lease * 3).mul_f64(random.f64()).max(Duration::from_millis(50));
            for &victim in &victims {
                match kill {
                    true => self.nodes[victim].kill().await?,
                    false => self.nodes[victim].pause(),
                }
            }
            *if kill { &mut self.kills } else { &mut self.pauses } += victims.len();
            let what = if kill { "killed" } else { "paused" };
            say(&format!("nodes {victims:?} {what} for {} ms", time.as_millis()));
            tokio::time::sleep(time).await;
            for &victim in &victims {
                match kill {
                    true => self.restart(victim).await?,
                    false => self.nodes[victim].resume(),
                }
            }
        }
    }

    /// Starts it on the same port, where clients look for it; again and again while Redis is away, as systemd does.
    async fn restart(&mut self, victim: usize) -> io::Result<()> {
        let address = self.nodes[victim].address().trim_start_matches("http://").to_owned();
        let start = Instant::now();
        loop {
            match NodeProcess::start(self.program, self.settings, &address).await {
                Ok(node) => {
                    self.nodes[victim] = node;
                    return Ok(());
                }
                Err(error) if start.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}
