//! A future, and what is known of it.

use super::{Bell, Inner, MS, Missed, TICK, after};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tickwheel_util::time::{
    Instant, Interval, MissedTickBehavior, Sleep, Timeout, interval_at, sleep, sleep_until, timeout,
};

/// A tick that is polled later than this counts as missed.
const MISSED: Duration = Duration::from_millis(5);

pub(super) struct Entry {
    /// `None` once it is over for good.
    subject: Option<Subject>,
    /// When it is due; `None` if that never comes.
    due: Option<Instant>,
    armed: Option<Armed>,
    /// Bells that were replaced, with the number of their rings.
    replaced: Vec<(Arc<Bell>, usize)>,
}

/// The poll that found it pending.
struct Armed {
    bell: Arc<Bell>,
    /// When everything that was due has fired since.
    turned: Option<Instant>,
}

enum Subject {
    Sleep(Pin<Box<Sleep>>),
    /// With what it limits, and the limit.
    Timeout(Pin<Box<Timeout<Limited>>>, Option<Instant>),
    Interval(Interval, Duration, Missed),
}

/// What a timeout limits.
enum Limited {
    Pending,
    Ready,
    Sleep(Pin<Box<Sleep>>, Option<Instant>),
}

impl Future for Limited {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self {
            Self::Pending => Poll::Pending,
            Self::Ready => Poll::Ready(()),
            Self::Sleep(sleep, _) => sleep.as_mut().poll(cx),
        }
    }
}

impl Limited {
    /// Returns when it is ready.
    fn due(&self) -> Option<Instant> {
        match self {
            Self::Sleep(_, due) => *due,
            Self::Pending | Self::Ready => None,
        }
    }
}

/// Returns whether a point of time has come.
fn has_come(due: Option<Instant>, now: Instant) -> bool {
    due.is_some_and(|due| due <= now)
}

/// Returns whether the tick of a point of time is over.
fn is_past(due: Option<Instant>, now: Instant) -> bool {
    due.is_some_and(|due| due + TICK <= now)
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

impl Entry {
    fn new(subject: Subject, due: Option<Instant>) -> Self {
        Self {
            subject: Some(subject),
            due,
            armed: None,
            replaced: Vec::new(),
        }
    }

    pub(super) fn sleep(now: Instant, delay: Duration) -> Self {
        Self::new(Subject::Sleep(Box::pin(sleep(delay))), after(now, delay))
    }

    pub(super) fn sleep_until(point: Instant) -> Self {
        Self::new(Subject::Sleep(Box::pin(sleep_until(point))), Some(point))
    }

    pub(super) fn timeout(now: Instant, limit: Duration, inner: Inner) -> Self {
        let inner = match inner {
            Inner::Pending => Limited::Pending,
            Inner::Ready => Limited::Ready,
            Inner::Sleep(delay) => {
                let delay = delay.duration(MS);
                Limited::Sleep(Box::pin(sleep(delay)), after(now, delay))
            }
        };
        let until = after(now, limit);
        let due = earlier(until, inner.due());
        Self::new(
            Subject::Timeout(Box::pin(timeout(limit, inner)), until),
            due,
        )
    }

    pub(super) fn interval(first: Instant, period: Duration, missed: Missed) -> Self {
        let mut interval = interval_at(first, period);
        interval.set_missed_tick_behavior(match missed {
            Missed::Burst => MissedTickBehavior::Burst,
            Missed::Delay => MissedTickBehavior::Delay,
            Missed::Skip => MissedTickBehavior::Skip,
        });
        Self::new(Subject::Interval(interval, period, missed), Some(first))
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Polls it with a waker of its own.
    pub(super) fn poll(&mut self) {
        let Some(subject) = &mut self.subject else {
            return;
        };
        let (now, bell) = (Instant::now(), Arc::<Bell>::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut cx = Context::from_waker(&waker);
        // It was fired then, or asks the clock now.
        let asked = self.armed.as_ref().map_or(Some(now), |armed| armed.turned);
        let must = asked.is_some_and(|asked| is_past(self.due, asked));
        let ready = match subject {
            Subject::Sleep(sleep) => {
                let ready = sleep.as_mut().poll(&mut cx).is_ready();
                assert_eq!(sleep.is_elapsed(), ready);
                assert!(ready || !must, "a sleep is late");
                ready
            }
            Subject::Timeout(timeout, until) => match timeout.as_mut().poll(&mut cx) {
                Poll::Ready(Ok(())) => {
                    let inner = timeout.get_ref();
                    assert!(matches!(inner, Limited::Ready) || has_come(inner.due(), now));
                    true
                }
                Poll::Ready(Err(_)) => {
                    assert!(has_come(*until, now), "a timeout is early");
                    let inner = timeout.get_ref();
                    assert!(!matches!(inner, Limited::Ready));
                    true
                }
                Poll::Pending => {
                    assert!(!matches!(timeout.get_ref(), Limited::Ready));
                    // Before its first poll a limit asks no clock.
                    assert!(!must || self.armed.is_none(), "a timeout is late");
                    false
                }
            },
            Subject::Interval(interval, period, missed) => match interval.poll_tick(&mut cx) {
                Poll::Ready(due) => {
                    assert_eq!(Some(due), self.due, "a tick's deadline");
                    assert!(due <= now, "a tick is early");
                    self.due = after_tick(due, now, *period, *missed);
                    self.replace(None);
                    return;
                }
                Poll::Pending => {
                    assert!(!must, "a tick is late");
                    false
                }
            },
        };
        drop(waker);
        if ready {
            assert!(has_come(self.due, now) || self.is_ready_at_once(), "early");
            if matches!(self.subject, Some(Subject::Timeout(..))) {
                self.subject = None;
            }
            self.replace(None);
        } else {
            self.replace(Some(Armed { bell, turned: None }));
        }
    }

    fn is_ready_at_once(&self) -> bool {
        let Some(Subject::Timeout(timeout, _)) = &self.subject else {
            return false;
        };
        matches!(timeout.get_ref(), Limited::Ready)
    }

    /// Another poll was the last one: the bell of the one before rings no more.
    fn replace(&mut self, armed: Option<Armed>) {
        if let Some(before) = std::mem::replace(&mut self.armed, armed) {
            let rings = before.bell.rings().len();
            self.replaced.push((before.bell, rings));
        }
    }

    pub(super) fn reset_after(&mut self, now: Instant, delay: Duration) {
        let was_woken = self.is_woken();
        match (&mut self.subject, after(now, delay)) {
            (Some(Subject::Interval(interval, ..)), due) => {
                interval.reset_after(delay);
                self.moved(due, was_woken);
            }
            (_, Some(due)) => self.reset(due),
            (_, None) => {}
        }
    }

    pub(super) fn reset(&mut self, due: Instant) {
        let was_woken = self.is_woken();
        match &mut self.subject {
            Some(Subject::Sleep(sleep)) => sleep.as_mut().reset(due),
            Some(Subject::Interval(interval, ..)) => interval.reset_at(due),
            Some(Subject::Timeout(..)) | None => return,
        }
        self.moved(Some(due), was_woken);
    }

    fn is_woken(&self) -> bool {
        let armed = self.armed.as_ref();
        armed.is_some_and(|armed| !armed.bell.rings().is_empty())
    }

    /// It has another deadline. Who waits for it need not poll again, unless it was woken before.
    fn moved(&mut self, due: Option<Instant>, was_woken: bool) {
        self.due = due;
        if was_woken {
            self.replace(None);
        } else if let Some(armed) = &mut self.armed {
            armed.turned = None;
        }
    }

    /// Everything that was due has fired.
    pub(super) fn turned(&mut self, now: Instant) {
        if let Some(armed) = &mut self.armed {
            armed.turned = Some(now);
        }
    }

    /// What came due on the way from `start` has woken its task less than `latest` after that, and not where time stood in
    /// the end.
    pub(super) fn check_punctual(&self, start: Instant, latest: Duration) {
        let Some((armed, due)) = self.armed.as_ref().zip(self.due) else {
            return;
        };
        if let Some(rung) = armed.bell.rings().first() {
            assert!(due < start || *rung < due + latest, "woken late");
        }
    }

    pub(super) fn check(&self) {
        let now = Instant::now();
        for (bell, rings) in &self.replaced {
            assert_eq!(bell.rings().len(), *rings, "a replaced waker is called");
            assert_eq!(Arc::strong_count(bell), 1, "a replaced waker is kept");
        }
        if let (Some(Subject::Sleep(sleep)), Some(due)) = (&self.subject, self.due) {
            assert_eq!(sleep.deadline(), due);
            assert!(!sleep.is_elapsed() || due <= now);
        }
        let Some(armed) = &self.armed else { return };
        let rings = armed.bell.rings();
        let most = if matches!(self.subject, Some(Subject::Timeout(..))) {
            2
        } else {
            1
        };
        assert!(rings.len() <= most, "woken {} times", rings.len());
        assert!(
            rings.iter().all(|rung| has_come(self.due, *rung)),
            "woken early"
        );
        let must = armed.turned.is_some_and(|turned| is_past(self.due, turned));
        assert!(!must || !rings.is_empty(), "not woken");
    }

    /// Drops it: nobody has its waker any more.
    pub(super) fn end(mut self) {
        self.subject = None;
        self.replace(None);
        for (bell, _) in &self.replaced {
            assert_eq!(Arc::strong_count(bell), 1, "a waker outlives its future");
        }
    }
}

/// Returns when the tick after one that was due, and is polled now, is due.
fn after_tick(due: Instant, now: Instant, period: Duration, missed: Missed) -> Option<Instant> {
    let late = now - due;
    if late <= MISSED {
        return after(due, period);
    }
    match missed {
        Missed::Burst => after(due, period),
        Missed::Delay => after(now, period),
        Missed::Skip => {
            let periods = late.as_nanos() / period.as_nanos() + 1;
            let nanos = periods * period.as_nanos();
            let pause = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            after(due, pause)
        }
    }
}
