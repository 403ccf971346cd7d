//! The model: a list of timers with the tick that each is due at, and what every call must answer.

use super::choices::Act;
use super::ledger::{Ledger, Payload};
use super::ticks::{NEVER, Rhythm, Ticks, later};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tickwheel::{
    Cancel, Expired, Key, Reschedule, ScheduleError, ScheduleErrorKind, Time, Unfired, When,
};

/// How a timer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Pending,
    Fired,
    Cancelled,
    Returned,
}

/// One accepted timer.
pub(crate) struct Record {
    pub(crate) key: Key<Payload>,
    /// The tick at which it fires.
    pub(crate) due: u64,
    pub(crate) state: State,
    /// Fires in the order of deadlines and calls among those with the same queue.
    queue: Option<usize>,
    /// The number of the call that has given it its deadline.
    call: u64,
    /// What a periodic timer goes on with.
    pub(crate) repeat: Option<Repeat>,
}

/// A periodic timer's exact next deadline, and how it goes on from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeat {
    pub(crate) nominal: Time,
    pub(crate) length: Duration,
    pub(crate) rhythm: Rhythm,
}

/// When a timer is to fire.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    After(Duration),
    At(Time),
}

impl Goal {
    pub(crate) fn when(self) -> When {
        match self {
            Self::After(delay) => delay.into(),
            Self::At(deadline) => deadline.into(),
        }
    }

    /// The time that the call is told, if it is: points are given at the beginning of time.
    pub(crate) fn told(self, now: Time) -> Time {
        if matches!(self, Self::After(_)) {
            now
        } else {
            Time::ZERO
        }
    }
}

/// What is under test: calls are passed on, answers are compared by the book.
pub(crate) trait Subject {
    /// The ways in.
    type By: Copy;

    /// The time that a call through `by` counts delays from.
    fn now(&self, by: Self::By) -> Time;

    /// The time by which a point in time that is given through `by` may have passed.
    fn present(&self, by: Self::By) -> Time;

    /// The tick at which a timer fires that is set through `by`.
    fn due(&self, by: Self::By, goal: Goal, ticks: Ticks) -> u64 {
        match goal {
            Goal::After(delay) => ticks.deadline(self.now(by), delay),
            Goal::At(deadline) => ticks.point(deadline, self.present(by)),
        }
    }

    fn schedule(&mut self, by: Self::By, goal: Goal, payload: Payload) -> Armed;

    fn cancel(&mut self, by: Self::By, id: u64, key: Key<Payload>) -> Cancel<Payload>;

    fn reschedule(&mut self, by: Self::By, id: u64, key: Key<Payload>, goal: Goal) -> Reschedule;

    fn is_pending(&mut self, by: Self::By, id: u64, key: Key<Payload>) -> bool;

    /// Timers that came through `by` and were due in the future fire in the order of deadlines and calls among
    /// those with the same number; `None` if their order is not promised.
    fn queue(&self, by: Self::By, key: Key<Payload>) -> Option<usize>;
}

pub(crate) type Armed = Result<Key<Payload>, ScheduleError<Payload>>;

/// What an operation has done to the model.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Nothing,
    Armed {
        due: u64,
    },
    /// The timer has moved between these ticks.
    Moved {
        from: u64,
        to: u64,
    },
}

/// See the module.
pub(crate) struct Book {
    pub(crate) ticks: Ticks,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) records: Vec<Record>,
    /// Every name that was ever given.
    keys: HashSet<Key<Payload>>,
    /// Records of periodic timers.
    periodic: usize,
    calls: u64,
    /// All timers fire in the order of the calls that gave them their deadlines, overdue and moved ones too.
    pub(crate) is_queue: bool,
    /// `max_pending`.
    limit: Option<usize>,
    pub(crate) stopped: bool,
    /// The pending timers, by the tick at which they fire.
    pending: BTreeSet<(u64, u64)>,
    /// The latest tick that a turn has been made for.
    pub(crate) latest: u64,
    /// A timer has been cancelled or moved: wake-ups may be earlier than deadlines.
    pub(crate) has_zombies: bool,
    in_turn: bool,
    /// Timers that handlers of this turn have scheduled.
    born: BTreeSet<u64>,
    /// Timers that handlers of this turn have scheduled or moved.
    touched: BTreeSet<u64>,
    /// Deadline and call of the last timer of each queue.
    fired_last: [Option<(u64, u64)>; 4],
    fired_in_turn: usize,
}

impl Book {
    pub(crate) fn new(ticks: Ticks, limit: Option<usize>) -> Self {
        Self {
            ticks,
            ledger: Ledger::of_payloads(),
            records: Vec::new(),
            keys: HashSet::new(),
            periodic: 0,
            calls: 0,
            is_queue: false,
            limit,
            stopped: false,
            pending: BTreeSet::new(),
            latest: 0,
            has_zombies: false,
            in_turn: false,
            born: BTreeSet::new(),
            touched: BTreeSet::new(),
            fired_last: [None; 4],
            fired_in_turn: 0,
        }
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The pending timers, in the order of their deadlines.
    pub(crate) fn all_pending(&self) -> impl Iterator<Item = (u64, &Record)> {
        self.pending.iter().map(|&(_, id)| (id, self.record(id)))
    }

    pub(crate) fn has_periodic(&self) -> bool {
        self.periodic > 0 && self.all_pending().any(|(_, it)| it.repeat.is_some())
    }

    /// When the earliest timer is due, of those that ever are.
    pub(crate) fn first(&self) -> Option<Time> {
        let (first, _) = *self.pending.first()?;
        Some(self.ticks.start(first)).filter(|first| *first < Time::MAX)
    }

    /// A timer that fires once, pending or not; small numbers are recent ones.
    pub(crate) fn pick(&self, pick: u8) -> Option<u64> {
        let back = usize::from(pick).checked_rem(self.records.len() - self.periodic)?;
        let once = self
            .records
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, it)| it.repeat.is_none());
        once.map(|(id, _)| id as u64).nth(back)
    }

    /// A pending periodic timer.
    pub(crate) fn pick_periodic(&self, pick: u8) -> Option<u64> {
        let periodic = self
            .all_pending()
            .filter(|(_, record)| record.repeat.is_some());
        let mut periodic: Vec<u64> = periodic.map(|(id, _)| id).collect();
        periodic.sort_unstable();
        let place = usize::from(pick).checked_rem(periodic.len())?;
        Some(periodic[place])
    }

    pub(crate) fn record(&self, id: u64) -> &Record {
        &self.records[id as usize]
    }

    /// Does `act` to the subject and compares the answer.
    pub(crate) fn act<S: Subject>(&mut self, subject: &mut S, act: Act<S::By>) -> Effect {
        match act {
            Act::Schedule { by, delay } => {
                self.schedule(subject, by, Goal::After(delay.duration(self.ticks)))
            }
            Act::ScheduleAt { by, back, offset } => {
                let deadline = offset.from(subject.now(by), back, self.ticks);
                self.schedule(subject, by, Goal::At(deadline))
            }
            Act::Cancel { by, pick } => {
                let Some(id) = self.pick(pick) else {
                    return Effect::Nothing;
                };
                self.cancel(subject, by, id);
                Effect::Nothing
            }
            Act::Reschedule { by, pick, delay } => {
                let Some(id) = self.pick(pick) else {
                    return Effect::Nothing;
                };
                self.reschedule(subject, by, id, Goal::After(delay.duration(self.ticks)))
            }
            Act::RescheduleAt {
                by,
                pick,
                back,
                offset,
            } => {
                let Some(id) = self.pick(pick) else {
                    return Effect::Nothing;
                };
                let deadline = offset.from(subject.now(by), back, self.ticks);
                self.reschedule(subject, by, id, Goal::At(deadline))
            }
            Act::Ask { by, pick } => {
                if let Some(id) = self.pick(pick) {
                    let Record { key, state, .. } = *self.record(id);
                    assert_eq!(
                        subject.is_pending(by, id, key),
                        state == State::Pending,
                        "timer {id}"
                    );
                }
                Effect::Nothing
            }
        }
    }

    fn schedule<S: Subject>(&mut self, subject: &mut S, by: S::By, goal: Goal) -> Effect {
        let due = subject.due(by, goal, self.ticks);
        let id = self.records.len() as u64;
        match subject.schedule(by, goal, self.ledger.payload(id)) {
            Ok(key) => {
                self.accepted(subject.queue(by, key), due, key, None);
                Effect::Armed { due }
            }
            Err(error) => {
                self.refused(id, &error);
                Effect::Nothing
            }
        }
    }

    pub(crate) fn accepted(
        &mut self,
        queue: Option<usize>,
        due: u64,
        key: Key<Payload>,
        repeat: Option<Repeat>,
    ) {
        let id = self.records.len() as u64;
        assert!(!self.stopped, "timer {id} was accepted after the end");
        assert!(
            self.limit.is_none_or(|limit| self.pending() < limit),
            "above the limit"
        );
        assert!(self.keys.insert(key), "{key:?} has named a timer before");
        let queue = queue.filter(|_| due > self.latest || self.is_queue);
        self.periodic += usize::from(repeat.is_some());
        let (state, call) = (State::Pending, self.calls);
        self.records.push(Record {
            key,
            due,
            state,
            queue,
            call,
            repeat,
        });
        self.calls += 1;
        self.pending.insert((due, id));
        if self.in_turn {
            self.born.insert(id);
            self.touched.insert(id);
        }
    }

    pub(crate) fn refused(&self, id: u64, error: &ScheduleError<Payload>) {
        assert_eq!(error.payload().id(), id, "the payload comes back");
        self.refused_for(id, error.kind(), self.pending());
    }

    /// Timer `id` was refused while so many were pending.
    fn refused_for(&self, id: u64, kind: &ScheduleErrorKind, present: usize) {
        match *kind {
            ScheduleErrorKind::Stopped => assert!(self.stopped, "refused as stopped"),
            ScheduleErrorKind::TooManyPending {
                pending,
                max_pending,
            } => {
                assert_eq!((Some(max_pending), pending), (self.limit, present));
                assert_eq!(pending, max_pending, "refused below the limit");
            }
            ref other => panic!("timer {id} was refused: {other}"),
        }
    }

    /// Cancels timer `id`, pending or not.
    pub(crate) fn cancel<S: Subject>(&mut self, subject: &mut S, by: S::By, id: u64) {
        let Record { key, state, .. } = *self.record(id);
        let cancelled = subject.cancel(by, id, key).into_payload();
        let won = (state == State::Pending).then_some(id);
        assert_eq!(
            cancelled.as_ref().map(|payload| payload.id()),
            won,
            "cancel of timer {id}"
        );
        if cancelled.is_some() {
            self.end(id, State::Cancelled);
            self.has_zombies = true;
        }
    }

    pub(crate) fn reschedule<S: Subject>(
        &mut self,
        subject: &mut S,
        by: S::By,
        id: u64,
        goal: Goal,
    ) -> Effect {
        let (to, now) = (subject.due(by, goal, self.ticks), subject.now(by));
        let record = &mut self.records[id as usize];
        let pending = record.state == State::Pending;
        let moved = subject.reschedule(by, id, record.key, goal);
        assert_eq!(moved.is_moved(), pending, "reschedule of timer {id}");
        if !pending {
            return Effect::Nothing;
        }
        let from = record.due;
        if let Some(repeat) = &mut record.repeat {
            repeat.nominal = match goal {
                Goal::After(delay) => later(now, delay),
                Goal::At(deadline) => deadline,
            };
        }
        record.call = self.calls;
        self.calls += 1;
        record.queue = record.queue.filter(|_| self.is_queue);
        self.set_due(id, to);
        self.has_zombies = true;
        if self.in_turn {
            self.touched.insert(id);
        }
        Effect::Moved { from, to }
    }

    /// Pending timer `id` fires at another tick.
    pub(crate) fn set_due(&mut self, id: u64, due: u64) {
        let record = &mut self.records[id as usize];
        assert!(self.pending.remove(&(record.due, id)), "it is pending");
        record.due = due;
        self.pending.insert((due, id));
    }

    /// Timer `id` has ended.
    pub(crate) fn end(&mut self, id: u64, state: State) {
        let record = &mut self.records[id as usize];
        record.state = state;
        assert!(self.pending.remove(&(record.due, id)), "it was pending");
    }

    /// A turn at `now` begins.
    pub(crate) fn begin_turn(&mut self, now: Time) {
        self.latest = self.latest.max(self.ticks.current(now));
        self.in_turn = true;
        self.born.clear();
        self.touched.clear();
        self.fired_in_turn = 0;
    }

    /// A timer has fired at `now`; `defers`: those that handlers schedule wait for the next turn.
    pub(crate) fn fired(&mut self, expired: &Expired<Payload>, now: Time, defers: bool) {
        let id = expired.payload.id();
        let (start, latest) = (self.ticks.start(self.record(id).due), self.latest);
        let record = &mut self.records[id as usize];
        assert_eq!(record.state, State::Pending, "timer {id} has ended before");
        let is_due = record.due <= latest && record.due != NEVER;
        assert!(
            is_due,
            "timer {id} is early: due {}, now {latest}",
            record.due
        );
        assert_eq!(
            (expired.key, expired.deadline),
            (record.key, start),
            "timer {id}"
        );
        assert_eq!(
            expired.lateness,
            now.saturating_duration_since(start),
            "timer {id}"
        );
        let fresh = if self.is_queue {
            &self.touched
        } else {
            &self.born
        };
        assert!(
            !defers || !fresh.contains(&id),
            "timer {id} fires in the turn it was made in"
        );
        if let Some(queue) = record.queue {
            let (last, this) = (&mut self.fired_last[queue], (record.due, record.call));
            assert!(
                last.is_none_or(|last| last < this),
                "{this:?} fires after {last:?}"
            );
            *last = Some(this);
        }
        self.fired_in_turn += 1;
        match &mut record.repeat {
            None => self.end(id, State::Fired),
            Some(repeat) => {
                repeat.nominal = repeat.rhythm.next(repeat.length, repeat.nominal, now);
                let due = self.ticks.at(repeat.nominal);
                self.set_due(id, due);
            }
        }
    }

    pub(crate) fn fired_in_turn(&self) -> usize {
        self.fired_in_turn
    }

    /// The turn is over; unless more was left, everything due has fired, except what handlers have touched.
    pub(crate) fn end_turn(&mut self, fired: usize, more: bool) {
        self.in_turn = false;
        assert_eq!(fired, self.fired_in_turn, "the number of fired timers");
        if !more {
            let left = self
                .all_pending()
                .take_while(|(_, record)| record.due <= self.latest && record.due != NEVER)
                .find(|(id, _)| !self.touched.contains(id));
            assert!(
                left.is_none(),
                "timer {:?} is due and has not fired",
                left.map(|(id, _)| id)
            );
        }
    }

    /// These were taken out: they must have been pending.
    pub(crate) fn returned(&mut self, unfired: Vec<Unfired<Payload>>) {
        for unfired in unfired {
            let id = unfired.payload.id();
            let Record {
                key, due, state, ..
            } = *self.record(id);
            assert_eq!(
                state,
                State::Pending,
                "timer {id} is returned after its end"
            );
            assert_eq!(
                (unfired.key, unfired.deadline),
                (key, self.ticks.start(due)),
                "timer {id}"
            );
            self.end(id, State::Returned);
        }
    }

    /// Everything is over: what was pending went with its timer.
    pub(crate) fn return_the_rest(&mut self) {
        let left: Vec<u64> = self.all_pending().map(|(id, _)| id).collect();
        left.into_iter()
            .for_each(|id| self.end(id, State::Returned));
    }

    /// Timers in each state.
    pub(crate) fn count(&self, state: State) -> u64 {
        self.records
            .iter()
            .filter(|record| record.state == state)
            .count() as u64
    }
}
