//! Producers and consumers of the demonstration.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::REDELIVER_AFTER;
use super::books::Books;
use crate::client::{Client, ClientError};
use crate::consumer::Consumer;
use crate::job::{JobId, Retry, When};
use crate::settings::Settings;
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
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Makes jobs at an even pace until `end`, and waits for the answers.
pub(super) async fn produce(
    client: Arc<Client>,
    books: Arc<Books>,
    rate: f64,
    seed: u64,
    end: Instant,
) {
    let mut random = Rng::with_seed(seed);
    let mut lives = JoinSet::new();
    let mut next = Instant::now();
    while Instant::now() < end {
        let seed = random.u64(..);
        while lives.len() >= UNDER_WAY {
            lives.join_next().await;
        }
        lives.spawn(live(Arc::clone(&client), Arc::clone(&books), Rng::with_seed(seed)));
        next += Duration::from_secs_f64(1.0 / rate);
        tokio::time::sleep_until(next.into()).await;
    }
    while lives.join_next().await.is_some() {}
}

/// One job's life, as far as its maker has a part in it.
async fn live(client: Arc<Client>, books: Arc<Books>, mut random: Rng) {
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
        Ok(made) => {
            books.accepted(&made.id, due_ms);
            made.id
        }
        Err(ClientError::Away(_)) => return books.unsure(),
        Err(ClientError::Refused { .. }) => return books.refused(),
    };
    if retry.is_some() {
        books.poison(&id);
    }
    if steady {
        return;
    }
    // Some of these come too late, which is an answer as well.
    let left = due_ms.saturating_sub(now_ms()) as f64;
    tokio::time::sleep(Duration::from_millis((left * 1.02 * random.f64()) as u64)).await;
    if fate < CANCELLED {
        match client.cancel(&id).await {
            Ok(_) => books.cancelled(&id),
            Err(error) => not_changed(&books, &error),
        }
    } else {
        change(&client, &books, &id, now_ms() + delay_ms(&mut random)).await;
    }
}

async fn change(client: &Client, books: &Books, id: &JobId, due_ms: u64) {
    match client.reschedule(id, When::At(due_ms)).await {
        Ok(_) => books.moved(id, due_ms),
        Err(error) => {
            books.perhaps_moved(id, due_ms);
            not_changed(books, &error);
        }
    }
}

fn not_changed(books: &Books, error: &ClientError) {
    // The job may have ended in between; every other refusal is wrong.
    if matches!(error, ClientError::Refused { .. }) && !error.is_too_late() {
        books.refused();
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

/// Takes, books and acknowledges until it is told to end; now and then it dies and comes back.
pub(super) async fn consume(
    settings: Settings,
    books: Arc<Books>,
    mut end: watch::Receiver<bool>,
    seed: u64,
) {
    let mut random = Rng::with_seed(seed);
    loop {
        let Ok(mut consumer) = Consumer::connect(settings.clone(), REDELIVER_AFTER).await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        loop {
            let first = tokio::select! {
                first = consumer.next() => first,
                _ = end.wait_for(|end| *end) => return,
            };
            let mut batch = vec![first];
            batch.extend(consumer.more());
            let arrived = now_ms();
            batch.iter().for_each(|one| books.delivered(one, arrived));
            if random.f64() < DYING {
                break;
            }
            let (failed, done): (Vec<_>, Vec<_>) = batch.into_iter().partition(fails);
            // What is neither acknowledged nor given back comes again.
            if consumer.fail(&failed, "this attempt fails").await.is_ok() {
                failed.iter().for_each(|one| books.failed(&one.id));
            }
            let _ = consumer.acknowledge(&done).await;
        }
    }
}
