//! A load run: producers against a real engine on the real clock, in phases with an engine and a ledger each.
//!
//! * `producer` - the hot loop, one thread each

mod producer;

use std::collections::HashMap;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tickwheel::{Key, TimerHandle, TimerTask};

use self::producer::{Live, Producer, ProducerEnd};
use crate::driver::{Grip, Payload, returned_tickets};
use crate::failure::Failure;
use crate::interrupt::{Interrupt, RaisedAtEnd};
use crate::ledger::{Ledger, LedgerClock, Ticket};
use crate::machine;
use crate::measure::{Meter, Sample};
use crate::numbers::{bytes, or_na, rate};
use crate::options::{EngineOptions, LoadOptions, Pace, PayloadChoice};
use crate::outcome::Counted;
use crate::progress::Progress;
use crate::report::model::{Phase, Report, Setting, Unit};
use crate::report::outputs::{print, probe};
use crate::workload::{self, Op};

/// Slots beyond those of the timers in flight and those left to fire: timers whose cancel came too late wait for their
/// handler in them.
const SPARE_SLOTS: usize = 1024;

/// How often the run is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Samples over which the progress line computes its rates.
const RATE_OVER: usize = 10;

/// One phase of a load run.
struct Part<'a> {
    engine: &'a EngineOptions,
    load: &'a LoadOptions,
    name: &'static str,
    /// Timers per second, all producers together; `None` for as fast as possible.
    rate: Option<f64>,
    duration: Duration,
    /// Timers that each producer may have left to fire at one time.
    max_left: usize,
    quiet: bool,
}

/// One thing that a producer did: when, to which timer, and the line that a workload file has for it.
type Logged = (u64, Ticket, workload::Action);

/// What came of a phase, and what the producers did.
type PartEnd = (Phase, Vec<Logged>);

/// Runs the load, judges it, and writes what the producers did if that is wanted.
pub(crate) fn run(
    engine: &EngineOptions,
    load: &LoadOptions,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let Pace(phases) = &load.rate;
    if let Some(path) = &load.record {
        if phases.len() > 1 {
            let text = "--record writes one phase; give it one --rate, such as 500";
            return Err(Failure::Options(text.to_owned()));
        }
        // Before the run, so that a path that cannot be written does not cost one.
        probe(path)?;
    }
    let duration = load.duration / phases.len() as u32;
    let max_left = max_left(load.producers, engine.max_pending);
    let mut report = Report {
        kind: "load run",
        ..Report::default()
    };
    let mut log = Vec::new();
    for &rate in phases {
        let name = if rate.is_some() {
            "paced"
        } else {
            "full speed"
        };
        let part = Part {
            engine,
            load,
            name,
            rate,
            duration,
            max_left,
            quiet,
        };
        report.notes.extend(part.note());
        // Each choice has code of its own, so that the hot loop has no branch for it.
        let (phase, logged) = match (load.payload, load.handles) {
            (PayloadChoice::Typed, false) => part.run::<Ticket, Key<_>>(interrupt),
            (PayloadChoice::Typed, true) => part.run::<Ticket, TimerHandle<_>>(interrupt),
            (PayloadChoice::Closure, false) => part.run::<TimerTask, Key<_>>(interrupt),
            (PayloadChoice::Closure, true) => part.run::<TimerTask, TimerHandle<_>>(interrupt),
        }?;
        report.phases.push(phase);
        log.extend(logged);
        report.interrupted = interrupt.is_raised();
        if report.interrupted {
            break;
        }
    }
    if let Some(path) = &load.record {
        let mut text = Vec::new();
        workload::write(&mut text, &recorded(log)).expect("writing to memory succeeds");
        std::fs::write(path, text).map_err(Failure::write(path))?;
        print(&format!("recorded: {}\n", path.display()));
    }
    Ok(report)
}

/// Timers that each producer may have left to fire at one time. The whole run shares a quarter of a million (and a
/// quarter of `--max-pending`), so that a large machine does not need a large memory; beyond that the producer cancels
/// what it would have left, and a steady state sets in.
fn max_left(producers: usize, max_pending: Option<usize>) -> usize {
    let room = max_pending.map_or(usize::MAX, |most| most / 4 / producers + 1);
    ((1 << 18) / producers).max(1 << 12).min(room)
}

impl Part<'_> {
    fn run<P: Payload, G: Grip<P>>(&self, interrupt: &Interrupt) -> Result<PartEnd, Failure> {
        let Self { engine, load, .. } = *self;
        let mut meter = Meter::new(self.duration);
        let slots = load
            .in_flight
            .saturating_add(self.max_left)
            .saturating_add(SPARE_SLOTS);
        let clock = LedgerClock::Real(Instant::now());
        let (ledger, writers) = Ledger::open(clock, load.producers, slots, engine.shards)?;
        let timer = P::build(engine.builder(), &ledger)
            .map_err(|error| Failure::Options(error.to_string()))?;
        let live: Vec<Live> = writers.iter().map(|_| Live::default()).collect();
        let producers =
            writers
                .into_iter()
                .zip(&live)
                .enumerate()
                .map(|(number, (writer, live))| {
                    Producer::<P, G>::new(timer.clone(), writer, live, self, number)
                });
        let producers = producers.collect::<Result<Vec<_>, _>>()?;
        let mut progress = Progress::new(self.duration.as_millis() as u64, self.quiet);
        let halt = Interrupt::default();
        meter.begin();

        let (unfired, ends) = thread::scope(|scope| {
            // The scope waits for the producers, so that an error or a panic in this closure has to end them, too.
            let halting = RaisedAtEnd(&halt);
            let mut threads = Vec::new();
            for (number, producer) in producers.into_iter().enumerate() {
                let name = thread::Builder::new().name(format!("producer-{number}"));
                let thread = name.spawn_scoped(scope, || producer.run(&halt));
                threads.push(thread.map_err(|error| {
                    Failure::System(format!("cannot start producer {number}: {error}"))
                })?);
            }
            let counts = || {
                let sum = |count: fn(&Live) -> u64| live.iter().map(count).sum();
                let scheduled = sum(|live| live.scheduled.get());
                [scheduled, sum(|live| live.cancelled.get()), ledger.fired()]
            };
            // Before the stop a producer ends only by an error, which its join returns.
            while meter.elapsed_s() < self.duration.as_secs_f64()
                && !interrupt.is_raised()
                && !threads.iter().any(ScopedJoinHandle::is_finished)
            {
                let at_s = meter.elapsed_s();
                if meter.is_due(at_s) {
                    meter.take(at_s, counts());
                    progress.at((at_s * 1000.0) as u64, || self.line(&meter.samples));
                }
                thread::sleep(LOOK_EVERY);
            }
            meter.stop(meter.elapsed_s(), counts());
            // The producers are still at it: a stop that races with schedule and cancel is the hard case.
            progress.phase("stopping the engine under load");
            let unfired = timer.stop();
            drop(halting);
            let ends = threads.into_iter().map(|thread| {
                thread
                    .join()
                    .map_err(|_| Failure::System("a producer panicked".to_owned()))?
            });
            let ends = ends.collect::<Result<Vec<ProducerEnd>, _>>()?;
            let unfired = unfired.map_err(|error| Failure::System(error.to_string()))?;
            Ok::<_, Failure>((unfired, ends))
        })?;

        progress.phase(&format!(
            "checking the ledger; stop returned {} timers",
            unfired.len()
        ));
        let (mut counted, mut open, mut log) = (Counted::default(), HashMap::new(), Vec::new());
        for end in ends {
            counted.add(&end.counted);
            open.extend(end.open);
            log.extend(end.log);
        }
        let returned = returned_tickets(&ledger, unfired, &open);
        let rate = self.rate.map(|rate| Unit::PerSecond.show(rate));
        let setting = vec![Setting::new(
            "rate",
            rate.as_deref().unwrap_or("as high as possible"),
        )];
        let phase = counted.judge(
            self.name,
            setting,
            &ledger,
            (&returned, &timer.stats()),
            &meter,
        );
        Ok((phase, log))
    }

    fn line(&self, samples: &[Sample]) -> String {
        let last = samples[samples.len() - 1];
        let before = samples[samples.len().saturating_sub(1 + RATE_OVER)];
        let seconds = (last.at_s - before.at_s).max(1e-9);
        let per_second = |now: u64, then: u64| rate(now.saturating_sub(then) as f64 / seconds);
        format!(
            "{:.1}/{} s  {} pairs/s  {} fired/s  {} pending  {}",
            last.at_s,
            self.duration.as_secs_f64(),
            per_second(last.ended, before.ended),
            per_second(last.third, before.third),
            rate(last.begun.saturating_sub(last.ended + last.third) as f64),
            or_na(last.resident_bytes, bytes),
        )
    }

    /// Threads that never rest and have to share cores change what latency and lateness mean.
    fn note(&self) -> Option<String> {
        let (cores, producers, shards) =
            (machine::cores(), self.load.producers, self.engine.shards);
        (self.rate.is_none() && producers + shards > cores).then(|| {
            format!(
                "{}: {producers} producers and {shards} workers share {cores} cores; latency and \
                 lateness include waiting for a core",
                self.name
            )
        })
    }
}

/// All producers' logs in order of time, with timers numbered from 1 as they appear and time counted
/// from the first operation.
fn recorded(mut log: Vec<Logged>) -> Vec<Op> {
    // Stable, so that what one producer did within one nanosecond keeps its order.
    log.sort_by_key(|(time_ns, ..)| *time_ns);
    let start_us = log.first().map_or(0, |(time_ns, ..)| time_ns / 1000);
    let mut ids = HashMap::new();
    let op = |(time_ns, ticket, action): Logged| {
        let next = ids.len() as u64 + 1;
        let id = *ids.entry(ticket).or_insert(next);
        Op {
            time_us: time_ns / 1000 - start_us,
            id,
            action,
        }
    };
    log.into_iter().map(op).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_left_to_fire_are_bounded() {
        assert_eq!(
            [2, 1000].map(|producers| max_left(producers, None)),
            [1 << 17, 1 << 12]
        );
        assert_eq!([1000, 1].map(|most| max_left(2, Some(most))), [126, 1]);
    }
}
