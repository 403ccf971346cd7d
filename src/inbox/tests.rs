//! The inbox on real threads, and the cases that can be forced by hand.

use super::block::InboxBlock;
use super::*;
use crate::sync::epoch::Domain;
use std::collections::HashSet;
use std::sync::Arc;

fn message(word: u64) -> Message {
    Message {
        tick: word * 3,
        word,
    }
}

/// Writes a message as a shard does; the block that was begun, if one was.
fn push(inbox: &Inbox, writer: &Writer, word: u64) -> Option<*mut InboxBlock> {
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

fn inbox() -> (Reader, Arc<Inbox>, Writer) {
    let reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    (reader, inbox, Writer::default())
}

/// Pushes and drains so many messages a round, beside a producer that is stopped between its `prepare` and its
/// message; how many blocks that took.
fn blocks_of_rounds(rounds: u64, messages: u64) -> usize {
    let (mut reader, inbox, writer) = inbox();
    let (mut blocks, stopped) = (HashSet::new(), Writer::default());
    push(&inbox, &stopped, 1 << 40);
    assert_eq!(drain(&mut reader), [1 << 40]);
    for round in 0..rounds {
        let words = round * messages..(round + 1) * messages;
        blocks.extend(words.clone().filter_map(|word| push(&inbox, &writer, word)));
        assert_eq!(drain(&mut reader), words.collect::<Vec<_>>());
        let open = reader.open_blocks();
        assert!((1..=2).contains(&open), "{open} blocks for the two");
    }
    push(&inbox, &stopped, 1 << 40 | 1);
    assert_eq!(
        drain(&mut reader),
        [1 << 40 | 1],
        "it goes on where it stopped"
    );
    let late = Writer::default();
    let begun = (0..9).filter(|word| push(&inbox, &late, *word).is_some());
    assert_eq!(begun.count(), 2, "a thread begins with a small block");
    blocks.len()
}

#[test]
fn blocks_are_used_again_also_under_a_foreign_guard() {
    // Without reuse so many messages take 126 blocks or more.
    let blocks = || [blocks_of_rounds(250, 1000), blocks_of_rounds(8, 40_000)];
    let alone = blocks();
    // Another crate of the process holds a guard of the collector that `crossbeam-epoch` shares between its users.
    let theirs = crossbeam_epoch::pin();
    let all = [alone, blocks()].concat();
    drop(theirs);
    assert!(all.iter().all(|blocks| *blocks < 100), "{all:?}");
}

#[test]
fn a_writer_begins_with_small_blocks() {
    let (reader, inbox, writer) = inbox();
    let begun = |word: &u64| push(&inbox, &writer, *word).is_some();
    let first: Vec<u64> = (0..5000).filter(begun).collect();
    assert_eq!(first, [0, 8, 40, 168, 680, 2728, 4776]);
    assert_eq!(
        reader.open_blocks(),
        1 + first.len(),
        "after the inbox's own"
    );
}

/// A writer has a place in its inbox's epoch, which lives as long as one of them does.
#[test]
fn what_a_writer_has_retired_goes_with_the_epoch() {
    let (domain, writer) = (Domain::new(), Writer::default());
    let retired = Arc::new(());
    let garbage = Arc::clone(&retired);
    writer.pin(&domain).defer(move || drop(garbage));
    drop((writer, domain));
    assert_eq!(Arc::strong_count(&retired), 1);
}

#[test]
fn a_hand_over_tells_how_much_no_drain_has_come_to() {
    let (mut reader, inbox, writer) = inbox();
    let write = |word| {
        if !writer.is_ready() {
            inbox.prepare(&writer).unwrap();
        }
        writer
            .write(message(word))
            .map(|opened| inbox.hand_over(&writer, opened))
    };
    assert_eq!((0..9).filter_map(write).collect::<Vec<_>>(), [8, 40]);
    drain(&mut reader);
    let more: Vec<_> = (9..41).filter_map(write).collect();
    assert_eq!(more, [128], "the drain knows of the others");
}

/// Everything that can be left behind: blocks in the queue, open ones, the head itself open or read to its end, a block
/// that was prepared and never used; and the order of the drops. The sanitizers see what is freed twice or never.
#[test]
fn an_inbox_frees_its_blocks_once() {
    for written in [0, 1, 7, 8, 9, 40, 41, 200] {
        for (drains, reader_first) in [(0, true), (1, true), (1, false), (2, false)] {
            let (mut reader, inbox, writer) = inbox();
            let writers = [writer, Writer::default()];
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
fn a_writer_owns_its_block_until_the_first_message() {
    let (_reader, inbox, writer) = inbox();
    for is_known in [false, true] {
        inbox.prepare(&writer).unwrap();
        if is_known {
            push(&inbox, &writer, 1);
        }
        assert_eq!(writer.take_fresh().is_some(), !is_known);
        assert_eq!(writer.is_ready(), is_known);
    }
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
    let (mut reader, inbox, writer) = inbox();
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
    let most = if cfg!(target_pointer_width = "64") {
        isize::MAX as usize
    } else {
        usize::MAX
    };
    assert!(InboxBlock::new(most / size_of::<Message>()).is_none());
}
