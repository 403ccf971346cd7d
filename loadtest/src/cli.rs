//! The command line: runs the chosen command, and tells by the exit code what came of it.

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::failure::{BREACH, Failure, NOTHING};
use crate::interrupt::Interrupt;
use crate::machine;
use crate::options::{
    ChurnOptions, EngineOptions, LoadOptions, ReplayOptions, Results, ServerOptions,
};
use crate::progress::say;
use crate::report::model::Setting;
use crate::report::outputs::Outputs;
use crate::{churn, replay, run, server};

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
                  Ctrl-C or SIGTERM ends a run early with its full verdict; a second one aborts."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten, next_help_heading = "Load")]
    load: LoadOptions,
    #[command(flatten, next_help_heading = "Engine")]
    engine: EngineOptions,
    #[command(flatten, next_help_heading = RESULTS)]
    results: Results,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Replay a recorded workload (CSV time_us,op,id,delay_us) and judge it
    Replay {
        #[command(flatten)]
        replay: ReplayOptions,
        #[command(flatten, next_help_heading = "Engine")]
        engine: EngineOptions,
    },
    /// Drive an idle server with thousands of real connections (by default 2000 for 10 s) and judge when it
    /// closes them
    Server {
        #[command(flatten, next_help_heading = "Server")]
        server: ServerOptions,
    },
    /// Let threads, engines and loops come and go (by default for 10 s) and judge the books
    Churn {
        #[command(flatten, next_help_heading = "Churn")]
        churn: ChurnOptions,
    },
}

const RESULTS: &str = "Results";

/// Runs the program with the arguments of this process and prints what came of it.
#[must_use]
pub fn main() -> ExitCode {
    // Clap prints its own errors, which name the allowed values, and exits with code 2.
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    dispatch(&cli, &matches).unwrap_or_else(|failure| {
        say(&format!("error: {failure}"));
        failure.exit_code()
    })
}

/// Runs the chosen command; the exit code that its verdict has.
fn dispatch(cli: &Cli, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let workload = match &cli.command {
        Some(Command::Replay { replay, .. }) => Some(replay.file.as_path()),
        _ => cli.load.record.as_deref(),
    };
    let interrupt = Interrupt::on_signal()?;
    let outputs = Outputs::open(&cli.results, workload)?;
    let busy = machine::busy_note();
    let quiet = cli.results.quiet;
    let mut report = match &cli.command {
        None => run::run(&cli.engine, &cli.load, quiet, &interrupt)?,
        Some(Command::Replay {
            replay: options,
            engine,
        }) => replay::replay(options, engine, quiet, &interrupt)?,
        Some(Command::Server { server }) => server::run(server, quiet, &interrupt)?,
        Some(Command::Churn { churn }) => churn::run(churn, &interrupt)?,
    };
    report.settings = settings(matches);
    report.notes.extend(busy);
    match outputs.deliver(&report) {
        // A verdict that is not ok outranks a report that could not be written.
        Err(failure) if report.word() != "ok" => say(&format!("error: {failure}")),
        delivered => delivered?,
    }
    Ok(match report.word() {
        "ok" => ExitCode::SUCCESS,
        "breach" => ExitCode::from(BREACH),
        _ => ExitCode::from(NOTHING),
    })
}

/// The options of the command that runs, given or by default, without those that say where results go.
fn settings(matches: &ArgMatches) -> Vec<Setting> {
    let root = Cli::command();
    let (command, matches) = match matches.subcommand() {
        Some((name, matches)) => (root.find_subcommand(name).unwrap_or(&root), matches),
        None => (&root, matches),
    };
    let options = command
        .get_arguments()
        .filter(|one| one.get_help_heading() != Some(RESULTS));
    let setting = |option: &clap::Arg| {
        let name = option.get_id().as_str();
        let values = matches.try_get_raw(name).ok()??;
        let shown: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        Some(Setting::new(&name.replace('_', "-"), shown.join(" ")))
    };
    options.filter_map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tickwheel::IdleStrategy;

    fn parse(arguments: &str) -> Result<Cli, String> {
        let arguments = std::iter::once("loadtest").chain(arguments.split_whitespace());
        Cli::try_parse_from(arguments).map_err(|error| {
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        })
    }

    #[test]
    fn options_arrive() {
        Cli::command().debug_assert();
        let Cli { engine, load, .. } = parse("").unwrap();
        assert_eq!(
            (engine.shards, load.producers),
            (machine::cores(), machine::cores())
        );
        assert_eq!(
            (load.duration, load.rate.0),
            (Duration::from_secs(10), vec![Some(5e4), None])
        );
        let options = "--tick 50us --idle spin:50us --rate 20k --cancel-share 0.5";
        let Cli { engine, load, .. } = parse(options).unwrap();
        assert_eq!(
            (engine.tick, load.cancel_share),
            (Duration::from_micros(50), 0.5)
        );
        assert_eq!(
            engine.idle,
            IdleStrategy::SpinThenPark {
                spin: Duration::from_micros(50)
            }
        );
        assert_eq!(load.rate.0, vec![Some(20_000.0)]);
    }

    #[test]
    fn bad_options_name_what_is_allowed() {
        for (arguments, hint) in [
            ("--duration soon", "expected number"),
            ("--shards 0", "1..=1024"),
            ("--delay gauss", "use mix, fixed:30s"),
            ("--cancel-share 1.5", "share from 0 to 1"),
            ("--idle sleep", "park, spin:50us or busy"),
            ("--rate 0", "such as 500, 20k, 1.5M, max or both"),
            ("--rate é", "such as 500"),
            ("--report x.html --no-report", "cannot be used with"),
            ("replay x --producers 2", "unexpected argument"),
            ("server --connections 30000", "1..=25000"),
            ("server --idle-timeout 5ms", "use 100ms or more"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(hint), "{arguments:?}: {error}");
        }
    }
}
