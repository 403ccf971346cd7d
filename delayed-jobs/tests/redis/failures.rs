//! Processes that are killed, paused, restarted and cut off. The promises: nothing accepted is lost,
//! nothing is early, what a node has lost it does not fire.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use delayed_jobs::{Limits, NewJob, Queue, State, Store, When};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::servers::serve;
use crate::support::{
    Api, HOUR, MS, PROGRAM, Scene, ask, collect, each_came_once, job, node, node_of, now_ms,
    patient, say, until,
};
use crate::wires::Proxy;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_loses_nothing_and_is_replaced_within_its_lease() {
    let scene = Scene::new().await;
    let (victim, _other) = (scene.node().await, scene.node().await);
    scene.shared_by(2).await;
    assert!(
        scene.holders().await.values().all(|held| *held == 2),
        "each has its share"
    );
    let ids = scene.fill(400, 3_000 * MS).await;
    let killed = async {
        tokio::time::sleep(800 * MS).await;
        victim.kill().await;
        scene.shared_by(1).await
    };
    let (_, taken) = tokio::join!(scene.collect(&ids), killed);
    // What is above the lease is this busy machine's.
    assert!(
        taken < scene.settings.lease + 500 * MS,
        "taken over after {taken:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_node_fires_nothing_that_another_has_taken() {
    let (scene, paused) = Scene::served().await;
    let before = scene.holders().await.into_keys().next().unwrap();
    let ids = scene.fill(300, 4_000 * MS).await;
    tokio::time::sleep(300 * MS).await;
    paused.pause();
    let other = scene.node().await;
    until("the other holds everything", async || {
        let holders = scene.holders().await;
        !holders.contains_key(&before) && holders.values().sum::<usize>() == 4
    })
    .await;
    let overview = scene.store.overview().await.unwrap();
    assert!(
        overview.partitions.iter().all(|one| one.token == 2),
        "a higher token for each"
    );
    let resumed = async {
        tokio::time::sleep(100 * MS).await;
        paused.resume();
    };
    let (got, ()) = tokio::join!(scene.collect(&ids), resumed);
    assert!(each_came_once(&got));
    // A node that is stopped while Redis carries out its request may give the answer up when it goes on, and
    // then does not count those jobs; none is counted by both.
    let fired = paused.metric("fired_total").await + other.metric("fired_total").await;
    assert!(
        (200.0..=300.0).contains(&fired),
        "{fired} of 300 jobs were fired by one of the two"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_fire_that_was_held_up_is_refused() {
    // The fence itself: the script of a node whose lease another one has taken since.
    let scene = Scene::with(|settings| settings.partitions = 1).await;
    let take = async |name: &str| {
        let (lease, ..): (Option<String>, u64, bool, u64) =
            scene.script("acquire", (name, 100, "")).await;
        lease
    };
    type Reply = (i64, Option<i64>, Option<Vec<u64>>, Option<Vec<String>>, u64);
    let fire =
        async |lease: &str| -> Reply { scene.script("fire", (lease, 10, "jobs:ready")).await };
    let old = take("a").await.unwrap();
    assert_eq!((old.as_str(), take("b").await), ("1@a", None));
    let id = scene.create(NewJob::new("x", When::At(0))).await;
    tokio::time::sleep(120 * MS).await;
    assert_eq!(
        fire(&old).await,
        (-1, None, None, None, 0),
        "nobody's any more"
    );
    let new = take("b").await.unwrap();
    assert_eq!(new, "2@b");
    assert_eq!(fire(&old).await, (-1, None, None, None, 0), "another one's");
    assert_eq!(scene.state(&id).await, State::Pending);
    let (_, next, late, ..) = fire(&new).await;
    assert_eq!(
        (next, late.map(|late| late.len())),
        (Some(-1), Some(1)),
        "one job, nothing left"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_killed_and_restarted_loses_nothing_acknowledged() {
    let (mut scene, node) = Scene::served().await;
    let client = node.client();
    let mut ids = Vec::new();
    for n in 0..150_u32 {
        let when = When::After((500 + n * 20) * MS);
        ids.push(
            client
                .create(json!({ "n": n }), when, None)
                .await
                .unwrap()
                .id,
        );
    }
    let cancelled = ids.split_off(140);
    for id in &cancelled {
        client.cancel(id).await.unwrap();
    }
    tokio::time::sleep(600 * MS).await;
    scene.redis.kill().await.unwrap();
    assert_eq!(node.ask("GET", "/v1/overview", "").await.0, 503);
    // This one is asked for while Redis is away, and accepted when it is back.
    let create = || client.create(json!("late"), When::After(100 * MS), Some("while-away"));
    let restart = async {
        tokio::time::sleep(1_500 * MS).await;
        scene.redis.restart().await.unwrap();
    };
    let (accepted, ()) = tokio::join!(create(), restart);
    ids.push(accepted.unwrap().id);
    let got = scene.collect(&ids).await;
    assert!(
        cancelled.iter().all(|id| !got.contains_key(id)),
        "cancelled stays cancelled"
    );
    assert!(create().await.unwrap().repeated, "the key is remembered");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_replaced_one_after_the_other_while_jobs_come_and_fire() {
    // With the program of an earlier version, if one is named, beside this one.
    let old: PathBuf = std::env::var_os("DELAYED_JOBS_OLD")
        .unwrap_or(PROGRAM.into())
        .into();
    let scene = Scene::with(|settings| settings.partitions = 6).await;
    let mut nodes = vec![
        node_of(&old, &scene.settings).await,
        node_of(&old, &scene.settings).await,
    ];
    scene.shared_by(2).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        nodes.push(scene.node().await);
        scene.shared_by(3).await;
        for _ in 0..2 {
            // Old and new ones accept jobs, and all fire them.
            for node in &nodes {
                for delay in [1, 300, 1_500] {
                    let key = format!("k{}", ids.len());
                    let when = When::After(delay * MS);
                    ids.push(
                        node.client()
                            .create(json!(1), when, Some(&key))
                            .await
                            .unwrap()
                            .id,
                    );
                }
            }
            tokio::time::sleep(200 * MS).await;
        }
        nodes.remove(0).end().await;
        scene.shared_by(2).await;
    }
    assert!(each_came_once(&scene.collect(&ids).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_cut_off_stops_firing_when_its_lease_ends() {
    let scene = Scene::new().await;
    let wire = Proxy::to(scene.redis.port(), Duration::ZERO).await;
    let cut_off = node(&wire.settings(&scene.settings)).await;
    scene.shared_by(1).await;
    let ids = scene.fill(200, 5_000 * MS).await;
    let mut consumer = scene.consumer().await;
    tokio::time::sleep(500 * MS).await;
    wire.cut();
    let cut = Instant::now();
    until("it knows that it holds nothing", async || {
        cut_off.metric("partitions").await == 0.0
    })
    .await;
    let held_on = cut.elapsed();
    assert!(
        held_on < scene.settings.lease + 500 * MS,
        "it held on for {held_on:?}"
    );
    let fired = cut_off.metric("fired_total").await;
    assert_eq!(cut_off.health().await, (503, json!("away")));
    let url = format!("{}/v1/jobs", cut_off.address());
    let refused = reqwest::Client::new()
        .post(url)
        .header("content-type", "application/json")
        .body(r#"{"delay_ms": 5}"#)
        .send()
        .await
        .unwrap();
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );

    let other = scene.node().await;
    scene.shared_by(1).await;
    // More is due, and only the other one fires it, though what the first had sent arrives now.
    tokio::time::sleep(500 * MS).await;
    assert_eq!(cut_off.metric("fired_total").await, fired);
    wire.mend();
    assert!(each_came_once(&collect(&mut consumer, &ids).await));
    scene.shared_by(2).await;
    assert!(other.metric("fired_total").await > 0.0);
    assert_eq!(cut_off.health().await, (200, json!("up")), "it is back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_asked_to_end_answers_and_gives_its_partitions_back() {
    let (scene, first) = Scene::served_with(|settings| settings.lease = 30_000 * MS).await;
    let url = format!("{}/v1/deliveries?wait=50s", first.address());
    let waiting = tokio::spawn(async move { ask(&url, "POST", "", "").await });
    tokio::time::sleep(500 * MS).await;
    let id = scene.create(job("x", 500 * MS)).await;
    let asked = Instant::now();
    first.end().await;
    assert_eq!(waiting.await.unwrap(), (200, json!({ "deliveries": [] })));
    assert!(asked.elapsed() < 5_000 * MS, "{:?}", asked.elapsed());
    assert!(scene.holders().await.is_empty());
    tokio::time::sleep(600 * MS).await;
    assert!(
        scene.store.overview().await.unwrap().lag_ms > 0,
        "nothing fires it"
    );
    let _second = scene.node().await;
    // Long before a lease would have run out.
    scene.collect(&[id]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_asked_to_end_waits_for_no_client_that_says_no_more() {
    let (scene, node) = Scene::served_with(|settings| settings.lease = 30_000 * MS).await;
    let address = node.address().trim_start_matches("http://");
    let mut clients = Vec::new();
    for said in [
        "GET /v1/jobs HTTP/1.1\r\nho",
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
    ] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(said.as_bytes()).await.unwrap();
        clients.push(client);
    }
    tokio::time::sleep(200 * MS).await;
    let ended = tokio::time::timeout(20_000 * MS, node.end()).await;
    assert!(ended.is_ok(), "it waits for them");
    assert!(scene.holders().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_ends_amid_a_request_leaves_no_other_one_waiting() {
    let scene = Scene::new().await;
    let _: () = say(&scene.redis, "CLIENT PAUSE 60000 WRITE").await;
    let store = scene.store.clone();
    let asks_and_ends = move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let first = async { timeout(100 * MS, store.create(job("x", MS))).await };
        assert!(runtime.block_on(first).is_err());
    };
    std::thread::spawn(asks_and_ends).join().unwrap();
    let _: () = say(&scene.redis, "CLIENT UNPAUSE").await;
    let second = timeout(20_000 * MS, scene.store.create(job("y", MS)));
    second.await.expect("it is answered").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_while_redis_hangs_are_refused_together() {
    let scene = Scene::with(|settings| settings.patience = 1_000 * MS).await;
    let store = Store::open(scene.settings.clone()).await.unwrap();
    let _: () = say(&scene.redis, "CLIENT PAUSE 120000 ALL").await;
    // In scripts one after the other they would take 63 s.
    let jobs: Vec<_> = (0..8_000).map(|_| job("x", MS)).collect();
    let answers = timeout(30_000 * MS, store.create_many(jobs)).await;
    let answers = answers.expect("they are answered");
    assert!(answers.iter().all(Result::is_err));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_drops_refuses_only_the_requests_under_way() {
    let scene = Scene::new().await;
    let _: () = say(&scene.redis, "CLIENT PAUSE 60000 WRITE").await;
    let jobs = (0..8_000).map(|_| job("x", HOUR)).collect();
    let drops = async {
        tokio::time::sleep(200 * MS).await;
        let _: u64 = say(&scene.redis, "CLIENT KILL TYPE normal SKIPME yes").await;
        let _: () = say(&scene.redis, "CLIENT UNPAUSE").await;
    };
    let (answers, ()) = tokio::join!(scene.store.create_many(jobs), drops);
    let refused = answers.iter().filter(|answer| answer.is_err()).count();
    assert!(refused <= 128, "{refused} were refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_one_job_asks_many_partitions_together() {
    let scene = Scene::with(|settings| {
        patient(settings);
        settings.partitions = 128;
    })
    .await;
    let wire = Proxy::to(scene.redis.port(), 5 * MS).await;
    let node = node(&wire.settings(&scene.settings)).await;
    // One after the other, they would take longer than it is until all are asked again.
    let answer = timeout(15_000 * MS, node.ask("POST", "/v1/deliveries", "")).await;
    let empty = (200, json!({ "deliveries": [] }));
    assert_eq!(answer.expect("it is answered"), empty);
    let limits = Limits {
        concurrency: Some(1),
        rate: None,
    };
    let queue = Queue::default();
    scene.store.set_limits(&queue, &limits).await.unwrap();
    let answer = timeout(15_000 * MS, node.ask("POST", "/v1/deliveries", "")).await;
    assert_eq!(answer.expect("with permits"), empty);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_agree_again_when_redis_comes_back_empty() {
    for others in [2, 8] {
        // No beat comes before the requests.
        let (scene, one) = Scene::served_with(patient).await;
        let made = async |node: &Api, key: &str| {
            let body = json!({ "delay": "1h", "idempotency_key": key });
            node.post("/v1/jobs", body).await["id"].clone()
        };
        for n in 0..20 {
            made(&one, &format!("before {n}")).await;
        }
        assert_eq!(one.get("/v1/overview").await["lost_ms"], Value::Null);
        let _: () = say(&scene.redis, "FLUSHALL").await;
        let mut settings = scene.settings.clone();
        settings.partitions = others;
        let two = node(&settings).await;
        for n in 0..40 {
            let key = format!("key {n}");
            let id = made(&two, &key).await;
            assert_eq!(id, made(&one, &key).await, "{key} has made two jobs");
        }
        let tea = json!({ "every": "1h" });
        for (node, status) in [(&two, 201), (&one, 200)] {
            assert_eq!(node.ask("PUT", "/v1/schedules/tea", &tea).await.0, status);
        }
        let overview = one.get("/v1/overview").await;
        let lost = overview["lost_ms"].as_u64().unwrap();
        assert!(now_ms() - lost < 20_000, "{overview}");
        assert_eq!(overview["pending"], 40);
        // Jobs of both come, whatever partition they are in.
        let mut ids = Vec::new();
        for n in 0..40 {
            for node in [&one, &two] {
                let made = node.post("/v1/jobs", json!({ "payload": n })).await;
                ids.push(made["id"].as_str().unwrap().parse().unwrap());
            }
        }
        scene.collect(&ids).await;
        let noted: u16 = say(&scene.redis, "HGET jobs:settings partitions").await;
        assert_eq!(noted, others.max(4));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_says_that_redis_came_back_empty_and_goes_on() {
    let scene = Scene::new().await;
    let mut node = serve(&scene.redis.url(), &["--lease", "900ms"]);
    node.env("RUST_LOG", "delayed_jobs=warn")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let node = node.spawn().unwrap();
    scene.shared_by(1).await;
    let settings = async || -> HashMap<String, String> {
        let mut settings: HashMap<String, String> =
            say(&scene.redis, "HGETALL jobs:settings").await;
        settings.remove("birth");
        // Only while partitions are added.
        settings.remove("rule_partitions");
        // Noted for each partition soon after it is held.
        settings.retain(|name, _| !name.starts_with("born:"));
        settings
    };
    let before = settings().await;
    let _: () = say(&scene.redis, "FLUSHALL").await;
    until("the settings are noted again", async || {
        let mut now = settings().await;
        now.remove("lost_ms").is_some() && now == before
    })
    .await;
    let id = scene.create(job("x", MS)).await;
    scene.collect(&[id]).await;
    let id = i32::try_from(node.id().unwrap()).unwrap();
    kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    let log = node.wait_with_output().await.unwrap().stderr;
    let log = String::from_utf8(log).unwrap();
    assert_eq!(log.matches("has lost what it kept").count(), 1, "{log}");
}
