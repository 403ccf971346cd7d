//! What a test does with a timer of any front, in one shape.
//!
//! A front either knows the time (an engine, a remote) or is told it (an event loop's timer, a local one): those that
//! know it take no notice of `now`. That is all that differs.

use tickwheel::{
    Cancel, EventLoopTimer, Key, LocalTimer, Period, Remote, RemoteKey, Time, Timer, When,
};

/// See the module. Payloads are cloned by periodic timers only.
pub(crate) trait Hand<T: Clone> {
    /// `None` if the timer is refused.
    fn arm(&mut self, now: Time, when: When, payload: T) -> Option<Key<T>>;
    /// `None` if the timer is refused.
    fn arm_periodic(
        &mut self,
        now: Time,
        first: When,
        period: Period,
        payload: T,
    ) -> Option<Key<T>>;
    fn move_to(&mut self, now: Time, key: Key<T>, when: When) -> bool;
    fn cancel(&mut self, key: Key<T>) -> Cancel<T>;
    /// The deadline, if the timer is pending.
    fn deadline(&self, key: Key<T>) -> Option<Time>;
    fn pending(&self) -> usize;
}

impl<T: Clone + Send + 'static> Hand<T> for Timer<T> {
    fn arm(&mut self, _: Time, when: When, payload: T) -> Option<Key<T>> {
        self.schedule(when, payload).ok()
    }

    fn arm_periodic(&mut self, _: Time, first: When, period: Period, payload: T) -> Option<Key<T>> {
        self.schedule_periodic(first, period, payload).ok()
    }

    fn move_to(&mut self, _: Time, key: Key<T>, when: When) -> bool {
        self.reschedule(key, when).is_moved()
    }

    fn cancel(&mut self, key: Key<T>) -> Cancel<T> {
        Self::cancel(self, key)
    }

    fn deadline(&self, key: Key<T>) -> Option<Time> {
        agreed(Self::deadline(self, key), self.is_pending(key))
    }

    fn pending(&self) -> usize {
        Self::pending(self)
    }
}

impl<T: Clone + Send + 'static> Hand<T> for Remote<T> {
    fn arm(&mut self, _: Time, when: When, payload: T) -> Option<Key<T>> {
        self.schedule(when, payload).ok().map(Key::from)
    }

    fn arm_periodic(&mut self, _: Time, first: When, period: Period, payload: T) -> Option<Key<T>> {
        self.schedule_periodic(first, period, payload)
            .ok()
            .map(Key::from)
    }

    fn move_to(&mut self, _: Time, key: Key<T>, when: When) -> bool {
        its(key).is_some_and(|key| self.reschedule(key, when).is_moved())
    }

    fn cancel(&mut self, key: Key<T>) -> Cancel<T> {
        its(key).map_or(Cancel::Gone, |key| Self::cancel(self, key))
    }

    fn deadline(&self, key: Key<T>) -> Option<Time> {
        let key = its(key)?;
        agreed(Self::deadline(self, key), self.is_pending(key))
    }

    fn pending(&self) -> usize {
        Self::pending(self)
    }
}

/// The key as remotes take it, unless it can be no remote's.
fn its<T>(key: Key<T>) -> Option<RemoteKey<T>> {
    RemoteKey::from_raw(key.to_raw())
}

impl<T: Clone + Send + 'static> Hand<T> for EventLoopTimer<T> {
    fn arm(&mut self, now: Time, when: When, payload: T) -> Option<Key<T>> {
        self.schedule(now, when, payload).ok()
    }

    fn arm_periodic(
        &mut self,
        now: Time,
        first: When,
        period: Period,
        payload: T,
    ) -> Option<Key<T>> {
        self.schedule_periodic(now, first, period, payload).ok()
    }

    fn move_to(&mut self, now: Time, key: Key<T>, when: When) -> bool {
        self.reschedule(now, key, when).is_moved()
    }

    fn cancel(&mut self, key: Key<T>) -> Cancel<T> {
        Self::cancel(self, key)
    }

    fn deadline(&self, key: Key<T>) -> Option<Time> {
        agreed(Self::deadline(self, key), self.is_pending(key))
    }

    fn pending(&self) -> usize {
        Self::pending(self)
    }
}

impl<T: Clone> Hand<T> for LocalTimer<T> {
    fn arm(&mut self, now: Time, when: When, payload: T) -> Option<Key<T>> {
        self.schedule(now, when, payload).ok()
    }

    fn arm_periodic(
        &mut self,
        now: Time,
        first: When,
        period: Period,
        payload: T,
    ) -> Option<Key<T>> {
        self.schedule_periodic(now, first, period, payload).ok()
    }

    fn move_to(&mut self, now: Time, key: Key<T>, when: When) -> bool {
        self.reschedule(now, key, when).is_moved()
    }

    fn cancel(&mut self, key: Key<T>) -> Cancel<T> {
        Self::cancel(self, key)
    }

    fn deadline(&self, key: Key<T>) -> Option<Time> {
        agreed(Self::deadline(self, key), self.is_pending(key))
    }

    fn pending(&self) -> usize {
        Self::pending(self)
    }
}

/// A timer has a deadline as long as it is pending.
fn agreed(deadline: Option<Time>, is_pending: bool) -> Option<Time> {
    assert_eq!(deadline.is_some(), is_pending);
    deadline
}
