//! Submitters: what they can do, whatever thread-locals they are kept in, and while an engine stops.

use crate::support::setup::{HOUR, ms, one_shard, recording, wait_until};
use std::cell::RefCell;
use std::sync::OnceLock;
use tickwheel::{Reschedule, Routing, Submitter, Timer};

/// It reaches timers of every shard, and has one home.
#[test]
fn a_submitter_does_what_its_timer_does() {
    let (timer, fired) = recording(one_shard().shards(3).routing(Routing::Spread));
    let submitter = timer.submitter();
    for id in 0..30 {
        let key = timer.schedule(HOUR, id).unwrap();
        assert_eq!(submitter.reschedule(key, HOUR * 2), Reschedule::Moved);
        assert_eq!(submitter.cancel(key).into_payload(), Some(id));
    }
    let keys = [(ms(1), 30), (HOUR, 31), (HOUR, 32)]
        .map(|(delay, id)| submitter.schedule(delay, id).unwrap());
    let [fires, cancelled, moved] = keys;
    assert!(keys.iter().all(|key| key.shard() == fires.shard()));
    assert_eq!(timer.cancel(cancelled).into_payload(), Some(31));
    assert_eq!(submitter.reschedule(moved, ms(2)), Reschedule::Moved);
    wait_until("both have fired", || fired.len() == 2);
    assert!(!submitter.cancel(fires).is_won() && !timer.is_pending(moved));
    let at = timer.now() + HOUR;
    assert!(timer.is_pending(submitter.schedule(at, 33).unwrap()));
    assert_eq!(
        (submitter.timer().pending(), timer.stop().unwrap().len()),
        (1, 1)
    );
    let refused = submitter.schedule(HOUR, 34).unwrap_err();
    assert_eq!(*refused.payload(), 34, "the engine is stopped");
}

#[test]
fn submitters_of_many_threads_race_with_a_stop() {
    for _ in 0..50 {
        let (timer, _) = recording(one_shard());
        let accepted: usize = std::thread::scope(|scope| {
            let submitting: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let submitter = timer.submitter();
                        (0..5_000)
                            .take_while(|&id| submitter.schedule(HOUR, id).is_ok())
                            .count()
                    })
                })
                .collect();
            wait_until("some are pending", || timer.pending() > 100);
            let returned = timer.stop().unwrap().len();
            let accepted = submitting
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum();
            assert_eq!(returned, accepted, "each that was accepted is returned");
            accepted
        });
        assert!(accepted > 100);
        assert_eq!(timer.pending(), 0);
    }
}

/// A submitter in a thread-local lives on when the thread's number would have been given back.
#[test]
#[cfg_attr(
    windows,
    ignore = "no thread begins there while another one destroys its thread-locals"
)]
fn a_submitter_that_outlives_other_locals_keeps_its_slot() {
    struct Late(Submitter<'static, u64>);
    impl Drop for Late {
        fn drop(&mut self) {
            let timer = self.0.timer();
            // Others arrive while this thread goes, and must not get its place.
            std::thread::scope(|scope| {
                scope.spawn(|| (0..1000).for_each(|id| _ = timer.schedule(HOUR, id).unwrap()));
                (0..1000).for_each(|id| _ = self.0.schedule(HOUR, id).unwrap());
            });
        }
    }
    thread_local!(static LATE: RefCell<Option<Late>> = const { RefCell::new(None) });
    static TIMER: OnceLock<Timer<u64>> = OnceLock::new();
    let timer = TIMER.get_or_init(|| recording(one_shard()).0);
    for threads in 1..=20 {
        std::thread::spawn(|| LATE.with(|late| *late.borrow_mut() = Some(Late(timer.submitter()))))
            .join()
            .unwrap();
        assert_eq!(timer.pending(), threads * 2000);
    }
    assert_eq!(timer.stop().unwrap().len(), 40_000);
}
