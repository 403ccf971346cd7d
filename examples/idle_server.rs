//! A TCP echo server that closes idle connections: one `mio` loop per core, each with its own
//! [`EventLoopTimer`].
//!
//! ```text
//! cargo run --example idle_server                     a demonstration of a few seconds
//! cargo run --example idle_server -- 127.0.0.1:7777   a server, until it is interrupted
//! cargo run --example idle_server -- --help
//! ```
//!
//! What to look at:
//!
//! * **Every connection has two timers**, one that closes it and one that sends a heartbeat. Every read pushes
//!   both out ([`Peers::push_out`]); that moves nothing in the wheel, so it costs as much as a few stores.
//! * **One clock read per round**, after the sockets have been read. A deadline is therefore counted from a
//!   moment after the bytes were there, and no connection is closed early as seen by its client. A connection that
//!   arrives later in the round gets a clock read of its own.
//! * **The last look.** Bytes that came while the loop was busy count: a connection that comes due is read once
//!   more before it is closed ([`Peers::close_if_silent`]).
//! * **Nobody starves.** A socket is read up to a budget and then waits for the next round; a round serves a
//!   bounded number of sockets and then polls the timer, which has a budget as well.
//! * **Backpressure.** A peer that does not read its echo is not read from. Its deadline then runs like that of
//!   a silent one.

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tickwheel::{Budget, EventLoopTimer, Expired, Key, Remote, Time};

/// What a quiet peer is sent. A text client never sends it, so it can tell it from its echo.
pub const HEARTBEAT: &[u8] = b"\0";

/// Bytes read from one socket before the others have their turn.
const READ_BUDGET: usize = 64 * 1024;
/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;
/// Bytes of echo that wait for a peer before it is not read from any more.
const BACKLOG_LIMIT: usize = 64 * 1024;
/// Sockets served in one round, before the timer has its turn.
const EVENTS: usize = 256;
/// Connections accepted, or taken over by a loop, at a time.
const ARRIVALS: usize = 256;
/// How long to wait when the system has no descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Alarms looked at in one round, before the sockets have their turn.
const BUDGET: Budget = Budget { drain: 1024, fire: 1024, sweep: 1024 };

const WAKE: Token = Token(usize::MAX);
const LISTENER: Token = Token(0);

/// What the server is told.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Where to listen. Port 0 takes a free one.
    pub addr: SocketAddr,
    /// A connection on which nothing moved for this long is closed.
    pub idle: Duration,
    /// A peer that said nothing for this long is sent a heartbeat, again and again. Zero: never.
    pub heartbeat: Duration,
    /// Event loops, each on a thread of its own.
    pub loops: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            idle: Duration::from_secs(30),
            heartbeat: Duration::from_secs(10),
            loops: thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// What a loop has counted. Only its own thread writes.
#[derive(Default)]
struct Counters {
    accepted: AtomicU64,
    closed_idle: AtomicU64,
    closed_by_peer: AtomicU64,
    refused: AtomicU64,
    heartbeats: AtomicU64,
    echoed: AtomicU64,
    latest_close_ns: AtomicU64,
}

fn count(counter: &AtomicU64, more: u64) {
    // ORDERING: Relaxed: a figure for reports; nothing is read because of it.
    counter.fetch_add(more, Ordering::Relaxed);
}

/// What the server has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Connections taken over by a loop.
    pub accepted: u64,
    /// Connections closed because nothing moved on them.
    pub closed_idle: u64,
    /// Connections that the peer closed or the network broke.
    pub closed_by_peer: u64,
    /// Connections turned away because a resource was exhausted.
    pub refused: u64,
    /// Heartbeats sent.
    pub heartbeats: u64,
    /// Bytes read, each of which is sent back.
    pub echoed: u64,
    /// How late the latest of the idle connections was closed.
    pub latest_close: Duration,
}

impl Stats {
    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.accepted - self.closed_idle - self.closed_by_peer
    }

    fn add(&mut self, counters: &Counters) {
        // ORDERING: Relaxed: see `count`. What ends a connection is read first: `open` is never negative.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.closed_idle += read(&counters.closed_idle);
        self.closed_by_peer += read(&counters.closed_by_peer);
        self.accepted += read(&counters.accepted);
        self.refused += read(&counters.refused);
        self.heartbeats += read(&counters.heartbeats);
        self.echoed += read(&counters.echoed);
        let latest = Duration::from_nanos(read(&counters.latest_close_ns));
        self.latest_close = self.latest_close.max(latest);
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} open, {} accepted, {} closed as idle (at most {:.1?} late), {} left by themselves, \
             {} heartbeats sent, {} bytes echoed",
            self.open(),
            self.accepted,
            self.closed_idle,
            self.latest_close,
            self.closed_by_peer,
            self.heartbeats,
            self.echoed
        )
    }
}

/// A running server. Dropping it stops it.
pub struct Server {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    loops: Vec<LoopHandle>,
    acceptor_waker: Arc<Waker>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// What other threads hold of a loop.
struct LoopHandle {
    waker: Arc<Waker>,
    remote: Remote<Alarm>,
    counters: Arc<Counters>,
}

impl Server {
    /// Binds the address and starts the threads.
    pub fn start(config: Config) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let acceptor = Acceptor::new(config, Arc::clone(&stop))?;
        let mut server = Self {
            addr: acceptor.listener.local_addr()?,
            stop,
            loops: Vec::new(),
            acceptor_waker: Arc::clone(&acceptor.waker),
            threads: Vec::new(),
        };
        let mut doors = Vec::new();
        for number in 0..config.loops.max(1) {
            let (sender, arrivals) = mpsc::channel();
            let (event_loop, handle) = Loop::new(config, arrivals, Arc::clone(&server.stop))?;
            doors.push(Door { sender, waker: Arc::clone(&handle.waker) });
            server.loops.push(handle);
            server.spawn(format!("loop-{number}"), move || event_loop.run())?;
        }
        server.spawn("acceptor".to_owned(), move || acceptor.run(&doors))?;
        Ok(server)
    }

    fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }

    /// The address that clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What the server has done so far.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.loops.iter().for_each(|handle| stats.add(&handle.counters));
        stats
    }

    /// Timers pending on all loops: two per open connection, one without heartbeats.
    pub fn timers(&self) -> usize {
        self.loops.iter().map(|handle| handle.remote.pending()).sum()
    }

    /// Whether a thread has ended, which only happens after a fatal error.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Closes every connection and ends the threads; the first error that ended one, if any.
    pub fn stop(mut self) -> io::Result<Stats> {
        self.halt()?;
        Ok(self.stats())
    }

    fn halt(&mut self) -> io::Result<()> {
        // ORDERING: Release: pairs with the loads of the threads, which the wakes below make look.
        self.stop.store(true, Ordering::Release);
        let mut result = self.acceptor_waker.wake();
        for handle in &self.loops {
            result = result.and(handle.waker.wake());
        }
        for thread in self.threads.drain(..) {
            result =
                result.and(thread.join().unwrap_or_else(|_| {
                    Err(io::Error::other("a thread of the server has panicked"))
                }));
        }
        result
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.halt() {
            eprintln!("the server has failed: {error}");
        }
    }
}

/// How connections get into a loop.
struct Door {
    sender: Sender<TcpStream>,
    waker: Arc<Waker>,
}

/// Accepts connections and deals them out to the loops in turn.
struct Acceptor {
    poll: Poll,
    waker: Arc<Waker>,
    listener: TcpListener,
    stop: Arc<AtomicBool>,
    /// The loop that gets the next connection.
    next: usize,
}

impl Acceptor {
    fn new(config: Config, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let mut listener = TcpListener::bind(config.addr)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self { poll, waker, listener, stop, next: 0 })
    }

    fn run(mut self, doors: &[Door]) -> io::Result<()> {
        let mut events = Events::with_capacity(4);
        let mut timeout = None;
        // ORDERING: Acquire: pairs with `Server::halt`.
        while !self.stop.load(Ordering::Acquire) {
            unless_interrupted(self.poll.poll(&mut events, timeout))?;
            timeout = self.accept_some(doors);
        }
        Ok(())
    }

    /// Accepts what is waiting, up to a bound; how long to sleep before the next look, `None` for as long as
    /// nobody knocks.
    fn accept_some(&mut self, doors: &[Door]) -> Option<Duration> {
        for _ in 0..ARRIVALS {
            match self.listener.accept() {
                Ok((stream, _)) => self.hand_out(stream, doors),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return None,
                    // The client has gone again.
                    ErrorKind::Interrupted
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::ConnectionReset => {}
                    _ => {
                        eprintln!("no connection can be accepted for the moment: {error}");
                        return Some(ACCEPT_PAUSE);
                    }
                },
            }
        }
        Some(Duration::ZERO)
    }

    fn hand_out(&mut self, stream: TcpStream, doors: &[Door]) {
        let door = &doors[self.next % doors.len()];
        self.next += 1;
        // Both fail only if the loop has ended; the connection is closed then.
        if door.sender.send(stream).is_ok() {
            if let Err(error) = door.waker.wake() {
                eprintln!("a loop cannot be woken for a new connection: {error}");
            }
        }
    }
}

/// What a loop's timers are for. The number is the connection's slot; a connection takes its timers with it when
/// it is closed, so no alarm ever meets the next user of the slot.
#[derive(Clone, Copy, Debug)]
enum Alarm {
    Idle(usize),
    Heartbeat(usize),
}

type Alarms = EventLoopTimer<Alarm>;

/// One event loop.
struct Loop {
    poll: Poll,
    timer: Alarms,
    peers: Peers,
    arrivals: Receiver<TcpStream>,
    stop: Arc<AtomicBool>,
}

impl Loop {
    fn new(
        config: Config,
        arrivals: Receiver<TcpStream>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<(Self, LoopHandle)> {
        let poll = Poll::new()?;
        // A poll has one waker: new connections and the timer's remotes share it.
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let for_remotes = Arc::clone(&waker);
        let timer = EventLoopTimer::builder()
            .budget(BUDGET)
            .build_with_waker(move || {
                if let Err(error) = for_remotes.wake() {
                    eprintln!("a loop cannot be woken for its timers: {error}");
                }
            })
            .map_err(io::Error::other)?;
        let counters = Arc::new(Counters::default());
        let peers = Peers::new(config, poll.registry().try_clone()?, Arc::clone(&counters));
        let handle = LoopHandle { waker, remote: timer.remote(), counters };
        Ok((Self { poll, timer, peers, arrivals, stop }, handle))
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut crowded = false;
        // ORDERING: Acquire: pairs with `Server::halt`.
        while !self.stop.load(Ordering::Acquire) {
            let Self { poll, timer, peers, arrivals, .. } = &mut self;
            let busy = crowded || !peers.unread.is_empty();
            let timeout = if busy { Some(Duration::ZERO) } else { timer.poll_timeout(timer.now()) };
            unless_interrupted(poll.poll(&mut events, timeout))?;

            for slot in std::mem::take(&mut peers.unread) {
                peers.serve(slot, timer);
            }
            for event in events.iter().filter(|event| event.token() != WAKE) {
                peers.serve(event.token().0, timer);
            }
            // The one clock read of the round, after the reads.
            let now = timer.now();
            peers.push_out(timer, now);
            crowded = peers.adopt(arrivals, timer);
            // If more is due than the budget allows, the next timeout is zero.
            timer.poll_with(now, |timer, expired| peers.alarm(expired, timer, now));
        }
        Ok(())
    }
}

/// An interrupted poll is an empty one.
fn unless_interrupted(polled: io::Result<()>) -> io::Result<()> {
    match polled {
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
        other => other,
    }
}

/// The connections of one loop.
struct Peers {
    idle: Duration,
    heartbeat: Option<Duration>,
    registry: Registry,
    counters: Arc<Counters>,
    slots: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Connections that had more to read than their budget: the next round goes on with them.
    unread: Vec<usize>,
    /// Connections on which something moved in this round.
    moved: Vec<usize>,
    scratch: Box<[u8]>,
}

impl Peers {
    fn new(config: Config, registry: Registry, counters: Arc<Counters>) -> Self {
        Self {
            idle: config.idle,
            heartbeat: Some(config.heartbeat).filter(|interval| !interval.is_zero()),
            registry,
            counters,
            slots: Vec::new(),
            free: Vec::new(),
            unread: Vec::new(),
            moved: Vec::new(),
            scratch: vec![0; CHUNK].into_boxed_slice(),
        }
    }

    /// Takes over new connections; whether more may be waiting.
    fn adopt(&mut self, arrivals: &Receiver<TcpStream>, timer: &mut Alarms) -> bool {
        let mut taken = 0;
        for stream in arrivals.try_iter().take(ARRIVALS) {
            taken += 1;
            if let Err(error) = self.admit(stream, timer) {
                eprintln!("a connection is turned away: {error}");
                count(&self.counters.refused, 1);
            }
        }
        taken == ARRIVALS
    }

    fn admit(&mut self, mut stream: TcpStream, timer: &mut Alarms) -> io::Result<()> {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        stream.set_nodelay(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut stream, Token(slot), interest)?;
        // It may have come after the round's clock read, which would close it too early.
        let now = timer.now();
        let idle = timer.schedule(now, self.idle, Alarm::Idle(slot)).map_err(io::Error::other)?;
        // Without its heartbeats a connection can do.
        let heartbeat = self
            .heartbeat
            .and_then(|interval| timer.schedule(now, interval, Alarm::Heartbeat(slot)).ok());
        let connection =
            Connection { stream, backlog: VecDeque::new(), finished: false, idle, heartbeat };
        if self.free.pop().is_some() {
            self.slots[slot] = Some(connection);
        } else {
            self.slots.push(Some(connection));
        }
        count(&self.counters.accepted, 1);
        Ok(())
    }

    fn get(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Reads and echoes what one connection has, within its budget; whether anything moved.
    fn serve(&mut self, slot: usize, timer: &mut Alarms) -> bool {
        let Some(Some(connection)) = self.slots.get_mut(slot) else { return false };
        let pumped = match connection.pump(&mut self.scratch) {
            Ok(pumped) => pumped,
            Err(_) => {
                self.close(slot, timer, |counters| &counters.closed_by_peer);
                return false;
            }
        };
        count(&self.counters.echoed, pumped.read as u64);
        if pumped.ended {
            self.close(slot, timer, |counters| &counters.closed_by_peer);
            return false;
        }
        if pumped.more {
            self.unread.push(slot);
        }
        if pumped.moved {
            self.moved.push(slot);
        }
        pumped.moved
    }

    /// Pushes out the deadlines of the connections on which something moved.
    fn push_out(&mut self, timer: &mut Alarms, now: Time) {
        for slot in self.moved.drain(..) {
            let Some(Some(connection)) = self.slots.get(slot) else { continue };
            // Gone is impossible here: the connection is open and alarms come later in the round.
            timer.reschedule(now, connection.idle, self.idle);
            if let (Some(key), Some(interval)) = (connection.heartbeat, self.heartbeat) {
                timer.reschedule(now, key, interval);
            }
        }
    }

    fn alarm(&mut self, expired: Expired<Alarm>, timer: &mut Alarms, now: Time) {
        match expired.payload {
            Alarm::Idle(slot) => self.close_if_silent(slot, timer, expired.lateness),
            Alarm::Heartbeat(slot) => self.send_heartbeat(slot, timer, now),
        }
    }

    /// Closes a connection whose time is up, unless something has come in the very last moment.
    fn close_if_silent(&mut self, slot: usize, timer: &mut Alarms, lateness: Duration) {
        if self.serve(slot, timer) {
            let again = timer.schedule(timer.now(), self.idle, Alarm::Idle(slot));
            if let (Some(connection), Ok(key)) = (self.get(slot), again) {
                connection.idle = key;
                return;
            }
        }
        if self.close(slot, timer, |counters| &counters.closed_idle) {
            let lateness = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
            // ORDERING: Relaxed: see `count`.
            self.counters.latest_close_ns.fetch_max(lateness, Ordering::Relaxed);
        }
    }

    fn send_heartbeat(&mut self, slot: usize, timer: &mut Alarms, now: Time) {
        let interval = self.heartbeat.unwrap_or(self.idle);
        let Some(connection) = self.get(slot) else { return };
        connection.heartbeat = timer.schedule(now, interval, Alarm::Heartbeat(slot)).ok();
        // A peer with unread echo has no use for one.
        if !connection.backlog.is_empty() || connection.finished {
            return;
        }
        match write_some(&mut connection.stream, HEARTBEAT) {
            Ok(written) => count(&self.counters.heartbeats, u64::from(written > 0)),
            Err(_) => drop(self.close(slot, timer, |counters| &counters.closed_by_peer)),
        }
    }

    /// Counts a connection as closed, ends its timers and closes it; whether there was one.
    fn close(
        &mut self,
        slot: usize,
        timer: &mut Alarms,
        counter: fn(&Counters) -> &AtomicU64,
    ) -> bool {
        let Some(mut connection) = self.slots.get_mut(slot).and_then(Option::take) else {
            return false;
        };
        count(counter(&self.counters), 1);
        for key in [Some(connection.idle), connection.heartbeat].into_iter().flatten() {
            // Lost by the timer that has just fired.
            timer.cancel(key);
        }
        if let Err(error) = self.registry.deregister(&mut connection.stream) {
            eprintln!("a closed connection could not be deregistered: {error}");
        }
        self.free.push(slot);
        true
    }
}

/// One client.
struct Connection {
    stream: TcpStream,
    /// Echo that the peer has not taken yet.
    backlog: VecDeque<u8>,
    /// The peer has said its last byte.
    finished: bool,
    idle: Key<Alarm>,
    heartbeat: Option<Key<Alarm>>,
}

/// What serving a connection came to.
#[derive(Default)]
struct Pumped {
    /// Bytes read.
    read: usize,
    /// The peer sent something, or took some of the echo it was behind with.
    moved: bool,
    /// The budget ran out before the bytes did.
    more: bool,
    /// Nothing is left to do for this peer.
    ended: bool,
}

impl Connection {
    /// Moves bytes until the peer has no more, takes no more, or the budget is used up.
    ///
    /// `mio` reports edges: whoever stops before `WouldBlock` has to come back by himself.
    fn pump(&mut self, scratch: &mut [u8]) -> io::Result<Pumped> {
        let mut pumped = Pumped { moved: self.flush()?, ..Pumped::default() };
        while !self.finished && self.backlog.len() < BACKLOG_LIMIT {
            if pumped.read >= READ_BUDGET {
                pumped.more = true;
                break;
            }
            match self.stream.read(scratch) {
                Ok(0) => self.finished = true,
                Ok(read) => {
                    pumped.read += read;
                    pumped.moved = true;
                    self.echo(&scratch[..read])?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        pumped.ended = self.finished && self.backlog.is_empty();
        Ok(pumped)
    }

    fn echo(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written =
            if self.backlog.is_empty() { write_some(&mut self.stream, bytes)? } else { 0 };
        self.backlog.extend(&bytes[written..]);
        Ok(())
    }

    /// Sends waiting echo; whether the peer took any.
    fn flush(&mut self) -> io::Result<bool> {
        let mut moved = false;
        while !self.backlog.is_empty() {
            let written = write_some(&mut self.stream, self.backlog.as_slices().0)?;
            if written == 0 {
                return Ok(moved);
            }
            moved = true;
            self.backlog.drain(..written);
        }
        if moved {
            // Thousands of connections were slow once; few are at a time.
            self.backlog = VecDeque::new();
        }
        Ok(moved)
    }
}

/// Writes as much as the socket takes now.
fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

const HELP: &str = "\
An echo server that closes idle connections and sends heartbeats to quiet peers.

usage: idle_server                  demonstrate it with three clients (3 s)
       idle_server ADDR [OPTIONS]   serve on ADDR, e.g. 127.0.0.1:7777, until interrupted

  --idle SECONDS        close a connection on which nothing moved for so long [30]
  --heartbeat SECONDS   send a NUL byte to a peer that was quiet for so long, 0 for never [10]
  --loops N             event loops [one per core]
  --help                this text

Try it:  nc 127.0.0.1 7777";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::default();
    let mut addr = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value; see --help"));
        match arg.as_str() {
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(());
            }
            "--idle" => config.idle = seconds(&value()?)?,
            "--heartbeat" => config.heartbeat = seconds(&value()?)?,
            "--loops" => config.loops = value()?.parse()?,
            option if option.starts_with('-') => {
                return Err(format!("unknown option {option}; see --help").into());
            }
            text => {
                let parsed = text.parse();
                addr = Some(
                    parsed
                        .map_err(|_| format!("{text} is not an address such as 127.0.0.1:7777"))?,
                );
            }
        }
    }
    match addr {
        Some(addr) => serve(Config { addr, ..config }),
        None => demonstrate(),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    parsed.ok_or_else(|| format!("{text} is not a number of seconds such as 30 or 0.5"))
}

fn serve(config: Config) -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(config)?;
    println!("listening on {}", server.addr());
    println!(
        "{} loops; idle after {:?}, heartbeat after {:?}; Ctrl-C ends it",
        config.loops, config.idle, config.heartbeat
    );
    let mut shown = Stats::default();
    while !server.has_failed() {
        thread::sleep(Duration::from_secs(1));
        let stats = server.stats();
        if stats != shown {
            println!("{stats}");
            shown = stats;
        }
    }
    server.stop()?;
    Ok(())
}

/// Three clients, three fates.
fn demonstrate() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config {
        idle: Duration::from_secs(1),
        heartbeat: Duration::from_millis(400),
        ..Config::default()
    };
    let server = Server::start(config)?;
    let addr = server.addr();
    println!(
        "a server on {addr} with {} loops closes what is idle for {:?}; heartbeat after {:?}\n",
        config.loops, config.idle, config.heartbeat
    );
    thread::scope(|scope| {
        scope.spawn(|| tell("chatty", chatty(addr)));
        scope.spawn(|| tell("silent", silent(addr)));
        scope.spawn(|| tell("deaf", deaf(addr)));
    });
    let patience = Instant::now() + Duration::from_secs(1);
    while server.stats().open() > 0 && Instant::now() < patience {
        thread::sleep(Duration::from_millis(1));
    }
    let timers = server.timers();
    println!("\nthe server says: {}; {timers} timers pending", server.stop()?);
    println!("a server of your own: cargo run --example idle_server -- 127.0.0.1:7777");
    Ok(())
}

fn tell(name: &str, story: io::Result<String>) {
    match story {
        Ok(story) => println!("the {name} client {story}"),
        Err(error) => println!("the {name} client failed: {error}"),
    }
}

/// Says something more often than the idle timeout asks for.
fn chatty(addr: SocketAddr) -> io::Result<String> {
    let mut stream = std::net::TcpStream::connect(addr)?;
    let begun = Instant::now();
    let mut echo = [0; 4];
    for _ in 0..10 {
        stream.write_all(b"tick")?;
        stream.read_exact(&mut echo)?;
        thread::sleep(Duration::from_millis(250));
    }
    Ok(format!("is still connected after {:.2?} and 10 echoes; it hangs up", begun.elapsed()))
}

/// Says nothing and waits to be closed.
fn silent(addr: SocketAddr) -> io::Result<String> {
    let begun = Instant::now();
    let mut stream = std::net::TcpStream::connect(addr)?;
    let mut heartbeats = Vec::new();
    stream.read_to_end(&mut heartbeats)?;
    let (elapsed, count) = (begun.elapsed(), heartbeats.len());
    Ok(format!("was closed after {elapsed:.2?} of silence; it got {count} heartbeats before"))
}

/// Sends for ever and never reads its echo.
fn deaf(addr: SocketAddr) -> io::Result<String> {
    let mut stream = std::net::TcpStream::connect(addr)?;
    let (mut sent, mut stuck) = (0, Duration::ZERO);
    loop {
        let begun = Instant::now();
        let written = stream.write(&[7; 4096]);
        // The last writes block until the connection is closed.
        stuck = stuck.max(begun.elapsed());
        match written {
            Ok(written) => sent += written,
            Err(_) => break,
        }
    }
    Ok(format!(
        "sent {sent} bytes and read none; then nothing moved for {stuck:.2?}, and it was closed"
    ))
}
