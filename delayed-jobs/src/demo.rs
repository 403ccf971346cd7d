//! `delayed-jobs demo`: a Redis, three nodes, producers and consumers, while nodes are killed and paused at
//! random and Sentinel promotes a replica; then a verdict from books that know nothing of Redis.
//!
//! * `books` - what was promised and what came
//! * `load` - producers and consumers; `trouble` - kills and pauses
//! * `told` - the report

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tickwheel_loadtest::parts::{Circumstances, Destination, Failure, Outputs, Progress, Report};
use tokio::sync::watch;

use self::books::Books;
use self::trouble::{Crew, Troubles};
use crate::client::Client;
use crate::local::RedisGroup;
use crate::settings::{Settings, duration, millis, rate};

mod books;
mod load;
mod told;
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
    /// Into how many parts the jobs are divided
    #[arg(long, default_value = "16", value_name = "N")]
    partitions: u16,
    /// How long a partition stays with a node that is silent
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    lease: Duration,
    /// Jobs per second, all producers together
    #[arg(long, default_value = "300", value_parser = rate, value_name = "RATE")]
    rate: f64,
    /// Seed of the random choices [default: new each time, shown in the report]
    #[arg(long, default_value_t = fastrand::u64(..), hide_default_value = true, value_name = "NUMBER")]
    seed: u64,
    /// Where the HTML report goes [default: target/delayed-jobs-report.html, or ./ without target]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// Write no HTML report
    #[arg(long)]
    no_report: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// No progress and no table, only the verdict
    #[arg(long, short)]
    quiet: bool,
}

impl DemoSettings {
    /// Where the results go.
    fn destination(&self) -> Destination {
        let (name, beside) = ("delayed-jobs-report.html", Path::new("target"));
        let place = || if beside.is_dir() { beside.join(name) } else { name.into() };
        let page = (!self.no_report).then(|| self.report.clone().unwrap_or_else(place));
        Destination { page, json: self.json.clone(), workload: None, quiet: self.quiet }
    }
}

const PRODUCERS: usize = 2;
const CONSUMERS: usize = 3;

/// Longest wait for what is still to come after the load.
const LINGER: Duration = Duration::from_secs(40);

/// What a request is given; nodes that are down are asked again and again.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a consumer may hold a job.
pub(crate) const REDELIVER_AFTER: Duration = Duration::from_millis(1500);

/// Runs it; whether the verdict is ok.
///
/// # Errors
///
/// No Redis, or a file or process that the system refuses.
pub(crate) async fn demo(settings: &DemoSettings, program: &Path) -> Result<bool, Failure> {
    let circumstances = Circumstances::now("delayed-jobs");
    let outputs = Outputs::open(&settings.destination())?;
    let report = run(settings, program).await?;
    let ok = report.is_ok();
    outputs.deliver(&report, &circumstances)?;
    Ok(ok)
}

async fn run(settings: &DemoSettings, program: &Path) -> Result<Report, Failure> {
    let system = |error: std::io::Error| Failure::System(error.to_string());
    let mut progress = Progress::new(millis(settings.duration), settings.quiet);
    progress.phase("starting Redis and nodes");
    let mut group = RedisGroup::start().await.map_err(system)?;
    let of_nodes = Settings {
        partitions: settings.partitions,
        lease: settings.lease,
        patience: settings.lease / 3,
        window: Duration::from_secs(3),
        ..group.settings()
    };
    let crew =
        Crew::start(program, &of_nodes, usize::from(settings.nodes)).await.map_err(system)?;
    let client = Client::new(crew.addresses(), PATIENCE);
    let client = Arc::new(client.map_err(|error| Failure::System(error.to_string()))?);
    let books = Arc::new(Books::default());
    let (stop_consumers, end_of_consumers) = watch::channel(false);
    let consumers: Vec<_> = (0..CONSUMERS)
        .map(|n| {
            let seed = settings.seed.wrapping_add(1000 + n as u64);
            let (books, end) = (Arc::clone(&books), end_of_consumers.clone());
            tokio::spawn(load::consume(of_nodes.clone(), books, end, seed))
        })
        .collect();
    let started = Instant::now();
    let end = started + settings.duration;
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|n| {
            let rate = settings.rate / PRODUCERS as f64;
            let seed = settings.seed.wrapping_add(n as u64);
            let (client, books) = (Arc::clone(&client), Arc::clone(&books));
            tokio::spawn(load::produce(client, books, rate, seed, end))
        })
        .collect();
    let trouble =
        tokio::spawn(crew.trouble(Arc::clone(&books), settings.seed, settings.lease, end));
    let (told, half) = (Arc::clone(&books), settings.duration / 2);
    let failover = tokio::spawn(async move {
        tokio::time::sleep(half).await;
        told.tell("Redis killed, its replica promoted".to_owned());
        group.fail_over().await.map(|()| group)
    });
    let seconds = watched(&books, &mut progress, started, end).await;
    progress.phase("waiting for what is still to come");
    let troubles: Troubles = trouble.await.map_err(|e| Failure::System(e.to_string()))??;
    let failed_over = failover.await.map_err(|error| Failure::System(error.to_string()))?;
    let _group = failed_over.map_err(system)?;
    for producer in producers {
        producer.await.map_err(|error| Failure::System(error.to_string()))?;
    }
    linger(&client, &books, &mut progress).await;
    let _ = stop_consumers.send(true);
    for consumer in consumers {
        consumer.await.map_err(|error| Failure::System(error.to_string()))?;
    }
    drop(progress);
    Ok(told::report(settings, &books, &troubles, &seconds, started.elapsed()))
}

/// Accepted and delivered so far, second by second.
async fn watched(
    books: &Books,
    progress: &mut Progress,
    started: Instant,
    end: Instant,
) -> Vec<(u64, u64)> {
    let mut seconds = vec![books.so_far()];
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (accepted, delivered) = books.so_far();
        let passed = started.elapsed();
        if passed.as_secs() as usize >= seconds.len() {
            seconds.push((accepted, delivered));
        }
        progress.at(millis(passed), || {
            format!(
                "{:4.1} s  accepted {accepted}  delivered {delivered}  {}",
                passed.as_secs_f64(),
                books.news()
            )
        });
    }
    seconds
}

/// Until the books balance, but not for ever.
async fn linger(client: &Client, books: &Books, progress: &mut Progress) {
    let start = Instant::now();
    while !books.balance() && start.elapsed() < LINGER {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (accepted, delivered) = books.so_far();
        progress.at(0, || format!("waiting: accepted {accepted}  delivered {delivered}"));
    }
    // Whatever comes twice has time to do so.
    tokio::time::sleep(REDELIVER_AFTER * 2).await;
    while start.elapsed() < LINGER {
        let dead = client.dead().await.unwrap_or_default();
        if books.buried(&dead) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
