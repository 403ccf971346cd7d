//! The node table: memory of nodes that nobody needs any more goes back to the system. Owner only.
//!
//! After a burst most nodes are free and lie in the depot's magazines, in no order. Of a whole region (see `regions`)
//! that is free the memory can be given back; but a free node in a thread's own magazines may be armed at any
//! moment. So the owner takes the full magazines out of the depot, and is then alone with all nodes in them:
//!
//! ```text
//!   gather    take full magazines out of the depot; count, for each region, its nodes among them
//!   release   of a region of which all nodes are there: remember a generation above theirs, give its pages back, put
//!             the region where nodes come from when the depot has none
//!   sort      take the nodes of such regions out of the magazines; what is left goes back to the depot
//! ```
//!
//! Each is done in pieces, so that a turn stays bounded. Threads that need nodes meanwhile find magazines that are
//! back already, regions that were released, or nodes that were never used; if they take many of the last, the owner
//! stops releasing, because the burst is not over.
//!
//! A key or an entry that names a node of a released region is stale, and whoever looks finds one of three: the end of
//! the last timer, zeros, or a generation that no key names. None of them is a living timer, and nobody changes a node
//! that is not. Even a thread that saw the timer alive long ago changes the word only if it stands as it saw it.
//!
//! It pays only for bursts: it begins when more than twice as many nodes are free as in use, and [`Table::KEPT`]
//! besides, and three quarters of some regions have no living timer; and it leaves as many free as are in use, and half
//! of [`Table::KEPT`].

use super::magazine::{CAPACITY, Stack, ThreadCache};
use super::record::Node;
use super::table::Table;
use crate::sync::atomic::Ordering;

/// What is kept free whatever the population: so many nodes or bytes, whichever is less, but about a region.
const KEPT_NODES: u64 = 64 * 1024;
const KEPT_BYTES: u64 = 8 * 1024 * 1024;
const LEAST_KEPT: u64 = 512;

/// Fresh nodes that others may take before the owner thinks that the burst is not over.
const FRESH: u64 = 4096;

/// Entries that may be dead in the wheel, whatever the population.
const ZOMBIES: u64 = 16 * 1024;

/// Turns between two looks while more is free than is to stay.
const TURNS_PER_LOOK: u32 = 16;

/// Regions that are looked at before the work begins.
const SAMPLES: u32 = 16;

/// Regions whose pages are given back by one call of the system.
const AT_ONCE: u32 = 32;

/// The count of a region that was released.
const RELEASED: u16 = u16::MAX;

impl<T> Table<T> {
    /// Free nodes that are kept whatever the population. None under loom.
    pub(super) const KEPT: u64 = match KEPT_BYTES / size_of::<Node<T>>() as u64 {
        _ if cfg!(tickwheel_loom) => 0,
        ..LEAST_KEPT => LEAST_KEPT,
        nodes if nodes < KEPT_NODES => nodes,
        _ => KEPT_NODES,
    };

    /// Whether so many nodes are free that it pays to give their memory back.
    pub(crate) fn has_much_free(&self, in_use: u64) -> bool {
        let served = self.depot().end();
        let free = served.saturating_sub(self.depot().regions.nodes()).saturating_sub(in_use);
        free > in_use.saturating_mul(2).saturating_add(Self::KEPT)
    }
}

/// What the owner is at; see the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Idle,
    /// Done; perhaps much has become free meanwhile.
    Look,
    Gather,
    Release {
        /// The region to be looked at next.
        region: u32,
    },
    Sort,
}

/// How far the owner has got.
#[derive(Debug)]
pub(crate) struct Trim {
    stage: Stage,
    /// The magazines that it has taken.
    pile: Stack,
    /// How many nodes of each region are in there, or [`RELEASED`].
    counts: Vec<u16>,
    /// Free nodes that are to stay.
    to_keep: u64,
    /// A magazine that is being filled with what is left, and how many nodes it has.
    rest: Option<(u32, u32)>,
    /// The end of the table when it was looked at last.
    end: u64,
    /// The number of entries below which it is looked at again: half of the most since the last look.
    look_below: u64,
    /// About how many nodes have been in use at most since memory was given back last.
    most_in_use: u64,
    /// Turns since the last look, if more is free than is to stay.
    turns: Option<u32>,
    /// The system does not take memory back.
    in_vain: bool,
}

impl Default for Trim {
    fn default() -> Self {
        Self {
            stage: Stage::Idle,
            pile: Stack::default(),
            counts: Vec::new(),
            to_keep: 0,
            rest: None,
            end: 0,
            look_below: 0,
            most_in_use: 0,
            turns: None,
            in_vain: false,
        }
    }
}

impl Trim {
    /// Whether there is something to do, or worth a look; `entries`: in the wheel. A look counts the pending timers, so
    /// it comes only when the table has grown, when half of the entries have gone, when somebody asks for it, and now
    /// and then while memory is kept by the few that live between many that do not.
    #[inline]
    pub(crate) fn is_due<T>(&mut self, table: &Table<T>, entries: u64, requested: bool) -> bool {
        if self.stage != Stage::Idle {
            return true;
        }
        self.look_below = self.look_below.max(entries / 2);
        let end = table.depot().end();
        if end <= Table::<T>::KEPT || self.in_vain {
            return false;
        }
        let waits = self.turns.as_mut().is_some_and(|turns| {
            *turns += 1;
            *turns == TURNS_PER_LOOK
        });
        requested || waits || end > self.end || entries < self.look_below
    }

    /// The number of pending timers from which on a thread that cancels many asks for a look.
    pub(crate) const fn ask_below(&self) -> u64 {
        if self.in_vain { 0 } else { self.most_in_use / 2 }
    }

    /// Whether the last step has ended the work.
    pub(crate) fn has_ended(&self) -> bool {
        self.stage == Stage::Look
    }

    /// One step, of about so many nodes; whether there is more to do. `entries` as in [`is_due`](Self::is_due),
    /// `in_use` counts the nodes that are.
    #[cold]
    pub(crate) fn step<T>(
        &mut self,
        table: &Table<T>,
        cache: &ThreadCache,
        entries: u64,
        in_use: impl FnOnce() -> u64,
        nodes: usize,
    ) -> bool {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        let magazines = (nodes / CAPACITY).max(1);
        let is_over = table.depot().end() > self.end.saturating_add(FRESH);
        match self.stage {
            Stage::Idle | Stage::Look => self.begin(table, entries, in_use()),
            Stage::Gather | Stage::Release { .. } if is_over => self.stop_releasing(),
            Stage::Gather => self.gather(table, magazines),
            Stage::Release { region } => self.release(table, region, nodes),
            Stage::Sort => self.sort(table, cache, magazines),
        }
        self.stage != Stage::Idle
    }

    fn begin<T>(&mut self, table: &Table<T>, entries: u64, in_use: u64) {
        self.stage = Stage::Idle;
        let end = table.depot().end();
        // Nodes that are new since the last look have served.
        let new = end - end.min(self.end);
        let most = self.most_in_use.max(self.look_below.saturating_sub(ZOMBIES)).max(in_use);
        let most = most.max(new);
        self.end = end;
        self.look_below = entries / 2;
        self.most_in_use = most;
        let much = table.has_much_free(in_use);
        self.turns = much.then_some(0);
        // What keeps the memory of many may be few that live among them: try again when half of them have gone.
        if !much || most == 0 || in_use > most / 2 {
            return;
        }
        let regions = &table.depot().regions;
        self.most_in_use = in_use;
        let count = regions.region_of(self.end.saturating_sub(1) as u32) as usize + 1;
        if !Self::is_worth_it(table, count as u32) {
            // A look costs little: another one when a quarter of them has gone.
            self.most_in_use = in_use + in_use / 2;
            return;
        }
        if self.counts.try_reserve_exact(count).is_ok() {
            self.counts.resize(count, 0);
            self.to_keep = in_use + Table::<T>::KEPT / 2;
            self.stage = Stage::Gather;
        }
    }

    /// Whether of some regions, from all over the table, three quarters have no living timer. If those that live lie
    /// everywhere, hardly any region is free as a whole, and to gather all nodes would be in vain.
    fn is_worth_it<T>(table: &Table<T>, count: u32) -> bool {
        let regions = &table.depot().regions;
        let is_empty = |region: u32| {
            let first = regions.first_of(region);
            let mut nodes = (first..first + regions.len()).filter_map(|index| table.node(index));
            nodes.all(|node| !node.state.load().is_live())
        };
        let sampled = (0..SAMPLES).map(|at| 1 + at * count.saturating_sub(1) / SAMPLES);
        4 * sampled.filter(|region| is_empty(*region)).count() >= 3 * SAMPLES as usize
    }

    /// Nothing more is released: all that is gathered goes back.
    fn stop_releasing(&mut self) {
        self.stage = Stage::Sort;
    }

    fn gather<T>(&mut self, table: &Table<T>, magazines: u32) {
        let depot = table.depot();
        for _ in 0..magazines {
            let Some(magazine) = depot.full.pop(&depot.magazines) else {
                self.stage = Stage::Release { region: 1 };
                return;
            };
            for node in depot.magazines.get(magazine).iter().flat_map(|full| &full.nodes) {
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

    /// Whether all nodes of a region are in the pile.
    fn is_whole<T>(&self, table: &Table<T>, region: u32) -> bool {
        let len = table.depot().regions.len();
        self.counts.get(region as usize).is_some_and(|count| u32::from(*count) == len)
    }

    fn release<T>(&mut self, table: &Table<T>, from: u32, nodes: u32) {
        let regions = &table.depot().regions;
        let mut left = (nodes / regions.len()).max(1);
        let mut region = from;
        while left > 0 {
            if region as usize >= self.counts.len() {
                self.stage = Stage::Sort;
                return;
            }
            if !self.is_whole(table, region) {
                region += 1;
                continue;
            }
            let stays = self.to_keep > 0 || !table.nodes().can_give_back(regions.first_of(region));
            if stays || !regions.prepare(region) {
                self.to_keep = self.to_keep.saturating_sub(u64::from(regions.len()));
                region += 1;
                continue;
            }
            let most = left.min(AT_ONCE);
            let row = (region..region + most)
                // A number's highest bit is that of its segment.
                .take_while(|next| next.ilog2() == region.ilog2())
                .take_while(|next| self.is_whole(table, *next) && regions.prepare(*next))
                .count() as u32;
            if !self.release_row(table, region, row) {
                self.in_vain = true;
                return self.stop_releasing();
            }
            region += row;
            left -= row;
        }
        self.stage = Stage::Release { region };
    }

    /// Gives the memory of some regions of one segment back, all nodes of which are in the pile; false if the system
    /// does not take it.
    fn release_row<T>(&mut self, table: &Table<T>, first: u32, row: u32) -> bool {
        let regions = &table.depot().regions;
        let generations: [u64; AT_ONCE as usize] = std::array::from_fn(|at| {
            Self::generation_above(table, first + at as u32, at < row as usize)
        });
        let (node, count) = (regions.first_of(first), row * regions.len());
        // SAFETY: the regions are whole pages of one segment. Their nodes are all in the pile, so nobody else has any:
        // they are free, whoever held them has let go, and what they carried was moved out by who ended the
        // timer. Who has a stale key or entry reads the state and the deadline, which are atomic, and finds nothing
        // alive in zeros.
        if !unsafe { table.nodes().give_back(node, count) } {
            return false;
        }
        for (region, generation) in (first..first + row).zip(generations) {
            regions.put(region, generation);
            self.counts[region as usize] = RELEASED;
        }
        true
    }

    /// A generation that none of a region's nodes has had.
    fn generation_above<T>(table: &Table<T>, region: u32, is_meant: bool) -> u64 {
        if !is_meant {
            return 0;
        }
        let regions = &table.depot().regions;
        let first = regions.first_of(region);
        let states = (first..first + regions.len()).filter_map(|index| table.node(index));
        let states = states.map(|node| node.state.load());
        debug_assert!(states.clone().all(|state| !state.is_live()), "a free node's timer lives");
        states.map(|state| state.generation()).max().unwrap_or(0) + 1
    }

    fn sort<T>(&mut self, table: &Table<T>, cache: &ThreadCache, magazines: u32) {
        let depot = table.depot();
        for _ in 0..magazines {
            let Some(magazine) = self.pile.pop(&depot.magazines) else {
                return self.end(table, cache);
            };
            let len = self.without_released(table, magazine);
            self.merge(table, magazine, len);
        }
    }

    /// Takes the nodes of released regions out of a magazine that was full; how many nodes are left in it.
    fn without_released<T>(&self, table: &Table<T>, magazine: u32) -> u32 {
        let depot = table.depot();
        let Some(magazine) = depot.magazines.get(magazine) else { return 0 };
        let mut len = 0;
        for node in &magazine.nodes {
            // ORDERING: Relaxed, here and below: the owner holds the magazine.
            let index = node.load(Ordering::Relaxed);
            let region = depot.regions.region_of(index) as usize;
            if self.counts.get(region) != Some(&RELEASED) {
                magazine.nodes[len as usize].store(index, Ordering::Relaxed);
                len += 1;
            }
        }
        len
    }

    /// Moves the nodes of a magazine to the one that is being filled. Whichever is full goes to the depot, and so does
    /// the one that is empty.
    fn merge<T>(&mut self, table: &Table<T>, magazine: u32, mut len: u32) {
        let depot = table.depot();
        if let Some((rest, mut filled)) = self.rest.take_if(|_| len < CAPACITY) {
            let ends = (depot.magazines.get(rest), depot.magazines.get(magazine));
            if let (Some(to), Some(from)) = ends {
                while filled < CAPACITY && len > 0 {
                    len -= 1;
                    // ORDERING: Relaxed, both: the owner holds the magazines.
                    let node = from.nodes[len as usize].load(Ordering::Relaxed);
                    to.nodes[filled as usize].store(node, Ordering::Relaxed);
                    filled += 1;
                }
            }
            if filled == CAPACITY {
                depot.full.push(&depot.magazines, rest);
            } else {
                self.rest = Some((rest, filled));
            }
        }
        match len {
            0 => depot.empty.push(&depot.magazines, magazine),
            CAPACITY => depot.full.push(&depot.magazines, magazine),
            _ => self.rest = Some((magazine, len)),
        }
    }

    fn end<T>(&mut self, table: &Table<T>, cache: &ThreadCache) {
        let depot = table.depot();
        if let Some((rest, len)) = self.rest.take() {
            for node in
                depot.magazines.get(rest).iter().flat_map(|rest| &rest.nodes[..len as usize])
            {
                // ORDERING: Relaxed: the owner holds the magazine.
                cache.give(depot, node.load(Ordering::Relaxed));
            }
            depot.empty.push(&depot.magazines, rest);
        }
        self.counts = Vec::new();
        self.stage = Stage::Look;
    }
}

#[cfg(all(test, target_os = "linux", not(tickwheel_loom)))]
mod tests;
