//! The sealed log by itself: its blocks, its count, what it keeps for later.

use super::*;
use crate::drive::young::keep;

#[test]
fn sealing_pays_where_timers_die_and_for_a_while_after_that() {
    let mut seals = Seals::default();
    assert!(!seals.pay(160_000, 160_000) && !seals.pay(170_000, 160_000), "hardly any is dead");
    assert!(!seals.pay(100, 160_000), "the others wait in the inbox");
    assert!(seals.pay(170_001, 160_000));
    let after = (0..100).take_while(|_| seals.pay(160_000, 160_000)).count();
    assert_eq!(after as u32, SEALED_AFTER - 1);
}

fn young(count: usize) -> Vec<Young> {
    let young = |index| Entry { deadline: 9_000 + u64::from(index), index, mark: 1 };
    (0..count as u32).map(young).map(Young::new).collect()
}

#[test]
fn what_there_is_no_room_for_stays_in_order() {
    let (mut log, young) = (SealedLog::default(), young(2_500));
    let parts = [&young[..700], &young[700..1_300], &young[1_300..]];
    assert_eq!(parts.map(|part| log.append(part)), [700, 600, 1_200]);
    assert_eq!((log.blocks.len(), log.earliest()), (3, 9_000));
    let mut filed = Vec::new();
    for room in [0, 1_500, 2_500] {
        log.empty(|entry| {
            let fits = filed.len() < room;
            filed.extend(fits.then_some(entry.index));
            fits
        });
        let earliest = if room < 2_500 { 9_000 + room as u64 } else { u64::MAX };
        assert_eq!((filed.len(), log.len(), log.earliest()), (room, 2_500 - room, earliest));
    }
    assert!(filed.into_iter().eq(0..2_500));
}

#[test]
fn empty_blocks_are_kept_for_later_up_to_a_bound() {
    let (mut log, young) = (SealedLog::default(), young(100 * BLOCK));
    for _ in 0..2 {
        assert_eq!(log.append(&young), young.len());
        assert_eq!(log.blocks.len(), 100);
        log.clear();
        assert_eq!((log.len(), log.earliest()), (0, u64::MAX));
        assert_eq!((log.blocks.len(), log.free.len()), (0, RESERVE));
    }
    let held = log.held_bytes();
    assert!(held >= RESERVE * BLOCK * size_of::<Young>(), "{held}");
    assert_eq!(log.append(&young[..RESERVE * BLOCK]), RESERVE * BLOCK);
    assert_eq!((log.held_bytes(), log.free.len()), (held, 0), "nothing is allocated");
}

#[test]
fn a_sweep_packs_what_lives_into_fewer_blocks() {
    let (mut log, young) = (SealedLog::default(), young(8 * BLOCK));
    assert_eq!(log.append(&young), young.len());
    let third = |entry: Entry| entry.index % 3 == 0;
    let sweep = log.sweep(usize::MAX, |young| keep(young, third));
    assert!(sweep.cycle_done && sweep.removed + log.len() == young.len());
    let left = (log.blocks.len(), log.len(), log.earliest());
    assert_eq!(left, (3, (8 * BLOCK).div_ceil(3), 9_000));
    let mut filed = Vec::new();
    log.empty(|entry| {
        filed.push(entry.index);
        true
    });
    assert!(filed.into_iter().eq((0..8 * BLOCK as u32).step_by(3)), "in their order");
}
