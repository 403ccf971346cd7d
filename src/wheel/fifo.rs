//! The FIFO wheel: a single bucket, for timers that are due in the order in which they are inserted.
//!
//! Timers that all have the same delay come with deadlines that never go back, so arrival is order: there is
//! nothing to sort, and a tick may be as fine as a nanosecond. The earliest deadline is that of the front.
//!
//! ```text
//!   front                                                              back
//!   | taken | live and dead ...   packed by the sweep | not swept yet ... | <- insert
//! ```
//!
//! Entries leave the front by counting, not by moving: the first `taken` entries of the first chunk are gone.

use super::chunks::{Bucket, Chunks};
use super::pass::Pass;
use super::{DeadMask, Entry, Sweep, Wheel};
use alloc::vec::Vec;

/// Entries of one chunk; see `hierarchical`, which has few and long buckets, too.
const CHUNK_ENTRIES: usize = 31;

/// See the module. An entry with a deadline before that of the last one waits behind it: late, never early.
pub struct Fifo {
    hand: u64,
    len: usize,
    bucket: Bucket,
    /// Entries of the first chunk that have left; fewer than it has.
    taken: usize,
    chunks: Chunks<CHUNK_ENTRIES>,
    /// The sweep.
    pass: Pass,
}

impl Fifo {
    pub(crate) fn new() -> Self {
        Self {
            hand: 0,
            len: 0,
            bucket: Bucket::EMPTY,
            taken: 0,
            chunks: Chunks::default(),
            pass: Pass::START,
        }
    }

    /// Returns the entry that is due first.
    #[inline]
    pub(crate) fn front(&self) -> Option<&Entry> {
        if self.bucket.is_empty() {
            return None;
        }
        self.chunks
            .chunk(self.bucket.head)
            .entries()
            .get(self.taken)
    }

    /// Drops entries at the front until one is live.
    pub(crate) fn trim(&mut self, is_live: impl Fn(&Entry) -> bool) {
        while self.take_while(usize::MAX, |entry| !is_live(entry)) > 0 {}
    }

    /// Takes up to `limit` entries of the first chunk, as long as `wanted` says so; how many that were.
    fn take_while(&mut self, limit: usize, mut wanted: impl FnMut(&Entry) -> bool) -> usize {
        if self.bucket.is_empty() {
            return 0;
        }
        let head = self.bucket.head;
        let entries = &self.chunks.chunk(head).entries()[self.taken..];
        let count = entries
            .iter()
            .take(limit)
            .take_while(|entry| wanted(entry))
            .count();
        let left = entries.len() - count;
        self.len -= count;
        self.taken += count;
        if left == 0 {
            if self.pass.stands_on(head) {
                // What the pass has gone through is gone: it goes on at the new front.
                self.pass = Pass::START;
            }
            self.chunks.release_head(&mut self.bucket);
            self.taken = 0;
        }
        count
    }
}

impl Wheel for Fifo {
    const IN_ORDER: bool = true;

    #[inline(always)]
    fn try_insert(&mut self, entry: Entry) -> bool {
        let inserted = self.chunks.try_push(&mut self.bucket, entry);
        self.len += usize::from(inserted);
        inserted
    }

    #[inline]
    fn next_deadline(&self) -> Option<u64> {
        self.front().map(|front| front.deadline)
    }

    fn advance(&mut self, to: u64, budget: usize, due: &mut Vec<Entry>) -> bool {
        let mut left = budget;
        while let Some(first) = self.next_deadline().filter(|&first| first <= to) {
            if left == 0 {
                self.hand = self.hand.max(first.saturating_sub(1));
                return true;
            }
            left -= self.take_while(left, |entry| {
                let is_due = entry.deadline <= to;
                if is_due {
                    due.push(*entry);
                }
                is_due
            });
        }
        self.hand = self.hand.max(to);
        false
    }

    fn sweep_batches(&mut self, budget: usize, is_dead: DeadMask<'_>) -> Sweep {
        let mut report = Sweep {
            examined: 0,
            removed: 0,
            cycle_done: false,
        };
        while report.examined < budget && !report.cycle_done {
            let taken = if self.pass.is_at_head() {
                core::mem::take(&mut self.taken)
            } else {
                0
            };
            let step = self
                .pass
                .step(&mut self.chunks, &mut self.bucket, |chunks, id| {
                    let asked = &chunks.chunk(id).entries()[taken..];
                    ((1 << taken) - 1) | is_dead(asked) << taken
                });
            report.examined += step.examined - taken;
            report.removed += step.removed - taken;
            report.cycle_done = step.cycle_done;
        }
        if report.cycle_done {
            self.pass = Pass::START;
        }
        self.len -= report.removed;
        report
    }

    fn drain_all(&mut self, f: &mut dyn FnMut(Entry)) {
        let mut everything = |entry: &Entry| {
            f(*entry);
            true
        };
        while self.take_while(usize::MAX, &mut everything) > 0 {}
    }

    fn len(&self) -> usize {
        self.len
    }

    fn hand(&self) -> u64 {
        self.hand
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.chunks.held_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_live(entry: &Entry) -> bool {
        entry.index % 3 == 0
    }

    fn dead(entries: &[Entry]) -> u64 {
        let bit = |(place, entry): (usize, &Entry)| u64::from(!is_live(entry)) << place;
        entries.iter().enumerate().map(bit).sum()
    }

    proptest! {
        /// Against a plain list, from which the dead are taken out at once.
        #[test]
        fn the_living_come_out_in_order_whatever_the_sweep_has_done(
            steps in prop::collection::vec((0..5_u8, 1..90_usize), 1..300),
        ) {
            let (mut fifo, mut model, mut next) = (Fifo::new(), Vec::new(), 0_u64);
            let (mut due, mut yielded) = (Vec::new(), 0);
            for (step, amount) in steps {
                match step {
                    0 | 1 => for _ in 0..amount {
                        // Pairs of entries share a tick.
                        let entry = Entry { deadline: next / 2, index: next as u32, mark: 1 };
                        fifo.insert(entry);
                        model.push(entry);
                        next += 1;
                    },
                    2 => {
                        let to = fifo.next_deadline().unwrap_or(0) + amount as u64 / 4;
                        let more = fifo.advance(to, amount, &mut due);
                        prop_assert!(due.len() - yielded <= amount);
                        prop_assert_eq!(more, fifo.next_deadline().is_some_and(|next| next <= to));
                        prop_assert!(due[yielded..].iter().all(|entry| entry.deadline <= to));
                        yielded = due.len();
                    }
                    3 => fifo.trim(is_live),
                    _ => {
                        let (before, sweep) = (fifo.len(), fifo.sweep_batches(amount, &mut dead));
                        prop_assert_eq!(before - fifo.len(), sweep.removed);
                        prop_assert!(sweep.examined <= amount + 64);
                        prop_assert!(sweep.cycle_done || sweep.examined >= amount);
                    }
                }
            }
            // Two ends of a cycle: nothing dead is left.
            for _ in 0..2 {
                while !fifo.sweep_batches(7, &mut dead).cycle_done {}
            }
            fifo.drain_all(&mut |entry| {
                assert!(is_live(&entry));
                due.push(entry);
            });
            prop_assert_eq!(fifo.len(), 0);
            prop_assert_eq!(fifo.next_deadline(), None);
            due.retain(is_live);
            model.retain(is_live);
            prop_assert_eq!(due, model);
        }
    }

    #[test]
    fn a_sweep_goes_on_while_the_front_leaves() {
        let mut fifo = Fifo::new();
        (0..1_000).for_each(|n| {
            fifo.insert(Entry {
                deadline: n,
                index: n as u32,
                mark: 0,
            })
        });
        let (mut due, mut swept) = (Vec::new(), 0);
        for to in 0..100 {
            let sweep = fifo.sweep_batches(31, &mut dead);
            swept += sweep.removed;
            if sweep.cycle_done {
                assert!(swept > 500, "{swept}");
                return;
            }
            let _ = fifo.advance(to * 3, usize::MAX, &mut due);
        }
        panic!("the sweep starts again and again");
    }
}
