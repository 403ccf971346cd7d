//! The clients: one loop that opens all connections, speaks for them in time, sees their ends.
//!
//! It keeps its own agenda in a plain binary heap, so that the timers it judges have no part in it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::activity::{Activity, Judgement};
use super::host::Server;
use crate::findings::{Breach, Findings};
use crate::interrupt::Interrupt;
use crate::measure::{Meter, histogram, nanos};
use crate::numbers::{self, bytes, count};
use crate::options::ServerOptions;
use crate::progress::Progress;

/// Connections opened that the server has not yet accepted: half of what a listener queues. A connect that finds the
/// queue full is only repeated after a second.
const OPENINGS: u64 = 64;
/// Messages sent in one round.
const ROUND: usize = 256;
/// How often the loop looks whether the load has ended, and whether more can be opened.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const OPEN_EVERY: Duration = Duration::from_millis(1);
/// Bounds of a pause between two messages, as parts of the idle timeout. The rest of it is the room for the
/// scheduler of a busy machine.
const PAUSE: (f64, f64) = (0.1, 0.6);
/// Bounds of the time for which a client talks that falls silent.
const TALK: (f64, f64) = (0.3, 2.0);
/// The longest message.
const MESSAGE_MOST: usize = 4096;

/// What the clients have counted and found.
pub(super) struct Totals {
    pub(super) opened: u64,
    /// Closed by the server, whenever that was.
    pub(super) closed: u64,
    /// Of those, closes that could not be judged because this program was late itself.
    pub(super) excused: u64,
    /// Bytes sent.
    pub(super) sent: u64,
    /// Bytes of echo received.
    pub(super) echoed: u64,
    /// Of the closes in time, in nanoseconds.
    pub(super) lateness: Histogram<u64>,
    pub(super) findings: Findings,
}

impl Default for Totals {
    fn default() -> Self {
        let (opened, closed, excused, sent, echoed, findings) = Default::default();
        Self {
            opened,
            closed,
            excused,
            sent,
            echoed,
            lateness: histogram(),
            findings,
        }
    }
}

impl Totals {
    /// Connections that are open; at the end all forgotten, unless the run ended early.
    pub(super) fn open(&self) -> u64 {
        self.opened - self.closed
    }

    /// Enters how the connection of this name was closed.
    pub(super) fn enter(&mut self, judgement: Judgement, grace: Duration, name: &str) {
        self.closed += 1;
        match judgement {
            Judgement::Excused => self.excused += 1,
            Judgement::InTime(late) if late > grace => self.forgotten(late, name),
            Judgement::InTime(late) => self.lateness.saturating_record(nanos(late)),
            Judgement::Early(by) => {
                let by = numbers::nanos(nanos(by));
                let text = format!("{name}: closed {by} before it had been idle long enough");
                self.findings.add(Breach::Early, text);
            }
        }
    }

    pub(super) fn forgotten(&mut self, late: Duration, name: &str) {
        let text = format!("{name}: {} late", numbers::nanos(nanos(late)));
        self.findings.add(Breach::Forgotten, text);
    }
}

pub(super) struct Clients<'a> {
    pub(super) totals: Totals,
    server: &'a Server,
    options: &'a ServerOptions,
    poll: Poll,
    slots: Vec<Option<Connection>>,
    /// Slots that want a new connection.
    vacant: VecDeque<usize>,
    /// When which connection, by slot and number, speaks next.
    agenda: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    /// The load is over: open nothing, say nothing, wait until the server has closed everything.
    is_silent: bool,
    rng: fastrand::Rng,
    scratch: Box<[u8]>,
}

impl<'a> Clients<'a> {
    pub(super) fn new(server: &'a Server, options: &'a ServerOptions) -> io::Result<Self> {
        Ok(Self {
            totals: Totals::default(),
            server,
            options,
            poll: Poll::new()?,
            slots: (0..options.connections).map(|_| None).collect(),
            vacant: (0..options.connections).collect(),
            agenda: BinaryHeap::new(),
            is_silent: false,
            rng: fastrand::Rng::new(),
            scratch: vec![0; 4 * MESSAGE_MOST].into_boxed_slice(),
        })
    }

    /// Runs until everything is closed after the load, or an early end is asked for.
    pub(super) fn run(
        &mut self,
        meter: &mut Meter,
        interrupt: &Interrupt,
        progress: &mut Progress,
    ) -> io::Result<()> {
        let mut events = Events::with_capacity(self.slots.len());
        // The end of the load, which counts from when every connection had been opened once; then that of patience.
        let mut end = None;
        while !interrupt.is_raised() {
            let now = Instant::now();
            let is_past = end.is_some_and(|end| now >= end);
            if self.is_silent && (is_past || self.totals.open() == 0) {
                break;
            } else if is_past && !self.is_silent {
                self.fall_silent();
                end = Some(now + self.options.idle_timeout + self.options.grace + LOOK_EVERY);
            } else if !self.is_silent {
                self.open_some()?;
                if self.totals.opened >= self.slots.len() as u64 {
                    end = end.or(Some(now + self.options.duration));
                }
            }
            match self.poll.poll(&mut events, Some(self.timeout())) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                self.receive(event.token().0)?;
            }
            self.speak()?;
            if meter.is_due(meter.elapsed_s()) {
                self.tell(meter, progress);
            }
        }
        let Totals {
            opened,
            closed,
            echoed,
            ..
        } = self.totals;
        meter.stop(meter.elapsed_s(), [opened, closed, echoed]);
        let now = Instant::now();
        for connection in self.slots.iter().flatten() {
            let late = connection.activity.lateness(now);
            if late > self.options.grace {
                let name = format!("connection {}, still open", connection.number);
                self.totals.forgotten(late, &name);
            }
        }
        Ok(())
    }

    fn tell(&self, meter: &mut Meter, progress: &mut Progress) {
        let Totals {
            opened,
            closed,
            echoed,
            ..
        } = self.totals;
        let (open, at) = (self.totals.open(), meter.elapsed_s());
        meter.take(at, [opened, closed, echoed]);
        progress.at((at * 1000.0) as u64, || {
            let phase = if self.is_silent { "all silent" } else { "load" };
            let (open, closed, echo) = (count(open), count(closed), bytes(echoed));
            format!("{at:.1} s {phase}  {open} open  {closed} closed  {echo} of echo")
        });
    }

    fn fall_silent(&mut self) {
        self.is_silent = true;
        self.vacant.clear();
        self.agenda.clear();
        self.slots
            .iter_mut()
            .flatten()
            .for_each(|connection| connection.talking = false);
    }

    fn timeout(&self) -> Duration {
        let look = if self.vacant.is_empty() {
            LOOK_EVERY
        } else {
            OPEN_EVERY
        };
        self.agenda.peek().map_or(look, |Reverse((at, ..))| {
            at.saturating_duration_since(Instant::now()).min(look)
        })
    }

    /// Opens connections while the server keeps up, and puts their first messages on the agenda.
    fn open_some(&mut self) -> io::Result<()> {
        while self.totals.opened < self.server.counts.accepted.get() + OPENINGS {
            let Some(slot) = self.vacant.pop_front() else {
                break;
            };
            let begun = Instant::now();
            let stream = std::net::TcpStream::connect(self.server.addr)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            self.poll
                .registry()
                .register(&mut stream, Token(slot), Interest::READABLE)?;
            let idle = self.options.idle_timeout;
            // Half of the connections never pause for as long as the timeout, a quarter falls silent after a while,
            // and a quarter never says a word.
            let talk = match slot % 4 {
                0 | 2 => None,
                1 => Some(begun + between(TALK, idle, &mut self.rng)),
                _ => Some(begun),
            };
            self.totals.opened += 1;
            let number = self.totals.opened;
            self.slots[slot] = Some(Connection {
                number,
                stream,
                activity: Activity::connect(begun, idle),
                talks_until: talk,
                talking: true,
            });
            let first = begun + between(PAUSE, idle, &mut self.rng);
            self.agenda.push(Reverse((first, slot, number)));
        }
        Ok(())
    }

    /// Reads all echo that has come for one connection.
    fn receive(&mut self, slot: usize) -> io::Result<()> {
        // An event may be older than the close that another one has reported.
        let Some(connection) = &mut self.slots[slot] else {
            return Ok(());
        };
        let received = connection.receive(&mut self.scratch, &mut self.totals);
        if received.is_err() {
            self.closed(slot)
        } else {
            Ok(())
        }
    }

    /// Says what is due.
    fn speak(&mut self) -> io::Result<()> {
        for _ in 0..ROUND {
            let Some(&Reverse((due, slot, number))) = self.agenda.peek() else {
                break;
            };
            if due > Instant::now() {
                break;
            }
            self.agenda.pop();
            let speaker = self.slots[slot]
                .as_mut()
                .filter(|speaker| speaker.number == number);
            let Some(connection) = speaker else { continue };
            connection.talking = connection.talks_until.is_none_or(|until| due < until);
            if !connection.talking {
                continue;
            }
            // As often between 1 and 10 bytes as between 100 and 1000.
            let length = (MESSAGE_MOST as f64).powf(self.rng.f64()) as usize;
            if connection
                .say(&self.scratch[..length], &mut self.totals)
                .is_err()
            {
                self.closed(slot)?;
            } else {
                let pause = between(PAUSE, self.options.idle_timeout, &mut self.rng);
                self.agenda
                    .push(Reverse((Instant::now() + pause, slot, number)));
            }
        }
        Ok(())
    }

    /// Judges a close that has just been seen, and puts the slot up for another connection.
    fn closed(&mut self, slot: usize) -> io::Result<()> {
        let seen = Instant::now();
        let Some(mut connection) = self.slots[slot].take() else {
            return Ok(());
        };
        let name = format!("connection {}", connection.number);
        let judgement = connection.activity.judge(seen, connection.talking);
        self.totals.enter(judgement, self.options.grace, &name);
        self.vacant.extend((!self.is_silent).then_some(slot));
        self.poll.registry().deregister(&mut connection.stream)
    }
}

fn between((low, high): (f64, f64), idle: Duration, rng: &mut fastrand::Rng) -> Duration {
    idle.mul_f64(low + (high - low) * rng.f64())
}

struct Connection {
    /// Counted from 1 as they are opened.
    number: u64,
    stream: TcpStream,
    activity: Activity,
    /// When it falls silent; `None` for never.
    talks_until: Option<Instant>,
    /// A message is on the agenda.
    talking: bool,
}

impl Connection {
    /// Sends a message; an error if the connection has ended.
    fn say(&mut self, message: &[u8], totals: &mut Totals) -> io::Result<()> {
        let begun = Instant::now();
        match self.stream.write(message) {
            Ok(written) => {
                self.activity.wrote(begun, Instant::now());
                totals.sent += written as u64;
                Ok(())
            }
            Err(error) if is_open(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads all there is; an error if the connection has ended.
    fn receive(&mut self, scratch: &mut [u8], totals: &mut Totals) -> io::Result<()> {
        loop {
            match self.stream.read(scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => totals.echoed += read as u64,
                Err(error) if is_open(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_open(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
