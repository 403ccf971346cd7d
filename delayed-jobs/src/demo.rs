//! `delayed-jobs demo`: a Redis, three nodes, producers and consumers, while nodes are killed and paused at
//! random, one of two queues is paused for a while, and Sentinel promotes a replica; then a verdict from books that know nothing of Redis.
//!
//! `books` holds what was promised and what came.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use self::books::Books;
use crate::client::{Client, ClientError};
use crate::error::Failure;
use crate::inbox::Consumer;
use crate::job::{NewJob, Queue, Retry, When};
use crate::local::{NodeProcess, RedisGroup};
use crate::settings::Settings;
use crate::store::Delivery;
use crate::units::{duration, lock, now_us};

mod books;

/// What the demonstration is made of.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoSettings {
    /// How long jobs are made and nodes are troubled
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    duration: Duration,
    /// Jobs per second
    #[arg(long, default_value = "300", value_parser = clap::value_parser!(u32).range(1..), value_name = "RATE")]
    rate: u32,
    /// Seed of the random choices [default: new each time, shown in the end]
    #[arg(long, default_value_t = fastrand::u64(..), hide_default_value = true, value_name = "NUMBER")]
    seed: u64,
}

const NODES: usize = 3;
const CONSUMERS: u64 = 3;

/// How long a partition stays with a node that is silent.
const LEASE: Duration = Duration::from_secs(1);

/// Longest wait for what is still to come after the load.
const LINGER: Duration = Duration::from_secs(40);

/// What a request is given; nodes that are down are asked again and again.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a consumer may hold a job.
const REDELIVER_AFTER: Duration = Duration::from_millis(1500);

/// Jobs that a consumer takes at a time.
const BATCH: usize = 512;

/// Runs it; whether the verdict is ok.
///
/// # Errors
///
/// No Redis, or a file or process that the system refuses.
pub(crate) async fn demo(settings: &DemoSettings, program: &Path) -> Result<bool, Failure> {
    let mut group = RedisGroup::start().await?;
    let of_nodes = Settings {
        lease: LEASE,
        patience: LEASE / 3,
        ..group.settings()
    };
    let start = async |address: &str| NodeProcess::start(program, &of_nodes, address).await;
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(start("127.0.0.1:0").await?);
    }
    let addresses = nodes.iter().map(|node| node.address().to_owned());
    let client = Arc::new(Client::new(addresses.collect(), PATIENCE)?);
    let books = Arc::new(Mutex::new(Books::default()));
    let mut consumers = JoinSet::new();
    for n in 0..CONSUMERS {
        let seed = settings.seed.wrapping_add(1000 + n);
        let queue = queue(n % 2 == 0);
        consumers.spawn(consume(of_nodes.clone(), queue, Arc::clone(&books), seed));
    }
    let started = Instant::now();
    let end = started + settings.duration;
    let say = |what: &str| eprintln!("{:5.1} s  {what}", started.elapsed().as_secs_f64());
    let failover = async {
        tokio::time::sleep(settings.duration / 2).await;
        say("Redis killed, its replica promoted");
        group.fail_over().await
    };
    let pace = Duration::from_secs(1) / settings.rate;
    let pause = async {
        tokio::time::sleep(settings.duration / 4).await;
        paused(&client, &books, settings.duration / 3, &say).await
    };
    let produced = produce(&client, &books, pace, settings.seed, end);
    let random = Rng::with_seed(settings.seed ^ 0x7261_6e64);
    tokio::try_join!(
        trouble(&mut nodes, start, random, end, say),
        failover,
        pause,
        produced
    )?;
    say("waiting for what is still to come");
    linger(&client, &books).await;
    let audit = lock(&books).audit();
    let ok = audit.breaches.is_empty();
    let verdict = if ok { "ok" } else { "a promise was broken" };
    println!("{audit}\nverdict: {verdict} (seed {})", settings.seed);
    Ok(ok)
}

/// Until the books balance, but not for ever.
async fn linger(client: &Client, books: &Mutex<Books>) {
    let start = Instant::now();
    while {
        let dead = client.dead().await.unwrap_or_default();
        let mut books = lock(books);
        !(books.buried(&dead) && books.balance()) && start.elapsed() < LINGER
    } {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Whatever comes or dies all the same has time to do so.
    tokio::time::sleep(REDELIVER_AFTER * 2).await;
    let dead = client.dead().await.unwrap_or_default();
    lock(books).buried(&dead);
}

/// Half of the jobs are in the default queue, the others in one that is paused for a while.
fn queue(is_default: bool) -> Queue {
    Queue::of_suffix(if is_default { "" } else { "mail" })
}

/// Pauses the named queue for a while: from the answer on until it is asked to go on, it hands nothing out.
async fn paused(
    client: &Client,
    books: &Mutex<Books>,
    time: Duration,
    say: &impl Fn(&str),
) -> io::Result<()> {
    let queue = queue(false);
    let set = async |paused| {
        let set = client.set_paused(&queue, paused).await;
        set.map_err(io::Error::other)
    };
    set(true).await?;
    say(&format!("the queue {queue} is paused"));
    lock(books).paused_from = Some(now_ms());
    tokio::time::sleep(time).await;
    lock(books).paused_from = None;
    say(&format!("the queue {queue} goes on"));
    set(false).await
}

/// Kills and pauses nodes until `end`; afterwards all run.
async fn trouble(
    nodes: &mut [NodeProcess],
    start: impl AsyncFn(&str) -> io::Result<NodeProcess>,
    mut random: Rng,
    end: Instant,
    say: impl Fn(&str),
) -> io::Result<()> {
    loop {
        tokio::time::sleep((LEASE * 2).mul_f64(random.f64())).await;
        if Instant::now() >= end {
            return Ok(());
        }
        // One node at a time, or two; never all.
        let first = random.usize(..NODES);
        let second = (first + 1) % NODES;
        let victims = if random.f64() < 0.3 {
            vec![first, second]
        } else {
            vec![first]
        };
        let kill = random.bool();
        // Some pauses are longer than a lease.
        let time = (LEASE * 3)
            .mul_f64(random.f64())
            .max(Duration::from_millis(50));
        for &victim in &victims {
            match kill {
                true => nodes[victim].kill().await?,
                false => nodes[victim].pause(),
            }
        }
        let what = if kill { "killed" } else { "paused" };
        say(&format!(
            "nodes {victims:?} {what} for {} ms",
            time.as_millis()
        ));
        tokio::time::sleep(time).await;
        for &victim in &victims {
            match kill {
                true => nodes[victim] = restarted(&start, nodes[victim].address()).await?,
                false => nodes[victim].resume(),
            }
        }
    }
}

/// Starts a node on the same port, where clients look for it; again and again while Redis is away, as systemd
/// does.
async fn restarted(
    start: &impl AsyncFn(&str) -> io::Result<NodeProcess>,
    url: &str,
) -> io::Result<NodeProcess> {
    let began = Instant::now();
    loop {
        match start(url.trim_start_matches("http://")).await {
            Err(_) if began.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            ended => return ended,
        }
    }
}

/// How soon and how far ahead jobs are due; the logarithm is spread evenly.
const DELAYS_MS: (f64, f64) = (20.0, 6000.0);

/// Shares of the jobs that are cancelled or moved after a while.
const CANCELLED: f64 = 0.2;
const MOVED: f64 = 0.2;

/// Shares of the others that fail once, and that never work.
const FAILING: f64 = 0.1;
const POISON: f64 = 0.05;

/// Attempts of a job that never works.
const POISON_ATTEMPTS: u32 = 3;

/// Share of the reads after which a consumer dies before it acknowledges.
const DYING: f64 = 0.02;

/// Requests under way at a time.
const UNDER_WAY: usize = 512;

/// Milliseconds since 1970. Redis runs on this machine, so its clock is this one.
fn now_ms() -> u64 {
    now_us() / 1000
}

/// Makes a job every `pace` until `end`, and waits for the answers.
async fn produce(
    client: &Arc<Client>,
    books: &Arc<Mutex<Books>>,
    pace: Duration,
    seed: u64,
    end: Instant,
) -> io::Result<()> {
    let mut random = Rng::with_seed(seed);
    let mut lives = JoinSet::new();
    let mut next = Instant::now();
    while Instant::now() < end {
        while lives.len() >= UNDER_WAY {
            lives.join_next().await;
        }
        lives.spawn(live(Arc::clone(client), Arc::clone(books), random.fork()));
        next += pace;
        tokio::time::sleep_until(next.into()).await;
    }
    lives.join_all().await;
    Ok(())
}

/// One job's life, as far as its maker has a part in it.
async fn live(client: Arc<Client>, books: Arc<Mutex<Books>>, mut random: Rng) {
    let key = format!("demo-{:016x}", random.u64(..));
    let due_ms = now_ms() + delay_ms(&mut random);
    let (fate, luck) = (random.f64(), random.f64());
    let steady = fate >= CANCELLED + MOVED;
    // As many attempts fail.
    let fails = match luck {
        _ if !steady => 0,
        luck if luck < POISON => POISON_ATTEMPTS,
        luck => u32::from(luck < POISON + FAILING),
    };
    let payload = json!({ "key": key, "fails": fails }).to_string();
    let is_poison = fails == POISON_ATTEMPTS;
    let poison = || Retry::fixed(POISON_ATTEMPTS, Duration::from_millis(200));
    let new = NewJob {
        idempotency_key: Some(key),
        retry: is_poison.then(poison),
        queue: queue(random.bool()),
        ..NewJob::new(payload, When::At(due_ms))
    };
    let id = match client.make(&new).await {
        Ok(made) => made.id,
        Err(ClientError::Away(_)) => return lock(&books).unsure += 1,
        Err(ClientError::Refused { .. }) => return lock(&books).refused += 1,
    };
    lock(&books).job(&id).accept(due_ms, is_poison);
    if steady {
        return;
    }
    // Some of these come too late, which is an answer as well.
    let left = due_ms.saturating_sub(now_ms()) as f64;
    tokio::time::sleep(Duration::from_millis((left * 1.02 * random.f64()) as u64)).await;
    let due_ms = now_ms() + delay_ms(&mut random);
    let changed = match fate < CANCELLED {
        true => client.cancel(&id).await,
        false => client.reschedule(&id, When::At(due_ms)).await,
    };
    let answered_ms = now_ms();
    let mut books = lock(&books);
    match changed {
        Ok(found) if fate < CANCELLED => books.job(&id).cancel(answered_ms, found.running),
        Ok(_) => books.job(&id).defer(answered_ms, due_ms),
        Err(error) => {
            if fate >= CANCELLED {
                // The move came too late, or its answer was lost and it came too late when it was asked
                // for again: the job has fired at one of the two deadlines.
                books.job(&id).defer_perhaps(due_ms);
            }
            // The job may have ended in between; every other refusal is wrong.
            let wrong = matches!(error, ClientError::Refused { .. }) && !error.is_too_late();
            books.refused += u64::from(wrong);
        }
    }
}

fn delay_ms(random: &mut Rng) -> u64 {
    let (low, high) = DELAYS_MS;
    (low * (high / low).powf(random.f64())) as u64
}

/// Whether this attempt of a job is one that fails.
fn fails(one: &Delivery) -> bool {
    let payload: Value = serde_json::from_str(&one.payload).unwrap_or_default();
    payload["fails"]
        .as_u64()
        .is_some_and(|fails| u64::from(one.attempt) <= fails)
}

/// Takes, books and acknowledges; now and then it dies and comes back.
async fn consume(settings: Settings, queue: Queue, books: Arc<Mutex<Books>>, seed: u64) {
    let mut random = Rng::with_seed(seed);
    loop {
        let Ok(mut consumer) = Consumer::connect(settings.clone(), REDELIVER_AFTER).await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        consumer = consumer.of(queue.clone());
        loop {
            let batch = consumer.batch(BATCH).await;
            let arrived = now_ms();
            for one in &batch {
                lock(&books).came(&one.id, one.fired_ms, arrived);
            }
            if random.f64() < DYING {
                break;
            }
            let (failed, done): (Vec<_>, Vec<_>) = batch.into_iter().partition(fails);
            // What is neither acknowledged nor given back comes again.
            let _ = consumer.fail(&failed, "this attempt fails").await;
            let _ = consumer.acknowledge(&done).await;
        }
    }
}
