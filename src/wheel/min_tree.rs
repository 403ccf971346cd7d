//! The earliest deadline of many pages, kept in a tree of fan-out 64.
//!
//! The hashed wheel asks "which page is due first" and "which page holds anything" of up to 2^24
//! pages. A key is the complement of a deadline, so 0 means "nothing" and a fresh tree is zeroed
//! memory that the system only backs where it is touched. `u64::MAX` has no key: the wheel keeps
//! entries without an end elsewhere.

use alloc::vec;
use alloc::vec::Vec;
use core::mem::size_of;

use super::bits::{RING_BITS, RING_BUCKETS};

/// One number per page and, above, one per group of 64, up to a single root.
pub(super) struct MinTree {
    /// `levels[0]` has a key per page, the last level has one key in all.
    levels: Vec<Vec<u64>>,
}

impl MinTree {
    /// A tree of `pages` empty pages; at least one.
    pub(super) fn new(pages: usize) -> Self {
        let mut levels = vec![vec![0_u64; pages]];
        let mut width = pages;
        while width > 1 {
            width = width.div_ceil(RING_BUCKETS);
            levels.push(vec![0; width]);
        }
        Self { levels }
    }

    /// The earliest deadline of all pages. O(1).
    #[inline]
    pub(super) fn earliest(&self) -> Option<u64> {
        let root = self.levels[self.levels.len() - 1][0];
        (root != 0).then_some(!root)
    }

    /// Notes that `page` received `deadline`. O(1) unless it is the earliest of its group.
    #[inline]
    pub(super) fn lower(&mut self, page: usize, deadline: u64) {
        let mut place = page;
        for level in &mut self.levels {
            if level[place] >= !deadline {
                return;
            }
            level[place] = !deadline;
            place >>= RING_BITS;
        }
    }

    /// Sets the earliest deadline of `page`, in either direction. O(64) per level that changes.
    pub(super) fn set(&mut self, page: usize, earliest: Option<u64>) {
        let mut key = earliest.map_or(0, |deadline| !deadline);
        let mut place = page;
        for level in 0..self.levels.len() {
            if level > 0 {
                key = self.group(level - 1, place).iter().copied().max().unwrap_or(0);
            }
            if self.levels[level][place] == key {
                return;
            }
            self.levels[level][place] = key;
            place >>= RING_BITS;
        }
    }

    /// The first page at or after `page` that holds anything. O(64) per level.
    pub(super) fn occupied_from(&self, page: usize) -> Option<usize> {
        let mut place = page;
        for level in 0..self.levels.len() {
            let end = (place | (RING_BUCKETS - 1)) + 1;
            let end = end.min(self.levels[level].len());
            if let Some(found) = (place..end).find(|&at| self.levels[level][at] != 0) {
                return Some(self.descend(level, found));
            }
            // Nothing in the rest of this group: go on with the next group, one level up.
            place = (place >> RING_BITS) + 1;
        }
        None
    }

    /// The first page that holds anything below a key that is set.
    fn descend(&self, level: usize, mut place: usize) -> usize {
        for below in (0..level).rev() {
            let within = self.group(below, place).iter().position(|&key| key != 0);
            place = (place << RING_BITS) + within.expect("a set key has a set key below it");
        }
        place
    }

    /// The keys of `level` that key `place` of the level above stands for.
    fn group(&self, level: usize, place: usize) -> &[u64] {
        let keys = &self.levels[level];
        let start = place << RING_BITS;
        &keys[start..keys.len().min(start + RING_BUCKETS)]
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<u64>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_three_levels_follows_a_flat_scan() {
        let pages = 64 * 64 * 2 + 3;
        let mut tree = MinTree::new(pages);
        let mut flat = vec![None; pages];
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..3000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let page = (random >> 33) as usize % pages;
            let deadline = random >> 50;
            match random >> 62 {
                0 => {
                    tree.set(page, None);
                    flat[page] = None;
                }
                1 => {
                    tree.set(page, Some(deadline));
                    flat[page] = Some(deadline);
                }
                _ => {
                    tree.lower(page, deadline);
                    flat[page] = Some(flat[page].map_or(deadline, |old: u64| old.min(deadline)));
                }
            }
            assert_eq!(tree.earliest(), flat.iter().flatten().min().copied());
            let from = (random >> 20) as usize % pages;
            let next = (from..pages).find(|&page| flat[page].is_some());
            assert_eq!(tree.occupied_from(from), next);
        }
    }

    #[test]
    fn a_single_page_is_its_own_root() {
        let mut tree = MinTree::new(1);
        assert_eq!(tree.occupied_from(0), None);
        tree.lower(0, u64::MAX - 1);
        assert_eq!(tree.earliest(), Some(u64::MAX - 1));
        assert_eq!(tree.occupied_from(0), Some(0));
        assert_eq!(tree.occupied_from(1), None);
        tree.set(0, None);
        assert_eq!(tree.earliest(), None);
    }
}
