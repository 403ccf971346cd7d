//! The inbox on real threads, and the cases that can be forced by hand.

use super::queue::Block;
use super::*;
use std::collections::HashSet;
use std::sync::Arc;

fn message(word: u64) -> Message {
    Message { tick: word * 3, word }
}

/// Writes a message as a shard does; the block that was begun, if one was.
fn push(inbox: &Inbox, writer: &Writer, word: u64) -> Option<*mut Block> {
    if !writer.is_ready() {
        inbox.prepare(writer).unwrap();
    }
    writer.write(message(word)).map(|opened| {
        let block = opened.as_ptr();
        inbox.hand_over(writer, opened);
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
    assert!(blocks.len() < 250, "500 000 messages took {} blocks", blocks.len());
    assert_eq!(reader.open_blocks(), 1);
}

#[test]
fn a_desk_begins_with_small_blocks() {
    let reader = Reader::new();
    let writer = Writer::default();
    let begun = |word: &u64| push(reader.inbox(), &writer, *word).is_some();
    let first: Vec<u64> = (0..5000).filter(begun).collect();
    assert_eq!(first, [0, 8, 40, 168, 680, 2728, 4776]);
}

#[test]
fn a_hand_over_tells_how_much_no_drain_has_come_to() {
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    let writer = Writer::default();
    let write = |word| {
        if !writer.is_ready() {
            inbox.prepare(&writer).unwrap();
        }
        writer.write(message(word)).map(|opened| inbox.hand_over(&writer, opened))
    };
    assert_eq!((0..9).filter_map(write).collect::<Vec<_>>(), [8, 40]);
    drain(&mut reader);
    assert_eq!(
        (9..41).filter_map(write).collect::<Vec<_>>(),
        [128],
        "the drain knows of the others"
    );
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
    assert!(blocks.len() < 250, "400 000 messages took {} blocks", blocks.len());
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
    assert_eq!(begun, 3, "8, 32 and 128 slots are enough for a hundred threads in a row");
}

/// Everything that can be left behind: blocks in the queue, open ones, the head itself open or read to its end, a block
/// that was prepared and never used; and the order of the drops. The sanitizers see what is freed twice or never.
#[test]
fn an_inbox_frees_its_blocks_once() {
    for written in [0, 1, 7, 8, 9, 40, 41, 200] {
        for (drains, reader_first) in [(0, true), (1, true), (1, false), (2, false)] {
            let mut reader = Reader::new();
            let inbox = Arc::clone(reader.inbox());
            let writers = [Writer::default(), Writer::default()];
            for word in 0..written {
                push(&inbox, &writers[0], word);
                push(&inbox, &writers[1], word);
                if drains == 2 && word == written / 2 {
                    drain(&mut reader);
                }
            }
            inbox.prepare(&Writer::default()).unwrap();
            if drains > 0 {
                drain(&mut reader);
            }
            if reader_first {
                drop(reader);
                push(&inbox, &writers[0], 5000);
                drop((inbox, writers));
            } else {
                drop((inbox, writers));
                drop(reader);
            }
        }
    }
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

/// Another crate of the process holds a guard of the collector that `crossbeam-epoch` shares between its users.
#[test]
fn a_foreign_guard_keeps_no_block_from_being_used_again() {
    let theirs = crossbeam_epoch::pin();
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    let writer = Writer::default();
    let mut blocks = HashSet::new();
    for round in 0..5000 {
        blocks.extend((0..200).filter_map(|word| push(&inbox, &writer, round << 8 | word)));
        assert_eq!(drain(&mut reader).len(), 200);
    }
    assert!(blocks.len() < 250, "a million messages took {} blocks", blocks.len());
    drop(theirs);
}

/// Garbage that another crate has left to that collector never runs inside of our calls.
#[test]
fn a_foreign_deferred_function_does_not_run_here() {
    let ran_on = Arc::new(std::sync::Mutex::new(None));
    let foreign = Arc::clone(&ran_on);
    let guard = crossbeam_epoch::pin();
    guard.defer(move || *foreign.lock().unwrap() = Some(std::thread::current().id()));
    guard.flush();
    drop(guard);
    let mut reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    let writer = Writer::default();
    for word in 0..500_000 {
        push(&inbox, &writer, word);
        if word % 1000 == 0 {
            drain(&mut reader);
        }
    }
    // Another test's thread may have run it.
    assert_ne!(*ran_on.lock().unwrap(), Some(std::thread::current().id()));
}

#[test]
fn a_block_that_there_is_no_memory_for_is_refused() {
    // As much as there are addresses for, which no system has. On 32 bits it might have half of that.
    let most = if cfg!(target_pointer_width = "64") { isize::MAX as usize } else { usize::MAX };
    assert!(Block::new(most / size_of::<Message>()).is_none());
}
