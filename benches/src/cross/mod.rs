//! Peers that many threads use at once, and what they are put through.

mod engine;
mod futures;
mod locked;
mod netty;
mod peer;
mod throughput;
mod timed;
mod watched;

use crate::figure::{Scale, Work};
use crate::measure::Metrics;
use crate::peer::Peer;
use std::time::Duration;

pub use engine::{ClosuresPeer, EnginePeer, HandlesPeer};
pub use peer::{CrossPeer, Pairs, Setup};
pub use throughput::InFlight;

/// Runs a figure of many threads.
pub fn measure(work: Work, peer: Peer, scale: Scale) -> Metrics {
    if let (Peer::Netty, Work::Cross { producers, in_flight }) = (peer, work) {
        return netty::cross(producers, scale.timers(in_flight), scale);
    }
    let run = match peer {
        Peer::Timer => measure_peer::<EnginePeer>,
        Peer::TimerHandles => measure_peer::<HandlesPeer>,
        Peer::TimerClosures => measure_peer::<ClosuresPeer>,
        Peer::TimerSubmitter => measure_peer::<engine::SubmitterPeer<false>>,
        Peer::TimerTimes => measure_peer::<engine::SubmitterPeer<true>>,
        Peer::TimerSlack => measure_peer::<engine::SlackPeer>,
        Peer::LockedWheel => measure_peer::<locked::LockedWheel>,
        Peer::LockedTree => measure_peer::<locked::LockedTree>,
        Peer::LockedHeaps => measure_peer::<locked::LockedHeaps>,
        Peer::Tokio => measure_peer::<futures::TokioPeer>,
        Peer::Sleep => measure_peer::<futures::SleepPeer>,
        Peer::Pingora => measure_peer::<futures::PingoraPeer>,
        Peer::AsyncIo => measure_peer::<futures::AsyncIoPeer>,
        other => unreachable!("{other:?} takes no part in figures of many threads"),
    };
    run(work, scale)
}

fn measure_peer<P: CrossPeer>(work: Work, scale: Scale) -> Metrics {
    match work {
        Work::Cross { producers, in_flight } => {
            throughput::cross::<P>(producers, scale.timers(in_flight), scale)
        }
        Work::RemoteCancel => throughput::remote_cancel::<P>(scale),
        Work::Forms => throughput::forms(scale),
        Work::Late { timers, tick_us } => {
            timed::late::<P>(scale.timers(timers), Duration::from_micros(tick_us), scale)
        }
        Work::Burst => timed::burst::<P>(scale),
        Work::Wake => timed::wake::<P>(scale),
        Work::Idle => watched::idle::<P>(scale),
        Work::Zombie => watched::zombie::<P>(scale),
        Work::Shrink => watched::shrink::<P>(scale),
        other => unreachable!("{other:?} is a local figure"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Book;

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
        assert!(book.wait_for(100, Duration::from_secs(20)), "what was launched has to fire");
        std::thread::sleep(Duration::from_millis(100));
        assert!(!book.wait_for(101, Duration::ZERO), "something cancelled has fired");
        // pingora rounds whole milliseconds down before it rounds them up.
        assert!(book.lateness().iter().all(|late| *late > -11_000_000));
    }

    #[test]
    fn every_peer_keeps_the_rules() {
        keeps_the_rules::<EnginePeer>();
        keeps_the_rules::<HandlesPeer>();
        keeps_the_rules::<ClosuresPeer>();
        keeps_the_rules::<engine::SubmitterPeer<false>>();
        keeps_the_rules::<engine::SubmitterPeer<true>>();
        keeps_the_rules::<engine::SlackPeer>();
        keeps_the_rules::<locked::LockedWheel>();
        keeps_the_rules::<locked::LockedTree>();
        keeps_the_rules::<locked::LockedHeaps>();
        keeps_the_rules::<futures::TokioPeer>();
        keeps_the_rules::<futures::SleepPeer>();
        keeps_the_rules::<futures::PingoraPeer>();
        keeps_the_rules::<futures::AsyncIoPeer>();
    }
}
