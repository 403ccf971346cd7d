//! One client loop: opens its share of the connections, speaks for them in time, sees their ends.
//!
//! It keeps its own agenda in a plain binary heap, so that the timers it judges have no part in it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token};

use super::activity::Rules;
use super::connection::{Connection, Name, Shared, Standing};
use super::kind::{self, Kind};
use super::totals::{Live, Totals};
use crate::interrupt::Interrupt;

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

/// What a loop works on.
pub(super) struct Task {
    pub(super) number: usize,
    /// Loops that do the same.
    pub(super) loops: usize,
    pub(super) server: SocketAddr,
    pub(super) sources: Vec<Ipv4Addr>,
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
    rng: fastrand::Rng,
    shared: Shared,
}

impl Client {
    pub(super) fn new(task: Task, signals: Signals, live: Arc<Live>) -> io::Result<Self> {
        let slots = task.kinds.iter().map(|&kind| Slot { kind, life: 0, connection: None });
        Ok(Self {
            poll: Poll::new()?,
            slots: slots.collect(),
            vacant: (0..task.kinds.len()).collect(),
            agenda: BinaryHeap::new(),
            connecting: 0,
            next_opening: Instant::now(),
            opened: 0,
            closed: 0,
            looked_before: Instant::now(),
            looked: Instant::now(),
            rng: fastrand::Rng::with_seed(task.seed),
            shared: Shared::new(task.rules),
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
                    // Floods have two timeouts.
                    now + 2 * idle + grace + LOOK_EVERY
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
                self.on_event(event)?;
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
        self.live.bytes.set(self.shared.bytes);
    }

    /// Ends all talk, except for floods that have begun: only one that is stuck is told of its end.
    fn fall_silent(&mut self) {
        self.vacant.clear();
        let slots = &mut self.slots;
        for connection in slots.iter_mut().filter_map(|slot| slot.connection.as_mut()) {
            connection.talking &= connection.kind == Kind::Flooding;
        }
        self.agenda.retain(|Reverse((_, slot, life))| {
            let connection = slots[*slot].connection.as_ref();
            connection.is_some_and(|one| one.talking && one.life() == *life)
        });
    }

    fn timeout(&self) -> Duration {
        let speak = self.agenda.peek().map(|Reverse((at, ..))| *at);
        let more = !self.vacant.is_empty() && self.connecting < CONNECTING_MOST;
        let open = more.then_some(self.next_opening);
        let next = speak.into_iter().chain(open).min();
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
            self.open(slot)?;
        }
        Ok(())
    }

    fn open(&mut self, slot: usize) -> io::Result<()> {
        let Self { task, slots, poll, .. } = self;
        let source = task.sources.get(slot % task.sources.len().max(1)).copied();
        let Slot { kind, life, connection } = &mut slots[slot];
        *life += 1;
        let name = Name { client: task.number, slot, life: *life };
        let mut opened = Connection::open(task.server, source, *kind, name)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut opened.stream, Token(slot), interest)?;
        *connection = Some(opened);
        self.shared.totals.of_mut(*kind).opened += 1;
        self.opened += 1;
        self.connecting += 1;
        Ok(())
    }

    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let Token(slot) = event.token();
        // An event may be older than the close that another one has reported.
        let Some(connection) = self.slots[slot].connection.as_mut() else { return Ok(()) };
        if !connection.is_established() {
            if !connection.establish(self.looked_before)? {
                return Ok(());
            }
            self.connecting -= 1;
            self.begin(slot);
        }
        let Some(connection) = self.slots[slot].connection.as_mut() else { return Ok(()) };
        let mut standing = connection.attend(event, &mut self.shared);
        let flooding = connection.kind == Kind::Flooding && connection.talking;
        if standing == Standing::Open && flooding && event.is_writable() {
            standing = self.flood(slot);
        }
        self.conclude(slot, standing)
    }

    /// Plans what an established connection will say.
    fn begin(&mut self, slot: usize) {
        let now = Instant::now();
        let idle = self.task.rules.idle;
        let Some(connection) = self.slots[slot].connection.as_mut() else { return };
        connection.begin_talk(now, connection.kind.talks_for(idle, &mut self.rng));
        if connection.kind != Kind::Silent && !self.signals.wind_down.is_raised() {
            let at = now + kind::pause(idle, &mut self.rng);
            // A flood starts when it comes up on the agenda.
            connection.talking = connection.kind != Kind::Flooding;
            self.agenda.push(Reverse((at, slot, connection.life())));
        }
    }

    /// Says what is due.
    fn speak(&mut self) -> io::Result<()> {
        for _ in 0..ROUND {
            match self.agenda.peek() {
                Some(Reverse((at, ..))) if *at <= Instant::now() => {}
                _ => break,
            }
            let Some(Reverse((at, slot, life))) = self.agenda.pop() else { break };
            let Some(connection) = self.slots[slot].connection.as_mut() else { continue };
            if connection.life() != life {
                continue;
            }
            let standing = if connection.kind == Kind::Flooding {
                connection.talking = true;
                self.flood(slot)
            } else if connection.has_talked_enough(at) {
                connection.talking = false;
                Standing::Open
            } else {
                let said = connection.say(kind::message(&mut self.rng), &mut self.shared);
                let next = Instant::now() + kind::pause(self.task.rules.idle, &mut self.rng);
                self.agenda.push(Reverse((next, slot, life)));
                said
            };
            self.conclude(slot, standing)?;
        }
        Ok(())
    }

    fn flood(&mut self, slot: usize) -> Standing {
        let Some(connection) = self.slots[slot].connection.as_mut() else { return Standing::Open };
        let flooded = connection.flood(&mut self.shared);
        flooded.unwrap_or_else(|| {
            self.agenda.push(Reverse((Instant::now(), slot, connection.life())));
            Standing::Open
        })
    }

    /// Puts a connection that has ended into the totals, and its slot up for another.
    fn conclude(&mut self, slot: usize, standing: Standing) -> io::Result<()> {
        if standing == Standing::Open {
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
