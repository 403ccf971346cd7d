//! The steps on the jobs, one by one.

use delayed_jobs::{NewJob, Settings, Store, StoreError, When};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{MS, Scene, job, say, settings_of};

#[tokio::test]
async fn a_key_makes_one_job_and_one_move() {
    let Scene { store, redis: _redis, .. } = Scene::new().await;
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
async fn all_nodes_must_agree() {
    let scene = Scene::new().await;
    let refused = async |settings: Settings| Store::open(settings).await.unwrap_err().to_string();
    let _: u64 = say(&scene.redis, "HSET jobs:settings layout 9").await;
    let said = refused(scene.settings.clone()).await;
    assert!(said.contains("has layout 9, not 1"), "{said}");
    let _: u64 = say(&scene.redis, "HSET jobs:settings layout 1").await;
    let said = refused(Settings { window: 9_000 * MS, ..scene.settings }).await;
    assert!(said.contains("has window_ms 30000, not 9000"), "{said}");
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
    let refused = Store::open(settings_of(url)).await.unwrap_err().to_string();
    assert!(refused.contains("Redis before 7.0 is too old: 7.0 or newer is needed"), "{refused}");
    server.abort();
}
