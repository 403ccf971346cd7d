//! The queue of a `FixedTimer`: entries in the order of their deadlines, with a sweep in bounded pieces.
//!
//! ```text
//!   front                write          read                back
//!   | swept: all were live | holes ...... | not swept yet ... | <- push
//! ```
//!
//! A sweep moves what is live to the left and leaves holes, entries that name no node, where it was. When it
//! has come to the back it cuts the queue off after the last live entry. Between its pieces the queue is in
//! order like any other, only with dead entries in it, and may be pushed and popped.

use crate::wheel::Entry;
use std::collections::VecDeque;

/// An entry that names no node.
const HOLE: Entry = Entry { deadline: 0, index: u32::MAX, mark: 0 };

/// See the module.
#[derive(Default)]
pub(super) struct Queue {
    ring: VecDeque<Entry>,
    write: usize,
    read: usize,
    sweeping: bool,
}

impl Queue {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&Entry> {
        self.ring.front()
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        self.ring.push_back(entry);
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.ring.pop_front();
        self.write = self.write.saturating_sub(1);
        self.read = self.read.saturating_sub(1);
    }

    pub(super) fn is_sweeping(&self) -> bool {
        self.sweeping
    }

    /// Looks at `budget` entries, continuing where the last call ended.
    pub(super) fn sweep(&mut self, budget: usize, is_live: impl Fn(&Entry) -> bool) {
        let end = self.ring.len().min(self.read.saturating_add(budget));
        for at in self.read..end {
            let entry = std::mem::replace(&mut self.ring[at], HOLE);
            if is_live(&entry) {
                self.ring[self.write] = entry;
                self.write += 1;
            }
        }
        self.read = end;
        self.sweeping = end < self.ring.len();
        if !self.sweeping {
            self.ring.truncate(self.write);
            (self.write, self.read) = (0, 0);
        }
    }

    pub(super) fn clear(&mut self) {
        self.ring.clear();
        (self.write, self.read, self.sweeping) = (0, 0, false);
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list, from which the dead are taken out at once.
        #[test]
        fn a_sweep_in_pieces_keeps_the_living_in_order(
            steps in prop::collection::vec((0..4_u8, 1..20_usize), 1..200),
        ) {
            let (mut queue, mut model, mut next) = (Queue::default(), Vec::new(), 0_u32);
            let is_live = |entry: &Entry| entry.index % 3 == 0 && entry.index != u32::MAX;
            for (step, amount) in steps {
                match step {
                    0 | 1 => for _ in 0..amount {
                        let entry = Entry { deadline: 7, index: next, mark: 1 };
                        queue.push(entry);
                        model.extend(is_live(&entry).then_some(next));
                        next += 1;
                    },
                    2 => for _ in 0..amount.min(queue.len()) {
                        let popped = *queue.front().unwrap();
                        queue.pop();
                        if is_live(&popped) {
                            prop_assert_eq!(model.remove(0), popped.index);
                        }
                    },
                    _ => queue.sweep(amount, is_live),
                }
            }
            while queue.is_sweeping() {
                queue.sweep(3, is_live);
            }
            queue.sweep(usize::MAX, is_live);
            prop_assert!(queue.ring.iter().map(|entry| entry.index).eq(model));
        }
    }
}
