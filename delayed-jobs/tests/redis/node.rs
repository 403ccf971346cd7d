//! Nodes and consumers in this process.

use std::time::Instant;

use delayed_jobs::{Consumer, NewJob, Node, Settings, State, Store, When};

use crate::support::{
    MS, collect, consumer, fill, holders, job, now_ms, redis, settings, shared_by, until,
};

#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_in_time_near_and_far_moved_and_not_cancelled() {
    let redis = redis().await;
    // A window of one second: most of these jobs are read into it only later.
    let settings = Settings { window: 1_000 * MS, ..settings(&redis) };
    let node = Node::start(settings.clone()).await.unwrap();
    let store = Store::open(settings.clone()).await.unwrap();
    let mut ids = fill(&store, 200, 2_500 * MS).await;
    for (n, id) in ids.iter().enumerate().skip(100) {
        match n % 4 {
            0 => drop(store.cancel(id).await.unwrap()),
            1 => drop(store.reschedule(id, When::After(100 * MS), None).await.unwrap()),
            2 => drop(store.reschedule(id, When::After(1_900 * MS), None).await.unwrap()),
            _ => {}
        }
    }
    let cancelled: Vec<_> = ids.iter().skip(100).step_by(4).cloned().collect();
    ids.retain(|id| !cancelled.contains(id));
    let mut consumer = consumer(&settings).await;
    let got = collect(&mut consumer, &ids, 10_000 * MS).await;
    assert!(got.values().all(|deliveries| deliveries.len() == 1), "nothing has failed");
    assert!(cancelled.iter().all(|id| !got.contains_key(id)));
    assert_eq!(node.fired(), ids.len() as u64);
    let mut late: Vec<u64> = got.values().map(|all| all[0].fired_ms - all[0].due_ms).collect();
    late.sort_unstable();
    assert!(late[late.len() / 2] < 100, "half of them are later than 100 ms: {late:?}");
    for id in &ids {
        assert_eq!(store.get(id).await.unwrap().state, State::Done);
        assert_eq!(store.cancel(id).await.unwrap().state, State::Done, "too late to cancel");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_due_without_a_node_fire_when_one_starts() {
    let redis = redis().await;
    let settings = settings(&redis);
    let store = Store::open(settings.clone()).await.unwrap();
    let mut ids = fill(&store, 500, 100 * MS).await;
    let past = NewJob { when: When::At(0), ..job("from 1970", MS) };
    ids.push(store.create(past).await.unwrap().id);
    tokio::time::sleep(150 * MS).await;
    assert!(store.overview().await.unwrap().lag_ms > 0);
    let node = Node::start(settings.clone()).await.unwrap();
    collect(&mut consumer(&settings).await, &ids, 10_000 * MS).await;
    assert_eq!(store.overview().await.unwrap().lag_ms, 0);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_share_the_partitions_and_give_them_back() {
    let redis = redis().await;
    let settings = settings(&redis);
    let store = Store::open(settings.clone()).await.unwrap();
    let one = Node::start(settings.clone()).await.unwrap();
    shared_by(&store, 1).await;
    let two = Node::start(settings.clone()).await.unwrap();
    shared_by(&store, 2).await;
    assert_eq!((one.held(), two.held()), (2, 2));
    let mut tokens: Vec<u64> = Vec::new();
    for one in store.overview().await.unwrap().partitions {
        tokens.push(one.token);
    }
    let stopped = Instant::now();
    one.stop().await;
    assert!(!holders(&store).await.values().any(|held| *held == 4) || two.held() == 4);
    until("the other has all", 5_000 * MS, || async { two.held() == 4 }).await;
    assert!(stopped.elapsed() < settings.lease * 2, "a lease that is given back is not waited for");
    for (before, now) in tokens.iter().zip(store.overview().await.unwrap().partitions) {
        let again = now.token > *before || now.node == two.name() && now.token == *before;
        assert!(again, "tokens only grow");
    }
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unacknowledged_job_is_delivered_to_another_consumer() {
    let redis = redis().await;
    let settings = settings(&redis);
    let node = Node::start(settings.clone()).await.unwrap();
    let store = Store::open(settings.clone()).await.unwrap();
    let id = store.create(job("once more", 10 * MS)).await.unwrap().id;
    let mut forgetful = Consumer::connect(settings.clone(), 200 * MS).await.unwrap();
    let first = forgetful.next().await;
    assert_eq!((&first.id, first.attempt), (&id, 1));
    drop(forgetful);
    assert_eq!(store.overview().await.unwrap().unacknowledged, 1);
    let mut other = Consumer::connect(settings.clone(), 60_000 * MS).await.unwrap();
    let again = tokio::time::timeout(5_000 * MS, other.next()).await.unwrap();
    assert_eq!((&again.id, again.attempt), (&id, 2));
    assert_eq!(again.payload, "once more");
    assert_eq!(other.acknowledge(std::slice::from_ref(&first)).await.unwrap(), 0, "too late");
    assert_eq!(other.acknowledge(std::slice::from_ref(&again)).await.unwrap(), 1);
    assert_eq!(other.acknowledge(&[again, first]).await.unwrap(), 0, "it has ended");
    assert_eq!(store.get(&id).await.unwrap().state, State::Done);
    assert_eq!(store.overview().await.unwrap().unacknowledged, 0);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_that_is_lost_is_noticed() {
    let redis = redis().await;
    let settings = settings(&redis);
    let node = Node::start(settings.clone()).await.unwrap();
    let store = Store::open(settings.clone()).await.unwrap();
    shared_by(&store, 1).await;
    tokio::time::sleep(300 * MS).await;
    // What the script does, less the notice: its number is used and nobody hears of it.
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let due = now_ms() + 1_500;
    let (id, base) = ("2-00000000000000aa", "jobs:{2}");
    let mut both = redis::pipe();
    both.hset_multiple(
        format!("{base}:job:{id}"),
        &[
            ("payload", "1"),
            ("due", &due.to_string()),
            ("state", "pending"),
            ("created", "1"),
            ("once", ""),
            ("policy", "1 1 1 1 0"),
        ],
    );
    both.zadd(format!("{base}:due"), id, due).incr(format!("{base}:seq"), 1);
    let _: redis::Value = both.query_async(&mut connection).await.unwrap();
    let id = id.parse().unwrap();
    let got = collect(&mut consumer(&settings).await, std::slice::from_ref(&id), 5_000 * MS).await;
    let late = got[&id][0].fired_ms - due;
    assert!(late < 400, "it was found before it was due, and not by chance after: {late} ms late");
    node.stop().await;
}

/// Partitions are added while jobs come and fire: nodes, consumers and stores that were there before learn of them.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_added_under_load_and_keys_stay_where_they_were() {
    let redis = redis().await;
    let few = settings(&redis);
    let store = Store::open(few.clone()).await.unwrap();
    let one = Node::start(few.clone()).await.unwrap();
    let keyed = |n: usize| NewJob {
        idempotency_key: Some(format!("order {n}")),
        ..job("of a key", 3_000 * MS)
    };
    let mut listening = consumer(&few).await;
    let mut kept = Vec::new();
    for n in 0..40 {
        kept.push(store.create(keyed(n)).await.unwrap().id);
    }
    let (before, load) = (store.clone(), few.clone());
    let load = tokio::spawn(async move {
        let mut ids = fill(&before, 200, 2_000 * MS).await;
        // A store without a node learns of them when it is asked for lists.
        until("the first store learns", 10_000 * MS, || async {
            before.overview().await.unwrap().partitions.len() == 12
        })
        .await;
        ids.extend(fill(&before, 400, 2_000 * MS).await);
        (ids, load)
    });
    let many = Settings { partitions: 12, ..few.clone() };
    assert_eq!(Store::open(many.clone()).await.unwrap().partitions(), 4, "only nodes add some");
    let two = Node::start(many.clone()).await.unwrap();
    let newer = Store::open(few.clone()).await.unwrap();
    assert_eq!(newer.partitions(), 12, "a namespace keeps what it was given");
    until("both nodes hold all", 10_000 * MS, || async { one.held() + two.held() == 12 }).await;
    assert_eq!((one.held(), two.held()), (6, 6));
    for (n, id) in kept.iter().enumerate() {
        for from in [&store, &newer] {
            assert_eq!(from.create(keyed(n)).await.unwrap().id, *id, "made once");
            assert_eq!(from.by_key(&format!("order {n}")).await.unwrap(), *id);
        }
        assert!(id.partition() < 4);
    }
    let (mut ids, _) = load.await.unwrap();
    assert!(ids.iter().any(|id| id.partition() >= 4), "new jobs lie in the new partitions, too");
    let far = ids.iter().find(|id| id.partition() >= 4).unwrap();
    assert!(one.store().get(far).await.is_ok(), "any store finds them");
    ids.extend(kept);
    let got = collect(&mut listening, &ids, 20_000 * MS).await;
    assert!(got.values().all(|deliveries| deliveries.len() == 1), "each came once");
    one.stop().await;
    two.stop().await;
}
