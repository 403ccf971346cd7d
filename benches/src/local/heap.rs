//! A binary heap with lazy removal.

use super::peer::LocalPeer;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Duration;

/// Deadline in nanoseconds, the timer's place, and the generation of the place that the entry belongs to.
type Entry = (u64, u32, u32);

/// A timer's place: it is pending while its generation is that of its entry.
#[derive(Default)]
struct Place {
    payload: u64,
    generation: u32,
}

/// The heap, and a table that says which of its entries are alive.
#[derive(Default)]
pub struct HeapPeer {
    heap: BinaryHeap<Reverse<Entry>>,
    places: Vec<Place>,
    free: Vec<u32>,
    now: u64,
}

impl HeapPeer {
    fn push(&mut self, place: u32, delay: Duration) -> (u32, u32) {
        let generation = self.places[place as usize].generation;
        self.heap.push(Reverse((self.now + delay.as_nanos() as u64, place, generation)));
        (place, generation)
    }

    /// Dead entries may be half of the heap, as in most implementations; then it is built anew.
    fn compact(&mut self) {
        let live = self.places.len() - self.free.len();
        if self.heap.len() > 64 && self.heap.len() > 2 * live {
            let places = &self.places;
            self.heap.retain(|Reverse((_, place, generation))| {
                places[*place as usize].generation == *generation
            });
        }
    }
}

impl LocalPeer for HeapPeer {
    type Handle = (u32, u32);

    fn new(_capacity: usize) -> Self {
        Self::default()
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            // The workloads have at most ten million timers.
            (self.places.len() - 1) as u32
        });
        self.places[place as usize].payload = payload;
        self.push(place, delay)
    }

    #[inline]
    fn cancel(&mut self, (place, generation): Self::Handle) -> u64 {
        let at = &mut self.places[place as usize];
        assert_eq!(at.generation, generation, "the timer is pending");
        at.generation += 1;
        let payload = at.payload;
        self.free.push(place);
        self.compact();
        payload
    }

    #[inline]
    fn rearm(&mut self, (place, _): Self::Handle, delay: Duration) -> Self::Handle {
        self.places[place as usize].generation += 1;
        let handle = self.push(place, delay);
        self.compact();
        handle
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by.as_nanos() as u64;
        let mut fired = 0;
        while let Some(Reverse((deadline, place, generation))) = self.heap.peek().copied() {
            if deadline > self.now {
                break;
            }
            self.heap.pop();
            let at = &mut self.places[place as usize];
            if at.generation == generation {
                at.generation += 1;
                black_box(at.payload);
                self.free.push(place);
                fired += 1;
            }
        }
        fired
    }
}
