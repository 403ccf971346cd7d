//! One shard end to end: producers, node table, inbox, wheel, turn and sleep together, all of them tiny.

use super::harness::{
    Bell, Bound, JoinHandle, Ledger, Payload, bounded, bounded_when_quick, explore, spawn,
    spawn_with,
};
use crate::shard::{Owner, ShardHandle};
use crate::time::{Deadline, Period, Recurrence, Repeat, TickRate, Time};
use crate::types::Budget;
use crate::wheel::{AnyWheel, Hierarchical};
use std::sync::Arc;
use std::time::Duration;

/// Two threads: with the real epoch under loom a bound is needed.
const TWO_THREADS: Bound = if cfg!(all(tickwheel_loom, not(tickwheel_epoch_stand_in))) {
    bounded(3, 2)
} else {
    bounded_when_quick(3)
};

/// Where the owner sleeps to when nothing is due.
const NEVER: u64 = u64::MAX;

struct Engine {
    owner: Owner<Payload>,
    ledger: Arc<Ledger>,
    bell: Bell,
    /// What fired: payload and tick.
    fired: Vec<(u64, u64)>,
}

impl Engine {
    fn new() -> Self {
        let bell = Bell::default();
        let wheel = AnyWheel::Hierarchical(Hierarchical::new());
        let rung = bell.clone();
        let wake = move || {
            rung.ring();
            true
        };
        let owner = Owner::new(0, wheel, None, Box::new(wake));
        Self { owner, ledger: Ledger::of_payloads(), bell, fired: Vec::new() }
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

    /// A producer that schedules the payload 1 for tick 5.
    fn producer(&self) -> JoinHandle<()> {
        let (handle, ledger) = self.handle();
        spawn(move || {
            handle.producer(0).schedule(5, ledger.payload(1), false).map(drop).unwrap();
        })
    }

    /// One turn; the tick until which the owner may sleep, 0 if it must go on at once.
    fn turn(&mut self, now: u64) -> u64 {
        let Self { owner, fired, .. } = self;
        let turn = owner.turn(now, &Budget::new(), |expiry| {
            assert!(expiry.deadline <= now, "fired early: {} at {now}", expiry.deadline);
            fired.push((expiry.payload.id(), now));
        });
        if turn.more { 0 } else { turn.next }
    }

    /// Everybody is joined: turns through all that is left, as a worker would.
    fn run_out(&mut self, mut now: u64) {
        for _ in 0..10 {
            let next = self.turn(now);
            if next == NEVER {
                return;
            }
            now = now.max(next);
        }
        panic!("the owner does not come to rest");
    }

    /// The ids that fired, in order of their ids; nothing may be left.
    fn finish(self) -> Vec<u64> {
        let Self { owner, ledger, fired, .. } = self;
        assert_eq!(owner.handle.pending(), 0, "still counted as pending");
        let mut ids: Vec<u64> = fired.iter().map(|&(id, _)| id).collect();
        ids.sort_unstable();
        drop(owner);
        ledger.assert_all_dropped();
        ids
    }
}

/// A timer that is called first after so many nanoseconds, two of which make a tick, and every five ticks then.
fn repeat(ledger: &Arc<Ledger>, id: u64, first: u64) -> Repeat<Payload> {
    let every = Period::fixed_delay(Duration::from_nanos(10)).unwrap();
    let first = Deadline { nominal: Time::from_nanos(first), tick: first / 2 };
    let course = Recurrence::new(first, every, TickRate::new(2));
    Repeat { payload: ledger.payload(id), clone: Payload::clone, course }
}

/// One shard end to end, capacity 2: the timer fires, whoever is faster.
#[test]
fn schedule_and_sleep() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let producer = engine.producer();
        let next = engine.turn(5);
        let asleep = engine.fired.is_empty() && engine.owner.begin_sleep(next);
        producer.join().unwrap();
        if asleep {
            assert!(next <= 5 || engine.bell.rings() == 1, "slept through the timer");
            engine.owner.end_sleep();
        }
        engine.run_out(5);
        assert_eq!(engine.finish(), [1]);
    });
}

/// A batch whose earliest timer is not its last, while the owner drains and falls asleep until a later one of its own.
#[test]
fn batch_and_sleep() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let own = engine.ledger.payload(3);
        assert!(engine.owner.schedule(7, own).is_ok());
        let producer = engine.spawn(move |handle, ledger| {
            let batch = vec![(5, ledger.payload(1)), (9, ledger.payload(2))];
            assert!(handle.producer(0).schedule_batch(batch, &TickRate::new(2)).is_ok());
        });
        let next = engine.turn(5);
        let asleep = engine.fired.is_empty() && engine.owner.begin_sleep(next);
        producer.join().unwrap();
        if asleep {
            assert!(next <= 5 || engine.bell.rings() == 1, "slept through the timer");
            engine.owner.end_sleep();
        }
        engine.run_out(5);
        assert_eq!(engine.finish(), [1, 2, 3]);
    });
}

/// The producer cancels its own timer while the owner files or fires it.
#[test]
fn schedule_then_cancel_or_fire() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let producer = engine.spawn(move |handle, ledger| {
            let producer = handle.producer(0);
            let key = producer.schedule(5, ledger.payload(1), false).unwrap();
            producer.cancel(key).is_some()
        });
        let _ = engine.turn(5);
        let cancelled = producer.join().unwrap();
        engine.run_out(5);
        assert_eq!(engine.finish(), if cancelled { vec![] } else { vec![1] });
    });
}

/// Somebody asks for the deadline of a timer whose node is taken by the next one meanwhile.
#[test]
fn ask_or_recycle() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let (handle, ledger) = engine.handle();
        let key = handle.producer(0).schedule(5, ledger.payload(1), false).unwrap();
        let next = engine.spawn(move |handle, ledger| {
            let producer = handle.producer(0);
            assert!(producer.cancel(key).is_some());
            let next = producer.schedule(9, ledger.payload(2), false).unwrap();
            assert_eq!(next.index(), key.index(), "the same node");
            assert_eq!(handle.deadline_of(next), Some(9));
        });
        let told = handle.deadline_of(key);
        assert!(told.is_none_or(|deadline| deadline == 5), "{told:?} is another timer's");
        next.join().unwrap();
        assert_eq!(handle.deadline_of(key), None);
        drop((handle, ledger));
        engine.run_out(9);
        assert_eq!(engine.finish(), [2]);
    });
}

/// The same, the next one being periodic: its first deadline is stored in another way.
#[test]
fn ask_or_recycle_for_a_periodic_timer() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let (handle, ledger) = engine.handle();
        let key = handle.producer(0).schedule(5, ledger.payload(1), false).unwrap();
        let next = engine.spawn(move |handle, ledger| {
            assert!(handle.producer(0).cancel(key).is_some());
            let next = handle.producer(0).schedule_periodic(repeat(ledger, 2, 18)).unwrap();
            assert_eq!(next.index(), key.index(), "the same node");
            assert_eq!(handle.deadline_of(next), Some(9));
            next
        });
        let told = handle.deadline_of(key);
        assert!(told.is_none_or(|deadline| deadline == 5), "{told:?} is another timer's");
        let next = next.join().unwrap();
        assert!(handle.producer(0).cancel(next).is_some());
        drop((handle, ledger));
        engine.run_out(9);
        assert_eq!(engine.finish(), []);
    });
}

/// Two deadlines of one timer, the earlier one set while the owner turns.
#[test]
fn moved_earlier_or_turn() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let (handle, ledger) = engine.handle();
        let key = handle.producer(0).schedule(9, ledger.payload(1), false).unwrap();
        let mover = spawn(move || handle.producer(0).reschedule(key, 5));
        let next = engine.turn(4);
        let asleep = engine.owner.begin_sleep(next);
        assert!(mover.join().unwrap(), "the timer is pending all the while");
        if asleep {
            assert!(next <= 5 || engine.bell.rings() == 1, "slept through the new deadline");
            engine.owner.end_sleep();
        }
        engine.run_out(4);
        assert_eq!(engine.fired, [(1, 5)], "at the new deadline, once");
        engine.finish();
    });
}

/// A reader of the counters never sees a timer's end without its beginning.
#[test]
fn ends_are_not_counted_before_beginnings() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let (handle, ledger) = engine.handle();
        let looking = spawn_with(&handle, move |handle| {
            let sums = handle.sums();
            let (ended, begun) = (sums.fired + sums.cancelled, sums.scheduled);
            assert!(ended <= begun, "{ended} ends of {begun} timers");
        });
        let producer = handle.producer(0);
        let first = producer.schedule(5, ledger.payload(1), false).unwrap();
        assert!(producer.cancel(first).is_some());
        producer.schedule(5, ledger.payload(2), false).map(drop).unwrap();
        engine.run_out(5);
        looking.join().unwrap();
        drop(handle);
        assert_eq!(engine.finish(), [2]);
    });
}

/// A periodic timer counts as pending from its beginning to its end, also while it is called.
#[test]
fn a_periodic_timer_is_always_pending() {
    explore(TWO_THREADS, || {
        let mut engine = Engine::new();
        let (handle, ledger) = engine.handle();
        let key = handle.producer(0).schedule_periodic(repeat(&ledger, 1, 10)).unwrap();
        let looking = spawn_with(&handle, move |handle| {
            assert!(handle.pending() >= 1, "begun, and not ended")
        });
        let _ = engine.turn(5);
        looking.join().unwrap();
        assert_eq!(engine.fired, [(1, 5)]);
        assert!(handle.producer(0).cancel(key).is_some());
        engine.run_out(5);
        drop(handle);
        assert_eq!(engine.finish(), [1]);
    });
}

/// The same for a third thread, which neither pushes nor turns.
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
#[test]
fn a_third_thread_sees_no_end_without_its_beginning() {
    explore(bounded(2, 2), || {
        let mut engine = Engine::new();
        let scheduling = engine.producer();
        let looking = engine.spawn(move |handle, _| {
            let sums = handle.sums();
            let (ended, begun) = (sums.fired, sums.scheduled);
            assert!(ended <= begun, "{ended} ends of {begun} timers");
        });
        engine.turn(5);
        scheduling.join().unwrap();
        looking.join().unwrap();
        engine.run_out(5);
        assert_eq!(engine.finish(), [1]);
    });
}

/// The same for a timer that another thread cancels, with the thread state that it inherited: no push and no fence lies
/// between its count and the one it must bring along.
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
#[test]
fn a_thread_state_is_inherited_with_its_counts() {
    explore(bounded(2, 2), || {
        let mut engine = Engine::new();
        let looking = engine.spawn(move |handle, _| {
            let sums = handle.sums();
            let (ended, begun) = (sums.cancelled, sums.scheduled);
            assert!(ended <= begun, "{ended} ends of {begun} timers");
        });
        let (handle, ledger) = engine.handle();
        let key = handle.producer(0).schedule(5, ledger.payload(1), false).unwrap();
        let cancelling = spawn(move || handle.producer(0).cancel(key).is_some());
        assert!(cancelling.join().unwrap(), "nobody else is after it");
        looking.join().unwrap();
        engine.run_out(5);
        assert_eq!(engine.finish(), []);
    });
}

/// One shard end to end with two producers, one of which cancels: each timer fires or is cancelled, once.
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
#[test]
fn two_producers_and_the_owner() {
    explore(bounded(2, 1), || {
        let mut engine = Engine::new();
        let scheduling = engine.producer();
        let cancelling = engine.spawn(move |handle, ledger| {
            let producer = handle.producer(1);
            let key = producer.schedule(6, ledger.payload(2), false).unwrap();
            producer.cancel(key).is_some()
        });
        let next = engine.turn(5);
        let asleep = engine.owner.begin_sleep(next);
        scheduling.join().unwrap();
        let cancelled = cancelling.join().unwrap();
        if asleep && engine.fired.is_empty() {
            assert!(next <= 5 || engine.bell.rings() > 0, "slept through the timer");
        }
        engine.owner.end_sleep();
        engine.run_out(5);
        assert_eq!(engine.finish(), if cancelled { vec![1] } else { vec![1, 2] });
    });
}
