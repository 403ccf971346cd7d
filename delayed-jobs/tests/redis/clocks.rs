//! The clock of Redis is set back. The tests move what it has written instead, as if it had been ahead before.

use delayed_jobs::{Consumer, Limits, Queue};

use crate::support::{MS, Scene, job, now_ms, say, until};

const AHEAD: u64 = 600_000;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_node_held_is_taken() {
    let (scene, _node) = Scene::served().await;
    let heard = now_ms() + AHEAD;
    let _: u64 = say(
        &scene.redis,
        &format!("ZADD jobs:{{nodes}}:alive {heard} ghost"),
    )
    .await;
    let _: String = say(
        &scene.redis,
        &format!("SET jobs:{{0}}:lease 9@ghost PX {AHEAD}"),
    )
    .await;
    until("the ghost is gone", async || {
        let alive: Option<u64> = say(&scene.redis, "ZSCORE jobs:{nodes}:alive ghost").await;
        alive.is_none()
    })
    .await;
    scene.shared_by(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_and_permits_end() {
    let (scene, _node) = Scene::served_with(|settings| settings.partitions = 1).await;
    let queue: Queue = "mail".parse().unwrap();
    let limits = Limits {
        concurrency: Some(1),
        rate: None,
    };
    scene.store.set_limits(&queue, &limits).await.unwrap();
    let consumer = Consumer::connect(scene.settings.clone(), 1_000 * MS)
        .await
        .unwrap();
    let mut consumer = consumer.of(queue.clone());
    let id = scene
        .create(delayed_jobs::NewJob {
            queue,
            ..job("x", MS)
        })
        .await;
    assert_eq!(consumer.next().await.attempt, 1);
    let _: f64 = say(
        &scene.redis,
        &format!("ZINCRBY jobs:{{0}}:holds {AHEAD} mail"),
    )
    .await;
    let _: f64 = say(
        &scene.redis,
        &format!("ZINCRBY jobs:{{0}}:held:mail {AHEAD} {id}"),
    )
    .await;
    let permit = format!("ZINCRBY jobs:{{queues}}:held:mail {AHEAD} {id}.1p");
    let _: f64 = say(&scene.redis, &permit).await;
    for clock in ["jobs:{0}:clock", "jobs:{queues}:clock:mail"] {
        let _: () = say(&scene.redis, &format!("SET {clock} {}", now_ms() + AHEAD)).await;
    }
    let again = tokio::time::timeout(20_000 * MS, consumer.next()).await;
    assert_eq!(again.expect("the hold ends").attempt, 2);
}
