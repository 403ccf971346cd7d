//! The end of a phase: stop the engine under fire, gather what every thread knows, judge.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use hdrhistogram::Histogram;
use tickwheel::{RawKey, Timer, Unfired};

use super::monitor::Monitor;
use super::payload::{Grip, Load};
use super::producer::ProducerEnd;
use super::recording;
use super::session::Session;
use crate::failure::Failure;
use crate::findings::Breach;
use crate::interrupt::Interrupt;
use crate::ledger::table::{Ledger, Ticket};
use crate::ledger::totals::{EngineCounts, Totals};
use crate::machine;
use crate::measure::histogram;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::report::model::Phase;
use crate::settings::setting::Setting;
use crate::usage::Cost;

/// What the monitor and the system saw while the load ran.
pub(crate) struct Watched<'a> {
    pub(crate) monitor: Monitor<'a>,
    pub(crate) cost: Cost,
    pub(crate) interrupted: bool,
}

/// What a phase came to.
pub(crate) struct PhaseEnd {
    pub(crate) phase: Phase,
    pub(crate) note: Option<String>,
    pub(crate) ops: Vec<recording::Logged>,
    pub(crate) interrupted: bool,
}

pub(crate) fn finish<L: Load, G: Grip<L::Payload>>(
    session: &Session<'_>,
    ledger: &Arc<Ledger>,
    timer: &Timer<L::Payload>,
    threads: Vec<JoinHandle<ProducerEnd>>,
    halt: &Interrupt,
    watched: Watched<'_>,
    progress: &mut Progress,
) -> Result<PhaseEnd, Failure> {
    // The producers are still at it: a stop that races with schedule and cancel is the hard case.
    progress.phase("stopping the engine under load");
    let unfired = timer.stop();
    halt.raise();
    let unfired = unfired.map_err(|error| Failure::System(error.to_string()))?;
    let gathered = Gathered::join(threads)?;
    progress.phase(&format!("checking the ledger; stop returned {} timers", unfired.len()));
    let returned = returned_tickets::<L>(ledger, &unfired, &gathered.open);
    drop(unfired);
    let resident_end = machine::resident_bytes();

    let stats = timer.stats();
    let verdict = ledger.audit(&returned, &gathered.totals, &EngineCounts::from(&stats));
    let Watched { monitor, cost, interrupted } = watched;
    let seconds = monitor.seconds();
    let outcome = Outcome {
        name: session.phase.name,
        settings: vec![Setting::rate("rate", session.phase.rate)],
        seconds,
        samples: monitor.samples,
        resident_before: monitor.resident_before,
        resident_end,
        cost,
        schedule: gathered.schedule,
        cancel: gathered.cancel,
        ledger,
        totals: &gathered.totals,
        stats: &stats,
        verdict,
    };
    Ok(PhaseEnd { note: note(session), phase: outcome.phase(), ops: gathered.logs, interrupted })
}

/// Threads that never rest and have to share cores change what latency and lateness mean.
fn note(session: &Session<'_>) -> Option<String> {
    let (cores, producers) = (machine::cores(), session.load.producers);
    let shards = session.engine.shards;
    (session.phase.rate.is_none() && producers + shards > cores).then(|| {
        format!(
            "{producers} producers at full speed and {shards} workers share {cores} cores; latency and \
             lateness include waiting for a core"
        )
    })
}

/// What all producers left behind.
struct Gathered {
    totals: Totals,
    schedule: Histogram<u64>,
    cancel: Histogram<u64>,
    open: Vec<(RawKey, Ticket)>,
    logs: Vec<recording::Logged>,
}

impl Gathered {
    fn join(threads: Vec<JoinHandle<ProducerEnd>>) -> Result<Self, Failure> {
        let mut all = Self {
            totals: Totals::default(),
            schedule: histogram(),
            cancel: histogram(),
            open: Vec::new(),
            logs: Vec::new(),
        };
        for (number, thread) in threads.into_iter().enumerate() {
            let end = thread
                .join()
                .map_err(|_| Failure::System(format!("producer {number} panicked")))?;
            if let Some(trouble) = end.trouble {
                return Err(Failure::System(trouble));
            }
            all.totals.add(&end.totals);
            let same = "all latency histograms have the same bounds";
            all.schedule.add(&end.schedule).expect(same);
            all.cancel.add(&end.cancel).expect(same);
            all.open.extend(end.open);
            all.logs.extend(end.log);
        }
        Ok(all)
    }
}

/// Which timers `stop` returned: read from the payload, or found by key where the payload is opaque.
fn returned_tickets<L: Load>(
    ledger: &Ledger,
    unfired: &[Unfired<L::Payload>],
    open: &[(RawKey, Ticket)],
) -> Vec<Ticket> {
    let by_key: HashMap<RawKey, Ticket> = open.iter().copied().collect();
    unfired
        .iter()
        .filter_map(|unfired| {
            let by_key = by_key.get(&unfired.key.to_raw()).copied();
            let carried = L::ticket(&unfired.payload);
            if by_key.is_none() || carried.is_some_and(|carried| Some(carried) != by_key) {
                ledger.breach_text(
                    Breach::Mismatch,
                    format!(
                        "stop returned {:?} carrying {carried:?}; its producer knows it as {by_key:?}",
                        unfired.key
                    ),
                );
            }
            carried.or(by_key)
        })
        .collect()
}
