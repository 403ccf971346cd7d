//! A request/response client over UDP in which each request has a deadline and further attempts before it,
//! with exponential backoff and jitter. Nearly all timers are cancelled by the response.
//!
//! ```text
//! cargo run --example rpc_client
//! ```
//!
//! A request has one timer: for its next attempt, or for its deadline where that comes first. It is in
//! `requests` until its response comes or its deadline has passed; whichever takes it out ends it, so it
//! ends exactly once. It may reach the server more than once, so it should be idempotent.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};
use tickwheel::{Key, LocalTimer, Time};

const LIMIT: Duration = Duration::from_secs(1);
/// The pause after the first attempt; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(20);

struct Request {
    text: &'static str,
    attempts: u32,
    deadline: Time,
    timer: Key<usize>,
}

/// Half of the pause to all of it, so that clients that failed together do not come back together.
fn with_jitter(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) % 1024;
    pause / 2 + pause / 2 * random as u32 / 1024
}

/// Waits for a response, at most for `pause`; returns the number of its request, and its text.
fn receive(socket: &UdpSocket, pause: Duration) -> Option<(usize, String)> {
    let mut datagram = [0; 1500];
    socket
        .set_read_timeout(Some(pause.max(Duration::from_millis(1))))
        .ok()?;
    // An error: the time is over, a signal has come, or nobody listens. The next attempt will see.
    let length = socket.recv(&mut datagram).ok()?;
    let response = String::from_utf8_lossy(&datagram[..length]);
    let (id, text) = response.split_once(' ')?;
    Some((id.parse().ok()?, text.to_owned()))
}

/// A server that loses the first datagram of each request and never answers "silence".
fn serve(socket: &UdpSocket) -> io::Result<()> {
    let (mut datagram, mut seen) = ([0; 1500], HashSet::new());
    loop {
        let (length, client) = socket.recv_from(&mut datagram)?;
        let request = String::from_utf8_lossy(&datagram[..length]).to_uppercase();
        if !seen.insert(request.clone()) && !request.ends_with("SILENCE") {
            socket.send_to(request.as_bytes(), client)?;
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(server.local_addr()?)?;
    std::thread::spawn(move || serve(&server));

    let (mut timer, mut requests) = (
        LocalTimer::new(Duration::from_millis(1))?,
        HashMap::<_, Request>::new(),
    );
    let start = Time::from(Instant::now());
    for (id, text) in ["one", "two", "three", "silence", "four"]
        .into_iter()
        .enumerate()
    {
        let (attempts, deadline) = (0, start + LIMIT);
        // The first attempt is due at once.
        let timer = timer.schedule(start, start, id)?;
        requests.insert(
            id,
            Request {
                text,
                attempts,
                deadline,
                timer,
            },
        );
    }
    let mut ended = Vec::new();
    // Each request has a timer.
    while let Some(pause) = timer.poll_timeout(Instant::now().into()) {
        // First: a response that has arrived beats a deadline of the same round. A second one finds no request.
        if let Some((id, text)) = receive(&socket, pause) {
            if let Some(request) = requests.remove(&id) {
                timer.cancel(request.timer);
                ended.push((request, Some(text)));
            }
        }
        let now = Time::from(Instant::now());
        for id in timer
            .expired(now)
            .map(|due| due.payload)
            .collect::<Vec<_>>()
        {
            let request = requests.get_mut(&id).expect("a response cancels the timer");
            if now >= request.deadline {
                ended.extend(requests.remove(&id).map(|request| (request, None)));
                continue;
            }
            // A datagram that cannot be sent now is like one that is lost on the way.
            drop(socket.send(format!("{id} {}", request.text).as_bytes()));
            let pause = with_jitter(PAUSE * 2_u32.pow(request.attempts.min(8)));
            request.attempts += 1;
            request.timer = timer.schedule(now, request.deadline.min(now + pause), id)?;
        }
    }
    for (Request { text, attempts, .. }, response) in &ended {
        println!(
            "{text}: {attempts} attempts, {}",
            response.as_deref().unwrap_or("no answer")
        );
        assert_eq!(response.is_none(), *text == "silence");
    }
    assert_eq!(
        (ended.len(), timer.pending()),
        (5, 0),
        "no timer is left behind"
    );
    Ok(())
}
