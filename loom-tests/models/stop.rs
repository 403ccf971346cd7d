//! `stop` against everything else: each accepted timer ends once, each refused one comes back.

use super::harness::{
    Bound, JoinHandle, Ledger, Payload, bounded, bounded_when_quick, explore, fence_for_all, spawn,
};
use crate::shard::{Limit, Owner, Producer, ShardHandle};
use crate::state::State;
use crate::time::{Deadline, MissedTicks, Period, Recurrence, Repeat, TickRate, Time};
use crate::types::{Key, ScheduleErrorKind};
use crate::wheel::{AnyWheel, Hierarchical};
use std::sync::Arc;
use std::time::Duration;

/// Two threads: with the real epoch under loom a bound is needed.
const TWO_THREADS: Bound = if cfg!(all(tickwheel_loom, not(tickwheel_epoch_stand_in))) {
    bounded(3, 2)
} else {
    bounded_when_quick(3)
};

/// As [`TWO_THREADS`], for what takes longer.
const LONG: Bound = if cfg!(all(tickwheel_loom, not(tickwheel_epoch_stand_in))) {
    bounded(2, 1)
} else {
    bounded(3, 1)
};

struct Engine {
    owner: Owner<Payload>,
    ledger: Arc<Ledger>,
    limit: Arc<Limit>,
}

impl Engine {
    fn new() -> Self {
        let limit = Arc::new(Limit::new(10));
        let wheel = AnyWheel::Hierarchical(Hierarchical::new());
        let owner = Owner::new(0, wheel, Some(Arc::clone(&limit)), Box::new(|| true));
        Self { owner, ledger: Ledger::of_payloads(), limit }
    }

    fn handle(&self) -> (Arc<ShardHandle<Payload>>, Arc<Ledger>) {
        (Arc::clone(&self.owner.handle), Arc::clone(&self.ledger))
    }

    /// A thread with a handle of its own.
    fn spawn<R: Send + 'static>(
        &self,
        body: impl FnOnce(&ShardHandle<Payload>, &Arc<Ledger>) -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let (handle, ledger) = self.handle();
        spawn(move || body(&handle, &ledger))
    }

    /// Closes the shard: what it returned.
    fn close(&mut self) -> Vec<u64> {
        let mut returned = Vec::new();
        self.owner.close(|expiry| returned.push(expiry.payload.id()));
        returned
    }

    /// Everybody is joined and each timer has ended: nothing is pending, nothing was dropped twice.
    fn finish(mut self) {
        assert_eq!(self.close(), [], "returned only when asked for the second time");
        assert_eq!(self.owner.handle.pending(), 0, "still counted as pending");
        for _ in 0..self.limit.max {
            assert!(self.limit.acquire(), "a place is still taken");
        }
        let Self { owner, ledger, .. } = self;
        drop(owner);
        ledger.assert_all_dropped();
    }
}

/// Schedules one timer: its key, unless the engine refused it and gave the payload back.
fn schedule(
    producer: Producer<'_, Payload>,
    ledger: &Arc<Ledger>,
    id: u64,
    held: bool,
) -> Option<Key<Payload>> {
    match producer.schedule(10, ledger.payload(id), held) {
        Ok(key) => Some(key),
        Err(error) => {
            assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
            assert_eq!(error.into_payload().id(), id);
            None
        }
    }
}

/// Every accepted timer is returned, every refused one given back; never both.
#[test]
fn stop_or_schedule() {
    explore(TWO_THREADS, || close_or_schedule(false));
}

/// The same where the producer's fence is the owner's `membarrier`.
#[test]
fn light_stop_or_schedule() {
    explore(bounded(3, 2), || close_or_schedule(true));
}

fn close_or_schedule(is_light: bool) {
    fence_for_all(is_light);
    let mut engine = Engine::new();
    let producer = engine
        .spawn(move |handle, ledger| schedule(handle.producer(0), ledger, 1, false).is_some());
    let returned = engine.close();
    let (handle, _) = engine.handle();
    let sums = handle.sums();
    assert!(sums.returned <= sums.scheduled, "returned before it was counted: {sums:?}");
    let accepted = producer.join().unwrap();
    assert_eq!(returned, if accepted { vec![1] } else { vec![] });
    drop(handle);
    engine.finish();
}

/// With a `TimerHandle`, which holds the node of a timer that `stop` returned before the push was refused: the
/// producer's next timer must not get that node.
#[test]
fn stop_or_schedule_with_a_handle() {
    explore(bounded(3, 2), || {
        let mut engine = Engine::new();
        let producer = engine.spawn(move |handle, ledger| {
            let producer = handle.producer(0);
            let Some(key) = schedule(producer, ledger, 1, true) else {
                return vec![];
            };
            let next = schedule(producer, ledger, 2, false);
            assert!(handle.state(key).is_some(), "the handle keeps the node");
            producer.release(key.index());
            if next.is_some() { vec![1, 2] } else { vec![1] }
        });
        let mut returned = engine.close();
        let accepted = producer.join().unwrap();
        returned.sort_unstable();
        assert_eq!(returned, accepted);
        engine.finish();
    });
}

/// A batch is armed while the shard closes: each of its timers is returned or comes back, and none does both.
#[test]
fn stop_or_batch() {
    explore(bounded(4, 3), || {
        let mut engine = Engine::new();
        let producer = engine.spawn(move |handle, ledger| {
            let batch = vec![(10, ledger.payload(1)), (5, ledger.payload(2))];
            let rate = TickRate::new(2);
            let Err(partly) = handle.producer(0).schedule_batch(batch, &rate) else {
                return vec![1, 2];
            };
            let (cause, accepted, refused) = partly.into_parts();
            assert_eq!(cause, ScheduleErrorKind::Stopped);
            let refused: Vec<_> =
                refused.iter().map(|(time, payload)| (payload.id(), rate.current(*time))).collect();
            assert!(refused.iter().all(|it| [(1, 10), (2, 5)].contains(it)), "{refused:?}");
            assert_eq!(accepted.len() + refused.len(), 2, "one of them is lost");
            (1..=2).filter(|id| refused.iter().all(|it| it.0 != *id)).collect()
        });
        let mut returned = engine.close();
        returned.sort_unstable();
        assert_eq!(returned, producer.join().unwrap(), "what was accepted is returned");
        engine.finish();
    });
}

/// One winner; the payload comes back once.
#[test]
fn stop_or_cancel() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let (handle, ledger) = engine.handle();
        let key = schedule(handle.producer(0), &ledger, 1, false).unwrap();
        let canceller = spawn(move || handle.producer(1).cancel(key).is_some());
        let returned = engine.close().len();
        let cancelled = usize::from(canceller.join().unwrap());
        assert_eq!(returned + cancelled, 1, "exactly one of the two wins");
        engine.finish();
    });
}

/// A future changes its waker while the engine stops: whoever has the timer's payload in the end, its end is counted
/// once, and its place is free.
#[test]
fn stop_or_swap() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let (handle, ledger) = engine.handle();
        let key = schedule(handle.producer(0), &ledger, 1, true).unwrap();
        let other = ledger.payload(2);
        let future = spawn(move || {
            let producer = handle.producer(1);
            let swapped = producer.swap(key, other);
            let left = swapped.as_ref().is_err_and(|not| not.left.is_some());
            let returns = if swapped.is_ok() { vec![2] } else { vec![1] };
            producer.release(key.index());
            if left { vec![] } else { returns }
        });
        let returned = engine.close();
        assert_eq!(returned, future.join().unwrap());
        let (handle, _) = engine.handle();
        let sums = handle.sums();
        assert_eq!(sums.returned, returned.len() as u64);
        assert_eq!(sums.cancelled + sums.returned, 1, "{sums:?}");
        drop(handle);
        engine.finish();
    });
}

/// A timer that moves while the shard stops comes back once.
#[test]
fn stop_or_move() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let (handle, ledger) = engine.handle();
        let key = schedule(handle.producer(0), &ledger, 1, false).unwrap();
        let mover = spawn(move || handle.producer(1).reschedule(key, 5));
        assert_eq!(engine.close(), [1], "nobody else ends the timer");
        let _ = mover.join().unwrap();
        engine.finish();
    });
}

/// A periodic timer is scheduled while the engine stops: its first period is returned, refused or never called.
#[test]
fn stop_or_schedule_periodic() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let producer = engine.spawn(move |handle, ledger| {
            let every = Period::fixed_rate(Duration::from_nanos(10), MissedTicks::Skip);
            let first = Deadline { nominal: Time::from_nanos(10), tick: 5 };
            let course = Recurrence::new(first, every.unwrap(), TickRate::new(2));
            let repeat = Repeat { payload: ledger.payload(1), clone: Payload::clone, course };
            match handle.producer(0).schedule_periodic(repeat) {
                Ok(key) => Some(key),
                Err(error) => {
                    assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
                    assert_eq!(error.into_payload().id(), 1);
                    None
                }
            }
        });
        let returned = engine.close();
        let accepted = producer.join().unwrap();
        assert_eq!(returned, if accepted.is_some() { vec![1] } else { vec![] });
        let alive = |key| engine.owner.handle.state(key).is_some_and(State::is_live);
        assert!(!accepted.is_some_and(alive), "still alive");
        engine.finish();
    });
}

/// A last turn fires what is due, then the shard closes, while a producer goes on.
#[test]
fn turn_and_stop_or_schedule() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let producer = engine
            .spawn(move |handle, ledger| schedule(handle.producer(0), ledger, 1, false).is_some());
        let mut ended = Vec::new();
        let _ = engine.owner.turn(10, &crate::types::Budget::new(), |expiry| {
            ended.push(expiry.payload.id());
        });
        ended.extend(engine.close());
        let accepted = producer.join().unwrap();
        assert_eq!(ended, if accepted { vec![1] } else { vec![] }, "fired or returned, once");
        engine.finish();
    });
}

/// A worker dies in the middle of a turn, with a timer in its hands; its shard closes while a producer goes on.
#[test]
fn death_in_a_turn_or_schedule() {
    explore(LONG, || {
        let mut engine = Engine::new();
        let (handle, ledger) = engine.handle();
        schedule(handle.producer(0), &ledger, 2, false).unwrap();
        let producer = engine
            .spawn(move |handle, ledger| schedule(handle.producer(1), ledger, 1, false).is_some());
        let budget = crate::types::Budget::new();
        let mut piece = engine.owner.begin_turn(10, &budget, false).unwrap();
        let mut ended: Vec<u64> = Vec::new();
        ended.extend(engine.owner.next_fired(&mut piece).map(|fired| fired.payload.id()));
        // What unwinds drops the turn and never finishes it.
        drop(piece);
        ended.extend(engine.close());
        let accepted = producer.join().unwrap();
        ended.sort_unstable();
        assert_eq!(ended, if accepted { vec![1, 2] } else { vec![2] }, "each ended once");
        engine.finish();
    });
}

/// Two producers schedule while the engine stops: each timer is returned or refused, and the counts agree.
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
#[test]
fn stop_or_schedule_by_two() {
    explore(bounded(2, 1), || {
        let mut engine = Engine::new();
        let producers = [0, 1].map(|slot| {
            let (handle, ledger) = engine.handle();
            spawn(move || {
                schedule(handle.producer(slot), &ledger, u64::from(slot), false).is_some()
            })
        });
        let mut returned = engine.close();
        returned.sort_unstable();
        let accepted = producers.map(|producer| producer.join().unwrap());
        let expected: Vec<u64> = (0..2).filter(|&id| accepted[id as usize]).collect();
        assert_eq!(returned, expected, "what was accepted is returned, what was not is not");
        engine.finish();
    });
}
