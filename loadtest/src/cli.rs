//! The command line: reads the options, runs the chosen command, and tells by the exit code what came of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::failure::{BREACH, Failure, NOTHING};
use crate::interrupt::Interrupt;
use crate::replay::{Plan, replay};
use crate::report::circumstances::Circumstances;
use crate::report::outputs::{Destination, Outputs, default_page};
use crate::settings::engine::EngineSettings;
use crate::settings::load::LoadSettings;
use crate::settings::parse::{count, duration, some_duration};
use crate::settings::server::ServerSettings;
use crate::{run, server};

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
    after_help = "Exit codes: 0 verdict ok, 1 breach, 2 bad options or input file (nothing was run), 3 the \
                  system refused something, 4 ended before anything began.\n\
                  Ctrl-C ends a run early with its full verdict; a second Ctrl-C aborts."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten, next_help_heading = "Load")]
    load: LoadSettings,
    #[command(flatten, next_help_heading = "Engine")]
    engine: EngineSettings,
    #[command(flatten, next_help_heading = "Results")]
    results: Results,
}

#[derive(Debug, Subcommand)]
enum Command {
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
        #[command(flatten, next_help_heading = "Engine")]
        engine: EngineSettings,
        #[command(flatten, next_help_heading = "Results")]
        results: Results,
    },
    /// Drive an idle server in a process of its own with thousands of real connections (by default 2000 for
    /// 10 s) and judge when it closes them
    Server {
        #[command(flatten, next_help_heading = "Server")]
        server: ServerSettings,
        #[command(flatten, next_help_heading = "Results")]
        results: Results,
    },
    /// The server's own process in a run of `server`
    #[command(hide = true)]
    HostServer {
        #[arg(long, value_parser = some_duration)]
        idle: Duration,
        #[arg(long, value_parser = count)]
        loops: usize,
    },
}

#[derive(Clone, Debug, Args)]
struct Results {
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
    quiet: bool,
}

impl Results {
    /// Beside `workload`, the file that is replayed or recorded.
    fn destination(&self, workload: Option<&Path>) -> Destination {
        Destination {
            page: (!self.no_report).then(|| self.report.clone().unwrap_or_else(default_page)),
            json: self.json.clone(),
            workload: workload.map(Path::to_owned),
            quiet: self.quiet,
        }
    }
}

/// Runs the program with the arguments of this process and prints what came of it.
#[must_use]
pub fn main() -> ExitCode {
    // Clap prints its own errors, which name the allowed values, and exits with code 2.
    let cli = Cli::parse();
    match dispatch(&cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit_code()
        }
    }
}

/// Exit code of a verdict that is ok.
const OK: u8 = 0;

/// Runs the chosen command; the exit code that its verdict has.
fn dispatch(cli: &Cli) -> Result<u8, Failure> {
    let (results, workload) = match &cli.command {
        None => (&cli.results, cli.load.record.as_deref()),
        Some(Command::Replay { results, file, .. }) => (results, Some(file.as_path())),
        Some(Command::Server { results, server }) => {
            server.check()?;
            (results, None)
        }
        // Ctrl-C is for the clients, which then stop this process in good order.
        Some(Command::HostServer { idle, loops }) => {
            return server::serve(*idle, *loops).map(|()| OK);
        }
    };
    let interrupt = Interrupt::on_ctrl_c()?;
    let circumstances = Circumstances::now("loadtest");
    let outputs = Outputs::open(&results.destination(workload))?;
    let quiet = results.quiet;
    let report = match &cli.command {
        Some(Command::Replay { file, fast, linger, engine, .. }) => {
            let plan = Plan { file, fast: *fast, linger: *linger, quiet };
            replay(&plan, engine, &interrupt)?
        }
        Some(Command::Server { server, .. }) => server::run(server, quiet, &interrupt)?,
        _ => run::run(&cli.engine, &cli.load, quiet, &interrupt)?,
    };
    match outputs.deliver(&report, &circumstances) {
        // A verdict that is not ok outranks a report that could not be written.
        Err(failure) if !report.is_ok() => eprintln!("error: {failure}"),
        delivered => delivered?,
    }
    Ok(match () {
        () if report.is_ok() => OK,
        () if report.is_breach() => BREACH,
        () => NOTHING,
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use tickwheel::{IdleStrategy, WheelKind};

    use super::*;
    use crate::machine;
    use crate::settings::load::Pace;

    fn parse(arguments: &str) -> Result<Cli, String> {
        let arguments = std::iter::once("loadtest").chain(arguments.split_whitespace());
        Cli::try_parse_from(arguments).map_err(|error| {
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        })
    }

    #[test]
    fn no_arguments_mean_ten_seconds_on_every_core() {
        Cli::command().debug_assert();
        let Cli { engine, load, .. } = parse("").unwrap();
        assert_eq!(load.duration, Duration::from_secs(10));
        assert_eq!((engine.shards, load.producers), (machine::cores(), machine::cores()));
        assert_eq!((engine.no_pin, load.rate), (false, Pace::Both(50_000.0)));
    }

    #[test]
    fn options_arrive() {
        let Cli { engine, load, .. } = parse(
            "--duration 1500ms --tick 50us --shards 3 --wheel hashed:64 --idle spin:50us --rate 20k \
             --no-pin --handles --delay uniform:1ms..2s --cancel-share 0.5 --max-pending 1000",
        )
        .unwrap();
        assert_eq!(load.duration, Duration::from_millis(1500));
        assert_eq!((engine.tick, engine.shards), (Duration::from_micros(50), 3));
        assert_eq!(engine.wheel, WheelKind::Hashed { buckets: 64 });
        assert_eq!(engine.idle, IdleStrategy::SpinThenPark { spin: Duration::from_micros(50) });
        assert_eq!((engine.no_pin, engine.max_pending), (true, Some(1000)));
        assert_eq!((load.rate, load.handles), (Pace::Limited(20_000.0), true));
        assert_eq!(load.cancel_share, 0.5);
    }

    #[test]
    fn bad_options_name_what_is_allowed() {
        for (arguments, hint) in [
            ("--duration 5", "not a duration like"),
            ("--duration 0s", "too short"),
            ("--shards 0", "use 1 or more"),
            ("--producers many", "whole number from 1"),
            ("--producers 5000", "use 1 to 1024"),
            ("--delay gauss", "use mix, fixed:30s"),
            ("--cancel-share 1.5", "share from 0 to 1"),
            ("--wheel round", "hierarchical, hashed or hashed:512"),
            ("--idle sleep", "park, spin:50us or busy"),
            ("--payload string", "[possible values: typed, closure]"),
            ("--rate 0", "such as 500, 20k, 1.5M, max or both"),
            ("--report x.html --no-report", "cannot be used with"),
            ("replay", "<FILE>"),
            ("replay x --producers 2", "unexpected argument"),
            ("server --connections 0", "use 1 or more"),
            ("server --connections 30000", "use 1 to 25000"),
            ("server --tick 1ms", "unexpected argument"),
            ("play", "unrecognized subcommand"),
            ("--speed 9", "unexpected argument"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(hint), "{arguments:?}: {error}");
        }
    }
}
