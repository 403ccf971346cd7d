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

use crate::measure::LiveCount;

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

const WAKE: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);

/// What the loops of a server count.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) accepted: LiveCount,
    /// Connections closed because nothing moved on them.
    pub(super) closed_idle: LiveCount,
    /// Connections that the peer closed or the network broke.
    pub(super) closed_by_peer: LiveCount,
    /// Bytes read, each of which is sent back.
    pub(super) echoed: LiveCount,
    /// Timers that were pending when the server was told to stop.
    pub(super) timers: LiveCount,
}

/// A running server.
pub(super) struct Server {
    pub(super) addr: SocketAddr,
    pub(super) counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    loops: Vec<(Arc<Waker>, JoinHandle<io::Result<()>>)>,
}

impl Server {
    /// Binds a free port of the loopback address and starts the loops.
    pub(super) fn start(idle: Duration, loops: usize) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (addr, counts) = (listener.local_addr()?, Arc::default());
        let mut server = Self { addr, counts, stop, loops: Vec::new() };
        for number in 0..loops {
            let poll = Poll::new()?;
            let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
            let mut listener = TcpListener::from_std(listener.try_clone()?);
            poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
            let counts = Arc::clone(&server.counts);
            let peers = Peers::new(idle, poll.registry().try_clone()?, counts);
            let (for_timer, stop) = (Arc::clone(&waker), Arc::clone(&server.stop));
            let run = move || run(poll, &listener, peers, for_timer, &stop);
            let thread = thread::Builder::new().name(format!("loop-{number}")).spawn(run)?;
            server.loops.push((waker, thread));
        }
        Ok(server)
    }

    /// Closes every connection and ends the threads; what they counted.
    pub(super) fn stop(self) -> io::Result<Arc<Counts>> {
        // ORDERING: Release: pairs with the load of the loops, which the wakes below make look.
        self.stop.store(true, Ordering::Release);
        for (waker, thread) in self.loops {
            waker.wake()?;
            let panicked = || io::Error::other("a loop of the server has panicked");
            thread.join().map_err(|_| panicked())??;
        }
        Ok(self.counts)
    }
}

/// One event loop: sockets, deadlines, new connections, timers, in this order.
fn run(
    mut poll: Poll,
    listener: &TcpListener,
    mut peers: Peers,
    waker: Arc<Waker>,
    stop: &AtomicBool,
) -> io::Result<()> {
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
            peers.serve(slot, &mut timer)?;
        }
        for event in &events {
            match event.token() {
                WAKE => {}
                LISTENER => knocking = true,
                Token(slot) => _ = peers.serve(slot, &mut timer)?,
            }
        }
        let now = timer.now();
        for slot in peers.moved.drain(..) {
            if let Some(Some(peer)) = peers.slots.get(slot) {
                timer.reschedule(now, peer.idle, peers.idle);
            }
        }
        if knocking {
            knocking = peers.accept(listener, &mut timer)?;
        }
        // If more is due than the budget allows, the next timeout is zero.
        let mut closed = Ok(());
        timer.poll_with(now, |timer, expired| {
            let one = peers.close_if_silent(expired.payload, timer);
            closed = std::mem::replace(&mut closed, Ok(())).and(one);
        });
        closed?;
    }
    peers.counts.timers.add(timer.pending() as u64);
    Ok(())
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
    counts: Arc<Counts>,
}

type Timers = EventLoopTimer<usize>;

impl Peers {
    fn new(idle: Duration, registry: Registry, counts: Arc<Counts>) -> Self {
        let scratch = vec![0; CHUNK].into_boxed_slice();
        let (slots, free, unread, moved) = Default::default();
        Self { idle, registry, slots, free, unread, moved, scratch, counts }
    }

    /// Accepts what is waiting, up to a bound; whether more may be waiting.
    fn accept(&mut self, listener: &TcpListener, timer: &mut Timers) -> io::Result<bool> {
        for _ in 0..ARRIVALS {
            match listener.accept() {
                Ok((stream, _)) => self.admit(stream, timer)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
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
        self.counts.accepted.add(1);
        Ok(())
    }

    /// Reads and echoes what one connection has, within its budget; whether anything moved.
    fn serve(&mut self, slot: usize, timer: &mut Timers) -> io::Result<bool> {
        let Some(Some(peer)) = self.slots.get_mut(slot) else { return Ok(false) };
        let mut read = 0;
        let pumped = peer.pump(&mut self.scratch, &mut read);
        self.counts.echoed.add(read);
        let Ok(Pumped { flushed, more, ended: false }) = pumped else {
            self.counts.closed_by_peer.add(1);
            return self.close(slot, timer).map(|()| false);
        };
        let moved = flushed || read > 0;
        self.unread.extend(more.then_some(slot));
        self.moved.extend(moved.then_some(slot));
        Ok(moved)
    }

    /// Closes a connection whose time is up, unless something has come in the very last moment.
    fn close_if_silent(&mut self, slot: usize, timer: &mut Timers) -> io::Result<()> {
        let moved = self.serve(slot, timer)?;
        // The last look may have found that the peer has closed it.
        let Some(Some(peer)) = self.slots.get_mut(slot) else { return Ok(()) };
        if moved {
            let again = timer.schedule(timer.now(), self.idle, slot);
            peer.idle = again.map_err(io::Error::other)?;
            return Ok(());
        }
        self.counts.closed_idle.add(1);
        self.close(slot, timer)
    }

    /// Ends a connection's timer and closes it.
    fn close(&mut self, slot: usize, timer: &mut Timers) -> io::Result<()> {
        let Some(mut peer) = self.slots.get_mut(slot).and_then(Option::take) else { return Ok(()) };
        // Lost by the timer that has just fired.
        timer.cancel(peer.idle);
        self.free.push(slot);
        self.registry.deregister(&mut peer.stream)
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
        let counts = [&counts.echoed, &counts.closed_by_peer, &counts.timers].map(LiveCount::get);
        assert_eq!(counts, [BYTES as u64, 1, 0]);
    }
}
