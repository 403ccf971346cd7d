//! The inbox: nothing lost, nothing twice, order per producer, and what happened before a push is visible
//! to whoever takes the message. Loom's leak check sees every block freed exactly once.

use super::harness::{Bound, Probe, bounded, explore, spawn};
use crate::inbox::pool::Pool;
use crate::inbox::{Inbox, Message, Pushed, Reader, SLOTS};
use std::sync::Arc;

/// Messages that fill all but `room` slots of the first block, on real threads. Under loom a block has two
/// slots, and the scenarios cross its border anyway.
const fn filler(room: usize) -> usize {
    if cfg!(tickwheel_loom) { 0 } else { SLOTS - room }
}

/// Words from here on are filler.
const FILLER: u64 = 1 << 40;

struct Line {
    inbox: Inbox,
    /// One cell per message, written before the push.
    probes: Vec<Probe>,
}

impl Line {
    fn new(producers: u64, room: usize) -> (Arc<Self>, Taker) {
        let (inbox, reader) = Inbox::new();
        let mut probes = Vec::new();
        probes.resize_with((producers * PER_PRODUCER) as usize, Probe::new);
        for _ in 0..filler(room) {
            assert_ne!(inbox.push(Message { tick: 0, word: FILLER }), Pushed::Closed);
        }
        (Arc::new(Self { inbox, probes }), Taker { reader, words: Vec::new() })
    }

    /// Pushes message `number` of a producer; whether it was accepted.
    fn push(&self, producer: u64, number: u64) -> bool {
        let word = producer * PER_PRODUCER + number;
        self.probes[word as usize].set(word + 1);
        self.inbox.push(Message { tick: word + 100, word }) != Pushed::Closed
    }
}

/// The most messages a producer of these scenarios has.
const PER_PRODUCER: u64 = 8;

struct Taker {
    reader: Reader,
    words: Vec<u64>,
}

impl Taker {
    fn drain(&mut self, line: &Line, limit: usize) {
        let Self { reader, words } = self;
        let _ = reader.drain(&line.inbox, limit, |message| {
            if message.word != FILLER {
                assert_eq!(message.tick, message.word + 100, "tick and word belong together");
                let probe = line.probes[message.word as usize].get();
                assert_eq!(probe, message.word + 1, "what was done before the push is visible");
                words.push(message.word);
            }
        });
    }

    /// Every producer is joined: takes the rest; each producer's messages must have come in order, and
    /// `counts` of them.
    fn finish(mut self, line: &Line, counts: &[u64]) {
        self.drain(line, usize::MAX);
        for (producer, &count) in counts.iter().enumerate() {
            let first = producer as u64 * PER_PRODUCER;
            let theirs: Vec<_> = self
                .words
                .iter()
                .filter(|&&word| word / PER_PRODUCER == producer as u64)
                .copied()
                .collect();
            assert_eq!(theirs, (first..first + count).collect::<Vec<_>>(), "of {:?}", self.words);
        }
    }
}

/// Two threads: with the real epoch under loom a bound is needed.
const TWO_THREADS: Bound = if cfg!(all(tickwheel_loom, not(tickwheel_epoch_stand_in))) {
    bounded(2, 1)
} else {
    bounded(3, 2)
};

fn producer(line: &Arc<Line>, producer: u64, count: u64) -> super::harness::JoinHandle<()> {
    let line = Arc::clone(line);
    spawn(move || {
        for number in 0..count {
            assert!(line.push(producer, number));
        }
    })
}

#[test]
fn push_or_drain_across_blocks() {
    explore(TWO_THREADS, || {
        let (line, mut taker) = Line::new(1, 2);
        let pushing = producer(&line, 0, 3);
        taker.drain(&line, usize::MAX);
        taker.drain(&line, usize::MAX);
        pushing.join().unwrap();
        taker.finish(&line, &[3]);
    });
}

#[test]
fn drain_with_a_limit() {
    explore(TWO_THREADS, || {
        let (line, mut taker) = Line::new(1, 2);
        let pushing = producer(&line, 0, 3);
        taker.drain(&line, filler(2) + 1);
        taker.drain(&line, 1);
        pushing.join().unwrap();
        taker.finish(&line, &[3]);
    });
}

/// A producer holds on to a block that the reader has read to its end and retires. One that pins after that
/// does not reach the block any more, which the stand-in checks.
#[test]
fn push_or_retire() {
    explore(TWO_THREADS, || {
        #[cfg(tickwheel_epoch_stand_in)]
        crate::sync::epoch::check_the_next_domain();
        let (line, mut taker) = Line::new(2, 2);
        assert!(line.push(1, 0) && line.push(1, 1));
        let pushing = producer(&line, 0, 1);
        taker.drain(&line, usize::MAX);
        // The other producer may stand between the link to the next block and the move of the tail.
        assert!(line.push(1, 2));
        taker.drain(&line, usize::MAX);
        pushing.join().unwrap();
        taker.finish(&line, &[1, 3]);
    });
}

/// A box that two threads pass through the pool: one holder at a time, who sees what the last one did.
#[test]
fn a_box_at_rest_has_one_holder() {
    explore(bounded(4, 3), || {
        let pool = Arc::new(Pool::<Probe, 1>::new());
        pool.put(Box::new(Probe::new()));
        let use_it = |pool: &Pool<Probe, 1>, mark: u64| {
            pool.take().map(|probe| {
                probe.set(mark);
                assert_eq!(probe.get(), mark, "somebody else has it, too");
                pool.put(probe);
            })
        };
        let other = spawn({
            let pool = Arc::clone(&pool);
            move || use_it(&pool, 1).is_some()
        });
        let mine = use_it(&pool, 2).is_some();
        assert!(other.join().unwrap() || mine, "it was there for one of them");
        assert!(pool.take().is_some() && pool.take().is_none(), "it is there, once");
    });
}

#[test]
fn push_or_close() {
    explore(TWO_THREADS, || {
        let (line, taker) = Line::new(1, 2);
        let pushing = spawn({
            let line = Arc::clone(&line);
            move || (0..3).take_while(|&number| line.push(0, number)).count() as u64
        });
        line.inbox.close(&taker.reader);
        let accepted = pushing.join().unwrap();
        assert!(!line.push(0, 7), "closed for good");
        taker.finish(&line, &[accepted]);
    });
}

#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod three_threads {
    use super::*;

    #[test]
    fn push_or_push_or_drain() {
        explore(bounded(3, 2), || {
            let (line, mut taker) = Line::new(2, 2);
            let pushing = [producer(&line, 0, 2), producer(&line, 1, 2)];
            taker.drain(&line, usize::MAX);
            pushing.into_iter().for_each(|thread| thread.join().unwrap());
            taker.finish(&line, &[2, 2]);
        });
    }

    /// One producer claims a slot and is slow; the others' messages do not wait for it, and its own later
    /// messages do not overtake it.
    #[test]
    fn a_hole_keeps_order_per_producer() {
        explore(bounded(2, 1), || {
            let (line, mut taker) = Line::new(2, 2);
            let pushing = [producer(&line, 0, 2), producer(&line, 1, 1)];
            taker.drain(&line, usize::MAX);
            taker.drain(&line, usize::MAX);
            pushing.into_iter().for_each(|thread| thread.join().unwrap());
            taker.finish(&line, &[2, 1]);
        });
    }

    /// Both find the block full and make the next one.
    #[test]
    fn two_link_the_next_block() {
        explore(bounded(5, 3), || {
            let (line, taker) = Line::new(3, 2);
            assert!(line.push(2, 0) && line.push(2, 1));
            let pushing = producer(&line, 0, 1);
            assert!(line.push(1, 0));
            pushing.join().unwrap();
            taker.finish(&line, &[1, 1, 2]);
        });
    }

    #[test]
    fn push_or_push_or_close() {
        explore(bounded(3, 2), || {
            let (line, taker) = Line::new(3, 2);
            assert!(line.push(2, 0));
            let pushing = [0, 1].map(|producer| {
                let line = Arc::clone(&line);
                spawn(move || (0..2).take_while(|&number| line.push(producer, number)).count())
            });
            line.inbox.close(&taker.reader);
            let [first, second] = pushing.map(|thread| thread.join().unwrap() as u64);
            taker.finish(&line, &[first, second, 1]);
        });
    }
}
