//! One connection: bytes in, bytes out, within a budget.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};

use mio::Token;
use mio::net::TcpStream;
use tickwheel::Key;

/// What a quiet peer is sent. The clients never send it, so they can tell it from their echo.
pub(super) const HEARTBEAT: &[u8] = b"\0";

/// Bytes read from one socket before the others have their turn.
const READ_BUDGET: usize = 64 * 1024;
/// Bytes read at a time.
pub(super) const CHUNK: usize = 16 * 1024;
/// Bytes of echo that wait for a peer before it is not read from any more.
const BACKLOG_LIMIT: usize = 64 * 1024;
/// Connections accepted, or taken over by a loop, at a time.
pub(super) const ARRIVALS: usize = 256;

pub(super) const WAKE: Token = Token(usize::MAX);

/// An interrupted poll is an empty one.
pub(super) fn unless_interrupted(polled: io::Result<()>) -> io::Result<()> {
    match polled {
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
        other => other,
    }
}

/// What a loop's timers are for. The number is the connection's slot; a connection takes its timers with it when
/// it is closed, so no alarm ever meets the next user of the slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Alarm {
    Idle(usize),
    Heartbeat(usize),
}

/// One client.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// Echo that the peer has not taken yet.
    pub(super) backlog: VecDeque<u8>,
    /// The peer has said its last byte.
    pub(super) finished: bool,
    pub(super) idle: Key<Alarm>,
    pub(super) heartbeat: Option<Key<Alarm>>,
}

/// What serving a connection came to.
#[derive(Default)]
pub(super) struct Pumped {
    /// Bytes read.
    pub(super) read: usize,
    /// The peer sent something, or took some of the echo it was behind with.
    pub(super) moved: bool,
    /// The budget ran out before the bytes did.
    pub(super) more: bool,
    /// Nothing is left to do for this peer.
    pub(super) ended: bool,
}

impl Connection {
    /// Moves bytes until the peer has no more, takes no more, or the budget is used up.
    ///
    /// `mio` reports edges: whoever stops before `WouldBlock` has to come back by himself.
    pub(super) fn pump(&mut self, scratch: &mut [u8]) -> io::Result<Pumped> {
        let mut pumped = Pumped { moved: self.flush()?, ..Pumped::default() };
        while !self.finished && self.backlog.len() < BACKLOG_LIMIT {
            if pumped.read >= READ_BUDGET {
                pumped.more = true;
                break;
            }
            match self.stream.read(scratch) {
                Ok(0) => self.finished = true,
                Ok(read) => {
                    pumped.read += read;
                    pumped.moved = true;
                    self.echo(&scratch[..read])?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        pumped.ended = self.finished && self.backlog.is_empty();
        Ok(pumped)
    }

    fn echo(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written =
            if self.backlog.is_empty() { write_some(&mut self.stream, bytes)? } else { 0 };
        self.backlog.extend(&bytes[written..]);
        Ok(())
    }

    /// Sends waiting echo; whether the peer took any.
    fn flush(&mut self) -> io::Result<bool> {
        let mut moved = false;
        while !self.backlog.is_empty() {
            let written = write_some(&mut self.stream, self.backlog.as_slices().0)?;
            if written == 0 {
                return Ok(moved);
            }
            moved = true;
            self.backlog.drain(..written);
        }
        if moved {
            // Thousands of connections were slow once; few are at a time.
            self.backlog = VecDeque::new();
        }
        Ok(moved)
    }
}

/// Writes as much as the socket takes now.
pub(super) fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}
