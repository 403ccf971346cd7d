//! Tasks of a runtime that turn an engine's shards, and what wakes them when a time is over.
//!
//! | room | what is inside |
//! |---|---|
//! | `alarmed` | [`Alarmed`]: a shard, and the [`Alarm`] for its next turn |
//! | here | [`Driving`]: the task of an engine whose handlers are user code; it turns its shard itself |
//! | `by_alarm` | the task of a runtime's own engine, which wakes tasks and does nothing else; its alarm turns the shard |

mod alarmed;
#[cfg(feature = "tokio")]
pub(crate) mod by_alarm;
#[cfg(test)]
mod by_hand;

pub(crate) use alarmed::Alarm;

#[cfg(feature = "tokio")]
use crate::quietly;
use alarmed::Alarmed;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tickwheel::{Timer, TurnError};

/// The task that turns a shard until its engine is stopped; then it is ready, and says why.
///
/// Handlers run in the task, so they may do what a task may: block in place, for example. They could not where the alarm
/// goes off, in the thread that waits for the runtime's events.
pub(crate) struct Driving<T: Send + 'static, A: Alarm>(Alarmed<T, A>);

impl<T: Send + 'static, A: Alarm> Driving<T, A> {
    /// Takes every shard of an engine, or none.
    pub(crate) fn all(timer: &Timer<T>) -> io::Result<Vec<Self>> {
        let take = |shard| {
            let taken = Alarmed::take(timer, shard, A::new());
            taken.map(Self).map_err(io::Error::other)
        };
        (0..timer.shards()).map(take).collect()
    }
}

impl<T: Send + 'static, A: Alarm> Future for Driving<T, A> {
    type Output = TurnError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TurnError> {
        let (shard, task) = (&mut self.0, cx.waker());
        match shard.turn(task, task) {
            Ok(false) => return Poll::Pending,
            Ok(true) => {}
            Err(error) => return Poll::Ready(error),
        }
        // After the tasks that this turn has woken.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task.wake_by_ref())) {
            // The executor may not know that its task was woken.
            shard.leave_to_alarm(task);
            resume_unwind(panic);
        }
        Poll::Pending
    }
}

/// Returns the shared engine; if there is none yet it gets one shard, for one task to turn.
pub(crate) fn shared() -> io::Result<&'static Timer> {
    let builder = tickwheel::Builder::new()
        .shards(1)
        .pinning(tickwheel::Pinning::Off);
    let builder = tickwheel::__internal::without_membarrier(builder);
    // An error says that there is one.
    let built = builder.thread_name("tick-global").build_global();
    built
        .or_else(|_| tickwheel::global())
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::alarmed::SOON;
    use super::by_hand::{ByHand, Wakes, engine, go_off, has_gone_off, moody, set_moods, take_set};
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::task::Waker;
    use std::time::Duration;
    use tickwheel::TimerTask;

    const MS: Duration = Duration::from_millis(1);

    fn task_of(timer: &Timer) -> Driving<TimerTask, ByHand> {
        Driving::all(timer).unwrap().remove(0)
    }

    #[test]
    fn handlers_run_in_the_task_and_not_where_the_alarm_goes_off() {
        let (timer, clock) = engine(1);
        let mut task = task_of(&timer);
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let (tell, told) = std::sync::mpsc::channel();
        timer.run_after(MS, move || tell.send(()).unwrap()).unwrap();
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        assert_eq!((take_set(), wakes.count()), (vec![MS], 0));
        clock.set(1);
        go_off();
        assert_eq!(wakes.count(), 1);
        assert!(told.try_recv().is_err(), "not before the task is polled");
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        assert_eq!(told.try_recv(), Ok(()));
        assert_eq!(wakes.count(), 1, "a task without work does not go round");
        timer.stop().unwrap();
        for _ in 0..2 {
            let polled = Pin::new(&mut task).poll(&mut cx);
            assert_eq!(polled, Poll::Ready(TurnError::Stopped));
        }
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
            let mut task = task_of(&timer);
            let wakes = Arc::<Wakes>::default();
            let waker = Waker::from(Arc::clone(&wakes));
            let mut cx = Context::from_waker(&waker);
            let (again, later) = (timer.clone(), 5 * MS);
            timer.run_after(MS, move || more(again)).unwrap();
            timer.run_after(later, || ()).unwrap();
            assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
            let before = wakes.count();
            clock.set(1);
            assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
            assert_eq!(wakes.count(), before + 1);
            assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
            assert_eq!(wakes.count(), before + 1, "nothing is left to do");
            timer.stop().unwrap();
        }
    }

    #[test]
    fn a_task_that_is_dropped_leaves_its_shard_to_a_worker() {
        let (timer, clock) = engine(1);
        let mut task = task_of(&timer);
        let mut cx = Context::from_waker(Waker::noop());
        let (tell, told) = std::sync::mpsc::channel();
        timer.run_after(MS, move || tell.send(()).unwrap()).unwrap();
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        clock.set(1);
        drop(task);
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(()));
        timer.stop().unwrap();
    }

    #[test]
    fn a_wake_that_panics_leaves_the_next_turn_to_the_alarm() {
        let (timer, clock) = engine(1);
        let mut task = task_of(&timer);
        let (tell, told) = std::sync::mpsc::channel();
        let again = timer.clone();
        let first = move || {
            let second = move || tell.send(()).unwrap();
            again.run_after(Duration::ZERO, second).unwrap();
        };
        timer.run_after(MS, first).unwrap();
        let waker = moody();
        let mut poll = || Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending());
        take_set();
        clock.set(20);
        set_moods(|| panic!("the waker's wake"), || ());
        let polled = catch_unwind(AssertUnwindSafe(&mut poll));
        assert!(polled.is_err(), "the executor sees it");
        assert!(told.try_recv().is_err(), "it is due in the next turn");
        assert_eq!(take_set(), [SOON], "it would never be turned again");
        set_moods(|| (), || ());
        assert!(poll().is_pending());
        assert_eq!(told.try_recv(), Ok(()));
        timer.stop().unwrap();
    }

    type Tasks = Arc<Vec<Mutex<Driving<TimerTask, ByHand>>>>;

    /// An engine of two shards, and the tasks that turn them.
    fn two_tasks() -> (Timer, Tasks) {
        let builder = tickwheel::Builder::new().shards(2);
        let timer = builder.pinning(tickwheel::Pinning::Off).build().unwrap();
        let tasks = Driving::all(&timer).unwrap();
        (timer, Arc::new(tasks.into_iter().map(Mutex::new).collect()))
    }

    #[test]
    fn a_task_that_a_handler_of_another_shard_polls_goes_on() {
        let (timer, tasks) = two_tasks();
        let wakes = Arc::<Wakes>::default();
        let poll_all = {
            let waker = Waker::from(Arc::clone(&wakes));
            move || {
                // The one that is being polled is locked.
                let free = tasks.iter().filter_map(|task| task.try_lock().ok());
                free.map(|mut task| Pin::new(&mut *task).poll(&mut Context::from_waker(&waker)))
                    .filter(Poll::is_pending)
                    .count()
            }
        };
        let (tell, told) = std::sync::mpsc::channel();
        let inside = poll_all.clone();
        let handler = move || {
            take_set();
            tell.send((inside(), take_set())).unwrap();
        };
        timer.run_after(Duration::ZERO, handler).unwrap();
        let mut polled = None;
        while polled.is_none() {
            assert_eq!(poll_all(), 2);
            polled = told.try_recv().ok();
        }
        assert_eq!(
            polled,
            Some((1, vec![SOON])),
            "the other one's alarm is set"
        );
        assert_eq!(poll_all(), 2);
        timer.stop().unwrap();
    }

    #[test]
    fn an_executor_that_runs_inside_of_a_handler_comes_to_rest() {
        let (timer, tasks) = two_tasks();
        let wakes = Arc::<Wakes>::default();
        let poll_all = {
            let waker = Waker::from(Arc::clone(&wakes));
            move || {
                // The one that is being polled is locked.
                for mut task in tasks.iter().filter_map(|task| task.try_lock().ok()) {
                    let polled = Pin::new(&mut *task).poll(&mut Context::from_waker(&waker));
                    assert!(polled.is_pending());
                }
            }
        };
        let (tell, told) = std::sync::mpsc::channel();
        let inside = poll_all.clone();
        let handler = move || {
            let has_woken = || {
                let before = wakes.count();
                inside();
                wakes.count() > before
            };
            tell.send((0..100).take_while(|_| has_woken()).count())
                .unwrap();
        };
        timer.run_after(Duration::ZERO, handler).unwrap();
        let rounds = loop {
            poll_all();
            if let Ok(rounds) = told.try_recv() {
                break rounds;
            }
        };
        assert!(rounds < 100, "it would never come out of the handler");
        timer.stop().unwrap();
    }
}
