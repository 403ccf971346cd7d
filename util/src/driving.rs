//! A shard that a runtime turns when a time is over.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tickwheel::{DrivenShard, Timer, TurnError};

/// Wakes when a time is over, by the runtime's own means.
pub(crate) trait Alarm: Sized + Send + 'static {
    /// Makes one, on the runtime of the calling thread.
    fn new() -> io::Result<Self>;

    /// Sets it to go off after `pause`, and not when it was set to before.
    fn set(&mut self, pause: Duration) -> io::Result<()>;

    /// Returns what has the shard turned soon, called by any thread that sets a timer before the others.
    fn waker(&self, task: &Waker) -> Waker {
        task.clone()
    }

    /// Returns whether it has gone off since it was set or last asked; wakes when it does.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// The task that has a shard turned until its engine is stopped; then it is ready, and says why.
///
/// The alarm turns the shard, on the thread that waits for the runtime's events: so the tasks that the turn wakes are all
/// ready before that thread goes on, as after the runtime's own timers. The task itself turns the shard at first, and when
/// a turn is to be followed by another one at once.
pub(crate) struct Driving<T: Send + 'static, A: Alarm>(Arc<Turner<T, A>>);

/// What the alarm wakes.
struct Turner<T: Send + 'static, A>(Mutex<Turning<T, A>>);

struct Turning<T: Send + 'static, A> {
    /// The alarm goes off no sooner after a turn.
    apart: Duration,
    /// Missing while a thread turns the shard, and at the end.
    shard: Option<(DrivenShard<T>, A)>,
    /// To be turned once more, because of a call while a thread was turning it.
    again: bool,
    task: Arc<Task>,
    /// The task is gone.
    dropped: bool,
    ended: Option<TurnError>,
}

/// The waker of the task, if it has been polled. A clone or an end of this calls none of the waker's functions where a
/// lock is held, and no panic of those ends a turn.
#[derive(Default)]
struct Task(Option<Waker>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if let Some(waker) = &self.0 {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        crate::quietly(|| drop(self.0.take()));
    }
}

impl<T: Send + 'static, A: Alarm> Driving<T, A> {
    /// Takes every shard of an engine, or none.
    ///
    /// Timers that come due one after the other share a turn: after each turn the alarm goes off when `apart` has passed,
    /// at the earliest. What is due in a turn is fired by it, so a timer is late by no more than that.
    pub(crate) fn all(timer: &Timer<T>, apart: Duration) -> io::Result<Vec<Self>> {
        let drive = |shard| {
            let alarm = A::new()?;
            let shard = timer.drive_shard(shard).map_err(io::Error::other)?;
            Ok(Self(Arc::new(Turner(Mutex::new(Turning {
                apart,
                shard: Some((shard, alarm)),
                again: false,
                task: Arc::default(),
                dropped: false,
                ended: None,
            })))))
        };
        (0..timer.shards()).map(drive).collect()
    }
}

/// When a shard is turned that could not be turned inside of another one's handler, or whose task could not be woken.
const SOON: Duration = Duration::from_millis(1);

impl<T: Send + 'static, A: Alarm> Turner<T, A> {
    fn lock(&self) -> MutexGuard<'_, Turning<T, A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what a turn wakes.
    fn set_task(&self, waker: &Waker) {
        let is_set = |task: &Task| task.0.as_ref().is_some_and(|task| task.will_wake(waker));
        if is_set(&self.lock().task) {
            return;
        }
        let task = Arc::new(Task(Some(waker.clone())));
        let before = std::mem::replace(&mut self.lock().task, task);
        drop(before);
    }

    /// Turns the shard and sets the alarm. No lock is held while the turn wakes tasks.
    fn turn(self: &Arc<Self>) {
        let mut turning = self.lock();
        let Some((mut shard, mut alarm)) = turning.shard.take() else {
            turning.again = true;
            return;
        };
        let (task, apart) = (Arc::clone(&turning.task), turning.apart);
        drop(turning);

        let this = Waker::from(Arc::clone(self));
        let mut cx = Context::from_waker(&this);
        // Perhaps it has gone off. From here on it goes off for the time that is set below.
        let _ = alarm.poll(&mut cx);
        let turned = match shard.turn(&alarm.waker(&Waker::from(task))) {
            // A handler of another shard has the executor run this task. Not at once: the handler may run whatever is
            // ready until nothing is.
            Err(TurnError::InsideHandler) => Ok(Some(SOON)),
            turned => turned,
        };
        // Once more, after the tasks that this turn has woken.
        let at_once = match turned {
            Ok(None) | Err(_) => false,
            Ok(Some(pause)) => {
                pause.is_zero()
                    || alarm.set(pause.max(apart)).is_err()
                    || alarm.poll(&mut cx).is_ready()
            }
        };

        let mut turning = self.lock();
        let again = std::mem::take(&mut turning.again) || at_once;
        turning.ended = turned.err();
        let goes_on = turning.ended.is_none() && !turning.dropped;
        let mut left = Some((shard, alarm));
        if goes_on {
            std::mem::swap(&mut turning.shard, &mut left);
        }
        // This may lie in another task since, which waits for the end of the turn.
        let task = (again || !goes_on).then(|| Arc::clone(&turning.task));
        drop(turning);
        drop(left);
        let Some(task) = task else { return };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task.wake())) {
            self.leave_to_alarm();
            resume_unwind(panic);
        }
    }

    /// Has the alarm turn the shard once more. The executor may not know that its task was woken, and no producer calls
    /// a shard that has announced no sleep.
    fn leave_to_alarm(self: &Arc<Self>) {
        let this = Waker::from(Arc::clone(self));
        let mut cx = Context::from_waker(&this);
        loop {
            let Some((shard, mut alarm)) = self.lock().shard.take() else {
                return;
            };
            while alarm.set(SOON).is_ok() && alarm.poll(&mut cx).is_ready() {}
            let mut turning = self.lock();
            // If the task is gone meanwhile, the alarm's turn gives the shard to a worker.
            turning.shard = Some((shard, alarm));
            // It may have gone off already, and found no shard.
            if !std::mem::take(&mut turning.again) {
                return;
            }
        }
    }
}

impl<T: Send + 'static, A: Alarm> Wake for Turner<T, A> {
    fn wake(self: Arc<Self>) {
        // A panic must not end the thread that waits for the runtime's events. The shard has gone to a worker then.
        crate::quietly(|| self.turn());
    }
}

impl<T: Send + 'static, A: Alarm> Future for Driving<T, A> {
    type Output = TurnError;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TurnError> {
        self.0.set_task(cx.waker());
        self.0.turn();
        self.0.lock().ended.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T: Send + 'static, A: Alarm> Drop for Driving<T, A> {
    fn drop(&mut self) {
        let mut turning = self.0.lock();
        turning.dropped = true;
        let shard = turning.shard.take();
        drop(turning);
        // That gives the shard to a worker.
        drop(shard);
    }
}

/// Returns the shared engine; if there is none yet it gets one shard, for one task to turn.
pub(crate) fn shared() -> io::Result<&'static Timer> {
    let builder = tickwheel::Builder::new()
        .shards(1)
        .pinning(tickwheel::Pinning::Off)
        .without_membarrier();
    // An error says that there is one.
    let built = builder.thread_name("tickwheel-global").build_global();
    built
        .or_else(|_| tickwheel::global())
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::ptr::null;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{RawWaker, RawWakerVTable};
    use tickwheel::{Builder, Clock, Pinning, Time, TimerTask};

    /// An alarm that the runtime cannot set.
    struct Refused;

    impl Alarm for Refused {
        fn new() -> io::Result<Self> {
            Ok(Self)
        }

        fn set(&mut self, _: Duration) -> io::Result<()> {
            Err(io::ErrorKind::OutOfMemory.into())
        }

        fn poll(&mut self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    thread_local! {
        /// What the alarm of the thread's test was set to, and what it wakes.
        static SET: RefCell<Vec<Duration>> = const { RefCell::new(Vec::new()) };
        static WAKES: RefCell<Waker> = RefCell::new(Waker::noop().clone());
        /// What the thread does when it has polled the alarm, once.
        static POLLED: Cell<fn()> = const { Cell::new(|| ()) };
    }

    /// Milliseconds that the test counts, and that are not virtual: a turn returns how long to wait.
    #[derive(Clone, Default)]
    struct Millis(Arc<AtomicUsize>);

    impl Clock for Millis {
        fn now(&self) -> Time {
            Time::from_nanos(self.0.load(Ordering::SeqCst) as u64 * 1_000_000)
        }
    }

    /// An alarm that goes off when the test says so.
    struct ByHand;

    impl Alarm for ByHand {
        fn new() -> io::Result<Self> {
            Ok(Self)
        }

        fn set(&mut self, pause: Duration) -> io::Result<()> {
            SET.with_borrow_mut(|set| set.push(pause));
            Ok(())
        }

        fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            WAKES.set(cx.waker().clone());
            POLLED.replace(|| ())();
            Poll::Pending
        }
    }

    fn go_off() {
        WAKES.with_borrow(Clone::clone).wake();
    }

    #[test]
    fn an_alarm_turns_the_shard_without_its_task_and_no_sooner_than_turns_are_apart() {
        let apart = Duration::from_millis(20);
        let clock = Millis::default();
        let builder = Builder::new().shards(1).pinning(Pinning::Off);
        let timer = builder.clock(clock.clone()).build().unwrap();
        let mut driving = Driving::<_, ByHand>::all(&timer, apart).unwrap();
        let mut task = driving.remove(0);
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let (tell, told) = std::sync::mpsc::channel();
        let tell = move || {
            // While the shard is turned: once more, by the task.
            go_off();
            tell.send(std::thread::current().id()).unwrap();
        };
        timer
            .run_after(Duration::from_millis(1), tell.clone())
            .unwrap();
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        assert_eq!(
            SET.take(),
            [apart],
            "as long as the timer waits, and longer"
        );
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
        clock.0.store(20, Ordering::SeqCst);
        go_off();
        assert_eq!(told.try_recv(), Ok(std::thread::current().id()));
        assert_eq!(
            wakes.0.load(Ordering::SeqCst),
            1,
            "called while it was turned"
        );

        timer.run_after(Duration::from_millis(1), tell).unwrap();
        drop(task);
        go_off();
        clock.0.store(40, Ordering::SeqCst);
        let thread = told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_ne!(
            thread,
            std::thread::current().id(),
            "a worker has the shard"
        );
        timer.stop().unwrap();
    }

    thread_local! {
        /// What the clone of a `moody` waker does, what its wake does, and what the drop of one does.
        static CLONES: Cell<fn()> = const { Cell::new(|| ()) };
        static CALLS: Cell<fn()> = const { Cell::new(|| ()) };
        static DROPS: Cell<fn()> = const { Cell::new(|| ()) };
    }

    /// A waker that does what the thread says.
    fn moody() -> Waker {
        static VTABLE: RawWakerVTable = RawWakerVTable::new(
            |_| {
                CLONES.get()();
                RawWaker::new(null(), &VTABLE)
            },
            |_| CALLS.get()(),
            |_| CALLS.get()(),
            |_| DROPS.replace(|| ())(),
        );
        // SAFETY: the table's functions do not look at the data.
        unsafe { Waker::new(null(), &VTABLE) }
    }

    #[test]
    fn a_turn_by_the_alarm_calls_neither_clone_nor_drop_of_the_tasks_waker() {
        let builder = Builder::new().shards(1).pinning(Pinning::Off);
        let timer = builder.build().unwrap();
        let mut task = Driving::<_, ByHand>::all(&timer, Duration::ZERO)
            .unwrap()
            .remove(0);
        let waker = moody();
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        CLONES.set(|| panic!("the waker's clone"));
        DROPS.set(|| panic!("the waker's drop"));
        go_off();
        CLONES.set(|| ());
        DROPS.set(|| ());
        timer.stop().unwrap();
        let polled = Pin::new(&mut task).poll(&mut cx);
        assert_eq!(polled, Poll::Ready(TurnError::Stopped), "it would hang");
    }

    #[test]
    fn a_wake_that_panics_leaves_the_next_turn_to_the_alarm() {
        let clock = Millis::default();
        let builder = Builder::new().shards(1).pinning(Pinning::Off);
        let timer = builder.clock(clock.clone()).build().unwrap();
        let mut task = Driving::<_, ByHand>::all(&timer, Duration::ZERO)
            .unwrap()
            .remove(0);
        let (tell, told) = std::sync::mpsc::channel();
        let again = timer.clone();
        let first = move || {
            let second = move || tell.send(()).unwrap();
            again.run_after(Duration::ZERO, second).unwrap();
        };
        timer.run_after(Duration::from_millis(1), first).unwrap();
        let waker = moody();
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        SET.take();
        clock.0.store(20, Ordering::SeqCst);
        // The first alarm that is set goes off before the shard is there again.
        CALLS.set(|| {
            POLLED.set(go_off);
            panic!("the waker's wake")
        });
        go_off();
        CALLS.set(|| ());
        assert!(told.try_recv().is_err(), "it is due in the next turn");
        assert_eq!(SET.take(), [SOON; 2], "it would never be turned again");
        go_off();
        assert_eq!(told.try_recv(), Ok(()));
        timer.stop().unwrap();
    }

    #[test]
    fn the_alarm_may_go_off_while_a_waker_is_dropped() {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let builder = Builder::new().shards(1).pinning(Pinning::Off);
            let timer = builder.build().unwrap();
            let mut task = Driving::<_, ByHand>::all(&timer, Duration::ZERO)
                .unwrap()
                .remove(0);
            for waker in [moody(), Waker::noop().clone()] {
                DROPS.set(go_off);
                let mut cx = Context::from_waker(&waker);
                assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
            }
            tell.send(timer.stop().is_ok()).unwrap();
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(true));
    }

    type Tasks = Arc<Vec<Mutex<Driving<TimerTask, ByHand>>>>;

    /// An engine of two shards, and the tasks that turn them.
    fn two_tasks() -> (Timer, Tasks) {
        let builder = Builder::new().shards(2).pinning(Pinning::Off);
        let timer = builder.build().unwrap();
        let tasks = Driving::all(&timer, Duration::ZERO).unwrap();
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
            SET.take();
            tell.send((inside(), SET.take())).unwrap();
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
                let before = wakes.0.load(Ordering::SeqCst);
                inside();
                wakes.0.load(Ordering::SeqCst) > before
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

    #[test]
    fn a_task_that_moves_during_a_turn_is_woken_where_it_is() {
        let clock = Millis::default();
        let builder = Builder::new().shards(1).pinning(Pinning::Off);
        let timer = builder.clock(clock.clone()).build().unwrap();
        let mut driving = Driving::<_, ByHand>::all(&timer, Duration::ZERO).unwrap();
        let task = Arc::new(Mutex::new(driving.remove(0)));
        let poll = |task: &Mutex<Driving<_, _>>, wakes: &Arc<Wakes>| {
            let waker = Waker::from(Arc::clone(wakes));
            let mut task = task.lock().unwrap();
            let polled = Pin::new(&mut *task).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        };
        let [before, after] = [(); 2].map(|()| Arc::<Wakes>::default());
        let (moved, there) = (Arc::clone(&task), Arc::clone(&after));
        timer
            .run_after(Duration::from_millis(1), move || poll(&moved, &there))
            .unwrap();
        poll(&task, &before);
        clock.0.store(1, Ordering::SeqCst);
        go_off();
        let wakes = [before, after].map(|wakes| wakes.0.load(Ordering::SeqCst));
        assert_eq!(wakes, [0, 1]);
        timer.stop().unwrap();
    }

    #[test]
    fn a_task_whose_alarm_cannot_be_set_turns_again_at_once() {
        let builder = Builder::new().shards(1).pinning(Pinning::Off);
        let timer = builder.build().unwrap();
        timer.run_after(Duration::from_secs(3600), || ()).unwrap();
        let mut task = Driving::<_, Refused>::all(&timer, Duration::ZERO)
            .unwrap()
            .remove(0);
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        for turns in 1..4 {
            let polled = Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            assert!(wakes.0.load(Ordering::SeqCst) >= turns, "it would hang");
        }
        timer.stop().unwrap();
    }
}
