//! A tick with very many entries, beyond what the model shows with small bursts: what was filed shortly before need not
//! wait for all of them, and what a burst costs.

use tickwheel::wheel::{BURST, Entry, Hierarchical, Wheel};

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
fn advance(wheel: &mut Hierarchical, to: u64) -> Vec<Entry> {
    let mut due = Vec::new();
    while wheel.advance(to, 100, &mut due) {}
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
        assert!(
            due.iter().any(|entry| entry.index == MANY),
            "{tick}: it waits"
        );
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
            assert!(
                overdue <= BURST + budget,
                "the tick waits, with a budget of {budget}"
            );
            due.clear();
            let _ = wheel.advance(7, budget, &mut due);
            overdue += due.len();
        }
    }
}
