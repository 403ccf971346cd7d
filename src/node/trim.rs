//! The node table: unused nodes are put in order, and their memory goes back to the system. Owner only.
//!
//! After a burst most nodes are free and lie in the depot's magazines, in no order. The next burst would find them
//! anywhere in memory, and in the cache of the processor that has fired them: a miss for each. So the owner puts those
//! in order that fill whole regions (see `regions`). A free node in a thread's own magazines may be armed at any moment;
//! so the owner takes the full magazines out of the depot, and is then alone with all nodes in them:
//!
//! ```text
//!   gather    take full magazines out of the depot; count, for each region, its nodes among them
//!   release   of a region of which all nodes are there: remember a generation above theirs, put the region where nodes
//!             come from when the depot has none
//!   sort      give the nodes of all other regions back to the depot
//! ```
//!
//! When no burst has taken the regions for a while, the system gets their memory:
//!
//! ```text
//!   collect   take the regions out of their stack that have memory
//!   return    give the pages of each back, and the region to the stack
//! ```
//!
//! Each is done in pieces, so that a turn stays bounded. Threads that need nodes meanwhile find magazines that are
//! back already, regions that were released, or nodes that were never used; if they take many of the last, the owner
//! stops releasing, because the burst is not over.
//!
//! A key or an entry that names a node of a free region is stale. Its reader finds one of three: the end of the
//! last timer, zeros, or a generation that no key names. None of them is a living timer, and no thread changes a node
//! that is not. Even a thread that saw the timer alive long ago changes the word only if it stands as it saw it.
//!
//! It begins at the end of a turn that has nothing else left to do, if more than twice as many nodes are free as in
//! use, and [`kept`] besides. (Not only when a sweep ends: a burst that fires, or that ends before it is inserted,
//! leaves nothing to sweep.) It leaves as many free as are in use, and half of [`kept`].
//!
//! Living timers, or nodes in the magazines of threads, may be scattered over all regions. Then nothing can be freed. So
//! [`Trim::begin`] samples a few regions first. If they are in use, it waits until other nodes have come into use, a
//! burst has interrupted it, or half of the timers have ended. After a run that freed nothing it waits until fifteen of
//! sixteen have ended.

use super::magazine::Nodes;
use super::magazine::{CAPACITY, Pile, ThreadCache};
use super::record::Node;
use super::table::Table;
use crate::sync::atomic::Ordering;
use crate::sync::bounded;
use crate::sync::piece::Piece;
use crate::wheel::{NodeMemory, ZOMBIE_FLOOR};

/// Kept free for any population: this many nodes or bytes, the smaller of the two, but about a region.
const KEPT_NODES: u64 = 64 * 1024;
const KEPT_BYTES: u64 = 8 * 1024 * 1024;
const LEAST_KEPT: u64 = 512;

/// Fresh nodes that other threads may take before the owner decides that the burst goes on.
const FRESH: u64 = 4096;

/// Regions that are looked at before the work begins.
const SAMPLES: u32 = 16;

/// Regions whose pages are given back by one call of the system.
const AT_ONCE: u32 = 32;

/// The count of a region that was released.
const RELEASED: u16 = u16::MAX;

/// Returns the number of free nodes kept for any population; 0 under loom.
const fn kept<T>() -> u64 {
    let nodes = KEPT_BYTES / size_of::<Node<T>>() as u64;
    if cfg!(tickwheel_loom) {
        0
    } else if nodes < LEAST_KEPT {
        LEAST_KEPT
    } else if nodes < KEPT_NODES {
        nodes
    } else {
        KEPT_NODES
    }
}

/// The owner's present step; see the module.
#[derive(Clone, Copy, Default)]
enum Step {
    #[default]
    Idle,
    Gather,
    Release {
        /// The region to be looked at next.
        region: u32,
    },
    Sort,
    Collect,
    Return {
        /// The region to be looked at next.
        region: u32,
    },
}

/// How far the owner has got.
#[derive(Default)]
pub(crate) struct Trim {
    stage: Step,
    /// The magazines that it has taken.
    pile: Pile,
    /// How many nodes of each region are in there, or [`RELEASED`].
    counts: Piece<[u16]>,
    /// The end of the table when this began.
    end: u64,
    /// The nodes in use when it began last.
    in_use: u64,
    /// The [loose](Table::loose) nodes when it began, or when it ended last.
    left: u64,
    /// Fewer nodes in use than this make another attempt worth while, though no other node has come into use.
    again_below: u64,
    /// The last attempt ended early because other threads took fresh nodes.
    was_interrupted: bool,
    /// The most nodes in free regions with memory since most of them were in use.
    spare: u64,
    /// The system does not take memory back.
    is_refused: bool,
}

/// Returns whether three quarters of a few regions have no living timer: where living timers lie scattered, the work
/// would touch each free node in vain.
fn is_worth_it<T>(table: &Table<T>, last: u32) -> bool {
    let regions = &table.depot.regions;
    let is_dead = |region: &u32| {
        let first = regions.first_of(*region);
        let mut nodes = (first..first + regions.len()).filter_map(|index| table.nodes.get(index));
        nodes.all(|node| !node.state.load().is_live())
    };
    let sampled = (0..SAMPLES).map(|at| 1 + at * last / SAMPLES);
    4 * sampled.filter(is_dead).count() >= 3 * SAMPLES as usize
}

/// Returns one past the highest node, and the last region.
fn ends<T>(table: &Table<T>) -> (u64, u32) {
    let end = table.depot.end();
    let last = table.depot.regions.region_of(end.saturating_sub(1) as u32);
    (end, last)
}

/// Returns a count for each region up to the `last`; `None` if there is no memory.
fn counts_to(last: u32) -> Option<Piece<[u16]>> {
    // Whole pages, or they would come from the allocator.
    Piece::filled((last as usize + 1).next_multiple_of(bounded(4096, 1)), 0)
}

impl Trim {
    /// Returns whether it is under way.
    pub(crate) fn is_at_work(&self) -> bool {
        !matches!(self.stage, Step::Idle)
    }

    /// Begins if it pays. `entries`: in the wheel; `in_use` counts the pending timers.
    pub(crate) fn begin<T>(
        &mut self,
        table: &Table<T>,
        entries: u64,
        in_use: impl FnOnce() -> u64,
    ) {
        // It pays if fewer nodes than this are in use.
        let loose = table.loose();
        let few = loose.saturating_sub(kept::<T>()).div_ceil(3);
        // Counting the timers takes a look at each thread's counters: only if there may be few enough of them.
        if entries.saturating_sub(ZOMBIE_FLOOR) / 2 >= few {
            return;
        }
        let in_use = in_use();
        let is_as_it_was = loose <= self.left && in_use >= self.again_below;
        if is_as_it_was || in_use >= few {
            return;
        }
        let (end, last) = ends(table);
        if !is_worth_it(table, last) {
            (self.left, self.again_below) = (loose, in_use.div_ceil(2));
            return;
        }
        // Where there is no memory for it, the next turn asks again.
        let Some(counts) = counts_to(last) else {
            return;
        };
        if !table.depot.regions.reserve(last) {
            return;
        }
        *self = Self {
            stage: Step::Gather,
            counts,
            end,
            in_use,
            left: loose,
            was_interrupted: self.was_interrupted,
            spare: self.spare,
            is_refused: self.is_refused,
            ..Self::default()
        };
    }

    /// Returns whether free regions have memory that the system may take.
    #[inline]
    pub(crate) fn memory<T>(&mut self, table: &Table<T>) -> NodeMemory {
        let spare = table.depot.regions.with_memory();
        let used_again = spare < self.spare / 2;
        if used_again || spare > self.spare {
            self.spare = spare;
        }
        if spare == 0 || self.is_refused {
            NodeMemory::InUse
        } else if used_again {
            NodeMemory::UsedAgain
        } else {
            NodeMemory::Spare
        }
    }

    /// Begins to give the memory of free regions back; not before what has [begun](Self::begin) is done.
    pub(crate) fn begin_return<T>(&mut self, table: &Table<T>) {
        if table.depot.regions.with_memory() > 0 {
            // Without memory for it, it begins some time later.
            if let Some(counts) = counts_to(ends(table).1) {
                (self.counts, self.stage) = (counts, Step::Collect);
            }
        }
    }

    /// Takes one step, of about so many nodes, and returns whether there is more to do; `in_use` counts the pending
    /// timers.
    #[cold]
    pub(crate) fn step<T>(
        &mut self,
        table: &Table<T>,
        cache: &ThreadCache,
        nodes: usize,
        in_use: impl FnOnce() -> u64,
    ) -> bool {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        let magazines = (nodes / CAPACITY).max(1);
        match self.stage {
            Step::Idle => {}
            Step::Gather | Step::Release { .. } if self.is_interrupted(table) => {
                self.stage = Step::Sort;
            }
            Step::Gather => self.gather(table, magazines, in_use),
            Step::Release { region } => self.release(table, region, nodes),
            Step::Sort => self.sort(table, cache, magazines, in_use),
            Step::Collect => self.collect(table, cache, nodes),
            Step::Return { region } => self.give_back(table, region, nodes),
        }
        self.is_at_work()
    }

    /// Returns whether a burst goes on, or another one has come.
    fn is_interrupted<T>(&self, table: &Table<T>) -> bool {
        table.depot.end() > self.end.saturating_add(FRESH)
    }

    fn gather<T>(&mut self, table: &Table<T>, magazines: u32, in_use: impl FnOnce() -> u64) {
        let depot = &table.depot;
        for _ in 0..magazines {
            let Some(magazine) = depot.full.pop(&depot.magazines) else {
                // Another burst may have the nodes that are missing, and be over soon.
                self.in_use = self.in_use.max(in_use());
                self.stage = Step::Release {
                    region: self.first_to_release(table),
                };
                return;
            };
            for node in depot
                .magazines
                .get(magazine)
                .iter()
                .flat_map(|full| &full.nodes)
            {
                // ORDERING: Relaxed: the owner holds the magazine.
                let region = depot.regions.region_of(node.load(Ordering::Relaxed));
                // Nodes that are younger than the counts are none of the burst's.
                if let Some(count) = self.counts.get_mut(region as usize) {
                    *count += 1;
                }
            }
            self.pile.push(&depot.magazines, magazine);
        }
    }

    /// Returns the first region behind those that stay.
    fn first_to_release<T>(&self, table: &Table<T>) -> u32 {
        let (mut region, mut to_keep) = (1, self.in_use + kept::<T>() / 2);
        while to_keep > 0 && (region as usize) < self.counts.len() {
            if self.is_whole(table, region) {
                to_keep = to_keep.saturating_sub(table.depot.regions.len().into());
            }
            region += 1;
        }
        region
    }

    /// Returns whether all nodes of a region are in the pile, and their memory can be given back.
    fn is_whole<T>(&self, table: &Table<T>, region: u32) -> bool {
        let regions = &table.depot.regions;
        self.counts
            .get(region as usize)
            .is_some_and(|count| u32::from(*count) == regions.len())
            && table.nodes.can_give_back(regions.first_of(region))
    }

    /// Returns the first region from `from` on that is whole, and how many lie in a row of one segment there, up to what
    /// about `nodes` fill.
    fn row<T>(&self, table: &Table<T>, from: u32, nodes: u32) -> Option<(u32, u32)> {
        let regions = &table.depot.regions;
        let end = self.counts.len() as u32;
        let first = (from..end).find(|region| self.is_whole(table, *region))?;
        let row = (first..end.min(first + (nodes / regions.len()).clamp(1, AT_ONCE)))
            // A number's highest bit is that of its segment.
            .take_while(|next| next.ilog2() == first.ilog2())
            .take_while(|next| self.is_whole(table, *next));
        Some((first, row.count() as u32))
    }

    /// Puts some regions where nodes come from.
    fn release<T>(&mut self, table: &Table<T>, from: u32, nodes: u32) {
        let Some((first, row)) = self.row(table, from, nodes) else {
            self.stage = Step::Sort;
            return;
        };
        for region in first..first + row {
            if Self::remember(table, region) {
                table.depot.regions.put(region);
                self.counts[region as usize] = RELEASED;
            }
        }
        self.stage = Step::Release {
            region: first + row,
        };
    }

    /// Takes regions that have memory from the top of their stack; what is left of one whose first nodes serve already
    /// goes to the depot.
    fn collect<T>(&mut self, table: &Table<T>, cache: &ThreadCache, nodes: u32) {
        let regions = &table.depot.regions;
        for _ in 0..(nodes / regions.len()).max(1) {
            let has_more = regions.with_memory() > 0;
            let Some(run) = has_more.then(|| regions.take(regions.len())).flatten() else {
                self.stage = Step::Return { region: 1 };
                return;
            };
            let region = regions.region_of(run.first);
            // One that is younger than the counts is of a burst that has come meanwhile.
            match self.counts.get_mut(region as usize) {
                Some(count) if run.count == regions.len() => *count = run.count as u16,
                _ => (run.first..run.first + run.count).for_each(|node| {
                    table.renew(node, run.generation);
                    cache.give(&table.depot, node);
                }),
            }
        }
    }

    /// Gives the memory of some regions that lie in a row of one segment back, and the regions to their stack.
    fn give_back<T>(&mut self, table: &Table<T>, from: u32, nodes: u32) {
        let regions = &table.depot.regions;
        let Some((first, row)) = self.row(table, from, nodes) else {
            (self.counts, self.stage) = (Piece::default(), Step::Idle);
            return;
        };
        let (node, count) = (regions.first_of(first), row * regions.len());
        // SAFETY: the regions are whole pages of one segment. The owner has taken all of their nodes out of the stack,
        // so no other thread has any. They are free: their holders have let go, and the thread that ended the timer has
        // moved the payload out. Who has a stale key or entry reads the state and the deadline, which are atomic, and
        // finds nothing alive in zeros.
        self.is_refused |= !unsafe { table.nodes.give_back(node, count) };
        for region in first..first + row {
            regions.put(region);
        }
        regions.note_returned();
        self.stage = Step::Return {
            region: first + row,
        };
    }

    /// Remembers a generation that none of a region's nodes has had; false if there is no memory.
    fn remember<T>(table: &Table<T>, region: u32) -> bool {
        let regions = &table.depot.regions;
        let first = regions.first_of(region);
        let states = (first..first + regions.len()).filter_map(|index| table.nodes.get(index));
        let states = states.map(|node| node.state.load());
        debug_assert!(
            states.clone().all(|state| !state.is_live()),
            "a free node's timer lives"
        );
        let last = states.map(|state| state.generation()).max().unwrap_or(0);
        regions.remember(region, last + 1)
    }

    fn sort<T>(
        &mut self,
        table: &Table<T>,
        cache: &ThreadCache,
        magazines: u32,
        in_use: impl FnOnce() -> u64,
    ) {
        let depot = &table.depot;
        for _ in 0..magazines {
            let Some(magazine) = self.pile.pop(&depot.magazines) else {
                self.counts = Piece::default();
                let left = table.loose();
                // Where timers end in disorder, hardly any region is free before nearly all have ended.
                let was_of_use = left < self.left / 8 * 7;
                // Of those of a burst that has come meanwhile, too: its nodes go when it has ended.
                let in_use = self.in_use.max(in_use());
                self.again_below = in_use.div_ceil(if was_of_use { 2 } else { 16 });
                (self.left, self.stage) = (left, Step::Idle);
                // The timers that came may be gone by now, so another attempt is made; but not again and again beside
                // threads that take fresh nodes each time.
                let is_interrupted = self.is_interrupted(table);
                if is_interrupted && !self.was_interrupted {
                    self.left = 0;
                }
                self.was_interrupted = is_interrupted;
                return;
            };
            let Some(slot) = depot.magazines.get(magazine) else {
                continue;
            };
            // ORDERING: Relaxed: the owner holds the magazine.
            let nodes = slot
                .nodes
                .each_ref()
                .map(|node| node.load(Ordering::Relaxed));
            let is_released = |node: &u32| {
                self.counts.get(depot.regions.region_of(*node) as usize) == Some(&RELEASED)
            };
            if !nodes.iter().any(is_released) {
                depot.full.push(&depot.magazines, magazine);
                continue;
            }
            depot.empty.push(&depot.magazines, magazine);
            for node in nodes.into_iter().filter(|node| !is_released(node)) {
                cache.give(depot, node);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux", not(tickwheel_loom)))]
mod tests;
