//! `DelayQueue` with the calls of `tokio-util`.
//!
//! For programs that come from there: each call has the same name, arguments and answer as in `tokio_util::time`, and
//! panics for a stale key as it does; only [`peek`](DelayQueue::peek) may name an item that comes out later than another
//! one. [`DelayQueue`](crate::DelayQueue), which it is made of, panics for none, and returns the error of an engine that
//! is stopped.

use super::Instant;
use std::fmt;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tickwheel::RawKey;

/// Items that come out when their time has come, with the calls of `tokio_util::time::DelayQueue`.
///
/// A key stays stale for ever once its item has come out. The task is woken at the old deadline of an item that was the
/// first of all and moved back or was removed, and waits again. With the feature `stream` this is a `Stream`.
///
/// ```
/// use std::future::poll_fn;
/// use tickwheel_util::time::{DelayQueue, Duration};
///
/// # smol::block_on(async {
/// let mut sessions = DelayQueue::new();
/// let anna = sessions.insert("Anna", Duration::from_secs(60));
/// let bert = sessions.insert("Bert", Duration::from_millis(2));
/// sessions.reset(&anna, Duration::from_millis(4)); // seen again
/// let gone = poll_fn(|cx| sessions.poll_expired(cx)).await.unwrap();
/// assert_eq!((gone.key(), gone.into_inner()), (bert, "Bert"));
/// assert_eq!(sessions.remove(&anna).into_inner(), "Anna");
/// assert!(sessions.is_empty() && sessions.try_remove(&anna).is_none());
/// # });
/// ```
#[must_use = "items come out only of a queue that is polled"]
pub struct DelayQueue<T> {
    items: crate::DelayQueue<T>,
}

/// Names an item of a [`DelayQueue`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(RawKey);

/// An item that has come out of a [`DelayQueue`].
#[derive(Debug)]
pub struct Expired<T> {
    item: T,
    deadline: Instant,
    key: Key,
}

impl<T> Expired<T> {
    /// Returns the item.
    pub const fn get_ref(&self) -> &T {
        &self.item
    }

    /// Returns the item, to be changed.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.item
    }

    /// Returns the item.
    pub fn into_inner(self) -> T {
        self.item
    }

    /// Returns when the item was due, rounded up to the tick.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the key that the item had.
    #[must_use]
    pub const fn key(&self) -> Key {
        self.key
    }
}

impl Key {
    const fn typed<T>(self) -> tickwheel::Key<T> {
        tickwheel::Key::from_raw(self.0)
    }
}

/// Ends a call that has no answer for a stale key.
#[track_caller]
fn stale() -> ! {
    panic!("no item has this key: it has come out, or was removed")
}

impl<T> DelayQueue<T> {
    /// Makes an empty queue.
    ///
    /// # Panics
    ///
    /// Like [`crate::DelayQueue::new`].
    pub fn new() -> Self {
        Self {
            items: crate::DelayQueue::new(),
        }
    }

    /// Makes an empty queue with room for `capacity` items.
    ///
    /// # Panics
    ///
    /// Like [`crate::DelayQueue::new`].
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            items: crate::DelayQueue::with_capacity(capacity),
        }
    }

    /// Inserts an item that comes out after `timeout`.
    ///
    /// # Panics
    ///
    /// If the queue holds 2^32 - 1 items, or there is no memory for the item.
    #[track_caller]
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        Key(self.items.insert(value, timeout).to_raw())
    }

    /// Inserts an item that comes out at `when`.
    ///
    /// # Panics
    ///
    /// Like [`insert`](Self::insert).
    #[track_caller]
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
        let when = self.items.sleep().when(when);
        Key(self.items.insert(value, when).to_raw())
    }

    /// Polls for the next item whose time has come; `None` if the queue is empty.
    ///
    /// # Panics
    ///
    /// If the process's engine is stopped; see [`tickwheel::sleep()`].
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        let next = ready!(self.items.poll_expired(cx));
        Poll::Ready(next.map(|expired| {
            let expired =
                expired.unwrap_or_else(|error| panic!("the engine has no timer: {error}"));
            Expired {
                item: expired.payload,
                deadline: self.items.sleep().instant_of(expired.deadline),
                key: Key(expired.key.to_raw()),
            }
        }))
    }

    /// Takes an item out before its time; `None` if it has come out.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let deadline = self.items.deadline(key.typed())?;
        let deadline = self.items.sleep().instant_of(deadline);
        let item = self.items.remove(key.typed())?;
        Some(Expired {
            item,
            deadline,
            key: *key,
        })
    }

    /// Takes an item out before its time.
    ///
    /// # Panics
    ///
    /// If it has come out; [`try_remove`](Self::try_remove) does not.
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        match self.try_remove(key) {
            Some(expired) => expired,
            None => stale(),
        }
    }

    /// Lets an item come out `timeout` from now instead.
    ///
    /// # Panics
    ///
    /// If it has come out.
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        if !self.items.reset(key.typed(), timeout).is_moved() {
            stale()
        }
    }

    /// Lets an item come out at `when` instead.
    ///
    /// # Panics
    ///
    /// If it has come out.
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, when: Instant) {
        let when = self.items.sleep().when(when);
        if !self.items.reset(key.typed(), when).is_moved() {
            stale()
        }
    }

    /// Returns when an item is due, rounded up to the tick.
    ///
    /// # Panics
    ///
    /// If it has come out.
    #[must_use]
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        match self.items.deadline(key.typed()) {
            Some(deadline) => self.items.sleep().instant_of(deadline),
            None => stale(),
        }
    }

    /// Returns the key of an item with the earliest deadline. O(peak number of items).
    ///
    /// A poll may take another item first if both are due in the same tick, or were due already when they were inserted
    /// or moved. tokio-util's names the item that comes out next.
    #[must_use]
    pub fn peek(&self) -> Option<Key> {
        self.items.peek().map(|key| Key(key.to_raw()))
    }

    /// Drops all items. O(peak number of items).
    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// Returns how many items there is room for without another allocation.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.items.capacity()
    }

    /// Returns how many items there are, those that are due and were not taken included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Makes room for `additional` more items, if there is memory for them.
    pub fn reserve(&mut self, additional: usize) {
        self.items.reserve(additional);
    }

    /// Gives memory back that no item needs. Keys stay as they are. O(peak number of items).
    pub fn shrink_to_fit(&mut self) {
        self.items.shrink_to_fit();
    }

    /// Like [`shrink_to_fit`](Self::shrink_to_fit).
    pub fn compact(&mut self) {
        self.shrink_to_fit();
    }
}

#[cfg(feature = "stream")]
impl<T> futures_core::Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        self.poll_expired(cx)
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
        self.items.fmt(f)
    }
}
