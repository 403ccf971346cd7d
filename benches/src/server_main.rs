//! `server`: a real server under real load, with tickwheel's timers, with tokio's, and with none.
//!
//! ```sh
//! cargo run --release -p tickwheel-benches --bin server -- --out docs/performance/server.md
//! ```
//!
//! The load comes from nghttp2's `h2load`; ten thousand connections need as many descriptors (`ulimit -n`).

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use tickwheel_benches::report::Circumstances;
use tickwheel_benches::server::{self, Load, Runs, SCENARIOS, Scenario, Variant};

/// Measures a server with limits on everything: requests per second, latency, processor time per request.
#[derive(Parser)]
#[command(name = "server", version)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Measured seconds per run, after two of warming up.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Repeats, of which the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repeats: u16,
    /// A hundredth of the connections, to try this program out.
    #[arg(long)]
    tiny: bool,
    /// Writes the tables into this Markdown page, between its marks, and charts into a folder beside it.
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
    #[command(subcommand)]
    job: Option<Job>,
}

#[derive(Subcommand)]
enum Job {
    /// A server in this process, until its input ends.
    #[command(hide = true)]
    Serve {
        variant: Variant,
        #[arg(long)]
        http2: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.job {
        Some(Job::Serve { variant, http2 }) => {
            server::run(variant, http2).map_err(|error| error.to_string())
        }
        None => compare(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> Result<(), String> {
    let mut circumstances = Circumstances::of_program("--bin server --");
    let load = Load { seconds: arguments.seconds, tiny: arguments.tiny };
    let scenarios: &[Scenario] = &SCENARIOS;
    let runs = Runs::measure(scenarios, load, usize::from(arguments.repeats))?;
    circumstances.ended();
    println!("{}", runs.render(&circumstances, None));
    match &arguments.out {
        Some(out) => server::write(&runs, &circumstances, out)
            .map_err(|error| format!("{}: {error}", out.display())),
        None => Ok(()),
    }
}
