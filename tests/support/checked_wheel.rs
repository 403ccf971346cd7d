//! The oracles: a sorted map of queues, with which a wheel is compared at every call, and a hashed wheel, with which it
//! is compared at every tick.
//!
//! Of a wheel with small bursts it checks less of the order: that ticks come in order and so does what comes of each,
//! that nothing is set aside before a burst of its kind has come, and no more than that comes before the rest is.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use tickwheel::__internal::{Entry, Rings};

use crate::hashed_wheel::{HashedKey, HashedWheel};

/// What the wheel should hold, in the plainest form.
#[derive(Default)]
struct Model {
    overdue: VecDeque<Entry>,
    ticks: BTreeMap<u64, VecDeque<Entry>>,
    /// What a wheel with small bursts has set aside.
    backlog: VecDeque<Entry>,
    hand: u64,
    /// All of them.
    held: HashSet<Entry>,
}

/// What has come of a wheel with small bursts.
struct Bursts {
    /// Entries of a burst.
    of: usize,
    /// Overdue entries since the hand has moved, and whether there have been too many since none was left.
    overdue: usize,
    was_full: bool,
    /// In time, by tick, and the last one.
    in_time: HashMap<u64, usize>,
    last: (u64, u32),
}

impl Model {
    fn insert(&mut self, entry: Entry) {
        self.held.insert(entry);
        if entry.deadline <= self.hand {
            self.overdue.push_back(entry);
        } else {
            self.ticks
                .entry(entry.deadline)
                .or_default()
                .push_back(entry);
        }
    }

    fn first_tick(&self) -> Option<u64> {
        self.ticks.keys().next().copied()
    }

    /// The entry that has to come next in an advance to `to`.
    fn pop_due(&mut self, to: u64) -> Option<Entry> {
        let popped = self.overdue.pop_front().or_else(|| {
            let mut first = self
                .ticks
                .first_entry()
                .filter(|first| *first.key() <= to)?;
            let entry = first.get_mut().pop_front();
            if first.get().is_empty() {
                first.remove();
            }
            entry
        });
        popped.inspect(|entry| {
            self.held.remove(entry);
        })
    }

    fn remove(&mut self, entries: &HashSet<Entry>) {
        self.overdue.retain(|entry| !entries.contains(entry));
        self.backlog.retain(|entry| !entries.contains(entry));
        let ticks: HashSet<u64> = entries.iter().map(|entry| entry.deadline).collect();
        for tick in ticks {
            if let Some(queue) = self.ticks.get_mut(&tick) {
                queue.retain(|entry| !entries.contains(entry));
                self.end_tick_if_empty(tick);
            }
        }
        for entry in entries {
            self.held.remove(entry);
        }
    }

    fn end_tick_if_empty(&mut self, tick: u64) {
        if self.ticks.get(&tick).is_some_and(VecDeque::is_empty) {
            self.ticks.remove(&tick);
        }
    }

    fn len(&self) -> usize {
        self.held.len()
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.overdue
            .iter()
            .chain(self.ticks.values().flatten())
            .chain(&self.backlog)
    }

    /// Takes an entry that has come out of a wheel with small bursts: whether it was overdue.
    fn take(&mut self, entry: &Entry) -> bool {
        self.held.remove(entry);
        let place = self.overdue.iter().position(|other| other == entry);
        if let Some(place) = place {
            self.overdue.remove(place);
            return true;
        }
        let queue = self
            .ticks
            .get_mut(&entry.deadline)
            .expect("it has not come yet");
        let place = queue
            .iter()
            .position(|other| other == entry)
            .expect("it has not come yet");
        queue.remove(place);
        self.end_tick_if_empty(entry.deadline);
        false
    }
}

/// Entries at which the hashed wheel looks at once: it stops at each tick, and looks at all of a bucket.
const MOST_LOOKS: u64 = 16 * 1024;

/// The second oracle. It does not have the overdue, which it would let wait for the next tick.
struct Hashed {
    wheel: HashedWheel<Entry>,
    keys: HashMap<u32, HashedKey>,
    /// What has come of the other wheel since the two were compared.
    came: Vec<Entry>,
}

impl Hashed {
    fn new(buckets: usize, hand: u64) -> Self {
        Self {
            wheel: HashedWheel::new(buckets, hand),
            keys: HashMap::new(),
            came: Vec::new(),
        }
    }

    fn schedule(&mut self, entry: Entry) {
        let key = self.wheel.schedule(entry.deadline, entry);
        self.keys.insert(entry.index, key);
    }

    fn cancel(&mut self, entry: &Entry) {
        if let Some(key) = self.keys.remove(&entry.index) {
            assert_eq!(self.wheel.cancel(key), Some(*entry));
        }
    }

    fn came(&mut self, entry: Entry) {
        if self.keys.remove(&entry.index).is_some() {
            self.came.push(entry);
        }
    }

    /// Goes to the other wheel's hand, up to which everything has come, and perhaps a part of the next tick. Where that
    /// wheel has set entries aside, they have come out of order.
    fn compare(&mut self, hand: u64, in_order: bool) {
        let mut due = Vec::new();
        while self.wheel.hand() < hand {
            self.wheel.advance(&mut due);
        }
        let came = std::mem::take(&mut self.came).into_iter();
        let (mut came, begun): (Vec<_>, _) = came.partition(|entry| entry.deadline <= hand);
        self.came = begun;
        if in_order {
            came.sort_by_key(|entry| entry.deadline);
        } else {
            came.sort_by_key(|entry| (entry.deadline, entry.index));
        }
        assert_eq!(came, due, "what has come by {hand}");
    }
}

/// Asks for each entry of a sweep whether it is dead.
pub(crate) fn each(mut is_dead: impl FnMut(Entry) -> bool) -> impl FnMut(&[Entry]) -> u64 {
    move |entries| {
        let bits = entries.iter().enumerate();
        bits.fold(0, |mask, (bit, entry)| {
            mask | u64::from(is_dead(*entry)) << bit
        })
    }
}

/// A wheel whose every answer is compared with the map's.
pub(crate) struct CheckedWheel {
    wheel: Rings,
    model: Model,
    buckets: usize,
    /// Beginning where the wheel is empty, until time makes a long jump.
    hashed: Option<Hashed>,
    next_index: u32,
    dead: HashSet<u32>,
    /// A sweep removed entries of a bucket that it has perhaps not finished.
    min_may_be_stale: bool,
    /// The last advance ran out of budget on its way to this tick.
    unfinished: Option<u64>,
    bursts: Option<Bursts>,
}

impl CheckedWheel {
    /// A wheel, perhaps with bursts of so many entries, and a hashed one of `buckets`.
    pub(crate) fn new(bursts: Option<usize>, buckets: usize) -> Self {
        let wheel = Rings::new();
        let wheel = match bursts {
            Some(of) => wheel.with_bursts_of(of),
            None => wheel,
        };
        Self {
            wheel,
            model: Model::default(),
            buckets,
            hashed: None,
            next_index: 0,
            dead: HashSet::new(),
            min_may_be_stale: false,
            unfinished: None,
            bursts: bursts.map(|of| Bursts {
                of,
                overdue: 0,
                was_full: false,
                in_time: HashMap::new(),
                last: (0, 0),
            }),
        }
    }

    pub(crate) fn hand(&self) -> u64 {
        self.model.hand
    }

    pub(crate) fn first_tick(&self) -> Option<u64> {
        self.model.first_tick()
    }

    pub(crate) fn insert(&mut self, deadline: u64) -> Entry {
        let index = self.next_index;
        self.next_index += 1;
        let entry = Entry {
            deadline,
            index,
            mark: !index,
        };
        if self.model.len() == 0 {
            self.hashed = Some(Hashed::new(self.buckets, self.hand()));
        }
        if let Some(hashed) = self.hashed.as_mut().filter(|_| deadline > self.model.hand) {
            hashed.schedule(entry);
        }
        self.wheel.insert(entry);
        self.model.insert(entry);
        self.check();
        entry
    }

    /// Calls one entry dead, chosen by `pick`; only a sweep acts on it.
    pub(crate) fn cancel(&mut self, pick: usize) {
        let index = self
            .model
            .all()
            .nth(pick % self.model.len().max(1))
            .map(|entry| entry.index);
        self.dead.extend(index);
    }

    /// Calls every other entry dead.
    pub(crate) fn cancel_every_other(&mut self) {
        let indexes = self.model.all().step_by(2).map(|entry| entry.index);
        self.dead.extend(indexes);
    }

    /// Entries called dead that are still filed.
    pub(crate) fn zombies(&self) -> usize {
        self.model
            .held
            .iter()
            .filter(|entry| self.dead.contains(&entry.index))
            .count()
    }

    /// One call of `advance`; says whether more is due.
    pub(crate) fn advance(&mut self, to: u64, budget: usize) -> bool {
        let old_hand = self.model.hand;
        let mut due = Vec::new();
        let next = self.wheel.advance(to, budget, &mut due);
        if !self.wheel.has_backlog() {
            let earliest = self.wheel.earliest().unwrap_or(u64::MAX);
            assert!(next.is_none_or(|next| next == earliest), "{next:?}");
        }
        let more = next.is_none();
        assert!(
            due.len() <= budget,
            "{} entries for a budget of {budget}",
            due.len()
        );
        for entry in &due {
            if self.bursts.is_some() {
                self.came(*entry, to.max(old_hand));
            } else {
                let expected = self.model.pop_due(to);
                assert_eq!(Some(*entry), expected, "order on the way to {to}");
            }
            self.hashed
                .iter_mut()
                .for_each(|hashed| hashed.came(*entry));
        }
        let hand = self.wheel.hand();
        self.find_backlog(hand, more);
        if more {
            let overdue = !self.model.overdue.is_empty();
            let due_tick = self.model.first_tick().filter(|&tick| tick <= to);
            assert!(
                overdue || due_tick.is_some() || self.min_may_be_stale,
                "more, but nothing is due at {to}"
            );
            assert!(hand <= to.max(old_hand), "hand {hand} past {to}");
            assert!(
                due_tick.is_none_or(|tick| hand < tick),
                "hand {hand} on an open tick"
            );
        } else {
            assert_eq!(self.model.pop_due(to), None, "due at {to}, not yielded");
            assert_eq!(
                hand,
                to.max(old_hand),
                "the hand after everything is yielded"
            );
        }
        assert!(hand >= old_hand, "the hand went back");
        self.model.hand = hand;
        // A call with an earlier tick leaves an advance unfinished that one with a later tick began.
        self.unfinished = match self.unfinished {
            Some(further) if further > to => Some(further),
            _ => more.then_some(to),
        };
        self.check();
        if !more {
            self.compare();
        }
        more
    }

    /// An entry has come of a wheel with small bursts.
    fn came(&mut self, entry: Entry, by: u64) {
        let Some(bursts) = &mut self.bursts else {
            return;
        };
        assert!(entry.deadline <= by, "{entry:?} is early at {by}");
        if self.model.take(&entry) {
            bursts.overdue += 1;
            bursts.was_full |= bursts.overdue >= bursts.of;
            assert!(
                bursts.overdue <= bursts.of,
                "too many overdue ones in a row"
            );
            return;
        }
        let of_tick = bursts.in_time.entry(entry.deadline).or_default();
        *of_tick += 1;
        // Settled and recent ones.
        assert!(*of_tick <= 2 * bursts.of, "too many of a tick in a row");
        let this = (entry.deadline, entry.index);
        assert!(bursts.last < this, "{this:?} comes after {:?}", bursts.last);
        bursts.last = this;
    }

    /// What an advance of a wheel with small bursts has passed over was set aside, because there was a burst.
    fn find_backlog(&mut self, hand: u64, more: bool) {
        let Some(bursts) = &mut self.bursts else {
            return;
        };
        let Model {
            ticks,
            backlog,
            overdue,
            hand: old_hand,
            ..
        } = &mut self.model;
        while let Some(first) = ticks.first_entry().filter(|first| *first.key() <= hand) {
            let came = bursts.in_time.get(first.key()).copied().unwrap_or(0);
            assert!(came >= bursts.of, "set aside after {came} of the tick");
            backlog.extend(first.remove());
        }
        if !more {
            assert!(overdue.is_empty() || bursts.was_full, "set aside too soon");
            backlog.extend(overdue.drain(..));
        }
        if hand != *old_hand {
            bursts.overdue = 0;
        }
        if !more {
            bursts.was_full = bursts.overdue == bursts.of;
        }
    }

    /// Takes from the backlog, if there is one.
    pub(crate) fn take_backlog(&mut self, limit: usize) {
        let mut due = Vec::new();
        self.wheel.take_backlog(limit, &mut due);
        assert!(due.len() <= limit && (due.len() == limit || !self.wheel.has_backlog()));
        for entry in due {
            let place = self.model.backlog.iter().position(|other| *other == entry);
            if let Some(place) = place {
                self.model.backlog.remove(place);
                self.model.held.remove(&entry);
            } else {
                // Set aside by an advance that is not finished.
                self.model.take(&entry);
            }
            self.hashed.iter_mut().for_each(|hashed| hashed.came(entry));
        }
        self.check();
    }

    /// Compares with the hashed wheel after everything due has come, unless some was set aside.
    fn compare(&mut self) {
        let hand = self.hand();
        if self.wheel.has_backlog() {
            return;
        }
        let Some(hashed) = &mut self.hashed else {
            return;
        };
        let in_a_bucket = 1 + (hashed.keys.len() / self.buckets) as u64;
        if (hand - hashed.wheel.hand()).saturating_mul(in_a_bucket) > MOST_LOOKS {
            self.hashed = None;
        } else {
            hashed.compare(hand, self.bursts.is_none());
        }
    }

    /// Advances with the same budget until nothing is left; every call has to make headway.
    pub(crate) fn advance_fully(&mut self, to: u64, budget: usize) {
        let most = 1000 + self.model.len() * 12;
        let calls = (0..most).take_while(|_| self.advance(to, budget)).count();
        assert!(calls < most, "{most} calls were not enough");
        while self.wheel.has_backlog() {
            self.take_backlog(budget);
        }
        assert!(self.model.backlog.is_empty(), "all of the backlog comes");
        self.compare();
    }

    /// One call of `sweep`; says whether it ended a cycle.
    pub(crate) fn sweep(&mut self, budget: usize) -> bool {
        let dead = &self.dead;
        let mut examined = Vec::new();
        let mut is_dead = each(|entry| {
            examined.push(entry);
            dead.contains(&entry.index)
        });
        let report = self.wheel.sweep(budget, &mut is_dead);
        drop(is_dead);
        let distinct: HashSet<Entry> = examined.iter().copied().collect();
        assert!(
            distinct.is_subset(&self.model.held),
            "the sweep saw an entry that is not there"
        );
        assert_eq!(report.examined, examined.len());
        assert!(report.examined <= budget + 64, "{report:?} for {budget}");
        let gone: HashSet<Entry> = distinct
            .into_iter()
            .filter(|entry| self.dead.contains(&entry.index))
            .collect();
        assert_eq!(report.removed, gone.len());
        if let Some(hashed) = &mut self.hashed {
            gone.iter().for_each(|entry| hashed.cancel(entry));
        }
        self.model.remove(&gone);
        self.min_may_be_stale |= !gone.is_empty();
        self.check();
        report.cycle_done
    }

    /// Two ends of a cycle in a row: nothing dead may be left.
    pub(crate) fn sweep_cycle(&mut self, budget: usize) {
        for _ in 0..2 {
            let most = 100 + self.model.len();
            let calls = (0..most).take_while(|_| !self.sweep(budget)).count();
            assert!(calls < most || self.unfinished.is_some(), "endless sweep");
        }
        if self.unfinished.is_none() {
            assert_eq!(self.zombies(), 0, "dead entries after a whole cycle");
            self.min_may_be_stale = false;
            self.check();
        }
    }

    pub(crate) fn drain(&mut self) {
        let mut drained = Vec::new();
        self.wheel.drain_all(&mut |entry| drained.push(entry));
        assert_eq!(drained.len(), self.model.len(), "drained");
        let drained: HashSet<Entry> = drained.into_iter().collect();
        assert_eq!(drained, self.model.held, "drained");
        self.model = Model {
            hand: self.model.hand,
            ..Model::default()
        };
        assert!(!self.wheel.has_backlog(), "drained");
        self.hashed = None;
        self.unfinished = None;
        self.min_may_be_stale = false;
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.wheel.len(), self.model.len(), "len");
        assert_eq!(self.wheel.is_empty(), self.model.len() == 0, "is_empty");
        assert_eq!(self.wheel.hand(), self.model.hand, "hand");
        let next = self.wheel.earliest();
        let expected = self.model.first_tick();
        if !self.model.overdue.is_empty() || !self.model.backlog.is_empty() {
            assert!(
                next.is_some_and(|next| next <= self.model.hand),
                "overdue not shown"
            );
        } else if self.min_may_be_stale || self.unfinished.is_some() {
            let bound = expected.is_none_or(|earliest| next.is_some_and(|next| next <= earliest));
            assert!(bound, "next deadline {next:?}, but {expected:?} is filed");
        } else {
            assert_eq!(next, expected, "next deadline");
        }
    }
}
