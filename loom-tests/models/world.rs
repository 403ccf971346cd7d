//! What the scenarios about nodes share: a table with room for a few nodes, the threads' thread caches, and an
//! owner that decides about entries by hand.
//!
//! At the end every node must be free, once: a node that was recycled twice is handed out twice, and one
//! that was lost is missing.

use super::harness::{Bound, JoinHandle, Ledger, Payload, explore_as, name_of, spawn_with};
use crate::node::magazine::{CAPACITY, ThreadCache};
use crate::node::moves::{Move, MoveAlone};
use crate::node::offer::offer;
use crate::node::table::{Armed, Due, Table};
use crate::state::Phase;
use crate::types::{Cancel, ScheduleErrorKind};
use crate::wheel::Fate;
use std::collections::HashSet;
use std::sync::Arc;

/// Nodes in the table, if the scenario does not say: two magazines under loom.
const NODES: u32 = 2 * CAPACITY;
/// The threads of a scenario, and so its thread caches; the owner's is the last.
pub(super) const OWNER: usize = 3;

pub(super) struct World {
    pub(super) table: Table<Payload>,
    pub(super) caches: [ThreadCache; OWNER + 1],
    nodes: u32,
    ledger: Arc<Ledger>,
}

/// A timer without a handle, and one whose handle holds its node.
pub(super) const BARE: bool = false;
pub(super) const HELD: bool = true;

/// Explores what becomes of one timer, which is armed for tick `deadline` with the payload 1.
pub(super) fn explore_timer<F>(bound: Bound, held: bool, deadline: u64, scenario: F)
where
    F: Fn(&Arc<World>, Armed) + Send + Sync + 'static,
{
    explore_as(name_of(&scenario), bound, move || {
        let world = World::new();
        let timer = world.try_arm(0, deadline, 1, held).unwrap();
        scenario(&world, timer);
        world.finish();
    });
}

impl World {
    pub(super) fn new() -> Arc<Self> {
        Self::with_nodes(NODES)
    }

    pub(super) fn with_nodes(nodes: u32) -> Arc<Self> {
        let caches = std::array::from_fn(|_| ThreadCache::default());
        let table = Table::new(0, u64::from(nodes));
        Arc::new(Self {
            table,
            caches,
            nodes,
            ledger: Ledger::of_payloads(),
        })
    }

    pub(super) fn payload(&self, id: u64) -> Payload {
        self.ledger.payload(id)
    }

    pub(super) fn owners_cache(&self) -> &ThreadCache {
        &self.caches[OWNER]
    }

    fn try_arm(&self, thread: usize, deadline: u64, id: u64, held: bool) -> Option<Armed> {
        let cache = &self.caches[thread];
        offer(self.payload(id), |payload| {
            let armed = self.table.arm(cache, deadline, payload, held, || ());
            armed.map_err(|payload| payload.refuse(ScheduleErrorKind::OutOfMemory))
        })
        .ok()
    }

    pub(super) fn arm(&self, thread: usize, deadline: u64, id: u64) -> Armed {
        self.try_arm(thread, deadline, id, false)
            .expect("a node is free")
    }

    pub(super) fn end(&self, thread: usize, timer: Armed) -> Cancel<Payload> {
        let (cache, phase) = (&self.caches[thread], Phase::Cancelled);
        self.table.end(cache, timer.index, timer.generation, phase)
    }

    pub(super) fn cancel(&self, thread: usize, timer: Armed) -> Option<u64> {
        let payload = self.end(thread, timer).into_payload();
        payload.map(|payload| payload.id())
    }

    /// The handle cancels, if it can, and goes; what it took.
    pub(super) fn cancel_and_release(&self, thread: usize, timer: Armed) -> Option<u64> {
        let taken = self.table.cancel_held(&self.caches[thread], timer.index);
        self.release(thread, timer);
        taken.into_payload().map(|payload| payload.id())
    }

    pub(super) fn move_to(&self, thread: usize, timer: Armed, deadline: u64) -> Move {
        self.table.move_to(
            &self.caches[thread],
            timer.index,
            timer.generation,
            deadline,
        )
    }

    /// A future moves its timer, by the steps of `shard::producer`: the tick by which the owner looks at it then, and
    /// what the owner is told.
    pub(super) fn move_alone(&self, timer: Armed, to: u64, look: u64) -> Option<(u64, Move)> {
        let MoveAlone { look, tell } = self.table.move_alone(timer.index, to, look)?;
        Some(match tell {
            Some(mark) => (to, Move::Earlier { mark }),
            None => (look, Move::Later),
        })
    }

    pub(super) fn release(&self, thread: usize, timer: Armed) {
        self.table.release(&self.caches[thread], timer.index);
    }

    /// Starts a thread that cancels the timer.
    pub(super) fn canceller(
        self: &Arc<Self>,
        thread: usize,
        timer: Armed,
    ) -> JoinHandle<Option<u64>> {
        spawn_with(self, move |world| world.cancel(thread, timer))
    }

    /// Starts a thread that moves the timer.
    pub(super) fn mover(
        self: &Arc<Self>,
        thread: usize,
        timer: Armed,
        to: u64,
    ) -> JoinHandle<Move> {
        spawn_with(self, move |world| world.move_to(thread, timer, to))
    }

    /// The owner returns what is pending, as a stop does.
    pub(super) fn stop(&self) -> Vec<u64> {
        let mut returned = Vec::new();
        self.table
            .return_all(self.owners_cache(), |it| returned.push(it.payload.id()));
        returned
    }

    /// The owner decides about an entry: the deadline it fired with, or when to look again, or neither.
    pub(super) fn due(&self, timer: Armed, mark: u32, now: u64) -> Decided {
        match self.table.due(&self.caches[OWNER], timer.index, mark, now) {
            Fate::Fire(Due::Every { .. }) => panic!("it fires once"),
            Fate::Fire(Due::Once(fired)) => {
                let generation = self.table.generation(fired.key);
                assert_eq!(generation, timer.generation, "another timer fired");
                assert!(
                    fired.deadline <= now,
                    "fired early: {} at {now}",
                    fired.deadline
                );
                assert_ne!(fired.payload.id(), 0);
                Decided::Fired(fired.deadline)
            }
            Fate::Reinsert { tick, mark } => {
                assert!(tick > now, "inserted again for a tick that is over");
                Decided::Again(tick, mark)
            }
            Fate::Drop => Decided::Dead,
        }
    }

    /// The message of a move reaches the owner: what it inserts for it.
    pub(super) fn arrive(&self, timer: Armed, moved: Move) -> Option<(u64, u32)> {
        let Move::Earlier { mark } = moved else {
            return None;
        };
        self.table.arrive(timer.index, mark)
    }

    /// Everybody is done: lets the messages of `moves` arrive and the owner decide about all that is inserted then, in
    /// order; what the timer fired with.
    pub(super) fn fire_the_rest<const N: usize>(
        &self,
        timer: Armed,
        inserted: Option<(u64, u32)>,
        moves: [Move; N],
    ) -> Option<u64> {
        let arrived = moves
            .into_iter()
            .filter_map(|moved| self.arrive(timer, moved));
        let mut entries: Vec<_> = inserted.into_iter().chain(arrived).collect();
        let mut fired = None;
        while !entries.is_empty() {
            entries.sort_unstable();
            let (tick, mark) = entries.remove(0);
            match self.due(timer, mark, tick) {
                Decided::Fired(deadline) => {
                    assert_eq!(tick, deadline, "no entry lay at the deadline");
                    assert_eq!(fired.replace(deadline), None, "fired twice");
                }
                Decided::Again(tick, mark) => entries.push((tick, mark)),
                Decided::Dead => {}
            }
        }
        fired
    }

    /// Every timer has ended: each node can be had once, and each payload was dropped once.
    pub(super) fn finish(self: Arc<Self>) {
        let Some(world) = Arc::into_inner(self) else {
            panic!("a thread is not joined")
        };
        let mut free = HashSet::new();
        for thread in 0..=OWNER {
            while let Some(armed) = world.try_arm(thread, 0, 0, false) {
                assert!(
                    free.insert(armed.index),
                    "node {} was recycled twice",
                    armed.index
                );
            }
        }
        assert_eq!(free.len(), world.nodes as usize, "a node was not recycled");
        let ledger = Arc::clone(&world.ledger);
        drop(world);
        ledger.assert_all_dropped();
    }
}

/// What the owner did with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decided {
    Fired(u64),
    Again(u64, u32),
    Dead,
}

impl Decided {
    pub(super) fn fired(self) -> bool {
        matches!(self, Self::Fired(_))
    }

    /// The entry that is inserted afterwards.
    pub(super) fn inserted(self) -> Option<(u64, u32)> {
        if let Self::Again(tick, mark) = self {
            Some((tick, mark))
        } else {
            None
        }
    }
}
