//! The options, as clap reads them and shows them in `--help`, and the defaults behind them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};
use tickwheel::{IdleStrategy, WheelKind};

use super::server::{HostArgs, ServerArgs};
use crate::machine;
use crate::report::outputs::{Destination, default_page};
use crate::settings::delays::Delays;
use crate::settings::engine::{EngineSettings, idle, wheel};
use crate::settings::load::{LoadSettings, Pace, PayloadChoice, pace};
use crate::settings::parse::{count, duration, share, some_duration, threads};

/// Run the tickwheel timer engine under real load and prove from an independent ledger that no timer was
/// lost, early or fired twice.
///
/// Without arguments: 10 seconds of a server-like mix, one shard and one producer per core; half of the
/// time at a steady pace, which shows the lateness of the engine itself, and half at full speed.
#[derive(Debug, Parser)]
#[command(
    name = "loadtest",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Exit codes: 0 verdict ok, 1 breach (diff: worse), 2 bad options or input file \
                  (nothing was run), 3 the system refused something, 4 ended before anything \
                  began.\n\
                  Ctrl-C ends a run early with its full verdict; a second Ctrl-C aborts."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) report: ReportArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Replay a recorded workload (CSV time_us,op,id,delay_us) and judge it
    Replay {
        /// The workload file; every line is checked before anything runs
        file: PathBuf,
        /// As fast as possible on a clock turned by hand; every outcome is computed and compared
        #[arg(long)]
        fast: bool,
        /// Time to go on after the last line before the engine is stopped
        #[arg(long, default_value = "0s", value_parser = duration, value_name = "DURATION")]
        linger: Duration,
        #[command(flatten)]
        engine: EngineArgs,
        #[command(flatten)]
        report: ReportArgs,
    },
    /// Record a short run (by default 2 s, 500 timers/s, 32 in flight) into a workload file
    Record {
        /// The workload file to write
        file: PathBuf,
        #[command(flatten)]
        load: LoadArgs,
        #[command(flatten)]
        engine: EngineArgs,
        #[command(flatten)]
        report: ReportArgs,
    },
    /// Drive an idle server in a process of its own with thousands of real connections (by default 2000 for
    /// 10 s) and judge when it closes them
    Server {
        #[command(flatten)]
        server: ServerArgs,
        #[command(flatten)]
        report: ReportArgs,
    },
    /// Compare the JSON results of two runs and judge whether the new one is worse
    Diff {
        /// The results to compare with
        old: PathBuf,
        /// The results to judge
        new: PathBuf,
        /// How much worse a figure may be, 0 to 1; percentiles beyond p99 vary too much to be judged
        #[arg(long, default_value = "0.1", value_parser = share, value_name = "SHARE")]
        tolerance: f64,
    },
    /// The server's own process in a run of `server`
    #[command(hide = true)]
    HostServer {
        #[command(flatten)]
        host: HostArgs,
    },
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArgs {
    /// How long to run [default: 10s; record: 2s]
    #[arg(long, value_parser = some_duration, value_name = "DURATION")]
    duration: Option<Duration>,
    /// Threads that schedule and cancel [default: one per core]
    #[arg(long, value_parser = threads, value_name = "N")]
    producers: Option<usize>,
    /// Timers each producer keeps in flight [default: 4096; record: 32]
    #[arg(long, value_parser = count, value_name = "N")]
    in_flight: Option<usize>,
    /// How delays are spread: mix, fixed:30s, uniform:1ms..2s or log:1ms..60s
    #[arg(long, default_value = "mix", value_name = "SPREAD")]
    delay: Delays,
    /// Share of timers that their producer cancels while young, 0 to 1; the rest is left to fire, as
    /// long as no more than a quarter of a million wait for that
    #[arg(long, default_value = "0.99", value_parser = share, value_name = "SHARE")]
    cancel_share: f64,
    /// Share of steps that also move a timer in flight, 0 to 1 [default: 0; record: 0.05]
    #[arg(long, value_parser = share, value_name = "SHARE")]
    reschedule_share: Option<f64>,
    /// Timers per second, all producers together, such as 500, 20k, 1.5M or max
    /// [default: half of the time 50k, half of it max; record: 500]
    #[arg(long, value_parser = pace, value_name = "RATE")]
    rate: Option<Pace>,
    /// Seed of the random choices [default: new each time, shown in the report]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// What a timer carries
    #[arg(long, value_enum, default_value = "typed")]
    payload: PayloadChoice,
    /// Hold owned Timeout handles instead of plain keys
    #[arg(long)]
    handles: bool,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Engine")]
pub(super) struct EngineArgs {
    /// Shards, each with its own worker thread [default: one per core]
    #[arg(long, value_parser = count, value_name = "N")]
    shards: Option<usize>,
    /// The engine's unit of time, such as 50us
    #[arg(long, default_value = "1ms", value_parser = duration, value_name = "DURATION")]
    tick: Duration,
    /// hierarchical, hashed or hashed:512 (buckets)
    #[arg(long, default_value = "hierarchical", value_parser = wheel, value_name = "WHEEL")]
    wheel: WheelKind,
    /// How workers wait: park, spin:50us (then park) or busy
    #[arg(long, default_value = "park", value_parser = idle, value_name = "STRATEGY")]
    idle: IdleStrategy,
    /// Pin each worker to a core (the default)
    #[arg(long, overrides_with = "no_pin")]
    pin: bool,
    /// Leave the workers to the system's scheduler
    #[arg(long, action = ArgAction::SetTrue)]
    no_pin: bool,
    /// Most timers that may be pending at one time [default: unlimited]
    #[arg(long, value_parser = count, value_name = "N")]
    max_pending: Option<usize>,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Results")]
pub(super) struct ReportArgs {
    /// Where the HTML report goes
    /// [default: target/tickwheel-report.html, or ./tickwheel-report.html without a target folder]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// Write no HTML report
    #[arg(long)]
    no_report: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// No progress and no table, only the verdict
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// Defaults that differ between a run and a recording.
pub(super) struct Defaults {
    duration: Duration,
    in_flight: usize,
    reschedule_share: f64,
    pace: Pace,
}

pub(super) const RUN: Defaults = Defaults {
    duration: Duration::from_secs(10),
    in_flight: 4096,
    reschedule_share: 0.0,
    pace: Pace::Both(50_000.0),
};

pub(super) const RECORD: Defaults = Defaults {
    duration: Duration::from_secs(2),
    in_flight: 32,
    reschedule_share: 0.05,
    pace: Pace::Limited(500.0),
};

impl LoadArgs {
    pub(super) fn settings(&self, defaults: &Defaults) -> LoadSettings {
        LoadSettings {
            producers: self.producers.unwrap_or_else(machine::cores),
            in_flight: self.in_flight.unwrap_or(defaults.in_flight),
            delays: self.delay.clone(),
            cancel_share: self.cancel_share,
            reschedule_share: self.reschedule_share.unwrap_or(defaults.reschedule_share),
            pace: self.rate.unwrap_or(defaults.pace),
            duration: self.duration.unwrap_or(defaults.duration),
            // Fits JSON readers that know only 53 bits.
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..1 << 53)),
            payload: self.payload,
            handles: self.handles,
        }
    }
}

impl EngineArgs {
    pub(super) fn settings(&self) -> EngineSettings {
        EngineSettings {
            shards: self.shards.unwrap_or_else(machine::cores),
            tick: self.tick,
            wheel: self.wheel,
            idle: self.idle,
            pin: !self.no_pin,
            max_pending: self.max_pending,
        }
    }
}

impl ReportArgs {
    /// Beside `workload`, the file that is replayed or recorded.
    pub(super) fn destination(&self, workload: Option<&Path>) -> Destination {
        Destination {
            page: (!self.no_report).then(|| self.report.clone().unwrap_or_else(default_page)),
            json: self.json.clone(),
            workload: workload.map(Path::to_owned),
            quiet: self.quiet,
        }
    }
}
