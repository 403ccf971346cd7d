//! Runs of the load program itself: every kind of load, replays, what is refused.

use super::{assert_ok, assert_page, ends, ends_under, folder, interrupted, json};
use serde_json::Value;
use tempfile::TempDir;

/// The recorded workload that ships with the program.
const RECORDING: &str = include_str!("../../recordings/small.csv");

/// A count of the whole run.
fn number(json: &Value, name: &str) -> u64 {
    super::number(&json["counts"], name)
}

fn write(folder: &TempDir, name: &str, text: &str) {
    std::fs::write(folder.path().join(name), text).unwrap();
}

/// A run that ends with the verdict ok, nothing wrong, and a sum of all ends that is right.
fn sound(folder: &TempDir, run: &str) -> Value {
    ends(folder, &format!("{run} --json out.json --no-report"), 0);
    let json = json(folder, "out.json");
    assert_sound(&json);
    json
}

fn assert_sound(json: &Value) {
    assert_ok(json, &["early", "twice", "lost", "mismatches"]);
    let ended = number(json, "fired") + number(json, "cancelled") + number(json, "returned");
    assert_eq!(number(json, "accepted"), ended, "{json:#}");
}

/// Nothing was run, and no file but these is there.
fn assert_refused(folder: &TempDir, (out, err): (String, String), hints: &[&str], files: usize) {
    assert!(out.is_empty(), "nothing was run: {out}");
    assert!(
        hints.iter().all(|hint| err.contains(hint)),
        "{hints:?}: {err}"
    );
    assert_eq!(
        std::fs::read_dir(folder).unwrap().count(),
        files,
        "{hints:?}"
    );
}

#[test]
fn a_one_second_run_ends_with_verdict_table_and_files() {
    let folder = folder();
    let (out, _) = ends(
        &folder,
        "--duration 1s --cancel-share 0.9 --json out.json",
        0,
    );
    for part in [
        "schedule call",
        "firing lateness",
        "p99.9",
        "context switches",
        "verdict: OK",
    ] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    let (paced, full) = (out.find("\npaced, "), out.find("\nfull speed, "));
    assert!(
        paced.is_some() && paced < full,
        "the paced phase comes first:\n{out}"
    );
    let json = json(&folder, "out.json");
    assert_sound(&json);
    assert!(
        number(&json, "fired") > 0 && number(&json, "cancelled") > 0,
        "{json:#}"
    );
    let (settings, made) = (&json["settings"], &json["made_with"]);
    assert!(
        settings["tick"] == "1ms" && settings["cancel_share"] == 0.9,
        "{settings}"
    );
    assert!(
        made["command"]
            .as_str()
            .unwrap()
            .starts_with("loadtest --duration 1s"),
        "{made}"
    );
    assert!(
        made["compiler"].as_str().unwrap().starts_with("rustc "),
        "{made}"
    );
    for (phase, rate) in [(0, "50 k/s"), (1, "as high as possible")] {
        let phase = &json["phases"][phase];
        assert_eq!(phase["settings"]["rate"], rate, "{phase:#}");
        assert!(
            phase["figures"]["pairs_per_second"]["value"].as_f64() > Some(0.0),
            "{phase:#}"
        );
        assert!(
            phase["distributions"]["schedule"]["p99_9_ns"].as_u64() > Some(0),
            "{phase:#}"
        );
    }
    assert_page(&folder, 8);
    assert!(
        out.contains("tickwheel-report.html"),
        "the path is printed:\n{out}"
    );
}

#[test]
fn every_kind_of_load_holds_the_verdict() {
    let folder = folder();
    for run in [
        "--payload closure --reschedule-share 0.2",
        "--handles --reschedule-share 0.2 --cancel-share 0.5",
        "--payload closure --handles --tick 50us",
        "--max-pending 100 --in-flight 200",
        "--rate 5k --idle spin:50us --no-pin",
        "--delay uniform:0ms..2ms --cancel-share 0.3 --in-flight 10",
        "--shards 3 --producers 4 --cancel-share 1 --delay fixed:1h",
    ] {
        sound(&folder, &format!("--duration 300ms --quiet {run}"));
    }
}

#[test]
fn the_shipped_recording_replays_fast_and_exactly() {
    let folder = folder();
    write(&folder, "small.csv", RECORDING);
    sound(&folder, "replay small.csv --fast --tick 100us");
    sound(&folder, "replay small.csv --fast --max-pending 100");
    let json = sound(&folder, "replay small.csv --fast --linger 70s");
    assert!(
        number(&json, "fired") > 0 && number(&json, "rescheduled") > 0,
        "{json:#}"
    );
    assert_eq!(
        number(&json, "returned"),
        0,
        "all delays are shorter than the linger"
    );
}

#[test]
fn a_recording_can_be_replayed() {
    let folder = folder();
    let record = "--record new.csv --duration 300ms";
    assert_refused(
        &folder,
        ends(&folder, record, 2),
        &["give it one --rate"],
        0,
    );
    sound(
        &folder,
        &format!("{record} --rate 1k --in-flight 10 --reschedule-share 0.05"),
    );
    for way in ["", "--fast"] {
        let json = sound(&folder, &format!("replay new.csv --quiet {way}"));
        assert!(
            number(&json, "cancelled") > 0 && number(&json, "rescheduled") > 0,
            "{json:#}"
        );
    }
}

#[test]
fn a_bad_workload_is_refused_line_by_line() {
    let folder = folder();
    let header = "time_us,op,id,delay_us\n";
    let bad = "0,schedule,1,5\nsoon,schedule,2,5\n7,cancel,9,\n3,cancel,1,\n";
    let (third, fourth) = (
        "line 3: time_us must be a whole",
        "line 4: id 9 was not scheduled",
    );
    for (lines, hints) in [
        (
            bad,
            &["bad lines, nothing was run\n  line 3", third, fourth][..],
        ),
        (&"x\n".repeat(50), &["and 30 more bad lines"]),
        ("# nothing\n", &["no operation"]),
    ] {
        write(&folder, "bad.csv", &format!("{header}{lines}"));
        for way in ["", "--fast"] {
            let refused = ends(&folder, &format!("replay bad.csv {way}"), 2);
            assert_refused(&folder, refused, hints, 1);
        }
    }
}

#[test]
fn bad_options_exit_with_2_and_say_what_is_allowed() {
    let folder = folder();
    for (arguments, hint) in [
        ("--tick 1ns --duration 1s", "tick is 1ns; choose 1us to 1h"),
        ("--duration 5124095576030431h15s1000ms", "too large"),
        (
            "server --connections 10 --duration 500000000000y",
            "use a year or less",
        ),
        (
            "server --connections 10 --duration 1s --idle-timeout 500000000000y",
            "use a year or less",
        ),
        (
            "server --connections 10 --duration 1s --grace 500000000000y",
            "use a year or less",
        ),
        ("replay no-such-file.csv", "no-such-file.csv"),
        ("--no-such-option", "--help"),
    ] {
        assert_refused(&folder, ends(&folder, arguments, 2), &[hint], 0);
    }
}

/// The ledger has a slot for each timer in flight: 22 GiB here. A device that never ends is no workload.
#[cfg(target_os = "linux")]
#[test]
fn what_no_memory_has_room_for_is_refused_before_the_run() {
    let folder = folder();
    for (limit, run, code, hints) in [
        (
            "-v 3000000",
            "--in-flight 1000000000",
            3,
            ["no memory", "lower --in-flight"],
        ),
        (
            "-v 3000000",
            "replay /dev/zero",
            2,
            ["/dev/zero", "the file has more than"],
        ),
    ] {
        assert_refused(&folder, ends_under(&folder, limit, run, code), &hints, 0);
    }
}

/// The stacks of 1024 workers need 2 GiB. The first schedule starts them, in a producer.
#[cfg(target_os = "linux")]
#[test]
fn an_engine_that_gets_no_thread_ends_the_run_at_once() {
    let run = "--shards 1024 --producers 1 --rate 1k --duration 60s --no-report";
    let begun = std::time::Instant::now();
    let (_, err) = ends_under(&folder(), "-v 1500000", run, 3);
    assert!(err.contains("error: no thread for shard "), "{err}");
    assert!(
        begun.elapsed().as_secs() < 45,
        "it waited for the whole run"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_the_run() {
    let folder = folder();
    for option in ["--report", "--json", "--record"] {
        let run = format!("--duration 1h --rate 1k {option} no/such/place");
        assert_refused(
            &folder,
            ends(&folder, &run, 3),
            &["cannot write no/such/place"],
            0,
        );
    }
}

/// Two results in one file, or one in the file that is replayed or recorded: whatever comes last would be all there is.
/// A link to a file is that file, also where it is not there yet.
#[cfg(unix)]
#[test]
fn files_that_are_one_are_refused_before_the_run() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    write(&folder, "w.csv", RECORDING);
    std::os::unix::fs::symlink("w.csv", path("link")).unwrap();
    std::os::unix::fs::symlink("new", path("soft")).unwrap();
    for (arguments, names) in [
        ("--report x --json ./x", ["--report x", "--json ./x"]),
        ("--report soft --json new", ["--report soft", "--json new"]),
        (
            "server --report new --json soft",
            ["--report new", "--json soft"],
        ),
        ("--record x --no-report --json x", ["--json x", "FILE x"]),
        (
            "replay w.csv --no-report --json link",
            ["--json link", "FILE w.csv"],
        ),
        (
            "replay w.csv --fast --report w.csv",
            ["--report w.csv", "FILE w.csv"],
        ),
    ] {
        assert_refused(&folder, ends(&folder, arguments, 2), &names, 3);
    }
    assert_eq!(std::fs::read_to_string(path("w.csv")).unwrap(), RECORDING);
    ends(
        &folder,
        "--duration 100ms --report /dev/null --json /dev/null",
        0,
    );
    write(&folder, "out.json", &"x".repeat(1 << 20));
    sound(&folder, "--duration 100ms --quiet");
}

/// Every write to `/dev/full` fails, as to a pipe whose reader has gone away.
#[cfg(target_os = "linux")]
#[test]
fn an_error_output_that_takes_nothing_is_no_reason_to_fail() {
    let folder = folder();
    write(&folder, "small.csv", RECORDING);
    for run in [
        "--duration 300ms --rate 1k",
        "replay small.csv --fast",
        "server --connections 20 --duration 2s --idle-timeout 500ms",
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut bounded = std::process::Command::new("timeout");
        bounded
            .args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_loadtest")])
            .args(run.split_whitespace())
            .arg("--no-report")
            .current_dir(&folder)
            .stderr(full);
        let (out, _) = super::said(&mut bounded, 0);
        assert!(out.contains("verdict: OK"), "{out}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_and_sigterm_end_a_run_with_its_full_verdict() {
    for signal in ["-INT", "-TERM"] {
        let run = "--duration 1h --json out.json --rate 10k";
        let (code, json) = interrupted(&folder(), signal, run);
        assert_eq!(code, Some(0));
        assert_sound(&json);
    }
}

/// `nohup` ignores SIGHUP and runs the program.
#[cfg(unix)]
#[test]
fn a_hangup_that_the_caller_ignores_stays_ignored() {
    let folder = folder();
    let mut shell = std::process::Command::new("sh");
    let run = "trap '' HUP; (sleep 0.5; kill -HUP $$) & \
               exec \"$0\" --duration 1s --rate 1k --json out.json --no-report";
    shell
        .args(["-c", run, env!("CARGO_BIN_EXE_loadtest")])
        .current_dir(&folder);
    super::said(&mut shell, 0);
    let json = json(&folder, "out.json");
    assert_eq!(json["interrupted"], false);
}

/// What ends before its first timer has shown nothing: that is no OK.
#[cfg(unix)]
#[test]
fn ctrl_c_before_the_first_timer_is_not_ok() {
    let folder = folder();
    write(
        &folder,
        "late.csv",
        "time_us,op,id,delay_us\n3600000000,schedule,1,5\n",
    );
    let (code, json) = interrupted(&folder, "-INT", "replay late.csv --json out.json");
    assert_eq!((code, number(&json, "accepted")), (Some(4), 0));
    assert_eq!(json["verdict"], "nothing was run");
    let page = std::fs::read_to_string(folder.path().join("tickwheel-report.html")).unwrap();
    assert!(page.contains("Verdict NOTHING WAS RUN"), "{page}");
}
