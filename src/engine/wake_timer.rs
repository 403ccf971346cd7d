//! `WakeTimer`: what a future has of an engine: a timer that wakes it.
//!
//! The timer carries the future's waker. However the timer ends, the waker is woken, unless the future itself
//! takes it back; and its node, which the future holds, says what has become of it. So there is nothing besides the
//! node that the two would have to agree on, and no wake is lost:
//!
//! | the future | meanwhile the timer fires or is returned |
//! |---|---|
//! | sees it pending, with the waker it was polled with | the waker is woken, and the future is polled again |
//! | changes the waker | one compare-and-swap decides: the future arms another timer, or sees the end |
//! | moves it | the move counts; if it comes too late, one compare-and-swap decides who takes the waker and wakes it |
//! | drops it | one compare-and-swap decides who takes the waker |
//!
//! Which waker the node carries the future remembers itself, as two words: a poll with the same one reads the states
//! of timer and engine and writes nothing.
//!
//! Not shared between threads; moves from one to the next.

use super::crew::status::EnginePhase;
use super::inner::{EngineRef, Inner, Place};
use super::task::TimerTask;
use super::timer::Timer;
use crate::contain;
use crate::node::offer::offer;
use crate::node::table::Armed;
use crate::shard::{Producer, ShardHandle};
use crate::state::Phase;
use crate::time::{Deadline, Time, TimeSource, When};
use crate::types::ScheduleErrorKind;
use std::num::NonZeroU32;
use std::task::{Poll, Waker};

/// Where a sleep stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No timer yet.
    Unarmed,
    /// No timer yet, and the deadline may have passed before the next poll.
    Unchecked,
    Armed,
    Elapsed,
}

impl Stage {
    #[inline]
    pub(crate) fn new(when: When) -> Self {
        if when.is_now() {
            Self::Elapsed
        } else if when.is_point() {
            Self::Unchecked
        } else {
            Self::Unarmed
        }
    }
}

/// How a future holds its engine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// Nothing: it is never freed.
    Static,
    /// The future, which is counted as a handle.
    Future,
    /// The node of the armed timer, which is counted as one. The future has no engine while none is armed.
    Node,
}

/// See the module. Flat, because tasks hold many of them.
pub(crate) struct WakeTimer {
    /// Missing between two timers whose nodes hold their engines. Then its time is the machine's.
    engine: Option<EngineRef<TimerTask>>,
    /// The waker that the armed timer's node carries, if it carries one.
    waker: Identity,
    /// The tick by which the owner looks at the armed timer, if that was moved and not looked at since.
    look: u64,
    /// The node of a timer that has been armed and not let go of, inverted, as in a key.
    armed: Option<NonZeroU32>,
    /// The shard of that node.
    shard: u16,
    hold: Hold,
    /// The sleep's, where it takes no room.
    pub(crate) stage: Stage,
}

/// Which waker it is: two wakers that are equal wake the same task, while one of them lives.
type Identity = (usize, usize);

#[inline]
fn identity(waker: &Waker) -> Identity {
    (
        waker.data() as usize,
        std::ptr::from_ref(waker.vtable()) as usize,
    )
}

impl WakeTimer {
    #[inline]
    pub(crate) fn of(timer: &Timer) -> Self {
        let engine = &timer.inner;
        // Each engine has a first shard.
        engine.on_shard(0, (), |producer| {
            producer.thread.handles_made.add(1);
        });
        Self::new(Some(timer), Hold::Future)
    }

    /// Like [`of`](Self::of), without a reference count.
    #[inline]
    pub(crate) fn of_static(timer: &'static Timer) -> Self {
        Self::new(Some(timer), Hold::Static)
    }

    /// Returns one that has an engine only while a timer is armed, by [`arm_on`](Self::arm_on).
    #[cfg(feature = "__internal")]
    #[inline]
    pub(crate) fn of_none() -> Self {
        Self::new(None, Hold::Node)
    }

    #[inline]
    fn new(timer: Option<&Timer>, hold: Hold) -> Self {
        Self {
            engine: timer.map(|timer| EngineRef::new(&timer.inner)),
            waker: (0, 0),
            look: 0,
            armed: None,
            shard: 0,
            hold,
            stage: Stage::Elapsed,
        }
    }

    /// Returns whether it has an engine: always, or while a timer is armed.
    #[cfg(feature = "__internal")]
    #[inline]
    pub(crate) fn has_engine(&self) -> bool {
        self.engine.is_some()
    }

    /// Gives a long timeout its slack, on the shared engine.
    pub(crate) fn of_timeout(&self, when: When) -> When {
        if self.hold == Hold::Static {
            when.with_usual_slack()
        } else {
            when
        }
    }

    /// Returns the engine's clock.
    #[inline]
    fn clock(&self) -> &TimeSource {
        match &self.engine {
            Some(engine) => &engine.source,
            None => TimeSource::machine(),
        }
    }

    /// Returns the deadline of a timer that is set now, before it is rounded to a tick.
    #[inline]
    pub(crate) fn time(&self, when: When) -> Time {
        self.clock().point(when)
    }

    /// Returns the time, never ahead of the clock.
    pub(crate) fn now(&self) -> Time {
        self.clock().now()
    }

    /// Returns whether a point in time has passed. Where the quick clock is not there yet, the clock is not read: it is
    /// never ahead of the quick one.
    pub(crate) fn has_passed(&self, point: Time) -> bool {
        let clock = self.clock();
        point.has_passed(clock.start_of_delay()) && point.has_passed(clock.now())
    }

    /// Returns whether a sleep that is not armed is over at its first poll.
    #[inline]
    pub(crate) fn is_over(&mut self, deadline: Time) -> bool {
        match self.stage {
            Stage::Elapsed => true,
            Stage::Unchecked if self.has_passed(deadline) => {
                self.stage = Stage::Elapsed;
                true
            }
            _ => false,
        }
    }

    /// Arms the timer, which must not be armed.
    pub(crate) fn arm(&mut self, deadline: Time, waker: &Waker) -> Result<(), ScheduleErrorKind> {
        debug_assert!(self.armed.is_none(), "let go of before");
        match self.engine {
            Some(engine) => self.arm_at(engine, deadline, waker),
            None => Err(ScheduleErrorKind::Stopped),
        }
    }

    /// Like [`arm`](Self::arm), of one that has no engine: on this one, which the timer's node holds.
    #[cfg(feature = "__internal")]
    #[inline]
    pub(crate) fn arm_on(
        &mut self,
        timer: &Timer,
        deadline: Time,
        waker: &Waker,
    ) -> Result<(), ScheduleErrorKind> {
        debug_assert!(self.hold == Hold::Node && self.armed.is_none());
        self.arm_at(EngineRef::new(&timer.inner), deadline, waker)
    }

    /// Arms the timer on this engine, which lives until then.
    #[inline(always)]
    fn arm_at(
        &mut self,
        engine: EngineRef<TimerTask>,
        deadline: Time,
        waker: &Waker,
    ) -> Result<(), ScheduleErrorKind> {
        // Of the user's, and before anything is armed.
        let waker = waker.clone();
        let identity = identity(&waker);
        let tick = engine.rate.deadline_at(deadline);
        let scheduled = offer(TimerTask::waking(waker), |task| {
            let place = |shard: &ShardHandle<_>, armed: Armed| (shard.id, armed.index);
            engine.schedule(tick, task, true, place)
        });
        match scheduled {
            Ok((shard, index)) => {
                (self.engine, self.waker) = (Some(engine), identity);
                (self.shard, self.armed) = (shard, NonZeroU32::new(!index));
                Ok(())
            }
            Err(error) => {
                let (kind, task) = error.into_parts();
                forget(task);
                Err(kind)
            }
        }
    }

    /// Returns the timer that is armed, and its engine.
    #[inline]
    fn armed(&self) -> Option<(EngineRef<TimerTask>, Place)> {
        Some((self.engine?, self.place()?))
    }

    #[inline]
    fn place(&self) -> Option<Place> {
        Some(Place::new(self.shard, !self.armed?.get()))
    }

    /// Notes that no timer is armed any more, before its node is released.
    #[inline]
    fn let_go(&mut self) {
        self.armed = None;
        if self.hold == Hold::Node {
            self.engine = None;
        }
    }

    /// Returns the state of the timer, which was armed; if it is pending it wakes `waker` from now on. Once it has
    /// ended it is let go of.
    #[inline]
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<(), ScheduleErrorKind>> {
        if let Some((engine, place)) = self.armed() {
            match engine.phase_of(place) {
                Phase::Fired => {
                    self.release(engine, place);
                    return Poll::Ready(Ok(()));
                }
                Phase::Pending
                    if self.waker == identity(waker)
                        && engine.status.phase() != EnginePhase::Init =>
                {
                    return Poll::Pending;
                }
                _ => {}
            }
        }
        self.poll_apart(waker)
    }

    /// Like [`poll`](Self::poll), of a timer that was returned, or that waits for another waker or in a fork. Apart, so
    /// that the usual poll needs no room for what this returns.
    #[cold]
    #[inline(never)]
    fn poll_apart(&mut self, waker: &Waker) -> Poll<Result<(), ScheduleErrorKind>> {
        let Some((engine, place)) = self.armed() else {
            return Poll::Ready(Err(ScheduleErrorKind::Stopped));
        };
        if engine.phase_of(place) == Phase::Pending {
            // Armed before a fork, it does not fire here, unless this process does by hand.
            if engine.status.phase() == EnginePhase::Init {
                if let Err(kind) = engine.ready() {
                    self.disarm();
                    return Poll::Ready(Err(kind));
                }
            }
            if self.waker == identity(waker) {
                return Poll::Pending;
            }
            if let Some(armed) = self.rearm(&engine, place, waker) {
                return armed.map_or_else(|kind| Poll::Ready(Err(kind)), |()| Poll::Pending);
            }
        }
        let ended = if engine.phase_of(place) == Phase::Fired {
            Ok(())
        } else {
            Err(engine.why_closed(place.shard()))
        };
        self.release(engine, place);
        Poll::Ready(ended)
    }

    /// Lets go of a timer that has ended. Its payload is gone: there is nothing to cancel.
    #[inline]
    fn release(&mut self, engine: EngineRef<TimerTask>, place: Place) {
        self.let_go();
        let release = |producer: Producer<'_, TimerTask>| producer.release(place.index());
        // Perhaps the last use of the engine.
        engine.on_shard(place.shard(), (), release);
    }

    /// Returns whether the timer is armed and has fired.
    pub(crate) fn has_fired(&self) -> bool {
        self.armed()
            .is_some_and(|(engine, place)| engine.phase_of(place) == Phase::Fired)
    }

    /// Puts a timer that wakes `waker` in the place of the armed one; `None` if that has ended.
    fn rearm(
        &mut self,
        engine: &EngineRef<TimerTask>,
        place: Place,
        waker: &Waker,
    ) -> Option<Result<(), ScheduleErrorKind>> {
        // Of the user's, and before anything is done.
        let waker = waker.clone();
        let identity = identity(&waker);
        let task = TimerTask::waking(waker);
        // The node is this engine's, so there is a shard of this number.
        let replaced = engine.on_shard(place.shard(), None, |producer| {
            // Between two timers no node is counted.
            producer.thread.handles_made.add(1);
            let replaced = producer.replace(place.index(), task);
            if matches!(replaced, Ok((_, Err(_)))) {
                self.let_go();
            }
            producer.thread.handles_dropped.add(1);
            Some(replaced)
        })?;
        let (before, scheduled) = match replaced {
            Ok(replaced) => replaced,
            Err(refused) => {
                forget(refused);
                return None;
            }
        };
        // Before the old one goes, whose destructor may do anything.
        let (armed, answer) = match scheduled {
            Ok(key) => (NonZeroU32::new(!key.index()), Ok(())),
            Err(error) => {
                let (kind, task) = error.into_parts();
                forget(task);
                (None, Err(kind))
            }
        };
        (self.armed, self.waker) = (armed, identity);
        forget(before);
        Some(answer)
    }

    /// Sets another deadline, which is returned; `before` was the one before.
    ///
    /// An armed timer is moved. If its time has come, or if it is pulled in to what has passed, it is let go of, and its
    /// waker has been woken.
    pub(crate) fn reset(&mut self, when: When, before: Time) -> Time {
        let Some((engine, place)) = self.armed() else {
            self.stage = Stage::new(when);
            return self.time(when);
        };
        let Deadline { mut nominal, tick } = engine.source.deadline(&engine.rate, when);
        if when.is_now() {
            nominal = self.now();
        }
        // No clock is read for a deadline that is pushed out.
        if when.is_now() || nominal < before && self.has_passed(nominal) {
            self.stage = Stage::Elapsed;
        } else if let Some(look) = engine.on_shard(place.shard(), None, |producer| {
            producer.move_alone(place.index(), tick, self.look)
        }) {
            self.look = look;
            return nominal;
        } else {
            // It has ended.
            self.stage = Stage::new(when);
        }
        if let Some(waker) = self.end() {
            contain::catch_and_log("a waker", || waker.wake());
        }
        nominal
    }

    /// Cancels the timer, if it is pending, and lets go of it.
    #[inline]
    pub(crate) fn disarm(&mut self) {
        if let Some(waker) = self.end() {
            contain::drop_quietly("a waker", waker);
        }
    }

    /// Cancels the timer, if it is pending, lets go of it, and returns its waker.
    #[inline]
    fn end(&mut self) -> Option<Waker> {
        let (engine, place) = self.armed()?;
        self.let_go();
        engine.on_shard(place.shard(), None, |producer| end_held(producer, place))
    }
}

impl Drop for WakeTimer {
    #[inline]
    fn drop(&mut self) {
        let Some(engine) = self.engine else { return };
        let is_counted = self.hold == Hold::Future;
        let Some(place) = self.place() else {
            if is_counted {
                // The count is summed over all shards, so any shard may count this one.
                engine.on_shard(0, (), |producer| _ = producer.thread.handles_dropped.add(1));
            }
            return;
        };
        let waker = engine.on_shard(place.shard(), None, |producer| {
            let waker = end_held(producer, place);
            if is_counted {
                // The last use of the engine.
                producer.thread.handles_dropped.add(1);
            }
            waker
        });
        if let Some(waker) = waker {
            contain::drop_quietly("a waker", waker);
        }
    }
}

/// Cancels a future's timer, if it is pending, releases its node, and returns its waker.
#[inline(always)] // of every drop
fn end_held(producer: Producer<'_, TimerTask>, place: Place) -> Option<Waker> {
    producer.end_held(place.index(), |task| task.try_into_waker().ok())?
}

impl Inner<TimerTask> {
    /// Returns the phase of the timer behind a node, which the caller holds.
    #[inline]
    fn phase_of(&self, place: Place) -> Phase {
        let handle = self.handles.get(place.shard());
        handle.map_or(Phase::Returned, |handle| {
            handle.table.held_state(place.index()).phase()
        })
    }
}

/// Drops the waker of a task without waking it.
#[inline]
fn forget(task: TimerTask) {
    if let Ok(waker) = task.try_into_waker() {
        contain::drop_quietly("a waker", waker);
    }
}
