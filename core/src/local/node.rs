//! The records of single-threaded timers: a state of 8 bytes, and a node of 16 with a payload of up to eight.
//!
//! They lie in two arrays, by the same numbers. A look at an entry reads a state alone, and eight of these share a line.
//! A cancel among very many timers misses the cache for both, but side by side, because the key names both.
//!
//! What a node carries is told by its state, so that it needs no tag of its own. Everything that touches the payload
//! without looking is in this file, behind functions that look.

use crate::state::{Phase, State};
use crate::sync::prefetch::prefetch;
use crate::time::Repeat;
use crate::types::Key;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::{self, ManuallyDrop};

/// The contents of a node: `single` while it is pending, `periodic` while it is waiting, else nothing.
union NodePayload<T> {
    nothing: (),
    single: ManuallyDrop<T>,
    periodic: ManuallyDrop<Box<Repeat<T>>>,
}

const _: () = assert!(size_of::<Node<u64>>() == 16);

struct Node<T> {
    /// Pending: the tick at or after which the timer may fire. Free: the next free node.
    deadline: u64,
    payload: NodePayload<T>,
}

impl<T> Node<T> {
    /// Takes the payload of a node that ends.
    ///
    /// # Safety
    ///
    /// `was` is its state, in which it is pending, and the payload is not taken again.
    #[inline(always)]
    unsafe fn take(&mut self, was: State) -> T {
        if was.is_periodic() {
            // SAFETY: the node is pending and periodic, so this is what it carries.
            return unsafe { ManuallyDrop::take(&mut self.payload.periodic) }.payload;
        }
        // SAFETY: the node is pending and not periodic, so this is what it carries.
        unsafe { ManuallyDrop::take(&mut self.payload.single) }
    }
}

/// Nodes that are added at a time, if the room for them is there: then a growing number of timers costs a call for each
/// of so many.
const ADDED: usize = 64;

/// See the module.
pub(super) struct Nodes<T> {
    states: Vec<State>,
    /// As many as there are states.
    nodes: Vec<Node<T>>,
}

impl<T> Nodes<T> {
    pub(super) const fn new() -> Self {
        Self {
            states: Vec::new(),
            nodes: Vec::new(),
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    pub(super) fn states(&self) -> &[State] {
        &self.states
    }

    /// Returns the state of the pending timer that a key names.
    #[inline]
    pub(super) fn named(&self, key: Key<T>) -> Option<State> {
        let state = *self.states.get(key.index() as usize)?;
        state.is_named(key.generation()).then_some(state)
    }

    /// Returns whether an entry with this mark is its timer's current one, and the timer is pending.
    #[inline]
    pub(super) fn is_current(&self, index: u32, mark: u32) -> bool {
        self.states
            .get(index as usize)
            .is_some_and(|state| state.is_current(mark))
    }

    /// Returns state and deadline of the pending timer whose current entry has this mark.
    #[inline]
    pub(super) fn current(&self, index: u32, mark: u32) -> Option<(State, u64)> {
        let (state, node) = self.pair(index)?;
        state.is_current(mark).then_some((state, node.deadline))
    }

    #[inline(always)]
    fn pair(&self, index: u32) -> Option<(State, &Node<T>)> {
        let state = *self.states.get(index as usize)?;
        // SAFETY: there are as many nodes as states.
        Some((state, unsafe { self.nodes.get_unchecked(index as usize) }))
    }

    #[inline(always)]
    fn pair_mut(&mut self, index: u32) -> Option<(&mut State, &mut Node<T>)> {
        let state = self.states.get_mut(index as usize)?;
        // SAFETY: there are as many nodes as states.
        let node = unsafe { self.nodes.get_unchecked_mut(index as usize) };
        Some((state, node))
    }

    /// Returns the deadline of a node, which must be pending.
    #[inline(always)]
    pub(super) fn deadline(&self, index: u32) -> Option<u64> {
        self.nodes.get(index as usize).map(|node| node.deadline)
    }

    /// Sets a pending node's deadline; its entry stays the current one.
    #[inline(always)]
    pub(super) fn move_to(&mut self, index: u32, deadline: u64) {
        if let Some(node) = self.nodes.get_mut(index as usize) {
            node.deadline = deadline;
        }
    }

    /// Makes `next` the free node that follows this free one.
    pub(super) fn link(&mut self, index: u32, next: u32) {
        self.move_to(index, u64::from(next));
    }

    /// Sets the deadline of the timer that a key names, if it is pending; its state, and the deadline before.
    #[inline]
    pub(super) fn move_by_key(&mut self, key: Key<T>, deadline: u64) -> Option<(State, u64)> {
        let (state, node) = self.pair_mut(key.index())?;
        let is_named = state.is_named(key.generation());
        is_named.then(|| (*state, mem::replace(&mut node.deadline, deadline)))
    }

    /// Arms a free node. Returns its new state and the next free node.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[inline(always)]
    pub(super) fn arm(&mut self, index: u32, deadline: u64, payload: T) -> (State, u32) {
        let single = ManuallyDrop::new(payload);
        self.take_up(index, Phase::Pending, deadline, NodePayload { single })
    }

    /// Like [`arm`](Self::arm), for a periodic timer.
    pub(super) fn arm_periodic(&mut self, index: u32, repeat: Box<Repeat<T>>) -> (State, u32) {
        let deadline = repeat.recurrence.tick();
        let periodic = ManuallyDrop::new(repeat);
        self.take_up(index, Phase::Waiting, deadline, NodePayload { periodic })
    }

    #[inline(always)]
    fn take_up(
        &mut self,
        index: u32,
        phase: Phase,
        deadline: u64,
        payload: NodePayload<T>,
    ) -> (State, u32) {
        let (state, node) = self.pair_mut(index).expect("callers look for one");
        debug_assert!(
            !state.is_live(),
            "what a living node carries would be leaked"
        );
        *state = state.armed(phase);
        let free = mem::replace(node, Node { deadline, payload });
        (*state, free.deadline as u32)
    }

    /// Ends the timer that `key` names, which makes its node the first of the free ones, and takes the payload.
    #[inline(always)]
    pub(super) fn end(&mut self, key: Key<T>, next: u32, phase: Phase) -> Option<T> {
        let (state, node) = self.pair_mut(key.index())?;
        let was = *state;
        if !was.is_named(key.generation()) {
            return None;
        }
        *state = was.in_phase(phase);
        node.deadline = u64::from(next);
        // SAFETY: only a pending timer is named, and this one is not pending any more.
        Some(unsafe { node.take(was) })
    }

    /// Like [`end`](Self::end), for the timer that the node has, if it is pending; its key, deadline and payload.
    #[inline(always)]
    pub(super) fn end_any(
        &mut self,
        index: u32,
        next: u32,
        phase: Phase,
    ) -> Option<(Key<T>, u64, T)> {
        let (state, node) = self.pair_mut(index)?;
        let was = *state;
        if !was.is_live() {
            return None;
        }
        *state = was.in_phase(phase);
        let key = Key::new(0, index, was.generation());
        let deadline = mem::replace(&mut node.deadline, u64::from(next));
        // SAFETY: it was pending, and is not any more.
        Some((key, deadline, unsafe { node.take(was) }))
    }

    /// Turns a pending node's entry into a zombie; the state that a new one must carry.
    pub(super) fn supersede_entry(&mut self, index: u32) -> State {
        let state = &mut self.states[index as usize];
        *state = state.with_new_mark();
        *state
    }

    /// Returns the payload of a node, if it is pending.
    pub(super) fn payload(&self, index: u32) -> Option<&T> {
        let (state, node) = self.pair(index)?;
        if carries_repeat(state) {
            // SAFETY: pending and periodic: this is what the node carries.
            return Some(unsafe { &node.payload.periodic.payload });
        }
        // SAFETY: pending and not periodic: this is what the node carries.
        state.is_live().then(|| unsafe { &*node.payload.single })
    }

    /// Returns the payload of a node, to be changed, if it is pending.
    pub(super) fn payload_mut(&mut self, index: u32) -> Option<&mut T> {
        let (state, node) = self.pair_mut(index)?;
        if carries_repeat(*state) {
            // SAFETY: pending and periodic: this is what the node carries.
            let repeat = unsafe { &mut **node.payload.periodic };
            return Some(&mut repeat.payload);
        }
        // SAFETY: pending and not periodic: this is what the node carries.
        (state.is_live()).then(|| unsafe { &mut *node.payload.single })
    }

    /// Returns the recurrence of a pending periodic node.
    pub(super) fn repeat(&self, index: u32) -> Option<&Repeat<T>> {
        let (state, node) = self.pair(index)?;
        // SAFETY: pending and periodic: this is what the node carries.
        carries_repeat(state).then(|| unsafe { &**node.payload.periodic })
    }

    /// Like [`repeat`](Self::repeat), but mutable.
    pub(super) fn repeat_mut(&mut self, index: u32) -> Option<&mut Repeat<T>> {
        let (state, node) = self.pair_mut(index)?;
        // SAFETY: pending and periodic: this is what the node carries.
        carries_repeat(*state).then(|| unsafe { &mut **node.payload.periodic })
    }

    /// Adds free nodes, up to `most`, of which each is followed by the next one; the last by `end`. Their first timers are
    /// in the generation after `generation`. False if there is no memory for a single one.
    pub(super) fn add(&mut self, most: usize, end: u32, generation: u64) -> bool {
        let before = self.capacity();
        if self.nodes.try_reserve(1).is_err() || self.states.try_reserve(1).is_err() {
            return false;
        }
        self.after_growth(before);
        let len = (self.len() + most.min(ADDED)).min(self.capacity());
        let last = len as u32 - 1;
        let free = |index| Node {
            deadline: u64::from(if index == last { end } else { index + 1 }),
            payload: NodePayload { nothing: () },
        };
        self.nodes.extend((self.len() as u32..=last).map(free));
        self.states.resize(len, State::unarmed(generation));
        true
    }

    /// Asks for the line of a node's state.
    #[inline]
    pub(super) fn prefetch_state(&self, index: u32) {
        if let Some(state) = self.states.get(index as usize) {
            prefetch(state);
        }
    }

    /// Asks for the lines of a node and of its state.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        self.prefetch_state(index);
        if let Some(node) = self.nodes.get(index as usize) {
            prefetch(node);
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity().min(self.states.capacity())
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.node_bytes() + self.state_bytes()
    }

    fn node_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<T>>()
    }

    fn state_bytes(&self) -> usize {
        self.states.capacity() * size_of::<State>()
    }

    /// Makes room for so many more nodes, if there is memory for it.
    pub(super) fn reserve(&mut self, more: usize) {
        let before = self.capacity();
        if before.saturating_sub(self.len()) >= more {
            return;
        }
        // Room for nodes or for states alone would be of no use. That for the states is given back with this list.
        let mut states = Vec::new();
        let fitting = (self.len() + more).max(self.states.capacity());
        let has_states = states.try_reserve_exact(fitting).is_ok();
        if has_states && self.nodes.try_reserve(more).is_ok() {
            states.append(&mut self.states);
            self.states = states;
        }
        self.after_growth(before);
    }

    /// Asks for huge pages, if the nodes have moved to another place: they are looked at in random order.
    fn after_growth(&self, before: usize) {
        if self.capacity() > before {
            #[cfg(feature = "std")]
            {
                use crate::sync::pages::prefer_huge;
                prefer_huge(self.nodes.as_ptr().cast(), self.node_bytes());
                prefer_huge(self.states.as_ptr().cast(), self.state_bytes());
            }
        }
    }

    /// Gives up the nodes from this one on, none of which is pending.
    pub(super) fn truncate(&mut self, nodes: usize) {
        self.states.truncate(nodes);
        self.nodes.truncate(nodes);
    }

    /// Gives back what is reserved beyond the last node, if there is memory for the copy.
    pub(super) fn shrink_to_fit(&mut self) {
        let have_moved = [
            shrink_to_fit(&mut self.states),
            shrink_to_fit(&mut self.nodes),
        ];
        if have_moved.contains(&true) {
            self.after_growth(0);
        }
    }

    #[cfg(all(test, target_os = "linux", not(tickwheel_loom)))]
    pub(super) fn places(&self) -> [*const u8; 2] {
        [self.nodes.as_ptr().cast(), self.states.as_ptr().cast()]
    }
}

const fn carries_repeat(state: State) -> bool {
    state.is_live() & state.is_periodic()
}

impl<T> Drop for Nodes<T> {
    fn drop(&mut self) {
        for index in 0..self.len() as u32 {
            if let Some((_, _, payload)) = self.end_any(index, 0, Phase::Cancelled) {
                drop_payload(payload);
            }
        }
    }
}

/// Drops a payload. With a standard library, later payloads are dropped even if this destructor panics.
pub(super) fn drop_payload<T>(payload: T) {
    #[cfg(feature = "std")]
    crate::contain::drop_payload(payload);
    #[cfg(not(feature = "std"))]
    drop(payload);
}

/// Moves `values` to a place without room for more, if there is memory for it; whether they have moved.
///
/// `Vec::shrink_to_fit` ends the process where the allocator needs memory to give some back and has none.
pub(super) fn shrink_to_fit<V>(values: &mut Vec<V>) -> bool {
    let mut fitting = Vec::new();
    let moves = values.len() < values.capacity() && fitting.try_reserve_exact(values.len()).is_ok();
    if moves {
        fitting.append(values);
        *values = fitting;
    }
    moves
}
