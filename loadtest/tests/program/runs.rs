//! Runs of the load program itself: every kind of load, replays, comparisons, what is refused.

use super::{assert_ok, assert_page, ends, ends_under, folder, json, loadtest, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The recorded workload that ships with the program.
fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings/small.csv")
}

/// A count of the whole run.
fn number(json: &Value, name: &str) -> u64 {
    super::number(&json["counts"], name)
}

/// Verdict ok, nothing wrong, and the sum of all ends is right.
fn assert_sound(json: &Value) {
    assert_ok(json, &["early", "twice", "lost", "mismatches"]);
    let ended = number(json, "fired") + number(json, "cancelled") + number(json, "returned");
    assert_eq!(number(json, "accepted"), ended, "{json:#}");
}

#[test]
fn a_one_second_run_ends_with_verdict_table_and_files() {
    let folder = folder();
    let run = ["--duration", "1s", "--cancel-share", "0.9", "--json", "out.json"];
    let (out, _) = ends(&folder, &run, 0);
    for part in ["schedule call", "firing lateness", "p99.9", "context switches", "verdict: OK"] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    let (paced, full) = (out.find("\npaced, "), out.find("\nfull speed, "));
    assert!(paced.is_some() && paced < full, "the paced phase comes first:\n{out}");
    let json = json(&folder, "out.json");
    assert_sound(&json);
    assert!(number(&json, "fired") > 0 && number(&json, "cancelled") > 0, "{json:#}");
    assert_eq!(json["settings"]["tick"], "1ms");
    assert_eq!(json["settings"]["cancel_share"], 0.9);
    assert!(json["command"].as_str().unwrap().starts_with("loadtest --duration 1s"));
    for name in ["started", "ended"] {
        assert!(json[name].as_str().unwrap().ends_with('Z'), "{name}: {}", json[name]);
    }
    for name in ["version", "commit", "compiler", "profile"] {
        assert!(!json["build"][name].as_str().unwrap().is_empty(), "{name}");
    }
    for (phase, rate) in [(0, "50 k/s"), (1, "as high as possible")] {
        let phase = &json["phases"][phase];
        assert_eq!(phase["settings"]["rate"], rate, "{phase:#}");
        assert!(phase["figures"]["pairs_per_second"]["value"].as_f64().unwrap() > 0.0);
        for name in ["schedule", "cancel", "lateness"] {
            // Null where a busy machine left no time for any.
            let at = |what: &str| phase["distributions"][name][what].as_u64().unwrap_or(0);
            assert!(at("p50_ns") <= at("p99_ns") && at("p99_ns") <= at("p99_9_ns"));
            assert!(at("p99_9_ns") <= at("max_ns"), "{phase:#}");
        }
    }
    assert_page(&folder, 8);
    assert!(out.contains("tickwheel-report.html"), "the path is printed:\n{out}");
}

#[test]
fn every_kind_of_load_holds_the_verdict() {
    let runs: [&[&str]; 7] = [
        &["--payload", "closure", "--reschedule-share", "0.2"],
        &["--handles", "--reschedule-share", "0.2", "--cancel-share", "0.5"],
        &["--payload", "closure", "--handles", "--wheel", "hashed:64", "--tick", "50us"],
        &["--max-pending", "100", "--in-flight", "200"],
        &["--rate", "5k", "--idle", "spin:50us", "--no-pin"],
        &["--delay", "uniform:0ms..2ms", "--cancel-share", "0.3", "--in-flight", "10"],
        &["--shards", "3", "--producers", "4", "--cancel-share", "1", "--delay", "fixed:1h"],
    ];
    let folder = folder();
    for run in runs {
        let always = ["--duration", "300ms", "--json", "out.json", "--no-report", "--quiet"];
        ends(&folder, &[&always[..], run].concat(), 0);
        assert_sound(&json(&folder, "out.json"));
    }
}

#[test]
fn the_shipped_recording_replays_fast_and_exactly() {
    let folder = folder();
    let file = recording();
    let file = file.to_str().unwrap();
    for extra in [&[][..], &["--linger", "70s"], &["--wheel", "hashed:8", "--tick", "100us"]] {
        let always = ["replay", file, "--fast", "--json", "out.json", "--no-report"];
        ends(&folder, &[&always[..], extra].concat(), 0);
        let json = json(&folder, "out.json");
        assert_sound(&json);
        assert!(number(&json, "fired") > 0 && number(&json, "rescheduled") > 0, "{json:#}");
        if extra.contains(&"--linger") {
            assert_eq!(number(&json, "returned"), 0, "all delays are shorter than the linger");
        }
    }
}

#[test]
fn a_recording_can_be_replayed_in_real_time() {
    let folder = folder();
    let record = ["--record", "new.csv", "--duration", "300ms", "--no-report"];
    let (_, err) = ends(&folder, &record, 2);
    assert!(err.contains("give it one --rate"), "{}", err);
    let (out, _) =
        ends(&folder, &[&record[..], &["--rate", "1k", "--reschedule-share", "0.05"]].concat(), 0);
    assert!(out.contains("recorded"));
    for fast in [&[][..], &["--fast"]] {
        let replay = ["replay", "new.csv", "--json", "out.json", "--no-report", "--quiet"];
        ends(&folder, &[&replay[..], fast].concat(), 0);
        assert_sound(&json(&folder, "out.json"));
    }
}

#[test]
fn a_bad_workload_is_refused_line_by_line() {
    let folder = folder();
    let bad =
        "time_us,op,id,delay_us\n0,schedule,1,5\nsoon,schedule,2,5\n7,cancel,9,\n3,cancel,1,\n";
    std::fs::write(folder.path().join("bad.csv"), bad).unwrap();
    let (out, err) = ends(&folder, &["replay", "bad.csv"], 2);
    assert!(err.contains("line 3: time_us must be a whole number"), "{err}");
    assert!(err.contains("line 4: id 9 was not scheduled"), "{err}");
    assert!(!err.contains("line 2") && !err.contains("line 5"), "{err}");
    assert!(out.is_empty(), "nothing was run");

    let many = format!("time_us,op,id,delay_us\n{}", "x\n".repeat(50));
    std::fs::write(folder.path().join("bad.csv"), many).unwrap();
    let err = text(&loadtest(&folder, &["replay", "bad.csv", "--fast"]).stderr);
    assert!(err.contains("and 30 more bad lines"), "{err}");
}

/// What never ends is refused before it has filled the memory.
#[cfg(target_os = "linux")]
#[test]
fn a_device_is_refused_as_a_workload() {
    let replay = ["replay", "/dev/zero", "--no-report"];
    let (_, err) = ends_under(&folder(), "-v 1000000", &replay, 2);
    assert!(err.contains("a line has more than 65536 bytes"), "{err}");
}

#[test]
fn an_empty_workload_is_an_error() {
    let folder = folder();
    std::fs::write(folder.path().join("empty.csv"), "time_us,op,id,delay_us\n# nothing\n").unwrap();
    for way in [&["replay", "empty.csv"][..], &["replay", "empty.csv", "--fast"]] {
        let (_, err) = ends(&folder, way, 2);
        assert!(err.contains("no operation"), "{}", err);
    }
}

#[test]
fn bad_options_exit_with_2_and_say_what_is_allowed() {
    let folder = folder();
    for (arguments, hint) in [
        (&["--wheel", "square"][..], "hierarchical, hashed or hashed:512"),
        (&["replay", "no-such-file.csv"], "no-such-file.csv"),
        (&["--no-such-option"], "--help"),
    ] {
        let (_, err) = ends(&folder, arguments, 2);
        assert!(err.contains(hint), "{arguments:?}: {err}");
    }
}

/// The ledger has a slot for each timer in flight: 22 GiB here.
#[cfg(target_os = "linux")]
#[test]
fn timers_that_no_memory_has_room_for_are_refused_before_the_run() {
    let folder = folder();
    let run = ["--in-flight", "1000000000", "--producers", "1"];
    let (out, err) = ends_under(&folder, "-v 3000000", &run, 3);
    assert!(err.contains("no memory") && err.contains("lower --in-flight"), "{err}");
    assert!(out.is_empty(), "nothing was run");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "no file is left");
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_the_run() {
    let folder = folder();
    for option in ["--report", "--json"] {
        let (out, err) = ends(&folder, &["--duration", "1h", option, "no/such/place"], 3);
        assert!(out.is_empty(), "nothing was run");
        assert!(err.contains("cannot write no/such/place"));
    }
    let record = ["--record", "no/such/place", "--rate", "1k", "--duration", "1h"];
    assert_eq!(loadtest(&folder, &record).status.code(), Some(3));
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert!(left.is_empty(), "a run that does not begin leaves no files: {left:?}");
}

/// Two results in one file, or one in the file that is replayed or recorded: whatever comes last would be all there is.
#[test]
fn files_that_are_one_are_refused_before_the_run() {
    let folder = folder();
    let workload = std::fs::read(recording()).unwrap();
    std::fs::write(folder.path().join("w.csv"), &workload).unwrap();
    for (arguments, names) in [
        (&["--report", "x", "--json", "./x"][..], ["--report x", "--json ./x"]),
        (&["server", "--report", "x", "--json", "x"], ["--report x", "--json x"]),
        (&["--record", "x", "--no-report", "--json", "x"], ["--json x", "FILE x"]),
        (&["replay", "w.csv", "--no-report", "--json", "w.csv"], ["--json w.csv", "FILE w.csv"]),
        (&["replay", "w.csv", "--fast", "--report", "w.csv"], ["--report w.csv", "FILE w.csv"]),
    ] {
        let (out, err) = ends(&folder, arguments, 2);
        assert!(names.iter().all(|name| err.contains(name)), "{arguments:?}: {err}");
        assert!(out.is_empty(), "nothing was run");
    }
    assert_eq!(std::fs::read(folder.path().join("w.csv")).unwrap(), workload);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no other file is left");
}

/// A link to a file is that file, also where it is not there yet.
#[cfg(unix)]
#[test]
fn links_to_one_file_are_refused() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("old"), "old").unwrap();
    std::os::unix::fs::symlink("old", path("link")).unwrap();
    std::os::unix::fs::symlink("new", path("soft")).unwrap();
    for [page, json] in [["old", "link"], ["soft", "new"], ["new", "soft"]] {
        let (_, err) = ends(&folder, &["--report", page, "--json", json], 2);
        assert!(err.contains(&format!("--report {page} and --json {json}")), "{err}");
    }
    assert_eq!(std::fs::read(path("old")).unwrap(), b"old");
    assert!(!path("new").exists() && path("soft").is_symlink(), "the file is gone, the link stays");
    let run = ["--duration", "100ms", "--report", "/dev/null", "--json", "/dev/null"];
    assert_eq!(loadtest(&folder, &run).status.code(), Some(0), "a device takes both");
}

#[test]
fn results_replace_older_ones_and_may_go_to_a_device() {
    let folder = folder();
    std::fs::write(folder.path().join("out.json"), "x".repeat(1 << 20)).unwrap();
    let run = ["--duration", "100ms", "--quiet", "--json", "out.json", "--report", "/dev/null"];
    ends(&folder, &run, 0);
    assert_sound(&json(&folder, "out.json"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_with_its_full_verdict() {
    let run = ["--duration", "1h", "--json", "out.json", "--rate", "10k"];
    let (code, json) = super::interrupted(&folder(), &run);
    assert_eq!(code, Some(0));
    assert_sound(&json);
}

/// What ends before its first timer has shown nothing: that is no OK.
#[cfg(unix)]
#[test]
fn ctrl_c_before_the_first_timer_is_not_ok() {
    let folder = folder();
    let workload = "time_us,op,id,delay_us\n3600000000,schedule,1,5\n";
    std::fs::write(folder.path().join("late.csv"), workload).unwrap();
    let run = ["replay", "late.csv", "--json", "out.json"];
    let (code, json) = super::interrupted(&folder, &run);
    assert_eq!((code, number(&json, "accepted")), (Some(4), 0));
    assert_eq!(json["verdict"], "nothing was run");
    let page = std::fs::read_to_string(folder.path().join("tickwheel-report.html")).unwrap();
    assert!(page.contains("Verdict NOTHING WAS RUN"), "{page}");
}
