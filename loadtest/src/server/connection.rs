//! One client connection: what it sends, what it must get back, and when it sees its end.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::activity::{Activity, Judgement, Rules};
use super::kind::{HALF_OPEN_MOST, Kind, MESSAGE_MOST};
use super::totals::{Fault, Totals};
use crate::measure::nanos;

/// Buffers of a flooding connection. Small, so that thousands of them fit into the system's memory.
const FLOOD_BUFFER: usize = 16 * 1024;
/// Its segments, as on an Ethernet, for the same reason: the server's system sizes its own buffers by them,
/// and those of loopback are 64 KiB.
#[cfg(unix)]
const FLOOD_SEGMENT: u32 = 1460;
/// Bytes that a flood writes at a time.
const FLOOD_CHUNK: usize = 8 * 1024;
/// Chunks that a flood writes before other connections have their turn.
const FLOOD_TURN: usize = 64;
/// Bytes read or written at a time: no less than a message or a chunk of a flood.
const SCRATCH: usize = 16 * 1024;
const _: () = assert!(SCRATCH >= FLOOD_CHUNK && SCRATCH >= MESSAGE_MOST);

/// Whether a connection is known to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Standing {
    Open,
    Closed,
}

/// What connections of one loop share.
pub(super) struct Shared {
    pub(super) rules: Rules,
    pub(super) totals: Totals,
    /// Bytes sent and received.
    pub(super) bytes: u64,
    scratch: Box<[u8]>,
}

impl Shared {
    pub(super) fn new(rules: Rules) -> Self {
        let scratch = vec![0; SCRATCH].into_boxed_slice();
        Self { rules, totals: Totals::default(), bytes: 0, scratch }
    }
}

/// Names a connection for ever: the loop, its slot there, and which of the slot's connections it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) client: usize,
    pub(super) slot: usize,
    pub(super) life: u32,
}

impl Name {
    /// What the bytes of this connection are made from, so that no other has the same.
    fn key(self) -> u64 {
        let Self { client, slot, life } = self;
        let mixed = (client as u64) << 56 ^ (slot as u64) << 32 ^ u64::from(life);
        mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) kind: Kind,
    name: Name,
    key: u64,
    activity: Activity,
    /// The server's system has answered the connect.
    established: bool,
    /// When it falls silent; meaningless before it is established.
    pub(super) talks_until: Option<Instant>,
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
    /// Begins to connect, from `source` if there is one.
    pub(super) fn open(
        server: SocketAddr,
        source: Option<Ipv4Addr>,
        kind: Kind,
        name: Name,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        if kind == Kind::Flooding {
            socket.set_send_buffer_size(FLOOD_BUFFER)?;
            socket.set_recv_buffer_size(FLOOD_BUFFER)?;
            #[cfg(unix)]
            socket.set_tcp_mss(FLOOD_SEGMENT)?;
        }
        if let Some(source) = source {
            socket.bind(&SocketAddr::from((source, 0)).into())?;
        }
        let begun = Instant::now();
        match socket.connect(&server.into()) {
            Err(error) if !under_way(&error) => return Err(error),
            _ => {}
        }
        let stream = TcpStream::from_std(socket.into());
        SockRef::from(&stream).set_tcp_nodelay(true)?;
        Ok(Self {
            stream,
            kind,
            name,
            key: name.key(),
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
        self.name.life
    }

    pub(super) fn is_established(&self) -> bool {
        self.established
    }

    /// Whether the connect has come to its end with this event; `not_before` is a moment at which it had not.
    ///
    /// # Errors
    ///
    /// The connection was refused or failed.
    pub(super) fn establish(&mut self, not_before: Instant) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.established = true;
                self.activity.established(not_before);
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
        Ok(self.established)
    }

    /// Starts the time for which it talks.
    pub(super) fn begin_talk(&mut self, now: Instant, talk: Duration) {
        self.talks_until = now.checked_add(talk);
    }

    /// Whether it has nothing more to say at `now`.
    pub(super) fn has_talked_enough(&self, now: Instant) -> bool {
        let out_of_time = self.talks_until.is_some_and(|until| now >= until);
        out_of_time || (self.kind == Kind::HalfOpen && self.sent >= HALF_OPEN_MOST)
    }

    /// Looks after what the event reports, except for writing.
    pub(super) fn attend(&mut self, event: &Event, shared: &mut Shared) -> Standing {
        if self.kind.reads() {
            return self.receive(shared);
        }
        // Who never reads sees the end only in the state of the socket.
        let ended = event.is_read_closed() || event.is_write_closed() || event.is_error();
        if ended { Standing::Closed } else { Standing::Open }
    }

    /// Sends a message of about `length` bytes.
    pub(super) fn say(&mut self, length: usize, shared: &mut Shared) -> Standing {
        let most = match self.kind {
            Kind::HalfOpen => usize::try_from(HALF_OPEN_MOST - self.sent).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let message = &mut shared.scratch[..length.min(most)];
        pattern(self.key, self.sent, message);
        let begun = Instant::now();
        let written = match self.stream.write(message) {
            Ok(written) => written,
            Err(error) => return standing(&error),
        };
        self.activity.wrote(begun, Instant::now(), &shared.rules);
        self.count_sent(written, shared);
        if self.kind.reads() {
            self.waiting.push_back((self.sent, begun));
        }
        Standing::Open
    }

    /// Sends until nothing goes any more; `None` if its turn ended before that.
    pub(super) fn flood(&mut self, shared: &mut Shared) -> Option<Standing> {
        for _ in 0..FLOOD_TURN {
            let begun = Instant::now();
            let written = match self.stream.write(&shared.scratch[..FLOOD_CHUNK]) {
                Ok(written) => written,
                Err(error) => return Some(standing(&error)),
            };
            if self.sent == 0 {
                self.activity.wrote(begun, Instant::now(), &shared.rules);
            } else {
                self.activity.wrote_in_vain(begun);
            }
            self.count_sent(written, shared);
        }
        None
    }

    fn count_sent(&mut self, written: usize, shared: &mut Shared) {
        self.sent += written as u64;
        shared.bytes += written as u64;
        shared.totals.of_mut(self.kind).sent += written as u64;
    }

    /// Reads all there is and holds it against what was sent.
    fn receive(&mut self, shared: &mut Shared) -> Standing {
        loop {
            match self.stream.read(&mut shared.scratch) {
                Ok(0) => return Standing::Closed,
                Ok(read) => {
                    shared.bytes += read as u64;
                    self.check(read, shared);
                    self.complete(shared);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return standing(&error),
            }
        }
    }

    /// Checks what has been read: heartbeats, which are zero bytes, and echo, which has none.
    fn check(&mut self, read: usize, shared: &mut Shared) {
        let Shared { scratch, totals, .. } = shared;
        let figures = totals.of_mut(self.kind);
        let mut wrong = None;
        for &byte in &scratch[..read] {
            if byte == 0 {
                figures.heartbeats += 1;
                continue;
            }
            if self.echoed >= self.sent || byte != pattern_byte(self.key, self.echoed) {
                wrong.get_or_insert((self.echoed, byte));
            }
            self.echoed += 1;
            figures.echoed += 1;
        }
        if let (Some((at, byte)), false) = (wrong, self.corrupt) {
            self.corrupt = true;
            let sent = self.sent;
            let text = format!("{self}: byte {at} of the echo ({sent} sent) is {byte}");
            totals.findings.add(Fault::Corrupt, text);
        }
    }

    /// Ends the messages whose echo is complete.
    fn complete(&mut self, shared: &mut Shared) {
        let now = Instant::now();
        while let Some(&(end, begun)) = self.waiting.front() {
            if end > self.echoed {
                break;
            }
            self.waiting.pop_front();
            self.activity.answered(begun);
            let round_trip = nanos(now.saturating_duration_since(begun));
            shared.totals.of_mut(self.kind).round_trip.saturating_record(round_trip);
        }
    }

    /// Enters the close that was seen at `seen`.
    pub(super) fn closed(&mut self, seen: Instant, shared: &mut Shared) {
        let talking = self.talking && self.kind != Kind::Flooding;
        let judgement = self.activity.judge_close(seen, talking, &shared.rules);
        shared.totals.of_mut(self.kind).closed += 1;
        let in_time = matches!(judgement, Judgement::InTime { .. });
        if in_time && self.kind.reads() && !self.corrupt && self.echoed < self.sent {
            let missing = self.sent - self.echoed;
            let text = format!("{self}: closed with {missing} bytes of echo missing");
            shared.totals.findings.add(Fault::Corrupt, text);
        }
        shared.totals.enter(self.kind, judgement, &*self);
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
        let Name { client, slot, life } = self.name;
        write!(f, "{} connection {client}:{slot}#{life}", self.kind)?;
        // A socket that was reset may have forgotten its address.
        match self.stream.local_addr() {
            Ok(address) => write!(f, " from {address}"),
            Err(_) => Ok(()),
        }
    }
}

fn standing(error: &io::Error) -> Standing {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Standing::Open,
        _ => Standing::Closed,
    }
}

#[cfg(unix)]
fn under_way(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::EINPROGRESS as i32)
}

#[cfg(not(unix))]
fn under_way(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}

/// The byte at `offset` of what a connection sends; never zero, which is a heartbeat.
#[inline]
fn pattern_byte(key: u64, offset: u64) -> u8 {
    let mixed = (key ^ offset).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed >> 56) as u8 | 1
}

fn pattern(key: u64, from: u64, bytes: &mut [u8]) {
    for (offset, byte) in (from..).zip(bytes) {
        *byte = pattern_byte(key, offset);
    }
}

#[cfg(test)]
mod tests;
