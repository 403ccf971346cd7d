//! Peers of one thread, and what they are put through.

mod delay_queue;
mod floor;
mod heap;
mod nexus;
mod own;
mod peer;
mod tokio_sleep;
mod workload;

pub use delay_queue::DelayQueuePeer;
pub use floor::FloorPeer;
pub use heap::HeapPeer;
pub use nexus::NexusPeer;
pub use own::{EventLoopPeer, LocalTimerPeer};
pub use peer::LocalPeer;
pub use tokio_sleep::TokioSleepPeer;
pub use workload::{Churn, LONG, SHORT, life, measure, rearm};

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Every peer has to do the same work: those that do not fire, or fire what was cancelled, would win.
    fn keeps_the_rules<P: LocalPeer>() {
        let ms = Duration::from_millis;
        let mut peer = P::new(100);
        let mut handles: Vec<_> = (0..90).map(|n| Some(peer.schedule(ms(100 + n), n))).collect();
        for n in (0..90).step_by(3) {
            let handle = handles[n].take().unwrap();
            let payload = peer.cancel(handle);
            assert!(payload == n as u64 || payload == 0);
        }
        for n in (1..90).step_by(3) {
            let handle = handles[n].take().unwrap();
            handles[n] = Some(peer.rearm(handle, ms(1000)));
        }
        peer.schedule_forget(ms(5), 0);
        let mut fired = 0;
        for _ in 0..250 {
            fired += peer.advance(ms(1));
        }
        assert_eq!(fired, 31, "one forgotten, and the thirty that were left alone");
        for _ in 0..800 {
            fired += peer.advance(ms(1));
        }
        assert_eq!(fired, 61);
        // nexus-timer wants its handles back.
        handles.into_iter().flatten().for_each(std::mem::forget);
    }

    #[test]
    fn every_peer_keeps_the_rules() {
        keeps_the_rules::<LocalTimerPeer>();
        keeps_the_rules::<EventLoopPeer>();
        keeps_the_rules::<NexusPeer>();
        keeps_the_rules::<DelayQueuePeer>();
        keeps_the_rules::<TokioSleepPeer>();
        keeps_the_rules::<HeapPeer>();
    }
}
