//! The server: a TCP echo server that closes idle connections, one `mio` loop per core, each with its own
//! [`EventLoopTimer`].
//!
//! It does what a production server has to:
//!
//! * **One clock read per round**, after the sockets have been read: a deadline counts from a moment after the bytes
//!   were there, so that no connection is closed early as seen by its client. Every read pushes the deadline out, which
//!   moves nothing in the wheel. A connection that arrives later in the round gets a clock read of its own.
//! * **The last look.** A connection that comes due is read once more before it is closed, because bytes that came
//!   while the loop was busy count.
//! * **Nobody starves.** A socket is read up to a budget and then waits for the next round; a round serves a bounded
//!   number of sockets and then polls the timer, which has a budget as well.
//! * **Backpressure.** A peer that does not read its echo is not read from.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use tickwheel::{Budget, EventLoopTimer, Key, Settings};

use super::process::ServerCounts;
use crate::measure::nanos;

/// Bytes read from one socket before the others have their turn.
const READ_BUDGET: usize = 64 * 1024;
/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;
/// Bytes of echo that wait for a peer before it is not read from any more.
const BACKLOG_LIMIT: usize = 64 * 1024;
/// Connections accepted in one round.
const ARRIVALS: usize = 256;
/// Sockets served in one round, before the timer has its turn.
const EVENTS: usize = 256;
/// Timers handled in one round, before the sockets have their turn.
const BUDGET: Budget = Budget::new().drain(1024).fire(1024).sweep(1024);
/// How long to wait when the system has no descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

const WAKE: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);

/// A running server.
pub(super) struct Server {
    pub(super) addr: SocketAddr,
    stop: Arc<AtomicBool>,
    loops: Vec<(Arc<Waker>, JoinHandle<io::Result<ServerCounts>>)>,
}

impl Server {
    /// Binds a free port of the loopback address and starts the loops.
    pub(super) fn start(idle: Duration, loops: usize) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut server = Self { addr: listener.local_addr()?, stop, loops: Vec::new() };
        for number in 0..loops {
            let poll = Poll::new()?;
            let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
            let mut listener = TcpListener::from_std(listener.try_clone()?);
            poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
            let peers = Peers::new(idle, poll.registry().try_clone()?);
            let (for_timer, stop) = (Arc::clone(&waker), Arc::clone(&server.stop));
            let run = move || run(poll, &listener, peers, for_timer, &stop);
            let thread = thread::Builder::new().name(format!("loop-{number}")).spawn(run)?;
            server.loops.push((waker, thread));
        }
        Ok(server)
    }

    /// Closes every connection and ends the threads; what they counted.
    pub(super) fn stop(self) -> io::Result<ServerCounts> {
        // ORDERING: Release: pairs with the load of the loops, which the wakes below make look.
        self.stop.store(true, Ordering::Release);
        let mut all = ServerCounts::default();
        for (waker, thread) in self.loops {
            waker.wake()?;
            let panicked = || io::Error::other("a loop of the server has panicked");
            all.add(&thread.join().map_err(|_| panicked())??);
        }
        Ok(all)
    }
}

/// One event loop: sockets, deadlines, new connections, timers, in this order.
fn run(
    mut poll: Poll,
    listener: &TcpListener,
    mut peers: Peers,
    waker: Arc<Waker>,
    stop: &AtomicBool,
) -> io::Result<ServerCounts> {
    let wake = move || {
        if let Err(error) = waker.wake() {
            eprintln!("a loop cannot be woken for its timers: {error}");
        }
    };
    let timer = Settings::new().budget(BUDGET).build_with_waker(wake);
    let mut timer = timer.map_err(io::Error::other)?;
    let mut events = Events::with_capacity(EVENTS);
    let mut knocking = false;
    // ORDERING: Acquire: pairs with `Server::stop`.
    while !stop.load(Ordering::Acquire) {
        let busy = knocking || !peers.unread.is_empty();
        let timeout = if busy { Some(Duration::ZERO) } else { timer.poll_timeout(timer.now()) };
        match poll.poll(&mut events, timeout) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for slot in std::mem::take(&mut peers.unread) {
            peers.serve(slot, &mut timer);
        }
        for event in &events {
            match event.token() {
                WAKE => {}
                LISTENER => knocking = true,
                Token(slot) => drop(peers.serve(slot, &mut timer)),
            }
        }
        let now = timer.now();
        for slot in peers.moved.drain(..) {
            if let Some(Some(peer)) = peers.slots.get(slot) {
                timer.reschedule(now, peer.idle, peers.idle);
            }
        }
        if knocking {
            knocking = peers.accept(listener, &mut timer);
        }
        // If more is due than the budget allows, the next timeout is zero.
        timer.poll_with(now, |timer, expired| {
            peers.close_if_silent(expired.payload, timer, expired.lateness);
        });
    }
    peers.counts.timers = timer.pending() as u64;
    Ok(peers.counts)
}

/// The connections of one loop. A timer's payload is the connection's slot; a connection takes its timer with it when
/// it is closed, so that no timer ever meets the next user of the slot.
struct Peers {
    idle: Duration,
    registry: Registry,
    slots: Vec<Option<Peer>>,
    free: Vec<usize>,
    /// Connections that had more to read than their budget: the next round goes on with them.
    unread: Vec<usize>,
    /// Connections on which something moved in this round.
    moved: Vec<usize>,
    scratch: Box<[u8]>,
    counts: ServerCounts,
}

type Timers = EventLoopTimer<usize>;

impl Peers {
    fn new(idle: Duration, registry: Registry) -> Self {
        let scratch = vec![0; CHUNK].into_boxed_slice();
        let (slots, free, unread, moved) = Default::default();
        Self { idle, registry, slots, free, unread, moved, scratch, counts: Default::default() }
    }

    /// Accepts what is waiting, up to a bound; whether more may be waiting.
    fn accept(&mut self, listener: &TcpListener, timer: &mut Timers) -> bool {
        for _ in 0..ARRIVALS {
            let admitted = match listener.accept() {
                Ok((stream, _)) => self.admit(stream, timer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => Err(error),
            };
            if let Err(error) = admitted {
                eprintln!("a connection is turned away: {error}");
                self.counts.refused += 1;
                thread::sleep(ACCEPT_PAUSE);
            }
        }
        true
    }

    fn admit(&mut self, mut stream: TcpStream, timer: &mut Timers) -> io::Result<()> {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        stream.set_nodelay(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut stream, Token(slot), interest)?;
        // It may have come after the round's clock read, which would close it too early.
        let idle = timer.schedule(timer.now(), self.idle, slot).map_err(io::Error::other)?;
        let peer = Peer { stream, backlog: VecDeque::new(), finished: false, idle };
        if self.free.pop().is_some() {
            self.slots[slot] = Some(peer);
        } else {
            self.slots.push(Some(peer));
        }
        self.counts.accepted += 1;
        Ok(())
    }

    /// Reads and echoes what one connection has, within its budget; whether anything moved.
    fn serve(&mut self, slot: usize, timer: &mut Timers) -> bool {
        let Some(Some(peer)) = self.slots.get_mut(slot) else { return false };
        let before = self.counts.echoed;
        let pumped = peer.pump(&mut self.scratch, &mut self.counts.echoed);
        let Ok(Pumped { flushed, more, ended: false }) = pumped else {
            self.close(slot, timer);
            self.counts.closed_by_peer += 1;
            return false;
        };
        let moved = flushed || self.counts.echoed > before;
        self.unread.extend(more.then_some(slot));
        self.moved.extend(moved.then_some(slot));
        moved
    }

    /// Closes a connection whose time is up, unless something has come in the very last moment.
    fn close_if_silent(&mut self, slot: usize, timer: &mut Timers, lateness: Duration) {
        if self.serve(slot, timer) {
            let again = timer.schedule(timer.now(), self.idle, slot);
            if let (Some(Some(peer)), Ok(key)) = (self.slots.get_mut(slot), again) {
                peer.idle = key;
                return;
            }
        }
        if self.close(slot, timer) {
            self.counts.closed_idle += 1;
            self.counts.latest_close_ns = self.counts.latest_close_ns.max(nanos(lateness));
        }
    }

    /// Ends a connection's timer and closes it; whether there was one.
    fn close(&mut self, slot: usize, timer: &mut Timers) -> bool {
        let Some(mut peer) = self.slots.get_mut(slot).and_then(Option::take) else { return false };
        // Lost by the timer that has just fired.
        timer.cancel(peer.idle);
        if let Err(error) = self.registry.deregister(&mut peer.stream) {
            eprintln!("a closed connection could not be deregistered: {error}");
        }
        self.free.push(slot);
        true
    }
}

/// One connection.
struct Peer {
    stream: TcpStream,
    /// Echo that the peer has not taken yet.
    backlog: VecDeque<u8>,
    /// The peer has said its last byte.
    finished: bool,
    idle: Key<usize>,
}

/// What serving a connection came to.
struct Pumped {
    /// The peer took some of the echo it was behind with.
    flushed: bool,
    /// The budget ran out before the bytes did.
    more: bool,
    /// Nothing is left to do for this peer.
    ended: bool,
}

impl Peer {
    /// Moves bytes until the peer has no more, takes no more, or the budget is used up; counts those read.
    ///
    /// `mio` reports edges: whoever stops before `WouldBlock` has to come back by himself.
    fn pump(&mut self, scratch: &mut [u8], total: &mut u64) -> io::Result<Pumped> {
        let flushed = self.flush()?;
        let (mut budget, mut more) = (READ_BUDGET, false);
        while !self.finished && self.backlog.len() < BACKLOG_LIMIT && !more {
            match self.stream.read(scratch) {
                Ok(0) => self.finished = true,
                Ok(read) => {
                    *total += read as u64;
                    self.backlog.extend(&scratch[..read]);
                    self.flush()?;
                    budget = budget.saturating_sub(read);
                    more = budget == 0;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Pumped { flushed, more, ended: self.finished && self.backlog.is_empty() })
    }

    /// Sends waiting echo; whether the peer took any.
    fn flush(&mut self) -> io::Result<bool> {
        let waiting = self.backlog.len();
        while !self.backlog.is_empty() {
            match self.stream.write(self.backlog.as_slices().0) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.backlog.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.backlog.len() < waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpStream};

    #[test]
    fn a_slow_reader_gets_every_byte() {
        // More than the buffers of two sockets hold, so that the server has to wait for this client.
        const BYTES: usize = 16 << 20;
        const PERIOD: usize = 251;
        let server = Server::start(Duration::from_secs(60), 1).unwrap();
        let mut writer = TcpStream::connect(server.addr).unwrap();
        let mut reader = writer.try_clone().unwrap();
        let sent: Vec<u8> = (0..BYTES).map(|at| (at % PERIOD) as u8).collect();
        let received = thread::scope(|scope| {
            scope.spawn(|| {
                writer.write_all(&sent).unwrap();
                // The server still owes the rest of the echo.
                writer.shutdown(Shutdown::Write).unwrap();
            });
            thread::sleep(Duration::from_millis(300));
            let mut received = Vec::new();
            reader.read_to_end(&mut received).unwrap();
            received
        });
        assert!(received == sent, "{} of {BYTES} bytes, or garbled", received.len());
        let counts = server.stop().unwrap();
        assert_eq!((counts.echoed, counts.closed_by_peer, counts.timers), (BYTES as u64, 1, 0));
    }
}
