//! No timer at all: payloads in a table with a free list, and handles with generations.
//!
//! Every timer has to do at least this for a schedule and a cancel, so the figure says how much of a pair is the
//! timer's own work, and how much is waiting for memory and the benchmark's loop.

use super::peer::LocalPeer;
use std::hint::black_box;
use std::time::Duration;

#[derive(Default)]
struct Place {
    payload: u64,
    deadline: u64,
    generation: u32,
}

/// See the module. Nothing ever fires.
#[derive(Default)]
pub struct FloorPeer {
    places: Vec<Place>,
    free: Vec<u32>,
    now: u64,
}

impl LocalPeer for FloorPeer {
    type Handle = (u32, u32);

    fn new(_capacity: usize) -> Self {
        Self::default()
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            // The workloads have at most ten million timers.
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[at as usize];
        place.payload = payload;
        place.deadline = self.now + delay.as_nanos() as u64;
        (at, place.generation)
    }

    #[inline]
    fn cancel(&mut self, (at, generation): Self::Handle) -> u64 {
        let place = &mut self.places[at as usize];
        assert_eq!(place.generation, generation, "the timer is pending");
        place.generation += 1;
        self.free.push(at);
        place.payload
    }

    #[inline]
    fn rearm(&mut self, (at, generation): Self::Handle, delay: Duration) -> Self::Handle {
        let place = &mut self.places[at as usize];
        assert_eq!(place.generation, generation, "the timer is pending");
        place.deadline = black_box(self.now + delay.as_nanos() as u64);
        (at, generation)
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by.as_nanos() as u64;
        0
    }
}
