//! Nodes that are killed and paused at random.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tickwheel_loadtest::parts::Failure;

use super::PATIENCE;
use super::books::Books;
use crate::local::NodeProcess;
use crate::settings::Settings;

/// The nodes of the demonstration.
pub(super) struct Crew {
    program: PathBuf,
    settings: Settings,
    nodes: Vec<NodeProcess>,
}

/// What was done to one node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Suffered {
    pub(super) kills: u64,
    pub(super) pauses: u64,
    /// Pauses beyond a lease.
    pub(super) long_pauses: u64,
}

/// What was done to all of them. Holds the nodes, which end with it.
pub(super) struct Troubles {
    pub(super) suffered: Vec<Suffered>,
    _crew: Crew,
}

impl Crew {
    pub(super) async fn start(
        program: &Path,
        settings: &Settings,
        count: usize,
    ) -> std::io::Result<Self> {
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            nodes.push(NodeProcess::start(program, settings, "127.0.0.1:0").await?);
        }
        Ok(Self { program: program.to_owned(), settings: settings.clone(), nodes })
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address().to_owned()).collect()
    }

    /// Makes trouble until `end`; afterwards all nodes run.
    pub(super) async fn trouble(
        mut self,
        books: Arc<Books>,
        seed: u64,
        lease: Duration,
        end: Instant,
    ) -> Result<Troubles, Failure> {
        let mut random = Rng::with_seed(seed ^ 0x7261_6e64);
        let mut suffered = vec![Suffered::default(); self.nodes.len()];
        let part = |random: &mut Rng, most: Duration| most.mul_f64(random.f64());
        loop {
            tokio::time::sleep(part(&mut random, lease * 2)).await;
            if Instant::now() >= end {
                return Ok(Troubles { suffered, _crew: self });
            }
            // One node at a time, or two; never all.
            let first = random.usize(..self.nodes.len());
            let second = (first + 1) % self.nodes.len();
            let both = random.f64() < 0.3 && self.nodes.len() > 2;
            let victims = if both { vec![first, second] } else { vec![first] };
            let kill = random.bool();
            let time = part(&mut random, lease * 3).max(Duration::from_millis(50));
            for &victim in &victims {
                let record = &mut suffered[victim];
                if kill {
                    record.kills += 1;
                    self.nodes[victim].kill().await.map_err(system)?;
                } else {
                    record.pauses += 1;
                    record.long_pauses += u64::from(time > lease);
                    self.nodes[victim].pause();
                }
            }
            let names: Vec<String> = victims.iter().map(|one| (one + 1).to_string()).collect();
            let (names, what) = (names.join(" and "), if kill { "killed" } else { "paused" });
            books.tell(format!("node {names} {what} for {} ms", time.as_millis()));
            tokio::time::sleep(time).await;
            books.tell("all nodes run".to_owned());
            for &victim in &victims {
                if kill {
                    self.restart(victim).await?;
                } else {
                    self.nodes[victim].resume();
                }
            }
        }
    }

    /// Starts it on the same port, where clients look for it; again and again while Redis is away, as systemd does.
    async fn restart(&mut self, victim: usize) -> Result<(), Failure> {
        let address = self.nodes[victim].address().trim_start_matches("http://").to_owned();
        let start = Instant::now();
        loop {
            match NodeProcess::start(&self.program, &self.settings, &address).await {
                Ok(node) => {
                    self.nodes[victim] = node;
                    return Ok(());
                }
                Err(error) if start.elapsed() > PATIENCE => return Err(system(error)),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

fn system(error: std::io::Error) -> Failure {
    Failure::System(error.to_string())
}
