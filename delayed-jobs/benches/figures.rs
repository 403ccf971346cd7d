//! Measures lateness, throughput and failover: the same work for this program, for a worker that polls the same Redis,
//! and for other libraries where they are installed, one after the other on a fresh Redis each. Prints a table in
//! Markdown. `cargo bench -- --help` lists the options.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use delayed_jobs::local::{NodeProcess, RedisProcess};
use delayed_jobs::{Client, Consumer, NewJob, Priority, Queue, Settings, Store, When};
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::{Mutex, Semaphore, mpsc};

/// Why a contestant could not be measured.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures lateness, throughput and failover beside a worker that polls; a table in Markdown
#[derive(Debug, Parser)]
struct FigureSettings {
    /// Time of paced load per contestant
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "DURATION")]
    duration: Duration,
    /// Jobs per second meanwhile
    #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u32).range(1..), value_name = "RATE")]
    rate: u32,
    /// Jobs that are all due at one moment
    #[arg(long, default_value = "20000", value_name = "N")]
    burst: u64,
    /// Kills of a node
    #[arg(long, default_value = "5", value_name = "N")]
    failovers: usize,
    /// Folder with the programs of other libraries: the absolute path of target/peers
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// How long a consumer may hold a job.
const HOLD: Duration = Duration::from_secs(120);

/// How often the polling worker asks, and how many jobs it takes at a time.
const POLL: Duration = Duration::from_millis(100);
const POLLED: isize = 100;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let program = Path::new(env!("CARGO_BIN_EXE_delayed-jobs"));
    Ok(match figures(&FigureSettings::parse(), program).await? {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Microseconds since 1970.
fn now_us() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Runs everything and prints a table; whether all jobs came and none early.
async fn figures(settings: &FigureSettings, program: &Path) -> Result<bool, Failure> {
    let (store, http) = (
        ours(settings, program).await?,
        ours_over_http(settings, program).await?,
    );
    let mut rows = vec![store, http, polling(settings).await?];
    if let Some(folder) = &settings.peers {
        rows.extend(foreign(settings, folder).await?);
    }
    println!("{}", HEAD);
    rows.iter().for_each(|row| println!("{}", row.0));
    priorities(program).await?;
    let took = failover(settings.failovers, program).await?;
    println!(
        "\nFailover, {} kills with a lease of 3 s: {took:.3?}",
        took.len()
    );
    Ok(rows.iter().all(|row| row.1))
}

/// A fresh Redis, a node in a process of its own that holds everything, and their settings.
async fn started(program: &Path) -> Result<(RedisProcess, NodeProcess, Settings), Failure> {
    let redis = RedisProcess::start(&[]).await?;
    let settings = Settings {
        redis: redis.url(),
        ..Settings::default()
    };
    let node = NodeProcess::start(program, &settings, "127.0.0.1:0").await?;
    held_by(&Store::open(settings.clone()).await?, 1).await?;
    Ok((redis, node, settings))
}

async fn ours(work: &FigureSettings, program: &Path) -> Result<Row, Failure> {
    let (_redis, _node, settings) = started(program).await?;
    let store = Store::open(settings.clone()).await?;
    let mut consumer = Consumer::connect(settings, HOLD).await?;
    let consume = |arrived: Arrived| async move {
        loop {
            let batch = consumer.batch(512).await;
            let now = now_us();
            for number in batch.iter().filter_map(|one| one.payload.parse().ok()) {
                let _ = arrived.send((number, now));
            }
            let _ = consumer.acknowledge(&batch).await;
        }
    };
    let accept = async |number: u64, due_ms| {
        let job = NewJob::new(number.to_string(), When::At(due_ms));
        store.create(job).await.map(drop).map_err(Failure::from)
    };
    work.measure("delayed-jobs, one node", accept, consume)
        .await
}

/// Measures how fast one consumer takes and ends jobs that have fired, without priorities and with ten.
async fn priorities(program: &Path) -> Result<(), Failure> {
    println!("\n| taken and ended/s, at a time | 1 | 64 | 512 |\n|---|---:|---:|---:|");
    for (name, count) in [("no priorities", 1), ("ten priorities", 10)] {
        let mut line = format!("| {name} |");
        for (most, jobs) in [(1, 2_000), (64, 20_000), (512, 20_000)] {
            let (_redis, _node, settings) = started(program).await?;
            let store = Store::open(settings.clone()).await?;
            let due = stream::iter(0..jobs).map(async |number: u64| {
                let priority = Priority::new((number % count) as u8)?;
                let new = NewJob::new(number.to_string(), When::After(Duration::ZERO));
                let made = store.create(NewJob { priority, ..new }).await;
                made.map(drop).map_err(Failure::from)
            });
            accepted(due, UNDER_WAY).await?;
            while store.overview().await?.waiting < jobs {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let mut consumer = Consumer::connect(settings, HOLD).await?;
            let (start, mut taken) = (Instant::now(), 0);
            while taken < jobs {
                let batch = consumer.batch(most).await;
                taken += consumer.acknowledge(&batch).await?;
            }
            let per_second = jobs as f64 / start.elapsed().as_secs_f64();
            line = format!("{line} {per_second:.0} |");
        }
        println!("{line}");
    }
    Ok(())
}

/// The same with a request over HTTP for each job, and one for up to 256 that are taken or acknowledged.
async fn ours_over_http(work: &FigureSettings, program: &Path) -> Result<Row, Failure> {
    let (_redis, node, _) = started(program).await?;
    let client = || Client::new(vec![node.address().to_owned()], Duration::from_secs(30));
    let (producer, consumer) = (client()?, client()?);
    let consume = |arrived: Arrived| async move {
        loop {
            let taken = consumer
                .take(&[Queue::default()], 256, Duration::from_secs(5), HOLD)
                .await;
            let (batch, now) = (taken.unwrap_or_default(), now_us());
            for number in batch.iter().filter_map(|one| one.payload.parse().ok()) {
                let _ = arrived.send((number, now));
            }
            let receipts: Vec<String> = batch.into_iter().map(|one| one.receipt).collect();
            let _ = consumer.acknowledge(&receipts).await;
        }
    };
    let accept = async |number: u64, due_ms| {
        let accepted = producer.create(number.into(), When::At(due_ms), None).await;
        accepted.map(drop).map_err(Failure::from)
    };
    work.measure("delayed-jobs over HTTP", accept, consume)
        .await
}

/// The usual loop: a sorted set, asked again and again for what is due; whoever removes an entry has it.
async fn polling(work: &FigureSettings) -> Result<Row, Failure> {
    let server = RedisProcess::start(&[]).await?;
    let connection = async || {
        redis::Client::open(server.url())?
            .get_multiplexed_async_connection()
            .await
    };
    let (accepts, polls) = (connection().await?, connection().await?);
    let accept = async |number, due_ms| {
        let id = format!("{:016x}", fastrand::u64(..));
        let mut both = redis::pipe();
        both.atomic();
        both.hset("polled:payloads", &id, number).ignore();
        both.zadd("polled:due", &id, due_ms).ignore();
        both.query_async::<()>(&mut accepts.clone())
            .await
            .map_err(Failure::from)
    };
    work.measure("polling every 100 ms", accept, |arrived| {
        poll(polls, arrived)
    })
    .await
}

async fn poll(mut connection: MultiplexedConnection, arrived: Arrived) -> redis::RedisResult<()> {
    loop {
        let now_ms = now_us() / 1000;
        let due: Vec<String> = connection
            .zrangebyscore_limit("polled:due", 0, now_ms, 0, POLLED)
            .await?;
        if !due.is_empty() {
            // In one round trip each, as a worker that has been tuned does.
            let mut take = redis::pipe();
            for id in &due {
                take.zrem("polled:due", id);
            }
            let taken: Vec<u8> = take.query_async(&mut connection).await?;
            let mine: Vec<&String> = due
                .iter()
                .zip(taken)
                .filter(|(_, taken)| *taken == 1)
                .map(|(id, _)| id)
                .collect();
            let payloads: Vec<u64> = connection.hmget("polled:payloads", &mine).await?;
            let now = now_us();
            for number in payloads {
                let _ = arrived.send((number, now));
            }
            let _: () = connection.hdel("polled:payloads", &mine).await?;
        }
        if due.len() as isize != POLLED {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// What runs each of them, if it is there.
const PROGRAMS: [(&str, &str); 2] = [
    ("bullmq/node_modules/bullmq", "node bullmq/worker.mjs"),
    ("apalis", "./apalis"),
];

/// How long a program may take to come up.
const START: Duration = Duration::from_secs(20);

/// Measures programs of other libraries. Each is told the address of a Redis, reads `number due_ms` per line, answers `+`
/// per accepted job and `number arrived_us` per fired one, and begins with `ready NAME`.
async fn foreign(work: &FigureSettings, folder: &Path) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (needed, command) in PROGRAMS {
        if folder.join(needed).exists() {
            rows.push(foreign_one(work, folder, command).await?);
        } else {
            eprintln!("skipped: no {needed}; delayed-jobs/benches/peers/install.sh installs it");
        }
    }
    Ok(rows)
}

async fn foreign_one(work: &FigureSettings, folder: &Path, command: &str) -> Result<Row, Failure> {
    let redis = RedisProcess::start(&[]).await?;
    let mut child = Command::new("sh")
        .args(["-c", &format!("exec {command} {}", redis.port())])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("a program without input or output".into());
    };
    let mut lines = BufReader::new(output).lines();
    let ready = tokio::time::timeout(START, lines.next_line()).await;
    let ready = ready
        .ok()
        .and_then(Result::ok)
        .flatten()
        .unwrap_or_default();
    let Some(name) = ready.strip_prefix("ready ").map(str::to_owned) else {
        return Err(format!("{command} did not come up: {ready}").into());
    };
    let (input, accepted) = (Mutex::new(input), Arc::new(Semaphore::new(0)));
    let answers = Arc::clone(&accepted);
    let consume = |arrived: Arrived| async move {
        while let Ok(Some(line)) = lines.next_line().await {
            match line
                .split_once(' ')
                .map(|(number, at)| (number.parse(), at.parse()))
            {
                None => answers.add_permits(1),
                Some((Ok(number), Ok(at))) => drop(arrived.send((number, at))),
                Some(_) => {}
            }
        }
        answers.close();
    };
    let accept = async |number, due_ms| {
        let line = format!("{number} {due_ms}\n");
        input.lock().await.write_all(line.as_bytes()).await?;
        // Answers have no names: any one of them lets one request go on. None comes from a program that has ended.
        accepted.acquire().await?.forget();
        Ok(())
    };
    work.measure(&name, accept, consume).await
}

/// How long after a kill the other node holds everything.
async fn failover(count: usize, program: &Path) -> Result<Vec<Duration>, Failure> {
    let (_redis, mut stays, settings) = started(program).await?;
    let store = Store::open(settings.clone()).await?;
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let new = NodeProcess::start(program, &settings, "127.0.0.1:0").await?;
        let mut victim = std::mem::replace(&mut stays, new);
        held_by(&store, 2).await?;
        // At any time between two beats.
        tokio::time::sleep(settings.lease.mul_f64(fastrand::f64())).await;
        victim.kill().await?;
        let start = Instant::now();
        held_by(&store, 1).await?;
        took.push(start.elapsed());
    }
    Ok(took)
}

/// Waits until so many nodes hold all partitions between them.
async fn held_by(store: &Store, nodes: usize) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        let overview = store.overview().await?;
        let names: HashSet<_> = overview
            .partitions
            .iter()
            .map(|one| one.node.as_str())
            .collect();
        if !names.contains(&"") && names.len() == nodes {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(format!("{nodes} nodes do not share the partitions").into())
}

/// Due so many milliseconds ahead, spread evenly.
const AHEAD_MS: std::ops::Range<u64> = 200..2000;

/// Requests under way while accepting at full speed.
const UNDER_WAY: usize = 64;

/// How long accepting at full speed is measured.
const FULL_SPEED: Duration = Duration::from_secs(4);

/// Longest wait for what is still to come.
const LINGER: Duration = Duration::from_secs(60);

/// One contestant's line of the table, and whether all came and none early.
type Row = (String, bool);

/// The head of the table of rows.
const HEAD: &str = "\
| | accepted/s | fired/s | late p50 | p99 | p99.9 | early | missing |
|---|---:|---:|---:|---:|---:|---:|---:|";

/// Where arrivals are told: job number, microseconds since 1970.
type Arrived = mpsc::UnboundedSender<(u64, u64)>;

impl FigureSettings {
    /// Paced load, a burst, and full speed. `accept` accepts a job with a number, due at a moment; `consume` takes what
    /// fires and says so.
    async fn measure<F: Future<Output: Send> + Send + 'static>(
        &self,
        name: &str,
        accept: impl AsyncFn(u64, u64) -> Result<(), Failure>,
        consume: impl FnOnce(Arrived) -> F,
    ) -> Result<Row, Failure> {
        eprintln!("{name} ...");
        let (arrived, mut arrivals) = mpsc::unbounded_channel();
        let consuming = tokio::spawn(consume(arrived));

        let count = (self.duration.as_secs_f64() * f64::from(self.rate)) as u64;
        let at = |number: u64| Duration::from_secs_f64(number as f64 / f64::from(self.rate));
        let (start, start_ms) = (Instant::now(), now_us() / 1000);
        let ahead = |number| start_ms + at(number).as_millis() as u64 + fastrand::u64(AHEAD_MS);
        let due: Vec<u64> = (0..count).map(ahead).collect();
        let paced = stream::iter(0..count).map(async |number| {
            tokio::time::sleep_until((start + at(number)).into()).await;
            accept(number, due[number as usize]).await
        });
        let (made, came) =
            tokio::join!(accepted(paced, UNDER_WAY * 4), gather(&mut arrivals, count));
        made?;
        let late = |(number, at): (&u64, &u64)| *at as i64 - (due[*number as usize] * 1000) as i64;
        let mut late_us: Vec<i64> = came.iter().map(late).collect();
        late_us.sort_unstable();
        let early = late_us.iter().filter(|late| **late < 0).count();
        let missing = count - came.len() as u64;

        let due_ms = now_us() / 1000 + 4000 + self.burst / 5;
        let burst = stream::iter(0..self.burst).map(|number| accept(number, due_ms));
        accepted(burst, UNDER_WAY).await?;
        let came = gather(&mut arrivals, self.burst).await;
        // From the moment at which all are due until the last has come; none if one is missing.
        let last = came
            .values()
            .max()
            .filter(|_| came.len() as u64 == self.burst);
        let seconds = |last: &u64| last.saturating_sub(due_ms * 1000).max(1) as f64 / 1e6;
        let fired = last.map(|last| format!("{:.0}", self.burst as f64 / seconds(last)));
        let fired = fired.as_deref().unwrap_or("-");

        let (far, start) = (now_us() / 1000 + 3_600_000, Instant::now());
        let full_speed = stream::iter(0..)
            .take_while(|_| std::future::ready(start.elapsed() < FULL_SPEED))
            .map(|number| accept(number, far));
        let made = accepted(full_speed, UNDER_WAY).await?;
        let per_second = made as f64 / start.elapsed().as_secs_f64();
        consuming.abort();

        let late = [0.5, 0.99, 0.999].map(|share| {
            let at = (late_us.len().saturating_sub(1) as f64 * share).round() as usize;
            let late = late_us
                .get(at)
                .map_or(f64::NAN, |late| *late as f64 / 1000.0);
            format!("{late:.1} ms")
        });
        let late = late.join(" | ");
        let line = format!("| {name} | {per_second:.0} | {fired} | {late} | {early} | {missing} |");
        Ok((line, early == 0 && missing == 0))
    }
}

/// Makes requests, so many at a time, and counts them.
async fn accepted<F: Future<Output = Result<(), Failure>>>(
    requests: impl Stream<Item = F>,
    under_way: usize,
) -> Result<usize, Failure> {
    requests
        .buffer_unordered(under_way)
        .try_fold(0, async |n, ()| Ok(n + 1))
        .await
}

/// The first arrival of each of so many jobs, or of as many as come.
async fn gather(
    arrivals: &mut mpsc::UnboundedReceiver<(u64, u64)>,
    count: u64,
) -> HashMap<u64, u64> {
    let mut came = HashMap::new();
    while (came.len() as u64) < count {
        match tokio::time::timeout(LINGER, arrivals.recv()).await {
            Ok(Some((number, at))) => drop(came.entry(number).or_insert(at)),
            _ => break,
        }
    }
    came
}
