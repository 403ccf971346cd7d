//! `delayed-jobs demo`: a Redis, three nodes, producers and consumers, while nodes are killed and paused at
//! random; then a verdict from books that know nothing of Redis.
//!
//! * `books` - what was promised and what came
//! * `load` - producers and consumers; `trouble` - kills and pauses
//! * `told` - the report

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwheel_loadtest::parts::{Circumstances, Destination, Failure, Outputs, Progress, Report};
use tokio::sync::watch;

use self::books::Books;
use self::trouble::{Crew, Troubles};
use crate::client::Client;
use crate::local::RedisProcess;
use crate::settings::Settings;

mod books;
mod load;
mod told;
mod trouble;

/// What the demonstration is made of.
#[derive(Clone, Debug)]
pub(crate) struct DemoSettings {
    pub(crate) duration: Duration,
    pub(crate) nodes: usize,
    pub(crate) partitions: u16,
    pub(crate) lease: Duration,
    pub(crate) producers: usize,
    pub(crate) consumers: usize,
    /// Jobs per second, all producers together.
    pub(crate) rate: f64,
    pub(crate) seed: u64,
    pub(crate) report: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) quiet: bool,
}

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
    let (page, json) = (settings.report.clone(), settings.json.clone());
    let outputs = Destination { page, json, workload: None, quiet: settings.quiet };
    let outputs = Outputs::open(&outputs)?;
    let report = run(settings, program).await?;
    let ok = report.is_ok();
    outputs.deliver(&report, &circumstances)?;
    Ok(ok)
}

async fn run(settings: &DemoSettings, program: &Path) -> Result<Report, Failure> {
    let system = |error: std::io::Error| Failure::System(error.to_string());
    let redis = RedisProcess::start(&[]).await.map_err(system)?;
    let of_nodes = Settings {
        redis: redis.url(),
        partitions: settings.partitions,
        lease: settings.lease,
        patience: settings.lease / 3,
        window: Duration::from_secs(3),
        ..Settings::default()
    };
    let mut progress = Progress::new(millis(settings.duration), settings.quiet);
    progress.phase("starting Redis and nodes");
    let crew = Crew::start(program, &of_nodes, settings.nodes).await.map_err(system)?;
    let client = Client::new(crew.addresses(), PATIENCE);
    let client = Arc::new(client.map_err(|error| Failure::System(error.to_string()))?);
    let books = Arc::new(Books::default());
    let (stop_consumers, end_of_consumers) = watch::channel(false);
    let consumers: Vec<_> = (0..settings.consumers)
        .map(|n| {
            let seed = settings.seed.wrapping_add(1000 + n as u64);
            let (books, end) = (Arc::clone(&books), end_of_consumers.clone());
            tokio::spawn(load::consume(of_nodes.clone(), books, end, n, seed))
        })
        .collect();
    let started = Instant::now();
    let end = started + settings.duration;
    let producers: Vec<_> = (0..settings.producers)
        .map(|n| {
            let rate = settings.rate / settings.producers as f64;
            let seed = settings.seed.wrapping_add(n as u64);
            let (client, books) = (Arc::clone(&client), Arc::clone(&books));
            tokio::spawn(load::produce(client, books, rate, seed, end))
        })
        .collect();
    let trouble =
        tokio::spawn(crew.trouble(Arc::clone(&books), settings.seed, settings.lease, end));
    let seconds = watched(&books, &mut progress, started, end).await;
    progress.phase("waiting for what is still to come");
    let troubles: Troubles = trouble.await.map_err(|e| Failure::System(e.to_string()))??;
    for producer in producers {
        producer.await.map_err(|error| Failure::System(error.to_string()))?;
    }
    linger(&books, &mut progress).await;
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
async fn linger(books: &Books, progress: &mut Progress) {
    let start = Instant::now();
    while !books.balance() && start.elapsed() < LINGER {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (accepted, delivered) = books.so_far();
        progress.at(0, || format!("waiting: accepted {accepted}  delivered {delivered}"));
    }
    // Whatever comes twice has time to do so.
    tokio::time::sleep(REDELIVER_AFTER * 2).await;
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
