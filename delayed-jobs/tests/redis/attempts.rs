//! Attempts: jobs that fail, rest, come again, and die.

use delayed_jobs::{Consumer, NewJob, Node, Retry, State, When};

use crate::support::{HOUR, MS, Scene, job, now_ms};

fn tried(payload: &str, retry: Retry) -> NewJob {
    NewJob {
        retry: Some(retry),
        ..job(payload, MS)
    }
}

async fn started() -> (Scene, Node) {
    let scene = Scene::new().await;
    let node = Node::start(scene.settings.clone()).await.unwrap();
    (scene, node)
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_are_listed_requeued_and_purged() {
    let (scene, _node) = started().await;
    let (store, mut consumer) = (&scene.store, scene.consumer().await);
    for n in 0..5 {
        scene
            .create(tried(&n.to_string(), Retry::fixed(1, MS)))
            .await;
        let one = consumer.next().await;
        consumer.fail(&[one], "it does not go down").await.unwrap();
    }
    let overview = store.overview().await.unwrap();
    assert_eq!(
        (overview.pending, overview.unacknowledged, overview.dead),
        (0, 0, 5)
    );
    let page = store.dead(None, 3).await.unwrap();
    let rest = store.dead(page.next.as_deref(), 3).await.unwrap();
    assert_eq!((page.jobs.len(), rest.jobs.len(), rest.next), (3, 2, None));
    let [one, other, _] = &page.jobs[..] else {
        panic!("{page:?}")
    };
    assert_eq!((one.state, one.attempts), (State::Dead, 1));
    assert_eq!(one.reason.as_deref(), Some("it does not go down"));
    assert_eq!(store.get(&one.id).await.unwrap(), *one);
    assert_eq!(store.cancel(&one.id).await.unwrap().state, State::Dead);

    assert_eq!(
        store
            .requeue(Some(std::slice::from_ref(&one.id)))
            .await
            .unwrap(),
        1
    );
    let again = consumer.next().await;
    assert_eq!(
        (&again.id, again.attempt),
        (&one.id, 1),
        "it has all its attempts again"
    );
    consumer.acknowledge(&[again]).await.unwrap();
    assert_eq!(scene.state(&one.id).await, State::Done);
    assert_eq!(
        store
            .purge(Some(std::slice::from_ref(&other.id)))
            .await
            .unwrap(),
        1
    );
    assert!(store.get(&other.id).await.is_err());
    assert_eq!(store.requeue(None).await.unwrap(), 3);
    assert_eq!(
        (
            store.purge(None).await.unwrap(),
            store.overview().await.unwrap().dead
        ),
        (0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_consumers_dies_as_well() {
    let (scene, _node) = started().await;
    let killer = scene.create(tried("killer", Retry::fixed(2, MS))).await;
    for attempt in 1..=2 {
        let mut consumer = Consumer::connect(scene.settings.clone(), 50 * MS)
            .await
            .unwrap();
        let one = consumer.next().await;
        assert_eq!((&one.id, one.attempt), (&killer, attempt));
    }
    // It dies when a consumer asks for jobs.
    let mut third = scene.consumer().await;
    let nothing = tokio::time::timeout(1_500 * MS, third.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    let dead = scene.store.get(&killer).await.unwrap();
    let reason = dead.reason.as_deref();
    assert_eq!(
        (dead.state, reason),
        (State::Dead, Some("not acknowledged in time"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rests_grow_and_each_is_different() {
    let (scene, _node) = started().await;
    let (store, mut consumer) = (&scene.store, scene.consumer().await);
    let retry = Retry {
        max_attempts: 10,
        first: 1_000 * MS,
        jitter: 0.5,
        ..Retry::default()
    };
    let mut ids = Vec::new();
    for n in 0..20 {
        let when = When::After(HOUR);
        ids.push(
            scene
                .create(NewJob {
                    when,
                    ..tried(&n.to_string(), retry.clone())
                })
                .await,
        );
    }
    for attempt in 1..=3_u32 {
        let mut rests = Vec::new();
        for id in &ids {
            store.reschedule(id, When::At(0), None).await.unwrap();
            let one = consumer.next().await;
            assert_eq!((&one.id, one.attempt), (id, attempt));
            let before = now_ms();
            consumer.fail(&[one], "").await.unwrap();
            let job = store.get(id).await.unwrap();
            assert_eq!((job.state, job.attempts), (State::Pending, attempt));
            rests.push(job.due_ms - before);
            store.reschedule(id, When::After(HOUR), None).await.unwrap();
        }
        let middle = 1000 << (attempt - 1);
        let (low, high) = (middle / 2, middle * 3 / 2);
        assert!(
            rests.iter().all(|rest| (low..=high + 100).contains(rest)),
            "{attempt}: {rests:?}"
        );
        let spread = rests.iter().max().unwrap() - rests.iter().min().unwrap();
        assert!(
            spread > middle / 4,
            "{attempt}: all rests are alike: {rests:?}"
        );
    }
}
