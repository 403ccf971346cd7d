//! The order of a `FixedTimer`'s timers: a list that is doubly linked, so that a timer leaves it from any place.
//!
//! The links lie beside the table's nodes, by the same numbers.

use super::node::shrink_to_fit;
use alloc::vec::Vec;

/// No node: the neighbour of the first and of the last one.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

/// See the module.
pub(super) struct Queue {
    /// By node; those of nodes that are not in the queue mean nothing.
    links: Vec<Link>,
    /// The first node, or a number that no node has.
    pub(super) front: u32,
    back: u32,
    /// The first of the nodes that have come since the last [`begin_poll`](Self::begin_poll); all behind it have, too.
    newcomer: u32,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            links: Vec::new(),
            front: NONE,
            back: NONE,
            newcomer: NONE,
        }
    }

    /// Returns the node at the front.
    #[inline]
    pub(super) fn front(&self) -> Option<u32> {
        (self.front != NONE).then_some(self.front)
    }

    /// Notes that a poll begins: nodes that come from now on wait for the next one.
    pub(super) fn begin_poll(&mut self) {
        self.newcomer = NONE;
    }

    /// Returns the node at the front, if it was there when the poll began.
    #[inline]
    pub(super) fn front_of_poll(&self) -> Option<u32> {
        self.front().filter(|front| *front != self.newcomer)
    }

    /// Appends a node that is not in the queue; false if there is no memory for its link.
    #[inline]
    #[must_use]
    pub(super) fn push(&mut self, node: u32) -> bool {
        if node as usize >= self.links.len() && !self.grow(node) {
            return false;
        }
        self.append(node);
        true
    }

    #[inline]
    fn append(&mut self, node: u32) {
        let before = self.back;
        self.links[node as usize] = Link {
            before,
            after: NONE,
        };
        self.back = node;
        match self.links.get_mut(before as usize) {
            Some(last) => last.after = node,
            None => self.front = node,
        }
        if self.newcomer == NONE {
            self.newcomer = node;
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, node: u32) -> bool {
        let nodes = node as usize + 1;
        let has_room = self.links.try_reserve(nodes - self.links.len()).is_ok();
        if has_room {
            let unlinked = Link {
                before: NONE,
                after: NONE,
            };
            self.links.resize(nodes, unlinked);
        }
        has_room
    }

    /// Takes a node of the queue out.
    #[inline]
    pub(super) fn remove(&mut self, node: u32) {
        let Link { before, after } = self.links[node as usize];
        match self.links.get_mut(before as usize) {
            Some(link) => link.after = after,
            None => self.front = after,
        }
        match self.links.get_mut(after as usize) {
            Some(link) => link.before = before,
            None => self.back = before,
        }
        if self.newcomer == node {
            self.newcomer = after;
        }
    }

    /// Moves a node of the queue to the back.
    #[inline]
    pub(super) fn move_to_back(&mut self, node: u32) {
        self.remove(node);
        self.append(node);
    }

    /// Makes room for the links of `nodes` nodes, if there is memory for it.
    pub(super) fn reserve(&mut self, nodes: usize) {
        let _ = self
            .links
            .try_reserve(nodes.saturating_sub(self.links.len()));
    }

    /// Gives up the links of nodes from this one on, none of which is in the queue.
    pub(super) fn shrink_to(&mut self, nodes: usize) {
        self.links.truncate(nodes);
        shrink_to_fit(&mut self.links);
    }

    /// Returns of how many nodes there is room for the links.
    pub(super) fn capacity(&self) -> usize {
        self.links.capacity()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.capacity() * size_of::<Link>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list of nodes, with whether each has come since the last poll began.
        #[test]
        fn nodes_stand_in_the_order_in_which_they_came(
            steps in prop::collection::vec((0..8_u8, 0..40_u32), 1..300),
        ) {
            let (mut queue, mut model) = (Queue::new(), VecDeque::new());
            for (step, node) in steps {
                let at = model.iter().position(|(it, _)| *it == node);
                match (step, at) {
                    (0, _) => {
                        queue.begin_poll();
                        model.iter_mut().for_each(|(_, is_new)| *is_new = false);
                    }
                    (_, None) => {
                        prop_assert!(queue.push(node));
                        model.push_back((node, true));
                    }
                    (1..=4, Some(at)) => {
                        queue.remove(node);
                        model.remove(at);
                    }
                    (_, Some(at)) => {
                        queue.move_to_back(node);
                        model.remove(at);
                        model.push_back((node, true));
                    }
                }
                let front = model.front();
                prop_assert_eq!(queue.front(), front.map(|(node, _)| *node));
                let of_poll = front.filter(|(_, is_new)| !is_new);
                prop_assert_eq!(queue.front_of_poll(), of_poll.map(|(node, _)| *node));
            }
            for (node, _) in model {
                prop_assert_eq!(queue.front(), Some(node));
                queue.remove(node);
            }
            prop_assert_eq!((queue.front(), queue.push(7), queue.front()), (None, true, Some(7)));
        }
    }
}
