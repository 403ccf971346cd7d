//! One client loop: opens its share of the connections, speaks for them in time, sees their ends.
//!
//! It keeps its own agenda in a plain binary heap, so that the timers it judges have no part in it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use super::activity::Rules;
use super::connection::{Connection, Kind, Shared};
use super::totals::Totals;
use crate::interrupt::Interrupt;
use crate::measure::LiveCount;

/// Connections that all loops together open at a time, and how often. A listener of `mio` queues 128; what
/// the server's loop cannot take from there in time has to be repeated a second later.
const OPENINGS: usize = 64;
const OPEN_EVERY: Duration = Duration::from_millis(16);
/// Connects under way at one time.
const CONNECTING_MOST: usize = 512;
/// Messages sent in one round.
const ROUND: usize = 256;
/// How often the loop looks whether the load has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What the loops are told while they run.
#[derive(Clone, Debug, Default)]
pub(super) struct Signals {
    /// The load is over: open nothing, say nothing, wait until the server has closed everything.
    pub(super) wind_down: Interrupt,
    /// End now.
    pub(super) halt: Interrupt,
}

/// Counts that a loop publishes while it runs.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) opened: LiveCount,
    pub(super) closed: LiveCount,
    /// Bytes of echo.
    pub(super) echoed: LiveCount,
}

/// What a loop works on.
pub(super) struct Task {
    pub(super) number: usize,
    /// Loops that do the same.
    pub(super) loops: usize,
    pub(super) server: SocketAddr,
    pub(super) kinds: Vec<Kind>,
    pub(super) rules: Rules,
    pub(super) seed: u64,
}

struct Slot {
    kind: Kind,
    life: u32,
    connection: Option<Connection>,
}

pub(super) struct Client {
    task: Task,
    signals: Signals,
    live: Arc<Live>,
    poll: Poll,
    slots: Vec<Slot>,
    /// Slots that want a new connection.
    vacant: VecDeque<usize>,
    /// When which connection, by slot and life, speaks next.
    agenda: BinaryHeap<Reverse<(Instant, usize, u32)>>,
    connecting: usize,
    /// When more may be opened.
    next_opening: Instant,
    opened: u64,
    closed: u64,
    /// Begin of the poll before the last one: what happened earlier has been reported by that one.
    looked_before: Instant,
    looked: Instant,
    shared: Shared,
}

impl Client {
    pub(super) fn new(task: Task, signals: Signals, live: Arc<Live>) -> io::Result<Self> {
        let now = Instant::now();
        let slots = task.kinds.iter().map(|&kind| Slot { kind, life: 0, connection: None });
        Ok(Self {
            poll: Poll::new()?,
            slots: slots.collect(),
            vacant: (0..task.kinds.len()).collect(),
            agenda: BinaryHeap::new(),
            connecting: 0,
            next_opening: now,
            opened: 0,
            closed: 0,
            looked_before: now,
            looked: now,
            shared: Shared::new(task.rules, task.seed),
            task,
            signals,
            live,
        })
    }

    /// Runs until everything is closed after the load, or an end is asked for. The connections that are
    /// left stay open until the client is dropped.
    pub(super) fn run(&mut self) -> io::Result<()> {
        // Room for all: `looked_before` relies on it.
        let mut events = Events::with_capacity(self.slots.len().max(1));
        let mut give_up = None;
        while !self.signals.halt.is_raised() {
            let now = Instant::now();
            if self.signals.wind_down.is_raised() {
                let Rules { idle, grace } = self.task.rules;
                let patience = *give_up.get_or_insert_with(|| {
                    self.fall_silent();
                    now + idle + grace + LOOK_EVERY
                });
                if self.opened == self.closed || now >= patience {
                    break;
                }
            } else {
                self.open_some(now)?;
            }
            self.looked_before = std::mem::replace(&mut self.looked, Instant::now());
            match self.poll.poll(&mut events, Some(self.timeout())) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                self.attend(event.token().0)?;
            }
            self.speak()?;
            self.publish();
        }
        Ok(())
    }

    /// Judges what is left.
    pub(super) fn finish(&mut self) -> Totals {
        let now = Instant::now();
        for connection in self.slots.iter().filter_map(|slot| slot.connection.as_ref()) {
            connection.left_open(now, &mut self.shared);
        }
        self.publish();
        std::mem::take(&mut self.shared.totals)
    }

    fn publish(&self) {
        self.live.opened.set(self.opened - self.connecting as u64);
        self.live.closed.set(self.closed);
        self.live.echoed.set(self.shared.totals.echoed());
    }

    fn fall_silent(&mut self) {
        self.vacant.clear();
        self.agenda.clear();
        for slot in &mut self.slots {
            slot.connection.iter_mut().for_each(|connection| connection.talking = false);
        }
    }

    fn timeout(&self) -> Duration {
        let speak = self.agenda.peek().map(|Reverse((at, ..))| *at);
        let more = !self.vacant.is_empty() && self.connecting < CONNECTING_MOST;
        let next = speak.into_iter().chain(more.then_some(self.next_opening)).min();
        next.map_or(LOOK_EVERY, |at| at.saturating_duration_since(Instant::now()).min(LOOK_EVERY))
    }

    fn open_some(&mut self, now: Instant) -> io::Result<()> {
        if now < self.next_opening {
            return Ok(());
        }
        self.next_opening = now + OPEN_EVERY;
        for _ in 0..OPENINGS.div_ceil(self.task.loops) {
            if self.connecting >= CONNECTING_MOST {
                break;
            }
            let Some(slot) = self.vacant.pop_front() else { break };
            let Slot { kind, life, connection } = &mut self.slots[slot];
            *life += 1;
            let name = (self.task.number, slot, *life);
            let opened = connection.insert(Connection::open(self.task.server, *kind, name)?);
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut opened.stream, Token(slot), interest)?;
            self.shared.totals.of_mut(*kind).opened += 1;
            self.opened += 1;
            self.connecting += 1;
        }
        Ok(())
    }

    /// Looks after what an event has reported.
    fn attend(&mut self, slot: usize) -> io::Result<()> {
        // An event may be older than the close that another one has reported.
        let Some(connection) = self.slots[slot].connection.as_mut() else { return Ok(()) };
        if !connection.established {
            if !connection.establish(self.looked_before)? {
                return Ok(());
            }
            self.connecting -= 1;
            if !self.signals.wind_down.is_raised() {
                let first = connection.begin_talk(Instant::now(), &mut self.shared);
                self.agenda.extend(first.map(|at| Reverse((at, slot, connection.life()))));
            }
        }
        let received = connection.receive(&mut self.shared);
        self.conclude(slot, received.is_ok())
    }

    /// Says what is due.
    fn speak(&mut self) -> io::Result<()> {
        for _ in 0..ROUND {
            if self.agenda.peek().is_none_or(|Reverse((at, ..))| *at > Instant::now()) {
                break;
            }
            let Some(Reverse((at, slot, life))) = self.agenda.pop() else { break };
            let Some(connection) = self.slots[slot].connection.as_mut() else { continue };
            if connection.life() != life {
                continue;
            }
            let said = connection.say(at, &mut self.shared);
            if let Ok(Some(next)) = said {
                self.agenda.push(Reverse((next, slot, life)));
            }
            self.conclude(slot, said.is_ok())?;
        }
        Ok(())
    }

    /// Puts a connection that has ended into the totals, and its slot up for another.
    fn conclude(&mut self, slot: usize, is_open: bool) -> io::Result<()> {
        if is_open {
            return Ok(());
        }
        let seen = Instant::now();
        let Some(mut connection) = self.slots[slot].connection.take() else { return Ok(()) };
        connection.closed(seen, &mut self.shared);
        self.poll.registry().deregister(&mut connection.stream)?;
        self.closed += 1;
        if !self.signals.wind_down.is_raised() {
            self.vacant.push_back(slot);
        }
        Ok(())
    }
}
