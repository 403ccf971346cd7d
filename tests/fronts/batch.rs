//! `schedule_batch` of every front that other threads may use. That a batch does what single calls do, whatever is
//! refused, whenever the engine stops, the models hold.

use super::{Counting, MS, NOW, by_hand, event_loop, standing};
use crate::support::setup::{HOUR, recording, secs};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use tickwheel::{ScheduleErrorKind, Time, When};

#[test]
fn delays_count_from_when_the_iterator_has_ended() {
    let clock = standing();
    let (timer, _) = recording(by_hand(MS, clock.clone()));
    // The payload's making takes a second each time, and a timer is never early against it.
    let slow = (0..3).map(|id| {
        clock.advance(secs(1));
        (5 * MS, id)
    });
    for key in timer.schedule_batch(slow).unwrap() {
        assert_eq!(timer.deadline(key), Some(NOW + secs(3) + 5 * MS));
    }
}

#[test]
fn a_batch_reads_the_clock_once_if_at_all() {
    let clock = Counting::new();
    let (timer, _) = recording(by_hand(MS, clock.clone()));
    timer.start().unwrap();
    let owner = event_loop(MS, clock.clone());
    let remote = owner.remote();
    let (instant, ahead) = (Instant::now() + HOUR, NOW + HOUR);
    for (whens, reads) in [
        (
            vec![
                When::from(5 * MS),
                ahead.into(),
                (MS / 3).into(),
                (2 * MS).into(),
            ],
            1,
        ),
        (vec![instant.into(); 100], 1),
        (vec![Time::ZERO.into(), ahead.into()], 0),
        (vec![], 0),
    ] {
        let batch = || whens.iter().copied().zip(0..);
        clock.reads();
        let keys = timer.schedule_batch(batch()).unwrap();
        assert_eq!((clock.reads(), keys.len()), (reads, whens.len()));
        // The same moment is the same deadline.
        let deadlines: HashSet<_> = keys.iter().map(|key| timer.deadline(*key)).collect();
        assert_eq!(deadlines.len(), whens.iter().collect::<HashSet<_>>().len());
        let keys = remote.schedule_batch(batch()).unwrap();
        assert_eq!((clock.reads(), keys.len()), (reads, whens.len()));
    }
}

#[test]
fn an_empty_batch_is_never_refused() {
    let (timer, _) = recording(by_hand(MS, standing()));
    let submitter = timer.submitter();
    timer.stop().unwrap();
    let refused = submitter.schedule_batch([(MS, 1), (MS, 2)]).unwrap_err();
    assert_eq!(refused.kind(), &ScheduleErrorKind::Stopped);
    assert_eq!((refused.accepted().len(), timer.stats().rejected), (0, 2));
    assert_eq!(timer.schedule_batch([(MS, 0); 0]).unwrap(), []);
    assert_eq!(submitter.schedule_batch([(MS, 0); 0]).unwrap(), []);
    let owner = event_loop(MS, standing());
    let remote = owner.remote();
    assert_eq!(remote.schedule_batch([(HOUR, 1)]).unwrap().len(), 1);
    assert_eq!(owner.close().len(), 1);
    let refused = remote.schedule_batch([(HOUR, 2), (HOUR, 3)]).unwrap_err();
    assert_eq!(refused.kind(), &ScheduleErrorKind::Stopped);
    assert_eq!(refused.into_refused().len(), 2);
    assert_eq!(remote.schedule_batch([(HOUR, 4); 0]).unwrap(), []);
}

#[test]
fn the_callers_iterator_may_use_the_timer_and_may_panic() {
    let (timer, _) = recording(by_hand(MS, standing()));
    let nested = (0..3).map(|id| {
        timer.schedule_key(HOUR, 10 + id).unwrap();
        (HOUR, id)
    });
    assert_eq!(timer.schedule_batch(nested).unwrap().len(), 3);
    assert_eq!(timer.pending(), 6);
    let panicking = (0..3).map(|id| {
        if id == 2 {
            panic!("the caller's")
        } else {
            (HOUR, id)
        }
    });
    assert!(catch_unwind(AssertUnwindSafe(|| timer.schedule_batch(panicking))).is_err());
    assert_eq!(
        timer.pending(),
        6,
        "nothing is armed before the iterator has ended"
    );
}
