//! Accepts connections and deals them out to the loops in turn.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use super::connection::{ARRIVALS, WAKE, unless_interrupted};

/// How long to wait when the system has no descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const LISTENER: Token = Token(0);

/// How connections get into a loop.
pub(super) struct Door {
    pub(super) sender: Sender<TcpStream>,
    pub(super) waker: Arc<Waker>,
}

/// Accepts connections and deals them out to the loops in turn.
pub(super) struct Acceptor {
    poll: Poll,
    pub(super) waker: Arc<Waker>,
    pub(super) listener: TcpListener,
    stop: Arc<AtomicBool>,
    /// The loop that gets the next connection.
    next: usize,
}

impl Acceptor {
    pub(super) fn new(stop: Arc<AtomicBool>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self { poll, waker, listener, stop, next: 0 })
    }

    pub(super) fn run(mut self, doors: &[Door]) -> io::Result<()> {
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
