//! Wakers of one turn, one of which panics; engines whose handlers run inside of each other's.

use super::*;
use crate::sync::slot;
use crate::time::{Recurrence, Repeat};
use crate::{Builder, Drive, Period, Pinning, Shutdown, StopError, Time, Timer, TimerTask};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Counts how often it is woken, and panics each time.
struct Panicking(AtomicUsize);

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("a waker");
    }
}

/// Returns a shard with `count` wakers that have fired, and what they wake.
fn with_wakers(timer: &Timer, count: usize) -> (ShardWorker<TimerTask>, Arc<Panicking>) {
    let inner: &Inner<TimerTask> = &timer.inner;
    let mut shard = inner.berths[0].lock().take().unwrap();
    let wakers = Arc::new(Panicking(AtomicUsize::new(0)));
    for _ in 0..count {
        let payload = TimerTask::waking(Waker::from(Arc::clone(&wakers)));
        // A key of any timer: the handler does not use it.
        let key = timer
            .schedule(Duration::ZERO, TimerTask::new(|| ()))
            .unwrap();
        let (deadline, lateness) = (Time::ZERO, Duration::ZERO);
        let expired = Expired::new(payload, key, deadline, lateness, true);
        shard.handle_in_turn(inner, expired, Time::ZERO);
    }
    (shard, wakers)
}

/// A full wake batch is called before the next waker, and the rest when the shard ends in its turn.
#[test]
fn a_wake_batch_is_called_when_it_is_full_or_its_shard_ends() {
    for (count, waiting) in [(3, 3), (WAKE_BATCH + 1, 1)] {
        let timer: Timer = Builder::new()
            .shards(1)
            .drive(Drive::Manual)
            .build()
            .unwrap();
        let (shard, wakers) = with_wakers(&timer, count);
        let woken = || wakers.0.load(Ordering::Relaxed);
        assert_eq!(
            (shard.wake_batch.len(), woken()),
            (waiting, count - waiting)
        );
        assert_eq!(
            shard.into_unfired(&timer.inner).len(),
            count,
            "those that have not fired"
        );
        assert_eq!(woken(), count);
    }
}

/// Its thread stops where it has counted the timer and not armed it yet, and again before it tells the owner.
#[test]
fn a_periodic_timer_that_is_armed_beside_a_drain_does_not_keep_it_open() {
    const HOUR: Duration = Duration::from_secs(3600);
    let mode = Shutdown::Drain {
        within: Duration::MAX,
    };
    let builder = Builder::new().shards(1).pinning(Pinning::Off);
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    timer.start().unwrap();
    let inner: &Inner<u64> = &timer.inner;
    let first = inner.source.deadline(&inner.rate, HOUR.into());
    let repeat = Repeat {
        payload: 7,
        clone: u64::clone,
        recurrence: Recurrence::new(first, Period::fixed_delay(HOUR), inner.rate),
    };
    slot::with(|slot| {
        let producer = inner.handles[0].producer(slot);
        let counted = || {
            producer.thread.scheduled.add(1);
            let drained = timer.shutdown(mode, Duration::from_millis(100));
            assert_eq!(drained, Err(StopError::TimedOut { shards: 1 }));
        };
        let (table, cache) = (&producer.shard.table, &producer.thread.cache);
        assert!(table.arm_periodic(cache, repeat, counted).is_ok());
    });
    let rest = timer.shutdown(mode, Duration::from_secs(20)).unwrap();
    assert_eq!(rest.len(), 1);
}
