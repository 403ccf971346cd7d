//! Runs the real program as a user would and looks at what it says, writes and returns.

mod churn;
mod runs;
mod server;

use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

/// The program in `folder`.
fn program(folder: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.current_dir(folder);
    command
}

/// Runs the program, which has to end with `code`; what it said on both channels.
fn ends(folder: &TempDir, arguments: &str, code: i32) -> (String, String) {
    said(program(folder).args(arguments.split_whitespace()), code)
}

/// The same under a limit of the shell, such as `-n 140`.
#[cfg(unix)]
fn ends_under(folder: &TempDir, limit: &str, arguments: &str, code: i32) -> (String, String) {
    let mut shell = Command::new("sh");
    let run = format!("ulimit {limit}; exec \"$0\" {arguments}");
    said(
        shell
            .args(["-c", &run, env!("CARGO_BIN_EXE_loadtest")])
            .current_dir(folder),
        code,
    )
}

fn said(command: &mut Command, code: i32) -> (String, String) {
    let output = command.output().expect("the program starts");
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert_eq!(
        output.status.code(),
        Some(code),
        "{command:?}: {out}\n{err}"
    );
    (out, err)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn json(folder: &TempDir, name: &str) -> Value {
    let file = std::fs::read_to_string(folder.path().join(name)).expect("the JSON file is there");
    serde_json::from_str(&file).expect("valid JSON")
}

fn number(json: &Value, name: &str) -> u64 {
    json[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} is {}", json[name]))
}

/// Verdict ok, and nothing wrong.
fn assert_ok(json: &Value, breaches: &[&str]) {
    assert_eq!(json["verdict"], "ok", "{json:#}");
    for breach in breaches {
        assert_eq!(json["breaches"][*breach], 0, "{breach}: {json:#}");
    }
}

/// The report praises the run, draws at least so many charts, and fetches nothing.
fn assert_page(folder: &TempDir, charts: usize) {
    let page = folder.path().join("tickwheel-report.html");
    let page = std::fs::read_to_string(page).expect("the report is there");
    assert!(page.contains("Verdict OK") && page.matches("<svg").count() >= charts);
    let outside = ["src=", "href=", "url(", "@import", "http://", "https://"];
    assert!(
        !outside.iter().any(|link| page.contains(link)),
        "the report fetches something"
    );
}

/// The first Ctrl-C or another signal, sent once the run has told of its progress, ends it early, and everything is
/// judged and written all the same: the exit code, and what `out.json` says.
#[cfg(unix)]
fn interrupted(folder: &TempDir, signal: &str, arguments: &str) -> (Option<i32>, Value) {
    use std::io::{BufRead as _, Read as _};
    use std::process::Stdio;

    let mut program = program(folder);
    program
        .args(arguments.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = program.spawn().expect("the program starts");
    let mut told = std::io::BufReader::new(child.stderr.take().expect("it is piped"));
    let mut err = String::new();
    told.read_line(&mut err).expect("progress");
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
    told.read_to_string(&mut err).expect("the rest");
    let output = child.wait_with_output().expect("the program ends");
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("ended early by request"), "{out}{err}");
    let json = json(folder, "out.json");
    assert_eq!(json["interrupted"], true);
    let verdict = json["verdict"].as_str().unwrap().to_uppercase();
    assert!(out.contains(&format!("verdict: {verdict}\n")), "{out}");
    (output.status.code(), json)
}
