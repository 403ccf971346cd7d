//! Attempts: jobs that fail, rest, come again, and die.

use std::time::Duration;

use delayed_jobs::{
    Consumer, DeadJobs, NewJob, NewSchedule, Node, Overlap, Priority, Queue, Recurrence, Retry,
    Settings, State, StoreError, When,
};

use serde_json::json;

use crate::support::{HOUR, MS, Scene, job, now_ms, patient, say, until};

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
        (
            overview.pending,
            overview.waiting,
            overview.running,
            overview.dead
        ),
        (0, 0, 0, 5)
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
            .requeue(DeadJobs::These(std::slice::from_ref(&one.id)))
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
            .purge(DeadJobs::These(std::slice::from_ref(&other.id)))
            .await
            .unwrap(),
        1
    );
    assert!(store.get(&other.id).await.is_err());
    assert_eq!(store.requeue(DeadJobs::All).await.unwrap(), 3);
    assert_eq!(
        (
            store.purge(DeadJobs::All).await.unwrap(),
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

#[tokio::test(flavor = "multi_thread")]
async fn a_rest_of_nothing_stays_one_however_often_it_grows() {
    let (scene, _node) = started().await;
    let mut consumer = scene.consumer().await;
    let retry = Retry {
        max_attempts: 1_000,
        first: std::time::Duration::ZERO,
        factor: 100.0,
        ..Retry::default()
    };
    let id = scene.create(tried("again", retry)).await;
    // 100 to the power of 155 is more than a double holds.
    for attempt in 1..=160_u32 {
        let one = consumer.next().await;
        assert_eq!((&one.id, one.attempt), (&id, attempt));
        consumer.fail(&[one], "not yet").await.unwrap();
    }
    let one = consumer.next().await;
    consumer.acknowledge(&[one]).await.unwrap();
    assert_eq!(scene.state(&id).await, State::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_job_keeps_no_payload_and_little_memory() {
    let (scene, _node) = started().await;
    let (store, mut consumer) = (&scene.store, scene.consumer().await);
    let memory = async |id: &delayed_jobs::JobId| -> u64 {
        let key = format!("jobs:{{{}}}:job:{id}", id.partition());
        say(&scene.redis, &format!("MEMORY USAGE {key} SAMPLES 0")).await
    };
    let payloads = async || -> usize {
        let keys: Vec<String> = say(&scene.redis, "KEYS jobs:*:payload:*").await;
        keys.len()
    };
    for payload in ["short".to_owned(), "long ".repeat(200)] {
        let far = scene.create(job(&payload, HOUR)).await;
        let near = scene.create(job(&payload, MS)).await;
        let pending = store.get(&far).await.unwrap();
        assert_eq!(pending.payload.as_deref(), Some(&*payload));
        assert_eq!(payloads().await, if payload.len() > 64 { 2 } else { 0 });
        let one = consumer.next().await;
        assert_eq!((&one.id, &one.payload), (&near, &payload));
        consumer.acknowledge(&[one]).await.unwrap();
        store.cancel(&far).await.unwrap();
        for (id, state) in [(near, State::Done), (far, State::Cancelled)] {
            let ended = store.get(&id).await.unwrap();
            assert_eq!((ended.state, ended.payload), (state, None));
            assert!(ended.due_ms >= ended.created_ms && ended.max_attempts == 10);
            let kept = memory(&id).await;
            assert!(kept <= 280, "{kept} bytes");
        }
        assert_eq!(payloads().await, 0, "a long one has a key of its own");
    }
    // A dead one keeps it, because it may be requeued.
    let poison = "poison ".repeat(10);
    scene.create(tried(&poison, Retry::fixed(1, MS))).await;
    let one = consumer.next().await;
    consumer.fail(&[one], "").await.unwrap();
    let dead = store.dead(None, 9).await.unwrap().jobs.remove(0);
    assert_eq!(dead.payload.as_deref(), Some(&*poison));
    store.purge(DeadJobs::These(&[dead.id])).await.unwrap();
    assert_eq!(payloads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_are_forgotten_when_they_are_too_many_or_too_old() {
    let scene = Scene::with(|settings| settings.partitions = 1).await;
    let (store, mut consumer) = (&scene.store, scene.consumer().await);
    let node = Node::start(scene.settings.clone()).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..6 {
        let new = NewJob {
            idempotency_key: Some(format!("k{n}")),
            ..tried("x", Retry::fixed(1, MS))
        };
        ids.push(scene.create(new).await);
        let one = consumer.next().await;
        consumer.fail(&[one], "").await.unwrap();
        // No two die in one millisecond.
        tokio::time::sleep(5 * MS).await;
    }
    assert_eq!(
        store.overview().await.unwrap().dead,
        6,
        "kept without settings"
    );
    node.stop().await;
    let of_few = Settings {
        max_dead: Some(4),
        ..scene.settings.clone()
    };
    let node = Node::start(of_few).await.unwrap();
    until("two are forgotten", async || {
        store.overview().await.unwrap().dead == 4
    })
    .await;
    node.stop().await;
    let left: Vec<_> = store.dead(None, 9).await.unwrap().jobs;
    let left: Vec<_> = left.into_iter().rev().map(|job| job.id).collect();
    assert_eq!(left, ids[2..], "the first ones are gone");
    assert!(store.get(&ids[0]).await.is_err());
    assert!(store.by_key("k0").await.is_err() && store.by_key("k2").await.is_ok());
    let of_short = Settings {
        dead_retention: Some(1_000 * MS),
        ..scene.settings.clone()
    };
    let _node = Node::start(of_short).await.unwrap();
    until("all are forgotten", async || {
        store.overview().await.unwrap().dead == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_the_scripts_cannot_carry_out_is_refused() {
    let scene = Scene::new().await;
    let no_number = Retry {
        jitter: f64::NAN,
        ..Retry::default()
    };
    for retry in [no_number, Retry::fixed(3, Duration::MAX)] {
        let refused = scene.store.create(tried("x", retry.clone())).await;
        assert!(matches!(refused, Err(StoreError::Unfit(_))), "{refused:?}");
        let plan = NewSchedule {
            name: "x".to_owned(),
            recurrence: Recurrence::every(HOUR).unwrap(),
            payload: String::new(),
            retry: Some(retry),
            queue: Queue::default(),
            priority: Priority::default(),
            overlap: Overlap::Skip,
        };
        let refused = scene.store.schedule(&plan).await;
        assert!(matches!(refused, Err(StoreError::Unfit(_))), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_keeps_its_key_until_it_is_purged() {
    let (_scene, node) = Scene::served_with(patient).await;
    let body = json!({ "idempotency_key": "k", "max_attempts": 1 });
    let made = node.post("/v1/jobs", &body).await;
    let taken = node.take("").await;
    let nack = json!({ "receipts": [taken[0]["receipt"]] });
    node.post("/v1/deliveries/nack", nack).await;
    assert!(node.has_state(&made["id"], "dead").await);
    let again = node.post("/v1/jobs", &body).await;
    assert_eq!(
        (&again["id"], &again["repeated"]),
        (&made["id"], &json!(true))
    );
    node.post("/v1/dead/purge", json!({ "ids": [made["id"]] }))
        .await;
    assert_eq!(node.post("/v1/jobs", &body).await["repeated"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_of_one_queue_are_listed_requeued_and_purged_alone() {
    let (_scene, node) = Scene::served_with(patient).await;
    for queue in ["mail", "mail", "sms", "default"] {
        let body = json!({ "queue": queue, "max_attempts": 1 });
        node.post("/v1/jobs", body).await;
        let taken = node.take(&format!("&queue={queue}")).await;
        let nack = json!({ "receipts": [taken[0]["receipt"]], "reason": queue });
        node.post("/v1/deliveries/nack", nack).await;
    }
    let dead = async |query: &str| {
        let page = node.get(&format!("/v1/dead?{query}")).await;
        let jobs = page["jobs"].as_array().unwrap().clone();
        let queues = jobs
            .iter()
            .map(|job| job["queue"].as_str().unwrap().to_owned());
        let mut queues: Vec<String> = queues.collect();
        queues.sort_unstable();
        queues
    };
    assert_eq!(dead("").await, ["default", "mail", "mail", "sms"]);
    assert_eq!(dead("queue=mail").await, ["mail", "mail"]);
    assert_eq!(dead("queue=default").await, ["default"]);
    assert!(dead("queue=none").await.is_empty());
    let of = |queue: &str| json!({ "queue": queue });
    assert_eq!(
        node.post("/v1/dead/requeue", of("sms")).await["requeued"],
        1
    );
    assert_eq!(node.take("&queue=sms").await.len(), 1);
    assert_eq!(node.post("/v1/dead/purge", of("mail")).await["purged"], 2);
    assert_eq!(node.post("/v1/dead/purge", of("mail")).await["purged"], 0);
    assert_eq!(dead("").await, ["default"]);
    for wrong in [
        json!({ "queue": "mail", "all": true }),
        json!({ "queue": "mail", "ids": [] }),
        json!({ "queue": null }),
        json!({ "queue": "a.b" }),
    ] {
        assert_eq!(
            node.ask("POST", "/v1/dead/purge", &wrong).await.0,
            400,
            "{wrong}"
        );
    }
    assert_eq!(
        node.post("/v1/dead/purge", of("default")).await["purged"],
        1
    );
}
