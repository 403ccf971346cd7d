//! The entry of a timer that the wheel has not heard of.

use super::TimerStore;
use crate::wheel::Entry;

/// How many entries ahead their records are asked for.
const AHEAD: usize = 16;

/// An entry in two words: what is put together of three fields would be written in parts and read back as a
/// whole, a stall that costs as much as all else in the staging buffer.
#[derive(Clone, Copy)]
pub(super) struct Young {
    pub(super) deadline: u64,
    name: u64,
}

impl Young {
    pub(super) const NONE: Self = Self { deadline: 0, name: 0 };

    #[inline(always)]
    pub(super) const fn new(entry: Entry) -> Self {
        Self { deadline: entry.deadline, name: (entry.mark as u64) << 32 | entry.index as u64 }
    }

    #[inline(always)]
    pub(super) const fn entry(self) -> Entry {
        Entry { deadline: self.deadline, index: self.name as u32, mark: (self.name >> 32) as u32 }
    }
}

/// What is left of a row of entries.
pub(super) struct Kept {
    pub(super) len: usize,
    /// The earliest deadline; `u64::MAX` if nothing is left.
    pub(super) min: u64,
}

/// Moves the living to the front, in their order. Records that are `far` are asked for ahead of time.
pub(super) fn keep_live(young: &mut [Young], records: &impl TimerStore, far: bool) -> Kept {
    let mut kept = Kept { len: 0, min: u64::MAX };
    for at in 0..young.len() {
        if far {
            if let Some(later) = young.get(at + AHEAD) {
                records.prefetch(&later.entry());
            }
        }
        let one = young[at];
        young[kept.len] = one;
        // Without a branch: no branch predictor knows which entries are dead, and the loads overlap.
        let alive = records.is_live(&one.entry());
        kept.len += usize::from(alive);
        kept.min = kept.min.min(if alive { one.deadline } else { u64::MAX });
    }
    kept
}

/// Moves those to the front for which `stays` holds, in their order.
#[inline(always)] // what stays is decided where the caller keeps its state in registers
pub(super) fn keep(young: &mut [Young], mut stays: impl FnMut(Entry) -> bool) -> Kept {
    let mut kept = Kept { len: 0, min: u64::MAX };
    for at in 0..young.len() {
        let one = young[at];
        if stays(one.entry()) {
            young[kept.len] = one;
            kept.len += 1;
            kept.min = kept.min.min(one.deadline);
        }
    }
    kept
}

/// The earliest deadline; `u64::MAX` if there is none.
pub(super) fn earliest(young: &[Young]) -> u64 {
    young.iter().map(|young| young.deadline).min().unwrap_or(u64::MAX)
}
