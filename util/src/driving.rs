//! A task that turns a shard, and what wakes it when a time is over.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tickwheel::{DrivenShard, Timer, TurnError};

/// Wakes a task when a time is over, by the runtime's own means.
pub(crate) trait Alarm: Sized + Send + Unpin + 'static {
    /// How wakers are called, see [`DrivenShard::wake_by`].
    const WAKE: fn(Waker);

    /// Makes one, on the runtime of the calling thread.
    fn new() -> io::Result<Self>;

    /// Sets it to go off after `pause`, and not when it was set to before.
    fn set(&mut self, pause: Duration) -> io::Result<()>;

    /// Returns what wakes the task from any thread, for a timer that comes before the others.
    fn waker(&self, task: &Waker) -> Waker {
        task.clone()
    }

    /// Returns whether it has gone off since it was set or last asked; wakes the task when it does.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Turns a shard until its engine is stopped; then it is ready, and says why.
pub(crate) struct Driving<T: Send + 'static, A> {
    shard: DrivenShard<T>,
    alarm: A,
}

impl<T: Send + 'static, A: Alarm> Driving<T, A> {
    /// Takes every shard of an engine, or none.
    pub(crate) fn all(timer: &Timer<T>) -> io::Result<Vec<Self>> {
        let drive = |shard| {
            let alarm = A::new()?;
            let shard = timer.drive_shard(shard).map_err(io::Error::other)?;
            Ok(Self {
                shard: shard.wake_by(A::WAKE),
                alarm,
            })
        };
        (0..timer.shards()).map(drive).collect()
    }
}

impl<T: Send + 'static, A: Alarm> Future for Driving<T, A> {
    type Output = TurnError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TurnError> {
        let Self { shard, alarm } = &mut *self;
        // Perhaps the alarm has woken this task. From here on it goes off for the time that is set below.
        let _ = alarm.poll(cx);
        let pause = match shard.turn(&alarm.waker(cx.waker())) {
            Err(error) => return Poll::Ready(error),
            Ok(None) => return Poll::Pending,
            Ok(Some(pause)) => pause,
        };
        if pause.is_zero() || alarm.set(pause).is_err() || alarm.poll(cx).is_ready() {
            // Once more, after the tasks that this turn has woken.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use tickwheel::{Builder, Pinning};

    /// An alarm that the runtime cannot set.
    struct Refused;

    impl Alarm for Refused {
        const WAKE: fn(Waker) = Waker::wake;

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

    #[test]
    fn a_task_whose_alarm_cannot_be_set_turns_again_at_once() {
        let builder = Builder::new().shards(1).pinning(Pinning::Off);
        let timer = builder.build().unwrap();
        timer.run_after(Duration::from_secs(3600), || ()).unwrap();
        let mut task = Driving::<_, Refused>::all(&timer).unwrap().remove(0);
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
