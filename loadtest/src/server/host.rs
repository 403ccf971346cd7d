//! The server: a TCP echo server that closes idle connections, one `mio` loop per core, each with its own
//! [`EventLoopTimer`].
//!
//! * **One clock read per round**, after the sockets have been read: a deadline counts from a moment after the bytes
//!   were there, so that no connection is closed early as seen by its client. Every read pushes the deadline out, which
//!   moves nothing in the wheel. A connection that arrives later in the round gets a clock read of its own.
//! * **The last look.** A connection that comes due is read once more before it is closed, because bytes that came
//!   while the loop was busy count.
//! * **Nobody starves.** A round serves a bounded number of sockets and then polls the timer, which has a budget as
//!   well.

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
        let mut server = Self {
            addr,
            counts,
            stop,
            loops: Vec::new(),
        };
        for number in 0..loops {
            let poll = Poll::new()?;
            let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
            let mut listener = TcpListener::from_std(listener.try_clone()?);
            poll.registry()
                .register(&mut listener, LISTENER, Interest::READABLE)?;
            let wake = Arc::clone(&waker);
            let timer = Settings::new().budget(BUDGET);
            let timer = EventLoopTimer::with_waker(timer, move || {
                wake.wake().expect("a loop can be woken")
            });
            let peers = Peers {
                idle,
                registry: poll.registry().try_clone()?,
                slots: Vec::new(),
                free: Vec::new(),
                heard: Vec::new(),
                counts: Arc::clone(&server.counts),
            };
            let stop = Arc::clone(&server.stop);
            let timer = timer.map_err(io::Error::other)?;
            let run = move || peers.run(poll, &listener, timer, &stop);
            let thread = thread::Builder::new()
                .name(format!("loop-{number}"))
                .spawn(run)?;
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

/// The connections of one loop. A timer's payload is the connection's slot; a connection takes its timer with it when
/// it is closed, so that no timer ever meets the next user of the slot.
struct Peers {
    idle: Duration,
    registry: Registry,
    slots: Vec<Option<(TcpStream, Key<usize>)>>,
    free: Vec<usize>,
    /// Connections that were heard from in this round.
    heard: Vec<usize>,
    counts: Arc<Counts>,
}

type Timers = EventLoopTimer<usize>;

impl Peers {
    /// Runs the event loop: sockets, deadlines, new connections, timers, in this order.
    fn run(
        mut self,
        mut poll: Poll,
        listener: &TcpListener,
        mut timer: Timers,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        // ORDERING: Acquire: pairs with `Server::stop`.
        while !stop.load(Ordering::Acquire) {
            match poll.poll(&mut events, timer.poll_timeout(timer.now())) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let mut knocking = false;
            for event in &events {
                match event.token() {
                    WAKE => {}
                    LISTENER => knocking = true,
                    Token(slot) => _ = self.serve(slot, &mut timer)?,
                }
            }
            let now = timer.now();
            for slot in self.heard.drain(..) {
                if let Some((_, idle)) = self.slots[slot] {
                    timer.reschedule(now, idle, self.idle);
                }
            }
            while knocking {
                match listener.accept() {
                    Ok((stream, _)) => self.admit(stream, &mut timer)?,
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                    Err(_) => knocking = false,
                }
            }
            // If more is due than the budget allows, the next timeout is zero.
            let mut closed = Ok(());
            timer.poll_with(now, |timer, expired| {
                let one = self.close_if_silent(expired.payload, timer);
                closed = std::mem::replace(&mut closed, Ok(())).and(one);
            });
            closed?;
        }
        self.counts.timers.add(timer.pending() as u64);
        Ok(())
    }

    fn admit(&mut self, mut stream: TcpStream, timer: &mut Timers) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let slot = self.free.pop().unwrap_or(self.slots.len());
        self.registry
            .register(&mut stream, Token(slot), Interest::READABLE)?;
        // It may have come after the round's clock read, which would close it too early.
        let idle = timer
            .schedule(timer.now(), self.idle, slot)
            .map_err(io::Error::other)?;
        self.slots
            .resize_with(self.slots.len().max(slot + 1), || None);
        self.slots[slot] = Some((stream, idle));
        self.counts.accepted.add(1);
        Ok(())
    }

    /// Reads and echoes what one connection has; whether there was anything.
    fn serve(&mut self, slot: usize, timer: &mut Timers) -> io::Result<bool> {
        let Some((stream, _)) = &mut self.slots[slot] else {
            return Ok(false);
        };
        let (mut chunk, mut heard) = ([0; 4096], false);
        loop {
            let read = match stream.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                read => read.unwrap_or(0),
            };
            // A client that does not read its echo is none of ours.
            if read == 0 || stream.write_all(&chunk[..read]).is_err() {
                self.counts.closed_by_peer.add(1);
                return self.close(slot, timer).map(|()| false);
            }
            self.counts.echoed.add(read as u64);
            heard = true;
        }
        self.heard.extend(heard.then_some(slot));
        Ok(heard)
    }

    /// Closes a connection whose time is up, unless something has come in the very last moment.
    fn close_if_silent(&mut self, slot: usize, timer: &mut Timers) -> io::Result<()> {
        let heard = self.serve(slot, timer)?;
        // The last look may have found that the peer has closed it.
        let Some((_, idle)) = &mut self.slots[slot] else {
            return Ok(());
        };
        if heard {
            *idle = timer
                .schedule(timer.now(), self.idle, slot)
                .map_err(io::Error::other)?;
            return Ok(());
        }
        self.counts.closed_idle.add(1);
        self.close(slot, timer)
    }

    /// Ends a connection's timer and closes it.
    fn close(&mut self, slot: usize, timer: &mut Timers) -> io::Result<()> {
        let Some((mut stream, idle)) = self.slots[slot].take() else {
            return Ok(());
        };
        // Lost by the timer that has just fired.
        timer.cancel(idle);
        self.free.push(slot);
        self.registry.deregister(&mut stream)
    }
}
