//! One shard end to end: producers, node table, inbox, wheel, turn and sleep together, all of them tiny.

use super::engine::{Engine, Peer, TWO_THREADS, explore_engine};
#[cfg(not(crossbeam_loom))]
use super::harness::bounded;

/// One shard end to end, capacity 2: the timer fires, whoever is faster.
#[test]
fn schedule_and_sleep() {
    explore_engine(TWO_THREADS, None, |mut engine| {
        let producer = engine.spawn(|peer| peer.schedule(0, 5, 1));
        engine.sleep_and_run_out(5, producer);
        assert_eq!(engine.finish(), [1]);
    });
}

/// The producer cancels its own timer while the owner inserts or fires it.
#[test]
fn schedule_then_cancel_or_fire() {
    explore_engine(TWO_THREADS, None, |mut engine| {
        let producer = engine.spawn(|peer| {
            let key = peer.schedule(0, 5, 1).unwrap();
            peer.cancel(0, key)
        });
        let _ = engine.turn(5);
        let cancelled = producer.join().unwrap();
        engine.run_out(5);
        assert_eq!(engine.finish(), if cancelled { vec![] } else { vec![1] });
    });
}

/// Asks for the deadline of a timer for tick 5 while another thread cancels it and schedules one for tick 9.
fn race_for_the_node(mut engine: Engine, is_periodic: bool) {
    let key = engine.peer.schedule(0, 5, 1).unwrap();
    let next = engine.spawn(move |peer| {
        assert!(peer.cancel(0, key));
        let next = if is_periodic {
            peer.schedule_periodic(9, 2)
        } else {
            peer.schedule(0, 9, 2)
        };
        let next = next.unwrap();
        assert_eq!(next.index(), key.index(), "the same node");
        assert_eq!(peer.handle.deadline_of(next), Some(9));
        next
    });
    let told = engine.peer.handle.deadline_of(key);
    assert!(
        told.is_none_or(|deadline| deadline == 5),
        "{told:?} is another timer's"
    );
    let next = next.join().unwrap();
    assert_eq!(engine.peer.handle.deadline_of(key), None);
    assert!(engine.peer.cancel(0, next));
    engine.run_out(9);
    assert_eq!(engine.finish(), []);
}

/// Somebody asks for the deadline of a timer whose node is taken by the next one meanwhile.
#[test]
fn ask_or_recycle() {
    explore_engine(TWO_THREADS, None, |engine| race_for_the_node(engine, false));
}

/// The same, the next one being periodic: its first deadline is stored in another way.
#[test]
fn ask_or_recycle_for_a_periodic_timer() {
    explore_engine(TWO_THREADS, None, |engine| race_for_the_node(engine, true));
}

/// Two deadlines of one timer, the earlier one set while the owner turns.
#[test]
fn moved_earlier_or_turn() {
    explore_engine(TWO_THREADS, None, |mut engine| {
        let key = engine.peer.schedule(0, 9, 1).unwrap();
        let mover = engine.spawn(move |peer| peer.handle.producer(0).move_to(key, 5));
        assert!(
            engine.sleep_and_run_out(4, mover),
            "the timer is pending all the while"
        );
        assert_eq!(engine.ended, [(1, Some(5))], "at the new deadline, once");
        engine.finish();
    });
}

fn assert_ends_have_begun(peer: &Peer) {
    let sums = peer.handle.sums();
    let (ended, begun) = (sums.fired + sums.cancelled, sums.scheduled);
    assert!(ended <= begun, "{ended} ends of {begun} timers");
}

/// A reader of the counters never sees a timer's end without its beginning.
#[test]
fn ends_are_not_counted_before_beginnings() {
    explore_engine(TWO_THREADS, None, |mut engine| {
        let looking = engine.spawn(assert_ends_have_begun);
        let first = engine.peer.schedule(0, 5, 1).unwrap();
        assert!(engine.peer.cancel(0, first));
        engine.peer.schedule(0, 5, 2).unwrap();
        engine.run_out(5);
        looking.join().unwrap();
        assert_eq!(engine.finish(), [2]);
    });
}

/// A periodic timer counts as pending from its beginning to its end, also while it is called.
#[test]
fn a_periodic_timer_is_always_pending() {
    explore_engine(TWO_THREADS, None, |mut engine| {
        let key = engine.peer.schedule_periodic(5, 1).unwrap();
        let looking =
            engine.spawn(|peer| assert!(peer.handle.pending() >= 1, "begun, and not ended"));
        let _ = engine.turn(5);
        looking.join().unwrap();
        assert_eq!(engine.ended, [(1, Some(5))]);
        assert!(engine.peer.cancel(0, key));
        engine.run_out(5);
        assert_eq!(engine.finish(), [1]);
    });
}

/// The same for a third thread, which neither pushes nor turns.
#[cfg(not(crossbeam_loom))]
#[test]
fn a_third_thread_sees_no_end_without_its_beginning() {
    explore_engine(bounded(2, 2), None, |mut engine| {
        let scheduling = engine.spawn(|peer| peer.schedule(0, 5, 1));
        let looking = engine.spawn(assert_ends_have_begun);
        engine.turn(5);
        scheduling.join().unwrap();
        looking.join().unwrap();
        engine.run_out(5);
        assert_eq!(engine.finish(), [1]);
    });
}

/// The same for a timer that another thread cancels, with the thread state that it inherited: no push and no fence lies
/// between its count and the one it must bring along.
#[cfg(not(crossbeam_loom))]
#[test]
fn a_thread_state_is_inherited_with_its_counts() {
    explore_engine(bounded(2, 2), None, |mut engine| {
        let looking = engine.spawn(assert_ends_have_begun);
        let key = engine.peer.schedule(0, 5, 1).unwrap();
        let cancelling = engine.spawn(move |peer| peer.cancel(0, key));
        assert!(cancelling.join().unwrap(), "nobody else is after it");
        looking.join().unwrap();
        engine.run_out(5);
        assert_eq!(engine.finish(), []);
    });
}

/// One shard end to end with two producers, one of which cancels: each timer fires or is cancelled, once.
#[cfg(not(crossbeam_loom))]
#[test]
fn two_producers_and_the_owner() {
    explore_engine(bounded(2, 1), None, |mut engine| {
        let scheduling = engine.spawn(|peer| peer.schedule(0, 5, 1));
        let cancelling = engine.spawn(|peer| {
            let key = peer.schedule(1, 6, 2).unwrap();
            peer.cancel(1, key)
        });
        let next = engine.turn(5);
        let asleep = engine.owner.begin_sleep(next);
        scheduling.join().unwrap();
        let cancelled = cancelling.join().unwrap();
        if asleep && engine.ended.is_empty() {
            assert!(
                next <= 5 || engine.bell.rings() > 0,
                "slept through the timer"
            );
        }
        engine.owner.end_sleep();
        engine.run_out(5);
        assert_eq!(
            engine.finish(),
            if cancelled { vec![1] } else { vec![1, 2] }
        );
    });
}
