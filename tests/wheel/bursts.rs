//! A tick with very many entries, beyond what the model shows with small bursts: what was filed shortly before need not
//! wait for all of them, and what a burst costs.

use crate::support::checked_wheel::each;
use tickwheel::__internal::{BURST, Entry, Rings};

fn entry(deadline: u64, index: u32) -> Entry {
    Entry {
        deadline,
        index,
        mark: !index,
    }
}

/// Entries in a burst.
const MANY: u32 = 150_000;

/// Advances until nothing is left but the backlog, and says what came.
fn advance(rings: &mut Rings, to: u64) -> Vec<Entry> {
    let mut due = Vec::new();
    while rings.advance(to, 100, &mut due).is_none() {}
    due
}

#[test]
fn a_late_entry_for_the_tick_of_a_burst_is_yielded_in_time() {
    for tick in [300, 5_000, 300_000] {
        let mut rings = Rings::new();
        (0..MANY).for_each(|index| rings.insert(entry(tick, index)));
        assert!(advance(&mut rings, tick - 1).is_empty());
        // The latter is as many as an inbox and a log hand over at the last moment.
        (MANY..MANY + 24_000).for_each(|index| rings.insert(entry(tick, index)));
        let due = advance(&mut rings, tick);
        assert!(
            due.iter().any(|entry| entry.index == MANY),
            "{tick}: it waits"
        );
        assert!(rings.has_backlog());
    }
}

/// Cascading entry by entry takes a move each, and 4 moves are allowed for each entry of the budget.
#[test]
fn a_burst_cascades_chunk_by_chunk() {
    let mut rings = Rings::new();
    (0..MANY).for_each(|index| rings.insert(entry(300_000, index)));
    let (mut due, mut calls) = (Vec::new(), 0);
    while due.is_empty() {
        assert!(rings.advance(300_000, 100, &mut due).is_none());
        calls += 1;
    }
    let by_entries = 3 * MANY / (4 * 100 + 64);
    assert!(calls < by_entries / 5, "{calls} calls");
}

/// As from handlers that schedule zero delays for ever.
#[test]
fn overdue_entries_without_end_keep_no_tick_waiting() {
    for budget in [1, 16, 100, BURST, 2 * BURST] {
        let mut rings = Rings::new();
        rings.insert(entry(7, u32::MAX));
        let (mut due, mut overdue) = (Vec::new(), 0);
        while !due.iter().any(|entry: &Entry| entry.index == u32::MAX) {
            (0..budget as u32).for_each(|index| rings.insert(entry(0, index)));
            assert!(
                overdue <= BURST + budget,
                "the tick waits, with a budget of {budget}"
            );
            due.clear();
            let _ = rings.advance(7, budget, &mut due);
            overdue += due.len();
        }
    }
}

/// Returns a wheel that has set all entries of a tick aside but the first one, which has come, and in whose backlog the
/// sweep stands behind so many chunks.
fn swept_backlog(all: u32, swept: u32) -> (Rings, Vec<Entry>) {
    let mut rings = Rings::new().with_bursts_of(1);
    (0..all).for_each(|index| rings.insert(entry(70, index)));
    let due = advance(&mut rings, 70);
    for _ in 0..swept {
        assert!(!rings.sweep(1, &mut each(|_| false)).cycle_done);
    }
    (rings, due)
}

/// What was taken leaves memory that is free, or serves another tick: the sweep has no business there.
#[test]
fn a_sweep_that_stands_in_the_backlog_survives_what_is_taken_from_it() {
    // Entries of a chunk, of which one fires at once.
    const CHUNK: u32 = 31;
    const ALL: u32 = 40 * CHUNK;
    let chunks = (1..=4).flat_map(|swept| (1..=6).map(move |taken| (swept, taken)));
    for ((swept, taken), far) in chunks.flat_map(|case| [(case, 0), (case, 2)]) {
        let (mut rings, mut due) = swept_backlog(ALL, swept);
        rings.take_backlog((taken * CHUNK - 1) as usize, &mut due);
        assert!(due.iter().map(|it| it.index).eq(0..taken * CHUNK));
        (0..far).for_each(|nth| rings.insert(entry(1 << (20 + nth), ALL + nth)));
        // What is left of the backlog dies. The cycle under way may have passed some of it.
        let is_dead = |entry: Entry| entry.index < ALL;
        for _ in 0..2 {
            while !rings.sweep(100, &mut each(is_dead)).cycle_done {}
        }
        assert_eq!(rings.len(), far as usize, "{swept} swept, {taken} taken");
        let mut left = Vec::new();
        rings.drain_all(&mut |entry| left.push(entry.index));
        left.sort_unstable();
        assert!(left.into_iter().eq(ALL..ALL + far));
    }
}

/// The chunk on which the sweep stands is the first one of another tick by then, and the next one there dies.
#[test]
fn a_sweep_follows_no_chunk_of_the_backlog_to_another_tick() {
    const CHUNK: u32 = 31;
    const ALL: u32 = 4 * CHUNK;
    for (swept, taken) in (1..=3).flat_map(|swept| (1..=3).map(move |taken| (swept, taken))) {
        let (mut rings, mut due) = swept_backlog(ALL, swept);
        rings.take_backlog((taken * CHUNK - 1) as usize, &mut due);
        (ALL..2 * ALL).for_each(|index| rings.insert(entry(1 << 20, index)));
        for _ in 0..2 {
            let is_dead = |entry: Entry| entry.index >= ALL + CHUNK;
            while !rings.sweep(1, &mut each(is_dead)).cycle_done {}
        }
        (2 * ALL..3 * ALL).for_each(|index| rings.insert(entry(1 << 20, index)));
        let mut left = Vec::new();
        rings.drain_all(&mut |entry| left.push(entry.index));
        left.sort_unstable();
        let expected = (taken * CHUNK..ALL + CHUNK).chain(2 * ALL..3 * ALL);
        assert!(
            left.into_iter().eq(expected),
            "{swept} swept, {taken} taken"
        );
    }
}
