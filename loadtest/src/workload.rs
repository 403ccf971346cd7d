//! A recorded workload: CSV lines `time_us,op,id,delay_us`, checked one by one.
//!
//! ```csv
//! time_us,op,id,delay_us
//! 0,schedule,1,30000
//! 1500,reschedule,1,60000
//! 2000,cancel,1,
//! ```
//!
//! `time_us` counts microseconds from the start of the run and never falls; `op` is `schedule`,
//! `reschedule` or `cancel`; an `id` is scheduled once, and before anything else is done to it;
//! `delay_us` counts from the line's own time and stays empty for `cancel`. Empty lines and lines
//! that start with `#` are skipped. A line may have [`LINE_MOST`] bytes and a file [`FILE_MOST`].
//! Cancelling or rescheduling a timer that has ended is no fault:
//! such things happen in every real run.

use std::collections::HashSet;
use std::fmt;
use std::io::{Read, Write};

use csv::{ByteRecord, ReaderBuilder, Trim};

/// Longest line that is read, in bytes.
pub const LINE_MOST: usize = 64 * 1024;

/// Largest file that is read, in bytes: ten million operations and more.
pub const FILE_MOST: u64 = 256 * 1024 * 1024;

/// The first line of a workload file.
pub const HEADER: [&str; 4] = ["time_us", "op", "id", "delay_us"];

/// Bad lines that are described; further ones are only counted, so that a file that is not a
/// workload at all cannot fill the memory with complaints.
pub const FAULTS_KEPT: usize = 1000;

/// Longest piece of a bad field that a fault quotes, in characters.
const QUOTED: usize = 32;

/// One line of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Microseconds since the start of the run.
    pub time_us: u64,
    /// Names the timer within the file.
    pub id: u64,
    /// What is done to it.
    pub action: Action,
}

/// What one line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Schedules the timer, due `delay_us` after the line's time.
    Schedule {
        /// Microseconds from the line's time.
        delay_us: u64,
    },
    /// Moves the timer to `delay_us` after the line's time.
    Reschedule {
        /// Microseconds from the line's time.
        delay_us: u64,
    },
    /// Cancels the timer.
    Cancel,
}

/// A line that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Counted from 1, as editors do.
    pub line: u64,
    /// Why.
    pub fault: Fault,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.fault)
    }
}

impl std::error::Error for LineError {}

/// What can be wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The first line is not the header.
    #[error("the first line must be `time_us,op,id,delay_us`, found `{0}`")]
    Header(String),
    /// There is no line at all.
    #[error("the file is empty; it must start with `time_us,op,id,delay_us`")]
    Empty,
    /// Not three or four fields.
    #[error("expected 4 fields (time_us,op,id,delay_us), found {0}")]
    FieldCount(usize),
    /// A field that should be a whole number is none.
    #[error("{field} must be a whole number from 0 to {}, found `{found}`", u64::MAX)]
    Number {
        /// The field's name.
        field: &'static str,
        /// What stands there.
        found: String,
    },
    /// The operation is unknown.
    #[error("op must be schedule, reschedule or cancel, found `{0}`")]
    UnknownOp(String),
    /// A cancel with a delay.
    #[error("a cancel takes no delay_us, found `{0}`; leave the field empty")]
    DelayOnCancel(String),
    /// The time is earlier than on a line before.
    #[error("time_us goes back from {before} to {found}")]
    TimeGoesBack {
        /// The latest time so far.
        before: u64,
        /// This line's time.
        found: u64,
    },
    /// The id was scheduled before.
    #[error("id {0} is scheduled a second time; use a new id")]
    ScheduledTwice(u64),
    /// The id is used before it was scheduled.
    #[error("id {0} was not scheduled on any line before")]
    Unknown(u64),
    /// The file could not be read further.
    #[error("cannot read on: {0}")]
    Unreadable(String),
    /// More bad lines than are described.
    #[error("and {0} more bad lines up to here")]
    More(u64),
}

/// Reads a whole workload.
///
/// # Errors
///
/// Every line that cannot be used, in file order: at most [`FAULTS_KEPT`] of them described, then one
/// [`Fault::More`] with the count of the others.
pub fn parse(reader: impl Read) -> Result<Vec<Op>, Vec<LineError>> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .comment(Some(b'#'))
        .quoting(false)
        // The CSV reader takes a comment for a record if the file ends in it without a line break.
        .from_reader(Bounded { reader, line: 0, left: FILE_MOST }.chain(&b"\n"[..]));
    let mut checker = Checker::default();
    let mut record = ByteRecord::new();
    loop {
        let line = reader.position().line();
        match reader.read_byte_record(&mut record) {
            Ok(false) => break,
            Ok(true) => {
                let line = record.position().map_or(line, csv::Position::line);
                checker.line(line, &record);
                if checker.ops.try_reserve(1).and(checker.known.try_reserve(1)).is_err() {
                    checker
                        .fault(line, Fault::Unreadable("there is no memory for more".to_owned()));
                    break;
                }
            }
            Err(error) => {
                checker.fault(line, Fault::Unreadable(error.to_string()));
                break;
            }
        }
    }
    checker.finish()
}

/// Ends with an error where a line or the whole is longer than it may be: the file may be a device that never ends.
struct Bounded<R> {
    reader: R,
    /// Bytes of the line so far.
    line: usize,
    /// Bytes of the file that may still come.
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer)?;
        let Some(left) = self.left.checked_sub(read as u64) else {
            return Err(std::io::Error::other(format!("the file has more than {FILE_MOST} bytes")));
        };
        self.left = left;
        for (number, part) in buffer[..read].split(|byte| *byte == b'\n').enumerate() {
            self.line = if number == 0 { self.line + part.len() } else { part.len() };
            if self.line > LINE_MOST {
                let text = format!("a line has more than {LINE_MOST} bytes");
                return Err(std::io::Error::other(text));
            }
        }
        Ok(read)
    }
}

/// Writes a workload that [`parse`] reads back as the same operations.
///
/// # Errors
///
/// Those of the writer.
pub fn write(writer: impl Write, ops: &[Op]) -> std::io::Result<()> {
    let mut writer = csv::Writer::from_writer(writer);
    writer.write_record(HEADER)?;
    for op in ops {
        let (name, delay) = match op.action {
            Action::Schedule { delay_us } => ("schedule", delay_us.to_string()),
            Action::Reschedule { delay_us } => ("reschedule", delay_us.to_string()),
            Action::Cancel => ("cancel", String::new()),
        };
        writer.write_record([&op.time_us.to_string(), name, &op.id.to_string(), &delay])?;
    }
    writer.flush()
}

/// What has been read so far.
#[derive(Default)]
struct Checker {
    header_seen: bool,
    latest_us: u64,
    known: HashSet<u64>,
    ops: Vec<Op>,
    faults: Vec<LineError>,
    more: u64,
    last_line: u64,
}

impl Checker {
    fn line(&mut self, line: u64, record: &ByteRecord) {
        self.last_line = line;
        if !self.header_seen {
            self.header_seen = true;
            if record.iter().ne(HEADER.iter().map(|name| name.as_bytes())) {
                let found: Vec<&[u8]> = record.iter().collect();
                self.fault(line, Fault::Header(quote(&found.join(&b','))));
            }
            return;
        }
        match self.op(record) {
            Ok(op) => self.ops.push(op),
            Err(fault) => self.fault(line, fault),
        }
    }

    fn op(&mut self, record: &ByteRecord) -> Result<Op, Fault> {
        // A cancel may leave the last comma out as well.
        if !(3..=4).contains(&record.len()) {
            return Err(Fault::FieldCount(record.len()));
        }
        let delay = record.get(3).unwrap_or(b"");
        let time_us = number("time_us", &record[0])?;
        let id = number("id", &record[2])?;
        let action = match &record[1] {
            b"schedule" => Action::Schedule { delay_us: number("delay_us", delay)? },
            b"reschedule" => Action::Reschedule { delay_us: number("delay_us", delay)? },
            b"cancel" if delay.is_empty() => Action::Cancel,
            b"cancel" => return Err(Fault::DelayOnCancel(quote(delay))),
            other => return Err(Fault::UnknownOp(quote(other))),
        };
        if time_us < self.latest_us {
            return Err(Fault::TimeGoesBack { before: self.latest_us, found: time_us });
        }
        match action {
            Action::Schedule { .. } if !self.known.insert(id) => {
                return Err(Fault::ScheduledTwice(id));
            }
            Action::Reschedule { .. } | Action::Cancel if !self.known.contains(&id) => {
                return Err(Fault::Unknown(id));
            }
            _ => {}
        }
        self.latest_us = time_us;
        Ok(Op { time_us, id, action })
    }

    fn fault(&mut self, line: u64, fault: Fault) {
        self.last_line = line;
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push(LineError { line, fault });
        } else {
            self.more += 1;
        }
    }

    fn finish(mut self) -> Result<Vec<Op>, Vec<LineError>> {
        if !self.header_seen && self.faults.is_empty() {
            self.fault(1, Fault::Empty);
        }
        if self.more > 0 {
            self.faults.push(LineError { line: self.last_line, fault: Fault::More(self.more) });
        }
        if self.faults.is_empty() { Ok(self.ops) } else { Err(self.faults) }
    }
}

fn number(field: &'static str, text: &[u8]) -> Result<u64, Fault> {
    // `u64::from_str` takes a leading plus; a workload does not.
    let digits = text.first().is_some_and(u8::is_ascii_digit);
    let value = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    value.filter(|_| digits).ok_or_else(|| Fault::Number { field, found: quote(text) })
}

/// A field as a person can read it, cut if long.
fn quote(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut quoted: String = text.chars().take(QUOTED).flat_map(char::escape_debug).collect();
    if text.chars().nth(QUOTED).is_some() {
        quoted.push('…');
    }
    quoted
}

#[cfg(test)]
mod tests;
