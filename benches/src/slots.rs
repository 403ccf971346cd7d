//! Payloads in a table with a free list, named by handles with generations.

/// A slot: its timer is pending while its generation is that of the timer's handle.
#[derive(Default)]
struct Slot<E> {
    payload: u64,
    extra: E,
    generation: u32,
}

/// The table. Each slot has an extra of the table's owner beside the payload.
#[derive(Default)]
pub(crate) struct Slots<E> {
    all: Vec<Slot<E>>,
    free: Vec<u32>,
}

/// Names a timer: its slot and the slot's generation.
pub(crate) type SlotKey = (u32, u32);

impl<E: Default> Slots<E> {
    #[inline]
    pub(crate) fn insert(&mut self, payload: u64, extra: E) -> SlotKey {
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(Slot::default());
            // The workloads have at most ten million timers.
            (self.all.len() - 1) as u32
        });
        let slot = &mut self.all[at as usize];
        slot.payload = payload;
        slot.extra = extra;
        (at, slot.generation)
    }

    /// Returns the extra of a slot.
    #[inline]
    pub(crate) fn extra(&mut self, at: u32) -> &mut E {
        &mut self.all[at as usize].extra
    }

    /// Returns the key of the timer that is in a slot.
    #[inline]
    pub(crate) fn key(&self, at: u32) -> SlotKey {
        (at, self.all[at as usize].generation)
    }

    #[inline]
    pub(crate) fn is_pending(&self, key: SlotKey) -> bool {
        self.key(key.0) == key
    }

    /// Ends a pending timer and returns its payload.
    ///
    /// # Panics
    ///
    /// If the timer is not pending.
    #[inline]
    pub(crate) fn remove(&mut self, (at, generation): SlotKey) -> u64 {
        let slot = &mut self.all[at as usize];
        assert_eq!(slot.generation, generation, "the timer is pending");
        slot.generation += 1;
        let payload = slot.payload;
        self.free.push(at);
        payload
    }

    /// Gives a timer another key: the old one names it no more.
    #[inline]
    pub(crate) fn renew(&mut self, at: u32) -> SlotKey {
        self.all[at as usize].generation += 1;
        self.key(at)
    }

    /// Returns the number of pending timers.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
