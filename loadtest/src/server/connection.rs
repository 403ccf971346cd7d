//! One client connection: what it sends, what it must get back, and when it sees its end.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;

use super::activity::{Activity, Judgement, Rules};
use super::totals::Totals;
use crate::findings::Breach;
use crate::measure::nanos;

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Never pauses for as long as the idle timeout, until the load ends.
    Chatty,
    /// Is chatty for a while, then silent.
    Fading,
    /// Never says a word.
    Silent,
}

/// Every kind with its name, in the order of the reports.
pub(super) const KINDS: [(Kind, &str); 3] =
    [(Kind::Chatty, "chatty"), (Kind::Fading, "fading"), (Kind::Silent, "silent")];

/// Bounds of a pause between two messages, as parts of the idle timeout. The rest of it is the room for the
/// scheduler of a busy machine.
const PAUSE: (f64, f64) = (0.1, 0.6);
/// Bounds of the time for which a fading client talks.
const TALK: (f64, f64) = (0.3, 2.0);
/// The longest message.
const MESSAGE_MOST: usize = 4096;

fn between((low, high): (f64, f64), idle: Duration, rng: &mut fastrand::Rng) -> Duration {
    idle.mul_f64(low + (high - low) * rng.f64())
}

/// What connections of one loop share.
pub(super) struct Shared {
    pub(super) rules: Rules,
    pub(super) totals: Totals,
    pub(super) rng: fastrand::Rng,
    scratch: Box<[u8]>,
}

impl Shared {
    pub(super) fn new(rules: Rules, seed: u64) -> Self {
        let scratch = vec![0; 4 * MESSAGE_MOST].into_boxed_slice();
        Self { rules, totals: Totals::default(), rng: fastrand::Rng::with_seed(seed), scratch }
    }
}

/// The loop, its slot there, and which of the slot's connections it is.
pub(super) type Name = (usize, usize, u32);

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    kind: Kind,
    name: Name,
    /// What its bytes are made from, so that no other connection has the same.
    key: u64,
    activity: Activity,
    /// The server's system has answered the connect.
    pub(super) established: bool,
    /// When it falls silent; `None` for never.
    talks_until: Option<Instant>,
    /// A message is on the agenda.
    pub(super) talking: bool,
    sent: u64,
    echoed: u64,
    /// Messages under way: where each ends in the stream of bytes, and when its write began.
    waiting: VecDeque<(u64, Instant)>,
    /// Its echo went wrong once; what follows would only repeat that.
    corrupt: bool,
}

impl Connection {
    /// Begins to connect.
    pub(super) fn open(server: SocketAddr, kind: Kind, name: Name) -> io::Result<Self> {
        let begun = Instant::now();
        let stream = TcpStream::connect(server)?;
        let (client, slot, life) = name;
        let mixed = (client as u64) << 56 ^ (slot as u64) << 32 ^ u64::from(life);
        Ok(Self {
            stream,
            kind,
            name,
            key: mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            activity: Activity::connect(begun),
            established: false,
            talks_until: None,
            talking: false,
            sent: 0,
            echoed: 0,
            waiting: VecDeque::new(),
            corrupt: false,
        })
    }

    pub(super) fn life(&self) -> u32 {
        self.name.2
    }

    /// Whether the connect has come to its end with this event; `not_before` is a moment at which it had not.
    pub(super) fn establish(&mut self, not_before: Instant) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.stream.set_nodelay(true)?;
                self.established = true;
                self.activity.established(not_before);
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
        Ok(self.established)
    }

    /// When it first speaks, if it ever does.
    pub(super) fn begin_talk(&mut self, now: Instant, shared: &mut Shared) -> Option<Instant> {
        let idle = shared.rules.idle;
        self.talks_until =
            (self.kind == Kind::Fading).then(|| now + between(TALK, idle, &mut shared.rng));
        self.talking = self.kind != Kind::Silent;
        self.talking.then(|| now + between(PAUSE, idle, &mut shared.rng))
    }

    /// Sends the message that was due at `due`; when the next one is due, if it goes on, or an error if the connection
    /// has ended.
    pub(super) fn say(&mut self, due: Instant, shared: &mut Shared) -> io::Result<Option<Instant>> {
        if self.talks_until.is_some_and(|until| due >= until) {
            self.talking = false;
            return Ok(None);
        }
        // As often between 1 and 10 bytes as between 100 and 1000.
        let length = (MESSAGE_MOST as f64).powf(shared.rng.f64()) as usize;
        let message = &mut shared.scratch[..length];
        for (offset, byte) in (self.sent..).zip(&mut *message) {
            *byte = pattern(self.key, offset);
        }
        let begun = Instant::now();
        match self.stream.write(message) {
            Ok(written) => {
                self.activity.wrote(begun, Instant::now(), &shared.rules);
                self.sent += written as u64;
                shared.totals.of_mut(self.kind).sent += written as u64;
                self.waiting.push_back((self.sent, begun));
            }
            Err(error) if is_open(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(Some(Instant::now() + between(PAUSE, shared.rules.idle, &mut shared.rng)))
    }

    /// Reads all there is and holds it against what was sent; an error if the connection has ended.
    pub(super) fn receive(&mut self, shared: &mut Shared) -> io::Result<()> {
        loop {
            match self.stream.read(&mut shared.scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.check(read, shared),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_open(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn check(&mut self, read: usize, shared: &mut Shared) {
        let now = Instant::now();
        for &byte in &shared.scratch[..read] {
            let expected = self.echoed < self.sent && byte == pattern(self.key, self.echoed);
            if !expected && !self.corrupt {
                self.corrupt = true;
                let text = format!("{self}: byte {} of the echo is {byte}", self.echoed);
                shared.totals.findings.add(Breach::Corrupt, text);
            }
            self.echoed += 1;
        }
        let figures = shared.totals.of_mut(self.kind);
        figures.echoed += read as u64;
        while let Some(&(_, begun)) = self.waiting.front().filter(|(end, _)| *end <= self.echoed) {
            self.waiting.pop_front();
            self.activity.answered(begun);
            figures.round_trip.saturating_record(nanos(now.saturating_duration_since(begun)));
        }
    }

    /// Enters the close that was seen at `seen`.
    pub(super) fn closed(&self, seen: Instant, shared: &mut Shared) {
        let judgement = self.activity.judge_close(seen, self.talking, &shared.rules);
        shared.totals.of_mut(self.kind).closed += 1;
        let in_time = matches!(judgement, Judgement::InTime(_));
        if in_time && !self.corrupt && self.echoed < self.sent {
            let missing = self.sent - self.echoed;
            let text = format!("{self}: closed with {missing} bytes of echo missing");
            shared.totals.findings.add(Breach::Corrupt, text);
        }
        shared.totals.enter(self.kind, judgement, self);
    }

    /// Enters that it was open when the run ended at `now`.
    pub(super) fn left_open(&self, now: Instant, shared: &mut Shared) {
        shared.totals.of_mut(self.kind).open += 1;
        let judgement = self.activity.judge_open(now, &shared.rules);
        shared.totals.enter(self.kind, judgement, format_args!("{self}, still open"));
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, slot, life) = self.name;
        write!(f, "{} connection {client}:{slot}#{life}", KINDS[self.kind as usize].1)
    }
}

fn is_open(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The byte at `offset` of what a connection sends.
#[inline]
fn pattern(key: u64, offset: u64) -> u8 {
    ((key ^ offset).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream as StdStream};

    use super::*;

    const RULES: Rules = Rules { idle: Duration::from_secs(2), grace: Duration::from_secs(5) };

    /// A chatty connection that has said something; the server's end, which the test plays, and what it has heard.
    fn talking() -> (Connection, StdStream, Shared, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut connection = Connection::open(address, Kind::Chatty, (0, 3, 1)).unwrap();
        let mut server = listener.accept().unwrap().0;
        while !connection.establish(Instant::now()).unwrap() {}
        let mut shared = Shared::new(RULES, 7);
        assert!(connection.begin_talk(Instant::now(), &mut shared).is_some());
        for _ in 0..5 {
            assert!(connection.say(Instant::now(), &mut shared).unwrap().is_some());
        }
        let mut heard = vec![0; connection.sent as usize];
        server.read_exact(&mut heard).unwrap();
        (connection, server, shared, heard)
    }

    /// Lets the client read until it has got all that the server sent, or the end.
    fn receive(connection: &mut Connection, shared: &mut Shared, bytes: usize) -> io::Result<()> {
        while connection.echoed < bytes as u64 {
            connection.receive(shared)?;
        }
        connection.receive(shared)
    }

    #[test]
    fn an_echo_is_checked_and_measured_and_a_forged_one_found_once() {
        for forged in [false, true] {
            let (mut connection, mut server, mut shared, mut heard) = talking();
            if forged {
                heard[0] ^= 0x40;
                heard.extend([9, 9]);
            }
            server.write_all(&heard).unwrap();
            receive(&mut connection, &mut shared, heard.len()).unwrap();
            let lines = shared.totals.findings.lines();
            if forged {
                assert_eq!(lines.len(), 1, "{lines:?}");
                assert!(
                    lines[0].contains("chatty connection 0:3#1: byte 0 of the echo"),
                    "{lines:?}"
                );
            } else {
                assert_eq!(shared.totals.of_mut(Kind::Chatty).round_trip.len(), 5);
                assert!(lines.is_empty(), "{lines:?}");
            }
        }
    }

    #[test]
    fn a_close_with_echo_missing_and_an_early_close_are_found() {
        let (mut connection, mut server, mut shared, heard) = talking();
        server.write_all(&heard[1..]).unwrap();
        drop(server);
        assert!(receive(&mut connection, &mut shared, heard.len()).is_err());
        connection.closed(Instant::now(), &mut shared);
        assert_eq!(shared.totals.findings.count(Breach::Early), 1);
        (connection.talking, connection.corrupt) = (false, false);
        connection.closed(Instant::now() + RULES.idle, &mut shared);
        let lines = shared.totals.findings.lines();
        assert!(lines.last().unwrap().contains("1 bytes of echo missing"), "{lines:?}");
    }
}
