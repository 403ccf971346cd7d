//! The inbox on real threads, and the cases that can be forced by hand.

use super::block::InboxBlock;
use super::*;
use crate::sync::atomic::{AtomicUsize, Ordering, fence};
use std::collections::HashSet;
use std::sync::Arc;

/// Writes a message as a shard does; returns whether that began a block.
fn push(inbox: &Inbox, writer: &Writer, word: u64) -> bool {
    let begins = !writer.is_ready();
    if begins {
        inbox.prepare(writer).unwrap();
    }
    writer.write(word);
    fence(Ordering::SeqCst);
    // SAFETY: these tests read no more once their writers are gone.
    unsafe { inbox.list(writer) };
    begins
}

/// Drains as an owner does, up to `limit` messages; returns them, and whether there may be more.
fn drain_some(reader: &mut Reader, limit: usize) -> (Vec<u64>, bool) {
    let mut got = Vec::new();
    let news = reader.collect();
    fence(Ordering::SeqCst);
    let drained = reader.read(news, limit, |word| got.push(word));
    assert_eq!(drained.taken, got.len());
    (got, drained.more)
}

fn drain(reader: &mut Reader) -> Vec<u64> {
    let (got, more) = drain_some(reader, usize::MAX);
    assert!(!more);
    got
}

fn inbox() -> (Reader, Arc<Inbox>, Writer) {
    let reader = Reader::new();
    let inbox = Arc::clone(reader.inbox());
    (reader, inbox, Writer::default())
}

/// The blocks of a writer that are not given up.
fn chain(writer: &Writer) -> usize {
    let block = |at: *mut InboxBlock| {
        // SAFETY: the blocks of a chain are given up by the reader, which does nothing meanwhile.
        let next = |at: &*mut InboxBlock| unsafe { (**at).next.load(Ordering::Relaxed) };
        (!at.is_null()).then(|| (at, next(&at)))
    };
    let first = block(writer.first.load(Ordering::Relaxed));
    std::iter::successors(first, |(_, next)| block(*next)).count()
}

/// Pushes and drains so many messages a round, beside a producer that is stopped after its `prepare`; how many
/// blocks that took.
fn blocks_of_rounds(rounds: u64, messages: u64) -> usize {
    let (mut reader, inbox, writer) = inbox();
    let (mut blocks, stopped) = (HashSet::new(), Writer::default());
    inbox.prepare(&stopped).unwrap();
    for round in 0..rounds {
        let words = round * messages..(round + 1) * messages;
        for word in words.clone() {
            if push(&inbox, &writer, word) {
                blocks.insert(writer.open_block());
            }
        }
        assert_eq!(drain(&mut reader), words.collect::<Vec<_>>());
        assert_eq!(chain(&writer), 1, "the others are given up");
    }
    assert!(!push(&inbox, &stopped, 1 << 40), "it has its block");
    assert_eq!(drain(&mut reader), [1 << 40], "it goes on where it stopped");
    let late = Writer::default();
    let begun = (0..9).filter(|word| push(&inbox, &late, *word));
    assert_eq!(begun.count(), 2, "a thread begins with a small block");
    drain(&mut reader);
    blocks.len()
}

#[test]
fn blocks_are_used_again_also_under_a_foreign_guard() {
    // Without reuse so many messages take 490 blocks or more.
    let blocks = || [blocks_of_rounds(250, 1000), blocks_of_rounds(8, 40_000)];
    let alone = blocks();
    // Another crate of the process holds a guard of the collector that `crossbeam-epoch` shares between its users.
    let theirs = crossbeam_epoch::pin();
    let all = [alone, blocks()].concat();
    drop(theirs);
    assert!(all.iter().all(|blocks| *blocks < 350), "{all:?}");
}

#[test]
fn a_writer_begins_with_small_blocks() {
    let (_reader, inbox, writer) = inbox();
    let begun = |word: &u64| push(&inbox, &writer, *word);
    let first: Vec<u64> = (0..2000).filter(begun).collect();
    assert_eq!(first, [0, 8, 40, 168, 680, 1192, 1704]);
    assert_eq!(chain(&writer), first.len());
}

/// Only blocks of whole pages can go back to the system.
#[test]
fn blocks_of_a_backlog_are_large() {
    let (mut reader, inbox, writer) = inbox();
    let begun = |word: &u64| push(&inbox, &writer, *word);
    let at: Vec<u64> = (0..80_000).filter(begun).collect();
    let sizes = at.windows(2).map(|pair| (pair[0], pair[1] - pair[0]));
    let large: Vec<_> = sizes.filter(|(_, size)| *size == 4096).collect();
    assert!(large.iter().all(|(at, _)| *at >= 65_536), "{large:?}");
    assert!(large.len() >= 2, "{large:?}");
    assert!(inbox.is_long());
    assert_eq!(drain(&mut reader).len(), 80_000);
    assert!(!inbox.is_long(), "a drain knows of them");
}

/// A drain reads the writers that have news, and no others.
#[test]
fn a_writer_is_listed_once_per_drain() {
    let (mut reader, inbox, writer) = inbox();
    let others: Vec<_> = (0..100).map(|_| Writer::default()).collect();
    for (word, other) in (100..).zip(&others) {
        push(&inbox, other, word);
    }
    assert_eq!(drain(&mut reader), (100..200).collect::<Vec<_>>());
    let listed = |writers: &[Writer]| {
        (writers.iter())
            .filter(|writer| writer.listed.load(Ordering::Relaxed))
            .count()
    };
    assert_eq!(listed(&others), 0, "they are silent");
    for word in 0..3 {
        push(&inbox, &writer, word);
    }
    push(&inbox, &others[7], 3);
    assert_eq!((listed(&others), listed(&[writer])), (1, 1));
}

/// The next drain reads the messages that a limit has left, before those that were listed later.
#[test]
fn a_drain_at_its_limit_goes_on_where_it_stopped() {
    let (mut reader, inbox, writer) = inbox();
    let [second, third] = [Writer::default(), Writer::default()];
    for word in 0..20 {
        push(&inbox, &writer, word);
        push(&inbox, &second, 100 + word);
    }
    assert_eq!(drain_some(&mut reader, 15), ((0..15).collect(), true));
    push(&inbox, &writer, 20);
    push(&inbox, &third, 200);
    let (rest, more) = drain_some(&mut reader, 26);
    let expected: Vec<u64> = (15..21).chain(100..120).collect();
    assert_eq!((rest, more), (expected, true));
    assert_eq!(drain_some(&mut reader, 15), (vec![200], false));
    assert_eq!(drain_some(&mut reader, 0), (vec![], false));
}

/// Everything that can be left behind: blocks of chains, an open one, one read to its end, one that was prepared and
/// never used; and the order of the drops. The sanitizers see what is freed twice or never.
#[test]
fn an_inbox_frees_its_blocks_once() {
    for written in [0, 1, 7, 8, 9, 40, 41, 200, 2000] {
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

/// Threads whose messages race with drains: each message comes once, in its thread's order, and within one drain after
/// the last of them.
#[test]
fn threads_that_come_and_fall_silent_lose_nothing() {
    const THREADS: u64 = 4;
    const MESSAGES: u64 = 20_000;
    let (mut reader, inbox, _) = inbox();
    let writers: Vec<_> = (0..THREADS).map(|_| Writer::default()).collect();
    let done = AtomicUsize::new(0);
    let mut got = vec![0; THREADS as usize];
    let mut take = |word: u64| {
        let (thread, number) = ((word / MESSAGES) as usize, word % MESSAGES);
        assert_eq!(got[thread], number, "of thread {thread}");
        got[thread] += 1;
    };
    std::thread::scope(|scope| {
        for (thread, writer) in (0..).zip(&writers) {
            let (inbox, done) = (&inbox, &done);
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    push(inbox, writer, thread * MESSAGES + number);
                    if number % (64 << thread) == 0 {
                        std::thread::yield_now();
                    }
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        while done.load(Ordering::SeqCst) < THREADS as usize {
            drain_some(&mut reader, 1000)
                .0
                .into_iter()
                .for_each(&mut take);
        }
    });
    loop {
        let (words, more) = drain_some(&mut reader, 1000);
        words.into_iter().for_each(&mut take);
        if !more {
            break;
        }
    }
    assert!(got.iter().all(|it| *it == MESSAGES), "{got:?}");
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
    assert!(InboxBlock::new(most / size_of::<u64>()).is_none());
}
