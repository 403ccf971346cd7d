//! The inbox: nothing lost, nothing twice, order per producer, and what happened before a push is visible
//! to whoever takes the message. Loom's leak check sees every block freed exactly once.

use super::harness::{Bound, Probe, bounded, explore, spawn, spawn_with};
use crate::inbox::pool::Pool;
use crate::inbox::{FIRST, Inbox, Message, Reader, Writer};
use std::sync::Arc;

/// Messages that fill all but `room` slots of a first block, on real threads. Under loom a block has two
/// slots, and the scenarios cross its border anyway.
const fn filler(room: usize) -> usize {
    if cfg!(tickwheel_loom) { 0 } else { FIRST - room }
}

/// Words from here on are filler.
const FILLER: u64 = 1 << 40;

struct Line {
    inbox: Arc<Inbox>,
    /// One per producer.
    writers: Vec<Writer>,
    /// One cell per message, written before the push.
    probes: Vec<Probe>,
}

impl Line {
    fn new(producers: usize, room: usize) -> (Arc<Self>, Taker) {
        let reader = Reader::new();
        let inbox = Arc::clone(reader.inbox());
        let mut probes = Vec::new();
        probes.resize_with(producers * PER_PRODUCER as usize, Probe::new);
        let mut writers = Vec::new();
        writers.resize_with(producers, Writer::default);
        let line = Self { inbox, writers, probes };
        for writer in &line.writers {
            (0..filler(room)).for_each(|_| line.write(writer, Message { tick: 0, word: FILLER }));
        }
        (Arc::new(line), Taker { reader, words: Vec::new() })
    }

    /// As a shard sends a message, but for the alarm.
    fn write(&self, writer: &Writer, message: Message) {
        if !writer.is_ready() {
            self.inbox.prepare(writer).unwrap();
        }
        if let Some(block) = writer.write(message) {
            let _ = self.inbox.hand_over(writer, block);
        }
    }

    /// Pushes message `number` of a producer.
    fn push(&self, producer: u64, number: u64) {
        let word = producer * PER_PRODUCER + number;
        self.probes[word as usize].set(word + 1);
        self.write(&self.writers[producer as usize], Message { tick: word + 100, word });
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
        let _ = reader.drain(limit, |message| {
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

/// The stand-in reclaims at once in the next line, and checks what is reached.
fn reclaim_at_once() {
    #[cfg(tickwheel_epoch_stand_in)]
    crate::sync::explored::stand_in::check_the_next_domain();
}

fn producer(line: &Arc<Line>, producer: u64, count: u64) -> super::harness::JoinHandle<()> {
    let line = Arc::clone(line);
    spawn(move || (0..count).for_each(|number| line.push(producer, number)))
}

/// Nothing lost, nothing twice, order per producer, also over a change of blocks; what the producer wrote before is
/// visible.
#[test]
fn push_or_drain_across_blocks() {
    explore(TWO_THREADS, || {
        let (line, mut taker) = Line::new(1, 2);
        let pushing = producer(&line, 0, 4);
        taker.drain(&line, usize::MAX);
        taker.drain(&line, usize::MAX);
        pushing.join().unwrap();
        taker.finish(&line, &[4]);
    });
}

/// A drain that stops at its limit leaves the rest for the next one, in order.
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

/// A producer looks at a block that the reader has read to its end and retires: it is protected, or it does not
/// reach that block any more.
// Reclamation is what the stand-in is for; the real collector gives nothing back within an execution, and its own
// bookkeeping makes this one differ from run to run.
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
#[test]
fn hand_over_or_retire() {
    explore(TWO_THREADS, || {
        reclaim_at_once();
        let (line, mut taker) = Line::new(2, 2);
        line.push(1, 0);
        line.push(1, 1);
        let pushing = producer(&line, 0, 1);
        taker.drain(&line, usize::MAX);
        // The other producer may stand between the link to its block and the move of the tail.
        line.push(1, 2);
        taker.drain(&line, usize::MAX);
        // The first block is retired as the third is fetched.
        line.push(1, 3);
        line.push(1, 4);
        pushing.join().unwrap();
        taker.finish(&line, &[1, 5]);
    });
}

/// A block that comes back from the pool carries the last lap's messages: the reader takes none of them for new.
#[test]
fn a_block_serves_again() {
    explore(TWO_THREADS, || {
        reclaim_at_once();
        let (line, mut taker) = Line::new(1, 2);
        (0..4).for_each(|number| line.push(0, number));
        // The first block is given up here, and retired as the third one is fetched: the fourth is that again.
        taker.drain(&line, usize::MAX);
        (4..6).for_each(|number| line.push(0, number));
        let pushing = {
            let line = Arc::clone(&line);
            spawn(move || (6..8).for_each(|number| line.push(0, number)))
        };
        taker.drain(&line, usize::MAX);
        pushing.join().unwrap();
        taker.finish(&line, &[8]);
    });
}

/// The same while the reader gives a block up and its producer is already looking for one.
// With the real collector it does not come to an end.
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
#[test]
fn a_block_is_given_up_or_fetched() {
    explore(TWO_THREADS, || {
        reclaim_at_once();
        let (line, mut taker) = Line::new(1, 2);
        (0..2).for_each(|number| line.push(0, number));
        let pushing = {
            let line = Arc::clone(&line);
            spawn(move || (2..6).for_each(|number| line.push(0, number)))
        };
        taker.drain(&line, usize::MAX);
        taker.drain(&line, usize::MAX);
        pushing.join().unwrap();
        taker.finish(&line, &[6]);
    });
}

/// A box that two threads pass through the pool: one holder at a time, who sees what the last one did.
#[test]
fn a_box_at_rest_has_one_holder() {
    explore(bounded(4, 3), || {
        let pool = Arc::new(Pool::<Probe, 1>::new());
        assert!(pool.put(Box::new(Probe::new())).is_none());
        let use_it = |pool: &Pool<Probe, 1>, mark: u64| {
            pool.take().map(|probe| {
                probe.set(mark);
                assert_eq!(probe.get(), mark, "somebody else has it, too");
                assert!(pool.put(probe).is_none(), "there is a place for it");
            })
        };
        let other = spawn_with(&pool, move |pool| use_it(pool, 1).is_some());
        let mine = use_it(&pool, 2).is_some();
        assert!(other.join().unwrap() || mine, "it was there for one of them");
        assert!(pool.take().is_some() && pool.take().is_none(), "it is there, once");
    });
}

#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod three_threads {
    use super::*;

    /// Two producers that race for slots: nothing lost, nothing twice, order per producer.
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

    /// Both hand their first block over behind the same one, and another block is full by then.
    #[test]
    fn two_hand_over_or_drain() {
        explore(bounded(2, 1), || {
            reclaim_at_once();
            let (line, mut taker) = Line::new(3, 2);
            line.push(2, 0);
            line.push(2, 1);
            let pushing = [producer(&line, 0, 1), producer(&line, 1, 1)];
            taker.drain(&line, usize::MAX);
            pushing.into_iter().for_each(|thread| thread.join().unwrap());
            taker.finish(&line, &[1, 1, 2]);
        });
    }

    /// Both find blocks that are read to their end: each of those is retired once.
    #[test]
    fn two_take_what_is_read() {
        explore(bounded(2, 1), || {
            reclaim_at_once();
            let (line, mut taker) = Line::new(3, 2);
            (0..4).for_each(|number| line.push(2, number));
            taker.drain(&line, usize::MAX);
            let pushing = [producer(&line, 0, 1), producer(&line, 1, 1)];
            taker.drain(&line, usize::MAX);
            pushing.into_iter().for_each(|thread| thread.join().unwrap());
            taker.finish(&line, &[1, 1, 4]);
        });
    }

    /// The thread that inherits a writer goes on with its block, while the reader is at it.
    #[test]
    fn a_writer_is_inherited() {
        explore(bounded(2, 2), || {
            let (line, mut taker) = Line::new(1, 2);
            let dying = producer(&line, 0, 1);
            let draining = spawn_with(&line, move |line| {
                taker.drain(line, usize::MAX);
                taker
            });
            dying.join().unwrap();
            line.push(0, 1);
            line.push(0, 2);
            let taker = draining.join().unwrap();
            taker.finish(&line, &[3]);
        });
    }
}
