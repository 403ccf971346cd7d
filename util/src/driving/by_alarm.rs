//! [`TurnedByAlarm`]: the task of a runtime's own engine.

use super::alarmed::{Alarm, Alarmed};
use super::quietly;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tickwheel::{Timer, TimerTask, TurnError};

/// The task that has a shard turned until its engine is stopped; then it is ready, and says why.
///
/// The alarm turns the shard, on the thread that waits for the runtime's events: so the tasks that the turn wakes are all
/// ready before that thread goes on, as after the runtime's own timers. The task itself turns the shard at first, and when
/// a turn is to be followed by another one at once.
///
/// So the engine must have no timers but those of futures, which call wakers. A handler cannot do there what a task may.
pub(crate) struct TurnedByAlarm<A: Alarm>(Arc<Turner<A>>);

/// What the alarm wakes.
struct Turner<A: Alarm>(Mutex<Turns<A>>);

struct Turns<A> {
    /// Wakes the task.
    task: Waker,
    stage: TurnsStage<A>,
}

enum TurnsStage<A> {
    Idle(Alarmed<TimerTask, A>),
    /// A thread turns the shard.
    Turned {
        /// Another turn must follow, because of a call meanwhile.
        again: bool,
    },
    /// The shard is gone.
    Ended(TurnError),
}

impl<A: Alarm> TurnedByAlarm<A> {
    /// Takes the shard of an engine that has only one.
    pub(crate) fn new(timer: &Timer, alarm: A) -> Result<Self, TurnError> {
        let turns = Turns {
            task: Waker::noop().clone(),
            stage: TurnsStage::Idle(Alarmed::take(timer, 0, alarm)?),
        };
        Ok(Self(Arc::new(Turner(Mutex::new(turns)))))
    }
}

impl<A: Alarm> Turner<A> {
    fn lock(&self) -> MutexGuard<'_, Turns<A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what a turn wakes.
    fn set_task(&self, waker: &Waker) {
        let mut turns = self.lock();
        if !turns.task.will_wake(waker) {
            let before = std::mem::replace(&mut turns.task, waker.clone());
            drop(turns);
            drop(before);
        }
    }

    /// Turns the shard and sets the alarm. No lock is held while the turn wakes tasks.
    fn turn(self: &Arc<Self>) {
        let mut turns = self.lock();
        let mut shard =
            match std::mem::replace(&mut turns.stage, TurnsStage::Turned { again: false }) {
                TurnsStage::Idle(shard) => shard,
                TurnsStage::Turned { .. } => {
                    turns.stage = TurnsStage::Turned { again: true };
                    return;
                }
                ended @ TurnsStage::Ended(_) => {
                    turns.stage = ended;
                    return;
                }
            };
        let task = turns.task.clone();
        drop(turns);

        let turned = shard.turn(&Waker::from(Arc::clone(self)), &task);
        drop(task);

        let mut turns = self.lock();
        let TurnsStage::Turned { again } = turns.stage else {
            // The task is gone meanwhile. A worker takes the shard when the lock is free.
            drop(turns);
            return drop(shard);
        };
        let (stage, left, wakes) = match turned {
            Ok(at_once) => (TurnsStage::Idle(shard), None, again || at_once),
            Err(error) => (TurnsStage::Ended(error), Some(shard), true),
        };
        turns.stage = stage;
        // This may lie in another task since, which waits for the end of the turn.
        let task = wakes.then(|| turns.task.clone());
        drop(turns);
        drop(left);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Takes the shard away, also from a turn that is under way.
    fn end(&self) {
        let mut turns = self.lock();
        let before = std::mem::replace(&mut turns.stage, TurnsStage::Ended(TurnError::Stopped));
        drop(turns);
        // That gives the shard to a worker.
        drop(before);
    }
}

impl<A: Alarm> Wake for Turner<A> {
    fn wake(self: Arc<Self>) {
        // A panic must not end the thread that waits for the runtime's events. The shard has gone to a worker then.
        quietly(|| self.turn());
    }
}

impl<A: Alarm> Future for TurnedByAlarm<A> {
    type Output = TurnError;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TurnError> {
        self.0.set_task(cx.waker());
        self.0.turn();
        match self.0.lock().stage {
            TurnsStage::Ended(error) => Poll::Ready(error),
            TurnsStage::Idle(_) | TurnsStage::Turned { .. } => Poll::Pending,
        }
    }
}

impl<A: Alarm> Drop for TurnedByAlarm<A> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_hand::{
        ByHand, Wakes, engine, go_off, has_gone_off, moody, set_moods, take_set,
    };
    use super::*;
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);
    const MINUTE: Duration = Duration::from_secs(60);

    type Task = TurnedByAlarm<ByHand>;

    fn poll(task: &mut Task, waker: &Waker) -> Poll<TurnError> {
        Pin::new(task).poll(&mut Context::from_waker(waker))
    }

    fn counting() -> (Waker, Arc<Wakes>) {
        let wakes = Arc::<Wakes>::default();
        (Waker::from(Arc::clone(&wakes)), wakes)
    }

    /// Sets a timer of 1 ms that tells which thread has called it.
    fn tells_thread(timer: &Timer) -> mpsc::Receiver<ThreadId> {
        let (tell, told) = mpsc::channel();
        let tell = move || tell.send(thread::current().id()).unwrap();
        timer.run_after(MS, tell).unwrap();
        told
    }

    #[test]
    fn an_alarm_turns_the_shard_without_its_task() {
        let (timer, clock) = engine(1);
        let mut task = Task::new(&timer, ByHand).unwrap();
        let (waker, wakes) = counting();
        let told = tells_thread(&timer);
        assert!(poll(&mut task, &waker).is_pending());
        assert_eq!(take_set(), [MS]);
        clock.set(1);
        go_off();
        assert_eq!(told.try_recv(), Ok(thread::current().id()));
        assert_eq!(wakes.count(), 0);
        timer.stop().unwrap();
    }

    #[test]
    fn a_call_during_a_turn_has_the_task_turn_once_more() {
        let (timer, clock) = engine(1);
        let mut task = Task::new(&timer, ByHand).unwrap();
        let (waker, wakes) = counting();
        for turns in 1..4 {
            let call_twice = || (go_off(), go_off());
            timer.run_after(MS, move || _ = call_twice()).unwrap();
            assert!(poll(&mut task, &waker).is_pending());
            let before = wakes.count();
            clock.set(turns);
            go_off();
            assert_eq!(wakes.count(), before + 1, "once for both calls");
            for _ in 0..3 {
                assert!(poll(&mut task, &waker).is_pending());
                assert_eq!(wakes.count(), before + 1, "the task spins");
            }
        }
        timer.stop().unwrap();
    }

    #[test]
    fn a_turn_with_more_to_do_at_once_is_followed_by_another_one() {
        // A timer that is due in the next turn, and an alarm that goes off while it is set.
        let more: [fn(Timer); 2] = [
            |timer| _ = timer.run_after(Duration::ZERO, || ()).unwrap(),
            |_| has_gone_off(),
        ];
        for more in more {
            let (timer, clock) = engine(1);
            let mut task = Task::new(&timer, ByHand).unwrap();
            let (waker, wakes) = counting();
            let (again, later) = (timer.clone(), 5 * MS);
            timer.run_after(MS, move || more(again)).unwrap();
            timer.run_after(later, || ()).unwrap();
            assert!(poll(&mut task, &waker).is_pending());
            let before = wakes.count();
            clock.set(1);
            go_off();
            assert_eq!(wakes.count(), before + 1);
            assert!(poll(&mut task, &waker).is_pending());
            assert_eq!(wakes.count(), before + 1, "nothing is left to do");
            timer.stop().unwrap();
        }
    }

    #[test]
    fn a_task_that_is_dropped_leaves_its_shard_to_a_worker() {
        let (timer, clock) = engine(1);
        let mut task = Task::new(&timer, ByHand).unwrap();
        let told = tells_thread(&timer);
        assert!(poll(&mut task, Waker::noop()).is_pending());
        clock.set(1);
        drop(task);
        go_off();
        let worker = told.recv_timeout(MINUTE).unwrap();
        assert_ne!(worker, thread::current().id());
        timer.stop().unwrap();
    }

    #[test]
    fn a_task_that_is_dropped_during_a_turn_leaves_its_shard_to_a_worker() {
        let (timer, clock) = engine(1);
        let task = Arc::new(Mutex::new(None));
        let dropped = Arc::clone(&task);
        let end = move || drop::<Option<Task>>(dropped.lock().unwrap().take());
        timer.run_after(MS, end).unwrap();
        let mut driving = Task::new(&timer, ByHand).unwrap();
        assert!(poll(&mut driving, Waker::noop()).is_pending());
        *task.lock().unwrap() = Some(driving);
        clock.set(1);
        go_off();
        assert!(task.lock().unwrap().is_none());
        let told = tells_thread(&timer);
        clock.set(2);
        go_off();
        let worker = told.recv_timeout(MINUTE).expect("no worker has it");
        assert_ne!(worker, thread::current().id());
        timer.stop().unwrap();
    }

    #[test]
    fn the_task_of_a_stopped_engine_hears_of_it_by_the_alarm() {
        let (timer, _) = engine(1);
        let mut task = Task::new(&timer, ByHand).unwrap();
        let (waker, wakes) = counting();
        assert!(poll(&mut task, &waker).is_pending());
        timer.stop().unwrap();
        let before = wakes.count();
        go_off();
        assert_eq!(wakes.count(), before + 1);
        assert_eq!(poll(&mut task, &waker), Poll::Ready(TurnError::Stopped));
    }

    #[test]
    fn the_alarm_may_go_off_while_a_waker_is_dropped() {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let (timer, _) = engine(1);
            let mut task = Task::new(&timer, ByHand).unwrap();
            for waker in [moody(), Waker::noop().clone()] {
                set_moods(|| (), go_off);
                assert!(poll(&mut task, &waker).is_pending());
            }
            tell.send(timer.stop().is_ok()).unwrap();
        });
        assert_eq!(told.recv_timeout(MINUTE), Ok(true));
    }

    #[test]
    fn a_task_that_moves_during_a_turn_is_woken_where_it_is() {
        let (timer, clock) = engine(1);
        let task = Task::new(&timer, ByHand).unwrap();
        let task = Arc::new(Mutex::new(task));
        let [(before, wakes_before), (after, wakes_after)] = [(); 2].map(|()| counting());
        let (moved, there) = (Arc::clone(&task), after);
        let moves = move || assert!(poll(&mut moved.lock().unwrap(), &there).is_pending());
        timer.run_after(MS, moves).unwrap();
        assert!(poll(&mut task.lock().unwrap(), &before).is_pending());
        clock.set(1);
        go_off();
        assert_eq!([wakes_before.count(), wakes_after.count()], [0, 1]);
        timer.stop().unwrap();
    }
}
