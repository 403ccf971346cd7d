//! The wheel against two naive models, what a sweep must not miss, and ticks with so many entries that some are set
//! aside (`bursts`).

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "../support"]
mod support {
    pub(crate) mod checked_wheel;
    pub(crate) mod choices;
    pub(crate) mod properties;
    pub(crate) mod ticks;
    pub(crate) mod wheel_model;
}

#[allow(dead_code, unreachable_pub, reason = "its `main` is the example's")]
#[path = "../../examples/hashed_wheel.rs"]
mod hashed_wheel;

mod bursts;

use support::checked_wheel::each;
use tickwheel::__internal::{Entry, Rings};

/// Random operations, each step compared with the sorted map, and each tick with a hashed wheel.
#[test]
fn the_wheel_behaves_like_a_sorted_map_and_like_a_hashed_wheel() {
    support::properties::holds(1024, 1024, support::wheel_model::check);
}

/// Returns a wheel with 1600 entries.
fn filled() -> Rings {
    let mut rings = Rings::new();
    for n in 0..1600 {
        let row = u64::from(n / 4);
        let deadline = [
            100 + row,
            1024 + row,
            66_000 + 100 * row,
            150_000 + 977 * row,
        ][n as usize % 4];
        rings.insert(Entry {
            deadline,
            index: n / 4,
            mark: 0,
        });
    }
    rings
}

/// Before the first entry it has room for all buckets, and afterwards for chunks of entries as well.
#[test]
fn what_a_wheel_holds_counts_its_buckets_and_chunks() {
    let (empty, filled) = (Rings::new().held_bytes(), filled().held_bytes());
    let (buckets, entries) = (1216 * 16, 1600 * size_of::<Entry>());
    assert!((buckets..2 * buckets).contains(&empty), "{empty} bytes");
    assert!(filled >= empty + entries, "{filled} bytes");
}

#[test]
fn a_sweep_that_begins_anew_sees_what_it_has_passed() {
    let mut rings = filled();
    rings.sweep(800, &mut each(|_| false));
    rings.restart_sweep();
    let sweep = rings.sweep(2000, &mut each(|entry| entry.index % 2 == 0));
    assert!(sweep.cycle_done);
    assert_eq!((sweep.examined, sweep.removed), (1600, 800));
}

/// Its chunks serve other entries then.
#[test]
fn a_sweep_that_stands_in_a_bucket_goes_on_when_that_has_come_due() {
    for calls in 1.. {
        let mut rings = Rings::new();
        let insert = |rings: &mut Rings, deadline| {
            (0..100).for_each(|index| {
                rings.insert(Entry {
                    deadline,
                    index,
                    mark: 0,
                });
            });
        };
        insert(&mut rings, 300);
        insert(&mut rings, 5000);
        if (0..calls).any(|_| rings.sweep(31, &mut each(|_| false)).cycle_done) {
            assert!(calls > 200 / 64, "a call keeps to its budget");
            break;
        }
        let mut due = Vec::new();
        while rings.advance(300, 1000, &mut due).is_none() {}
        assert_eq!(due.len(), 100);
        // One of them lies where the sweep comes to next.
        for tick in [310, 500, 790] {
            insert(&mut rings, tick);
        }
        let mut removed = 0;
        for _ in 0..2 {
            let sweep = rings.sweep(1000, &mut each(|entry| entry.index % 2 == 0));
            assert!(sweep.cycle_done);
            removed += sweep.removed;
        }
        assert_eq!(removed, 200);
    }
}

/// Entries that move to finer rings while a sweep is half-way must not slip past it, wherever it stands.
#[test]
fn a_sweep_cycle_finds_dead_entries_although_time_passes() {
    let is_dead = |entry: Entry| entry.index % 2 == 0;
    for to in [1024, 66_000] {
        for calls in 0.. {
            let mut rings = filled();
            if (0..calls).any(|_| rings.sweep(31, &mut each(is_dead)).cycle_done) {
                assert!(calls > 1600 / 64, "a call keeps to its budget");
                break;
            }
            let mut due = Vec::new();
            while rings.advance(to, 50, &mut due).is_none() {}
            while !rings.sweep(31, &mut each(is_dead)).cycle_done {}
            rings.drain_all(&mut |entry| {
                assert!(
                    !is_dead(entry),
                    "{entry:?} after {calls} calls and {to} ticks"
                );
            });
        }
    }
}

/// A caller that asks in the middle of an advance is told of what it has not taken yet.
#[test]
fn entries_that_an_unfinished_advance_has_left_are_the_next_deadline() {
    let mut rings = Rings::new();
    let insert = |rings: &mut Rings, deadline| {
        rings.insert(Entry {
            deadline,
            index: 0,
            mark: 0,
        });
    };
    let mut due = Vec::new();
    (0..3).for_each(|_| insert(&mut rings, 5));
    insert(&mut rings, 30);
    assert_eq!(rings.earliest(), Some(5));
    for left in [2, 1] {
        assert!(rings.advance(9, 1, &mut due).is_none(), "{left} are left");
        assert!(rings.earliest().is_some_and(|next| next <= 5));
    }
    while rings.advance(9, 1, &mut due).is_none() {}
    assert_eq!((due.len(), rings.earliest()), (3, Some(30)));
    // Overdue ones, which lie apart.
    (0..2).for_each(|_| insert(&mut rings, 7));
    for _ in 0..2 {
        assert!(rings.earliest().is_some_and(|next| next <= 9));
        let _ = rings.advance(9, 1, &mut due);
    }
    assert_eq!((due.len(), rings.earliest()), (5, Some(30)));
}

/// A bucket may hold any number of entries that are not due yet. One call looks at a bounded number of them, and all
/// calls together at each of them a few times.
#[test]
fn an_advance_goes_through_a_crowded_bucket_piece_by_piece() {
    const DUE: u64 = 1_000_000;
    const CROWD: u32 = 20_000;
    let mut rings = Rings::new();
    for index in 0..=CROWD {
        let later = u64::from(1 + index % 60);
        rings.insert(Entry {
            deadline: DUE + if index < CROWD { later } else { 0 },
            index,
            mark: 0,
        });
    }
    let (mut due, mut calls) = (Vec::new(), 0);
    while rings.advance(DUE, 1, &mut due).is_none() {
        calls += 1;
    }
    assert_eq!((due.len(), due[0].index), (1, CROWD));
    // Four entries for that of the budget, 64 more, and the rest of a chunk. An entry goes through nine rings at most.
    assert!((CROWD / 99..CROWD / 7).contains(&calls), "{calls} calls");
}

/// Its bucket is half-way to finer rings: the entry must not come before those of its tick that are still on their way.
#[test]
fn an_entry_that_comes_during_a_cascade_stays_behind_older_ones_of_its_tick() {
    let (first, tick) = (512, 900);
    let mut rings = Rings::new();
    let entry = |deadline, index| Entry {
        deadline,
        index,
        mark: 0,
    };
    // Two ticks by turns, so that no chunk moves as a whole.
    for index in 0..1000 {
        rings.insert(entry(tick + u64::from(index % 2), index));
    }
    rings.insert(entry(first, 1000));
    let mut due = Vec::new();
    assert!(rings.advance(first, 1, &mut due).is_none() && due.is_empty());
    rings.insert(entry(first, 1001));
    rings.insert(entry(tick, 1002));
    while rings.advance(tick, 1000, &mut due).is_none() {}
    let came = due.iter().map(|entry| entry.index);
    let even = (0..1000).filter(|index| index % 2 == 0);
    assert!(came.eq([1000, 1001].into_iter().chain(even).chain([1002])));
}
