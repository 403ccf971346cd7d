//! Replays a recorded workload: in real time, or as fast as possible on a clock turned by hand.
//!
//! On the real clock the ledger judges. On the manual one the workers are threads as always, but time stands still
//! until it is turned. The clock goes to every moment at which the `model` says that something fires, and to every
//! operation's own time. After each firing the engine goes idle, and ledger and model must agree on which timers
//! have fired: none missing, none more. So each timer is proven to fire in its own tick.

mod model;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwheel::{Key, ManualClock, ScheduleErrorKind, Time, Timer};

use self::model::Model;
use crate::driver::{Driver, Flight, Payload as _, returned_tickets};
use crate::failure::Failure;
use crate::findings::Breach;
use crate::interrupt::Interrupt;
use crate::ledger::{Ledger, LedgerClock, Ticket, Totals};
use crate::measure::{Meter, nanos};
use crate::options::{EngineOptions, ReplayOptions};
use crate::progress::Progress;
use crate::report::model::{Report, Setting};
use crate::workload::{self, Action, Op};

/// Longest sleep between two looks at Ctrl-C and the progress line.
const LONGEST_NAP: Duration = Duration::from_millis(100);

/// Checks the file, replays it, and judges.
pub(crate) fn replay(
    options: &ReplayOptions,
    engine: &EngineOptions,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let ops = read(&options.file)?;
    let end = ops
        .last()
        .map_or(0, |op| ns(op.time_us))
        .saturating_add(nanos(options.linger));
    let meter = Meter::new(Duration::from_nanos(end));
    let manual = options.fast.then(ManualClock::new);
    let clock = manual
        .clone()
        .map_or(LedgerClock::Real(Instant::now()), LedgerClock::Manual);
    let timers = ops
        .iter()
        .filter(|op| matches!(op.action, Action::Schedule { .. }))
        .count();
    let (ledger, writers) = Ledger::open(clock, 1, timers, engine.shards)?;
    let builder = match manual.clone() {
        Some(clock) => engine.builder().clock(clock),
        None => engine.builder(),
    };
    let timer =
        Ticket::build(builder, &ledger).map_err(|error| Failure::Options(error.to_string()))?;
    let writer = writers
        .into_iter()
        .next()
        .expect("one writer was asked for");
    let most = engine.max_pending.unwrap_or(usize::MAX);
    let mut stage = Stage {
        driver: Driver::new(timer.clone(), writer),
        timer,
        ledger,
        flights: HashMap::new(),
        by_hand: manual.map(|clock| (clock, Model::new(nanos(engine.tick), most))),
        expected_fired: 0,
        meter,
        interrupt,
        done: 0,
        all: ops.len(),
        progress: Progress::new(ops.len() as u64, quiet),
    };
    stage.meter.begin();
    for op in &ops {
        if !stage.step(op)? {
            break;
        }
    }
    let interrupted = !stage.reach(end);
    stage.progress.phase("stopping the engine");
    let (at_s, counts) = stage.counts();
    stage.meter.stop(at_s, counts);
    let returned = stage.stop()?;
    stage.progress.phase("checking the ledger");
    let Stage {
        ledger,
        timer,
        driver,
        meter,
        ..
    } = stage;
    let setting = vec![Setting::new("operations", ops.len())];
    let judged = (&returned[..], &timer.stats());
    Ok(Report {
        kind: if options.fast {
            "replay on the manual clock"
        } else {
            "replay in real time"
        },
        interrupted,
        phases: vec![
            driver
                .counted
                .judge("replay", setting, &ledger, judged, &meter),
        ],
        ..Report::default()
    })
}

fn read(file: &Path) -> Result<Vec<Op>, Failure> {
    let input = std::fs::File::open(file).map_err(Failure::read(file))?;
    let ops = workload::parse(input).map_err(|errors| {
        let lines: String = errors.iter().map(|error| format!("\n  {error}")).collect();
        Failure::Options(format!(
            "{}: bad lines, nothing was run{lines}",
            file.display()
        ))
    })?;
    if ops.is_empty() {
        let text = format!(
            "{}: no operation after the header, nothing was run",
            file.display()
        );
        return Err(Failure::Options(text));
    }
    Ok(ops)
}

/// Microseconds of a workload file in nanoseconds, saturating.
fn ns(micros: u64) -> u64 {
    micros.saturating_mul(1000)
}

/// What a replay works with.
struct Stage<'a> {
    timer: Timer<Ticket>,
    ledger: Arc<Ledger>,
    driver: Driver<Ticket>,
    /// Which id of the file is which timer; the engine has refused the others.
    flights: HashMap<u64, Flight<Key<Ticket>>>,
    /// The clock that is turned, and what has to come of it.
    by_hand: Option<(ManualClock, Model)>,
    /// Timers that the model has fired.
    expected_fired: u64,
    meter: Meter,
    interrupt: &'a Interrupt,
    /// Operations done, of all.
    done: usize,
    all: usize,
    progress: Progress,
}

impl Stage<'_> {
    /// Goes to the operation's time, does it, and compares; `false` if an early end is asked for.
    fn step(&mut self, op: &Op) -> Result<bool, Failure> {
        if !self.reach(ns(op.time_us)) {
            return Ok(false);
        }
        let (now_ns, flight) = (self.ledger.now_ns(), self.flights.get(&op.id));
        let answer = match (op.action, flight) {
            (Action::Schedule { delay_us }, _) => {
                match self
                    .driver
                    .schedule(now_ns, Duration::from_micros(delay_us), true)
                {
                    Ok(flight) => self.flights.insert(op.id, flight).is_none(),
                    Err(Some(ScheduleErrorKind::TooManyPending { .. })) => false,
                    Err(reason) => return Err(Failure::System(format!("refused: {reason:?}"))),
                }
            }
            (_, None) => false,
            (Action::Reschedule { delay_us }, Some(flight)) => {
                self.driver
                    .reschedule(flight, now_ns, Duration::from_micros(delay_us))
            }
            (Action::Cancel, Some(flight)) => self.driver.cancel(flight, true),
        };
        self.done += 1;
        let Some((_, model)) = &mut self.by_hand else {
            return Ok(true);
        };
        let expected = match op.action {
            Action::Schedule { delay_us } => model.schedule(op.id, ns(delay_us)),
            Action::Reschedule { delay_us } => model.reschedule(op.id, ns(delay_us)),
            Action::Cancel => model.cancel(op.id),
        };
        if answer != expected {
            let (
                done,
                Op {
                    time_us,
                    id,
                    action,
                },
            ) = (self.done, op);
            let text = format!(
                "operation {done} ({action:?} of id {id} at {time_us} us) had success: {answer}, \
                 expected {expected}"
            );
            self.ledger.breach_text(Breach::Mismatch, text);
        }
        // What is due at once fires before the next line, so that its outcome is certain.
        Ok(self.reach(ns(op.time_us)))
    }

    /// Goes to a moment of the replay's clock; `false` if an early end is asked for.
    fn reach(&mut self, to_ns: u64) -> bool {
        if self.by_hand.is_some() {
            self.tell();
            return self.turn_to(to_ns);
        }
        while !self.interrupt.is_raised() {
            let left = to_ns.saturating_sub(self.ledger.now_ns());
            self.tell();
            if left == 0 {
                return true;
            }
            std::thread::sleep(Duration::from_nanos(left).min(LONGEST_NAP));
        }
        false
    }

    /// Turns the clock, with a stop at every firing; `false` if an early end is asked for.
    fn turn_to(&mut self, to_ns: u64) -> bool {
        let Some((clock, model)) = &mut self.by_hand else {
            return true;
        };
        let set = |to_ns: u64| {
            if clock.now().as_nanos() < to_ns {
                clock.set(Time::from_nanos(to_ns));
            }
        };
        while let Some(at_ns) = model.next_firing(to_ns) {
            if self.interrupt.is_raised() {
                return false;
            }
            set(at_ns);
            self.timer.wait_idle();
            for id in model.advance(at_ns) {
                self.expected_fired += 1;
                let flight = self.flights.get(&id);
                if !flight.is_some_and(|flight| self.driver.writer.has_fired(flight.ticket)) {
                    let text = format!("id {id} was due at {at_ns} ns and has not fired");
                    self.ledger.breach_text(Breach::Mismatch, text);
                }
            }
            self.ledger
                .compare("timers fired", self.ledger.fired(), self.expected_fired);
        }
        set(to_ns);
        let _none = model.advance(to_ns);
        !self.interrupt.is_raised()
    }

    /// Seconds of the replay's clock, and the counts of a sample.
    fn counts(&self) -> (f64, [u64; 3]) {
        let Totals {
            accepted,
            cancelled,
            ..
        } = self.driver.counted.totals;
        (
            self.ledger.now_ns() as f64 / 1e9,
            [accepted, cancelled, self.ledger.fired()],
        )
    }

    /// Takes a sample and shows progress, if it is time for that.
    fn tell(&mut self) {
        let (done, all, (at_s, counts)) = (self.done, self.all, self.counts());
        if self.meter.is_due(at_s) {
            self.meter.take(at_s, counts);
        }
        self.progress.at(done as u64, || {
            let [accepted, cancelled, fired] = counts;
            format!(
                "{done}/{all} operations  {accepted} scheduled  {cancelled} cancelled  {fired} fired"
            )
        });
    }

    /// Stops the engine; which timers came back.
    fn stop(&mut self) -> Result<Vec<Ticket>, Failure> {
        let unfired = self
            .timer
            .stop()
            .map_err(|error| Failure::System(error.to_string()))?;
        let open = self
            .flights
            .values()
            .map(|one| (one.grip.to_raw(), one.ticket))
            .collect();
        let returned = returned_tickets(&self.ledger, unfired, &open);
        if let Some((_, model)) = &self.by_hand {
            let (found, expected) = (returned.len() as u64, model.pending() as u64);
            self.ledger
                .compare("timers returned by stop", found, expected);
        }
        Ok(returned)
    }
}
