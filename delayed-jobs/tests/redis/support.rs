//! What all of these tests begin with.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use delayed_jobs::local::{NodeProcess, RedisProcess};
use delayed_jobs::{Client, Consumer, Delivery, JobId, NewJob, Settings, State, Store, When};
use redis::FromRedisValue;
use reqwest::Method;
use serde_json::{Value, json};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_delayed-jobs");

/// A Redis, the settings that lead to it, and access to its jobs.
pub(crate) struct Scene<R = RedisProcess> {
    pub(crate) redis: R,
    pub(crate) settings: Settings,
    pub(crate) store: Store,
}

/// Short leases, few partitions.
pub(crate) fn settings_of(redis: String) -> Settings {
    Settings {
        redis,
        partitions: 4,
        lease: 900 * MS,
        patience: 300 * MS,
        ..Settings::default()
    }
}

/// No request fails because this machine is busy.
pub(crate) fn patient(settings: &mut Settings) {
    (settings.lease, settings.patience) = (10_000 * MS, 5_000 * MS);
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let redis = RedisProcess::start(&[])
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let mut settings = settings_of(redis.url());
        change(&mut settings);
        Self::of(redis, settings).await
    }

    /// With a node in a process of its own that holds all partitions.
    pub(crate) async fn served() -> (Self, Api) {
        Self::served_with(|_| {}).await
    }

    pub(crate) async fn served_with(change: impl FnOnce(&mut Settings)) -> (Self, Api) {
        let scene = Self::with(change).await;
        let node = scene.node().await;
        scene.shared_by(1).await;
        (scene, node)
    }
}

impl<R> Scene<R> {
    pub(crate) async fn of(redis: R, settings: Settings) -> Self {
        // What is tested asks by connections of its own, and a busy machine takes its time.
        let calm = Settings {
            patience: 10_000 * MS,
            ..settings.clone()
        };
        let store = Store::open(calm).await.unwrap();
        Self {
            redis,
            settings,
            store,
        }
    }

    /// Starts a node in a process of its own.
    pub(crate) async fn node(&self) -> Api {
        node(&self.settings).await
    }

    /// Starts a node that listens where another one did.
    pub(crate) async fn node_at(&self, listen: &str) -> Api {
        let node = NodeProcess::start(Path::new(PROGRAM), &self.settings, listen).await;
        Api(node.unwrap())
    }

    pub(crate) async fn consumer(&self) -> Consumer {
        Consumer::connect(self.settings.clone(), 60_000 * MS)
            .await
            .unwrap()
    }

    pub(crate) async fn create(&self, new: NewJob) -> JobId {
        self.store.create(new).await.unwrap().id
    }

    pub(crate) async fn state(&self, id: &JobId) -> State {
        self.store.get(id).await.unwrap().state
    }

    /// Accepts so many jobs, due within `within` from now.
    pub(crate) async fn fill(&self, count: u32, within: Duration) -> Vec<JobId> {
        let mut ids = Vec::new();
        for n in 0..count {
            ids.push(
                self.create(job(&format!("job {n}"), within * n / count))
                    .await,
            );
        }
        ids
    }

    /// Lets a new consumer take all of these jobs; see [`collect`].
    pub(crate) async fn collect(&self, ids: &[JobId]) -> HashMap<JobId, Vec<Delivery>> {
        collect(&mut self.consumer().await, ids).await
    }

    /// The nodes that hold partitions, with how many each.
    pub(crate) async fn holders(&self) -> HashMap<String, usize> {
        let mut holders = HashMap::new();
        if let Ok(overview) = self.store.overview().await {
            for one in overview
                .partitions
                .into_iter()
                .filter(|one| !one.node.is_empty())
            {
                *holders.entry(one.node).or_default() += 1;
            }
        }
        holders
    }

    /// Waits until all partitions are held by exactly so many nodes; says how long that took.
    pub(crate) async fn shared_by(&self, nodes: usize) -> Duration {
        until(&format!("{nodes} nodes hold all partitions"), async || {
            let (holders, partitions) = (self.holders().await, self.store.partitions());
            holders.len() == nodes && holders.values().sum::<usize>() == usize::from(partitions)
        })
        .await
    }
}

impl Scene {
    /// Runs one of the program's scripts on the first partition.
    pub(crate) async fn script<T: FromRedisValue>(
        &self,
        name: &str,
        args: impl redis::ToRedisArgs,
    ) -> T {
        self.script_of("jobs:{0}", name, args).await
    }

    /// Runs one of the program's scripts on the keys that begin so.
    pub(crate) async fn script_of<T: FromRedisValue>(
        &self,
        base: &str,
        name: &str,
        args: impl redis::ToRedisArgs,
    ) -> T {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts");
        let read = |name| std::fs::read_to_string(format!("{folder}/{name}.lua")).unwrap();
        let script = redis::Script::new(&(read("common") + &read(name)));
        let mut connection = connection(&self.redis).await;
        script
            .key(base)
            .arg(args)
            .invoke_async(&mut connection)
            .await
            .unwrap()
    }
}

pub(crate) async fn connection(redis: &RedisProcess) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(redis.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// Says a command of several words to a Redis.
pub(crate) async fn say<T: FromRedisValue>(redis: &RedisProcess, words: &str) -> T {
    // A space at the end comes before an empty word.
    let last = words.ends_with(' ').then_some("");
    let mut words = words.split_whitespace().chain(last);
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command
        .query_async(&mut connection(redis).await)
        .await
        .unwrap()
}

/// A node in a process of its own, and its interface.
pub(crate) struct Api(NodeProcess);

impl Deref for Api {
    type Target = NodeProcess;

    fn deref(&self) -> &NodeProcess {
        &self.0
    }
}

pub(crate) async fn node(settings: &Settings) -> Api {
    node_of(Path::new(PROGRAM), settings).await
}

pub(crate) async fn node_of(program: &Path, settings: &Settings) -> Api {
    Api(NodeProcess::start(program, settings, "127.0.0.1:0")
        .await
        .unwrap())
}

/// A request to a node, with a token if there is one. An answer that is no JSON is a text.
pub(crate) async fn ask(url: &str, method: &str, token: &str, body: impl ToString) -> (u16, Value) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    // A client per runtime: connections end with the runtime that made them.
    let mut request = reqwest::Client::new()
        .request(method, url)
        .header("content-type", "application/json")
        .body(body.to_string());
    if !token.is_empty() {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}

impl Api {
    pub(crate) async fn kill(mut self) {
        self.0.kill().await.unwrap();
    }

    /// Asks the node to end, which it must do well.
    pub(crate) async fn end(mut self) {
        assert!(self.0.end().await.unwrap().success());
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(vec![self.address().to_owned()], 15_000 * MS).unwrap()
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: impl ToString) -> (u16, Value) {
        ask(&format!("{}{path}", self.address()), method, "", body).await
    }

    /// A request that must be carried out.
    pub(crate) async fn post(&self, path: &str, body: impl ToString) -> Value {
        let (status, answer) = self.ask("POST", path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, "").await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// What has fired, after at most 5 s.
    pub(crate) async fn take(&self, more: &str) -> Vec<Value> {
        let answer = self
            .post(&format!("/v1/deliveries?wait=5s&max=64{more}"), "")
            .await;
        answer["deliveries"].as_array().unwrap().clone()
    }

    pub(crate) async fn job(&self, id: &Value) -> Value {
        self.get(&format!("/v1/jobs/{}", id.as_str().unwrap()))
            .await
    }

    pub(crate) async fn has_state(&self, id: &Value, state: &str) -> bool {
        self.job(id).await["state"] == state
    }

    /// The state of Redis as the node sees it.
    pub(crate) async fn health(&self) -> (u16, Value) {
        let (status, body) = self.ask("GET", "/healthz", "").await;
        (status, body["redis"].clone())
    }

    /// Whether a proxy may send requests here, and the state of Redis.
    pub(crate) async fn ready(&self) -> (u16, Value) {
        let (status, body) = self.ask("GET", "/readyz", "").await;
        (status, body["redis"].clone())
    }

    /// The status and code of the answer to a request for a job.
    pub(crate) async fn creates(&self) -> (u16, Value) {
        let (status, body) = self.ask("POST", "/v1/jobs", json!({ "delay": "1h" })).await;
        (status, body["error"]["code"].clone())
    }

    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await;
        let text = text.as_str().unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("delayed_jobs_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
            .parse()
            .unwrap()
    }
}

pub(crate) fn job(payload: &str, delay: Duration) -> NewJob {
    NewJob::new(payload, When::After(delay))
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Takes and acknowledges until every job has come; panics if one has not within 20 s, or comes early.
pub(crate) async fn collect(
    consumer: &mut Consumer,
    ids: &[JobId],
) -> HashMap<JobId, Vec<Delivery>> {
    let end = Instant::now() + 20_000 * MS;
    let mut got: HashMap<JobId, Vec<Delivery>> = HashMap::new();
    while !ids.iter().all(|id| got.contains_key(id)) {
        let Ok(batch) = tokio::time::timeout_at(end.into(), consumer.batch(512)).await else {
            let missing = ids.iter().filter(|id| !got.contains_key(*id));
            let (count, first) = (missing.clone().count(), missing.clone().next().unwrap());
            let state = consumer.store().get(first).await;
            panic!("{count} of {} jobs have not come: {state:?}", ids.len());
        };
        for one in &batch {
            assert!(
                one.fired_ms >= one.due_ms && now_ms() >= one.due_ms,
                "early: {one:?}"
            );
        }
        consumer.acknowledge(&batch).await.unwrap();
        for one in batch {
            got.entry(one.id.clone()).or_default().push(one);
        }
    }
    got
}

pub(crate) fn each_came_once(got: &HashMap<JobId, Vec<Delivery>>) -> bool {
    got.values().all(|deliveries| deliveries.len() == 1)
}

/// Waits until something is so; panics if it is not within 30 s.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < 30_000 * MS, "not so after 30 s: {what}");
        tokio::time::sleep(5 * MS).await;
    }
    start.elapsed()
}
