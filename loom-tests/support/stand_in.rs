//! The epoch's stand-in for models: the same rules, applied at once.
//!
//! A domain that a model asks for ([`check_the_next_domain`]) gives a retired box to its heir the moment that no
//! guard from before its retirement is left, so loom explores what comes of the box's next use as well. Until it
//! serves again the box is *dead*: whoever looks at it panics. So a guard that is taken after the load, or dropped
//! before the use, is found. Such a domain orders what the rules promise and nothing more (the real one's fences do),
//! by two counters: one of retirements, one of guards that have gone.
//!
//! Any other domain keeps what is retired until it is dropped itself: the counters would cover up weak orderings
//! elsewhere, and without them a thread may rightly see what was unlinked before its pin.

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::cell::UnsafeCell;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

thread_local! {
    static CHECK_THE_NEXT: Cell<bool> = const { Cell::new(false) };
}

/// The next domain made on this thread reclaims at once and checks what is reached under its guards.
pub(crate) fn check_the_next_domain() {
    CHECK_THE_NEXT.set(true);
}

#[derive(Debug)]
pub(crate) struct Domain(Arc<Book>);

/// A thread's place in a domain. Loom fails if one thread's use of it is not ordered before the next thread's.
#[derive(Debug)]
pub(crate) struct Participant {
    book: Arc<Book>,
    uses: Arc<Uses>,
}

/// What is known about guards and retired boxes. The lock is never held across anything that loom schedules.
#[derive(Default, Debug)]
struct Book {
    /// Whether a model has asked for this domain.
    checked: bool,
    pages: Mutex<Pages>,
    /// Carries what was done before a retirement to whoever pins after it, and to the box's heir.
    retirements: AtomicUsize,
    /// Carries what was done under a guard to the box's heir.
    departures: AtomicUsize,
}

#[derive(Default, Debug)]
struct Pages {
    /// The guards that exist, each by the number of pins and retirements before it.
    guards: BTreeSet<usize>,
    retired: Vec<Retired>,
    dead: BTreeSet<usize>,
    /// The boxes that have been announced ([`Domain::serves_again`]).
    uses: BTreeMap<usize, Arc<Uses>>,
    /// Pins and retirements so far.
    steps: usize,
}

struct Retired {
    address: usize,
    since: usize,
    give: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Retired({:#x})", self.address)
    }
}

/// The uses of a box, for loom, which fails if one is not ordered before its heir's; and those of a participant.
#[derive(Debug)]
struct Uses(UnsafeCell<()>);

// SAFETY: nothing is in there; loom checks that accesses are ordered.
unsafe impl Send for Uses {}
// SAFETY: as above.
unsafe impl Sync for Uses {}

/// A pin, which is in the book until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    book: Arc<Book>,
    since: usize,
    /// Those of its participant.
    uses: Arc<Uses>,
}

impl Uses {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(())))
    }

    fn note_change(&self) {
        self.0.with_mut(|_| ());
    }
}

impl Book {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn uses_of(&self, address: usize) -> Option<Arc<Uses>> {
        self.pages().uses.get(&address).cloned()
    }

    fn note_use(&self, address: usize) {
        self.uses_of(address).inspect(|uses| uses.0.with(|_| ()));
    }

    /// Gives every box to its heir that no guard protects.
    fn reclaim(&self) {
        let mut pages = self.pages();
        let oldest = pages.guards.first().copied().unwrap_or(usize::MAX);
        let retired = std::mem::take(&mut pages.retired);
        let (expired, kept): (Vec<_>, _) = retired.into_iter().partition(|it| it.since < oldest);
        pages.retired = kept;
        pages.dead.extend(expired.iter().map(|it| it.address));
        drop(pages);
        if !expired.is_empty() {
            // ORDERING: Acquire pairs with the Release in `Guard::drop`, that of the guard that retired the box too:
            // what was done to the box comes before its heir. [P27]
            self.departures.fetch_add(0, Ordering::Acquire);
        }
        for Retired { address, give, .. } in expired {
            self.uses_of(address).inspect(|uses| uses.note_change());
            give();
        }
    }
}

impl Domain {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Book {
            checked: CHECK_THE_NEXT.take(),
            ..Book::default()
        }))
    }

    pub(crate) fn register(&self) -> Participant {
        Participant {
            book: Arc::clone(&self.0),
            uses: Uses::new(),
        }
    }
}

impl Participant {
    pub(crate) fn pin(&self) -> Guard {
        self.uses.note_change();
        let mut pages = self.book.pages();
        pages.steps += 1;
        let since = pages.steps;
        pages.guards.insert(since);
        drop(pages);
        if self.book.checked {
            // ORDERING: Acquire pairs with the Release in `retire`: whoever pins after a retirement sees what was
            // unlinked before it. [P27]
            self.book.retirements.fetch_add(0, Ordering::Acquire);
        }
        Guard {
            book: Arc::clone(&self.book),
            since,
            uses: Arc::clone(&self.uses),
        }
    }
}

impl Guard {
    /// Nothing is ever left to do here.
    pub(crate) fn flush(&self) {}
}

/// As in the real form.
///
/// # Safety
///
/// As in the real form.
pub(crate) unsafe fn retire<T: Send + 'static>(
    guard: &Guard,
    retired: *mut T,
    heir: impl FnOnce(Box<T>) + Send + 'static,
) {
    let address = retired as usize;
    if guard.book.checked {
        guard.book.note_use(address);
        // ORDERING: Release pairs with the Acquire in `pin`. [P27]
        guard.book.retirements.fetch_add(1, Ordering::Release);
    }
    let give = Box::new(move || {
        // SAFETY: `retire`'s caller handed the box over, once, and no guard from before is left.
        heir(unsafe { Box::from_raw(address as *mut T) });
    });
    let mut pages = guard.book.pages();
    let twice = pages.retired.iter().any(|old| old.address == address);
    assert!(!twice && !pages.dead.contains(&address), "retired twice");
    pages.steps += 1;
    let since = pages.steps;
    pages.retired.push(Retired {
        address,
        since,
        give,
    });
    drop(pages);
    if guard.book.checked {
        guard.book.reclaim();
    }
}

/// Panics if nothing kept `reached` from being reclaimed.
pub(crate) fn check<T>(guard: &Guard, reached: *const T) {
    if guard.book.checked {
        let dead = guard.book.pages().dead.contains(&(reached as usize));
        assert!(!dead, "reached what no guard has protected");
        guard.book.note_use(reached as usize);
    }
}

/// A box is about to be used, perhaps one that was reclaimed.
pub(crate) fn serves_again<T>(domain: &Domain, served: *const T) {
    let served = served as usize;
    let uses = domain
        .0
        .checked
        .then(|| (served, Arc::new(Uses(UnsafeCell::new(())))));
    let mut pages = domain.0.pages();
    pages.dead.remove(&served);
    pages.uses.extend(uses);
}

impl Drop for Domain {
    fn drop(&mut self) {
        // `&mut self` means that no guard of this domain is in use.
        self.0.reclaim();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.uses.note_change();
        if self.book.checked {
            // ORDERING: Release pairs with the Acquire in `reclaim`. [P27]
            self.book.departures.fetch_add(1, Ordering::Release);
        }
        self.book.pages().guards.remove(&self.since);
        if self.book.checked {
            self.book.reclaim();
        }
    }
}
