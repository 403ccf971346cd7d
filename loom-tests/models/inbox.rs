//! The inbox: nothing lost, nothing twice, order per producer, and what happened before a push is visible
//! to whoever takes the message. Loom's leak check sees every block freed exactly once.

use super::harness::{
    Bound, JoinHandle, Probe, bounded, by_epoch, explore, explore_as, fence_for_all, name_of,
    spawn_with,
};
use crate::inbox::pool::Pool;
use crate::inbox::{FIRST, Inbox, InboxBlock, Reader, Writer};
use crate::park::WakeState;
use std::ops::Range;
use std::sync::Arc;

/// Messages that fill all but two slots of a first block, on real threads. Under loom a block has no more anyway.
const FILL: usize = if cfg!(tickwheel_loom) { 0 } else { FIRST - 2 };

/// Words from here on are filler.
const FILLER: u64 = 1 << 40;

const TICK: u64 = 5;

/// The most messages a producer of these scenarios has.
const PER_PRODUCER: u64 = 8;

/// Two threads: with the real epoch under loom a bound is needed.
const TWO_THREADS: Bound = by_epoch(bounded(2, 1), bounded(3, 2));

/// An inbox, the words that its drains reset, and its producers' writers.
struct Line {
    inbox: Arc<Inbox>,
    wake_state: WakeState,
    /// One per producer.
    writers: Vec<Writer>,
    /// One cell per message, written before the push.
    probes: Vec<Probe>,
}

/// Explores an inbox, made by `line`, whose producers send so many messages each in the end.
fn explore_line<const N: usize, F>(
    line: fn(usize) -> (Arc<Line>, Taker),
    bound: Bound,
    counts: [u64; N],
    scenario: F,
) where
    F: Fn(&Arc<Line>, &mut Taker) + Send + Sync + 'static,
{
    explore_as(name_of(&scenario), bound, move || {
        let (line, mut taker) = line(N);
        scenario(&line, &mut taker);
        taker.finish(&line, &counts);
    });
}

impl Line {
    /// The stand-in reclaims at once, and checks what is reached.
    fn reclaiming(producers: usize) -> (Arc<Self>, Taker) {
        #[cfg(tickwheel_epoch_stand_in)]
        crate::sync::explored::stand_in::check_the_next_domain();
        Self::new(producers)
    }

    /// The producers' fence is the owner's `membarrier`.
    fn light(producers: usize) -> (Arc<Self>, Taker) {
        fence_for_all(true);
        Self::made(producers)
    }

    fn new(producers: usize) -> (Arc<Self>, Taker) {
        fence_for_all(false);
        Self::made(producers)
    }

    fn made(producers: usize) -> (Arc<Self>, Taker) {
        let reader = Reader::new();
        let inbox = Arc::clone(reader.inbox());
        let probes = (0..producers as u64 * PER_PRODUCER)
            .map(|_| Probe::new())
            .collect();
        let writers = (0..producers).map(|_| Writer::default()).collect();
        let line = Self {
            inbox,
            wake_state: WakeState::new(),
            writers,
            probes,
        };
        for writer in &line.writers {
            (0..FILL).for_each(|_| line.write(writer, FILLER));
        }
        (
            Arc::new(line),
            Taker {
                reader,
                words: Vec::new(),
            },
        )
    }

    /// As a shard sends a message; all of them are for one tick.
    fn write(&self, writer: &Writer, word: u64) {
        if !writer.is_ready() {
            self.inbox.prepare(writer).unwrap();
        }
        writer.write(word);
        // SAFETY: no scenario drains once its writers are gone.
        let list = || unsafe { self.inbox.list(writer) };
        let _ = self.wake_state.notify(TICK, list);
    }

    /// Pushes messages of a producer.
    fn push(&self, producer: u64, numbers: Range<u64>) {
        for word in numbers.map(|number| producer * PER_PRODUCER + number) {
            self.probes[word as usize].set(word + 1);
            self.write(&self.writers[producer as usize], word);
        }
    }

    /// Starts a thread that pushes messages of a producer.
    fn pusher(self: &Arc<Self>, producer: u64, numbers: Range<u64>) -> JoinHandle<()> {
        spawn_with(self, move |line| line.push(producer, numbers))
    }
}

struct Taker {
    reader: Reader,
    words: Vec<u64>,
}

impl Taker {
    fn drain(&mut self, line: &Line) {
        assert!(!self.drain_some(line, usize::MAX));
    }

    /// Returns whether the limit has left something.
    fn drain_some(&mut self, line: &Line, limit: usize) -> bool {
        let Self { reader, words } = self;
        let news = line.wake_state.begin_drain(|| reader.collect());
        let drained = reader.read(news, limit, |word| {
            if word != FILLER {
                let probe = line.probes[word as usize].get();
                assert_eq!(probe, word + 1, "what was done before the push is visible");
                words.push(word);
            }
        });
        drained.more
    }

    /// Every producer is joined: takes the rest, if the words ask for a drain; each producer's messages must have come in
    /// order, and `counts` of them.
    fn finish(mut self, line: &Line, counts: &[u64]) {
        if line.wake_state.inbox_due() <= TICK {
            self.drain(line);
        }
        for (producer, &count) in (0..).zip(counts) {
            let first = producer * PER_PRODUCER;
            let theirs = self
                .words
                .iter()
                .filter(|&&word| word / PER_PRODUCER == producer);
            assert!(
                theirs.copied().eq(first..first + count),
                "of {producer}: {:?}",
                self.words
            );
        }
    }
}

/// Nothing lost, nothing twice, order per producer, also over a change of blocks; what the producer wrote before is
/// visible.
#[test]
fn push_or_drain_across_blocks() {
    explore_line(Line::new, TWO_THREADS, [4], |line, taker| {
        let pushing = line.pusher(0, 0..4);
        taker.drain(line);
        taker.drain(line);
        pushing.join().unwrap();
    });
}

/// The same where the producer's fence is the owner's `membarrier`.
#[test]
fn light_push_or_drain_across_blocks() {
    explore_line(Line::light, TWO_THREADS, [4], |line, taker| {
        let pushing = line.pusher(0, 0..4);
        taker.drain(line);
        taker.drain(line);
        pushing.join().unwrap();
    });
}

/// A drain that stops at its limit lists the writer again, which may list itself meanwhile; the rest comes in order.
#[test]
fn drain_with_a_limit() {
    explore_line(Line::new, TWO_THREADS, [3], |line, taker| {
        let pushing = line.pusher(0, 0..3);
        let mut more = taker.drain_some(line, FILL + 1);
        more |= taker.drain_some(line, 1);
        pushing.join().unwrap();
        if more {
            taker.drain(line);
        }
    });
}

/// A writer that no drain looks at any more comes back: this drain reads it, or the words ask for another one.
#[test]
fn a_silent_writer_comes_back_or_drain() {
    explore_line(Line::new, TWO_THREADS, [2], |line, taker| {
        silent_or_drain(line, taker);
    });
}

/// The same where the producer's fence is the owner's `membarrier`.
#[test]
fn light_a_silent_writer_comes_back_or_drain() {
    explore_line(Line::light, TWO_THREADS, [2], |line, taker| {
        silent_or_drain(line, taker);
    });
}

fn silent_or_drain(line: &Arc<Line>, taker: &mut Taker) {
    line.push(0, 0..1);
    taker.drain(line);
    let pushing = line.pusher(0, 1..2);
    taker.drain(line);
    pushing.join().unwrap();
}

/// A block that comes back from the pool carries the last lap's messages: the reader takes none of them for new.
#[test]
fn a_block_serves_again() {
    explore_line(Line::reclaiming, TWO_THREADS, [8], |line, taker| {
        line.push(0, 0..4);
        // The first block is given up here, and retired as the third one is fetched: the fourth is that again.
        taker.drain(line);
        line.push(0, 4..6);
        let pushing = line.pusher(0, 6..8);
        taker.drain(line);
        pushing.join().unwrap();
    });
}

/// The same while the reader gives a block up and its producer is already looking for one.
// With the real collector it does not come to an end.
#[cfg(not(crossbeam_loom))]
#[test]
fn a_block_is_given_up_or_fetched() {
    explore_line(Line::reclaiming, TWO_THREADS, [6], |line, taker| {
        line.push(0, 0..2);
        let pushing = line.pusher(0, 2..6);
        taker.drain(line);
        taker.drain(line);
        pushing.join().unwrap();
    });
}

/// The reader gives two blocks up while another producer takes what is read: each is retired once, and none is lost.
#[test]
fn two_are_given_up_or_taken() {
    explore_line(Line::new, TWO_THREADS, [3, 6], |line, taker| {
        line.push(0, 0..2);
        line.push(1, 0..6);
        let pushing = line.pusher(0, 2..3);
        taker.drain(line);
        pushing.join().unwrap();
    });
}

/// A block that two threads pass through the pool: one holder at a time, who sees the lap that the last one has begun.
#[test]
fn a_block_at_rest_has_one_holder() {
    explore(bounded(4, 3), || {
        let pool = Arc::new(Pool::new());
        let block = InboxBlock::new(FIRST).unwrap();
        let first_lap = block.lap();
        assert!(pool.put(block).is_none());
        let use_it = |pool: &Pool| {
            pool.take().map(|mut block| {
                block.renew();
                assert!(pool.put(block).is_none(), "there is a place for it");
            })
        };
        let other = spawn_with(&pool, move |pool| use_it(pool).is_some());
        let mine = use_it(&pool).is_some();
        let other = other.join().unwrap();
        assert!(other || mine, "it was there for one of them");
        let block = pool.take().expect("it is there");
        assert!(pool.take().is_none(), "once");
        // A lap is the other one of two.
        let both = block.lap() == first_lap;
        assert_eq!(both, other && mine, "a holder has missed a lap");
    });
}

#[cfg(not(crossbeam_loom))]
mod three_threads {
    use super::*;

    /// Two producers that race for slots: nothing lost, nothing twice, order per producer.
    #[test]
    fn push_or_push_or_drain() {
        explore_line(Line::new, bounded(3, 2), [2, 2], |line, taker| {
            let pushing = [0, 1].map(|producer| line.pusher(producer, 0..2));
            taker.drain(line);
            pushing
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }

    /// Two silent writers come back at once, one of which relies on the words that the other has lowered.
    #[test]
    fn two_come_back_or_drain() {
        explore_line(Line::new, bounded(3, 2), [2, 2], |line, taker| {
            two_silent_or_drain(line, taker);
        });
    }

    /// The same where the producers' fence is the owner's `membarrier`.
    #[test]
    fn light_two_come_back_or_drain() {
        explore_line(Line::light, bounded(3, 2), [2, 2], |line, taker| {
            two_silent_or_drain(line, taker);
        });
    }

    fn two_silent_or_drain(line: &Arc<Line>, taker: &mut Taker) {
        line.push(0, 0..1);
        line.push(1, 0..1);
        taker.drain(line);
        let pushing = [0, 1].map(|producer| line.pusher(producer, 1..2));
        taker.drain(line);
        pushing
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }

    /// Both find blocks that are read to their end: each of those is retired once.
    #[test]
    fn two_take_what_is_read() {
        explore_line(Line::reclaiming, bounded(2, 1), [3, 3, 4], |line, taker| {
            (0..2).for_each(|producer| line.push(producer, 0..2));
            line.push(2, 0..4);
            taker.drain(line);
            let pushing = [0, 1].map(|producer| line.pusher(producer, 2..3));
            pushing
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }

    /// The thread that inherits a writer goes on with its block, while the reader is at it.
    #[test]
    fn a_writer_is_inherited() {
        explore(bounded(2, 2), || {
            let (line, mut taker) = Line::new(1);
            let dying = line.pusher(0, 0..1);
            let draining = spawn_with(&line, move |line| {
                taker.drain(line);
                taker
            });
            dying.join().unwrap();
            line.push(0, 1..3);
            draining.join().unwrap().finish(&line, &[3]);
        });
    }
}
