//! What the scenarios about a whole shard share: its owner, what other threads have of it, and what has ended.

use super::harness::{
    Bell, Bound, JoinHandle, Ledger, Payload, bounded, bounded_when_quick, by_epoch, explore_as,
    name_of, spawn,
};
use crate::node::limit::Limit;
use crate::node::offer::offer;
use crate::shard::{Owner, ShardHandle};
use crate::sync::way;
use crate::time::{Deadline, Period, Recurrence, Repeat, TickRate, Time};
use crate::types::{Budget, Key, ScheduleError, ScheduleErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// Two threads: with the real epoch under loom a bound is needed.
pub(super) const TWO_THREADS: Bound = by_epoch(bounded(3, 2), bounded_when_quick(3));

/// Where the owner sleeps to when nothing is due.
pub(super) const NEVER: u64 = u64::MAX;

fn accepted(
    scheduled: Result<Key<Payload>, ScheduleError<Payload>>,
    id: u64,
) -> Option<Key<Payload>> {
    let refused = |error: ScheduleError<Payload>| {
        assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
        assert_eq!(error.into_payload().id(), id);
    };
    scheduled.map_err(refused).ok()
}

/// What any thread has of the shard.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) handle: Arc<ShardHandle<Payload>>,
    pub(super) ledger: Arc<Ledger>,
}

impl Peer {
    /// Schedules a timer: its key, unless the engine refused it and gave the payload back.
    pub(super) fn schedule(&self, thread: u32, tick: u64, id: u64) -> Option<Key<Payload>> {
        self.offer(thread, tick, id, false)
    }

    /// Like [`Self::schedule`], with a handle that holds the node.
    pub(super) fn schedule_held(&self, tick: u64, id: u64) -> Option<Key<Payload>> {
        self.offer(0, tick, id, true)
    }

    fn offer(&self, thread: u32, tick: u64, id: u64, held: bool) -> Option<Key<Payload>> {
        let scheduled = offer(self.ledger.payload(id), |payload| {
            let armed = self.handle.producer(thread).schedule(tick, payload, held)?;
            Ok(self.handle.key(armed))
        });
        accepted(scheduled, id)
    }

    /// Like [`Self::schedule`], for a timer that is called first at tick `first` and every five ticks then.
    pub(super) fn schedule_periodic(&self, first: u64, id: u64) -> Option<Key<Payload>> {
        let every = Period::fixed_delay(Duration::from_nanos(10));
        let first = Deadline {
            nominal: Time::from_nanos(first * 2),
            tick: first,
        };
        let recurrence = Recurrence::new(first, every, TickRate::new(2));
        let repeat = Repeat {
            payload: self.ledger.payload(id),
            clone: Payload::clone,
            recurrence,
        };
        accepted(self.handle.producer(0).schedule_periodic(repeat), id)
    }

    pub(super) fn cancel(&self, thread: u32, key: Key<Payload>) -> bool {
        self.handle.producer(thread).cancel(key).is_won()
    }
}

pub(super) struct Engine {
    pub(super) owner: Owner<Payload>,
    pub(super) peer: Peer,
    pub(super) bell: Bell,
    limit: Option<Arc<Limit>>,
    /// The payloads that have come out, and the turn's tick of those that fired; the others were returned.
    pub(super) ended: Vec<(u64, Option<u64>)>,
}

/// Explores a shard, perhaps with a limit of pending timers.
pub(super) fn explore_engine<F>(bound: Bound, limit: Option<usize>, scenario: F)
where
    F: Fn(Engine) + Send + Sync + 'static,
{
    explore_as(name_of(&scenario), bound, move || {
        scenario(Engine::new(limit))
    });
}

impl Engine {
    pub(super) fn new(limit: Option<usize>) -> Self {
        let limit = limit.map(|max| Arc::new(Limit::new(max)));
        let bell = Bell::default();
        let rung = bell.clone();
        let wake = move || {
            rung.ring();
            true
        };
        let owner = Owner::new(
            way::new_group(),
            0,
            limit.clone(),
            Box::new(wake),
            &TickRate::new(1_000_000),
        );
        let peer = Peer {
            handle: Arc::clone(&owner.handle),
            ledger: Ledger::of_payloads(),
        };
        Self {
            owner,
            peer,
            bell,
            limit,
            ended: Vec::new(),
        }
    }

    pub(super) fn spawn<R: Send + 'static>(
        &self,
        body: impl FnOnce(&Peer) -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let peer = self.peer.clone();
        spawn(move || body(&peer))
    }

    /// One turn; the tick until which the owner may sleep, 0 if it must go on at once.
    pub(super) fn turn(&mut self, now: u64) -> u64 {
        let Self { owner, ended, .. } = self;
        let turn = owner.turn(now, &Budget::new(), |expiry| {
            assert!(
                expiry.deadline <= now,
                "fired early: {} at {now}",
                expiry.deadline
            );
            ended.push((expiry.payload.id(), Some(now)));
        });
        if turn.more { 0 } else { self.owner.next_tick() }
    }

    /// One turn and, if nothing fired, the attempt to sleep; the tick until which the owner sleeps.
    fn turn_and_sleep(&mut self, now: u64) -> Option<u64> {
        let next = self.turn(now);
        (self.ended.is_empty() && self.owner.begin_sleep(next)).then_some(next)
    }

    /// One turn and the attempt to sleep while another thread is at work; then the turns until all is done.
    pub(super) fn sleep_and_run_out<R>(&mut self, now: u64, other: JoinHandle<R>) -> R {
        let asleep = self.turn_and_sleep(now);
        let answer = other.join().unwrap();
        self.end_sleep(asleep);
        self.run_out(now);
        answer
    }

    /// Everybody is joined: ends a sleep until `until`, which one wake must have ended if it is past tick 5.
    fn end_sleep(&self, until: Option<u64>) {
        if let Some(until) = until {
            assert!(
                until <= 5 || self.bell.rings() == 1,
                "slept through the timer"
            );
            self.owner.end_sleep();
        }
    }

    /// Everybody is joined: turns through all that is left, as a worker would.
    pub(super) fn run_out(&mut self, mut now: u64) {
        for _ in 0..10 {
            let next = self.turn(now);
            if next == NEVER {
                return;
            }
            now = now.max(next);
        }
        panic!("the owner does not come to rest");
    }

    /// Closes the shard: what it returned.
    pub(super) fn close(&mut self) -> usize {
        let before = self.ended.len();
        self.owner
            .end(|expiry| self.ended.push((expiry.payload.id(), None)));
        self.ended.len() - before
    }

    /// Everybody is joined and each timer has ended: nothing is pending, no permit is taken, and nothing was dropped
    /// twice. The payloads that have come out, in order.
    pub(super) fn finish(mut self) -> Vec<u64> {
        assert_eq!(self.peer.handle.pending(), 0, "still counted as pending");
        assert_eq!(self.close(), 0, "returned too late");
        if let Some(limit) = &self.limit {
            let free = (0..=limit.max).filter(|_| limit.acquire()).count();
            assert_eq!(free, limit.max, "permits are free");
        }
        let Self {
            owner,
            peer: Peer { handle, ledger },
            ended,
            ..
        } = self;
        drop((owner, handle));
        ledger.assert_all_dropped();
        let mut ids: Vec<u64> = ended.iter().map(|&(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }
}
