//! A tick with very many entries, beyond what the model shows with small bursts: what was filed shortly before need not
//! wait for all of them, and what a burst costs.

use crate::support::random::Random;
use tickwheel::wheel::{BURST, Entry, Hierarchical, Wheel};

fn entry(deadline: u64, index: u32) -> Entry {
    Entry { deadline, index, mark: !index }
}

/// Entries in a burst.
const MANY: u32 = 150_000;

/// Advances until nothing is left but the backlog, and says what came.
fn advance(wheel: &mut Hierarchical, to: u64) -> Vec<Entry> {
    let mut due = Vec::new();
    while wheel.advance(to, 100, &mut due) {}
    due
}

fn take_backlog(wheel: &mut Hierarchical) -> Vec<Entry> {
    let mut due = Vec::new();
    while wheel.has_backlog() {
        wheel.take_backlog(100, &mut due);
    }
    due
}

#[test]
fn a_late_entry_for_the_tick_of_a_burst_is_yielded_in_time() {
    for tick in [300, 5_000, 300_000] {
        let mut wheel = Hierarchical::new();
        (0..MANY).for_each(|index| wheel.insert(entry(tick, index)));
        assert!(advance(&mut wheel, tick - 1).is_empty());
        // The latter is as many as an inbox and a log hand over at the last moment.
        (MANY..MANY + 24_000).for_each(|index| wheel.insert(entry(tick, index)));
        let due = advance(&mut wheel, tick);
        assert!(due.iter().any(|entry| entry.index == MANY), "{tick}: it waits");
        assert!(wheel.has_backlog());
    }
}

/// Cascading entry by entry takes a move each, and 4 moves are allowed for each entry of the budget.
#[test]
fn a_burst_cascades_chunk_by_chunk() {
    let mut wheel = Hierarchical::new();
    (0..MANY).for_each(|index| wheel.insert(entry(300_000, index)));
    let (mut due, mut calls) = (Vec::new(), 0);
    while due.is_empty() {
        assert!(wheel.advance(300_000, 100, &mut due));
        calls += 1;
    }
    let by_entries = 3 * MANY / (4 * 100 + 64);
    assert!(calls < by_entries / 5, "{calls} calls");
}

/// As from handlers that schedule zero delays for ever.
#[test]
fn overdue_entries_without_end_keep_no_tick_waiting() {
    for budget in [1, 16, 100, BURST, 2 * BURST] {
        let mut wheel = Hierarchical::new();
        wheel.insert(entry(7, u32::MAX));
        let (mut due, mut overdue) = (Vec::new(), 0);
        while !due.iter().any(|entry: &Entry| entry.index == u32::MAX) {
            (0..budget as u32).for_each(|index| wheel.insert(entry(0, index)));
            assert!(overdue <= BURST + budget, "the tick waits, with a budget of {budget}");
            due.clear();
            let _ = wheel.advance(7, budget, &mut due);
            overdue += due.len();
        }
    }
}

/// A sweep goes through a backlog from which entries are taken all the while, and gets to its end.
#[test]
fn a_backlog_is_swept_while_it_is_taken() {
    let mut wheel = Hierarchical::new();
    let mut random = Random::new(7);
    (0..MANY).for_each(|index| wheel.insert(entry(300, index)));
    let came = advance(&mut wheel, 300).len();
    let is_dead = |entry: Entry| entry.index % 3 != 0;
    let (mut taken, mut removed, mut rounds) = (Vec::new(), 0, 0);
    while rounds < 2 {
        wheel.take_backlog(random.below(90) as usize, &mut taken);
        let sweep = wheel.sweep(1_000, &mut |entry| is_dead(entry));
        removed += sweep.removed;
        rounds += usize::from(sweep.cycle_done);
        // Alive or not, it comes once.
        assert!(taken.windows(2).all(|pair| pair[0].index < pair[1].index));
    }
    assert!(taken.len() < MANY as usize / 4, "it is done before the backlog is");
    let rest = take_backlog(&mut wheel);
    assert!(!rest.iter().any(|entry| is_dead(*entry)), "no dead entry is left");
    assert_eq!(came + taken.len() + removed + rest.len(), MANY as usize);
}
