//! Clients that take too long, over sockets of their own: each limit ends what it is for, and nothing else.

use std::time::{Duration, Instant};

use delayed_jobs::{Node, Settings, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{HOUR, MS, Scene, job, patient, say};

/// A node of this process.
struct Served {
    scene: Scene,
    address: std::net::SocketAddr,
    end: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Served {
    async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let scene = Scene::with(|settings| {
            patient(settings);
            change(settings);
        })
        .await;
        let node = Node::start(scene.settings.clone()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let end = async { drop(ended.await) };
            serve(&node, listener, end).await.unwrap();
        });
        Self {
            scene,
            address,
            end,
            serving,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// Sends a text, a byte at a time with rests; says what came back until the connection was closed, and when that was.
async fn drip(stream: &mut TcpStream, text: &str, rest: Duration) -> (String, Duration) {
    let (start, (mut from, mut to)) = (Instant::now(), stream.split());
    let mut answer = Vec::new();
    let sending = async {
        for byte in text.bytes() {
            if to.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(rest).await;
        }
        std::future::pending::<()>().await;
    };
    let read = async {
        // A client that is cut while it sends may see a reset.
        let _ = from.read_to_end(&mut answer).await;
    };
    let ended = async {
        tokio::select! {
            () = sending => {}
            () = read => {}
        }
    };
    let in_time = tokio::time::timeout(20_000 * MS, ended).await;
    in_time.expect("a connection that is closed");
    (
        String::from_utf8_lossy(&answer).into_owned(),
        start.elapsed(),
    )
}

/// Reads one answer with a body of known length.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        let read = stream.read_buf(&mut text).await.unwrap();
        let so_far = String::from_utf8_lossy(&text).into_owned();
        assert!(read > 0, "closed after {so_far:?}");
        let Some((head, body)) = so_far.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.unwrap().parse().unwrap() {
            return so_far;
        }
    }
}

const OVERVIEW: &str = "GET /v1/overview HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_ends_its_first_header_is_cut() {
    let served = Served::with(|settings| settings.header_timeout = 500 * MS).await;
    let slow = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}",
        "y".repeat(2_000)
    );
    for (text, rest) in [(slow.as_str(), 20 * MS), ("", 20 * MS)] {
        let mut stream = served.connect().await;
        let (answer, after) = drip(&mut stream, text, rest).await;
        assert_eq!(answer, "");
        assert!((450 * MS..10_000 * MS).contains(&after), "{after:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_closed_that_asks_for_nothing_more() {
    let served = Served::with(|settings| {
        // Longer than each request waits for the next one, shorter than all of them together.
        (settings.header_timeout, settings.idle_timeout) = (700 * MS, 1_500 * MS);
    })
    .await;
    let mut stream = served.connect().await;
    for _ in 0..3 {
        stream.write_all(OVERVIEW.as_bytes()).await.unwrap();
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
        tokio::time::sleep(900 * MS).await;
    }
    stream.write_all(OVERVIEW.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    let (rest, after) = drip(&mut stream, "GET /v1/ov", 10 * MS).await;
    assert_eq!(rest, "");
    assert!((1_400 * MS..10_000 * MS).contains(&after), "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_takes_too_long_gets_an_answer_that_says_whose_fault_it_is() {
    let served = Served::with(|settings| {
        settings.request_timeout = 600 * MS;
        settings.header_timeout = 300 * MS;
    })
    .await;
    // The client sends half a body.
    let mut stream = served.connect().await;
    let half = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{\"payload\":";
    let (answer, after) = drip(&mut stream, half, Duration::ZERO).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("\"code\":\"request_timeout\""), "{answer}");
    assert!((600 * MS..10_000 * MS).contains(&after), "{after:?}");
    // A consumer waits longer than that, and has its answer.
    let mut stream = served.connect().await;
    let wait =
        "POST /v1/deliveries?wait=2s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let (answer, after) = drip(&mut stream, wait, Duration::ZERO).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("{\"deliveries\":[]}"), "{answer}");
    assert!((2_000 * MS..10_000 * MS).contains(&after), "{after:?}");
    // Redis is slow.
    let _: String = say(&served.scene.redis, "CLIENT PAUSE 4000 ALL").await;
    let mut stream = served.connect().await;
    let ask = OVERVIEW.replace("host:", "connection: close\r\nhost:");
    let (answer, after) = drip(&mut stream, &ask, Duration::ZERO).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("\"code\":\"too_slow\"") && answer.contains("retry-after: 1"));
    assert!((600 * MS..4_000 * MS).contains(&after), "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_answer_is_cut() {
    let served = Served::with(|settings| settings.idle_timeout = 1_500 * MS).await;
    let large = format!("\"{}\"", "x".repeat(60_000));
    for _ in 0..100 {
        served.scene.create(job(&large, HOUR)).await;
    }
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(served.address).await.unwrap();
    let ask = "GET /v1/jobs?limit=100 HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(4);
    stream.write_all(ask.as_bytes()).await.unwrap();
    // It reads again only after the limit, and then finds that the rest is missing.
    tokio::time::sleep(4_000 * MS).await;
    let (answers, _) = drip(&mut stream, "", Duration::ZERO).await;
    assert!(answers.len() < 23_000_000, "{} bytes", answers.len());
    // One that reads slowly has all of it. (The system tells of room only when a third of its buffer is free.)
    let mut stream = served.connect().await;
    let ask = "GET /v1/jobs?limit=100 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.unwrap();
    let (mut got, mut part, start) = (Vec::new(), vec![0; 300_000], Instant::now());
    loop {
        let read = stream.read(&mut part).await.unwrap();
        if read == 0 {
            break;
        }
        got.extend_from_slice(&part[..read]);
        tokio::time::sleep(100 * MS).await;
    }
    let got = String::from_utf8(got).unwrap();
    let (head, body) = got.split_once("\r\n\r\n").unwrap();
    let whole = format!("content-length: {}", body.len());
    assert!(head.contains(&whole) && body.len() > 5_000_000, "{head}");
    assert!(start.elapsed() > 1_900 * MS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_answers_what_is_under_way_and_closes_the_rest() {
    let served = Served::with(|_| {}).await;
    let mut idle = served.connect().await;
    idle.write_all(OVERVIEW.as_bytes()).await.unwrap();
    answer(&mut idle).await;
    let mut silent = served.connect().await;
    let mut asking = served.connect().await;
    let wait = "POST /v1/deliveries?wait=60s HTTP/1.1\r\nhost: localhost\r\n\r\n";
    asking.write_all(wait.as_bytes()).await.unwrap();
    tokio::time::sleep(300 * MS).await;
    let start = Instant::now();
    served.end.send(()).unwrap();
    let (answer, _) = drip(&mut asking, "", MS).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for stream in [&mut idle, &mut silent] {
        assert_eq!(drip(stream, "", MS).await.0, "");
    }
    served.serving.await.unwrap();
    assert!(start.elapsed() < 4_000 * MS, "{:?}", start.elapsed());
    // A request that is never complete is waited for for 5 s.
    let served = Served::with(|_| {}).await;
    let mut half = served.connect().await;
    let text = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    half.write_all(text.as_bytes()).await.unwrap();
    tokio::time::sleep(300 * MS).await;
    let start = Instant::now();
    served.end.send(()).unwrap();
    served.serving.await.unwrap();
    assert!((4_900 * MS..9_000 * MS).contains(&start.elapsed()));
}

#[test]
fn limits_of_zero_are_refused() {
    let changes: [fn(&mut Settings); 3] = [
        |settings| settings.header_timeout = Duration::ZERO,
        |settings| settings.idle_timeout = Duration::ZERO,
        |settings| settings.request_timeout = Duration::ZERO,
    ];
    for change in changes {
        let mut settings = Settings::default();
        change(&mut settings);
        let wrong = settings.check().unwrap_err();
        assert!(wrong.ends_with("must not be 0"), "{wrong}");
    }
}
