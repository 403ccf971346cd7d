//! The options of each command, as they are typed and checked.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use tickwheel::{Builder, IdleStrategy, Pinning};

use crate::delays::Delays;
use crate::durations::parse_duration;
use crate::machine;

/// What the producers of a load run do with the engine.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadOptions {
    /// How long to run
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Threads that schedule and cancel
    #[arg(long, default_value_t = machine::cores(), value_parser = number(1024), value_name = "N")]
    pub(crate) producers: usize,
    /// Timers each producer keeps in flight
    #[arg(long, default_value = "4096", value_parser = number(u32::MAX), value_name = "N")]
    pub(crate) in_flight: usize,
    /// How delays are spread: mix, fixed:30s, uniform:1ms..2s or log:1ms..60s
    #[arg(long, default_value = "mix", value_name = "SPREAD")]
    pub(crate) delay: Delays,
    /// Share of timers that their producer cancels while young, 0 to 1; the rest is left to fire, as
    /// long as no more than a quarter of a million wait for that
    #[arg(long, default_value = "0.99", value_parser = share, value_name = "SHARE")]
    pub(crate) cancel_share: f64,
    /// Share of steps that also move a timer in flight, 0 to 1
    #[arg(long, default_value = "0", value_parser = share, value_name = "SHARE")]
    pub(crate) reschedule_share: f64,
    /// Timers per second, all producers together, such as 500, 20k, 1.5M or max; both: half of the time 50k,
    /// half of it max
    #[arg(long, default_value = "both", value_parser = pace, value_name = "RATE")]
    pub(crate) rate: Pace,
    /// Seed of the random choices [default: new each time, shown in the report]
    // It fits JSON readers that know only 53 bits.
    #[arg(long, default_value_t = fastrand::u64(..1 << 53), hide_default_value = true, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// What a timer carries
    #[arg(long, value_enum, default_value = "typed")]
    pub(crate) payload: PayloadChoice,
    /// Hold owned TimerHandle handles instead of plain keys
    #[arg(long)]
    pub(crate) handles: bool,
    /// Write what the producers do into a workload file for `replay`; take a low --rate
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

/// How a workload is replayed.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayOptions {
    /// The workload file; every line is checked before anything runs
    pub(crate) file: PathBuf,
    /// As fast as possible on a clock turned by hand; every outcome is computed and compared
    #[arg(long)]
    pub(crate) fast: bool,
    /// Time to go on after the last line before the engine is stopped
    #[arg(long, default_value = "0s", value_parser = duration, value_name = "DURATION")]
    pub(crate) linger: Duration,
}

/// What a run against the server is made of.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerOptions {
    /// Connections held open; one that the server closes is replaced by a new one of its kind
    // Fewer than the 28 232 ephemeral ports that Linux has by default: the search for a free one gets slow when
    // few are left.
    #[arg(long, default_value = "2000", value_parser = number(25_000), value_name = "N")]
    pub(crate) connections: usize,
    /// How long they are held once all are open; then all fall silent and the server has to close every one
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// How late a connection may be closed before it counts as forgotten
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "DURATION")]
    pub(crate) grace: Duration,
    /// Silence after which the server has to close a connection
    #[arg(long, default_value = "2s", value_parser = idle_timeout, value_name = "DURATION")]
    pub(crate) idle_timeout: Duration,
    /// Event loops of the server, each with a timer of its own
    #[arg(long, default_value_t = machine::cores(), value_parser = number(1024), value_name = "N")]
    pub(crate) loops: usize,
    /// Tell the server another idle timeout than the one it is judged by, to see the verdict at work
    #[arg(long, hide = true, value_parser = duration, value_name = "DURATION")]
    pub(crate) tell_server: Option<Duration>,
}

/// How long everything comes and goes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChurnOptions {
    /// How long to run
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) duration: Duration,
}

/// How the engine is built.
#[derive(Clone, Debug, Args)]
pub(crate) struct EngineOptions {
    /// Shards, each with its own worker thread
    #[arg(long, default_value_t = machine::cores(), value_parser = number(1024), value_name = "N")]
    pub(crate) shards: usize,
    /// The engine's unit of time, such as 50us
    #[arg(long, default_value = "1ms", value_parser = duration, value_name = "DURATION")]
    pub(crate) tick: Duration,
    /// How workers wait: park, spin:50us (then park) or busy
    #[arg(long, default_value = "park", value_parser = idle, value_name = "STRATEGY")]
    pub(crate) idle: IdleStrategy,
    /// Leave the workers to the system's scheduler instead of pinning each to a core
    #[arg(long)]
    no_pin: bool,
    /// Most timers that may be pending at one time [default: unlimited]
    #[arg(long, value_parser = number(u32::MAX), value_name = "N")]
    pub(crate) max_pending: Option<usize>,
}

impl EngineOptions {
    /// A builder for these options.
    pub(crate) fn builder(&self) -> Builder {
        let builder = Builder::new()
            .shards(self.shards)
            .tick(self.tick)
            .thread_name("loadtest")
            .idle(self.idle)
            .pinning(if self.no_pin {
                Pinning::Off
            } else {
                Pinning::Cores
            });
        match self.max_pending {
            Some(most) => builder.max_pending(most),
            None => builder,
        }
    }
}

/// Where results go.
#[derive(Clone, Debug, Args)]
pub(crate) struct Results {
    /// Where the HTML report goes
    /// [default: target/tickwheel-report.html, or ./tickwheel-report.html without a target folder]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "no_report")]
    pub(crate) report: Option<PathBuf>,
    /// Write no HTML report
    #[arg(long, global = true)]
    pub(crate) no_report: bool,
    /// Write the results as JSON
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// No progress and no table, only the verdict
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// `--payload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PayloadChoice {
    /// Eight bytes, handled by one handler per shard.
    Typed,
    /// A closure per timer, run on the shard's thread.
    Closure,
}

/// `--rate`: timers per second of each phase; `None` for as fast as possible. A paced phase leaves the workers free
/// cores, so that its lateness is the engine's own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pace(pub(crate) Vec<Option<f64>>);

fn number(most: u32) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most.into())
}

fn share(text: &str) -> Result<f64, &'static str> {
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    share.ok_or("use a share from 0 to 1, such as 0.97")
}

/// Reads `--rate`; at least once in a quarter of an hour.
fn pace(text: &str) -> Result<Pace, &'static str> {
    let scaled = |suffix, power| Some(format!("{}{power}", text.strip_suffix(suffix)?));
    match text {
        "both" => Ok(Pace(vec![Some(50_000.0), None])),
        "max" => Ok(Pace(vec![None])),
        _ => {
            let number = scaled("k", "e3").or_else(|| scaled("M", "e6"));
            let rate = number.as_deref().unwrap_or(text).parse::<f64>().ok();
            let rate = rate.filter(|rate| rate.is_finite() && *rate >= 0.001);
            let rate = rate.ok_or("use a rate such as 500, 20k, 1.5M, max or both")?;
            Ok(Pace(vec![Some(rate)]))
        }
    }
}

/// At most `1y`, so that a few of them can be added to a point in time.
fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    let is_short = duration <= Duration::from_secs(31_557_600);
    is_short
        .then_some(duration)
        .ok_or_else(|| "too long; use a year or less".to_owned())
}

/// Below 100 ms the gaps between two messages of a client would be as short as the delays that an ordinary scheduler
/// causes.
fn idle_timeout(text: &str) -> Result<Duration, String> {
    let timeout = duration(text)?;
    let is_long = timeout >= Duration::from_millis(100);
    is_long
        .then_some(timeout)
        .ok_or_else(|| "too short to be judged; use 100ms or more".to_owned())
}

fn idle(text: &str) -> Result<IdleStrategy, &'static str> {
    let spin = match text {
        "park" => return Ok(IdleStrategy::Park),
        "busy" => return Ok(IdleStrategy::BusySpin),
        _ => text
            .strip_prefix("spin:")
            .and_then(|spin| parse_duration(spin).ok()),
    };
    let spin = spin.map(|spin| IdleStrategy::SpinThenPark { spin });
    spin.ok_or("use park, spin:50us or busy")
}
