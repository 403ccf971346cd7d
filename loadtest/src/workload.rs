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
//! that start with `#` are skipped. A file may have [`FILE_MOST`] bytes.
//! Cancelling or rescheduling a timer that has ended is no fault:
//! such things happen in every real run.

use std::collections::HashSet;
use std::io::{Read, Write};

/// Largest file that is read, in bytes: ten million operations and more. It may be a device that never ends.
pub const FILE_MOST: usize = 256 * 1024 * 1024;

/// The first line of a workload file.
pub const HEADER: [&str; 4] = ["time_us", "op", "id", "delay_us"];

/// Bad lines that are described; further ones are only counted, so that a file that is not a
/// workload at all cannot fill the memory with complaints.
pub const FAULTS_KEPT: usize = 20;

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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LineError {
    /// Counted from 1, as editors do.
    pub line: u64,
    /// Why, and what is allowed.
    pub reason: String,
}

/// Reads a whole workload.
///
/// # Errors
///
/// Every line that cannot be used, in file order: at most [`FAULTS_KEPT`] of them described, then one
/// error with the count of the others.
pub fn parse(reader: impl Read) -> Result<Vec<Op>, Vec<LineError>> {
    let mut text = Vec::new();
    let read = match reader.take(FILE_MOST as u64 + 1).read_to_end(&mut text) {
        Ok(read) if read > FILE_MOST => Err(format!("the file has more than {FILE_MOST} bytes")),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("cannot read on: {error}")),
    };
    read.map_err(|reason| vec![LineError { line: 1, reason }])?;
    let (mut checker, mut ops, mut faults) = (Checker::default(), Vec::new(), Vec::new());
    let mut more = (0, 0);
    for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        match checker.check(text) {
            Ok(op) => ops.extend(op),
            Err(reason) if faults.len() < FAULTS_KEPT => faults.push(LineError { line, reason }),
            Err(_) => more = (line, more.1 + 1),
        }
    }
    if !checker.header_seen {
        let reason = format!(
            "the file is empty; it must start with `{}`",
            HEADER.join(",")
        );
        faults.push(LineError { line: 1, reason });
    }
    if let (line, more @ 1..) = more {
        let reason = format!("and {more} more bad lines up to here");
        faults.push(LineError { line, reason });
    }
    if faults.is_empty() {
        Ok(ops)
    } else {
        Err(faults)
    }
}

/// Writes a workload that [`parse`] reads back as the same operations.
///
/// # Errors
///
/// Those of the writer.
pub fn write(mut writer: impl Write, ops: &[Op]) -> std::io::Result<()> {
    writeln!(writer, "{}", HEADER.join(","))?;
    for Op {
        time_us,
        id,
        action,
    } in ops
    {
        let (name, delay) = match action {
            Action::Schedule { delay_us } => ("schedule", delay_us.to_string()),
            Action::Reschedule { delay_us } => ("reschedule", delay_us.to_string()),
            Action::Cancel => ("cancel", String::new()),
        };
        writeln!(writer, "{time_us},{name},{id},{delay}")?;
    }
    writer.flush()
}

/// What the lines before one have said.
#[derive(Default)]
struct Checker {
    header_seen: bool,
    latest_us: u64,
    known: HashSet<u64>,
}

impl Checker {
    /// Reads one line; `None` if it holds no operation.
    fn check(&mut self, line: &[u8]) -> Result<Option<Op>, String> {
        if line.trim_ascii().is_empty() || line[0] == b'#' {
            return Ok(None);
        }
        let fields: Vec<&[u8]> = line
            .split(|byte| *byte == b',')
            .map(<[u8]>::trim_ascii)
            .collect();
        if !std::mem::replace(&mut self.header_seen, true) {
            if fields.iter().copied().eq(HEADER.map(str::as_bytes)) {
                return Ok(None);
            }
            let found = quote(line.trim_ascii());
            return Err(format!(
                "the first line must be `{}`, found `{found}`",
                HEADER.join(",")
            ));
        }
        let (time_us, name, id, delay) = match fields[..] {
            // A cancel may leave the last comma out as well.
            [time_us, name, id] => (time_us, name, id, &b""[..]),
            [time_us, name, id, delay] => (time_us, name, id, delay),
            _ => {
                let (wanted, found) = (HEADER.join(","), fields.len());
                return Err(format!("expected 4 fields ({wanted}), found {found}"));
            }
        };
        let (time_us, id) = (number("time_us", time_us)?, number("id", id)?);
        let action = match name {
            b"schedule" => Action::Schedule {
                delay_us: number("delay_us", delay)?,
            },
            b"reschedule" => Action::Reschedule {
                delay_us: number("delay_us", delay)?,
            },
            b"cancel" if delay.is_empty() => Action::Cancel,
            b"cancel" => {
                let found = quote(delay);
                let text = "a cancel takes no delay_us, found";
                return Err(format!("{text} `{found}`; leave the field empty"));
            }
            other => {
                let found = quote(other);
                return Err(format!(
                    "op must be schedule, reschedule or cancel, found `{found}`"
                ));
            }
        };
        if time_us < self.latest_us {
            return Err(format!(
                "time_us goes back from {} to {time_us}",
                self.latest_us
            ));
        }
        let is_new = matches!(action, Action::Schedule { .. });
        match (is_new, self.known.contains(&id)) {
            (true, true) => Err(format!("id {id} is scheduled a second time; use a new id")),
            (false, false) => Err(format!("id {id} was not scheduled on any line before")),
            _ => {
                self.known.insert(id);
                self.latest_us = time_us;
                Ok(Some(Op {
                    time_us,
                    id,
                    action,
                }))
            }
        }
    }
}

fn number(field: &str, text: &[u8]) -> Result<u64, String> {
    // `u64::from_str` takes a leading plus; a workload does not.
    let digits = text.first().is_some_and(u8::is_ascii_digit);
    let value = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    value.filter(|_| digits).ok_or_else(|| {
        let found = quote(text);
        format!(
            "{field} must be a whole number from 0 to {}, found `{found}`",
            u64::MAX
        )
    })
}

/// A field as a person can read it, cut if long.
fn quote(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut quoted: String = text
        .chars()
        .take(QUOTED)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(QUOTED).is_some() {
        quoted.push('…');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines below a good header.
    fn below(lines: &str) -> String {
        format!("{}\n{lines}", HEADER.join(","))
    }

    /// Line and reason of every fault.
    fn faults(text: impl AsRef<[u8]>) -> Vec<(u64, String)> {
        let faults = parse(text.as_ref()).expect_err("the text is bad");
        faults
            .into_iter()
            .map(|error| (error.line, error.reason))
            .collect()
    }

    #[test]
    fn good_lines_are_read_and_written() {
        let text =
            below("# a comment\n0,schedule,7,1000\n\n5, reschedule ,7,0\r\n9,cancel,7\n# end");
        let (first, second) = (
            Action::Schedule { delay_us: 1000 },
            Action::Reschedule { delay_us: 0 },
        );
        let actions = [(0, first), (5, second), (9, Action::Cancel)];
        let ops = actions.map(|(time_us, action)| Op {
            time_us,
            id: 7,
            action,
        });
        assert_eq!(parse(text.as_bytes()).unwrap(), ops);
        let mut file = Vec::new();
        write(&mut file, &ops).unwrap();
        assert_eq!(
            file,
            below("0,schedule,7,1000\n5,reschedule,7,0\n9,cancel,7,\n").as_bytes()
        );
        assert_eq!(parse(&file[..]).unwrap(), ops);
        assert_eq!(parse(below("").as_bytes()).unwrap(), []);
    }

    #[test]
    fn a_bad_line_is_named_with_the_reason() {
        for (line, reason) in [
            ("1,schedule,1", "delay_us must be a whole number"),
            ("1,schedule,1,-5", "found `-5`"),
            ("1,schedule,1,+5", "found `+5`"),
            ("1,schedule,1,1.5", "found `1.5`"),
            ("1,schedule,1,18446744073709551616", "delay_us must be"),
            ("soon,schedule,1,5", "time_us must be"),
            ("1,schedule,,5", "id must be"),
            (
                "1,start,1,5",
                "op must be schedule, reschedule or cancel, found `start`",
            ),
            ("1,cancel,0,5", "takes no delay_us"),
            ("1,cancel,9,", "id 9 was not scheduled"),
            ("1,reschedule,9,5", "id 9 was not scheduled"),
            ("1,schedule,0,5", "id 0 is scheduled a second time"),
            ("1,schedule", "found 2"),
            ("1,schedule,1,5,6", "found 5"),
        ] {
            let faults = faults(below(&format!("0,schedule,0,1\n{line}\n")));
            assert_eq!((faults.len(), faults[0].0), (1, 3), "{line}: {faults:?}");
            assert!(faults[0].1.contains(reason), "{line}: {}", faults[0].1);
        }
        for (text, reason) in [
            ("", "empty"),
            ("# no more", "empty"),
            ("0,schedule,1,5\n", "first line"),
            ("time_us,op,id\n", "first line"),
        ] {
            assert!(faults(text)[0].1.contains(reason), "{text}");
        }
    }

    #[test]
    fn all_bad_lines_are_listed_up_to_a_bound() {
        let text = below("9,schedule,1,1\nx,schedule,2,1\n3,cancel,1,\n9,cancel,2,\n");
        let lines: Vec<u64> = faults(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(
            lines,
            [3, 4, 5],
            "a timer on a bad line counts as not scheduled"
        );
        assert_eq!(faults(b"\xff\xfe,\n\0\0").len(), 2);
        let file = [
            below("").as_bytes(),
            &b"\xff,schedule,1,1\n".repeat(FAULTS_KEPT + 5),
        ]
        .concat();
        let faults = faults(file);
        assert_eq!(faults.len(), FAULTS_KEPT + 1);
        let last = (
            FAULTS_KEPT as u64 + 6,
            "and 5 more bad lines up to here".to_owned(),
        );
        assert_eq!(faults.last(), Some(&last));
    }
}
