//! Waits for one callback, of the C library: what a callback uses is freed after a cancel, won or lost, when its progress
//! is told as over. A loop's poll with its callbacks, on the owner's thread.

#[path = "../../c/src/calls.rs"]
mod calls;

use super::engine::{Engine, explore_engine};
use super::harness::{Bound, Payload, Probe, bounded};
use crate::sync::atomic;
use crate::types::{Budget, Key};
use calls::{Calls, Progress};
use std::sync::Arc;

const BOUND: Bound = bounded(3, 2);

fn words(key: Key<Payload>) -> [u64; 2] {
    let bits = key.to_raw().to_bits();
    [(bits >> 32) as u64, bits as u64 & 0xffff_ffff]
}

/// Cancels a timer while its owner polls, and frees what the callback of this one uses where a wait would be over.
fn race_for_what_the_callback_uses(mut engine: Engine, key: Key<Payload>) {
    let (calls, used) = (Arc::new(Calls::default()), Arc::new(Probe::new()));
    let (its, freed) = (Arc::clone(&calls), Arc::clone(&used));
    let canceller = engine.spawn(move |peer| {
        let won = peer.cancel(0, key);
        assert!(!peer.handle.is_pending(key));
        if its.progress(words(key), its.last(), || its.polls()) == Progress::Over {
            freed.set(2);
        }
        won
    });
    let Engine { owner, ended, .. } = &mut engine;
    calls.set_polls(true);
    let _ = owner.turn(5, &Budget::new(), |fired| {
        calls.call(words(fired.key), || {
            if fired.key == key {
                assert_eq!(used.get(), 0, "freed too early");
            }
        });
        ended.push((fired.payload.id(), Some(5)));
    });
    calls.set_polls(false);
    canceller.join().unwrap();
    let progress = calls.progress(words(key), calls.last(), || calls.polls());
    assert_eq!(progress, Progress::Over, "in no poll");
    engine.run_out(5);
    engine.finish();
}

/// The cancel of a timer that fires once is lost, or no callback begins.
#[test]
fn cancel_and_wait_or_fire() {
    explore_engine(BOUND, None, |engine| {
        let key = engine.peer.schedule(0, 5, 1).unwrap();
        race_for_what_the_callback_uses(engine, key);
    });
}

/// The same for a periodic timer, whose cancel may win while the callback runs.
#[test]
fn cancel_and_wait_or_call() {
    explore_engine(BOUND, None, |engine| {
        let key = engine.peer.schedule_periodic(5, 1).unwrap();
        race_for_what_the_callback_uses(engine, key);
    });
}

/// The same with another timer before or after it.
#[test]
fn cancel_and_wait_or_fire_two() {
    for nth in 0..2 {
        explore_engine(BOUND, None, move |engine| {
            let keys = [1, 2].map(|id| engine.peer.schedule(0, 5, id).unwrap());
            race_for_what_the_callback_uses(engine, keys[nth]);
        });
    }
}
