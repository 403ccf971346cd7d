//! Processes that are killed, paused, restarted and cut off. The promises: nothing accepted is lost,
//! nothing is early, what a node has lost it does not fire.

use std::time::Instant;

use delayed_jobs::local::NodeProcess;
use delayed_jobs::{Client, NewJob, Settings, Store, When};
use serde_json::{Value, json};

use crate::proxy::Proxy;
use crate::support::{
    MS, collect, consumer, fill, holders, job, node, now_ms, redis, settings, settings_of,
    shared_by, until,
};

async fn asked(node: &NodeProcess, path: &str) -> (u16, String) {
    let answer = reqwest::get(format!("{}{path}", node.address())).await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// A counter of a node.
async fn counter(node: &NodeProcess, name: &str) -> u64 {
    let (_, text) = asked(node, "/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("delayed_jobs_{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_loses_nothing_and_is_replaced_within_its_lease() {
    let redis = redis().await;
    let settings = settings(&redis);
    let store = Store::open(settings.clone()).await.unwrap();
    let mut victim = node(&settings).await;
    let _other = node(&settings).await;
    shared_by(&store, 2).await;
    let ids = fill(&store, 400, 3_000 * MS).await;
    let collector = tokio::spawn({
        let (settings, ids) = (settings.clone(), ids.clone());
        async move { collect(&mut consumer(&settings).await, &ids, 20_000 * MS).await }
    });
    tokio::time::sleep(800 * MS).await;
    victim.kill().await.unwrap();
    let taken = until("one node holds everything", 10_000 * MS, || async {
        let holders = holders(&store).await;
        holders.len() == 1 && holders.values().sum::<usize>() == 4
    })
    .await;
    // What is above the lease is this busy machine's.
    assert!(taken < settings.lease + 500 * MS, "taken over after {taken:?}");
    collector.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_node_fires_nothing_that_another_has_taken() {
    let redis = redis().await;
    let settings = settings(&redis);
    let store = Store::open(settings.clone()).await.unwrap();
    let paused = node(&settings).await;
    shared_by(&store, 1).await;
    let before = holders(&store).await.into_keys().next().unwrap();
    let ids = fill(&store, 300, 4_000 * MS).await;
    tokio::time::sleep(300 * MS).await;
    paused.pause();
    let other = node(&settings).await;
    until("the other holds everything", 10_000 * MS, || async {
        let holders = holders(&store).await;
        !holders.contains_key(&before) && holders.values().sum::<usize>() == 4
    })
    .await;
    let overview = store.overview().await.unwrap();
    assert!(overview.partitions.iter().all(|one| one.token == 2), "a higher token for each");
    let collector = tokio::spawn({
        let (settings, ids) = (settings.clone(), ids.clone());
        async move { collect(&mut consumer(&settings).await, &ids, 20_000 * MS).await }
    });
    tokio::time::sleep(100 * MS).await;
    paused.resume();
    let got = collector.await.unwrap();
    assert!(got.values().all(|deliveries| deliveries.len() == 1), "each job is in a stream once");
    // A node that is stopped while Redis carries out its request may give the answer up when it goes on, and
    // then does not count those jobs; none is counted by both.
    let fired = counter(&paused, "fired_total").await + counter(&other, "fired_total").await;
    assert!((200..=300).contains(&fired), "{fired} of 300 jobs were fired by one of the two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_fire_that_was_held_up_is_refused() {
    // The fence itself: the script of a node whose lease another one has taken since.
    let redis = redis().await;
    let settings = Settings { partitions: 1, lease: 100 * MS, ..settings(&redis) };
    let store = Store::open(settings.clone()).await.unwrap();
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let script = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts");
        let read = |name| std::fs::read_to_string(format!("{folder}/{name}.lua")).unwrap();
        redis::Script::new(&(read("common") + &read(name)))
    };
    let (acquire, fire) = (script("acquire"), script("fire"));
    let take = async |name: &str| {
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut call = acquire.key("jobs:{0}");
        let answer: (Option<String>, u64) =
            call.arg(name).arg(100).invoke_async(&mut connection).await.unwrap();
        answer.0
    };
    let old = take("a").await.unwrap();
    assert_eq!((old.as_str(), take("b").await), ("1@a", None));
    let id = store.create(NewJob { when: When::At(0), ..job("x", MS) }).await.unwrap().id;
    tokio::time::sleep(120 * MS).await;
    type Reply = (i64, Option<i64>, Option<Vec<u64>>, Option<Vec<String>>);
    let mut try_with = async |lease: &str| -> Reply {
        let mut call = fire.key("jobs:{0}");
        call.arg(lease).arg(10).arg("jobs:ready").arg(0);
        call.invoke_async(&mut connection).await.unwrap()
    };
    assert_eq!(try_with(&old).await, (-1, None, None, None), "nobody's any more");
    let new = take("b").await.unwrap();
    assert_eq!(new, "2@b");
    assert_eq!(try_with(&old).await, (-1, None, None, None), "another one's");
    assert_eq!(store.get(&id).await.unwrap().state, delayed_jobs::State::Pending);
    let (_, next, late, _) = try_with(&new).await;
    assert_eq!((next, late.map(|late| late.len())), (Some(-1), Some(1)), "one job, nothing left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_killed_and_restarted_loses_nothing_acknowledged() {
    let mut redis = redis().await;
    let settings = settings(&redis);
    let node = node(&settings).await;
    let client = Client::new(vec![node.address().to_owned()], 15_000 * MS).unwrap();
    let mut ids = Vec::new();
    for n in 0..150_u32 {
        let when = When::After((500 + n * 20) * MS);
        ids.push(client.create(json!({ "n": n }), when, None).await.unwrap().id);
    }
    let cancelled = ids.split_off(140);
    for id in &cancelled {
        client.cancel(id).await.unwrap();
    }
    tokio::time::sleep(600 * MS).await;
    redis.kill().await.unwrap();
    let (status, text) = asked(&node, "/v1/overview").await;
    assert_eq!(status, 503, "{text}");
    // This one is asked for while Redis is away, and accepted when it is back.
    let meanwhile = tokio::spawn(async move {
        let key = Some("while-away");
        let accepted = client.create(json!("late"), When::After(100 * MS), key).await;
        (client, accepted)
    });
    tokio::time::sleep(1_500 * MS).await;
    redis.restart().await.unwrap();
    let (client, accepted) = meanwhile.await.unwrap();
    ids.push(accepted.unwrap().id);
    let mut consumer = consumer(&settings).await;
    let got = collect(&mut consumer, &ids, 20_000 * MS).await;
    assert!(cancelled.iter().all(|id| !got.contains_key(id)), "cancelled stays cancelled");
    let again =
        client.create(json!("late"), When::After(100 * MS), Some("while-away")).await.unwrap();
    assert!(again.repeated, "the key is remembered");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_replaced_one_after_the_other_while_jobs_come_and_fire() {
    // With the program of an earlier version, if one is named, beside this one.
    let new = std::path::PathBuf::from(env!("CARGO_BIN_EXE_delayed-jobs"));
    let old = std::env::var_os("DELAYED_JOBS_OLD").map_or_else(|| new.clone(), Into::into);
    let redis = redis().await;
    let settings = Settings { partitions: 6, ..settings(&redis) };
    let start = async |program: &std::path::PathBuf| {
        NodeProcess::start(program, &settings, "127.0.0.1:0").await.unwrap()
    };
    let mut nodes = vec![start(&old).await, start(&old).await];
    let store = Store::open(settings.clone()).await.unwrap();
    shared_by(&store, 2).await;
    let (mut ids, mut made) = (Vec::new(), 0);
    for _ in 0..2 {
        nodes.push(start(&new).await);
        shared_by(&store, 3).await;
        for _ in 0..2 {
            // Old and new ones accept jobs, and all fire them.
            for node in &nodes {
                let client = Client::new(vec![node.address().to_owned()], 5_000 * MS).unwrap();
                for delay in [1, 300, 1_500] {
                    made += 1;
                    let key = format!("k{made}");
                    let job = client.create(json!(made), When::After(delay * MS), Some(&key)).await;
                    ids.push(job.unwrap().id);
                }
            }
            tokio::time::sleep(200 * MS).await;
        }
        assert!(nodes.remove(0).end().await.unwrap().success());
        shared_by(&store, 2).await;
    }
    let got = collect(&mut consumer(&settings).await, &ids, 20_000 * MS).await;
    assert!(got.values().all(|deliveries| deliveries.len() == 1), "each job came once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_cut_off_stops_firing_when_its_lease_ends() {
    let redis = redis().await;
    let wire = Proxy::to(redis.port()).await;
    let direct = settings(&redis);
    let store = Store::open(direct.clone()).await.unwrap();
    let cut_off = node(&settings_of(wire.url())).await;
    shared_by(&store, 1).await;
    let ids = fill(&store, 200, 5_000 * MS).await;
    let mut consumer = consumer(&direct).await;
    tokio::time::sleep(500 * MS).await;
    wire.cut();
    let cut = Instant::now();
    until("it knows that it holds nothing", 10_000 * MS, || async {
        counter(&cut_off, "partitions").await == 0
    })
    .await;
    assert!(cut.elapsed() < direct.lease + 500 * MS, "it held on for {:?}", cut.elapsed());
    let fired = counter(&cut_off, "fired_total").await;
    let (status, text) = asked(&cut_off, "/healthz").await;
    let health: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &health["redis"]), (503, &json!("away")), "{text}");
    let body = json!({ "payload": 1, "delay_ms": 5 }).to_string();
    let url = format!("{}/v1/jobs", cut_off.address());
    let refused = reqwest::Client::new().post(url).body(body).send().await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");

    let other = node(&direct).await;
    shared_by(&store, 1).await;
    // More is due, and only the other one fires it, though what the first had sent arrives now.
    tokio::time::sleep(500 * MS).await;
    assert_eq!(counter(&cut_off, "fired_total").await, fired);
    wire.mend();
    let got = collect(&mut consumer, &ids, 20_000 * MS).await;
    assert!(got.values().all(|deliveries| deliveries.len() == 1));
    shared_by(&store, 2).await;
    assert!(counter(&other, "fired_total").await > 0);
    assert_eq!(asked(&cut_off, "/healthz").await.0, 200, "it is back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_redis_says_so_and_ends() {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_delayed-jobs"))
        .args(["serve", "--listen", "127.0.0.1:0", "--redis", "redis://127.0.0.1:1"])
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("Redis is away"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_asked_to_end_gives_its_partitions_back() {
    let redis = redis().await;
    let settings = Settings { lease: 30_000 * MS, ..settings(&redis) };
    let store = Store::open(settings.clone()).await.unwrap();
    let mut first = node(&settings).await;
    shared_by(&store, 1).await;
    let id =
        store.create(NewJob { when: When::At(now_ms() + 500), ..job("x", MS) }).await.unwrap().id;
    assert!(first.end().await.unwrap().success());
    assert!(holders(&store).await.is_empty());
    let _second = node(&settings).await;
    // Long before a lease would have run out.
    let ids = [id];
    collect(&mut consumer(&settings).await, &ids, 10_000 * MS).await;
}
