//! `DelayQueue`: items that come out when their time has come.
//!
//! A queue belongs to one task at a time, so its items lie in a [`LocalTimer`], where inserting, moving and removing
//! take no atomic. All of them together have one [`Sleep`], which is armed for the earliest deadline while a task
//! waits: a million items cost the engine one timer.

use crate::engine::{EngineSleep, cooperate, current};
use crate::quietly;
use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tickwheel::{
    Expired, Key, LocalTimer, Reschedule, ScheduleError, SleepError, Time, Timer, Unfired, When,
};

/// Items that come out when their time has come: to be polled by one task, for any runtime.
///
/// Made by [`new`](Self::new) on the runtime's engine or the process's, and by [`on`](Self::on) on one of your own. It is
/// what `tokio-util` has under the same name, without its tick: items come out in the order of their deadlines, never
/// early, and within the engine's tick. Of items that are due in the same tick, or were due already when they were
/// inserted or moved, any may be first. Of a tick with more than 16 384 items, and of as many overdue ones, the rest takes
/// turns with what is due later: see [`Budget`](tickwheel::Budget). With the feature `stream` it is a `Stream`.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_util::DelayQueue;
///
/// # async fn watch() -> Result<(), tickwheel::SleepError> {
/// let mut sessions = DelayQueue::new();
/// let anna = sessions.insert("Anna", Duration::from_millis(5));
/// let bert = sessions.insert("Bert", Duration::from_millis(8));
/// sessions.reset(anna, Duration::from_millis(10)); // seen again: two words are written
/// while let Some(expired) = sessions.next_expired().await {
///     println!("{} has been gone for too long", expired?.payload);
/// }
/// assert_eq!(
///     sessions.remove(bert),
///     None,
///     "a key of an item that has come out is stale for ever"
/// );
/// # Ok(()) }
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let mut future = std::pin::pin!(future);
/// #     struct Thread(std::thread::Thread);
/// #     impl std::task::Wake for Thread { fn wake(self: std::sync::Arc<Self>) { self.0.unpark(); } }
/// #     let waker = std::sync::Arc::new(Thread(std::thread::current())).into();
/// #     loop {
/// #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
/// #             std::task::Poll::Ready(output) => return output,
/// #             std::task::Poll::Pending => std::thread::park(),
/// #         }
/// #     }
/// # }
/// # block_on(watch()).unwrap();
/// ```
///
/// By hand, and what else it can do:
///
/// ```
/// use std::task::{Context, Poll, Waker};
/// use std::time::{Duration, Instant};
/// use tickwheel_util::DelayQueue;
///
/// let minute = Duration::from_secs(60);
/// let mut queue = DelayQueue::with_capacity(2);
/// let first = queue.insert("first", Instant::now() + minute);
/// let second = queue.insert("second", Duration::ZERO);
/// assert_eq!((queue.len(), queue.get(first)), (2, Some(&"first")));
///
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(
///     matches!(queue.poll_expired(&mut cx), Poll::Ready(Some(Ok(due))) if due.key == second)
/// );
/// assert!(queue.poll_expired(&mut cx).is_pending());
/// assert!(queue.reset(first, Instant::now() + 2 * minute).is_moved());
/// if let Some(value) = queue.get_mut(first) {
///     *value = "moved";
/// }
/// assert!(queue.deadline(first).is_some());
///
/// queue.reserve(100);
/// let left: Vec<_> = queue.drain().map(|item| item.payload).collect();
/// assert_eq!(left, ["moved"]);
/// queue.clear();
/// queue.shrink_to_fit();
/// assert!(queue.is_empty());
/// ```
///
/// * All calls are O(1) unless they say otherwise; none of them allocates but for a queue that grows.
/// * The engine has one timer for the whole queue, while a task waits for it. An item that is inserted or moved in
///   front of all others moves that timer; the task is not woken for it.
/// * The task is woken at the old deadline of an item that was the first of all and moved back or was removed, and
///   waits again.
/// * A task that found the queue empty is woken by the next item, wherever it is inserted from; one that waits is woken
///   when the last item is taken away.
/// * Dropping the queue drops its items.
#[must_use = "items come out only of a queue that is polled"]
pub struct DelayQueue<T> {
    items: LocalTimer<T>,
    sleep: EngineSleep,
    /// The sleep is under way, with the waker of the latest poll.
    waiting: bool,
    /// The engine is the runtime's, which may shut down before.
    is_runtimes: bool,
    /// The engine's clock as it was read last: what was due then is due.
    now: Time,
    /// Of the task that found the queue empty.
    idle: Option<Waker>,
}

impl<T> DelayQueue<T> {
    /// An empty queue on the engine of the runtime that this is called in, or on the process's; see
    /// [`time`](crate::time). It outlives the runtime: it goes on by the process's then.
    ///
    /// # Panics
    ///
    /// As [`sleep()`](tickwheel::sleep()).
    pub fn new() -> Self {
        Self {
            sleep: EngineSleep::here(Time::MAX.into()),
            is_runtimes: true,
            ..Self::on(&current())
        }
    }

    /// As [`new`](Self::new), with room for so many items: inserting them allocates nothing but wheel.
    ///
    /// # Panics
    ///
    /// As [`sleep()`](tickwheel::sleep()).
    pub fn with_capacity(items: usize) -> Self {
        let mut queue = Self::new();
        queue.reserve(items);
        queue
    }

    /// An empty queue on an engine of your own, which need not outlive it: the queue keeps its memory, not its workers.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    /// use tickwheel_util::DelayQueue;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let mut leases = DelayQueue::on(&timer);
    /// leases.insert("lease", Duration::from_secs(60));
    /// # Ok(()) }
    /// ```
    pub fn on(timer: &Timer) -> Self {
        // With the engine's own tick an item is rounded up once, not twice.
        let items = LocalTimer::new(timer.tick()).expect("an engine has been built with this tick");
        let sleep = EngineSleep::on(timer, Time::MAX.into());
        Self {
            items,
            sleep,
            waiting: false,
            is_runtimes: false,
            now: Time::ZERO,
            idle: None,
        }
    }

    /// Inserts an item that comes out after a while, or at a point in time ([`When`]), rounded up to the engine's tick.
    ///
    /// A zero delay comes out at the next poll, and so does a point in time that has passed.
    ///
    /// # Panics
    ///
    /// If the queue holds 2^32 - 1 items, or there is no memory for the item, which is dropped then;
    /// [`try_insert`](Self::try_insert) gives it back instead.
    #[track_caller]
    pub fn insert(&mut self, value: T, when: impl Into<When>) -> Key<T> {
        match self.try_insert(value, when) {
            Ok(key) => key,
            Err(error) => panic!("the queue takes no item: {}", error.kind()),
        }
    }

    /// As [`insert`](Self::insert), for queues that may find no room.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel_util::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// match queue.try_insert("session", Duration::from_secs(60)) {
    ///     Ok(key) => assert!(queue.remove(key).is_some()),
    ///     Err(error) => println!("{} finds no room: {}", error.payload(), error.kind()),
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the queue holds 2^32 - 1 items, or there is no memory for the item. It comes back in the error.
    pub fn try_insert(
        &mut self,
        value: T,
        when: impl Into<When>,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let when = self.told_now(when.into());
        self.pull_in(when);
        let key = self.items.schedule(self.now, when, value)?;
        if let Some(waker) = self.idle.take() {
            // The key must get out whatever the waker does.
            quietly(|| waker.wake());
        }
        Ok(key)
    }

    /// Takes an item out before its time; `None` if it has come out already.
    pub fn remove(&mut self, key: Key<T>) -> Option<T> {
        let value = self.items.cancel(key).into_payload();
        if self.items.is_empty() {
            self.wake_for_the_end();
        }
        value
    }

    /// Lets an item come out after a while from now, or at a point in time, instead.
    pub fn reset(&mut self, key: Key<T>, when: impl Into<When>) -> Reschedule {
        let when = self.told_now(when.into());
        if self.items.is_pending(key) {
            self.pull_in(when);
        }
        self.items.reschedule(self.now, key, when)
    }

    /// Returns the one sleep of all items.
    pub(crate) const fn sleep(&self) -> &EngineSleep {
        &self.sleep
    }

    /// Puts what a caller asks for on the scale of the engine's clock, and reads that.
    fn told_now(&mut self, when: When) -> Time {
        let time = self.sleep.time_of(when);
        self.read_clock();
        time
    }

    fn read_clock(&mut self) {
        self.now = self.sleep.now().max(self.now);
    }

    /// Lets the waiting task see an item with this deadline in time. Before the item is there: this reads the clock, and
    /// whoever gets no key because that panics has left no item behind.
    fn pull_in(&mut self, deadline: Time) {
        if self.waiting && deadline < self.sleep.deadline() {
            // The waker stays where it is. If the sleep is over already, it has been woken.
            self.sleep.reset(deadline);
        }
    }

    /// Wakes the waiting task, because the queue is empty: it need not wait until an item would have been due.
    fn wake_for_the_end(&mut self) {
        if std::mem::take(&mut self.waiting) {
            self.sleep.reset(Duration::ZERO);
        }
    }

    /// The next item whose time has come. `None` if the queue is empty: the task is woken when it is not any more.
    ///
    /// A call that is dropped before it is ready loses nothing.
    ///
    /// # Errors
    ///
    /// As a [`Sleep`](tickwheel::Sleep): if the engine takes no timer or is stopped. The items stay, the next call tries
    /// again, and [`drain`](Self::drain) has them all.
    pub async fn next_expired(&mut self) -> Option<Result<Expired<T>, SleepError>> {
        poll_fn(|cx| self.poll_expired(cx)).await
    }

    /// As [`next_expired`](Self::next_expired), for those who write futures by hand.
    ///
    /// # Errors
    ///
    /// As [`next_expired`](Self::next_expired).
    pub fn poll_expired(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Expired<T>, SleepError>>> {
        cooperate(cx, |cx| self.poll_items(cx))
    }

    fn poll_items(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Expired<T>, SleepError>>> {
        loop {
            if self.items.is_empty() {
                self.wait_for_an_item(cx.waker());
                return Poll::Ready(None);
            }
            if let Some(expired) = self.take_due() {
                return Poll::Ready(Some(Ok(expired)));
            }
            let next = self.items.next_deadline().unwrap_or(Time::MAX);
            if !self.waiting || next != self.sleep.deadline() {
                self.sleep.reset(next);
            }
            let ended = self.sleep.poll_sleep(cx);
            self.waiting = ended.is_pending();
            if let Err(error) = ready!(ended) {
                if !std::mem::take(&mut self.is_runtimes) {
                    return Poll::Ready(Some(Err(error)));
                }
                self.sleep.leave();
            }
        }
    }

    /// The first item that is due. The clock is read if none was due when it was read last.
    fn take_due(&mut self) -> Option<Expired<T>> {
        if let due @ Some(_) = self.items.expired(self.now).next() {
            return due;
        }
        self.read_clock();
        self.items.expired(self.now).next()
    }

    #[cold]
    fn wait_for_an_item(&mut self, waker: &Waker) {
        self.sleep.cancel();
        self.waiting = false;
        if !self.idle.as_ref().is_some_and(|idle| idle.will_wake(waker)) {
            let before = self.idle.replace(waker.clone());
            quietly(|| drop(before));
        }
    }

    /// When an item is due, rounded up to the engine's tick, if it has not come out.
    #[must_use]
    pub fn deadline(&self, key: Key<T>) -> Option<Time> {
        self.items.deadline(key)
    }

    /// An item that has not come out.
    #[must_use]
    pub fn get(&self, key: Key<T>) -> Option<&T> {
        self.items.get(key)
    }

    /// An item that has not come out, to be changed.
    #[must_use]
    pub fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        self.items.get_mut(key)
    }

    /// How many items there are, those that are due and have not been taken included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.pending()
    }

    /// Whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Takes all items out, in no particular order; those that the iterator has not come to when it is dropped are
    /// dropped with it; if it is forgotten, they stay. O(peak number of items).
    pub fn drain(&mut self) -> impl Iterator<Item = Unfired<T>> {
        self.wake_for_the_end();
        self.items.drain()
    }

    /// Drops all items. One whose destructor panics is logged, here and when the queue is dropped, and the others are
    /// dropped all the same. O(peak number of items).
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// Makes room for so many more items, if there is memory for it; see [`LocalTimer::reserve`](tickwheel::LocalTimer).
    pub fn reserve(&mut self, items: usize) {
        self.items.reserve(items);
    }

    /// Returns the items with their keys and deadlines, in no particular order. O(peak number of items).
    pub fn iter(&self) -> impl Iterator<Item = (Key<T>, Time, &T)> {
        self.items.iter()
    }

    /// Returns the key of an item with the earliest deadline. O(peak number of items): only a poll keeps them in order.
    ///
    /// A poll may take another item first if both are due in the same tick, or were due already when they were inserted
    /// or moved.
    #[must_use]
    pub fn peek(&self) -> Option<Key<T>> {
        self.items
            .keys()
            .min_by_key(|(_, deadline)| *deadline)
            .map(|(key, _)| key)
    }

    /// Returns how many items there is room for without another allocation.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.items.capacity()
    }

    /// Gives memory back that no item needs. O(peak number of items).
    pub fn shrink_to_fit(&mut self) {
        self.items.shrink_to_fit();
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// An item is never pinned.
impl<T> Unpin for DelayQueue<T> {}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("next_deadline", &self.items.next_deadline())
            .finish_non_exhaustive()
    }
}
