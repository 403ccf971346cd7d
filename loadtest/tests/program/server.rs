//! Runs `loadtest server` as a user would: real connections, real verdicts.

use super::{assert_ok, assert_page, ends, ends_under, folder, json, number};
use serde_json::Value;

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

fn assert_sound(json: &Value) {
    assert_ok(json, ["early", "forgotten", "corrupt", "mismatches"]);
    let counts = &json["counts"];
    let ended = number(counts, "closed") + number(counts, "open_at_end");
    assert_eq!(number(counts, "opened"), ended, "{json:#}");
}

#[test]
fn two_hundred_connections_are_closed_in_time() {
    let folder = folder();
    let always = ["server", "--connections", "200", "--idle-timeout", "1s", "--json", "out.json"];
    let (out, _) = ends(&folder, &[&always[..], &["--duration", "2s"]].concat(), 0);
    for part in ["chatty", "silent", "late p50", "server context switches", "verdict: OK"] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    let json = json(&folder, "out.json");
    assert_sound(&json);
    assert!(number(&json["counts"], "opened") > 200, "closed ones are replaced: {json:#}");
    assert!(number(&json["phases"][0]["figures"]["messages"], "value") > 0, "{json:#}");
    assert_page(&folder, 4);
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
        let (out, _) = ends(&folder, &[&SMALL[..], &wrong].concat(), 1);
        assert!(out.contains(word) && out.contains("verdict: BREACH"), "{out}");
        let json = json(&folder, "out.json");
        assert!(number(&json["breaches"], breach) > 0, "{json:#}");
        let page = std::fs::read_to_string(folder.path().join("tickwheel-report.html")).unwrap();
        assert!(page.contains("Verdict BREACH") && page.contains(word));
    }
}

/// A limit of 140 files has room for 140 - 64 - 2 * 4 connections.
#[cfg(unix)]
#[test]
fn a_low_file_limit_is_named_and_used_up() {
    let folder = folder();
    let small = SMALL.map(|argument| if argument == "60" { "5000" } else { argument });
    let loops = ["--quiet", "--loops", "2", "--client-loops", "1"];
    let (out, err) = ends_under(&folder, "-n 140", &[&small[..], &loops].concat(), 0);
    let words = "the limit of 140 open files allows 68 of the 5000 connections asked for";
    assert!(err.contains(words) && err.contains("ulimit -n"), "{err}");
    assert_eq!(out.lines().count(), 4, "quiet says only the verdict: {out}");
    let json = json(&folder, "out.json");
    assert_sound(&json);
    assert_eq!(json["settings"]["connections"], 68);
}

/// The first Ctrl-C ends the run early, with a verdict over what is known by then.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_with_its_verdict() {
    let run = SMALL.map(|argument| if argument == "400ms" { "1h" } else { argument });
    let (code, json) = super::interrupted(&folder(), &run);
    assert_eq!(code, Some(0));
    assert_sound(&json);
}

#[test]
fn impossible_options_exit_with_2() {
    let folder = folder();
    for (arguments, hint) in [
        (&["server", "--chatty-share", "0.9", "--fading-share", "0.2"][..], "make 1 or less"),
        (&["server", "--idle-timeout", "5ms"], "is too short to be judged; use 100ms"),
    ] {
        let (_, err) = ends(&folder, arguments, 2);
        assert!(err.contains(hint), "{}", err);
    }
}
