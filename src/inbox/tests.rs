//! The inbox on real threads, and the cases that can be forced by hand.

use super::block::SLOTS;
use super::*;
use std::collections::HashSet;
use std::sync::Arc;

fn message(word: u64) -> Message {
    Message { tick: word * 3, word }
}

/// Writes a message as a shard does; the block that was begun, if one was.
fn push(inbox: &Inbox, writer: &Writer, word: u64) -> Option<u32> {
    if !writer.is_ready() {
        inbox.prepare(writer).unwrap();
    }
    writer.write(message(word)).map(|opened| {
        let block = opened.0;
        inbox.hand_over(opened);
        block
    })
}

fn drain(reader: &mut Reader) -> Vec<u64> {
    let mut got = Vec::new();
    let drained = reader.drain(usize::MAX, |taken| {
        assert_eq!(taken, message(taken.word), "tick and word belong together");
        got.push(taken.word);
    });
    assert_eq!((drained.taken, drained.more), (got.len(), false));
    got
}

#[test]
fn keeps_the_order_of_a_thread_across_blocks_and_uses_them_again() {
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    let writer = Writer::default();
    let mut blocks = HashSet::new();
    for round in 0..5000 {
        let words = round * 100..(round + 1) * 100;
        blocks.extend(words.clone().filter_map(|word| push(&inbox, &writer, word)));
        assert_eq!(drain(&mut reader), words.collect::<Vec<_>>());
    }
    assert!(blocks.len() <= 2, "500 000 messages took {} blocks", blocks.len());
    assert_eq!(reader.open_blocks(), 1);
}

#[test]
fn a_hand_over_tells_how_much_no_drain_has_come_to() {
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    let writer = Writer::default();
    let slots = SLOTS as u64;
    let write = |word| {
        if !writer.is_ready() {
            inbox.prepare(&writer).unwrap();
        }
        writer.write(message(word)).map(|opened| inbox.hand_over(opened))
    };
    assert_eq!((0..slots + 1).filter_map(write).collect::<Vec<_>>(), [slots, 2 * slots]);
    drain(&mut reader);
    let more = (slots + 1..2 * slots + 1).filter_map(write);
    assert_eq!(more.collect::<Vec<_>>(), [slots], "the drain knows of the others");
}

/// A backlog's blocks are free at its end, keep their addresses and serve again, pages given back or not.
#[test]
fn blocks_of_a_backlog_serve_again() {
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    let writers = [Writer::default(), Writer::default()];
    let count = 300 * SLOTS as u64;
    for _ in 0..4 {
        (0..count).for_each(|word| _ = push(&inbox, &writers[word as usize % 2], word));
        let mut got = drain(&mut reader);
        got.sort_unstable();
        assert_eq!(got, (0..count).collect::<Vec<_>>());
    }
    assert!(inbox.blocks.used() <= 302, "{} blocks", inbox.blocks.used());
}

#[test]
fn the_limit_leaves_the_rest_for_later() {
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    let writers = [Writer::default(), Writer::default()];
    for word in 0..1500 {
        push(&inbox, &writers[word as usize % 2], word);
    }
    let mut got = [Vec::new(), Vec::new()];
    while reader.drain(7, |taken| got[taken.word as usize % 2].push(taken.word)).more {}
    let expected = [0, 1].map(|first| (first..1500).step_by(2).collect::<Vec<u64>>());
    assert_eq!(got, expected);
}

/// A producer is stopped for good between its `prepare` and its message, and another one goes on: each drain reads
/// what there is and no more, and the blocks of the other one are used again.
#[test]
fn a_stopped_producer_costs_one_look_and_no_block_but_its_own() {
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    let [stopped, busy] = [Writer::default(), Writer::default()];
    push(&inbox, &stopped, 1 << 40);
    assert_eq!(drain(&mut reader), [1 << 40]);
    let mut blocks = HashSet::new();
    for round in 0..400 {
        let words = round * 1000..(round + 1) * 1000;
        blocks.extend(words.clone().filter_map(|word| push(&inbox, &busy, word)));
        assert_eq!(drain(&mut reader), words.collect::<Vec<_>>());
        assert!(reader.open_blocks() <= 2, "one block for each of the two");
    }
    assert!(blocks.len() <= 4, "400 000 messages took {} blocks", blocks.len());
    push(&inbox, &stopped, 1 << 40 | 1);
    assert_eq!(drain(&mut reader), [1 << 40 | 1], "it goes on where it stopped");
}

/// Two hundred writers, each with a block that is read as far as it is written.
#[test]
fn a_drain_reads_the_open_blocks_of_all_threads() {
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    let writers: Vec<Writer> = (0..200).map(|_| Writer::default()).collect();
    for round in 0..100u64 {
        for (number, writer) in writers.iter().enumerate() {
            push(&inbox, writer, round << 16 | number as u64);
        }
        let mut got = drain(&mut reader);
        got.sort_unstable();
        assert_eq!(got, (0..200).map(|number| round << 16 | number).collect::<Vec<_>>());
    }
}

/// The thread that inherits a writer goes on with its block.
#[test]
fn a_dead_thread_leaves_its_block_to_its_heir() {
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    let writer = Writer::default();
    let mut begun = 0;
    for word in 0..100 {
        let pushed = std::thread::scope(|scope| {
            scope.spawn(|| push(&inbox, &writer, word).is_some()).join().unwrap()
        });
        begun += usize::from(pushed);
    }
    assert_eq!(drain(&mut reader), (0..100).collect::<Vec<_>>());
    assert_eq!(begun, 1, "one block is enough for a hundred threads in a row");
}

#[test]
fn racing_producers_lose_nothing() {
    const EACH: u64 = 200_000;
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    std::thread::scope(|scope| {
        for producer in 0..3u64 {
            let inbox = &inbox;
            scope.spawn(move || {
                let writer = Writer::default();
                (0..EACH).for_each(|n| _ = push(inbox, &writer, producer << 32 | n));
            });
        }
        let mut next = [0u64; 3];
        while next != [EACH; 3] {
            let drained = reader.drain(1000, |taken| {
                let producer = (taken.word >> 32) as usize;
                assert_eq!(taken.word & 0xffff_ffff, next[producer], "order per producer");
                next[producer] += 1;
            });
            if drained.taken == 0 {
                std::thread::yield_now();
            }
        }
    });
    assert_eq!(drain(&mut reader), []);
}
