//! `RemoteKey`: the name of a timer that a remote has scheduled.

use super::REMOTES;
use crate::types::{Key, RawKey};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Names a timer that a [`Remote`](super::Remote) has scheduled, for ever.
///
/// It is a [`Key`] that remotes may use, and becomes one by `into`: the loop takes both, a remote takes this one only.
/// What the loop itself has scheduled no other thread can cancel, move or ask about, so there is no way from its key to
/// this.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{EventLoopTimer, Key, RemoteKey, Settings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timer: EventLoopTimer<u64> = EventLoopTimer::with_waker(Settings::new(), || ())?;
/// let (remote, minute) = (timer.remote(), Duration::from_secs(60));
/// let theirs: RemoteKey<u64> = remote.schedule(minute, 17)?;
/// let own: Key<u64> = timer.schedule(timer.now(), minute, 18)?;
/// assert!(remote.is_pending(theirs) && timer.is_pending(theirs) && timer.is_pending(own));
/// // The numbers of keys tell as well, for what comes back as one: from a handler, a log,
/// // foreign code.
/// assert_eq!(RemoteKey::from_raw(Key::from(theirs).to_raw()), Some(theirs));
/// assert_eq!(RemoteKey::<u64>::from_raw(own.to_raw()), None);
/// # Ok(()) }
/// ```
///
/// ```compile_fail,E0308
/// # use std::time::Duration;
/// # use tickwheel::{EventLoopTimer, Settings};
/// # let mut timer: EventLoopTimer<u64> = EventLoopTimer::with_waker(Settings::new(), || ()).unwrap();
/// let own = timer.schedule(timer.now(), Duration::from_secs(60), 18).unwrap();
/// timer.remote().cancel(own);
/// ```
pub struct RemoteKey<T>(Key<T>);

impl<T> RemoteKey<T> {
    /// Makes a key of what a remote has scheduled one that says so.
    pub(super) const fn new(key: Key<T>) -> Self {
        Self(key)
    }

    /// Returns the key without its payload's type.
    #[must_use]
    pub const fn to_raw(self) -> RawKey {
        self.0.to_raw()
    }

    /// Returns the key that [`to_raw`](Self::to_raw) was called on; `None` for the key of a loop's own timer.
    #[must_use]
    pub fn from_raw(raw: RawKey) -> Option<Self> {
        (raw.shard() == usize::from(REMOTES)).then(|| Self(Key::from_raw(raw)))
    }
}

impl<T> From<RemoteKey<T>> for Key<T> {
    fn from(key: RemoteKey<T>) -> Self {
        key.0
    }
}

impl<T> Clone for RemoteKey<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RemoteKey<T> {}

impl<T> PartialEq for RemoteKey<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for RemoteKey<T> {}

impl<T> PartialOrd for RemoteKey<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for RemoteKey<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Hash for RemoteKey<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// As the [`RawKey`].
impl<T> fmt::Display for RemoteKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> fmt::Debug for RemoteKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteKey({self})")
    }
}
