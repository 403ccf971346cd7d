//! Drives the example `idle_server` with real connections and judges when it closes them.
//!
//! The server runs in a process of its own, and client loops in this one hold thousands of connections to
//! it, of five kinds. Connections that the server closes are replaced until the load is over; then all fall
//! silent, and the server has to close every one. So the exact expected set is: every connection, an idle
//! timeout after its last act, and none before.
//!
//! * `host` - the server's process; `process` - the hold on it from here; `limits` - how many fit
//! * `kind` - the kinds of clients and when they speak
//! * `client` - a loop with many connections; `connection` - one of them
//! * `activity` - the books on one connection, and the judgement over its close
//! * `tally` - figures and breaches by kind; `verdict` - holds them against the server's own counts
//! * `monitor` - samples and progress while it runs

mod activity;
mod client;
mod connection;
mod host;
mod kind;
mod limits;
mod monitor;
mod process;
mod tally;
mod verdict;

use std::sync::Arc;
use std::thread::JoinHandle;

pub(crate) use host::{ServerCounts, host};
pub(crate) use kind::{KINDS, Kind};
pub(crate) use monitor::Sample;
pub(crate) use tally::{KindTally, Tally};
pub(crate) use verdict::Verdict;

use crate::cli::{ServerSettings, SettingRow};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine::{self, Cost, Machine, Usage};
use crate::progress::Progress;
use activity::Rules;
use client::{Client, Signals, Task};
use monitor::Monitor;
use process::ServerProcess;
use tally::Live;

/// Everything that a report on a run against the server shows.
pub(crate) struct ServerOutcome {
    pub(crate) machine: Machine,
    pub(crate) settings: Vec<SettingRow>,
    /// Seconds until the last connection was closed.
    pub(crate) seconds: f64,
    /// Ended by Ctrl-C.
    pub(crate) interrupted: bool,
    pub(crate) verdict: Verdict,
    pub(crate) tally: Tally,
    /// What the server's process counted and cost, if it answered.
    pub(crate) server: Option<ServerCounts>,
    /// What the clients' process cost.
    pub(crate) client_cost: Cost,
    pub(crate) client_peak_bytes: Option<u64>,
    pub(crate) samples: Vec<Sample>,
    /// What a reader must know to judge the figures.
    pub(crate) remark: Option<String>,
}

/// Runs server and clients and judges the server.
pub(crate) fn run(
    settings: &ServerSettings,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<ServerOutcome, Failure> {
    let mut settings = settings.clone();
    let shortage = fit(&mut settings)?;
    let settings = &settings;
    let server = ServerProcess::start(&settings.host())?;
    let usage = Usage::now();
    let signals = Signals::default();
    let live: Vec<Arc<Live>> = (0..settings.client_loops).map(|_| Arc::default()).collect();
    let mut clients = Vec::with_capacity(live.len());
    for (task, live) in tasks(settings, &server).into_iter().zip(&live) {
        clients.push(spawn(task, &signals, live)?);
    }

    let length = settings.duration + settings.idle;
    let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let mut progress = Progress::new(length, quiet);
    let mut monitor = Monitor::new(settings, live, server.id());
    let interrupted = monitor.watch(&clients, &signals, interrupt, &mut progress);

    progress.phase("checking the books");
    let ends = clients.into_iter().map(|client| match client.join() {
        Ok(end) => end,
        Err(_) => Err(Failure::System("a client loop panicked".to_owned())),
    });
    let ends = ends.collect::<Result<Vec<_>, _>>()?;
    let client_cost = Usage::now().since(&usage);
    // The server goes first: what is still open must not look as if its client had hung up.
    let counts = server.stop();
    let mut tally = Tally::default();
    for (client, part) in ends {
        tally.absorb(part);
        drop(client);
    }
    let verdict = Verdict::reach(&mut tally, &counts, interrupted);
    Ok(ServerOutcome {
        machine: Machine::look_up(),
        settings: settings.rows(),
        seconds: monitor.seconds(),
        interrupted,
        remark: remark(shortage, settings, &verdict),
        verdict,
        tally,
        server: counts.ok(),
        client_cost,
        client_peak_bytes: machine::peak_resident_bytes(),
        samples: monitor.samples,
    })
}

/// Lowers the number of connections to what the system allows; a text if it had to.
fn fit(settings: &mut ServerSettings) -> Result<Option<String>, Failure> {
    let open_files = limits::raise_open_files();
    let loops = settings.loops.max(settings.client_loops);
    let wanted = settings.connections;
    settings.connections = limits::connections(wanted, open_files, loops);
    let Some(limit) = open_files.filter(|_| settings.connections < wanted) else {
        return Ok(None);
    };
    let cure = format!("raise it with `ulimit -n {}` or more", wanted * 11 / 10 + 100);
    if settings.connections == 0 {
        let text = format!("the limit of {limit} open files has no room for connections; {cure}");
        return Err(Failure::System(text));
    }
    let text = format!(
        "the limit of {limit} open files allows {} of the {wanted} connections asked for; {cure}",
        settings.connections
    );
    eprintln!("note: {text}");
    Ok(Some(text))
}

/// Deals the connections out to the client loops.
fn tasks(settings: &ServerSettings, server: &ServerProcess) -> Vec<Task> {
    let mut rng = fastrand::Rng::with_seed(settings.seed);
    let kinds = kind::deal(settings.connections, &settings.shares, &mut rng);
    let rules = Rules { idle: settings.idle, grace: settings.grace };
    let per_loop = kinds.len().div_ceil(settings.client_loops);
    let parts = kinds.chunks(per_loop).enumerate().map(|(number, part)| Task {
        number,
        loops: settings.client_loops,
        server: server.addr,
        sources: limits::sources(settings.connections),
        kinds: part.to_vec(),
        rules,
        seed: rng.u64(..),
    });
    parts.collect()
}

/// A client loop with what it has counted; the connections it has left stay open with it.
type ClientEnd = Result<(Client, Tally), Failure>;

fn spawn(
    task: Task,
    signals: &Signals,
    live: &Arc<Live>,
) -> Result<JoinHandle<ClientEnd>, Failure> {
    let number = task.number;
    let failed = move |error| {
        let text = format!("client loop {number} cannot go on: {error}");
        Failure::System(text)
    };
    let mut client = Client::new(task, signals.clone(), Arc::clone(live)).map_err(failed)?;
    let halt = signals.halt.clone();
    let run = move || {
        let ran = client.run();
        if ran.is_err() {
            halt.raise();
        }
        let tally = client.finish();
        ran.map(|()| (client, tally)).map_err(failed)
    };
    std::thread::Builder::new().name(format!("client-{number}")).spawn(run).map_err(failed)
}

/// Notes for whoever judges the figures.
fn remark(
    shortage: Option<String>,
    settings: &ServerSettings,
    verdict: &Verdict,
) -> Option<String> {
    let cores = machine::cores();
    let shared = (settings.loops + settings.client_loops > cores).then(|| {
        format!(
            "{} server loops and {} client loops share {cores} cores; lateness and round trips include \
             waiting for a core",
            settings.loops, settings.client_loops
        )
    });
    let excused = (verdict.excused > 0).then(|| {
        format!(
            "{} closes could not be judged because this program itself sent too late; use fewer \
             connections or a longer --idle-timeout",
            verdict.excused
        )
    });
    let notes: Vec<String> = [shortage, shared, excused].into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}
