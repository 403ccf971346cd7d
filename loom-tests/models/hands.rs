//! Who turns a shard, and who ends it: the engine's real functions, from `start` and `drive_shard` to `shutdown`, with
//! real workers, parkers, the locks of the berths and that of the engine. A call that waits for something that does not
//! come is a deadlock here.

use super::harness::{Bound, Probe, bounded, explore, explore_as, name_of, spawn};
use crate::sync::lock::{Condvar, Mutex};
use crate::{
    Builder, Cancel, Clock, Drive, Expired, Key, ManualClock, Period, Pinning, ScheduleErrorKind,
    Shutdown, Time, Timer, TurnError,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

/// A worker takes turns of some hundred steps.
const WORKER: Bound = bounded(2, 1);
/// A worker comes late, or never.
const TASK: Bound = bounded(2, 2);
/// There is none.
const BY_HAND: Bound = bounded(4, 2);

/// No part of the model: how often something has happened.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Explores an engine with one shard, whose clock stands; with the number of timers that have fired.
fn explore_engine<F>(bound: Bound, scenario: F)
where
    F: Fn(Timer<u64>, Arc<Count>) + Send + Sync + 'static,
{
    explore_shards(bound, 1, Drive::Workers, scenario);
}

fn explore_shards<F>(bound: Bound, shards: usize, drive: Drive, scenario: F)
where
    F: Fn(Timer<u64>, Arc<Count>) + Send + Sync + 'static,
{
    explore_as(name_of(&scenario), bound, move || {
        let fired = Arc::new(Count::default());
        let noted = Arc::clone(&fired);
        let timer = Builder::new()
            .shards(shards)
            .drive(drive)
            .pinning(Pinning::Off)
            .clock(ManualClock::starting_at(Time::ZERO))
            .build_with(move |_: Expired<u64>| noted.wake_by_ref())
            .unwrap();
        scenario(timer, fired);
    });
}

const SOON: Duration = Duration::from_secs(1);

/// Ends an engine with one pending timer by firing it.
fn fire_all(timer: &Timer<u64>, fired: &Count) {
    let left = timer.shutdown(Shutdown::FireAll, Duration::MAX).unwrap();
    assert_eq!((left.len(), fired.get()), (0, 1));
    assert!(timer.is_stopped());
}

/// A driver turns its shard while everything fires. The shutdown does not wait for another turn, which would never come,
/// and the driver is told, by an error or by a call of its waker.
#[test]
fn fire_all_or_turn() {
    explore_engine(WORKER, |timer, fired| {
        let mut shard = timer.drive_shard(0).unwrap();
        timer.schedule(SOON, 1).unwrap();
        let turning = spawn(move || {
            let bell = Arc::new(Count::default());
            let turned = shard.turn(&Waker::from(Arc::clone(&bell)));
            (turned, bell, shard)
        });
        fire_all(&timer, &fired);
        let (turned, bell, shard) = turning.join().unwrap();
        let is_told = turned == Err(TurnError::Stopped) || bell.get() > 0;
        assert!(is_told, "the driver waits for its waker: {turned:?}");
        drop(shard);
    });
}

/// The same where the shard's worker waits for the driver's end: it takes the shard when the turn is over.
#[test]
fn fire_all_or_turn_of_a_lent_shard() {
    explore_engine(WORKER, |timer, fired| {
        timer.start().unwrap();
        let mut shard = timer.drive_shard(0).unwrap();
        timer.schedule(SOON, 1).unwrap();
        let turning = spawn(move || shard.turn(Waker::noop()).is_ok());
        fire_all(&timer, &fired);
        let _ = turning.join().unwrap();
    });
}

/// A second driver comes while everything fires: it never gets the shard. The first one loses it, and the shutdown does
/// not wait for its turn, which never comes.
#[test]
fn fire_all_or_claim() {
    explore_engine(WORKER, |timer, fired| {
        timer.schedule(SOON, 1).unwrap();
        let first = timer.drive_shard(0).unwrap();
        let other = timer.clone();
        let claiming = spawn(move || other.drive_shard(0));
        fire_all(&timer, &fired);
        assert!(claiming.join().unwrap().is_err());
        drop(first);
    });
}

/// A driver goes while everything fires: its shard's worker takes it or the shutdown does, and one of them fires.
#[test]
fn fire_all_or_release() {
    explore_engine(WORKER, |timer, fired| {
        let shard = timer.drive_shard(0).unwrap();
        timer.schedule(SOON, 1).unwrap();
        let releasing = spawn(move || drop(shard));
        fire_all(&timer, &fired);
        releasing.join().unwrap();
    });
}

/// A driver turns its shard while the engine is stopped: the timer that is not due comes back, once.
#[test]
fn stop_or_turn() {
    explore_engine(TASK, |timer, fired| {
        let mut shard = timer.drive_shard(0).unwrap();
        timer.schedule(SOON, 1).unwrap();
        let turning = spawn(move || shard.turn(Waker::noop()).is_ok());
        assert_eq!(timer.stop().unwrap().len(), 1);
        assert!(timer.is_stopped());
        let _ = turning.join().unwrap();
        assert_eq!(fired.get(), 0);
    });
}

/// A driver goes, with or without a worker that waits for its shard: a worker turns it then.
#[test]
fn a_released_shard_is_turned_on() {
    explore_engine(WORKER, |timer, fired| {
        let shard = timer.drive_shard(0).unwrap();
        timer.schedule(Duration::ZERO, 1).unwrap();
        drop(shard);
        timer.wait_idle();
        assert_eq!(fired.get(), 1);
        let shard = timer.drive_shard(0).unwrap();
        timer.schedule(Duration::ZERO, 2).unwrap();
        drop(shard);
        timer.wait_idle();
        assert_eq!((fired.get(), timer.stop().unwrap().len()), (2, 0));
    });
}

/// A driver comes while the shard's worker turns: what is due fires once, on either thread, and the worker turns on when
/// the driver is gone.
#[test]
fn claim_or_turn_of_the_worker() {
    // Two turns of a worker, and two of a driver: with one preemption more there is no end to be seen.
    explore_engine(bounded(1, 1), |timer, fired| {
        timer.schedule(Duration::ZERO, 1).unwrap();
        let mut shard = timer.drive_shard(0).unwrap();
        shard.turn(Waker::noop()).unwrap();
        assert_eq!(
            fired.get(),
            1,
            "the worker's turn is over, or this one fires"
        );
        drop(shard);
        timer.schedule(Duration::ZERO, 2).unwrap();
        timer.wait_idle();
        assert_eq!((fired.get(), timer.stop().unwrap().len()), (2, 0));
    });
}

/// A driver goes while another one comes: the second one has the shard or is refused, and a worker turns on after both.
#[test]
fn release_or_claim() {
    explore_engine(WORKER, |timer, fired| {
        let first = timer.drive_shard(0).unwrap();
        timer.schedule(Duration::ZERO, 1).unwrap();
        let releasing = spawn(move || drop(first));
        match timer.drive_shard(0) {
            Ok(mut second) => _ = second.turn(Waker::noop()).unwrap(),
            Err(error) => assert_eq!(error, TurnError::Driven { shard: 0 }),
        }
        releasing.join().unwrap();
        timer.wait_idle();
        assert_eq!((fired.get(), timer.stop().unwrap().len()), (1, 0));
    });
}

/// A driver comes while the engine starts: it has the shard, and no worker turns it meanwhile.
#[test]
fn start_or_claim() {
    explore_engine(WORKER, |timer, fired| {
        let other = timer.clone();
        let starting = spawn(move || other.start().unwrap());
        let mut shard = timer.drive_shard(0).unwrap();
        timer.schedule(Duration::ZERO, 1).unwrap();
        shard.turn(Waker::noop()).unwrap();
        assert_eq!(fired.get(), 1, "the driver turns");
        starting.join().unwrap();
        assert_eq!(timer.stop().unwrap().len(), 0);
    });
}

/// A driver comes while the engine is stopped: it is refused or told, and the timer comes back.
#[test]
fn stop_or_claim() {
    // A worker that turns, a driver and a stop: with one preemption more there is no end to be seen.
    explore_engine(bounded(1, 0), |timer, fired| {
        timer.schedule(SOON, 1).unwrap();
        let other = timer.clone();
        let claiming = spawn(move || {
            let mut shard = other.drive_shard(0).ok()?;
            shard.turn(Waker::noop()).err()
        });
        assert_eq!(timer.stop().unwrap().len(), 1);
        let refused = claiming.join().unwrap();
        assert!(refused.is_none_or(|error| error == TurnError::Stopped));
        assert_eq!(fired.get(), 0);
    });
}

/// A driver goes while the engine drains: its shard's worker ends it, or the shutdown does.
#[test]
fn drain_or_release() {
    explore_engine(WORKER, |timer, fired| {
        let shard = timer.drive_shard(0).unwrap();
        timer.schedule(SOON, 1).unwrap();
        let releasing = spawn(move || drop(shard));
        let within = Duration::ZERO;
        let left = timer.shutdown(Shutdown::Drain { within }, Duration::MAX);
        assert_eq!((left.unwrap().len(), fired.get()), (1, 0));
        assert!(timer.is_stopped());
        releasing.join().unwrap();
    });
}

/// A wait for the timers that are due lasts until the shard has a worker again.
#[test]
fn release_or_wait_idle() {
    explore_engine(bounded(1, 1), |timer, fired| {
        let shard = timer.drive_shard(0).unwrap();
        timer.schedule(Duration::ZERO, 1).unwrap();
        let releasing = spawn(move || drop(shard));
        timer.wait_idle();
        assert_eq!(fired.get(), 1);
        releasing.join().unwrap();
        assert_eq!(timer.stop().unwrap().len(), 0);
    });
}

/// A clock that stands, and panics once it is broken.
#[derive(Clone, Default)]
struct Breakable(Arc<AtomicBool>);

impl Clock for Breakable {
    fn now(&self) -> Time {
        if self.0.load(Ordering::SeqCst) {
            std::panic::panic_any(());
        }
        Time::ZERO
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

/// Tells when it is dropped.
#[derive(Default)]
struct Gone(Arc<(Mutex<bool>, Condvar)>);

impl Gone {
    fn wait(&self) {
        let (is_gone, changed) = &*self.0;
        let mut is_gone = is_gone.lock().unwrap();
        while !*is_gone {
            is_gone = changed.wait(is_gone).unwrap();
        }
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// A driver's turn panics while the engine is stopped, and while the shard's worker waits for the driver. The shard ends
/// once, on either thread, its timer comes back, and the worker goes.
#[test]
fn stop_or_turn_that_panics() {
    explore(bounded(1, 1), || {
        let (clock, engine) = (Breakable::default(), Gone::default());
        let kept = Gone(Arc::clone(&engine.0));
        let timer = Builder::new()
            .shards(1)
            .pinning(Pinning::Off)
            .clock(clock.clone())
            .on_worker_start(move |_| _ = &kept)
            .build_with(|_: Expired<u64>| ())
            .unwrap();
        timer.schedule(SOON, 1).unwrap();
        let mut shard = timer.drive_shard(0).unwrap();
        clock.0.store(true, Ordering::SeqCst);
        let turning = spawn(move || shard.turn(Waker::noop()));
        let left = timer.stop().unwrap();
        let turned = turning.join().unwrap();
        let expected = [TurnError::Stopped, TurnError::Failed { shard: 0 }];
        assert!(turned.is_err_and(|error| expected.contains(&error)));
        assert_eq!((left.len(), timer.is_stopped()), (1, true));
        drop(timer);
        // The worker may be the last that keeps the engine.
        engine.wait();
    });
}

/// A driver goes while a timer is set: a worker fires it, without another call that would wake one.
#[test]
fn release_or_schedule() {
    explore(bounded(1, 1), || {
        let fired = Gone::default();
        let tells = Mutex::new(Some(Gone(Arc::clone(&fired.0))));
        let timer = Builder::new()
            .shards(1)
            .pinning(Pinning::Off)
            .clock(ManualClock::starting_at(Time::ZERO))
            .build_with(move |_: Expired<u64>| drop(tells.lock().unwrap().take()))
            .unwrap();
        let shard = timer.drive_shard(0).unwrap();
        timer.start().unwrap();
        let releasing = spawn(move || drop(shard));
        timer.schedule(Duration::ZERO, 1).unwrap();
        releasing.join().unwrap();
        fired.wait();
        assert_eq!(timer.stop().unwrap().len(), 0);
    });
}

/// A turn panics while another thread schedules: the timer is accepted, or its caller finds out why the shard has ended.
#[test]
fn schedule_or_turn_that_panics() {
    explore(BY_HAND, || {
        let clock = Breakable::default();
        let timer = Builder::new()
            .shards(1)
            .drive(Drive::Manual)
            .pinning(Pinning::Off)
            .clock(clock.clone())
            .build_with(|_: Expired<u64>| ())
            .unwrap();
        let later = Time::ZERO + SOON;
        timer.schedule(later, 1).unwrap();
        clock.0.store(true, Ordering::SeqCst);
        let other = timer.clone();
        let turning = spawn(move || other.turn());
        let scheduled = timer.schedule(later, 2).map_err(|error| error.into_kind());
        let failed =
            |kind: &ScheduleErrorKind| matches!(kind, ScheduleErrorKind::WorkerFailed { .. });
        assert!(
            scheduled.is_ok() || scheduled.as_ref().is_err_and(failed),
            "{scheduled:?}"
        );
        assert_eq!(turning.join().unwrap(), Err(TurnError::Failed { shard: 0 }));
        assert_eq!(
            timer.stop().unwrap().len(),
            1 + usize::from(scheduled.is_ok())
        );
    });
}

/// A driver's turn panics: nothing is waited for any more. A caller who finds the shard ended is refused, or its timer is
/// found by the thread that ends the shard, and comes back.
#[test]
fn wait_idle_or_turn_that_panics() {
    explore(bounded(1, 1), || {
        let clock = Breakable::default();
        let timer = Builder::new()
            .shards(1)
            .pinning(Pinning::Off)
            .clock(clock.clone())
            .build_with(|_: Expired<u64>| ())
            .unwrap();
        let mut shard = timer.drive_shard(0).unwrap();
        let later = Time::ZERO + SOON;
        timer.schedule(later, 1).unwrap();
        clock.0.store(true, Ordering::SeqCst);
        let turning = spawn(move || shard.turn(Waker::noop()));
        timer.wait_idle();
        let scheduled = timer.schedule(later, 2).map_err(|error| error.into_kind());
        let failed =
            |kind: &ScheduleErrorKind| matches!(kind, ScheduleErrorKind::WorkerFailed { .. });
        assert!(
            scheduled.is_ok() || scheduled.as_ref().is_err_and(failed),
            "{scheduled:?}"
        );
        assert_eq!(turning.join().unwrap(), Err(TurnError::Failed { shard: 0 }));
        assert_eq!(
            timer.stop().unwrap().len(),
            1 + usize::from(scheduled.is_ok())
        );
    });
}

/// The last `Timer` goes while a driver turns its shard: the driver is told, and the timer does not fire.
#[test]
fn last_timer_or_turn() {
    explore_engine(TASK, |timer, fired| {
        let mut shard = timer.drive_shard(0).unwrap();
        timer.schedule(SOON, 1).unwrap();
        let turning = spawn(move || {
            let bell = Arc::new(Count::default());
            let turned = shard.turn(&Waker::from(Arc::clone(&bell)));
            (turned, bell, shard)
        });
        drop(timer);
        let (turned, bell, mut shard) = turning.join().unwrap();
        let is_told = turned == Err(TurnError::Stopped) || bell.get() > 0;
        assert!(is_told, "the driver waits for its waker: {turned:?}");
        assert_eq!(shard.turn(Waker::noop()), Err(TurnError::Stopped));
        assert_eq!(fired.get(), 0);
    });
}

/// Two threads turn an engine by hand: one may pass over what the other turns, and what is due fires once.
#[test]
fn turn_or_turn_by_hand() {
    explore_shards(BY_HAND, 1, Drive::Manual, |timer, fired| {
        timer.schedule(Duration::ZERO, 1).unwrap();
        let other = timer.clone();
        let turning = spawn(move || other.turn().unwrap());
        let here = timer.turn().unwrap();
        assert_eq!((here + turning.join().unwrap(), fired.get()), (1, 1));
        assert_eq!(timer.stop().unwrap().len(), 0);
    });
}

/// An engine that is turned by hand is stopped meanwhile: its timer fires or comes back, and the stop ends.
#[test]
fn stop_or_turn_by_hand() {
    explore_shards(BY_HAND, 1, Drive::Manual, |timer, fired| {
        timer.schedule(Duration::ZERO, 1).unwrap();
        let other = timer.clone();
        let turning = spawn(move || other.turn());
        let left = timer.stop().unwrap().len();
        let _ = turning.join().unwrap();
        assert_eq!((left + fired.get(), timer.is_stopped()), (1, true));
    });
}

/// An engine that is turned by hand is to fire everything meanwhile: its timer, which is not due, fires once, on either
/// thread.
#[test]
fn fire_all_or_turn_by_hand() {
    explore_shards(BY_HAND, 1, Drive::Manual, |timer, fired| {
        timer.schedule(SOON, 1).unwrap();
        let other = timer.clone();
        let turning = spawn(move || other.turn());
        fire_all(&timer, &fired);
        let _ = turning.join().unwrap();
    });
}

/// Whoever comes second finds the engine started or stopped; it is stopped in the end, and no worker is left.
#[test]
fn stop_or_start() {
    explore_engine(WORKER, |timer, _| {
        let other = timer.clone();
        let starting = spawn(move || other.start());
        assert_eq!(timer.stop().unwrap().len(), 0);
        let _ = starting.join().unwrap();
        assert!(timer.is_stopped());
    });
}

/// A wait for the timers that are due ends, also because the engine does.
#[test]
fn stop_or_wait_idle() {
    explore_engine(bounded(1, 1), |timer, _| {
        timer.start().unwrap();
        let other = timer.clone();
        let waiting = spawn(move || other.wait_idle());
        assert_eq!(timer.stop().unwrap().len(), 0);
        waiting.join().unwrap();
    });
}

/// Each shard's worker takes its turn; the shutdown waits for both.
#[test]
fn fire_all_on_two_shards() {
    explore_shards(bounded(0, 0), 2, Drive::Workers, |timer, fired| {
        timer.start().unwrap();
        timer.schedule(SOON, 1).unwrap();
        fire_all(&timer, &fired);
    });
}

/// Cancels a timer while its shard is turned by hand, and frees what the handler uses where the shard is not turning.
fn race_for_what_the_handler_uses(schedule: fn(&Timer<u64>) -> Key<u64>) {
    let used = Arc::new(Probe::new());
    let freed = Arc::clone(&used);
    let timer = Builder::new()
        .shards(1)
        .drive(Drive::Manual)
        .clock(ManualClock::starting_at(Time::ZERO))
        .build_with(move |_: Expired<u64>| assert_eq!(used.get(), 0, "freed too early"))
        .unwrap();
    let key = schedule(&timer);
    let other = timer.clone();
    let canceller = spawn(move || {
        other.cancel(key);
        assert!(!other.is_pending(key));
        if !other.is_turning(0) {
            freed.set(2);
        }
    });
    timer.turn().unwrap();
    canceller.join().unwrap();
    assert!(!timer.is_turning(0));
    timer.stop().unwrap();
}

/// What a handler uses is freed by a thread that finds its timer ended and its shard not turning.
#[test]
fn free_or_turn() {
    explore(BY_HAND, || {
        race_for_what_the_handler_uses(|timer| timer.schedule(Duration::ZERO, 1).unwrap());
    });
}

/// The same for a periodic timer, whose cancel may win while its handler runs.
#[test]
fn free_or_call() {
    explore(BY_HAND, || {
        race_for_what_the_handler_uses(|timer| {
            let every = Period::fixed_delay(SOON);
            timer.schedule_periodic(Duration::ZERO, every, 1).unwrap()
        });
    });
}

/// A periodic timer is cancelled around a call that is made by hand, while the engine drains: one thread has the payload.
/// A cancel that meets the claim has its last call, drain or not.
#[test]
fn cancel_or_call_or_drain() {
    explore_shards(bounded(2, 1), 1, Drive::Manual, |timer, fired| {
        let every = Period::fixed_delay(SOON);
        let key = timer.schedule_periodic(Duration::ZERO, every, 1).unwrap();
        let others = [timer.clone(), timer.clone()];
        let [turns, cancels] = others;
        let turning = spawn(move || turns.turn());
        let cancelling = spawn(move || cancels.cancel(key));
        let within = Duration::MAX;
        let left = timer.shutdown(Shutdown::Drain { within }, Duration::MAX);
        let left = left.unwrap().len();
        let _ = turning.join().unwrap();
        match cancelling.join().unwrap() {
            Cancel::Won(1) => assert_eq!(left, 0),
            Cancel::AfterCall => assert_eq!((left, fired.get()), (0, 1), "no last call"),
            it => assert_eq!((left, it), (1, Cancel::Gone)),
        }
    });
}
