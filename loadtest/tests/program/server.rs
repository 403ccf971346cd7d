//! Runs `loadtest server` as a user would: real connections, real verdicts.

use super::{assert_ok, assert_page, ends, ends_under, folder, interrupted, json, number};
use serde_json::Value;

fn assert_sound(json: &Value) {
    assert_ok(json, &["early", "forgotten", "mismatches"]);
    let counts = &json["counts"];
    let ended = number(counts, "closed") + number(counts, "open_at_end");
    assert_eq!(number(counts, "opened"), ended, "{json:#}");
}

#[test]
fn two_hundred_connections_are_closed_in_time() {
    let folder = folder();
    let run = "server --connections 200 --duration 2s --idle-timeout 1s --json out.json";
    let (out, _) = ends(&folder, run, 0);
    for part in ["close lateness", "context switches", "verdict: OK"] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    let json = json(&folder, "out.json");
    assert_sound(&json);
    assert!(
        number(&json["counts"], "opened") > 200,
        "closed ones are replaced: {json:#}"
    );
    let echoed = &json["phases"][0]["figures"]["echoed_bytes"]["value"];
    assert!(echoed.as_f64() > Some(0.0), "{json:#}");
    assert_page(&folder, 3);
}

/// The server is told another timeout than the one it is judged by.
#[test]
fn a_server_with_the_wrong_timeout_is_found_out() {
    let run = "server --connections 60 --duration 400ms --idle-timeout 500ms --grace 400ms";
    for (told, breach, word) in [
        ("400ms", "early", "before it had been idle long enough"),
        ("1h", "forgotten", "still open"),
    ] {
        let folder = folder();
        let (out, _) = ends(
            &folder,
            &format!("{run} --tell-server {told} --json out.json"),
            1,
        );
        assert!(
            out.contains(word) && out.contains("verdict: BREACH"),
            "{out}"
        );
        let json = json(&folder, "out.json");
        assert!(number(&json["breaches"], breach) > 0, "{json:#}");
        let page = std::fs::read_to_string(folder.path().join("tickwheel-report.html")).unwrap();
        assert!(page.contains("Verdict BREACH") && page.contains(word));
    }
}

#[cfg(unix)]
#[test]
fn a_low_file_limit_is_named_and_used_up() {
    let run = "server --connections 600 --duration 400ms --idle-timeout 500ms --loops 2 --quiet";
    let (out, err) = ends_under(&folder(), "-n 140", run, 0);
    let words = "the limit of 140 open files allows 34 of the 600 connections asked for";
    assert!(
        err.contains(words) && err.contains("`ulimit -n 1272`"),
        "{err}"
    );
    assert!(
        out.contains("verdict: OK") && !out.contains("p99"),
        "only the verdict: {out}"
    );
}

/// The first Ctrl-C ends the run early, with a verdict over what is known by then.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_with_its_verdict() {
    let run = "server --connections 60 --duration 1h --idle-timeout 500ms --json out.json";
    let (code, json) = interrupted(&folder(), "-INT", run);
    assert_eq!(code, Some(0));
    assert_sound(&json);
}
