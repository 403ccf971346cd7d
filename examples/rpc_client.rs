//! A request/response client over UDP in which each request has a deadline and a timer for its next
//! attempt, with exponential backoff and jitter. Nearly all of these timers are cancelled by the response.
//!
//! ```text
//! cargo run --example rpc_client
//! ```
//!
//! A request is in `Client::requests` until its response comes or its deadline fires; whichever takes it out
//! ends it, so it ends exactly once. A request may reach the server more than once, so it should be
//! idempotent.

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use tickwheel::{EventLoopTimer, Expired, Key, Settings};

const DEADLINE: Duration = Duration::from_secs(1);
/// The pause after the first attempt; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(20);

/// What the timers are for, by the number of the request.
#[derive(Clone, Copy)]
enum Alarm {
    Deadline(u64),
    Retry(u64),
}

struct Request {
    text: String,
    attempts: u32,
    deadline: Key<Alarm>,
    /// `None` if the engine took no timer for the next attempt: the deadline ends the request.
    retry: Option<Key<Alarm>>,
}

struct Client {
    socket: UdpSocket,
    timer: EventLoopTimer<Alarm>,
    requests: HashMap<u64, Request>,
    /// How the requests ended: the response, or `None` at the deadline.
    ended: Vec<(String, u32, Option<String>)>,
}

impl Client {
    fn call(&mut self, id: u64, text: &str) -> Result<(), Box<dyn Error>> {
        let deadline = self.timer.schedule(self.timer.now(), DEADLINE, Alarm::Deadline(id))?;
        let request = Request { text: text.to_owned(), attempts: 0, deadline, retry: None };
        self.requests.insert(id, request);
        self.attempt(id);
        Ok(())
    }

    /// Sends the request and arms the timer of the next attempt.
    fn attempt(&mut self, id: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.attempts += 1;
        let pause = with_jitter(PAUSE * 2_u32.pow(request.attempts.min(8) - 1));
        request.retry = self.timer.schedule(self.timer.now(), pause, Alarm::Retry(id)).ok();
        // A datagram that cannot be sent now is like one that is lost on the way.
        if let Err(error) = self.socket.send(format!("{id} {}", request.text).as_bytes()) {
            println!("request {id}: {error}");
        }
    }

    /// Takes all responses that have arrived.
    fn receive(&mut self) -> io::Result<()> {
        let mut datagram = [0; 1500];
        loop {
            match self.socket.recv(&mut datagram) {
                Ok(length) => self.answered(&String::from_utf8_lossy(&datagram[..length])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // Nobody listens at the moment; the next attempt will see.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn answered(&mut self, response: &str) {
        let Some((id, text)) = response.split_once(' ') else { return };
        let Some(id) = id.parse().ok() else { return };
        // A second response to the same request finds nothing.
        let Some(request) = self.requests.remove(&id) else { return };
        for key in [Some(request.deadline), request.retry].into_iter().flatten() {
            self.timer.cancel(key);
        }
        self.ended.push((request.text, request.attempts, Some(text.to_owned())));
    }

    fn alarm(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Retry(id) => self.attempt(id),
            Alarm::Deadline(id) => {
                let Some(request) = self.requests.remove(&id) else { return };
                request.retry.map(|key| self.timer.cancel(key));
                self.ended.push((request.text, request.attempts, None));
            }
        }
    }
}

/// Half of the pause to all of it, so that clients that failed together do not come back together.
fn with_jitter(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) % 1024;
    pause / 2 + pause / 2 * random as u32 / 1024
}

/// A server that loses the first datagram of each request and never answers "silence".
fn serve(socket: &std::net::UdpSocket) -> io::Result<()> {
    let (mut datagram, mut seen) = ([0; 1500], HashSet::new());
    loop {
        let (length, client) = socket.recv_from(&mut datagram)?;
        let request = String::from_utf8_lossy(&datagram[..length]).to_uppercase();
        if !seen.insert(request.clone()) && !request.ends_with("SILENCE") {
            socket.send_to(request.as_bytes(), client)?;
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = std::net::UdpSocket::bind(anywhere)?;
    let address = server.local_addr()?;
    std::thread::spawn(move || serve(&server));

    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(16));
    let mut socket = UdpSocket::bind(anywhere)?;
    socket.connect(address)?;
    poll.registry().register(&mut socket, Token(0), Interest::READABLE)?;
    let timer = Settings::new().build_with_mio(poll.registry(), Token(1))?;
    let mut client = Client { socket, timer, requests: HashMap::new(), ended: Vec::new() };
    for (id, text) in (0..).zip(["one", "two", "three", "silence", "four"]) {
        client.call(id, text)?;
    }
    while !client.requests.is_empty() {
        match poll.poll(&mut events, client.timer.poll_timeout(client.timer.now())) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            polled => polled?,
        }
        // Sockets first: a response that has arrived beats a deadline of the same round.
        client.receive()?;
        let (now, mut alarms) = (client.timer.now(), Vec::new());
        client.timer.poll(now, |expired: Expired<Alarm>| alarms.push(expired.payload));
        alarms.into_iter().for_each(|alarm| client.alarm(alarm));
    }
    for (request, attempts, response) in &client.ended {
        println!("{request}: {attempts} attempts, {}", response.as_deref().unwrap_or("no answer"));
        assert_eq!(response.is_none(), request == "silence");
    }
    assert_eq!((client.ended.len(), client.timer.pending()), (5, 0), "no timer is left behind");
    Ok(())
}
