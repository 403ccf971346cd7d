//! `stop` against everything else: each accepted timer ends once, each refused one comes back.

use super::engine::{Engine, NEVER, Peer, TWO_THREADS, explore_engine};
use super::harness::{Bound, Payload, bounded, by_epoch, explore, fence_for_all};
use crate::shard::Due;
use crate::state::State;
use crate::types::{Budget, Key};

/// Like [`TWO_THREADS`], for what takes longer.
const LONG: Bound = by_epoch(bounded(2, 1), bounded(3, 1));

/// Permits for pending timers, all of which must be free in the end.
const LIMIT: Option<usize> = Some(10);

/// Every accepted timer is returned, every refused one given back; never both.
#[test]
fn stop_or_schedule() {
    explore(TWO_THREADS, || close_or_schedule(false));
}

/// The same where the producer's fence is the owner's `membarrier`.
#[test]
fn light_stop_or_schedule() {
    explore(bounded(3, 2), || close_or_schedule(true));
}

fn close_or_schedule(is_light: bool) {
    fence_for_all(is_light);
    let mut engine = Engine::new(LIMIT);
    let producer = engine.spawn(|peer| peer.schedule(0, 10, 1).is_some());
    engine.close();
    let sums = engine.peer.handle.sums();
    assert!(
        sums.returned <= sums.scheduled,
        "returned before it was counted: {sums:?}"
    );
    let accepted = producer.join().unwrap();
    assert_eq!(engine.finish(), if accepted { vec![1] } else { vec![] });
}

/// With a `TimerHandle`, which holds the node of a timer that `stop` returned before the push was refused: the
/// producer's next timer must not get that node.
#[test]
fn stop_or_schedule_with_a_handle() {
    explore_engine(bounded(3, 2), LIMIT, |mut engine| {
        let producer = engine.spawn(|peer| {
            let Some(key) = peer.schedule_held(10, 1) else {
                return vec![];
            };
            let next = peer.schedule(0, 10, 2);
            assert!(
                peer.handle.state(key).is_some(),
                "the handle keeps the node"
            );
            peer.handle.producer(0).release(key.index());
            if next.is_some() { vec![1, 2] } else { vec![1] }
        });
        engine.close();
        let accepted = producer.join().unwrap();
        assert_eq!(engine.finish(), accepted);
    });
}

/// One winner; the payload comes back once.
#[test]
fn stop_or_cancel() {
    explore_engine(TWO_THREADS, LIMIT, |mut engine| {
        let key = engine.peer.schedule(0, 10, 1).unwrap();
        let canceller = engine.spawn(move |peer| peer.cancel(1, key));
        let returned = engine.close();
        let cancelled = usize::from(canceller.join().unwrap());
        assert_eq!(returned + cancelled, 1, "exactly one of the two wins");
        engine.finish();
    });
}

/// Polls a future whose timer carries the waker 1 with the waker 2, and drops it. Returns the waker that the engine has
/// or had.
fn poll_and_drop(peer: &Peer, key: Key<Payload>) -> Vec<u64> {
    let producer = peer.handle.producer(1);
    match producer.replace(key.index(), peer.ledger.payload(2)) {
        Ok((before, scheduled)) => {
            assert_eq!(before.id(), 1);
            let next = scheduled.ok();
            next.iter().for_each(|key| producer.release(key.index()));
            next.map_or(vec![], |_| vec![2])
        }
        Err(refused) => {
            assert_eq!(refused.id(), 2);
            producer.release(key.index());
            vec![1]
        }
    }
}

/// A future changes its waker while the engine stops: the last waker that the engine took comes back, and each timer's
/// end is counted once.
#[test]
fn stop_or_replace() {
    explore_engine(bounded(3, 2), LIMIT, |mut engine| {
        let key = engine.peer.schedule_held(10, 1).unwrap();
        let future = engine.spawn(move |peer| poll_and_drop(peer, key));
        let returned = engine.close() as u64;
        let expected = future.join().unwrap();
        let sums = engine.peer.handle.sums();
        assert_eq!(
            (sums.returned, sums.cancelled + sums.returned),
            (returned, sums.scheduled),
            "{sums:?}"
        );
        assert_eq!(engine.finish(), expected);
    });
}

/// A future changes its waker while its timer fires, as it is due or because everything does: the last waker is woken
/// then or in the next turn, and no timer is counted twice. There is one permit, which both timers use.
#[test]
fn fire_or_replace() {
    for now in [10, NEVER] {
        explore_engine(bounded(3, 2), Some(1), move |mut engine| {
            let key = engine.peer.schedule_held(10, 1).unwrap();
            let future = engine.spawn(move |peer| poll_and_drop(peer, key));
            let _ = engine.turn(now);
            let expected = future.join().unwrap();
            engine.run_out(now);
            let sums = engine.peer.handle.sums();
            assert_eq!(
                (sums.fired, sums.fired + sums.cancelled),
                (1, sums.scheduled)
            );
            assert_eq!(engine.finish(), expected);
        });
    }
}

/// A timer that moves while the shard stops comes back once.
#[test]
fn stop_or_move() {
    explore_engine(TWO_THREADS, LIMIT, |mut engine| {
        let key = engine.peer.schedule(0, 10, 1).unwrap();
        let mover = engine.spawn(move |peer| peer.handle.producer(1).move_to(key, 5));
        assert_eq!(engine.close(), 1, "nobody else ends the timer");
        let _ = mover.join().unwrap();
        assert_eq!(engine.finish(), [1]);
    });
}

/// A periodic timer is scheduled while the engine stops: its first period is returned, refused or never called.
#[test]
fn stop_or_schedule_periodic() {
    explore_engine(TWO_THREADS, LIMIT, |mut engine| {
        let producer = engine.spawn(|peer| peer.schedule_periodic(5, 1));
        engine.close();
        let accepted = producer.join().unwrap();
        let alive = |key| engine.peer.handle.state(key).is_some_and(State::is_live);
        assert!(!accepted.is_some_and(alive), "still alive");
        assert_eq!(
            engine.finish(),
            if accepted.is_some() { vec![1] } else { vec![] }
        );
    });
}

/// A periodic timer is scheduled and cancelled beside a timer that fires once, for which a drain waits all the while.
#[test]
fn drain_or_schedule_and_cancel_periodic() {
    explore_engine(TWO_THREADS, LIMIT, |mut engine| {
        engine.peer.schedule(1, 10, 1).unwrap();
        let other = engine.spawn(|peer| {
            let key = peer.schedule_periodic(5, 2).unwrap();
            assert!(peer.cancel(0, key));
        });
        let waits_for = |engine: &Engine| engine.peer.handle.sums().pending_once();
        assert!(waits_for(&engine) >= 1, "the drain ends too early");
        other.join().unwrap();
        assert_eq!(waits_for(&engine), 1);
        assert_eq!(engine.close(), 1);
        assert_eq!(engine.finish(), [1]);
    });
}

/// A periodic timer is scheduled while all timers are cancelled: it is among them, or is returned by the stop.
#[test]
fn cancel_all_or_schedule_periodic() {
    explore_engine(TWO_THREADS, LIMIT, |mut engine| {
        engine.peer.schedule(0, 10, 1).unwrap();
        let cancelling = engine.spawn(|peer| {
            let all = peer.handle.producer(1).cancel_all().into_iter();
            all.map(|(_, _, payload)| payload.id()).collect::<Vec<_>>()
        });
        let key = engine.peer.schedule_periodic(5, 2).unwrap();
        let mut cancelled = cancelling.join().unwrap();
        cancelled.sort_unstable();
        let is_pending = engine.peer.handle.is_pending(key);
        assert_eq!(cancelled, if is_pending { vec![1] } else { vec![1, 2] });
        assert_eq!(engine.close(), usize::from(is_pending));
        assert_eq!(engine.finish(), if is_pending { vec![2] } else { vec![] });
    });
}

/// A last turn fires what is due, then the shard closes, while a producer goes on.
#[test]
fn turn_and_stop_or_schedule() {
    explore_engine(TWO_THREADS, LIMIT, |mut engine| {
        let producer = engine.spawn(|peer| peer.schedule(0, 10, 1).is_some());
        let _ = engine.turn(10);
        engine.close();
        let accepted = producer.join().unwrap();
        let expected = if accepted { vec![1] } else { vec![] };
        assert_eq!(engine.finish(), expected, "fired or returned, once");
    });
}

/// A worker dies in the middle of a turn, with a timer in its hands; its shard closes while a producer goes on.
#[test]
fn death_in_a_turn_or_schedule() {
    explore_engine(LONG, LIMIT, |mut engine| {
        engine.peer.schedule(0, 10, 2).unwrap();
        let producer = engine.spawn(|peer| peer.schedule(1, 10, 1).is_some());
        engine.owner.begin_turn(10, &Budget::new(), false);
        if let Some(Due::Once(fired)) = engine.owner.next_in_turn() {
            engine.ended.push((fired.payload.id(), Some(10)));
        }
        // What unwinds never finishes the turn.
        engine.close();
        let accepted = producer.join().unwrap();
        let expected = if accepted { vec![1, 2] } else { vec![2] };
        assert_eq!(engine.finish(), expected, "each ended once");
    });
}

/// Two producers schedule while the engine stops: each timer is returned or refused, and the counts agree.
#[cfg(not(crossbeam_loom))]
#[test]
fn stop_or_schedule_by_two() {
    explore_engine(bounded(2, 1), LIMIT, |mut engine| {
        let producers = [0, 1].map(|thread| {
            engine.spawn(move |peer| peer.schedule(thread, 10, u64::from(thread)).is_some())
        });
        engine.close();
        let accepted = producers.map(|producer| producer.join().unwrap());
        let expected: Vec<u64> = (0..2).filter(|&id| accepted[id as usize]).collect();
        assert_eq!(
            engine.finish(),
            expected,
            "what was accepted is returned, what was not is not"
        );
    });
}
