//! Peers that many threads use at once, and what they are put through.

mod engine;
mod forms;
mod futures;
mod indexed_heap;
mod locked;
mod measure;
mod netty;
mod peer;
mod pingora;
mod sleep;
mod submitter;
mod throughput;
mod timed;
mod tokio_sleep;
mod watched;

pub use engine::{ClosuresPeer, EnginePeer, HandlesPeer};
pub use measure::measure;
pub use peer::{CrossPeer, Producer, Session, Setup};
pub use throughput::InFlight;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Book;
    use std::sync::Arc;
    use std::time::Duration;

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
        keeps_the_rules::<submitter::ByWay<submitter::Keeping>>();
        keeps_the_rules::<submitter::ByWay<submitter::KeepingTime>>();
        keeps_the_rules::<submitter::SlackPeer>();
        keeps_the_rules::<locked::LockedWheel>();
        keeps_the_rules::<locked::LockedTree>();
        keeps_the_rules::<locked::LockedHeaps>();
        keeps_the_rules::<tokio_sleep::TokioPeer>();
        keeps_the_rules::<sleep::SleepPeer>();
        keeps_the_rules::<pingora::PingoraPeer>();
        keeps_the_rules::<futures::AsyncIoPeer>();
    }
}
