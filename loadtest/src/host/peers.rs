//! The connections of one loop and their timers.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use tickwheel::{EventLoopTimer, Expired, Time};

use super::connection::{ARRIVALS, Alarm, CHUNK, Connection, HEARTBEAT, write_some};
use super::counters::{Counters, count};
use crate::measure::nanos;
use crate::settings::server::HostSettings;

pub(super) type Alarms = EventLoopTimer<Alarm>;

/// The connections of one loop.
pub(super) struct Peers {
    idle: Duration,
    heartbeat: Option<Duration>,
    registry: Registry,
    counters: Arc<Counters>,
    slots: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Connections that had more to read than their budget: the next round goes on with them.
    pub(super) unread: Vec<usize>,
    /// Connections on which something moved in this round.
    moved: Vec<usize>,
    scratch: Box<[u8]>,
}

impl Peers {
    pub(super) fn new(settings: HostSettings, registry: Registry, counters: Arc<Counters>) -> Self {
        Self {
            idle: settings.idle,
            heartbeat: Some(settings.heartbeat).filter(|interval| !interval.is_zero()),
            registry,
            counters,
            slots: Vec::new(),
            free: Vec::new(),
            unread: Vec::new(),
            moved: Vec::new(),
            scratch: vec![0; CHUNK].into_boxed_slice(),
        }
    }

    /// Takes over new connections; whether more may be waiting.
    pub(super) fn adopt(&mut self, arrivals: &Receiver<TcpStream>, timer: &mut Alarms) -> bool {
        let mut taken = 0;
        for stream in arrivals.try_iter().take(ARRIVALS) {
            taken += 1;
            if let Err(error) = self.admit(stream, timer) {
                eprintln!("a connection is turned away: {error}");
                count(&self.counters.refused, 1);
            }
        }
        taken == ARRIVALS
    }

    fn admit(&mut self, mut stream: TcpStream, timer: &mut Alarms) -> io::Result<()> {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        stream.set_nodelay(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut stream, Token(slot), interest)?;
        // It may have come after the round's clock read, which would close it too early.
        let now = timer.now();
        let idle = timer.schedule(now, self.idle, Alarm::Idle(slot)).map_err(io::Error::other)?;
        // Without its heartbeats a connection can do.
        let heartbeat = self
            .heartbeat
            .and_then(|interval| timer.schedule(now, interval, Alarm::Heartbeat(slot)).ok());
        let connection =
            Connection { stream, backlog: VecDeque::new(), finished: false, idle, heartbeat };
        if self.free.pop().is_some() {
            self.slots[slot] = Some(connection);
        } else {
            self.slots.push(Some(connection));
        }
        count(&self.counters.accepted, 1);
        Ok(())
    }

    fn get(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Reads and echoes what one connection has, within its budget; whether anything moved.
    pub(super) fn serve(&mut self, slot: usize, timer: &mut Alarms) -> bool {
        let Some(Some(connection)) = self.slots.get_mut(slot) else { return false };
        let pumped = match connection.pump(&mut self.scratch) {
            Ok(pumped) => pumped,
            Err(_) => {
                self.close(slot, timer, |counters| &counters.closed_by_peer);
                return false;
            }
        };
        count(&self.counters.echoed, pumped.read as u64);
        if pumped.ended {
            self.close(slot, timer, |counters| &counters.closed_by_peer);
            return false;
        }
        if pumped.more {
            self.unread.push(slot);
        }
        if pumped.moved {
            self.moved.push(slot);
        }
        pumped.moved
    }

    /// Pushes out the deadlines of the connections on which something moved.
    pub(super) fn push_out(&mut self, timer: &mut Alarms, now: Time) {
        for slot in self.moved.drain(..) {
            let Some(Some(connection)) = self.slots.get(slot) else { continue };
            // Gone is impossible here: the connection is open and alarms come later in the round.
            timer.reschedule(now, connection.idle, self.idle);
            if let (Some(key), Some(interval)) = (connection.heartbeat, self.heartbeat) {
                timer.reschedule(now, key, interval);
            }
        }
    }

    pub(super) fn alarm(&mut self, expired: Expired<Alarm>, timer: &mut Alarms, now: Time) {
        match expired.payload {
            Alarm::Idle(slot) => self.close_if_silent(slot, timer, expired.lateness),
            Alarm::Heartbeat(slot) => self.send_heartbeat(slot, timer, now),
        }
    }

    /// Closes a connection whose time is up, unless something has come in the very last moment.
    fn close_if_silent(&mut self, slot: usize, timer: &mut Alarms, lateness: Duration) {
        if self.serve(slot, timer) {
            let again = timer.schedule(timer.now(), self.idle, Alarm::Idle(slot));
            if let (Some(connection), Ok(key)) = (self.get(slot), again) {
                connection.idle = key;
                return;
            }
        }
        if self.close(slot, timer, |counters| &counters.closed_idle) {
            let lateness = nanos(lateness);
            // ORDERING: Relaxed: see `count`.
            self.counters.latest_close_ns.fetch_max(lateness, Ordering::Relaxed);
        }
    }

    fn send_heartbeat(&mut self, slot: usize, timer: &mut Alarms, now: Time) {
        let interval = self.heartbeat.unwrap_or(self.idle);
        let Some(connection) = self.get(slot) else { return };
        connection.heartbeat = timer.schedule(now, interval, Alarm::Heartbeat(slot)).ok();
        // A peer with unread echo has no use for one.
        if !connection.backlog.is_empty() || connection.finished {
            return;
        }
        match write_some(&mut connection.stream, HEARTBEAT) {
            Ok(written) => count(&self.counters.heartbeats, u64::from(written > 0)),
            Err(_) => drop(self.close(slot, timer, |counters| &counters.closed_by_peer)),
        }
    }

    /// Counts a connection as closed, ends its timers and closes it; whether there was one.
    fn close(
        &mut self,
        slot: usize,
        timer: &mut Alarms,
        counter: fn(&Counters) -> &AtomicU64,
    ) -> bool {
        let Some(mut connection) = self.slots.get_mut(slot).and_then(Option::take) else {
            return false;
        };
        count(counter(&self.counters), 1);
        for key in [Some(connection.idle), connection.heartbeat].into_iter().flatten() {
            // Lost by the timer that has just fired.
            timer.cancel(key);
        }
        if let Err(error) = self.registry.deregister(&mut connection.stream) {
            eprintln!("a closed connection could not be deregistered: {error}");
        }
        self.free.push(slot);
        true
    }
}
