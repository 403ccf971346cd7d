//! Drives an idle server with real connections and judges when it closes them.
//!
//! Clients hold thousands of connections to the server. Connections that the server closes are replaced until the load
//! is over; then all fall silent, and the server has to close every one. So the exact expected set is: every
//! connection, an idle timeout after its last act, and none before.
//!
//! * `host` - the server: a TCP echo server with one `mio` loop per core, each with its own timer
//! * `client` - the connections, and what they have counted
//! * `activity` - the record of one connection, and the judgement over its close

mod activity;
mod client;
mod host;

use self::client::{Clients, Totals};
use self::host::{Counts, Server};
use crate::failure::Failure;
use crate::findings::Breach;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::measure::{Meter, Sample};
use crate::numbers::count;
use crate::options::ServerOptions;
use crate::progress::{Progress, say};
use crate::report::model::{Distribution, Figure, Phase, Report, Timeline, Unit, Verdict};

/// Runs server and clients and judges the server.
pub(crate) fn run(
    options: &ServerOptions,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let mut options = options.clone();
    let shortage = fit(&mut options);
    if let Some(note) = &shortage {
        say(&format!("note: {note}"));
    }
    let length = options.duration + options.idle_timeout;
    let mut meter = Meter::new(length);
    let mut progress = Progress::new(length.as_millis() as u64, quiet);
    let failed = |error| Failure::System(format!("the server or a client has failed: {error}"));
    let told = options.tell_server.unwrap_or(options.idle_timeout);
    let server = Server::start(told, options.loops).map_err(failed)?;
    let mut clients = Clients::new(&server, &options).map_err(failed)?;
    meter.begin();
    clients
        .run(&mut meter, interrupt, &mut progress)
        .map_err(failed)?;
    let mut totals = std::mem::take(&mut clients.totals);
    drop(clients);
    let counts = server.stop().map_err(failed)?;
    let interrupted = interrupt.is_raised();
    let verdict = verdict(&mut totals, &counts, interrupted);
    let excuse = format!(
        "{} closes could not be judged because this program itself sent too late; use fewer \
         --connections or a longer --idle-timeout",
        totals.excused
    );
    let notes = shortage
        .into_iter()
        .chain((totals.excused > 0).then_some(excuse))
        .collect();
    let phases = vec![phase(verdict, totals, &meter)];
    Ok(Report {
        kind: "server run",
        interrupted,
        phases,
        notes,
        ..Report::default()
    })
}

/// Raises the limit of open files, and lowers the number of connections to what has room; a note if it had to.
fn fit(options: &mut ServerOptions) -> Option<String> {
    // Beside both ends of each connection: standard streams and files; poll, waker and listener of each loop.
    let (wanted, others) = (options.connections, 64 + 4 * options.loops);
    let limit = machine::raise_open_files()?;
    options.connections = ((limit as usize).saturating_sub(others) / 2).clamp(1, wanted);
    let (allowed, needed) = (options.connections, 2 * wanted + others);
    (allowed < wanted).then(|| {
        format!(
            "the limit of {limit} open files allows {allowed} of the {wanted} connections asked for; raise \
             it with `ulimit -n {needed}`"
        )
    })
}

/// Holds the server's counts against those of the clients, and judges the run. After an early end the two may differ.
fn verdict(totals: &mut Totals, server: &Counts, interrupted: bool) -> Verdict {
    let (opened, closed, open) = (totals.opened, totals.closed, totals.open());
    if !interrupted && open == 0 {
        let sent = totals.sent;
        // A close that nobody is to blame for may have lost bytes.
        let told = totals.excused == 0;
        for (what, theirs, ours) in [
            ("connections accepted", server.accepted.get(), opened),
            ("idle connections closed", server.closed_idle.get(), closed),
            (
                "connections ended by their clients",
                server.closed_by_peer.get(),
                0,
            ),
            ("timers pending at the end", server.timers.get(), 0),
            (
                "bytes echoed",
                if told { server.echoed.get() } else { sent },
                sent,
            ),
            (
                "bytes of echo that arrived",
                if told { totals.echoed } else { sent },
                sent,
            ),
        ] {
            totals.findings.compare(what, theirs, ours);
        }
    }
    let [o, c, e] = [opened, closed, open].map(count);
    Verdict {
        began: opened,
        balance: format!("opened {o} = closed by the server {c} + open at the end {e}"),
        counts: vec![
            ("opened", opened),
            ("closed", closed),
            ("open_at_end", open),
            ("excused", totals.excused),
        ],
        breaches: totals
            .findings
            .counts(&[Breach::Early, Breach::Forgotten, Breach::Mismatch]),
        findings: totals.findings.lines(),
    }
}

fn phase(verdict: Verdict, totals: Totals, meter: &Meter) -> Phase {
    let open = |sample: &Sample| (sample.at_s, (sample.begun - sample.ended) as f64);
    let held: Vec<_> = meter.samples.iter().map(open).collect();
    let most = held.iter().map(|(_, open)| *open).fold(0.0, f64::max);
    let figure = |key, label, unit, value: u64| Figure::new(key, label, unit, value as f64);
    let mut figures = vec![
        Figure::new("held_most", "connections held open", Unit::Count, most),
        figure("closed", "closed as idle", Unit::Count, totals.closed),
        figure(
            "excused",
            "not judged, after a delay of this program",
            Unit::Count,
            totals.excused,
        ),
        figure("echoed", "echo", Unit::Bytes, totals.echoed),
    ];
    figures.extend(meter.figures());
    let open = Timeline {
        key: "open",
        title: "Open connections",
        about: "Closed ones are replaced until the load is over; then all fall silent.",
        unit: Unit::Count,
        points: held,
    };
    let lateness = Distribution {
        key: "lateness",
        label: "close lateness",
        histogram: totals.lateness,
        chart: "Close lateness by percentile",
        about: "From the client's last act plus the idle timeout to the close that it sees.",
    };
    Phase {
        name: "server",
        settings: Vec::new(),
        seconds: meter.seconds,
        verdict,
        figures,
        timelines: vec![open, meter.memory()],
        tables: Vec::new(),
        distributions: vec![lateness],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::activity::Judgement;
    use super::*;

    /// Judges ten connections, one of them so, by the counts of a server that agrees but for what `forge` adds.
    fn judged(judgement: Judgement, forge: fn(&Counts)) -> Verdict {
        let mut totals = Totals {
            opened: 10,
            closed: 9,
            sent: 1000,
            echoed: 1000,
            ..Totals::default()
        };
        totals.enter(judgement, Duration::from_secs(1), "connection 7");
        let server = Counts::default();
        server.accepted.add(10);
        server.closed_idle.add(10);
        server.echoed.add(1000);
        forge(&server);
        verdict(&mut totals, &server, false)
    }

    #[test]
    fn every_wrong_close_and_every_wrong_count_is_a_breach() {
        let by = Duration::from_millis(3);
        assert!(judged(Judgement::InTime(by), |_| ()).is_ok());
        let excused = judged(Judgement::Excused, |server| server.echoed.add(1));
        assert!(
            excused.is_ok() && excused.counts.contains(&("excused", 1)),
            "{excused:?}"
        );
        let late = Judgement::InTime(Duration::from_secs(2));
        for (judgement, finding) in [
            (
                Judgement::Early(by),
                "early: connection 7: closed 3 ms before",
            ),
            (late, "forgotten: connection 7: 2 s late"),
        ] {
            let verdict = judged(judgement, |_| ());
            assert!(
                !verdict.is_ok() && verdict.findings[0].starts_with(finding),
                "{verdict:?}"
            );
        }
        let forgeries: [fn(&Counts); 5] = [
            |server| server.accepted.add(1),
            |server| server.closed_idle.add(1),
            |server| server.closed_by_peer.add(1),
            |server| server.echoed.add(1),
            |server| server.timers.add(1),
        ];
        for (number, forge) in forgeries.into_iter().enumerate() {
            assert!(
                !judged(Judgement::InTime(by), forge).is_ok(),
                "forgery {number}"
            );
        }
    }
}
