//! Queues: each job is handed out by its own one, which can be paused, and be limited.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use delayed_jobs::{
    Consumer, Limits, NewJob, Node, Queue, Rate, Settings, State, Store, StoreError, When,
};
use serde_json::{Value, json};

use crate::support::{Api, HOUR, MS, Scene, job, now_ms, patient, say, until};

fn mail() -> Queue {
    "mail".parse().unwrap()
}

fn of_mail(payload: &str, delay: Duration) -> NewJob {
    NewJob {
        queue: mail(),
        ..job(payload, delay)
    }
}

/// The queues of `/v1/queues` by their names.
async fn shown(node: &Api, name: &str) -> Value {
    let all = node.get("/v1/queues").await;
    let mut all = all["queues"].as_array().unwrap().iter();
    all.find(|one| one["queue"] == name)
        .cloned()
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_handed_out_by_its_own_queue_and_counted_there() {
    let (scene, node) = Scene::served_with(patient).await;
    let body = |queue: Value| json!({ "payload": queue, "delay_ms": 5, "queue": queue });
    let mut ids = Vec::new();
    for queue in ["mail", "sms", "default", "mail"] {
        ids.push(node.post("/v1/jobs", body(queue.into())).await["id"].clone());
    }
    let waiting = json!({ "delay": "1h", "queue": "mail", "idempotency_key": "k" });
    let far = node.post("/v1/jobs", &waiting).await;
    assert_eq!(node.post("/v1/jobs", &waiting).await["id"], far["id"]);
    let elsewhere = json!({ "delay": "1h", "queue": "sms", "idempotency_key": "k" });
    let (status, refused) = node.ask("POST", "/v1/jobs", elsewhere).await;
    assert_eq!(status, 409, "another queue is another request: {refused}");
    assert_eq!(
        node.get("/v1/jobs?queue=mail").await["jobs"][0]["id"],
        far["id"]
    );
    assert_eq!(node.get("/v1/jobs?queue=sms").await["jobs"], json!([]));
    until("all have fired", async || {
        scene.store.overview().await.unwrap().waiting == 4
    })
    .await;
    let mail = shown(&node, "mail").await;
    assert_eq!((&mail["pending"], &mail["waiting"]), (&json!(1), &json!(2)));
    assert_eq!(mail["paused"], false);
    let waiting = node.get("/v1/jobs?state=waiting&queue=mail").await;
    assert_eq!(waiting["jobs"].as_array().unwrap().len(), 2);
    for (name, value) in [
        (r#"queue_pending{queue="mail"}"#, 1.0),
        (r#"queue_waiting{queue="mail"}"#, 2.0),
        (r#"queue_waiting{queue="sms"}"#, 1.0),
        (r#"queue_waiting{queue="default"}"#, 1.0),
        ("waiting", 4.0),
    ] {
        assert_eq!(node.metric(name).await, value, "{name}");
    }
    for (queue, expected) in [("mail", &[0, 3][..]), ("sms", &[1]), ("default", &[2])] {
        let mut taken = Vec::new();
        while taken.len() < expected.len() {
            taken.extend(node.take(&format!("&queue={queue}")).await);
        }
        let got: HashSet<&Value> = taken.iter().map(|one| &one["id"]).collect();
        let expected: HashSet<&Value> = expected.iter().map(|&at| &ids[at]).collect();
        assert_eq!(got, expected, "{queue}");
        assert!(
            taken
                .iter()
                .all(|one| one["queue"] == queue && one["payload"] == queue)
        );
        let receipts: Vec<&Value> = taken.iter().map(|one| &one["receipt"]).collect();
        let hold = json!({ "receipts": receipts, "hold": "50s" });
        let extended = node.post("/v1/deliveries/extend", hold).await;
        assert_eq!(extended["held"], taken.len());
        let reasons = json!({ "receipts": receipts, "delay": "0s", "reason": "once more" });
        assert_eq!(
            node.post("/v1/deliveries/nack", reasons).await["stale"],
            json!([])
        );
        let again = node.take(&format!("&queue={queue}")).await;
        let receipts = json!({ "receipts": [again[0]["receipt"]] });
        assert_eq!(node.post("/v1/deliveries/ack", receipts).await["done"], 1);
        assert!(node.has_state(&again[0]["id"], "done").await);
    }
    let far = format!("/v1/jobs/{}", far["id"].as_str().unwrap());
    assert_eq!(node.ask("DELETE", &far, "").await.0, 200);
    let sms = shown(&node, "sms").await;
    assert_eq!(sms, Value::Null, "a queue without jobs is not shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_and_the_commands_have_a_queue() {
    let (scene, node) = Scene::served_with(patient).await;
    let tea = "/v1/schedules/tea";
    let body = |queue: &str| json!({ "every": "200ms", "overlap": "allow", "payload": "tea", "queue": queue });
    node.ask("PUT", tea, body("mail")).await;
    assert_eq!(node.get(tea).await["queue"], "mail");
    let mut times = Vec::new();
    while times.len() < 3 {
        for one in node.take("&queue=mail").await {
            assert_eq!(one["schedule"], "tea");
            times.push(one["due_ms"].as_u64().unwrap());
        }
    }
    assert!(
        times.windows(2).all(|pair| pair[1] - pair[0] == 200),
        "{times:?}"
    );
    let (_, moved) = node.ask("PUT", tea, body("sms")).await;
    assert_eq!(moved["changed"], true, "another queue is another schedule");
    assert_eq!(node.take("&queue=sms").await[0]["schedule"], "tea");
    node.ask("DELETE", tea, "").await;
    until("no job of it is pending", async || {
        scene.store.overview().await.unwrap().pending == 0
    })
    .await;

    let folder = tempfile::tempdir().unwrap();
    let _worker = tokio::process::Command::new(crate::support::PROGRAM)
        .args(["consume", "--node", node.address(), "--queue", "letters"])
        .args(["--exec", "echo $JOB_QUEUE >> told"])
        .current_dir(folder.path())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let other = node.post("/v1/jobs", json!({ "queue": "parcels" })).await;
    let made = node.post("/v1/jobs", json!({ "queue": "letters" })).await;
    until("the command has run", async || {
        node.has_state(&made["id"], "done").await
    })
    .await;
    assert!(node.has_state(&other["id"], "waiting").await);
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    assert_eq!(told, "letters\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_hands_nothing_out_until_it_goes_on() {
    let (scene, node) = Scene::served().await;
    let other = scene.node().await;
    scene.shared_by(2).await;
    // A consumer that waits already is not given anything either.
    let url = format!("{}/v1/deliveries?queue=mail&wait=60s", other.address());
    let waiting = tokio::spawn(async move { crate::support::ask(&url, "POST", "", "").await });
    let paused = node.post("/v1/queues/mail/pause", "").await;
    assert_eq!(paused, json!({ "queue": "mail", "paused": true }));
    let ids = [of_mail("a", MS), of_mail("b", MS), job("c", MS)];
    let [a, b, c] = ids.map(|new| scene.create(new));
    let (a, b, c) = tokio::join!(a, b, c);
    until("all have fired", async || {
        scene.store.overview().await.unwrap().waiting == 3
    })
    .await;
    scene.collect(&[c]).await;
    // Later than any notice and the next look at all partitions.
    tokio::time::sleep(1_200 * MS).await;
    for node in [&node, &other] {
        let taken = node
            .post("/v1/deliveries?queue=mail&wait=0s&max=9", "")
            .await;
        assert_eq!(taken["deliveries"], json!([]));
    }
    assert!(!waiting.is_finished());
    assert_eq!(shown(&node, "mail").await["paused"], true);
    assert_eq!(node.metric(r#"queue_paused{queue="mail"}"#).await, 1.0);

    // A partition that is added has the rule as well.
    let more = Settings {
        partitions: 8,
        ..scene.settings.clone()
    };
    let _third = Node::start(more).await.unwrap();
    let rules: Vec<String> = say(&scene.redis, "SMEMBERS jobs:{7}:rules").await;
    assert_eq!(rules, ["paused:mail"]);

    let goes_on = node.post("/v1/queues/mail/resume", "").await;
    assert_eq!(goes_on["paused"], false);
    let (status, first) = waiting.await.unwrap();
    let first = first["deliveries"][0]["id"].clone();
    assert_eq!(status, 200);
    let mut mail = scene.consumer().await.of(mail());
    let second = mail.next().await;
    let got = HashSet::from([first.as_str().unwrap(), second.id.as_str()]);
    assert_eq!(got, HashSet::from([a.as_str(), b.as_str()]));
    let rules: u64 = say(&scene.redis, "EXISTS jobs:{7}:rules").await;
    assert_eq!(rules, 0);
}

/// Takes and ends jobs of `mail`, and checks how many all consumers hold at a time.
async fn work(settings: Settings, most: u64, held: &AtomicU64, all: &AtomicU64) {
    let consumer = Consumer::connect(settings, 60_000 * MS).await.unwrap();
    let mut consumer = consumer.of(mail());
    loop {
        let batch = consumer.batch(512).await;
        let count = batch.len() as u64;
        let now = held.fetch_add(count, SeqCst) + count;
        assert!(now <= most, "{now} jobs are held at a time");
        tokio::time::sleep(10 * MS).await;
        // Before the request: what is handed out after it is not too much.
        held.fetch_sub(count, SeqCst);
        consumer.acknowledge(&batch).await.unwrap();
        all.fetch_add(count, SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_concurrency_holds_over_all_consumers() {
    let scene = Scene::with(patient).await;
    let _node = Node::start(scene.settings.clone()).await.unwrap();
    let limits = Limits {
        concurrency: Some(3),
        rate: None,
    };
    scene.store.set_limits(&mail(), &limits).await.unwrap();
    for n in 0..60 {
        scene.create(of_mail(&n.to_string(), MS)).await;
    }
    let (held, all) = Default::default();
    let works = (0..4).map(|_| work(scene.settings.clone(), 3, &held, &all));
    let ended = until("all have come", async || all.load(SeqCst) == 60);
    tokio::select! {
        _ = futures_util::future::join_all(works) => {}
        _ = ended => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_held_as_long_as_jobs_and_come_back_with_them() {
    let (scene, node) = Scene::served_with(patient).await;
    let limits = json!({ "concurrency": 2 });
    let set = node.ask("PUT", "/v1/queues/mail", limits).await;
    assert_eq!(set, (200, json!({ "queue": "mail", "concurrency": 2 })));
    for n in 0..4 {
        scene.create(of_mail(&n.to_string(), MS)).await;
    }
    until("all have fired", async || {
        scene.store.overview().await.unwrap().waiting == 4
    })
    .await;
    // Takes until nothing more is handed out.
    let take = async |hold: &str| -> Vec<Value> {
        let path = format!("/v1/deliveries?queue=mail&max=9&wait=0s&hold={hold}");
        let mut all = Vec::new();
        loop {
            let taken = node.post(&path, "").await["deliveries"].clone();
            match taken.as_array().unwrap() {
                none if none.is_empty() => return all,
                some => all.extend(some.iter().cloned()),
            }
        }
    };
    let receipts = |taken: &[Value]| -> Vec<Value> {
        taken.iter().map(|one| one["receipt"].clone()).collect()
    };
    let first = take("60s").await;
    assert_eq!((first.len(), take("60s").await.len()), (2, 0));
    assert_eq!(shown(&node, "mail").await["concurrency"], 2);
    // A node that knows nothing of it gives them back, because the receipt says that there is a permit.
    let other = scene.node().await;
    let body = json!({ "receipts": [receipts(&first)[0]], "delay": "1h" });
    other.post("/v1/deliveries/nack", body).await;
    let body = json!({ "receipts": [receipts(&first)[1]] });
    assert_eq!(other.post("/v1/deliveries/ack", body).await["done"], 1);
    // The consumer of these dies: the permits end with the hold, unless it was extended.
    let lost = take("3s").await;
    assert_eq!(lost.len(), 2);
    let body = json!({ "receipts": [receipts(&lost)[0]], "hold": "60s" });
    assert_eq!(node.post("/v1/deliveries/extend", body).await["held"], 1);
    let path = "/v1/deliveries?queue=mail&max=9&wait=50s&hold=60s";
    let again = node.post(path, "").await["deliveries"].clone();
    assert_eq!(again.as_array().unwrap().len(), 1, "{again}");
    assert_eq!(
        (&again[0]["id"], &again[0]["attempt"]),
        (&lost[1]["id"], &json!(2))
    );
    // Without limits everything is handed out.
    scene.create(of_mail("more", MS)).await;
    node.ask("PUT", "/v1/queues/mail", "{}").await;
    assert_eq!(node.take("&queue=mail").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_that_comes_too_late_keeps_no_permit() {
    let (scene, node) = Scene::served_with(patient).await;
    let limits = json!({ "concurrency": 1 });
    node.ask("PUT", "/v1/queues/mail", limits).await;
    let id = scene.create(of_mail("1", MS)).await;
    let first = &node.take("&queue=mail&hold=60s").await[0];
    // The hold of the job ends after that of its permit was prolonged.
    let base = format!("jobs:{{{}}}", id.partition());
    let _: u64 = say(&scene.redis, &format!("ZADD {base}:held:mail 1 {id}")).await;
    let _: u64 = say(&scene.redis, &format!("ZADD {base}:holds 1 mail")).await;
    let body = json!({ "receipts": [first["receipt"]], "hold": "1h" });
    let answer = node.post("/v1/deliveries/extend", body).await;
    assert_eq!(answer["stale"], json!([first["receipt"]]));
    let again = node.take("&queue=mail").await;
    assert_eq!(again.len(), 1, "nobody holds the permit");
    assert_eq!(
        (&again[0]["id"], &again[0]["attempt"]),
        (&json!(id), &json!(2))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_holds_in_each_stretch_of_time() {
    let scene = Scene::with(patient).await;
    let _node = Node::start(scene.settings.clone()).await.unwrap();
    let (jobs, per) = (5, 700 * MS);
    let limits = Limits {
        concurrency: None,
        rate: Some(Rate { jobs, per }),
    };
    scene.store.set_limits(&mail(), &limits).await.unwrap();
    for n in 0..20 {
        scene.create(of_mail(&n.to_string(), MS)).await;
    }
    // Two consumers, so that they compete. The first job is handed out after this.
    let start = now_ms();
    let take = async || {
        let mut consumer = scene.consumer().await.of(mail());
        let mut times = Vec::new();
        while let Ok(batch) = tokio::time::timeout(3_000 * MS, consumer.batch(512)).await {
            times.extend(batch.iter().map(|_| now_ms()));
            consumer.acknowledge(&batch).await.unwrap();
        }
        times
    };
    let (mut times, more) = tokio::join!(take(), take());
    times.extend(more);
    times.sort_unstable();
    assert_eq!(times.len(), 20);
    for (n, came) in (0..).zip(times) {
        let earliest = start + n / 5 * 700;
        assert!(
            came >= earliest,
            "job {n} came {} ms too soon",
            earliest - came
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_of_permits_grants_no_more_than_the_limits() {
    let scene = Scene::new().await;
    let limits = |concurrency, jobs: Option<u32>| Limits {
        concurrency,
        rate: jobs.map(|jobs| Rate { jobs, per: HOUR }),
    };
    let grant = async |most: u32, name: &str| -> (i64, i64) {
        let args = ("mail", most, 60_000, name);
        let (granted, again, _): (i64, i64, u64) =
            scene.script_of("jobs:{queues}", "permit", args).await;
        (granted, again)
    };
    let settle = async |name: &str, count: u32, receipts: &[&str]| {
        let args = ("mail", name, count, now_ms() + 60_000, receipts);
        let _: u8 = scene.script_of("jobs:{queues}", "settle", args).await;
    };
    assert_eq!(grant(9, "a").await, (-1, -1), "no limits");
    scene
        .store
        .set_limits(&mail(), &limits(Some(4), None))
        .await
        .unwrap();
    assert_eq!(grant(3, "a").await.0, 3);
    assert_eq!(grant(3, "b").await.0, 1);
    let (none, again) = grant(3, "c").await;
    assert!(none == 0 && again > 50_000, "{again}");
    settle("a", 3, &["x.1p"]).await;
    assert_eq!(grant(9, "d").await.0, 2, "two of three were not used");
    scene
        .store
        .set_limits(&mail(), &limits(Some(9), Some(5)))
        .await
        .unwrap();
    assert_eq!(
        grant(3, "e").await.0,
        3,
        "a rate counts from when it is set"
    );
    settle("e", 3, &["y.1p", "z.1p"]).await;
    assert_eq!(grant(9, "f").await.0, 3, "three of five are left");
    let (none, again) = grant(1, "g").await;
    assert!(none == 0 && again > 3_500_000, "{again}");
    scene
        .store
        .set_limits(&mail(), &limits(None, Some(2)))
        .await
        .unwrap();
    assert_eq!(grant(1, "h").await.0, 0, "a lower rate counts at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_held_up_takes_nothing_for_permits_that_have_ended() {
    let scene = Scene::with(|settings| settings.partitions = 1).await;
    let _node = Node::start(scene.settings.clone()).await.unwrap();
    let limits = Limits {
        concurrency: Some(1),
        rate: None,
    };
    scene.store.set_limits(&mail(), &limits).await.unwrap();
    for n in 0..2 {
        scene.create(of_mail(&n.to_string(), MS)).await;
    }
    until("both have fired", async || {
        scene.store.overview().await.unwrap().waiting == 2
    })
    .await;
    let grant = async |hold_ms: u64, name: &str| -> (i64, i64, u64) {
        let args = ("mail", 1, hold_ms, name);
        scene.script_of("jobs:{queues}", "permit", args).await
    };
    let take = async |permits_end: u64| -> (i64, usize) {
        let args = (1, 60_000, "mail", permits_end, "", "jobs:inbox:x");
        type Reply = (i64, u64, u64, Vec<redis::Value>, Vec<u64>);
        let (left, _, _, jobs, _): Reply = scene.script("take", args).await;
        (left, jobs.len())
    };
    let (granted, _, first_end) = grant(20, "paused").await;
    assert_eq!((granted, grant(60_000, "other").await.0), (1, 0));
    tokio::time::sleep(50 * MS).await;
    let (granted, _, other_end) = grant(60_000, "other").await;
    assert_eq!(granted, 1, "the first one's permit has ended");
    assert_eq!(take(first_end).await, (-1, 0), "and lets it take no job");
    assert_eq!(take(other_end).await, (1, 1));
    let until_ms: Vec<(String, u64)> =
        say(&scene.redis, "ZRANGE jobs:{0}:held:mail 0 -1 WITHSCORES").await;
    assert_eq!(until_ms[0].1, other_end, "held no longer than the permit");
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_at_most_a_thousand_queues_with_jobs() {
    let scene = Scene::with(|settings| settings.partitions = 1).await;
    let of = |n: u32| NewJob {
        queue: format!("q{n}").parse().unwrap(),
        ..job("x", HOUR)
    };
    let made = scene.store.create_many((0..1_000).map(of).collect()).await;
    let ids: Vec<_> = made.into_iter().map(|made| made.unwrap().id).collect();
    let refused = scene.store.create(of(1_000)).await.unwrap_err().to_string();
    assert!(refused.contains("`q1000` is one too many"), "{refused}");
    scene.create(of(7)).await;
    scene.store.cancel(&ids[8]).await.unwrap();
    assert_eq!(scene.store.overview().await.unwrap().queues.len(), 1_000);
    scene.create(of(1_000)).await;
    assert_eq!(scene.state(&ids[9]).await, State::Pending);
}

/// What is listed first is due first, whatever its partition.
#[tokio::test(flavor = "multi_thread")]
async fn pending_jobs_are_listed_in_the_order_of_their_moments() {
    let scene = Scene::with(|settings| settings.partitions = 16).await;
    let store: &Store = &scene.store;
    let start = now_ms() + 3_600_000;
    for n in 0..300_u64 {
        let queue = if n % 50 == 0 {
            mail()
        } else {
            Queue::default()
        };
        // Several at one moment, in an order that is not that of time.
        let when = When::At(start + (n * 7 % 100));
        scene
            .create(NewJob {
                when,
                queue,
                ..job("x", MS)
            })
            .await;
    }
    for limit in [1, 13, 299, 1000] {
        let (mut due, mut ids, mut from) = (Vec::new(), HashSet::new(), None);
        loop {
            let page = store.list(from.as_deref(), limit).await.unwrap();
            assert!(page.jobs.len() <= limit);
            for one in page.jobs {
                due.push(one.due_ms);
                ids.insert(one.id);
            }
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!((due.len(), ids.len()), (300, 300), "in pages of {limit}");
        assert!(due.is_sorted(), "in pages of {limit}: {due:?}");
    }
}

/// How many of the first partitions have a rule for the queue `mail`.
async fn with_rule(scene: &Scene, rule: &str, partitions: u16) -> u16 {
    let mut count = 0;
    for partition in 0..partitions {
        let words = format!("SISMEMBER jobs:{{{partition}}}:rules {rule}:mail");
        count += say::<u16>(&scene.redis, &words).await;
    }
    count
}

async fn set_both(store: &Store, holds: bool) {
    let limits = Limits {
        concurrency: holds.then_some(5),
        rate: None,
    };
    store.set_paused(&mail(), holds).await.unwrap();
    store.set_limits(&mail(), &limits).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pauses_and_limits_count_in_partitions_that_are_added_meanwhile() {
    for holds in [true, false] {
        let scene = Scene::with(patient).await;
        let other: Queue = "other".parse().unwrap();
        scene.store.set_paused(&other, true).await.unwrap();
        set_both(&scene.store, !holds).await;
        let more = Settings {
            partitions: 1_000,
            ..scene.settings.clone()
        };
        let adding = tokio::spawn(Node::start(more));
        until("some rules are copied", async || {
            say(&scene.redis, "SISMEMBER jobs:{300}:rules paused:other").await
        })
        .await;
        set_both(&scene.store, holds).await;
        adding.await.unwrap().unwrap().stop().await;
        for rule in ["paused", "limited"] {
            let wanted = if holds { 1_000 } else { 0 };
            assert_eq!(with_rule(&scene, rule, 1_000).await, wanted, "{rule}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_reach_partitions_that_a_node_has_not_added_before_it_died() {
    let scene = Scene::with(patient).await;
    set_both(&scene.store, true).await;
    let more = Settings {
        partitions: 40,
        ..scene.settings.clone()
    };
    Node::start(more.clone()).await.unwrap().stop().await;
    // It died before its last step.
    let _: u64 = say(&scene.redis, "HSET jobs:settings partitions 4").await;
    set_both(&scene.store, false).await;
    Node::start(more).await.unwrap().stop().await;
    let left = with_rule(&scene, "paused", 40).await + with_rule(&scene, "limited", 40).await;
    assert_eq!(left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_pauses_and_limits_at_the_same_time_one_counts_everywhere() {
    let scene = Scene::with(patient).await;
    let stores = [
        scene.store.clone(),
        Store::open(scene.settings.clone()).await.unwrap(),
    ];
    for _ in 0..100 {
        let (on, off) = (&stores[0], &stores[1]);
        let limits = Limits {
            concurrency: Some(1),
            rate: None,
        };
        let (queue, none) = (mail(), Limits::default());
        let all = tokio::join!(
            on.set_paused(&queue, true),
            off.set_paused(&queue, false),
            on.set_limits(&queue, &limits),
            off.set_limits(&queue, &none),
        );
        assert!(all.0.is_ok() && all.1.is_ok() && all.2.is_ok() && all.3.is_ok());
        for rule in ["paused", "limited"] {
            let count = with_rule(&scene, rule, 4).await;
            assert!([0, 4].contains(&count), "{rule} in {count} of 4 partitions");
        }
        let shown = scene.store.overview().await.unwrap().queues;
        let shown = shown.iter().find(|one| one.queue == queue);
        let is_limited = shown.is_some_and(|one| one.limits == limits);
        assert_eq!(is_limited, with_rule(&scene, "limited", 1).await == 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_invented_queues_are_bounded() {
    let scene = Scene::new().await;
    let all = |word: &str| {
        (0..1000)
            .map(|n| word.replace('N', &n.to_string()))
            .collect::<String>()
    };
    let _: u64 = say(
        &scene.redis,
        &("SADD jobs:{0}:rules".to_owned() + &all(" paused:qN")),
    )
    .await;
    let _: u64 = say(
        &scene.redis,
        &("HSET jobs:{queues}:limits".to_owned() + &all(" qN 1")),
    )
    .await;
    let queue = |name: &str| name.parse::<Queue>().unwrap();
    let limits = Limits {
        concurrency: Some(1),
        rate: None,
    };
    let refused = scene.store.set_paused(&queue("other"), true).await;
    assert!(matches!(refused, Err(StoreError::Unfit(_))), "{refused:?}");
    let refused = scene.store.set_limits(&queue("other"), &limits).await;
    assert!(matches!(refused, Err(StoreError::Unfit(_))), "{refused:?}");
    // One that is there can be changed, and one fewer leaves room.
    scene.store.set_limits(&queue("q7"), &limits).await.unwrap();
    scene
        .store
        .set_limits(&queue("q7"), &Limits::default())
        .await
        .unwrap();
    scene
        .store
        .set_limits(&queue("other"), &limits)
        .await
        .unwrap();
    scene.store.set_paused(&queue("q7"), true).await.unwrap();
    scene.store.set_paused(&queue("q7"), false).await.unwrap();
    scene.store.set_paused(&queue("other"), true).await.unwrap();
}
