//! Peers that many threads use at once, and what they are put through.

mod engine;
mod futures;
#[cfg(feature = "kestrel")]
mod kestrel;
mod locked;
mod queued;
mod throughput;
mod timed;

use crate::book::Book;
use crate::figure::{Scale, Work};
use crate::measure::Metrics;
use crate::peer::Peer;
use crate::stream::Step;
use std::collections::VecDeque;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::{coop::unconstrained, yield_now};

pub use engine::{ClosuresPeer, EnginePeer, HandlesPeer};
pub use throughput::InFlight;

/// The settings of a peer.
#[derive(Clone, Copy)]
pub struct Setup {
    /// Shards or worker threads; `None` for the peer's own default.
    pub shards: Option<usize>,
    /// The tick, where there is one to choose.
    pub tick: Duration,
    /// Told of everything that fires.
    pub book: &'static Book,
}

impl Setup {
    /// Returns the peer's defaults. The book lives as long as the process.
    pub fn new(book: Book) -> Self {
        Self {
            shards: None,
            tick: Duration::from_millis(1),
            book: Box::leak(Box::new(book)),
        }
    }
}

/// A piece of a producer's work: each step cancels the oldest timer of the ring and schedules another one.
pub struct Pairs<'a, H> {
    /// The delays of the new timers.
    pub steps: &'a [Step],
    /// The timers in flight, the oldest first.
    pub ring: &'a mut VecDeque<H>,
    /// Takes the nanoseconds of each schedule, if they are measured.
    pub samples: Option<&'a mut Vec<i64>>,
}

impl<H> Pairs<'_, H> {
    /// Does the work.
    #[inline]
    pub fn run(self, mut schedule: impl FnMut(Duration, u64) -> H, mut cancel: impl FnMut(H)) {
        let Self {
            steps,
            ring,
            samples,
        } = self;
        let Some(samples) = samples else {
            for step in steps {
                cancel(ring.pop_front().expect("the ring is never empty"));
                ring.push_back(schedule(step.delay, u64::from(step.victim)));
            }
            return;
        };
        for step in steps {
            cancel(ring.pop_front().expect("the ring is never empty"));
            let start = Instant::now();
            let handle = schedule(step.delay, u64::from(step.victim));
            samples.push(start.elapsed().as_nanos() as i64);
            ring.push_back(handle);
        }
    }
}

/// One thread's access to a timer that many threads use, on the real clock.
pub trait CrossPeer: Clone + Send + Sync + 'static {
    /// The name of one timer.
    type Handle: Send + 'static;

    /// Starts the timer.
    fn start(setup: Setup) -> Self;

    /// Returns the access of thread number `thread`.
    fn session(&self, _thread: usize) -> Self {
        self.clone()
    }

    /// Schedules a timer that will be cancelled.
    fn schedule(&self, delay: Duration, payload: u64) -> Self::Handle;

    /// Cancels it.
    #[inline]
    fn cancel(&self, handle: Self::Handle) {
        drop(handle);
    }

    /// Schedules a timer that will fire, into the book.
    #[inline]
    fn launch(&self, delay: Duration, payload: u64) {
        self.schedule(delay, payload);
    }

    /// Does a piece of a producer's work.
    #[inline]
    fn pairs(&self, work: Pairs<'_, Self::Handle>) {
        work.run(
            |delay, payload| self.schedule(delay, payload),
            |handle| self.cancel(handle),
        );
    }

    /// Returns the runtime on whose workers producers are at home, unless any thread will do.
    fn runtime(&self) -> Option<&'static Runtime> {
        None
    }

    /// Runs producers side by side until `step` returns false for each. On a runtime they let go now and then so that
    /// timers are turned.
    fn run<T: Send + 'static>(
        &self,
        producers: Vec<T>,
        step: impl FnMut(&mut T) -> bool + Clone + Send + 'static,
    ) -> Vec<T> {
        let wanted = producers.len();
        let (out, done) = channel();
        std::thread::scope(|scope| {
            for mut producer in producers {
                let (mut step, out) = (step.clone(), out.clone());
                if let Some(runtime) = self.runtime() {
                    runtime.spawn(unconstrained(async move {
                        while step(&mut producer) {
                            yield_now().await;
                        }
                        out.send(producer)
                    }));
                } else {
                    scope.spawn(move || {
                        while step(&mut producer) {}
                        out.send(producer)
                    });
                }
            }
        });
        drop(out);
        let done: Vec<_> = done.into_iter().collect();
        assert_eq!(done.len(), wanted, "a producer does not panic");
        done
    }
}

/// Runs a figure of many threads.
pub fn measure(work: Work, peer: Peer, scale: Scale) -> Metrics {
    if let (
        Peer::Netty,
        Work::Cross {
            producers,
            in_flight,
        },
    ) = (peer, work)
    {
        return throughput::cross_netty(producers, scale.timers(in_flight), scale);
    }
    let run = match peer {
        Peer::Timer => measure_peer::<EnginePeer>,
        Peer::TimerHandles => measure_peer::<HandlesPeer>,
        Peer::TimerClosures => measure_peer::<ClosuresPeer>,
        Peer::TimerTimes => measure_peer::<engine::TimesPeer>,
        Peer::TimerSlack => measure_peer::<engine::SlackPeer>,
        Peer::TimerPriority => measure_peer::<engine::PriorityPeer>,
        Peer::TimerUnpinned => measure_peer::<engine::UnpinnedPeer>,
        Peer::Hashed => measure_peer::<queued::Queued>,
        Peer::LockedWheel => measure_peer::<locked::LockedWheel>,
        Peer::LockedTree => measure_peer::<locked::LockedTree>,
        Peer::LockedHeaps => measure_peer::<locked::LockedHeaps>,
        Peer::Tokio => measure_peer::<futures::TokioPeer<false>>,
        #[cfg(tokio_unstable)]
        Peer::TokioAlternative => measure_peer::<futures::TokioPeer<true>>,
        #[cfg(feature = "kestrel")]
        Peer::Kestrel => measure_peer::<kestrel::KestrelPeer>,
        Peer::Sleep => measure_peer::<futures::SleepPeer>,
        Peer::Pingora => measure_peer::<futures::PingoraPeer>,
        Peer::AsyncIo => measure_peer::<futures::AsyncIoPeer>,
        other => unreachable!("{other:?} takes no part in figures of many threads"),
    };
    run(work, scale)
}

/// Lets as many threads schedule and cancel as the timer has shards, or worker threads.
///
/// # Panics
///
/// If the peer is not one of those that scale is asked of.
pub fn cross_scaled(peer: Peer, threads: usize, scale: Scale) -> Metrics {
    let setup = Setup {
        shards: Some(threads),
        ..Setup::new(Book::new(0, 0))
    };
    let run = match peer {
        Peer::Timer => throughput::cross::<EnginePeer>,
        Peer::TimerHandles => throughput::cross::<HandlesPeer>,
        Peer::LockedHeaps => throughput::cross::<locked::LockedHeaps>,
        Peer::Tokio => throughput::cross::<futures::TokioPeer<false>>,
        other => panic!("scale is not asked of {other:?}"),
    };
    run(setup, threads, scale.timers(1024), scale)
}

fn measure_peer<P: CrossPeer>(work: Work, scale: Scale) -> Metrics {
    match work {
        Work::Cross {
            producers,
            in_flight,
        } => {
            let setup = Setup::new(Book::new(0, 0));
            throughput::cross::<P>(setup, producers, scale.timers(in_flight), scale)
        }
        Work::RemoteCancel => throughput::remote_cancel::<P>(scale),
        Work::Forms => throughput::forms(scale),
        Work::Late {
            timers,
            tick_us,
            busy,
        } => {
            let tick = Duration::from_micros(tick_us);
            timed::late::<P>(scale.timers(timers), tick, busy, scale)
        }
        Work::Burst => timed::burst::<P>(scale),
        Work::Wake { busy } => timed::wake::<P>(busy, scale),
        Work::Idle => timed::idle::<P>(scale),
        Work::Zombie => timed::zombie::<P>(scale),
        Work::Shrink => timed::shrink::<P>(scale),
        other => unreachable!("{other:?} is a local figure"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launched timers fire once and not early by much; cancelled ones do not fire.
    fn keeps_the_rules<P: CrossPeer>() {
        let setup = Setup::new(Book::new(0, 200));
        let (book, peer) = (setup.book, P::start(setup));
        for payload in 0..100 {
            let delay = Duration::from_millis(payload);
            book.due_in(payload, delay);
            peer.launch(delay, payload);
            peer.cancel(peer.schedule(delay + Duration::from_millis(50), 100 + payload));
        }
        assert!(
            book.wait_for(100, Duration::from_secs(20)),
            "what was launched has to fire"
        );
        std::thread::sleep(Duration::from_millis(100));
        assert!(
            !book.wait_for(101, Duration::ZERO),
            "something cancelled has fired"
        );
        // pingora rounds whole milliseconds down before it rounds them up.
        assert!(book.lateness().iter().all(|late| *late > -11_000_000));
    }

    #[test]
    fn every_peer_keeps_the_rules() {
        keeps_the_rules::<EnginePeer>();
        keeps_the_rules::<HandlesPeer>();
        keeps_the_rules::<ClosuresPeer>();
        keeps_the_rules::<engine::TimesPeer>();
        keeps_the_rules::<engine::SlackPeer>();
        keeps_the_rules::<engine::UnpinnedPeer>();
        if Peer::TimerPriority.is_built() {
            keeps_the_rules::<engine::PriorityPeer>();
        }
        keeps_the_rules::<locked::LockedWheel>();
        keeps_the_rules::<locked::LockedTree>();
        keeps_the_rules::<queued::Queued>();
        keeps_the_rules::<locked::LockedHeaps>();
        keeps_the_rules::<futures::TokioPeer<false>>();
        #[cfg(tokio_unstable)]
        keeps_the_rules::<futures::TokioPeer<true>>();
        #[cfg(feature = "kestrel")]
        keeps_the_rules::<kestrel::KestrelPeer>();
        keeps_the_rules::<futures::SleepPeer>();
        keeps_the_rules::<futures::PingoraPeer>();
        keeps_the_rules::<futures::AsyncIoPeer>();
    }
}
