//! A block of the log: entries in the order in which they came.

use super::{Entry, Records};
use crate::sync::piece::Piece;
use alloc::vec::Vec;
use core::mem::size_of;

/// Entries of a block: 8 KiB, which stay in the first-level cache.
pub(crate) const BLOCK: usize = if cfg!(fuzzing) { 4 } else { 512 };

/// How many entries ahead their records are asked for.
const AHEAD: usize = 16;

/// An entry in two words: what is put together of three fields would be written in parts and read back as a
/// whole, a stall that costs as much as all else in the log.
#[derive(Clone, Copy)]
pub(super) struct PackedEntry {
    deadline: u64,
    name: u64,
}

impl PackedEntry {
    const NONE: Self = Self {
        deadline: 0,
        name: 0,
    };

    #[inline(always)]
    const fn new(entry: Entry) -> Self {
        Self {
            deadline: entry.deadline,
            name: (entry.mark as u64) << 32 | entry.index as u64,
        }
    }

    #[inline(always)]
    const fn entry(self) -> Entry {
        Entry {
            deadline: self.deadline,
            index: self.name as u32,
            mark: (self.name >> 32) as u32,
        }
    }
}

/// Memory of blocks without entries, for later.
#[derive(Default)]
pub(super) struct BlockPool(pub(super) Vec<Piece<[PackedEntry]>>);

impl BlockPool {
    /// Returns an empty block; `None` if there is no memory.
    pub(super) fn get(&mut self) -> Option<Block> {
        let places = self
            .0
            .pop()
            .or_else(|| Piece::filled(BLOCK, PackedEntry::NONE))?;
        Some(Block {
            places,
            ..Block::default()
        })
    }

    /// Keeps the memory of a block, for which there is [room](Self::try_reserve).
    pub(super) fn put(&mut self, block: Block) {
        if !block.places.is_empty() && self.0.len() < self.0.capacity() {
            self.0.push(block.places);
        }
    }

    /// Makes room for `blocks`, if there is memory.
    pub(super) fn try_reserve(&mut self, blocks: usize) -> bool {
        let more = blocks.saturating_sub(self.0.len());
        self.0.try_reserve(more).is_ok()
    }

    pub(super) fn held_bytes(&self) -> usize {
        let places = size_of::<Piece<[PackedEntry]>>();
        self.0.capacity() * places + self.0.len() * BLOCK * size_of::<Entry>()
    }
}

/// See the module. The default has no memory.
pub(super) struct Block {
    /// The places; those before `len` are taken.
    pub(super) places: Piece<[PackedEntry]>,
    pub(super) len: usize,
    /// At or before every deadline; `u64::MAX` when there is none.
    pub(super) min: u64,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            places: Piece::default(),
            len: 0,
            min: u64::MAX,
        }
    }
}

impl Block {
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.places[..self.len].iter().map(|packed| packed.entry())
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == self.places.len()
    }

    /// Appends an entry; false if the block is full.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: Entry) -> bool {
        let Some(place) = self.places.get_mut(self.len) else {
            return false;
        };
        *place = PackedEntry::new(entry);
        self.len += 1;
        // A branch: it is seldom taken, and saves a write.
        if entry.deadline < self.min {
            self.min = entry.deadline;
        }
        true
    }

    /// Removes the first entries.
    pub(super) fn advance(&mut self, by: usize) {
        self.places.copy_within(by..self.len, 0);
        self.len -= by;
        self.min = earliest(&self.places[..self.len]);
    }

    /// Moves as many entries from the front of `next` behind this block's as there is room for.
    pub(super) fn fill_from(&mut self, next: &mut Self) {
        let moved = next.len.min(self.places.len() - self.len);
        if moved > 0 {
            let places = &mut self.places[self.len..self.len + moved];
            places.copy_from_slice(&next.places[..moved]);
            self.min = self.min.min(earliest(places));
            self.len += moved;
            next.advance(moved);
        }
    }

    /// Removes the dead, and says how many. Records that are `far` are asked for ahead of time.
    pub(super) fn remove_dead(&mut self, records: &impl Records, far: bool) -> usize {
        let places = &mut self.places[..self.len];
        let (mut len, mut min) = (0, u64::MAX);
        for at in 0..places.len() {
            if far {
                if let Some(later) = places.get(at + AHEAD) {
                    records.prefetch(&later.entry());
                }
            }
            let one = places[at];
            places[len] = one;
            // Without a branch: no branch predictor knows which entries are dead, and the loads overlap.
            let alive = records.is_live(&one.entry());
            len += usize::from(alive);
            min = min.min(if alive { one.deadline } else { u64::MAX });
        }
        let removed = self.len - len;
        (self.len, self.min) = (len, min);
        removed
    }

    /// Removes the entries for which `stays` does not hold.
    #[inline(always)] // what stays is decided where the caller keeps its state in registers
    pub(super) fn retain(&mut self, mut stays: impl FnMut(Entry) -> bool) {
        let places = &mut self.places[..self.len];
        let (mut len, mut min) = (0, u64::MAX);
        for at in 0..places.len() {
            let one = places[at];
            if stays(one.entry()) {
                places[len] = one;
                len += 1;
                min = min.min(one.deadline);
            }
        }
        (self.len, self.min) = (len, min);
    }
}

/// Returns the earliest deadline; `u64::MAX` if there is none.
fn earliest(places: &[PackedEntry]) -> u64 {
    places
        .iter()
        .map(|packed| packed.deadline)
        .min()
        .unwrap_or(u64::MAX)
}
