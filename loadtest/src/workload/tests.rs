//! Good lines, bad lines, and what is no text at all.

use super::*;

fn faults(text: &str) -> Vec<(u64, String)> {
    let faults = parse(text.as_bytes()).expect_err("the text is bad");
    faults.into_iter().map(|error| (error.line, error.fault.to_string())).collect()
}

#[test]
fn reads_every_op() {
    let text = "time_us,op,id,delay_us\n# a comment\n0,schedule,7,1000\n\n\
                5, reschedule ,7,0\r\n5,cancel,7,\n9,cancel,7\n";
    let op = |time_us, action| Op { time_us, id: 7, action };
    assert_eq!(
        parse(text.as_bytes()).unwrap(),
        [
            op(0, Action::Schedule { delay_us: 1000 }),
            op(5, Action::Reschedule { delay_us: 0 }),
            op(5, Action::Cancel),
            op(9, Action::Cancel),
        ]
    );
}

/// Found by the fuzzer.
#[test]
fn a_comment_may_be_the_end_of_the_file() {
    assert_eq!(parse("time_us,op,id,delay_us\n# the end, 7".as_bytes()), Ok(Vec::new()));
}

#[test]
fn reads_back_what_it_writes() {
    let ops = [
        Op { time_us: 0, id: 1, action: Action::Schedule { delay_us: u64::MAX } },
        Op { time_us: 3, id: 1, action: Action::Reschedule { delay_us: 0 } },
        Op { time_us: u64::MAX, id: 1, action: Action::Cancel },
    ];
    let mut file = Vec::new();
    write(&mut file, &ops).unwrap();
    assert_eq!(parse(&file[..]).unwrap(), ops);
}

#[test]
fn names_the_line_and_the_reason() {
    for (line, reason) in [
        ("1,schedule,1", "delay_us must be a whole number"),
        ("1,schedule,1,-5", "found `-5`"),
        ("1,schedule,1,+5", "found `+5`"),
        ("1,schedule,1,1.5", "found `1.5`"),
        ("1,schedule,1,18446744073709551616", "delay_us must be"),
        ("soon,schedule,1,5", "time_us must be"),
        ("1,schedule,,5", "id must be"),
        ("1,start,1,5", "op must be schedule, reschedule or cancel, found `start`"),
        ("1,cancel,0,5", "takes no delay_us"),
        ("1,cancel,9,", "id 9 was not scheduled"),
        ("1,reschedule,9,5", "id 9 was not scheduled"),
        ("1,schedule,0,5", "id 0 is scheduled a second time"),
        ("1,schedule", "found 2"),
        ("1,schedule,1,5,6", "found 5"),
    ] {
        let faults = faults(&format!("time_us,op,id,delay_us\n0,schedule,0,1\n{line}\n"));
        assert_eq!(faults.len(), 1, "{line}: {faults:?}");
        assert_eq!(faults[0].0, 3, "{line}");
        assert!(faults[0].1.contains(reason), "{line}: {}", faults[0].1);
    }
}

#[test]
fn lists_all_bad_lines_and_goes_on_behind_each() {
    let text = "time_us,op,id,delay_us\n9,schedule,1,1\nx,schedule,2,1\n3,cancel,1,\n9,cancel,2,\n";
    let lines: Vec<u64> = faults(text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [3, 4, 5], "a timer on a bad line counts as not scheduled");
}

#[test]
fn wants_its_header() {
    assert!(faults("").remove(0).1.contains("empty"));
    assert!(faults("0,schedule,1,5\n").remove(0).1.contains("first line"));
    assert!(faults("time_us,op,id\n").remove(0).1.contains("first line"));
    assert_eq!(parse("time_us,op,id,delay_us\n".as_bytes()).unwrap(), []);
}

#[test]
fn survives_what_is_no_text() {
    assert!(parse(&[0xff, 0xfe, b',', b'\n', 0, 0][..]).is_err());
    let mut file = b"time_us,op,id,delay_us\n".to_vec();
    file.extend(b"\xff,schedule,1,1\n".repeat(FAULTS_KEPT + 5));
    let faults = parse(&file[..]).unwrap_err();
    assert_eq!(faults.len(), FAULTS_KEPT + 1);
    assert_eq!(faults.last().unwrap().fault, Fault::More(5));
}

/// A device that never ends, and one that never ends a line: both have bounds, which the error names.
#[test]
fn a_file_without_an_end_is_refused() {
    let error = |file: &mut dyn Read| parse(file).unwrap_err().pop().unwrap().fault.to_string();
    let zeros = error(&mut std::io::repeat(0));
    assert!(zeros.contains("a line has more than 65536 bytes"), "{zeros}");
    let mut comments = Bounded { reader: std::io::repeat(b'\n'), line: 0, left: 100_000 };
    let copied = std::io::copy(&mut comments, &mut std::io::sink()).unwrap_err();
    assert!(copied.to_string().contains("the file has more than"), "{copied}");
}

#[test]
fn cuts_long_quotes() {
    let (_, reason) = faults(&format!("{}\n", "x".repeat(10_000))).remove(0);
    assert!(reason.len() < 200, "{reason}");
}
