//! Starts server and clients, ends them in good order, and has them judged.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::activity::Rules;
use super::client::{Client, Live, Signals, Task};
use super::connection::Kind;
use super::outcome;
use super::process::ServerProcess;
use super::totals::Totals;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::numbers::{bytes, count, or_na};
use crate::outcome::{LOOK_EVERY, Sample, sample_every};
use crate::progress::Progress;
use crate::report::model::Report;
use crate::settings::server::ServerSettings;
use crate::usage::Usage;

/// Runs server and clients and judges the server.
pub(crate) fn run(
    settings: &ServerSettings,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let mut settings = settings.clone();
    let shortage = fit(&mut settings)?;
    let settings = &settings;
    let told = settings.tell_server.unwrap_or(settings.idle_timeout);
    let server = ServerProcess::start(told, settings.loops)?;
    let usage = Usage::now();
    let mut notes: Vec<String> = machine::busy_note().into_iter().collect();
    let signals = Signals::default();
    let live: Vec<Arc<Live>> = (0..settings.client_loops).map(|_| Arc::default()).collect();
    let tasks = tasks(settings, &server).into_iter().zip(&live);
    let clients = tasks.map(|(task, live)| spawn(task, &signals, live));
    let clients = clients.collect::<Result<Vec<_>, _>>()?;

    let length = settings.duration + settings.idle_timeout;
    let mut progress = Progress::new(u64::try_from(length.as_millis()).unwrap_or(u64::MAX), quiet);
    let watch = Watch { settings, live: &live, server: server.id() };
    let (samples, interrupted) = watch.until_the_end(&clients, &signals, interrupt, &mut progress);

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
    let verdict = totals.verdict(&counts, interrupted);
    let phase = outcome::phase(verdict, &totals, counts.as_ref().ok(), &client_cost, &samples);
    notes.extend(shortage);
    notes.extend(more_notes(settings, totals.all().excused));
    Ok(Report {
        kind: "server run",
        settings: settings.rows(),
        interrupted,
        phases: vec![phase],
        notes,
    })
}

/// Lowers the number of connections to what the system allows; a text if it had to.
fn fit(settings: &mut ServerSettings) -> Result<Option<String>, Failure> {
    // Descriptors that are not connections: standard streams, pipes, files; a poll and a waker per loop.
    let others = 64 + 4 * settings.loops.max(settings.client_loops);
    let limit =
        machine::raise_open_files().map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let wanted = settings.connections;
    let Some(limit) = limit.filter(|limit| limit.saturating_sub(others) < wanted) else {
        return Ok(None);
    };
    settings.connections = limit.saturating_sub(others);
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
    let part = |share: f64| (share * settings.connections as f64).round() as usize;
    let chatty = std::iter::repeat_n(Kind::Chatty, part(settings.chatty_share));
    let fading = std::iter::repeat_n(Kind::Fading, part(settings.fading_share));
    let mut kinds: Vec<Kind> = chatty.chain(fading).take(settings.connections).collect();
    kinds.resize(settings.connections, Kind::Silent);
    rng.shuffle(&mut kinds);
    let parts = kinds.chunks(kinds.len().div_ceil(settings.client_loops)).enumerate();
    let parts = parts.map(|(number, part)| Task {
        number,
        loops: settings.client_loops,
        server: server.addr,
        kinds: part.to_vec(),
        rules: Rules { idle: settings.idle_timeout, grace: settings.grace },
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
    let failed =
        move |error| Failure::System(format!("client loop {number} cannot go on: {error}"));
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

/// Samples, progress, the end of the load and of the run.
struct Watch<'a> {
    settings: &'a ServerSettings,
    live: &'a [Arc<Live>],
    server: u32,
}

impl Watch<'_> {
    /// Watches until all clients have ended by themselves (`false`), or until an early end is asked for
    /// (`true`), of which they are told.
    fn until_the_end<T>(
        &self,
        clients: &[JoinHandle<T>],
        signals: &Signals,
        interrupt: &Interrupt,
        progress: &mut Progress,
    ) -> (Vec<Sample>, bool) {
        let (started, settings) = (Instant::now(), self.settings);
        let sample_every = sample_every(settings.duration + settings.idle_timeout);
        let mut samples = vec![self.sample(Duration::ZERO)];
        // When every connection had been opened once: the load counts from there.
        let mut complete = None;
        let mut phase = "opening";
        loop {
            let elapsed = started.elapsed();
            let interrupted = interrupt.is_raised();
            if interrupted || clients.iter().all(JoinHandle::is_finished) {
                signals.halt.raise();
                samples.push(self.sample(elapsed));
                return (samples, interrupted);
            }
            let opened: u64 = self.live.iter().map(|live| live.opened.get()).sum();
            if complete.is_none() && opened >= settings.connections as u64 {
                (complete, phase) = (Some(elapsed), "full load");
            }
            if complete.is_some_and(|complete| elapsed >= complete + settings.duration) {
                signals.wind_down.raise();
                phase = "all silent";
            }
            if elapsed.as_secs_f64() >= samples[samples.len() - 1].at_s + sample_every {
                let now = self.sample(elapsed);
                samples.push(now);
                progress.at(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX), || {
                    format!(
                        "{:.1} s {phase:<10}  {} open  {} closed  {} of echo  server {}",
                        now.at_s,
                        count(now.begun.saturating_sub(now.ended)),
                        count(now.ended),
                        bytes(now.third),
                        or_na(now.resident_bytes, bytes),
                    )
                });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn sample(&self, elapsed: Duration) -> Sample {
        let sum = |count: fn(&Live) -> u64| self.live.iter().map(|live| count(live)).sum();
        Sample {
            at_s: elapsed.as_secs_f64(),
            // What ends a connection first: its begin cannot be missing then.
            ended: sum(|live| live.closed.get()),
            begun: sum(|live| live.opened.get()),
            third: sum(|live| live.echoed.get()),
            resident_bytes: machine::resident_bytes_of(self.server),
        }
    }
}

/// Notes for whoever judges the figures.
fn more_notes(settings: &ServerSettings, excused: u64) -> Vec<String> {
    let (cores, loops, clients) = (machine::cores(), settings.loops, settings.client_loops);
    let mut notes = Vec::new();
    if loops + clients > cores {
        notes.push(format!(
            "{loops} server loops and {clients} client loops share {cores} cores; lateness and round \
             trips include waiting for a core"
        ));
    }
    if excused > 0 {
        notes.push(format!(
            "{excused} closes could not be judged because this program itself sent too late; use fewer \
             --connections or a longer --idle-timeout"
        ));
    }
    notes
}
