//! Nodes and consumers in this process.

use std::collections::HashSet;
use std::time::Duration;

use delayed_jobs::{Consumer, NewJob, Node, Settings, State, Store, StoreError, When};
use tokio::time::timeout;

use crate::support::{HOUR, MS, Scene, collect, each_came_once, job, now_ms, patient, say, until};

#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_in_time_near_and_far_moved_and_not_cancelled() {
    let scene = Scene::new().await;
    let node = Node::start(scene.settings.clone()).await.unwrap();
    let store = &scene.store;
    let mut ids = scene.fill(200, 2_500 * MS).await;
    let mut cancelled = Vec::new();
    for (n, id) in ids.iter().enumerate().skip(100) {
        match n % 4 {
            0 => {
                store.cancel(id).await.unwrap();
                cancelled.push(id.clone());
            }
            1 => drop(
                store
                    .reschedule(id, When::After(100 * MS), None)
                    .await
                    .unwrap(),
            ),
            2 => drop(
                store
                    .reschedule(id, When::After(1_900 * MS), None)
                    .await
                    .unwrap(),
            ),
            _ => {}
        }
    }
    ids.retain(|id| !cancelled.contains(id));
    let got = scene.collect(&ids).await;
    assert!(each_came_once(&got), "nothing has failed");
    assert!(cancelled.iter().all(|id| !got.contains_key(id)));
    // A consumer may be faster than the node that counts.
    until("the node has counted all", async || {
        node.fired() >= ids.len() as u64
    })
    .await;
    assert_eq!(node.fired(), ids.len() as u64);
    let mut late: Vec<u64> = got
        .values()
        .map(|all| all[0].fired_ms - all[0].due_ms)
        .collect();
    late.sort_unstable();
    assert!(
        late[late.len() / 2] < 100,
        "half of them are later than 100 ms: {late:?}"
    );
    for id in &ids {
        assert_eq!(scene.state(id).await, State::Done);
        assert_eq!(
            store.cancel(id).await.unwrap().state,
            State::Done,
            "too late to cancel"
        );
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_stopped_while_it_takes_partitions_gives_them_back() {
    let scene = Scene::new().await;
    for round in 0..60 {
        let node = Node::start(scene.settings.clone()).await.unwrap();
        tokio::time::sleep(Duration::from_micros(100) * round).await;
        node.stop().await;
        assert!(scene.holders().await.is_empty(), "in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_that_is_lost_is_noticed() {
    let scene = Scene::new().await;
    let _node = Node::start(scene.settings.clone()).await.unwrap();
    scene.shared_by(1).await;
    tokio::time::sleep(300 * MS).await;
    // What the script does, less the notice: nobody hears of it.
    let (due, id) = (now_ms() + 1_500, "2-00000000000000aa");
    for words in [
        format!("HSET jobs:{{2}}:job:{id} payload 1 due {due} created 1 policy 1"),
        format!("ZADD jobs:{{2}}:due {due} {id}"),
        // Of the default queue, whose name is empty.
        format!("ZADD jobs:{{2}}:heads {due} "),
    ] {
        let _: u64 = say(&scene.redis, &words).await;
    }
    let id = id.parse().unwrap();
    let got = scene.collect(std::slice::from_ref(&id)).await;
    let late = got[&id][0].fired_ms - due;
    assert!(
        late < 400,
        "it was found before it was due, and not by chance after: {late} ms late"
    );
}

/// Partitions are added while jobs come and fire: nodes, consumers and stores that were there before learn of them.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_added_under_load_and_keys_stay_where_they_were() {
    let scene = Scene::new().await;
    let (few, store) = (&scene.settings, &scene.store);
    let one = Node::start(few.clone()).await.unwrap();
    let keyed = |n: usize| NewJob {
        idempotency_key: Some(format!("order {n}")),
        ..job("of a key", 3_000 * MS)
    };
    let mut listening = scene.consumer().await;
    let mut kept = Vec::new();
    for n in 0..40 {
        kept.push(scene.create(keyed(n)).await);
    }
    let load = async {
        let mut ids = scene.fill(200, 2_000 * MS).await;
        // A store without a node learns of them when it is asked for lists.
        until("the first store learns", async || {
            store.overview().await.unwrap().partitions.len() == 12
        })
        .await;
        ids.extend(scene.fill(400, 2_000 * MS).await);
        ids
    };
    let many = Settings {
        partitions: 12,
        ..few.clone()
    };
    assert_eq!(
        Store::open(many.clone()).await.unwrap().partitions(),
        4,
        "only nodes add some"
    );
    let (two, mut ids) = tokio::join!(Node::start(many), load);
    let two = two.unwrap();
    let newer = Store::open(few.clone()).await.unwrap();
    assert_eq!(
        newer.partitions(),
        12,
        "a namespace keeps what it was given"
    );
    until("both nodes hold half", async || {
        (one.held(), two.held()) == (6, 6)
    })
    .await;
    for (n, id) in kept.iter().enumerate() {
        for from in [store, &newer] {
            assert_eq!(from.create(keyed(n)).await.unwrap().id, *id, "made once");
            assert_eq!(from.by_key(&format!("order {n}")).await.unwrap(), *id);
        }
        assert!(id.partition() < 4);
    }
    let far = ids.iter().find(|id| id.partition() >= 4);
    let far = far.expect("new jobs lie in the new partitions, too");
    assert!(one.store().get(far).await.is_ok(), "any store finds them");
    ids.extend(kept);
    assert!(each_came_once(&collect(&mut listening, &ids).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_for_the_end_of_time_are_listed_moved_and_cancelled() {
    let scene = Scene::new().await;
    let store = &scene.store;
    for when in [When::At(u64::MAX), When::After(Duration::MAX)] {
        let made = store.create(NewJob::new("late", when)).await.unwrap();
        let page = store.list(None, 9).await.unwrap();
        assert_eq!(
            (&page.jobs[0].id, page.jobs[0].due_ms),
            (&made.id, made.due_ms)
        );
        assert!(made.due_ms >= 1 << 53);
        let moved = store.reschedule(&made.id, when, None).await.unwrap();
        assert!(moved.due_ms >= made.due_ms);
        let found = store.cancel(&made.id).await.unwrap();
        assert_eq!(found.state, State::Cancelled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_that_no_notice_tells_is_found_by_the_next_renewal() {
    let (scene, _node) = Scene::served_with(|settings| settings.partitions = 1).await;
    let id = scene.create(job("x", HOUR)).await;
    let due = now_ms() + 100;
    for words in [format!("due {due} {id}"), format!("heads {due} ")] {
        let _: u64 = say(&scene.redis, &format!("ZADD jobs:{{0}}:{words}")).await;
    }
    let _: u64 = say(&scene.redis, &format!("HSET jobs:{{0}}:job:{id} due {due}")).await;
    scene.collect(&[id]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_holds_no_job_that_it_has_not_returned() {
    let (scene, _node) = Scene::served().await;
    for n in 0..5 {
        scene.create(job(&n.to_string(), MS)).await;
    }
    let count = async || {
        let overview = scene.store.overview().await.unwrap();
        (overview.waiting, overview.running)
    };
    until("all have fired", async || count().await == (5, 0)).await;
    let mut consumer = scene.consumer().await;
    consumer.next().await;
    assert_eq!(count().await, (4, 1));
    let batch = consumer.batch(2).await;
    assert!((1..=2).contains(&batch.len()), "{batch:?}");
    assert_eq!(
        count().await,
        (4 - batch.len() as u64, 1 + batch.len() as u64)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_redis_cannot_keep_is_refused() {
    let scene = Scene::new().await;
    for hold in [Duration::ZERO, Duration::MAX] {
        let refused = Consumer::connect(scene.settings.clone(), hold).await;
        assert!(matches!(refused, Err(StoreError::Unfit(_))), "{hold:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_any_length_can_be_asked_for() {
    let scene = Scene::with(|settings| settings.partitions = 1).await;
    scene.create(job("x", HOUR)).await;
    let page = scene.store.list(None, usize::MAX).await.unwrap();
    assert_eq!(page.jobs.len(), 1);
    assert!(scene.store.dead(None, usize::MAX).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_any_length_loses_nothing() {
    let scene = Scene::with(|settings| {
        patient(settings);
        settings.partitions = 1;
    })
    .await;
    let _node = Node::start(scene.settings.clone()).await.unwrap();
    for most in [5_000, usize::MAX] {
        let jobs = (0..5_000).map(|_| job("x", MS)).collect();
        let made = scene.store.create_many(jobs).await;
        let mut missing: HashSet<_> = made.into_iter().map(|one| one.unwrap().id).collect();
        until("all have fired", async || {
            scene.store.overview().await.unwrap().waiting == 5_000
        })
        .await;
        let mut consumer = scene.consumer().await;
        while !missing.is_empty() {
            let batch = timeout(10_000 * MS, consumer.batch(most)).await;
            for one in batch.expect("they come") {
                missing.remove(&one.id);
            }
        }
    }
}
