//! Runs `loadtest server` as a user would: real connections, real verdicts.

use super::{assert_ok, assert_page, folder, json, loadtest, number, text};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Few connections and a short run, for a machine that is busy with other tests.
const SMALL: [&str; 9] = [
    "server",
    "--connections",
    "60",
    "--duration",
    "400ms",
    "--idle-timeout",
    "500ms",
    "--json",
    "out.json",
];

/// A figure of the run.
fn figure(json: &Value, name: &str) -> u64 {
    number(&json["phases"][0]["figures"][name], "value")
}

/// What the table says of one kind of connections.
fn of_kind<'a>(json: &'a Value, kind: &str) -> &'a Value {
    let kinds = json["phases"][0]["tables"]["kinds"].as_array().expect("there is such a table");
    kinds.iter().find(|row| row["kind"] == kind).unwrap_or(&Value::Null)
}

fn assert_sound(json: &Value) {
    assert_ok(json, ["early", "forgotten", "corrupt", "mismatches"]);
}

#[test]
fn two_hundred_connections_are_closed_in_time() {
    let folder = folder();
    let always = ["server", "--connections", "200", "--idle-timeout", "1s", "--json", "out.json"];
    let output = loadtest(&folder, &[&always[..], &["--duration", "2s"]].concat());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    for part in ["chatty", "half-open", "late p50", "server context switches", "verdict: OK"] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    assert!(err.contains("full load") && err.contains("closed"), "progress:\n{err}");
    let json = json(&folder, "out.json");
    assert_sound(&json);
    let counts = &json["counts"];
    let (opened, closed) = (number(counts, "opened"), number(counts, "closed"));
    assert!(opened > 200 && opened == closed, "closed ones are replaced: {json:#}");
    let kinds = ["chatty", "fading", "silent", "half-open", "flooding"];
    let of = |kind: &str, name: &str| number(of_kind(&json, kind), name);
    assert_eq!(kinds.map(|kind| of(kind, "opened")).iter().sum::<u64>(), opened);
    // Floods that have begun end unseen.
    assert!(kinds[..4].iter().all(|kind| of(kind, "lateness_max_ns") > 0), "{json:#}");
    assert!(of("chatty", "echoed_bytes") > 0 && figure(&json, "messages") > 100);
    assert_eq!(of("half-open", "echoed_bytes"), 0, "they never read");
    assert!(figure(&json, "heartbeats") >= figure(&json, "heartbeats_read"));
    assert_page(&folder, 6);
}

/// The server is told another timeout than the one it is judged by.
#[test]
fn a_server_with_the_wrong_timeout_is_found_out() {
    for (told, breach, word) in [
        ("400ms", "early", "before it had been idle long enough"),
        ("1h", "forgotten", "still open"),
    ] {
        let folder = folder();
        let wrong = ["--tell-server", told, "--grace", "400ms"];
        let output = loadtest(&folder, &[&SMALL[..], &wrong].concat());
        let out = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{out}\n{}", text(&output.stderr));
        assert!(out.contains(word) && out.contains("verdict: BREACH"), "{out}");
        let json = json(&folder, "out.json");
        assert!(number(&json["breaches"], breach) > 0, "{json:#}");
        assert!(json["phases"][0]["findings"][0].as_str().unwrap().starts_with(breach), "{json:#}");
        let page = std::fs::read_to_string(folder.path().join("tickwheel-report.html")).unwrap();
        assert!(page.contains("Verdict BREACH") && page.contains(word));
    }
}

#[test]
fn quiet_says_only_the_verdict_and_kinds_can_be_chosen() {
    let folder = folder();
    let only = ["--chatty-share", "0", "--fading-share", "0", "--half-open-share", "0"];
    let quiet = ["--flooding-share", "0", "--quiet", "--no-report"];
    let output = loadtest(&folder, &[&SMALL[..], &only, &quiet].concat());
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}");
    assert_eq!(out.lines().count(), 3, "{out}");
    let json = json(&folder, "out.json");
    assert_sound(&json);
    assert_eq!(of_kind(&json, "silent")["opened"], json["counts"]["opened"]);
    assert_eq!(json["phases"][0]["figures"]["sent_bytes_per_second"]["value"], 0.0);
}

/// A limit of 140 files has room for 140 - 64 - 2 * 4 connections.
#[cfg(unix)]
#[test]
fn a_low_file_limit_is_named_and_used_up() {
    let folder = folder();
    let small = SMALL.map(|argument| if argument == "60" { "5000" } else { argument }).join(" ");
    let program = env!("CARGO_BIN_EXE_loadtest");
    let script = format!("ulimit -n 140; exec '{program}' {small} --loops 2 --client-loops 1");
    let output = Command::new("sh").args(["-c", &script]).current_dir(&folder).output().unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let words = "the limit of 140 open files allows 68 of the 5000 connections asked for";
    assert!(err.contains(words) && err.contains("ulimit -n"), "{err}");
    assert!(text(&output.stdout).contains(words), "{}", text(&output.stdout));
    let json = json(&folder, "out.json");
    assert_sound(&json);
    assert_eq!(json["settings"]["connections"], 68);
}

/// The first Ctrl-C ends the run early, with a verdict over what is known by then.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_with_its_verdict() {
    let run = SMALL.map(|argument| if argument == "400ms" { "1h" } else { argument });
    let (code, json) = super::interrupted(&folder(), &run, Duration::from_millis(1500));
    assert_eq!(code, Some(0));
    assert_sound(&json);
    let counts = &json["counts"];
    let ended = number(counts, "closed") + number(counts, "open_at_end");
    assert_eq!(number(counts, "opened"), ended, "{json:#}");
}

#[test]
fn impossible_options_exit_with_2() {
    let folder = folder();
    for (arguments, hint) in [
        (&["server", "--chatty-share", "0.9", "--fading-share", "0.2"][..], "make 1 or less"),
        (
            &["server", "--idle-timeout", "5ms"],
            "--idle-timeout 5ms is too short to be judged; use 100ms",
        ),
        (&["server", "--connections", "many"], "whole number from 1"),
    ] {
        let output = loadtest(&folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(hint), "{}", text(&output.stderr));
    }
}
