//! The load: nghttp2's `h2load` against a server in a process of its own.

use super::serve::{Served, Variant};
use crate::measure::Sorted;
use clap::ValueEnum;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What a server is put under.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name in tables.
    pub id: &'static str,
    /// What it is like.
    pub text: &'static str,
    http2: bool,
    connections: u32,
    streams: u32,
    /// Requests per second and connection; `None` for as many as are answered.
    pace: Option<f64>,
}

/// All of them.
pub const SCENARIOS: [Scenario; 3] = [
    Scenario {
        id: "http1-full",
        text: "HTTP/1.1, 100 connections, each of which asks again as soon as it is answered",
        http2: false,
        connections: 100,
        streams: 1,
        pace: None,
    },
    Scenario {
        id: "http1-10k",
        text: "HTTP/1.1, 10 000 connections with one request per second each",
        http2: false,
        connections: 10_000,
        streams: 1,
        pace: Some(1.0),
    },
    Scenario {
        id: "http2-full",
        text: "HTTP/2, 20 connections with 50 streams each, each of which asks again as soon as it is answered",
        http2: true,
        connections: 20,
        streams: 50,
        pace: None,
    },
];

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Measured seconds.
    pub seconds: u32,
    /// A hundredth of the connections, for trying this program out.
    pub tiny: bool,
}

/// One server's figures under one load, in the order of the columns.
pub(super) type Figures = Vec<(&'static str, f64)>;

impl Scenario {
    fn arguments(&self, load: Load, port: u16, log: &Path) -> Vec<String> {
        let connections =
            if load.tiny { (self.connections / 100).max(2) } else { self.connections };
        let mut arguments = vec![
            format!("--clients={connections}"),
            format!("--max-concurrent-streams={}", self.streams),
            "--threads=1".to_owned(),
            format!("--duration={}", load.seconds),
            "--warm-up-time=2".to_owned(),
            "--header=x-deadline-ms: 2000".to_owned(),
            format!("--log-file={}", log.display()),
        ];
        if !self.http2 {
            arguments.push("--h1".to_owned());
        }
        arguments.extend(self.pace.map(|pace| format!("--rps={pace}")));
        arguments.push(format!("http://127.0.0.1:{port}/"));
        arguments
    }

    /// Puts a new server under the load.
    ///
    /// # Errors
    ///
    /// If server or generator cannot be run, or a request failed.
    pub(super) fn measure(&self, variant: Variant, load: Load) -> Result<Figures, String> {
        let (mut server, port) = start(variant, self.http2)?;
        let log = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let said = generate(&self.arguments(load, port, log.path()));
        let served = stop(&mut server);
        let (said, served) = (said?, served?);
        let failed = failures(&said).ok_or_else(|| format!("not understood: {said}"))?;
        if failed > 0 {
            return Err(format!("{failed} requests failed"));
        }
        let log = std::fs::read_to_string(log.path()).map_err(|error| error.to_string())?;
        let latencies = latencies(&log);
        let rate = rate(&said).ok_or_else(|| format!("not understood: {said}"))?;
        Ok(figures(rate, &Sorted::new(latencies), &served))
    }
}

fn figures(rate: f64, latencies: &Sorted, served: &Served) -> Figures {
    let per_request = |count: u64| count as f64 / served.requests.max(1) as f64;
    let calls = per_request(served.made + served.reset);
    let at = |p| latencies.at(p) / 1e3;
    vec![
        ("requests/s", rate),
        ("CPU us/request", per_request(served.cpu_us)),
        ("p50 ms", at(0.5)),
        ("p99 ms", at(0.99)),
        ("p99.9 ms", at(0.999)),
        ("timer calls/request", calls),
        ("timer calls/s", calls * rate),
        ("thread sleeps/request", per_request(served.switches)),
    ]
}

/// A server in a process of its own, and its port.
fn start(variant: Variant, http2: bool) -> Result<(Child, u16), String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let name = variant.to_possible_value().map(|value| value.get_name().to_owned());
    let mut server = Command::new(this)
        .args(["serve", &name.unwrap_or_default()])
        .args(http2.then_some("--http2"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start a server: {error}"))?;
    let port = line_of(&mut server).and_then(|line| line.parse().map_err(|_| line));
    match port {
        Ok(port) => Ok((server, port)),
        Err(line) => {
            let _ = server.kill();
            let _ = server.wait();
            Err(format!("the server names no port: {line}"))
        }
    }
}

/// The next line that a server prints; it prints two in its life.
fn line_of(server: &mut Child) -> Result<String, String> {
    let output = server.stdout.as_mut().ok_or("the output is read elsewhere")?;
    let mut line = String::new();
    // A buffer of one byte: the rest is read by the next call.
    let read = BufReader::with_capacity(1, output).read_line(&mut line);
    read.map_err(|error| error.to_string())?;
    Ok(line.trim_end().to_owned())
}

fn stop(server: &mut Child) -> Result<Served, String> {
    drop(server.stdin.take());
    let line = line_of(server)?;
    server.wait().map_err(|error| error.to_string())?;
    Served::of_line(&line).ok_or_else(|| format!("the server said {line}"))
}

fn generate(arguments: &[String]) -> Result<String, String> {
    let output = Command::new("h2load").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| {
        format!("cannot start h2load (Debian's package nghttp2-client): {error}")
    })?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    Err(format!("h2load: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// `finished in 5.00s, 81234.20 req/s, 4.26MB/s`
fn rate(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("finished in "))?;
    line.split(", ").find_map(|part| part.strip_suffix(" req/s"))?.parse().ok()
}

/// `requests: 9 total, 9 started, 9 done, 9 succeeded, 0 failed, 0 errored, 0 timeout`
fn failures(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let count = |name: &str| -> Option<u64> {
        line.split(", ").find_map(|part| part.strip_suffix(name))?.parse().ok()
    };
    // Those that are under way when the time is over count as started, and as nothing else.
    Some(count(" failed")? + count(" errored")? + count(" timeout")?)
}

/// Start in microseconds, status, microseconds to the response: a line each.
fn latencies(log: &str) -> Vec<i64> {
    log.lines().filter_map(|line| line.split('\t').nth(2)?.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_generator_says_is_understood() {
        let said = "starting benchmark...\nfinished in 5.00s, 81234.20 req/s, 4.26MB/s\n\
                    requests: 9 total, 9 started, 9 done, 7 succeeded, 1 failed, 0 errored, 1 timeout\n";
        assert_eq!((rate(said).map(f64::round), failures(said)), (Some(81234.0), Some(2)));
        assert_eq!((rate("nothing"), failures("requests: none")), (None, None));
        assert_eq!(latencies("1700000000\t200\t812\n1700000001\t200\t95\nnoise\n"), [812, 95]);
    }

    #[test]
    fn figures_are_told_per_request() {
        let served =
            Served { requests: 1000, made: 2000, reset: 2000, cpu_us: 9000, switches: 500 };
        let figures = figures(500.0, &Sorted::new(vec![1000; 10]), &served);
        let value = |name| figures.iter().find(|figure| figure.0 == name).unwrap().1;
        assert!((value("CPU us/request") - 9.0).abs() < 1e-9);
        assert!((value("timer calls/s") - 2000.0).abs() < 1e-9);
        assert!((value("p99.9 ms") - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_load_is_told_to_the_generator() {
        let load = Load { seconds: 3, tiny: true };
        let arguments = SCENARIOS[1].arguments(load, 80, Path::new("log"));
        for expected in ["--clients=100", "--h1", "--rps=1", "http://127.0.0.1:80/"] {
            assert!(arguments.iter().any(|argument| argument == expected), "{arguments:?}");
        }
        assert!(SCENARIOS[2].arguments(load, 80, Path::new("log")).iter().all(|it| it != "--h1"));
    }
}
