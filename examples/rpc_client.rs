//! A pipelined request/response client over TCP in which everything that takes time has a timer: a deadline per
//! request, a timeout per attempt, a pause before the next attempt, a pause before the next connection.
//!
//! ```text
//! cargo run --example rpc_client                                 a demonstration of a few seconds
//! cargo run --example rpc_client -- serve 127.0.0.1:7878         a server that forgets some requests
//! cargo run --example rpc_client -- call 127.0.0.1:7878 hello    one request
//! ```
//!
//! What to look at:
//!
//! * **Cancelled by the response.** Nearly every timer here is cancelled: [`Courier::answered`]. That costs a few
//!   nanoseconds, so a request can afford two.
//! * **Each call ends exactly once.** A request is in [`Courier::requests`] until it is answered or its deadline
//!   fires; whoever takes it out ends it. What comes later (a second answer, the answer to an earlier attempt) finds
//!   nothing and is counted.
//! * **Backoff with jitter**, for attempts and for connections ([`Backoff`]): clients that lost their server
//!   together do not come back together.
//! * **Sockets first, then timers**: an answer that has arrived beats a deadline that fires in the same round.
//!
//! A request may reach the server more than once, so it should be idempotent.
//!
//! Frames are `{length: u32, id: u64, bytes}`, little-endian; the length counts what follows it.

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tickwheel::{EventLoopTimer, Expired, Key, Remote, Time};

/// The longest frame that is accepted.
const MAX_FRAME: usize = 1 << 20;
/// Bytes that may wait for the socket before further requests stay in the queue.
const OUT_LIMIT: usize = 64 * 1024;
/// Bytes read, and calls taken, before the timers have their turn.
const READ_BUDGET: usize = 256 * 1024;
const CALL_BUDGET: usize = 1024;

const WAKE: Token = Token(0);
const LINK: Token = Token(1);

// ---------------------------------------------------------------------------------------------------
// What users see
// ---------------------------------------------------------------------------------------------------

/// Pauses that double with each failure up to a cap, of which a random half is taken off.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The longest first pause.
    pub base: Duration,
    /// The longest pause of all.
    pub cap: Duration,
}

impl Backoff {
    /// The pause after so many `failures` in a row, counted from 1.
    pub fn pause(&self, failures: u32, random: &mut Random) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let longest = self.base.saturating_mul(1 << doublings).min(self.cap);
        longest / 2 + longest.mul_f64(random.fraction() / 2.0)
    }
}

/// Numbers for jitter: splitmix64 with a seed from the standard library's hasher.
pub struct Random(u64);

impl Default for Random {
    /// A sequence of its own.
    fn default() -> Self {
        Self(RandomState::new().hash_one(0u8))
    }
}

impl Random {
    /// A number from 0 to below 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What a client is told.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The server.
    pub addr: SocketAddr,
    /// An attempt that has no answer after this long is given up and, after a pause, made again.
    pub attempt: Duration,
    /// The pauses between the attempts of one request.
    pub retry: Backoff,
    /// How long a connection may take to come up.
    pub connect: Duration,
    /// The pauses between attempts to connect.
    pub reconnect: Backoff,
    /// A connection on which this many attempts in a row got no answer is replaced.
    pub hopeless: u32,
    /// Told what goes wrong.
    pub on_event: fn(&Event),
}

impl Config {
    /// Settings for a server nearby.
    pub fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            attempt: Duration::from_millis(200),
            retry: Backoff { base: Duration::from_millis(50), cap: Duration::from_secs(1) },
            connect: Duration::from_secs(1),
            reconnect: Backoff { base: Duration::from_millis(50), cap: Duration::from_secs(1) },
            hopeless: 16,
            on_event: |_| (),
        }
    }
}

/// What went wrong, or right again.
#[derive(Clone, Debug)]
pub enum Event {
    /// The connection is up.
    Connected,
    /// There is no connection; the next attempt comes after the pause.
    Lost {
        /// Why.
        reason: String,
        /// Requests that wait for the next connection.
        waiting: usize,
        /// How long the client waits before it tries again.
        pause: Duration,
    },
    /// An attempt was not answered in time; the next one comes after the pause.
    Retry {
        /// The request.
        id: u64,
        /// Attempts so far.
        attempts: u32,
        /// How long the client waits before it tries again.
        pause: Duration,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => write!(f, "connected"),
            Self::Lost { reason, waiting, pause } => {
                write!(
                    f,
                    "no connection ({reason}); {waiting} requests wait, next try in {pause:.0?}"
                )
            }
            Self::Retry { id, attempts, pause } => {
                write!(f, "request {id}: attempt {attempts} had no answer, next one in {pause:.0?}")
            }
        }
    }
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// What the server sent.
    pub bytes: Vec<u8>,
    /// How often the request was sent.
    pub attempts: u32,
}

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallError {
    /// The deadline passed.
    DeadlineExceeded {
        /// How often the request was sent.
        attempts: u32,
    },
    /// The request does not fit a frame.
    TooLong,
    /// The client was closed, or had to give up.
    Closed,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeadlineExceeded { attempts } => {
                write!(f, "no answer before the deadline, after {attempts} attempts")
            }
            Self::TooLong => write!(f, "the request is longer than {MAX_FRAME} bytes"),
            Self::Closed => write!(f, "the client was closed"),
        }
    }
}

impl std::error::Error for CallError {}

/// How a call ended.
pub type Outcome = Result<Reply, CallError>;

/// A call under way.
pub struct Pending(Receiver<Outcome>);

impl Pending {
    /// Waits for the outcome, which comes at the deadline at the latest.
    pub fn wait(self) -> Outcome {
        self.0.recv().unwrap_or(Err(CallError::Closed))
    }
}

/// What a client has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Calls answered.
    pub answered: u64,
    /// Calls ended by their deadline.
    pub deadlines: u64,
    /// Requests sent again.
    pub retries: u64,
    /// Answers to requests that had ended: second answers, and those after the deadline.
    pub unwanted: u64,
    /// Connections made.
    pub connections: u64,
    /// Timers that were still armed at the end.
    pub timers_left: usize,
}

/// A client: one connection, one thread, any number of callers.
pub struct Client {
    calls: Option<Sender<Call>>,
    waker: Arc<Waker>,
    remote: Remote<Alarm>,
    thread: Option<JoinHandle<io::Result<Stats>>>,
}

impl Client {
    /// Starts a client. It connects by itself, now and whenever the connection is lost.
    pub fn start(config: Config) -> io::Result<Self> {
        let (calls, incoming) = mpsc::channel();
        let poll = Poll::new()?;
        // A poll has one waker: calls and the timer's remotes share it.
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let for_remotes = Arc::clone(&waker);
        let timer = EventLoopTimer::builder()
            .build_with_waker(move || {
                if let Err(error) = for_remotes.wake() {
                    eprintln!("the client's loop cannot be woken: {error}");
                }
            })
            .map_err(io::Error::other)?;
        let remote = timer.remote();
        let courier = Courier::new(config, poll, timer, incoming);
        let thread = thread::Builder::new().name("rpc-client".into()).spawn(|| courier.run())?;
        Ok(Self { calls: Some(calls), waker, remote, thread: Some(thread) })
    }

    /// Sends `request` and gives it `within` to be answered, retries included. Does not wait.
    pub fn call(&self, request: &[u8], within: Duration) -> Pending {
        let (answer, outcome) = mpsc::sync_channel(1);
        // The deadline counts from the call, not from when the loop gets to it.
        let deadline = self.remote.now() + within;
        let call = Call { request: request.to_vec(), deadline, answer };
        // If the loop has ended, the call is dropped, and `wait` says `Closed`.
        if self.calls.as_ref().is_some_and(|calls| calls.send(call).is_ok()) {
            if let Err(error) = self.waker.wake() {
                eprintln!("the client's loop cannot be woken: {error}");
            }
        }
        Pending(outcome)
    }

    /// Ends the client. Calls under way end as `Closed`.
    pub fn close(mut self) -> io::Result<Stats> {
        self.end()
    }

    fn end(&mut self) -> io::Result<Stats> {
        drop(self.calls.take());
        let Some(thread) = self.thread.take() else { return Ok(Stats::default()) };
        self.waker.wake()?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the client's loop has panicked")))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("the client has failed: {error}");
        }
    }
}

// ---------------------------------------------------------------------------------------------------
// The loop
// ---------------------------------------------------------------------------------------------------

struct Call {
    request: Vec<u8>,
    deadline: Time,
    answer: SyncSender<Outcome>,
}

/// What the timers are for. Numbers are request ids, which are never used twice.
#[derive(Clone, Copy, Debug)]
enum Alarm {
    /// The call's time is up.
    Deadline(u64),
    /// The attempt's time, or the pause after it, is up.
    Step(u64),
    /// Time to connect.
    Connect,
    /// The connection should have come up by now.
    ConnectTimeout,
}

/// A request that has not ended.
struct Request {
    frame: Vec<u8>,
    answer: SyncSender<Outcome>,
    attempts: u32,
    deadline: Key<Alarm>,
    phase: Phase,
}

enum Phase {
    /// In the queue.
    Queued,
    /// Sent; the timer ends the attempt.
    Sent(Key<Alarm>),
    /// Waits for the timer before the next attempt.
    Pausing(Key<Alarm>),
}

impl Phase {
    fn timer(&self) -> Option<Key<Alarm>> {
        match self {
            Self::Queued => None,
            Self::Sent(key) | Self::Pausing(key) => Some(*key),
        }
    }
}

/// The connection.
enum Link {
    /// None; `Alarm::Connect` is armed.
    Down,
    Connecting {
        stream: TcpStream,
        timeout: Key<Alarm>,
    },
    Up(Connection),
}

/// Everything that the client's thread owns.
struct Courier {
    config: Config,
    poll: Poll,
    timer: EventLoopTimer<Alarm>,
    incoming: Receiver<Call>,
    requests: BTreeMap<u64, Request>,
    next_id: u64,
    /// Requests to be sent, in this order. Those that have ended meanwhile are skipped.
    queue: VecDeque<u64>,
    link: Link,
    /// Connections in a row that brought no answer.
    failures: u32,
    random: Random,
    stats: Stats,
}

impl Courier {
    fn new(
        config: Config,
        poll: Poll,
        timer: EventLoopTimer<Alarm>,
        incoming: Receiver<Call>,
    ) -> Self {
        Self {
            config,
            poll,
            timer,
            incoming,
            requests: BTreeMap::new(),
            next_id: 0,
            queue: VecDeque::new(),
            link: Link::Down,
            failures: 0,
            random: Random::default(),
            stats: Stats::default(),
        }
    }

    fn run(mut self) -> io::Result<Stats> {
        let mut events = Events::with_capacity(8);
        self.connect();
        let mut more = false;
        loop {
            let now = self.timer.now();
            let timeout = if more { Some(Duration::ZERO) } else { self.timer.poll_timeout(now) };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            // Sockets first: an answer that is there beats a deadline.
            more = self.receive();
            let now = self.timer.now();
            match self.take_calls() {
                Some(more_calls) => more |= more_calls,
                None => return Ok(self.finish()),
            }
            let mut fired = Vec::new();
            // If more is due than the budget allows, the next timeout is zero.
            self.timer.poll(now, |expired| fired.push(expired));
            for alarm in fired {
                self.alarm(alarm, now);
            }
            self.send(now);
        }
    }

    /// Every call under way ends, and so do its timers.
    fn finish(mut self) -> Stats {
        for (_, request) in std::mem::take(&mut self.requests) {
            self.forget_timers(&request);
            end(&request, Err(CallError::Closed));
        }
        self.set_down();
        self.stats.timers_left = self.timer.close().len();
        self.stats
    }

    /// Takes new calls; whether there may be more, `None` if there will never be any.
    fn take_calls(&mut self) -> Option<bool> {
        for _ in 0..CALL_BUDGET {
            match self.incoming.try_recv() {
                Ok(call) => self.accept(call),
                Err(TryRecvError::Empty) => return Some(false),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        Some(true)
    }

    fn accept(&mut self, call: Call) {
        let Call { request, deadline, answer } = call;
        let id = self.next_id;
        self.next_id += 1;
        let Some(frame) = encode(id, &request) else {
            let _ = answer.send(Err(CallError::TooLong));
            return;
        };
        // Refused only if the timer is full; dropping `answer` ends the call as `Closed`.
        let Ok(deadline) = self.timer.schedule(Time::ZERO, deadline, Alarm::Deadline(id)) else {
            return;
        };
        let phase = Phase::Queued;
        self.requests.insert(id, Request { frame, answer, attempts: 0, deadline, phase });
        self.queue.push_back(id);
    }

    fn alarm(&mut self, expired: Expired<Alarm>, now: Time) {
        match expired.payload {
            Alarm::Deadline(id) => self.deadline(id),
            Alarm::Step(id) => self.step(id, expired.key, now),
            Alarm::Connect => self.connect(),
            Alarm::ConnectTimeout => {
                if matches!(self.link, Link::Connecting { .. }) {
                    self.lose("the connection did not come up in time");
                }
            }
        }
    }

    fn deadline(&mut self, id: u64) {
        let Some(request) = self.requests.remove(&id) else { return };
        self.forget_timers(&request);
        self.stats.deadlines += 1;
        end(&request, Err(CallError::DeadlineExceeded { attempts: request.attempts }));
    }

    /// The time of an attempt is up, or that of the pause after it.
    fn step(&mut self, id: u64, key: Key<Alarm>, now: Time) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        // An alarm of the same round may have moved the request on: then this one is about the past.
        if request.phase.timer() != Some(key) {
            return;
        }
        if matches!(request.phase, Phase::Pausing(_)) {
            request.phase = Phase::Queued;
            self.queue.push_back(id);
            return;
        }
        let attempts = request.attempts;
        let pause = self.config.retry.pause(attempts, &mut self.random);
        let Ok(key) = self.timer.schedule(now, pause, Alarm::Step(id)) else { return };
        request.phase = Phase::Pausing(key);
        (self.config.on_event)(&Event::Retry { id, attempts, pause });
        if let Link::Up(connection) = &mut self.link {
            connection.unanswered += 1;
            if connection.unanswered >= self.config.hopeless {
                self.lose("the server says nothing");
            }
        }
    }

    /// The response has come: both timers go.
    fn answered(&mut self, id: u64, bytes: Vec<u8>) {
        let Some(request) = self.requests.remove(&id) else {
            self.stats.unwanted += 1;
            return;
        };
        self.forget_timers(&request);
        self.stats.answered += 1;
        end(&request, Ok(Reply { bytes, attempts: request.attempts }));
    }

    fn forget_timers(&mut self, request: &Request) {
        for key in [Some(request.deadline), request.phase.timer()].into_iter().flatten() {
            // Lost by a timer that has fired in this round: it will find nothing.
            self.timer.cancel(key);
        }
    }

    // The connection.

    fn connect(&mut self) {
        let stream = TcpStream::connect(self.config.addr).and_then(|mut stream| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, LINK, interest)?;
            Ok(stream)
        });
        let now = self.timer.now();
        let timeout = self.timer.schedule(now, self.config.connect, Alarm::ConnectTimeout);
        match (stream, timeout) {
            (Ok(stream), Ok(timeout)) => self.link = Link::Connecting { stream, timeout },
            (Err(error), _) => self.lose(&error.to_string()),
            (_, Err(error)) => self.lose(&error.to_string()),
        }
    }

    /// Closes the connection, if any.
    fn set_down(&mut self) {
        match std::mem::replace(&mut self.link, Link::Down) {
            Link::Down => {}
            Link::Connecting { timeout, .. } => drop(self.timer.cancel(timeout)),
            Link::Up(_) => {}
        }
    }

    /// The connection is gone: what was sent on it is sent again on the next one, in the old order.
    fn lose(&mut self, reason: &str) {
        self.set_down();
        for (id, request) in &mut self.requests {
            if let Phase::Sent(key) = request.phase {
                self.timer.cancel(key);
                request.phase = Phase::Queued;
                self.queue.push_back(*id);
            }
        }
        self.queue.make_contiguous().sort_unstable();
        self.failures = self.failures.saturating_add(1);
        let pause = self.config.reconnect.pause(self.failures, &mut self.random);
        let now = self.timer.now();
        if self.timer.schedule(now, pause, Alarm::Connect).is_err() {
            eprintln!("the client has more timers than there is room for and stays disconnected");
        }
        let (reason, waiting) = (reason.to_owned(), self.requests.len());
        (self.config.on_event)(&Event::Lost { reason, waiting, pause });
    }

    /// Sees whether the connection is up, and reads answers; whether there may be more.
    fn receive(&mut self) -> bool {
        match self.try_receive() {
            Ok(more) => more,
            Err(error) => {
                self.lose(&error.to_string());
                false
            }
        }
    }

    fn try_receive(&mut self) -> io::Result<bool> {
        if matches!(self.link, Link::Connecting { .. }) {
            self.try_rise()?;
        }
        let Link::Up(connection) = &mut self.link else { return Ok(false) };
        let read = connection.read();
        // What came before the end of the connection counts.
        let mut answers = Vec::new();
        while let Some(answer) = connection.incoming.next_frame()? {
            answers.push(answer);
        }
        if !answers.is_empty() {
            connection.unanswered = 0;
            self.failures = 0;
        }
        for (id, bytes) in answers {
            self.answered(id, bytes);
        }
        read
    }

    fn try_rise(&mut self) -> io::Result<()> {
        let Link::Connecting { stream, timeout } = &self.link else { return Ok(()) };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
            other => other?,
        };
        stream.set_nodelay(true)?;
        self.timer.cancel(*timeout);
        if let Link::Connecting { stream, .. } = std::mem::replace(&mut self.link, Link::Down) {
            self.link = Link::Up(Connection::new(stream));
        }
        self.stats.connections += 1;
        (self.config.on_event)(&Event::Connected);
        Ok(())
    }

    /// Sends what is queued, as far as the socket takes it.
    fn send(&mut self, now: Time) {
        loop {
            let Link::Up(connection) = &mut self.link else { return };
            while connection.out.len() < OUT_LIMIT {
                let Some(id) = self.queue.pop_front() else { break };
                let Some(request) = self.requests.get_mut(&id) else { continue };
                let attempt = self.timer.schedule(now, self.config.attempt, Alarm::Step(id));
                let Ok(attempt) = attempt else { continue };
                connection.out.extend(&request.frame);
                request.phase = Phase::Sent(attempt);
                self.stats.retries += u64::from(request.attempts > 0);
                request.attempts += 1;
            }
            match connection.write() {
                Ok(()) if connection.out.is_empty() && !self.queue.is_empty() => {}
                Ok(()) => return,
                Err(error) => return self.lose(&error.to_string()),
            }
        }
    }
}

/// Tells the caller, who may have stopped waiting.
fn end(request: &Request, outcome: Outcome) {
    let _ = request.answer.send(outcome);
}

/// An established connection.
struct Connection {
    stream: TcpStream,
    incoming: Frames,
    out: VecDeque<u8>,
    /// Attempts since the last answer that ran out of time.
    unanswered: u32,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, incoming: Frames::default(), out: VecDeque::new(), unanswered: 0 }
    }

    /// Reads what is there, up to the budget; whether there may be more. The end of the stream is an error.
    fn read(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        let mut total = 0;
        while total < READ_BUDGET {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(io::Error::other("the server closed the connection")),
                Ok(read) => {
                    total += read;
                    self.incoming.extend(&chunk[..read]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Writes what the socket takes now.
    fn write(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(self.out.as_slices().0) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A frame, or `None` if the bytes are too many for one.
pub fn encode(id: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let length = bytes.len().checked_add(size_of::<u64>()).filter(|length| *length <= MAX_FRAME)?;
    let mut frame = Vec::with_capacity(size_of::<u32>() + length);
    frame.extend(u32::try_from(length).ok()?.to_le_bytes());
    frame.extend(id.to_le_bytes());
    frame.extend(bytes);
    Some(frame)
}

/// Bytes on their way to becoming frames.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Bytes at the front that have become frames.
    done: usize,
}

impl Frames {
    /// Adds bytes that have arrived.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.done);
        self.done = 0;
        self.bytes.extend(bytes);
    }

    /// The next complete frame: its id and its bytes. An error if the peer does not speak the protocol.
    pub fn next_frame(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        let rest = &self.bytes[self.done..];
        let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if !(size_of::<u64>()..=MAX_FRAME).contains(&length) {
            return Err(io::Error::new(ErrorKind::InvalidData, "a frame of an impossible length"));
        }
        let Some((id, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let Some(bytes) = rest.get(..length - size_of::<u64>()) else { return Ok(None) };
        let frame = (u64::from_le_bytes(*id), bytes.to_vec());
        self.done += size_of::<u32>() + length;
        Ok(Some(frame))
    }
}

// ---------------------------------------------------------------------------------------------------
// The demonstration: a server with bad manners
// ---------------------------------------------------------------------------------------------------

/// How a demonstration server misbehaves, by the number of the request. Zero: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// Every n-th request is forgotten.
    pub forget_every: u64,
    /// Every n-th request is answered twice.
    pub repeat_every: u64,
}

/// A server that answers with the request in capitals, mostly. A thread per connection; it can be killed.
pub struct DemoServer {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<io::Result<()>>>,
    received: Arc<AtomicU64>,
}

impl DemoServer {
    /// Binds the address and starts to serve.
    pub fn start(addr: SocketAddr, manners: Manners) -> io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let (stop, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let desk = Desk { manners, stop: Arc::clone(&stop), received: Arc::clone(&received) };
        let acceptor = thread::spawn(move || desk.accept(&listener));
        Ok(Self { addr, stop, acceptor: Some(acceptor), received })
    }

    /// The address that clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Requests received, repetitions included.
    pub fn received(&self) -> u64 {
        // ORDERING: Relaxed: a figure for reports.
        self.received.load(Ordering::Relaxed)
    }

    /// Breaks every connection and frees the port.
    pub fn kill(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        // ORDERING: Relaxed: the flag says nothing about other memory; the threads look every few milliseconds.
        self.stop.store(true, Ordering::Relaxed);
        let Some(acceptor) = self.acceptor.take() else { return Ok(()) };
        acceptor.join().unwrap_or_else(|_| Err(io::Error::other("the demo server has panicked")))
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("the demo server has failed: {error}");
        }
    }
}

/// What the demonstration server's threads share.
#[derive(Clone)]
struct Desk {
    manners: Manners,
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
}

impl Desk {
    fn stopped(&self) -> bool {
        // ORDERING: Relaxed: see `DemoServer::end`.
        self.stop.load(Ordering::Relaxed)
    }

    fn accept(&self, listener: &TcpListener) -> io::Result<()> {
        thread::scope(|scope| {
            while !self.stopped() {
                match listener.accept() {
                    // A connection ends with an error as often as without.
                    Ok((stream, _)) => drop(scope.spawn(move || self.serve(stream))),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        thread::sleep(Duration::from_millis(2));
                    }
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    fn serve(&self, mut stream: std::net::TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_millis(10)))?;
        let (mut frames, mut chunk) = (Frames::default(), [0; 16 * 1024]);
        while !self.stopped() {
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(read) => frames.extend(&chunk[..read]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
            while let Some((id, bytes)) = frames.next_frame()? {
                self.answer(&mut stream, id, &bytes)?;
            }
        }
        Ok(())
    }

    fn answer(&self, stream: &mut impl Write, id: u64, bytes: &[u8]) -> io::Result<()> {
        // ORDERING: Relaxed: a number for each request, whichever.
        let number = self.received.fetch_add(1, Ordering::Relaxed) + 1;
        let each = |every: u64| every != 0 && number % every == 0;
        if each(self.manners.forget_every) {
            return Ok(());
        }
        let answer = encode(id, &bytes.to_ascii_uppercase()).unwrap_or_default();
        stream.write_all(&answer)?;
        if each(self.manners.repeat_every) { stream.write_all(&answer) } else { Ok(()) }
    }
}

const HELP: &str = "\
A pipelined request/response client with deadlines, retries and reconnects.

usage: rpc_client                  demonstrate it with a server that is killed and restarted (3 s)
       rpc_client serve ADDR       a server that forgets every 7th request and repeats every 5th answer
       rpc_client call ADDR TEXT   one request with a deadline of 5 s";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let address = |text: &str| {
        text.parse().map_err(|_| format!("{text} is not an address such as 127.0.0.1:7878"))
    };
    match args[..] {
        [] => demonstrate(),
        ["--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        ["serve", addr] => {
            let server = DemoServer::start(address(addr)?, BAD_MANNERS)?;
            println!("listening on {}; Ctrl-C ends it", server.addr());
            loop {
                thread::park();
            }
        }
        ["call", addr, text] => {
            let client =
                Client::start(Config { on_event: narrate, ..Config::new(address(addr)?) })?;
            let reply = client.call(text.as_bytes(), Duration::from_secs(5)).wait()?;
            println!("{} ({} attempts)", String::from_utf8_lossy(&reply.bytes), reply.attempts);
            Ok(())
        }
        _ => Err(HELP.into()),
    }
}

const BAD_MANNERS: Manners = Manners { forget_every: 7, repeat_every: 5 };

fn narrate(event: &Event) {
    // Retries are many: the summary counts them.
    if !matches!(event, Event::Retry { .. }) {
        println!("    client: {event}");
    }
}

fn demonstrate() -> Result<(), Box<dyn std::error::Error>> {
    const CALLERS: usize = 4;
    const CALLS: usize = 100;
    let server = DemoServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), BAD_MANNERS)?;
    let addr = server.addr();
    println!("a server on {addr} forgets every 7th request and repeats every 5th answer");
    println!(
        "{CALLERS} threads make {CALLS} calls each, one every 20 ms, with a deadline of 2 s\n"
    );
    let client = Client::start(Config { on_event: narrate, ..Config::new(addr) })?;
    let (outcomes, restarted) = thread::scope(|scope| {
        let restart = scope.spawn(move || {
            thread::sleep(Duration::from_millis(700));
            let received = server.received();
            server.kill()?;
            println!("the server is killed; it has received {received} requests");
            thread::sleep(Duration::from_millis(500));
            println!("the server is started again");
            DemoServer::start(addr, BAD_MANNERS)
        });
        let caller = || {
            let calls = (0..CALLS).map(|_| {
                thread::sleep(Duration::from_millis(20));
                (Instant::now(), client.call(b"hello", Duration::from_secs(2)))
            });
            // All of them are under way before the first is waited for.
            let calls: Vec<_> = calls.collect();
            let wait = |(begun, call): (Instant, Pending)| (begun, call.wait());
            calls.into_iter().map(wait).collect::<Vec<_>>()
        };
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        let outcomes: Vec<_> = callers.into_iter().flat_map(|caller| caller.join()).collect();
        (outcomes, restart.join())
    });
    let restarted = restarted.map_err(|_| io::Error::other("the restart has panicked"))??;
    let outcomes: Vec<_> = outcomes.into_iter().flatten().map(|(_, outcome)| outcome).collect();

    println!("\nthe server falls silent: a call with a deadline of 300 ms");
    restarted.kill()?;
    let begun = Instant::now();
    let hopeless = client.call(b"anybody?", Duration::from_millis(300)).wait();
    let told = begun.elapsed();
    println!("after {told:.1?}: {}", hopeless.err().map_or("answered?!".into(), |e| e.to_string()));

    let answered = |outcome: &&Outcome| outcome.as_ref().is_ok_and(|reply| reply.bytes == b"HELLO");
    let answered = outcomes.iter().filter(answered).count();
    let attempts = outcomes.iter().flatten().map(|reply| reply.attempts).max().unwrap_or(0);
    let stats = client.close()?;
    println!("\n{:>6} calls made", outcomes.len());
    println!("{answered:>6} answered, the most persistent one at attempt {attempts}");
    println!("{:>6} ended by their deadline", stats.deadlines);
    println!("{:>6} requests sent again", stats.retries);
    println!("{:>6} second or late answers, which nobody saw", stats.unwanted);
    println!("{:>6} connections made", stats.connections);
    Ok(())
}
