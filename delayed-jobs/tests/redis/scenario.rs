//! The scenario of BullMQ's documentation on delayed, repeated and failed jobs, through HTTP, with shorter times.

use serde_json::{Value, json};

use crate::deliveries::Api;
use crate::support::{node, now_ms, redis, settings};

/// A worker's answer to each attempt: the error, if there is one.
type Works = fn(&Value) -> Result<(), &'static str>;

/// Works until `count` attempts have been made; returns the deliveries.
async fn work(api: &Api<'_>, count: usize, works: Works) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    while all.len() < count {
        let taken = api.take("&hold=10s").await;
        assert!(!taken.is_empty(), "{} of {count} attempts within 5 s", all.len());
        for one in &taken {
            let receipts = json!([one["receipt"]]);
            match works(one) {
                Ok(()) => api.post("/v1/deliveries/ack", json!({ "receipts": receipts })).await,
                Err(error) => {
                    let body = json!({ "receipts": receipts, "reason": error });
                    api.post("/v1/deliveries/nack", body).await
                }
            };
        }
        all.extend(taken);
    }
    all
}

fn ms(job: &Value, field: &str) -> u64 {
    job[field].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_jobs_come_after_their_delay_and_can_be_moved() {
    let redis = redis().await;
    let node = node(&settings(&redis)).await;
    let api = Api(&node);
    // `queue.add('paint', { color: 'white' }, { delay: 5000 })`, and the same for a fixed time.
    let before = now_ms();
    let white = json!({ "payload": { "color": "white" }, "delay_ms": 500 });
    api.post("/v1/jobs", white).await;
    let at = now_ms() + 700;
    api.post("/v1/jobs", json!({ "payload": { "color": "red" }, "due_ms": at })).await;
    // `job.changeDelay(2000)`
    let blue = json!({ "payload": { "color": "blue" }, "delay": "10m" });
    let blue = api.post("/v1/jobs", blue).await;
    let path = format!("/v1/jobs/{}", blue["id"].as_str().unwrap());
    let (status, moved) = api.ask("PATCH", &path, &json!({ "delay_ms": 900 })).await;
    assert_eq!(status, 200, "{moved}");
    let painted = work(&api, 3, |_| Ok(())).await;
    let colors: Vec<&str> =
        painted.iter().map(|one| one["payload"]["color"].as_str().unwrap()).collect();
    assert_eq!(colors, ["white", "red", "blue"]);
    assert!(ms(&painted[0], "fired_ms") >= before + 500 && ms(&painted[1], "fired_ms") >= at);
    assert!(painted.iter().all(|one| ms(one, "fired_ms") >= ms(one, "due_ms")));
    // A custom job id, which the next job with the same one does not double.
    let once = json!({ "payload": 1, "delay": "1h", "idempotency_key": "paint-house-7" });
    assert_eq!(api.post("/v1/jobs", once.clone()).await["repeated"], false);
    assert_eq!(api.post("/v1/jobs", once).await["repeated"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_jobs_are_retried_with_backoff_and_then_kept_as_failed() {
    let redis = redis().await;
    let node = node(&settings(&redis)).await;
    let api = Api(&node);
    // `{ attempts: 4, backoff: { type: 'exponential', delay: 1000 } }`: 2^(attempt - 1) times the delay.
    let job = json!({ "payload": "paint", "delay_ms": 0, "max_attempts": 4,
        "backoff": { "kind": "exponential", "delay": "100ms", "jitter": 0.0 } });
    let made = api.post("/v1/jobs", job).await;
    let attempts = work(&api, 4, |_| Err("out of paint")).await;
    let rests: Vec<u64> = attempts
        .windows(2)
        .map(|pair| ms(&pair[1], "fired_ms") - ms(&pair[0], "fired_ms"))
        .collect();
    for (rest, least) in rests.iter().zip([100, 200, 400]) {
        assert!((least..least + 1_000).contains(rest), "{rests:?}");
    }
    assert!(attempts.iter().zip(1..).all(|(one, n)| ms(one, "attempt") == n));
    // `{ attempts: 3, backoff: { type: 'fixed', delay: 1000 } }`: works the third time.
    let job = json!({ "payload": "wall", "delay_ms": 0, "max_attempts": 3,
        "backoff": { "kind": "fixed", "delay": "100ms", "jitter": 0.0 } });
    let wall = api.post("/v1/jobs", job).await;
    let third: Works = |one| if one["attempt"] == 3 { Ok(()) } else { Err("rain") };
    let attempts = work(&api, 3, third).await;
    let rest = ms(&attempts[2], "fired_ms") - ms(&attempts[1], "fired_ms");
    assert!((100..1_100).contains(&rest), "{rest}");
    assert_eq!(api.state(&wall["id"]).await, "done");
    // The failed set, `job.failedReason`, and `job.retry()`.
    let failed = api.get("/v1/dead").await;
    assert_eq!(
        (&failed["jobs"][0]["id"], &failed["jobs"][0]["reason"]),
        (&made["id"], &json!("out of paint"))
    );
    assert_eq!(failed["jobs"].as_array().unwrap().len(), 1);
    api.post("/v1/dead/requeue", json!({ "ids": [made["id"]] })).await;
    work(&api, 1, |_| Ok(())).await;
    assert_eq!(api.state(&made["id"]).await, "done");
    // `UnrecoverableError`: no further attempt.
    let job = json!({ "payload": "roof", "delay_ms": 0, "max_attempts": 5 });
    let roof = api.post("/v1/jobs", job).await;
    let one = api.take("").await.remove(0);
    let body = json!({ "receipts": [one["receipt"]], "dead": true, "reason": "no ladder" });
    assert_eq!(api.post("/v1/deliveries/nack", body).await["dead"], json!([one["receipt"]]));
    assert_eq!(api.state(&roof["id"]).await, "dead");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_jobs_come_from_a_scheduler_that_can_be_changed() {
    let redis = redis().await;
    let node = node(&settings(&redis)).await;
    let api = Api(&node);
    // `queue.upsertJobScheduler('repeat-every-10s', { every: 10000 }, { data, opts: { attempts: 3 } })`
    let path = "/v1/schedules/repeat-every-10s";
    let plan = json!({ "every": "300ms", "payload": { "job": 1 }, "max_attempts": 3,
        "backoff": { "kind": "fixed", "delay": "10ms" } });
    assert_eq!(api.ask("PUT", path, &plan).await.0, 201);
    // Each of its jobs is retried like any other one.
    let first_fails: Works = |one| if one["attempt"] == 1 { Err("busy") } else { Ok(()) };
    let attempts = work(&api, 6, first_fails).await;
    let mut due: Vec<u64> =
        attempts.iter().filter(|one| one["attempt"] == 1).map(|one| ms(one, "due_ms")).collect();
    due.dedup();
    assert!(due.len() >= 3 && due.windows(2).all(|pair| pair[1] - pair[0] == 300), "{due:?}");
    assert!(attempts.iter().all(|one| one["schedule"] == "repeat-every-10s"));
    // The same scheduler with a pattern takes its place: `{ pattern: '* * * * * *' }`.
    let plan = json!({ "cron": "* * * * * *", "payload": { "job": 2 } });
    let (status, changed) = api.ask("PUT", path, &plan).await;
    assert_eq!((status, &changed["changed"]), (200, &json!(true)));
    // What the old one had already fired comes first.
    let mut seconds = Vec::new();
    while seconds.len() < 2 {
        let taken = work(&api, 1, |_| Ok(())).await;
        seconds.extend(taken.into_iter().filter(|one| one["payload"]["job"] == 2));
    }
    assert!(seconds.iter().all(|one| ms(one, "due_ms") % 1000 == 0), "{seconds:?}");
    // `queue.getJobSchedulers()` and `queue.removeJobScheduler('repeat-every-10s')`
    let list = api.get("/v1/schedules").await;
    assert_eq!(list["schedules"].as_array().unwrap().len(), 1);
    assert_eq!(api.ask("DELETE", path, &Value::Null).await.0, 200);
    assert_eq!(api.get("/v1/overview").await["pending"], 0);
}
