//! A 4-ary heap that knows where each timer lies, so that a cancel takes it out at once.

/// Children of a node: four lie in one cache line.
const ARITY: usize = 4;

/// A timer's record: where it lies in the heap while it is pending.
#[derive(Default)]
struct Record {
    payload: u64,
    generation: u32,
    position: u32,
}

/// Timers in an implicit heap of (deadline, record), with the way back from record to position.
#[derive(Default)]
pub(super) struct IndexedHeap {
    heap: Vec<(u64, u32)>,
    records: Vec<Record>,
    free: Vec<u32>,
}

/// Names a timer: its record and the record's generation.
pub(super) type IndexedKey = (u32, u32);

impl IndexedHeap {
    /// Adds a timer.
    #[inline]
    pub(super) fn insert(&mut self, deadline: u64, payload: u64) -> IndexedKey {
        let record = self.free.pop().unwrap_or_else(|| {
            self.records.push(Record::default());
            // The workloads have at most ten million timers.
            (self.records.len() - 1) as u32
        });
        self.records[record as usize].payload = payload;
        self.heap.push((deadline, record));
        self.sift_up(self.heap.len() - 1);
        (record, self.records[record as usize].generation)
    }

    /// Takes a pending timer out.
    ///
    /// # Panics
    ///
    /// If it is not pending.
    #[inline]
    pub(super) fn remove(&mut self, (record, generation): IndexedKey) -> u64 {
        assert_eq!(self.records[record as usize].generation, generation, "the timer is pending");
        self.remove_at(self.records[record as usize].position as usize)
    }

    /// The earliest deadline.
    #[must_use]
    pub(super) fn next(&self) -> Option<u64> {
        self.heap.first().map(|first| first.0)
    }

    /// Takes the earliest timer out, if it is due.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<u64> {
        (self.next()? <= now).then(|| self.remove_at(0))
    }

    fn remove_at(&mut self, at: usize) -> u64 {
        let (_, record) = self.heap.swap_remove(at);
        if at < self.heap.len() {
            let moved = self.heap[at].1;
            self.sift_down(at);
            self.sift_up(self.records[moved as usize].position as usize);
        }
        self.free.push(record);
        let record = &mut self.records[record as usize];
        record.generation += 1;
        record.payload
    }

    #[inline]
    fn place(&mut self, at: usize, entry: (u64, u32)) {
        self.heap[at] = entry;
        // Fewer than 2^32 timers.
        self.records[entry.1 as usize].position = at as u32;
    }

    fn sift_up(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent].0 <= entry.0 {
                break;
            }
            self.place(at, self.heap[parent]);
            at = parent;
        }
        self.place(at, entry);
    }

    fn sift_down(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let first = at * ARITY + 1;
            let last = (first + ARITY).min(self.heap.len());
            let least = (first..last).min_by_key(|child| self.heap[*child].0);
            let Some(child) = least.filter(|child| self.heap[*child].0 < entry.0) else { break };
            self.place(at, self.heap[child]);
            at = child;
        }
        self.place(at, entry);
    }
}
