//! Starts server and clients, ends them in good order, and has them judged.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::activity::Rules;
use super::client::{Client, Signals, Task};
use super::kind;
use super::monitor::Monitor;
use super::outcome::Outcome;
use super::process::ServerProcess;
use super::totals::{Live, Totals};
use super::verdict::Verdict;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::report::model::Report;
use crate::settings::server::ServerSettings;
use crate::usage::{Surroundings, Usage};
use crate::{limits, machine};

/// Runs server and clients and judges the server.
pub(crate) fn run(
    settings: &ServerSettings,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let mut settings = settings.clone();
    let shortage = fit(&mut settings)?;
    let settings = &settings;
    let server = ServerProcess::start(&settings.host())?;
    let (usage, surroundings) = (Usage::now(), Surroundings::now());
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

    progress.phase("checking the ledger");
    let ends = clients.into_iter().map(|client| match client.join() {
        Ok(end) => end,
        Err(_) => Err(Failure::System("a client loop panicked".to_owned())),
    });
    let ends = ends.collect::<Result<Vec<_>, _>>()?;
    let client_cost = Usage::now().since(&usage);
    // The server goes first: what is still open must not look as if its client had hung up.
    let counts = server.stop();
    let mut totals = Totals::default();
    for (client, part) in ends {
        totals.absorb(part);
        drop(client);
    }
    let verdict = Verdict::reach(&mut totals, &counts, interrupted);
    let own_cpu = counts.as_ref().ok().and_then(|counts| counts.cost.cpu_s());
    let own_cpu = client_cost.cpu_s().zip(own_cpu).map(|(clients, server)| clients + server);
    let disturbance = Surroundings::now().since(&surroundings, own_cpu);
    let seconds = monitor.seconds();
    let mut notes = disturbance.notes(seconds, 0.0, None);
    notes.extend(shortage);
    notes.extend(more_notes(settings, &verdict));
    let outcome = Outcome {
        seconds,
        verdict,
        totals,
        server: counts.ok(),
        client_cost,
        client_peak_bytes: machine::peak_resident_bytes(),
        samples: monitor.samples,
    };
    Ok(Report {
        kind: "server run",
        settings: settings.rows(),
        interrupted,
        phases: vec![outcome.phase()],
        notes,
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
type ClientEnd = Result<(Client, Totals), Failure>;

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
        let totals = client.finish();
        ran.map(|()| (client, totals)).map_err(failed)
    };
    std::thread::Builder::new().name(format!("client-{number}")).spawn(run).map_err(failed)
}

/// Notes for whoever judges the figures.
fn more_notes(settings: &ServerSettings, verdict: &Verdict) -> Vec<String> {
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
             --connections or a longer --idle-timeout",
            verdict.excused
        )
    });
    [shared, excused].into_iter().flatten().collect()
}
