//! Producers and consumers of the demonstration.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::REDELIVER_AFTER;
use super::books::Books;
use crate::client::{Client, ClientError};
use crate::consumer::Consumer;
use crate::job::{Retry, When};
use crate::settings::{Settings, lock, now_us};
use crate::store::Delivery;

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

/// Requests of one producer under way at a time.
const UNDER_WAY: usize = 256;

/// Milliseconds since 1970. Redis runs on this machine, so its clock is this one.
fn now_ms() -> u64 {
    now_us() / 1000
}

/// Makes a job every `pace` until `end`, and waits for the answers.
pub(super) async fn produce(
    client: Arc<Client>,
    books: Arc<Mutex<Books>>,
    pace: Duration,
    seed: u64,
    end: Instant,
) {
    let mut random = Rng::with_seed(seed);
    let mut lives = JoinSet::new();
    let mut next = Instant::now();
    while Instant::now() < end {
        while lives.len() >= UNDER_WAY {
            lives.join_next().await;
        }
        lives.spawn(live(Arc::clone(&client), Arc::clone(&books), random.fork()));
        next += pace;
        tokio::time::sleep_until(next.into()).await;
    }
    lives.join_all().await;
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
    let payload = json!({ "key": key, "fails": fails });
    let poison = Retry::fixed(POISON_ATTEMPTS, Duration::from_millis(200));
    let retry = (fails == POISON_ATTEMPTS).then_some(&poison);
    let id = match client.create_tried(payload, When::At(due_ms), Some(&key), retry).await {
        Ok(made) => made.id,
        Err(ClientError::Away(_)) => return lock(&books).unsure += 1,
        Err(ClientError::Refused { .. }) => return lock(&books).refused += 1,
    };
    {
        let mut books = lock(&books);
        let job = books.job(&id);
        (job.accepted, job.not_before_ms, job.poison) = (true, due_ms, retry.is_some());
    }
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
    let mut books = lock(&books);
    match changed {
        Ok(_) if fate < CANCELLED => books.job(&id).cancelled = true,
        Ok(_) => {
            books.moved += 1;
            books.job(&id).not_before_ms = due_ms;
        }
        Err(error) => {
            if fate >= CANCELLED {
                // The move came too late, or its answer was lost and it came too late when it was asked
                // for again: the job has fired at one of the two deadlines.
                let job = books.job(&id);
                job.not_before_ms = job.not_before_ms.min(due_ms);
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
    payload["fails"].as_u64().is_some_and(|fails| u64::from(one.attempt) <= fails)
}

/// Takes, books and acknowledges; now and then it dies and comes back.
pub(super) async fn consume(settings: Settings, books: Arc<Mutex<Books>>, seed: u64) {
    let mut random = Rng::with_seed(seed);
    loop {
        let Ok(mut consumer) = Consumer::connect(settings.clone(), REDELIVER_AFTER).await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        loop {
            let batch = consumer.batch().await;
            let arrived = now_ms();
            for one in &batch {
                lock(&books).job(&one.id).came(one.fired_ms, arrived);
            }
            if random.f64() < DYING {
                break;
            }
            let (failed, done): (Vec<_>, Vec<_>) = batch.into_iter().partition(fails);
            // What is neither acknowledged nor given back comes again.
            if consumer.fail(&failed, "this attempt fails").await.is_ok() {
                failed.iter().for_each(|one| lock(&books).job(&one.id).failed += 1);
            }
            let _ = consumer.acknowledge(&done).await;
        }
    }
}
