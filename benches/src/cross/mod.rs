//! Peers that many threads use at once, and what they are put through.

mod engine;
mod futures;
mod hash_wheel;
mod locked;
mod pingora;
mod throughput;
mod timed;
mod tokio_sleep;
mod watched;

use crate::book::Book;
use crate::child::Metrics;
use crate::figure::{Figure, Scale};
use crate::peer::Peer;
use std::sync::Arc;
use std::time::Duration;

pub use engine::EnginePeer;
pub use throughput::InFlight;

/// How a peer is to be set up.
#[derive(Clone)]
pub struct Setup {
    /// Shards or worker threads; `None` for the peer's own default.
    pub shards: Option<usize>,
    /// The tick, where there is one to choose.
    pub tick: Duration,
    /// Told of everything that fires.
    pub book: Arc<Book>,
}

impl Setup {
    /// The peer's defaults.
    #[must_use]
    pub fn new(book: Arc<Book>) -> Self {
        Self { shards: None, tick: Duration::from_millis(1), book }
    }
}

/// A piece of a producer's work; false when there is no more.
pub type Producer = Box<dyn FnMut() -> bool + Send>;

/// A timer that many threads use, on the real clock.
pub trait CrossPeer: Sized + Send + Sync + 'static {
    /// One thread's access to it.
    type Session: Session;

    /// Dropping a handle cancels its timer, so handles have to be kept.
    const HANDLE_IS_TIMER: bool = false;

    /// Starts it.
    fn start(setup: Setup) -> Self;

    /// Access for thread number `thread`.
    fn session(&self, thread: usize) -> Self::Session;

    /// Runs producers side by side, on threads where the peer is at home, until all are done.
    fn run(&self, producers: Vec<Producer>) {
        std::thread::scope(|scope| {
            for mut producer in producers {
                scope.spawn(move || while producer() {});
            }
        });
    }
}

/// One thread's access.
pub trait Session: Send + 'static {
    /// What names one timer.
    type Handle: Send + 'static;

    /// Schedules a timer that will be cancelled.
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle;

    /// Cancels it.
    fn cancel(&mut self, handle: Self::Handle);

    /// Schedules a timer that will fire, into the book.
    fn launch(&mut self, delay: Duration, payload: u64);

    /// Waits until everything asked for is done, for peers that only take notes.
    fn wait_idle(&mut self) {}
}

/// Runs a figure of many threads.
#[must_use]
pub fn measure(figure: Figure, peer: Peer, scale: Scale) -> Metrics {
    let run = match peer {
        Peer::Timer => measure_peer::<EnginePeer>,
        Peer::TimerHandles => measure_peer::<engine::HandlesPeer>,
        Peer::TimerClosures => measure_peer::<engine::ClosuresPeer>,
        Peer::LockedWheel => measure_peer::<locked::LockedWheel>,
        Peer::LockedTree => measure_peer::<locked::LockedTree>,
        Peer::LockedTrees => measure_peer::<locked::LockedTrees>,
        Peer::LockedHeaps => measure_peer::<locked::LockedHeaps>,
        Peer::Tokio => measure_peer::<tokio_sleep::TokioPeer>,
        #[cfg(tokio_unstable)]
        Peer::TokioAlt => measure_peer::<tokio_sleep::TokioAltPeer>,
        Peer::Pingora => measure_peer::<pingora::PingoraPeer>,
        Peer::AsyncIo => measure_peer::<futures::AsyncIoPeer>,
        Peer::FuturesTimer => measure_peer::<futures::FuturesTimerPeer>,
        Peer::HashWheelTimer => measure_peer::<hash_wheel::HashWheelPeer>,
        other => unreachable!("{other:?} takes no part in figures of many threads"),
    };
    run(figure, scale)
}

fn measure_peer<P: CrossPeer>(figure: Figure, scale: Scale) -> Metrics {
    match figure {
        Figure::Cross { producers, in_flight } => {
            throughput::cross::<P>(producers, scale.timers(in_flight), scale)
        }
        Figure::RemoteCancel => throughput::remote_cancel::<P>(scale),
        Figure::Late { timers, tick_us } => {
            timed::late::<P>(scale.timers(timers), Duration::from_micros(tick_us), scale)
        }
        Figure::Burst => timed::burst::<P>(scale),
        Figure::Wake => timed::wake::<P>(scale),
        Figure::Idle => watched::idle::<P>(scale),
        Figure::Zombie => watched::zombie::<P>(scale),
        Figure::Shrink => watched::shrink::<P>(scale),
        other => unreachable!("{other:?} is a local figure"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is launched fires once and not early by much; what is cancelled does not fire.
    fn keeps_the_rules<P: CrossPeer>() {
        let book = Arc::new(Book::new(200));
        let peer = P::start(Setup::new(Arc::clone(&book)));
        let mut session = peer.session(0);
        for payload in 0..100 {
            let delay = Duration::from_millis(payload);
            book.due_in(payload, delay);
            session.launch(delay, payload);
            let handle = session.schedule(delay + Duration::from_millis(50), 100 + payload);
            session.cancel(handle);
        }
        session.wait_idle();
        assert!(book.wait_for(100, Duration::from_secs(20)), "what was launched has to fire");
        std::thread::sleep(Duration::from_millis(100));
        assert!(!book.wait_for(101, Duration::ZERO), "something cancelled has fired");
        // pingora rounds whole milliseconds down before it rounds them up.
        assert!(book.lateness().iter().all(|late| *late > -11_000_000));
    }

    #[test]
    fn every_peer_keeps_the_rules() {
        keeps_the_rules::<EnginePeer>();
        keeps_the_rules::<engine::HandlesPeer>();
        keeps_the_rules::<engine::ClosuresPeer>();
        keeps_the_rules::<locked::LockedWheel>();
        keeps_the_rules::<locked::LockedTree>();
        keeps_the_rules::<locked::LockedTrees>();
        keeps_the_rules::<locked::LockedHeaps>();
        keeps_the_rules::<tokio_sleep::TokioPeer>();
        keeps_the_rules::<pingora::PingoraPeer>();
        keeps_the_rules::<futures::AsyncIoPeer>();
        keeps_the_rules::<futures::FuturesTimerPeer>();
        keeps_the_rules::<hash_wheel::HashWheelPeer>();
        #[cfg(tokio_unstable)]
        keeps_the_rules::<tokio_sleep::TokioAltPeer>();
    }
}
