//! Attempts: jobs that fail, rest, come again, and die.

use std::time::Instant;

use delayed_jobs::{Consumer, NewJob, Node, Retry, Settings, State, Store, When};

use crate::support::{MS, consumer, job, now_ms, redis, settings, until};

fn tried(payload: &str, retry: Retry) -> NewJob {
    NewJob { retry: Some(retry), ..job(payload, MS) }
}

async fn started() -> (delayed_jobs::local::RedisProcess, Settings, Node, Store) {
    let redis = redis().await;
    let settings = settings(&redis);
    let node = Node::start(settings.clone()).await.unwrap();
    let store = Store::open(settings.clone()).await.unwrap();
    (redis, settings, node, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_job_ends_among_the_dead_and_can_be_requeued_or_purged() {
    let (_redis, settings, node, store) = started().await;
    let mut consumer = consumer(&settings).await;
    let poison = store.create(tried("poison", Retry::fixed(3, 40 * MS))).await.unwrap().id;
    let mut before = None::<(Instant, String)>;
    for attempt in 1..=3 {
        let one = consumer.next().await;
        assert_eq!((&one.id, one.attempt, one.max_attempts), (&poison, attempt, 3));
        if let Some((failed, receipt)) = before {
            assert!(failed.elapsed() >= 40 * MS, "the rest after a failure is too short");
            assert_ne!(receipt, one.receipt());
        }
        before = Some((Instant::now(), one.receipt()));
        consumer.fail(&[one], "it does not go down").await.unwrap();
    }
    let dead = store.get(&poison).await.unwrap();
    assert_eq!((dead.state, dead.attempts), (State::Dead, 3));
    assert_eq!(dead.reason.as_deref(), Some("it does not go down"));
    assert_eq!(store.cancel(&poison).await.unwrap().state, State::Dead);
    let overview = store.overview().await.unwrap();
    assert_eq!((overview.pending, overview.unacknowledged, overview.dead), (0, 0, 1));
    assert_eq!(store.dead(None, 10).await.unwrap().jobs, [dead]);

    assert_eq!(store.requeue(Some(std::slice::from_ref(&poison))).await.unwrap(), 1);
    let again = consumer.next().await;
    assert_eq!((&again.id, again.attempt), (&poison, 1), "it has all its attempts again");
    consumer.acknowledge(&[again]).await.unwrap();
    assert_eq!(store.get(&poison).await.unwrap().state, State::Done);

    for n in 0..5 {
        store.create(tried(&n.to_string(), Retry::fixed(1, MS))).await.unwrap();
        let one = consumer.next().await;
        consumer.fail(&[one], "no").await.unwrap();
    }
    let page = store.dead(None, 3).await.unwrap();
    let rest = store.dead(page.next.as_deref(), 3).await.unwrap();
    assert_eq!((page.jobs.len(), rest.jobs.len(), rest.next), (3, 2, None));
    assert_eq!(store.purge(Some(&[page.jobs[0].id.clone()])).await.unwrap(), 1);
    assert!(store.get(&page.jobs[0].id).await.is_err());
    assert_eq!(store.requeue(None).await.unwrap(), 4);
    assert_eq!((store.purge(None).await.unwrap(), store.overview().await.unwrap().dead), (0, 0));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_consumers_dies_as_well() {
    let (_redis, settings, node, store) = started().await;
    let killer = store.create(tried("killer", Retry::fixed(2, MS))).await.unwrap().id;
    for attempt in 1..=2 {
        let mut consumer = Consumer::connect(settings.clone(), 50 * MS).await.unwrap();
        let one = consumer.next().await;
        assert_eq!((&one.id, one.attempt), (&killer, attempt));
    }
    // It dies when a consumer asks for jobs.
    let mut third = consumer(&settings).await;
    let nothing = tokio::time::timeout(1_500 * MS, third.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    let dead = store.get(&killer).await.unwrap();
    assert_eq!(
        (dead.state, dead.reason.as_deref()),
        (State::Dead, Some("not acknowledged in time"))
    );
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rests_grow_and_each_is_different() {
    let (_redis, settings, node, store) = started().await;
    let retry = Retry { max_attempts: 10, first: 1_000 * MS, jitter: 0.5, ..Retry::default() };
    let mut consumer = consumer(&settings).await;
    let (far, now) = (When::After(3_600_000 * MS), When::At(0));
    let mut ids = Vec::new();
    for n in 0..20 {
        let job = NewJob { when: far, ..tried(&n.to_string(), retry.clone()) };
        ids.push(store.create(job).await.unwrap().id);
    }
    for attempt in 1..=3_u32 {
        let mut rests = Vec::new();
        for id in &ids {
            store.reschedule(id, now, None).await.unwrap();
            let one = consumer.next().await;
            assert_eq!((&one.id, one.attempt), (id, attempt));
            let before = now_ms();
            consumer.fail(&[one], "").await.unwrap();
            let job = store.get(id).await.unwrap();
            assert_eq!((job.state, job.attempts), (State::Pending, attempt));
            rests.push(job.due_ms - before);
            store.reschedule(id, far, None).await.unwrap();
        }
        let middle = 1000 << (attempt - 1);
        let (low, high) = (middle / 2, middle * 3 / 2);
        assert!(rests.iter().all(|rest| (low..=high + 100).contains(rest)), "{attempt}: {rests:?}");
        let spread = rests.iter().max().unwrap() - rests.iter().min().unwrap();
        assert!(spread > middle / 4, "{attempt}: all rests are alike: {rests:?}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_held_for_longer_is_not_given_to_another() {
    let (_redis, settings, node, store) = started().await;
    let id = store.create(job("long work", MS)).await.unwrap().id;
    let mut patient = Consumer::connect(settings.clone(), 200 * MS).await.unwrap();
    let one = patient.next().await;
    assert_eq!(patient.extend(std::slice::from_ref(&one), 60_000 * MS).await.unwrap(), 1);
    let mut other = consumer(&settings).await;
    assert!(tokio::time::timeout(1_200 * MS, other.next()).await.is_err());
    assert_eq!(patient.acknowledge(std::slice::from_ref(&one)).await.unwrap(), 1);
    assert_eq!(patient.extend(&[one], MS).await.unwrap(), 0, "it has ended");
    until("it is done", 1_000 * MS, || async {
        store.get(&id).await.unwrap().state == State::Done
    })
    .await;
    node.stop().await;
}
