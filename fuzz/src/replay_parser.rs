//! The load program's workload files: whatever the bytes, an answer; what is accepted reads back as written.

use std::collections::HashSet;
use tickwheel_loadtest::workload::{Action, FAULTS_KEPT, HEADER, LineError, Op, parse, write};

/// Runs the bytes as a file, and as the lines below a good header.
pub fn check(file: &[u8]) {
    one(file);
    one(&[HEADER.join(",").as_bytes(), b"\n", file].concat());
}

fn one(file: &[u8]) {
    let parsed = parse(file);
    match &parsed {
        Ok(ops) => accepted(ops),
        Err(faults) => refused(file, faults),
    }
    if let Some(expected) = naive(file) {
        assert_eq!(parsed.ok(), expected, "the naive reader disagrees");
    }
}

fn accepted(ops: &[Op]) {
    let mut file = Vec::new();
    write(&mut file, ops).expect("memory takes everything");
    assert_eq!(
        parse(&file[..]).as_deref(),
        Ok(ops),
        "what was written reads back"
    );
    assert!(ops.is_sorted_by_key(|op| op.time_us));
}

fn refused(file: &[u8], faults: &[LineError]) {
    assert!(
        (1..=FAULTS_KEPT + 1).contains(&faults.len()),
        "{} faults",
        faults.len()
    );
    assert!(faults.is_sorted_by_key(|fault| fault.line));
    let lines = 1 + file
        .iter()
        .filter(|byte| matches!(byte, b'\n' | b'\r'))
        .count() as u64;
    for fault in faults {
        assert!(
            (1..=lines).contains(&fault.line),
            "{fault} in a file of {lines} lines"
        );
        let text = fault.to_string();
        assert!(text.len() < 1000 && !text.contains('\n'), "{text}");
    }
}

/// Reads a file as the documentation describes it, and no more than that: plain text without quotes. The
/// operations, or nothing where there is a fault; no answer where the file is not that plain.
fn naive(file: &[u8]) -> Option<Option<Vec<Op>>> {
    let plain = |byte: &u8| matches!(byte, b'\n' | b' ' | b'!' | b'#' | b'$'..=b'~');
    let text = std::str::from_utf8(file)
        .ok()
        .filter(|_| file.iter().all(plain))?;
    // A line of blanks is an empty line to people and a record of one empty field to a reader of CSV.
    if text
        .lines()
        .any(|line| !line.is_empty() && line.trim().is_empty())
    {
        return None;
    }
    let mut lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let header: Option<Vec<&str>> = lines
        .next()
        .map(|line| line.split(',').map(str::trim).collect());
    if header.as_deref() != Some(&HEADER[..]) {
        return Some(None);
    }
    let (mut known, mut latest) = (HashSet::new(), 0);
    Some(
        lines
            .map(|line| naive_line(line, &mut known, &mut latest))
            .collect(),
    )
}

fn naive_line(line: &str, known: &mut HashSet<u64>, latest: &mut u64) -> Option<Op> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| digits)
    };
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let (time, name, id, delay) = match fields[..] {
        [time, name, id] => (time, name, id, ""),
        [time, name, id, delay] => (time, name, id, delay),
        _ => return None,
    };
    let (time_us, id) = (number(time)?, number(id)?);
    let action = match name {
        "schedule" => Action::Schedule {
            delay_us: number(delay)?,
        },
        "reschedule" => Action::Reschedule {
            delay_us: number(delay)?,
        },
        "cancel" if delay.is_empty() => Action::Cancel,
        _ => return None,
    };
    let is_new = matches!(action, Action::Schedule { .. });
    if time_us < *latest || is_new == known.contains(&id) {
        return None;
    }
    known.insert(id);
    *latest = time_us;
    Some(Op {
        time_us,
        id,
        action,
    })
}
