//! One event loop: sockets, new connections, timers, in this order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Poll, Waker};
use tickwheel::{Budget, EventLoopTimer, Remote};

use super::connection::Alarm;
use super::connection::{WAKE, unless_interrupted};
use super::counters::Counters;
use super::peers::{Alarms, Peers};
use crate::settings::server::HostSettings;

/// Sockets served in one round, before the timer has its turn.
const EVENTS: usize = 256;
/// Alarms looked at in one round, before the sockets have their turn.
const BUDGET: Budget = Budget { drain: 1024, fire: 1024, sweep: 1024 };

/// What other threads hold of a loop.
pub(super) struct LoopHandle {
    pub(super) waker: Arc<Waker>,
    pub(super) remote: Remote<Alarm>,
    pub(super) counters: Arc<Counters>,
}

/// One event loop.
pub(super) struct Loop {
    poll: Poll,
    timer: Alarms,
    peers: Peers,
    arrivals: Receiver<TcpStream>,
    stop: Arc<AtomicBool>,
}

impl Loop {
    pub(super) fn new(
        settings: HostSettings,
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
        let peers = Peers::new(settings, poll.registry().try_clone()?, Arc::clone(&counters));
        let handle = LoopHandle { waker, remote: timer.remote(), counters };
        Ok((Self { poll, timer, peers, arrivals, stop }, handle))
    }

    pub(super) fn run(mut self) -> io::Result<()> {
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
