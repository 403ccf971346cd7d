//! How far the hashed wheel has got with what is due.

use super::super::Hierarchical;
use super::super::pass::Pass;
use alloc::boxed::Box;

/// What an advance is in the middle of.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    Idle,
    /// Yielding one tick from one bucket. `hand` is the tick before; `pass` is open while the bucket
    /// has been gone through in part.
    Visit {
        tick: u64,
        pass: Option<Pass>,
    },
    /// A jump of more than one revolution, in which visits would go through the same bucket again for
    /// each of its ticks. Instead, moving everything due up to `target` from its bucket to
    /// the sorter. Nothing is yielded and the hand stands still until no such entry is left; new
    /// entries go to their bucket and are collected after the older ones.
    Collect {
        target: u64,
        bucket: usize,
        pass: Option<Pass>,
    },
    /// Yielding from the sorter, which holds every entry due up to `target` and takes new ones.
    Sorted {
        target: u64,
    },
}

impl Stage {
    /// The sorter, if an entry that is due then belongs there.
    #[inline(always)]
    pub(super) fn sorter_for(
        self,
        sorter: &mut Option<Box<Hierarchical>>,
        deadline: u64,
    ) -> Option<&mut Hierarchical> {
        match self {
            Self::Sorted { target } if deadline <= target => sorter.as_deref_mut(),
            _ => None,
        }
    }
}
