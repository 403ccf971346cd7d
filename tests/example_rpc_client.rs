//! The client of `examples/rpc_client.rs` against real servers that are silent, slow, confused, killed and restarted.
//!
//! Lower bounds are strict: nothing that a timer ends may end early. Upper bounds leave room for a busy machine.

#[path = "../examples/rpc_client.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program with a `main` of its own")]
mod rpc_client;

use rpc_client::{
    Backoff, CallError, Client, Config, DemoServer, Frames, Manners, Random, Reply, encode,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than necessary anything may take.
const SLACK: Duration = Duration::from_secs(5);
/// A deadline that only a bug can meet.
const AMPLE: Duration = Duration::from_secs(30);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// The server's end of a connection.
struct Peer {
    stream: TcpStream,
    frames: Frames,
}

impl Peer {
    /// The next request, `None` when the client has hung up.
    fn request(&mut self) -> Option<(u64, Vec<u8>)> {
        loop {
            if let Some(frame) = self.frames.next_frame().unwrap() {
                return Some(frame);
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(read) if read > 0 => self.frames.extend(&chunk[..read]),
                _ => return None,
            }
        }
    }

    fn answer(&mut self, id: u64, bytes: &[u8]) {
        // The client may have hung up.
        let _ = self.stream.write_all(&encode(id, bytes).unwrap());
    }
}

/// A server on a thread of its own that serves one connection after the other, numbered from 0.
fn serve(mut connection: impl FnMut(usize, Peer) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind(anywhere()).unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            connection(number, Peer { stream, frames: Frames::default() });
        }
    });
    addr
}

fn client(addr: SocketAddr) -> Client {
    Client::start(Config::new(addr)).unwrap()
}

/// A client that sends each request once.
fn client_without_retries(addr: SocketAddr) -> Client {
    Client::start(Config { attempt: AMPLE, ..Config::new(addr) }).unwrap()
}

#[test]
fn a_deadline_ends_a_call_to_a_silent_server_on_time() {
    let addr = serve(|_, mut peer| while peer.request().is_some() {});
    let client = client(addr);
    thread::scope(|scope| {
        for deadline in [0, 50, 150, 150, 400].map(ms) {
            let client = &client;
            scope.spawn(move || {
                let begun = Instant::now();
                let outcome = client.call(b"anybody?", deadline).wait();
                let told = begun.elapsed();
                assert!(matches!(outcome, Err(CallError::DeadlineExceeded { .. })), "{outcome:?}");
                assert!(told >= deadline && told < deadline + SLACK, "{told:?} for {deadline:?}");
            });
        }
    });
    let stats = client.close().unwrap();
    assert_eq!((stats.deadlines, stats.answered, stats.timers_left), (5, 0, 0));
}

#[test]
fn a_response_cancels_the_deadline_and_the_attempt() {
    let server = DemoServer::start(anywhere(), Manners::default()).unwrap();
    let client = client_without_retries(server.addr());
    let calls: Vec<_> = (0..2000)
        .map(|n| (format!("REQUEST {n}"), client.call(format!("request {n}").as_bytes(), AMPLE)))
        .collect();
    for (expected, call) in calls {
        let reply = Reply { bytes: expected.into_bytes(), attempts: 1 };
        assert_eq!(call.wait(), Ok(reply));
    }
    assert_eq!(server.received(), 2000);
    let stats = client.close().unwrap();
    assert_eq!((stats.answered, stats.deadlines, stats.retries), (2000, 0, 0));
    assert_eq!(stats.timers_left, 0, "all of them were cancelled by the responses");
}

#[test]
fn answers_find_their_requests_in_any_order() {
    let addr = serve(|_, mut peer| {
        let mut requests: Vec<_> = (0..10).map_while(|_| peer.request()).collect();
        while let Some((id, bytes)) = requests.pop() {
            peer.answer(id, &bytes);
        }
        while peer.request().is_some() {}
    });
    let client = client_without_retries(addr);
    let calls: Vec<_> = (0..10u8).map(|n| client.call(&[n], AMPLE)).collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.wait().unwrap().bytes, [n as u8]);
    }
}

#[test]
fn requests_that_fill_the_socket_arrive_whole_and_in_order() {
    const CALLS: u8 = 100;
    let addr = serve(|_, mut peer| {
        // Until this server reads, the client can write only in part.
        thread::sleep(ms(100));
        for number in 0.. {
            let Some((id, bytes)) = peer.request() else { break };
            let whole = bytes.len() == 100_000 && bytes == vec![number; bytes.len()];
            peer.answer(id, &[number, u8::from(whole)]);
        }
    });
    let client = client_without_retries(addr);
    let calls: Vec<_> = (0..CALLS).map(|n| client.call(&vec![n; 100_000], AMPLE)).collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.wait(), Ok(Reply { bytes: vec![n as u8, 1], attempts: 1 }));
    }
}

#[test]
fn an_attempt_that_is_not_answered_is_repeated_after_a_growing_pause() {
    const ATTEMPT: Duration = ms(40);
    const BASE: Duration = ms(60);
    let (sender, arrivals) = mpsc::channel();
    let addr = serve(move |_, mut peer| {
        let mut forgotten = 0;
        while let Some((id, bytes)) = peer.request() {
            sender.send(Instant::now()).unwrap();
            forgotten += 1;
            if forgotten == 4 {
                peer.answer(id, &bytes);
            }
        }
    });
    let retry = Backoff { base: BASE, cap: AMPLE };
    let client = Client::start(Config { attempt: ATTEMPT, retry, ..Config::new(addr) }).unwrap();
    let begun = Instant::now();
    let reply = client.call(b"please", AMPLE).wait().unwrap();
    assert_eq!((&reply.bytes[..], reply.attempts), (&b"please"[..], 4));
    // The shortest pauses are half of 60, 120 and 240 ms.
    let mut earliest = Duration::ZERO;
    for (number, arrival) in arrivals.try_iter().enumerate() {
        let arrived = arrival.saturating_duration_since(begun);
        assert!(arrived >= earliest, "attempt {} came after {arrived:?}", number + 1);
        earliest += ATTEMPT + BASE * (1 << number) / 2;
    }
    assert!(begun.elapsed() < 3 * ATTEMPT + 7 * BASE + SLACK);
    assert_eq!(client.close().unwrap().retries, 3);
}

#[test]
fn pauses_double_up_to_the_cap_and_differ() {
    let backoff = Backoff { base: ms(100), cap: ms(1000) };
    let mut random = Random::default();
    for (failures, longest) in
        [(0, 100), (1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (99, 1000)]
    {
        let longest = ms(longest);
        let pauses: Vec<_> = (0..100).map(|_| backoff.pause(failures, &mut random)).collect();
        assert!(pauses.iter().all(|pause| *pause >= longest / 2 && *pause <= longest));
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "no jitter after {failures}");
    }
    let endless = Backoff { base: Duration::MAX, cap: Duration::MAX };
    assert!(endless.pause(u32::MAX, &mut random) >= Duration::MAX / 2);
}

#[test]
fn a_late_answer_is_nobodys() {
    let (release, released) = mpsc::channel();
    let addr = serve(move |_, mut peer| {
        while let Some((id, bytes)) = peer.request() {
            if bytes == b"slow" {
                released.recv().unwrap();
            }
            peer.answer(id, &bytes);
        }
    });
    let client = client_without_retries(addr);
    let outcome = client.call(b"slow", ms(100)).wait();
    assert_eq!(outcome, Err(CallError::DeadlineExceeded { attempts: 1 }));
    release.send(()).unwrap();
    // Behind the late answer on the same connection.
    assert_eq!(client.call(b"quick", AMPLE).wait().unwrap().bytes, b"quick");
    let stats = client.close().unwrap();
    assert_eq!((stats.unwanted, stats.answered, stats.deadlines), (1, 1, 1));
}

#[test]
fn a_server_restart_loses_no_request_and_answers_none_twice() {
    const CALLERS: u64 = 4;
    const CALLS: u64 = 80;
    let manners = Manners { forget_every: 11, repeat_every: 3 };
    let server = DemoServer::start(anywhere(), manners).unwrap();
    let addr = server.addr();
    let client = client(addr);
    let server = thread::scope(|scope| {
        for caller in 0..CALLERS {
            let client = &client;
            scope.spawn(move || {
                let calls: Vec<_> = (0..CALLS)
                    .map(|n| {
                        thread::sleep(ms(10));
                        let text = format!("request {n} of {caller}");
                        (text.to_uppercase(), client.call(text.as_bytes(), AMPLE))
                    })
                    .collect();
                for (expected, call) in calls {
                    assert_eq!(call.wait().unwrap().bytes, expected.into_bytes());
                }
            });
        }
        thread::sleep(ms(300));
        server.kill().unwrap();
        thread::sleep(ms(200));
        DemoServer::start(addr, manners).unwrap()
    });
    assert!(server.received() > 0);
    let stats = client.close().unwrap();
    assert_eq!(stats.answered, CALLERS * CALLS, "each once: {stats:?}");
    assert_eq!((stats.deadlines, stats.timers_left), (0, 0));
    assert!(stats.connections >= 2 && stats.unwanted > 0 && stats.retries > 0, "{stats:?}");
}

#[test]
fn a_client_without_a_server_waits_for_one() {
    let server = DemoServer::start(anywhere(), Manners::default()).unwrap();
    let addr = server.addr();
    server.kill().unwrap();
    let client = client(addr);
    let begun = Instant::now();
    let outcome = client.call(b"anybody?", ms(150)).wait();
    assert_eq!(outcome, Err(CallError::DeadlineExceeded { attempts: 0 }));
    assert!(begun.elapsed() >= ms(150));
    let patient = client.call(b"hello", AMPLE);
    let _server = DemoServer::start(addr, Manners::default()).unwrap();
    assert_eq!(patient.wait(), Ok(Reply { bytes: b"HELLO".to_vec(), attempts: 1 }));
}

#[test]
fn a_connection_that_talks_nonsense_or_nothing_is_replaced() {
    let addr = serve(|number, mut peer| match number {
        0 => drop(peer.stream.write_all(&[0xFF; 64])),
        1 => while peer.request().is_some() {},
        _ => {
            while let Some((id, bytes)) = peer.request() {
                peer.answer(id, &bytes);
            }
        }
    });
    let client =
        Client::start(Config { attempt: ms(30), hopeless: 3, ..Config::new(addr) }).unwrap();
    let reply = client.call(b"hello", AMPLE).wait().unwrap();
    assert_eq!(reply.bytes, b"hello");
    assert!(reply.attempts >= 4, "three attempts on the silent connection, one on the next");
    assert_eq!(client.close().unwrap().connections, 3);
}

#[test]
fn closing_the_client_ends_its_calls() {
    let addr = serve(|_, mut peer| while peer.request().is_some() {});
    let client = client(addr);
    let calls: Vec<_> = (0..10).map(|_| client.call(b"anybody?", AMPLE)).collect();
    let too_long = client.call(&vec![0; 2 << 20], AMPLE);
    assert_eq!(client.close().unwrap().timers_left, 0);
    assert!(calls.into_iter().all(|call| call.wait() == Err(CallError::Closed)));
    assert_eq!(too_long.wait(), Err(CallError::TooLong));
}
