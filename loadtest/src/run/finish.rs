//! The end of a run: stop the engine under fire, gather what every thread knows, judge.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use hdrhistogram::Histogram;
use tickwheel::{Key, Stats, Timer, Unfired};

use super::load::{Grip, Load};
use super::monitor::{Monitor, Sample};
use super::producer::ProducerEnd;
use super::{Session, recording};
use crate::book::{Book, EngineCounts, Kind, Tally, Ticket, Verdict, histogram};
use crate::cli::SettingRow;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine::{self, Cost, Machine};
use crate::progress::Progress;
use crate::report::{Memory, Outcome, ShardLine, Wakes};
use crate::workload::Op;

/// What the monitor and the system saw while the load ran.
pub(crate) struct Watched<'a> {
    pub(crate) monitor: Monitor<'a>,
    pub(crate) cost: Cost,
    pub(crate) interrupted: bool,
}

pub(crate) fn finish<L: Load, G: Grip<L::Payload>>(
    session: &Session<'_>,
    book: &Arc<Book>,
    timer: &Timer<L::Payload>,
    threads: Vec<JoinHandle<ProducerEnd>>,
    halt: &Interrupt,
    watched: Watched<'_>,
    progress: &mut Progress,
) -> Result<(Outcome, Vec<Op>), Failure> {
    // The producers are still at it: a stop that races with schedule and cancel is the hard case.
    progress.phase("stopping the engine under load");
    let unfired = timer.stop();
    halt.raise();
    let unfired = unfired.map_err(|error| Failure::System(error.to_string()))?;
    let gathered = Gathered::join(threads)?;
    progress.phase(&format!("checking the books; stop returned {} timers", unfired.len()));
    let returned = returned_tickets::<L>(book, &unfired, &gathered.open);
    drop(unfired);
    let resident_end = machine::resident_bytes();

    let stats = timer.stats();
    let verdict = book.audit(&returned, &gathered.tally, &engine_counts(&stats));
    let mut settings = session.engine.rows();
    settings.extend(session.load.rows());
    let seconds = watched.monitor.seconds();
    let frame = Frame {
        title: if session.record { "recorded load run" } else { "load run" },
        settings,
        seconds,
        interrupted: watched.interrupted,
        samples: watched.monitor.samples,
        resident_before: watched.monitor.resident_before,
        resident_end,
        cost: watched.cost,
        schedule: gathered.schedule,
        cancel: gathered.cancel,
        remark: remark(session),
    };
    Ok((
        frame_outcome(frame, book, &gathered.tally, &stats, verdict),
        recording::merge(gathered.logs),
    ))
}

/// Threads that never rest and have to share cores change what latency and lateness mean.
fn remark(session: &Session<'_>) -> Option<String> {
    let (cores, producers) = (machine::cores(), session.load.producers);
    let shards = session.engine.shards;
    (session.load.rate.is_none() && producers + shards > cores).then(|| {
        format!(
            "{producers} producers at full speed and {shards} workers share {cores} cores; latency \
             and lateness include waiting for a core; --rate 100k shows the engine's own"
        )
    })
}

/// What all producers left behind.
struct Gathered {
    tally: Tally,
    schedule: Histogram<u64>,
    cancel: Histogram<u64>,
    open: Vec<(Key, Ticket)>,
    logs: Vec<Vec<recording::Logged>>,
}

impl Gathered {
    fn join(threads: Vec<JoinHandle<ProducerEnd>>) -> Result<Self, Failure> {
        let mut all = Self {
            tally: Tally::default(),
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
            all.tally.add(&end.tally);
            let same = "all latency histograms have the same bounds";
            all.schedule.add(&end.schedule).expect(same);
            all.cancel.add(&end.cancel).expect(same);
            all.open.extend(end.open);
            all.logs.push(end.log);
        }
        Ok(all)
    }
}

/// Which timers `stop` returned: read from the payload, or found by key where the payload is opaque.
fn returned_tickets<L: Load>(
    book: &Book,
    unfired: &[Unfired<L::Payload>],
    open: &[(Key, Ticket)],
) -> Vec<Ticket> {
    let by_key: HashMap<Key, Ticket> = open.iter().copied().collect();
    unfired
        .iter()
        .filter_map(|unfired| {
            let by_key = by_key.get(&unfired.key).copied();
            let carried = L::ticket(&unfired.payload);
            if by_key.is_none() || carried.is_some_and(|carried| Some(carried) != by_key) {
                book.breach_text(
                    Kind::Mismatch,
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

/// The engine's statistics in the form the books compare.
pub(crate) fn engine_counts(stats: &Stats) -> EngineCounts {
    EngineCounts {
        scheduled: stats.shards.iter().map(|shard| shard.scheduled).collect(),
        fired: stats.shards.iter().map(|shard| shard.fired).collect(),
        cancelled: stats.cancelled(),
        returned: stats.returned(),
        rescheduled: stats.shards.iter().map(|shard| shard.rescheduled).sum(),
        rejected: stats.rejected,
        panics: stats.panics(),
        pending: stats.pending,
    }
}

/// What a run or a replay knows besides books and statistics.
pub(crate) struct Frame {
    pub(crate) title: &'static str,
    pub(crate) settings: Vec<SettingRow>,
    pub(crate) seconds: f64,
    pub(crate) interrupted: bool,
    pub(crate) samples: Vec<Sample>,
    pub(crate) resident_before: Option<u64>,
    pub(crate) resident_end: Option<u64>,
    pub(crate) cost: Cost,
    pub(crate) schedule: Histogram<u64>,
    pub(crate) cancel: Histogram<u64>,
    pub(crate) remark: Option<String>,
}

/// Puts the outcome together.
pub(crate) fn frame_outcome(
    frame: Frame,
    book: &Book,
    tally: &Tally,
    stats: &Stats,
    verdict: Verdict,
) -> Outcome {
    let fired = book.fired_by_shard();
    let at = |counts: &[u64], shard: usize| counts.get(shard).copied().unwrap_or(0);
    let shards = stats.shards.iter().map(|shard| ShardLine {
        shard: shard.shard,
        core: shard.pinning.core(),
        scheduled: at(&tally.accepted, shard.shard),
        fired: at(&fired, shard.shard),
        cancelled: shard.cancelled,
        turns: shard.turns,
        parks: shard.parks,
        wakes: shard.wakes,
    });
    let resident = frame.samples.iter().filter_map(|sample| sample.resident_bytes);
    Outcome {
        title: frame.title,
        machine: Machine::look_up(),
        settings: frame.settings,
        seconds: frame.seconds,
        interrupted: frame.interrupted,
        cost: frame.cost,
        memory: Memory {
            start_bytes: frame.resident_before,
            peak_bytes: resident.chain(frame.resident_end).max(),
            end_bytes: frame.resident_end,
            books_bytes: book.held_bytes(),
        },
        wakes: Wakes {
            turns: stats.shards.iter().map(|shard| shard.turns).sum(),
            parks: stats.shards.iter().map(|shard| shard.parks).sum(),
            wakes: stats.wakes(),
        },
        shards: shards.collect(),
        samples: frame.samples,
        schedule: frame.schedule,
        cancel: frame.cancel,
        lateness: book.lateness(),
        verdict,
        remark: frame.remark,
    }
}
