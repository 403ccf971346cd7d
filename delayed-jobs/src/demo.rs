//! `delayed-jobs demo`: a Redis, three nodes, producers and consumers, while nodes are killed and paused at
//! random and Sentinel promotes a replica; then a verdict from books that know nothing of Redis.
//!
//! * `books` - what was promised and what came
//! * `load` - producers and consumers; `trouble` - kills and pauses

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::JoinSet;

use self::books::Books;
use self::trouble::Crew;
use crate::client::Client;
use crate::error::Failure;
use crate::local::RedisGroup;
use crate::settings::{Settings, duration, lock, rate};

mod books;
mod load;
mod trouble;

/// What the demonstration is made of.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoSettings {
    /// How long jobs are made and nodes are troubled
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    duration: Duration,
    /// Nodes, each a process
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(2..=20), value_name = "N")]
    nodes: u16,
    /// How long a partition stays with a node that is silent
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    lease: Duration,
    /// Jobs per second, all producers together
    #[arg(long, default_value = "300", value_parser = rate, value_name = "RATE")]
    rate: f64,
    /// Seed of the random choices [default: new each time, shown in the end]
    #[arg(long, default_value_t = fastrand::u64(..), hide_default_value = true, value_name = "NUMBER")]
    seed: u64,
}

const PRODUCERS: u32 = 2;
const CONSUMERS: u64 = 3;

/// Longest wait for what is still to come after the load.
const LINGER: Duration = Duration::from_secs(40);

/// What a request is given; nodes that are down are asked again and again.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a consumer may hold a job.
const REDELIVER_AFTER: Duration = Duration::from_millis(1500);

/// Runs it; whether the verdict is ok.
///
/// # Errors
///
/// No Redis, or a file or process that the system refuses.
pub(crate) async fn demo(settings: &DemoSettings, program: &Path) -> Result<bool, Failure> {
    let mut group = RedisGroup::start().await?;
    let of_nodes = Settings {
        lease: settings.lease,
        patience: settings.lease / 3,
        window: Duration::from_secs(3),
        ..group.settings()
    };
    let mut crew = Crew::start(program, &of_nodes, settings.nodes).await?;
    let client = Arc::new(Client::new(crew.addresses(), PATIENCE)?);
    let books = Arc::new(Mutex::new(Books::default()));
    let mut consumers = JoinSet::new();
    for n in 0..CONSUMERS {
        let seed = settings.seed.wrapping_add(1000 + n);
        consumers.spawn(load::consume(of_nodes.clone(), Arc::clone(&books), seed));
    }
    let started = Instant::now();
    let end = started + settings.duration;
    let mut producers = JoinSet::new();
    for n in 0..PRODUCERS {
        let pace = Duration::from_secs_f64(f64::from(PRODUCERS) / settings.rate);
        let seed = settings.seed.wrapping_add(n.into());
        producers.spawn(load::produce(Arc::clone(&client), Arc::clone(&books), pace, seed, end));
    }
    let say = |what: &str| eprintln!("{:5.1} s  {what}", started.elapsed().as_secs_f64());
    let failover = async {
        tokio::time::sleep(settings.duration / 2).await;
        say("Redis killed, its replica promoted");
        group.fail_over().await
    };
    tokio::try_join!(crew.trouble(settings.seed, end, say), failover)?;
    producers.join_all().await;
    say("waiting for what is still to come");
    linger(&client, &books).await;
    let audit = lock(&books).audit();
    println!("{audit}\n{} kills and {} pauses of nodes", crew.kills, crew.pauses);
    println!("verdict: {} (seed {})", audit.verdict(), settings.seed);
    Ok(audit.breaches.is_empty())
}

/// Until the books balance, but not for ever.
async fn linger(client: &Client, books: &Mutex<Books>) {
    let start = Instant::now();
    while !lock(books).balance() && start.elapsed() < LINGER {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Whatever comes twice has time to do so.
    tokio::time::sleep(REDELIVER_AFTER * 2).await;
    while start.elapsed() < LINGER {
        let dead = client.dead().await.unwrap_or_default();
        if lock(books).buried(&dead) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
