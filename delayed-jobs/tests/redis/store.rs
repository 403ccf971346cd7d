//! The steps on the jobs, one by one.

use std::collections::HashSet;

use delayed_jobs::local::RedisProcess;
use delayed_jobs::{JobId, NewJob, Settings, State, Store, StoreError, When};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{MS, fill, job, redis, settings, settings_of};

#[tokio::test]
async fn a_job_is_created_read_moved_and_cancelled() {
    let redis = redis().await;
    let store = Store::open(settings(&redis)).await.unwrap();
    let accepted = store.create(job("tea", 60_000 * MS)).await.unwrap();
    let read = store.get(&accepted.id).await.unwrap();
    assert_eq!((read.state, read.due_ms), (State::Pending, accepted.due_ms));
    assert_eq!((read.payload.as_str(), read.due_ms - read.created_ms), ("tea", 60_000));

    let later = accepted.due_ms + 5_000;
    for _ in 0..2 {
        let moved = store.reschedule(&accepted.id, When::At(later), None).await.unwrap();
        assert_eq!((moved.state, moved.due_ms), (State::Pending, later));
    }
    for _ in 0..2 {
        let found = store.cancel(&accepted.id).await.unwrap();
        assert_eq!((found.state, found.due_ms), (State::Cancelled, later));
    }
    let too_late = store.reschedule(&accepted.id, When::At(later), None).await.unwrap();
    assert_eq!(too_late.state, State::Cancelled);
    assert_eq!(store.overview().await.unwrap().pending, 0);

    let nobody: JobId = "1-0000000000000000".parse().unwrap();
    assert!(matches!(store.cancel(&nobody).await, Err(StoreError::Unknown(_))));
    let elsewhere: JobId = "9-0000000000000000".parse().unwrap();
    assert!(matches!(store.get(&elsewhere).await, Err(StoreError::Unknown(_))));
}

#[tokio::test]
async fn a_key_makes_one_job_and_one_move() {
    let redis = redis().await;
    let store = Store::open(settings(&redis)).await.unwrap();
    let keyed = |payload: &str, delay: u32| NewJob {
        idempotency_key: Some("order-7".to_owned()),
        ..job(payload, delay * MS)
    };
    let first = store.create(keyed("a", 50_000)).await.unwrap();
    let again = store.create(keyed("a", 50_000)).await.unwrap();
    assert_eq!((&again.id, again.due_ms), (&first.id, first.due_ms));
    assert!(again.repeated && !first.repeated);
    for other in [keyed("b", 50_000), keyed("a", 50_001)] {
        let refused = store.create(other).await;
        assert!(matches!(&refused, Err(StoreError::KeyReused(id)) if *id == first.id.to_string()));
    }
    assert_eq!(store.overview().await.unwrap().pending, 1);

    let by = When::After(40_000 * MS);
    let moved = store.reschedule(&first.id, by, Some("move-1")).await.unwrap();
    tokio::time::sleep(5 * MS).await;
    let repeated = store.reschedule(&first.id, by, Some("move-1")).await.unwrap();
    assert_eq!(repeated.due_ms, moved.due_ms);
    let other = store.reschedule(&first.id, by, Some("move-2")).await.unwrap();
    assert!(other.due_ms > moved.due_ms);
}

#[tokio::test]
async fn pages_hold_every_pending_job_once() {
    let redis = redis().await;
    let store = Store::open(settings(&redis)).await.unwrap();
    let mut all: HashSet<JobId> = fill(&store, 60, 9_000 * MS).await.into_iter().collect();
    // Many at one moment, which pages must be able to divide.
    for _ in 0..40 {
        let new = NewJob { when: When::At(4_000_000_000_000), ..job("", MS) };
        all.insert(store.create(new).await.unwrap().id);
    }
    for limit in [1, 7, 25, 99, 100, 1000] {
        let (mut seen, mut from) = (Vec::new(), None::<String>);
        loop {
            let page = store.list(from.as_deref(), limit).await.unwrap();
            assert!(page.jobs.len() <= limit);
            seen.extend(page.jobs.into_iter().map(|job| job.id));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), 100, "pages of {limit}");
        assert_eq!(seen.into_iter().collect::<HashSet<_>>(), all, "pages of {limit}");
    }
    assert!(matches!(store.list(Some("x"), 5).await, Err(StoreError::Unfit(_))));
}

#[tokio::test]
async fn all_nodes_must_agree() {
    let redis = redis().await;
    let first = Store::open(settings(&redis)).await.unwrap();
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut newer = redis::cmd("HSET");
    let _: u64 =
        newer.arg("jobs:settings").arg("layout").arg(9).query_async(&mut connection).await.unwrap();
    let refused = Store::open(first.settings().clone()).await.unwrap_err().to_string();
    assert!(refused.contains("has layout 9, not 1"), "{refused}");
    let _: u64 = newer.arg("layout").arg(1).query_async(&mut connection).await.unwrap();
    let other = Settings { window: 9_000 * MS, ..first.settings().clone() };
    let refused = Store::open(other).await.unwrap_err().to_string();
    assert!(refused.contains("has window_ms 30000, not 9000"), "{refused}");
}

#[tokio::test]
async fn an_old_redis_is_refused_with_the_version_that_is_needed() {
    // A server that says what Redis 5 says to a script, which has no `redis.REDIS_VERSION` there.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = [0; 4096];
        loop {
            let count = stream.read(&mut read).await.unwrap_or(0);
            if count == 0 {
                return;
            }
            let asked = String::from_utf8_lossy(&read[..count]).to_uppercase();
            let answer = match asked.contains("EVAL\r\n") {
                true => "$10\r\nbefore 7.0\r\n".to_owned(),
                false => "+OK\r\n".repeat(asked.matches("*").count().max(1)),
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let refused = Store::open(settings_of(url.clone())).await.unwrap_err().to_string();
    assert!(refused.contains("Redis before 7.0 is too old: 7.0 or newer is needed"), "{refused}");
    server.abort();
}

#[tokio::test]
async fn each_step_stays_in_one_hash_slot() {
    // A cluster of one node refuses a script that touches keys of two slots.
    let redis = RedisProcess::start(&["--cluster-enabled", "yes"]).await.unwrap();
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut assign = redis::cmd("CLUSTER");
    assign.arg("ADDSLOTSRANGE").arg(0).arg(16383);
    let _: () = assign.query_async(&mut connection).await.unwrap();
    crate::support::until("the cluster is up", 5_000 * MS, || {
        let mut connection = connection.clone();
        async move {
            let info: String =
                redis::cmd("CLUSTER").arg("INFO").query_async(&mut connection).await.unwrap();
            info.contains("cluster_state:ok")
        }
    })
    .await;
    let settings = settings(&redis);
    let store = Store::open(settings.clone()).await.unwrap();
    let node = delayed_jobs::Node::start(settings.clone()).await.unwrap();
    let keyed = NewJob { idempotency_key: Some("k".to_owned()), ..job("x", 30 * MS) };
    let id = store.create(keyed).await.unwrap().id;
    let far = store.create(job("y", 90_000 * MS)).await.unwrap().id;
    store.reschedule(&far, When::After(80_000 * MS), None).await.unwrap();
    store.cancel(&far).await.unwrap();
    crate::support::until("it has fired", 5_000 * MS, || async {
        store.get(&id).await.unwrap().state == State::Fired
    })
    .await;
    assert_eq!(store.overview().await.unwrap().nodes.len(), 1);
    node.stop().await;
}
