//! Runs the chosen command.

use std::process::ExitCode;

use clap::Parser;

use super::args::{Cli, Command, RECORD, RUN};
use crate::diff::diff;
use crate::failure::{BREACH, Failure, NOTHING};
use crate::host::host;
use crate::interrupt::Interrupt;
use crate::replay::{Plan, replay};
use crate::report::circumstances::Circumstances;
use crate::report::outputs::Outputs;
use crate::{run, server};

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
        None => (&cli.report, None),
        Some(Command::Replay { report, file, .. } | Command::Record { report, file, .. }) => {
            (report, Some(file.as_path()))
        }
        Some(Command::Server { report, .. }) => (report, None),
        Some(Command::Diff { old, new, tolerance }) => {
            return Ok(if diff(old, new, *tolerance)? { OK } else { BREACH });
        }
        Some(Command::HostServer { host: settings }) => {
            // Ctrl-C is for the clients, which then stop this process in good order.
            return host(&settings.settings()).map(|()| OK);
        }
    };
    let interrupt = Interrupt::on_ctrl_c()?;
    let circumstances = Circumstances::now("loadtest");
    let outputs = Outputs::open(&results.destination(workload))?;
    let quiet = results.quiet;
    let report = match &cli.command {
        Some(Command::Replay { file, fast, linger, engine, .. }) => {
            let plan = Plan { file, fast: *fast, linger: *linger, quiet };
            replay(&plan, &engine.settings(), &interrupt)?
        }
        Some(Command::Record { file, load, engine, .. }) => {
            run::record(file, &engine.settings(), &load.settings(&RECORD), quiet, &interrupt)?
        }
        Some(Command::Server { server: options, .. }) => {
            server::run(&options.settings()?, quiet, &interrupt)?
        }
        _ => run::run(&cli.engine.settings(), &cli.load.settings(&RUN), quiet, &interrupt)?,
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
    use std::time::Duration;

    use clap::CommandFactory;
    use tickwheel::{IdleStrategy, WheelKind};

    use super::*;
    use crate::machine;
    use crate::settings::delays::Delays;
    use crate::settings::load::{Pace, PayloadChoice};

    fn parse(arguments: &[&str]) -> Result<Cli, String> {
        Cli::try_parse_from([&["loadtest"], arguments].concat()).map_err(|error| {
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        })
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_arguments_mean_ten_seconds_on_every_core() {
        let cli = parse(&[]).unwrap();
        let (engine, load) = (cli.engine.settings(), cli.load.settings(&RUN));
        assert_eq!(load.duration, Duration::from_secs(10));
        assert_eq!((engine.shards, load.producers), (machine::cores(), machine::cores()));
        assert_eq!(load.delays, Delays::Mix);
        assert!(engine.pin);
        assert_eq!(load.pace, Pace::Both(50_000.0));
    }

    #[test]
    fn options_arrive() {
        let cli = parse(&[
            "--duration",
            "1500ms",
            "--tick",
            "50us",
            "--shards",
            "3",
            "--producers",
            "2",
            "--wheel",
            "hashed:64",
            "--idle",
            "spin:50us",
            "--rate",
            "20k",
            "--no-pin",
            "--payload",
            "closure",
            "--handles",
            "--delay",
            "uniform:1ms..2s",
            "--cancel-share",
            "0.5",
            "--reschedule-share",
            "0.25",
            "--max-pending",
            "1000",
            "--seed",
            "7",
            "--in-flight",
            "10",
        ])
        .unwrap();
        let (engine, load) = (cli.engine.settings(), cli.load.settings(&RUN));
        assert_eq!(load.duration, Duration::from_millis(1500));
        assert_eq!((engine.tick, engine.shards), (Duration::from_micros(50), 3));
        assert_eq!(engine.wheel, WheelKind::Hashed { buckets: 64 });
        assert_eq!(engine.idle, IdleStrategy::SpinThenPark { spin: Duration::from_micros(50) });
        assert_eq!((engine.pin, engine.max_pending), (false, Some(1000)));
        assert_eq!((load.pace, load.seed, load.in_flight), (Pace::Limited(20_000.0), 7, 10));
        assert_eq!((load.payload, load.handles), (PayloadChoice::Closure, true));
        assert_eq!((load.cancel_share, load.reschedule_share), (0.5, 0.25));
    }

    #[test]
    fn bad_options_name_what_is_allowed() {
        for (arguments, hint) in [
            (&["--duration", "5"][..], "not a duration like"),
            (&["--duration", "0s"], "too short"),
            (&["--shards", "0"], "use 1 or more"),
            (&["--producers", "many"], "whole number from 1"),
            (&["--producers", "5000"], "use 1 to 1024"),
            (&["--delay", "gauss"], "use mix, fixed:30s"),
            (&["--cancel-share", "1.5"], "share from 0 to 1"),
            (&["--wheel", "round"], "hierarchical, hashed or hashed:512"),
            (&["--idle", "sleep"], "park, spin:50us or busy"),
            (&["--payload", "string"], "[possible values: typed, closure]"),
            (&["--rate", "0"], "such as 500, 20k, 1.5M or max"),
            (&["--report", "x.html", "--no-report"], "cannot be used with"),
            (&["replay"], "<FILE>"),
            (&["replay", "x", "--producers", "2"], "unexpected argument"),
            (&["server", "--connections", "0"], "use 1 or more"),
            (&["server", "--chatty-share", "2"], "share from 0 to 1"),
            (&["server", "--tick", "1ms"], "unexpected argument"),
            (&["play"], "unrecognized subcommand"),
            (&["--speed", "9"], "unexpected argument"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(hint), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn a_server_run_defaults_to_two_thousand_connections() {
        let cli = parse(&["server"]).unwrap();
        let Some(Command::Server { server, .. }) = &cli.command else { panic!("{cli:?}") };
        let settings = server.settings().unwrap();
        assert_eq!((settings.connections, settings.idle), (2000, Duration::from_secs(2)));
        assert_eq!(settings.loops, machine::cores());
        assert_eq!(settings.told, settings.idle, "the server is told what it is judged by");
    }

    #[test]
    fn recording_has_gentler_defaults() {
        let cli = parse(&["record", "x.csv"]).unwrap();
        let Some(Command::Record { load, .. }) = &cli.command else { panic!("{cli:?}") };
        let load = load.settings(&RECORD);
        assert_eq!((load.pace, load.in_flight), (Pace::Limited(500.0), 32));
    }
}
