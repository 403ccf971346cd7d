//! Wires that are cut without a word, and runtimes that stand still: whatever shares a connection or a task
//! with them goes on.

use std::sync::Arc;
use std::time::Duration;

use delayed_jobs::local::RedisProcess;
use delayed_jobs::{Consumer, Limits, Queue, Settings, Store};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::support::{MS, Scene, job, node, patient, say, until};

/// No request fails because this machine is busy, and one that is cut is given up soon.
fn calm(settings: &mut Settings) {
    (settings.lease, settings.patience) = (3_000 * MS, 1_000 * MS);
}

/// Waits until so many connections hear a channel.
async fn is_heard_by(redis: &RedisProcess, channel: &str, count: u64) {
    until(&format!("{count} hear {channel}"), async || {
        let heard: (String, u64) = say(redis, &format!("PUBSUB NUMSUB {channel}")).await;
        heard.1 == count
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_consumers_whose_connections_end_without_a_word_hear_again() {
    let scene = Scene::with(|settings| {
        calm(settings);
        settings.partitions = 1;
    })
    .await;
    let wire = Proxy::to(scene.redis.port(), Duration::ZERO).await;
    let far = wire.settings(&scene.settings);
    let _node = node(&far).await;
    let mut consumer = Consumer::connect(far, 60_000 * MS).await.unwrap();
    for channel in ["jobs:{0}:near@0", "jobs:ready@0"] {
        is_heard_by(&scene.redis, channel, 1).await;
    }
    wire.strand();
    for channel in ["jobs:{0}:near@0", "jobs:ready@0"] {
        // Redis counts the connection that was cut as well.
        is_heard_by(&scene.redis, channel, 2).await;
    }
    let id = scene.create(job("x", MS)).await;
    assert_eq!(consumer.next().await.id, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_whose_subscription_is_not_answered_subscribes_again() {
    let scene = Scene::with(calm).await;
    let wire = Proxy::to(scene.redis.port(), Duration::ZERO).await;
    wire.strand_at("SUBSCRIBE");
    let far = wire.settings(&scene.settings);
    let _consumer = Consumer::connect(far, 60_000 * MS).await.unwrap();
    is_heard_by(&scene.redis, "jobs:ready@0", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_gets_jobs_after_the_runtime_that_connected_it_has_ended() {
    let (scene, _node) = Scene::served_with(patient).await;
    let settings = scene.settings.clone();
    let connect = move || {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(Consumer::connect(settings, 60_000 * MS))
    };
    let mut consumer = std::thread::spawn(connect).join().unwrap().unwrap();
    // The first look asks all partitions.
    let nothing = timeout(1_200 * MS, consumer.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    let id = scene.create(job("x", MS)).await;
    let delivery = timeout(10_000 * MS, consumer.next()).await;
    assert_eq!(delivery.expect("it comes").id, id);
}

/// Begins a request on a runtime that nobody drives from then on.
fn begin_and_stand_still(store: &Store) -> Runtime {
    let store = store.clone();
    let begin = move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let request = async { timeout(100 * MS, store.create(job("x", MS))).await };
        assert!(runtime.block_on(request).is_err());
        runtime
    };
    std::thread::spawn(begin).join().unwrap()
}

/// A request is answered; then the runtime that stood still ends.
async fn is_answered_beside(idle: Runtime, store: &Store) {
    let answer = timeout(20_000 * MS, store.create(job("y", MS))).await;
    idle.shutdown_background();
    answer.expect("it is answered").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_stands_still_amid_a_request_leaves_no_other_one_waiting() {
    let scene = Scene::new().await;
    let _: () = say(&scene.redis, "CLIENT PAUSE 60000 WRITE").await;
    let idle = begin_and_stand_still(&scene.store);
    let _: () = say(&scene.redis, "CLIENT UNPAUSE").await;
    is_answered_beside(idle, &scene.store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_stands_still_while_it_connects_leaves_no_other_one_waiting() {
    let scene = Scene::with(calm).await;
    let wire = Proxy::to(scene.redis.port(), Duration::ZERO).await;
    let store = Store::open(wire.settings(&scene.settings)).await.unwrap();
    wire.cut();
    store.create(job("x", MS)).await.unwrap_err();
    let idle = begin_and_stand_still(&store);
    wire.mend();
    is_answered_beside(idle, &store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_holds_end_before_they_begin_is_answered() {
    let scene = Scene::with(patient).await;
    let wire = Proxy::to(scene.redis.port(), 5 * MS).await;
    let node = node(&wire.settings(&scene.settings)).await;
    let limits = Limits {
        concurrency: Some(1),
        rate: None,
    };
    let queue = Queue::default();
    scene.store.set_limits(&queue, &limits).await.unwrap();
    scene.fill(40, Duration::ZERO).await;
    until("all have fired", async || {
        scene.store.overview().await.unwrap().waiting == 40
    })
    .await;
    let answer = node.ask("POST", "/v1/deliveries?hold=1ms", "");
    let answer = timeout(15_000 * MS, answer).await.expect("it is answered");
    assert_eq!(answer, (200, json!({ "deliveries": [] })));
}

/// A wire that can be cut: what comes in at a port goes to another one, or nowhere.
pub(crate) struct Proxy {
    url: String,
    switch: Arc<watch::Sender<Switch>>,
}

/// Which connections pass. Those that do not pass neither bytes nor ends.
#[derive(Default)]
struct Switch {
    made: usize,
    /// The number of the first one that passes.
    first: usize,
    /// What strands all connections when one of them says it, once.
    word: Option<&'static str>,
}

impl Switch {
    /// Looks for the word; whether it was there.
    fn hears(&mut self, chunk: &[u8]) -> bool {
        let said = String::from_utf8_lossy(chunk);
        let was_there = self.word.is_some_and(|word| said.contains(word));
        if was_there {
            (self.first, self.word) = (self.made, None);
        }
        was_there
    }
}

impl Proxy {
    pub(crate) async fn to(port: u16, lag: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let switch = Arc::new(watch::Sender::new(Switch::default()));
        let proxy = Self {
            url,
            switch: Arc::clone(&switch),
        };
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let number = switch.borrow().made;
                switch.send_modify(|switch| switch.made += 1);
                let connection = Connection {
                    number,
                    switch: Arc::clone(&switch),
                    lag,
                };
                tokio::spawn(async move {
                    connection.wait().await;
                    let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else {
                        return;
                    };
                    let ((from_near, to_near), (from_far, to_far)) =
                        (near.into_split(), far.into_split());
                    tokio::join!(
                        connection.pass(from_near, to_far),
                        connection.pass(from_far, to_near)
                    );
                });
            }
        });
        proxy
    }

    /// Settings that lead through it.
    pub(crate) fn settings(&self, settings: &Settings) -> Settings {
        Settings {
            redis: self.url.clone(),
            ..settings.clone()
        }
    }

    /// Lets nothing pass from now on.
    pub(crate) fn cut(&self) {
        self.switch.send_modify(|switch| switch.first = usize::MAX);
    }

    /// Lets everything pass, also what has come meanwhile.
    pub(crate) fn mend(&self) {
        self.switch.send_modify(|switch| switch.first = 0);
    }

    /// Lets nothing pass of the connections that there are.
    fn strand(&self) {
        self.switch.send_modify(|switch| switch.first = switch.made);
    }

    /// Does so as soon as a connection says this word.
    fn strand_at(&self, word: &'static str) {
        self.switch.send_modify(|switch| switch.word = Some(word));
    }
}

/// One connection through a proxy.
struct Connection {
    number: usize,
    switch: Arc<watch::Sender<Switch>>,
    lag: Duration,
}

impl Connection {
    /// Waits until this connection passes.
    async fn wait(&self) {
        let mut switch = self.switch.subscribe();
        let _ = switch.wait_for(|switch| self.number >= switch.first).await;
    }

    async fn pass(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let count = from.read(&mut buffer).await.unwrap_or(0);
            tokio::time::sleep(self.lag).await;
            self.switch
                .send_if_modified(|switch| switch.hears(&buffer[..count]));
            self.wait().await;
            if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }
}
