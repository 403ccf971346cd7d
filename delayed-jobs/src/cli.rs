//! The options, and which command they lead to.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tokio::net::TcpListener;

use crate::demo::{DemoSettings, demo};
use crate::failure::Failure;
use crate::figures::{FigureSettings, figures};
use crate::http;
use crate::node::Node;
use crate::settings::Settings;

/// Exit code of a run in which a promise was broken.
const BREACH: u8 = 1;
/// Exit code for options that cannot be used, or a server that does not fit.
const USAGE: u8 = 2;
/// Exit code for trouble with the system or the network.
const SYSTEM: u8 = 3;

/// Delayed jobs that survive crashes and spread over nodes: kept by Redis, fired on time by tickwheel.
#[derive(Debug, Parser)]
#[command(
    name = "delayed-jobs",
    version,
    after_help = "Exit codes: 0 ended well, 1 breach, 2 bad options or a Redis that does not fit, 3 the \
                  system or the network refused something."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node: take a share of the partitions, fire what is due, serve HTTP
    Serve {
        /// Address and port; port 0 takes any, and the first line of output says which
        #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
        listen: SocketAddr,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Start a Redis, three nodes, producers and consumers, kill and pause nodes at random, and judge
    Demo {
        #[command(flatten)]
        demo: DemoArgs,
    },
    /// Measure lateness, throughput and failover beside a worker that polls; a table in Markdown
    Figures {
        #[command(flatten)]
        figures: FigureArgs,
    },
}

#[derive(Clone, Debug, Args)]
struct DemoArgs {
    /// How long jobs are made and nodes are troubled
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    duration: Duration,
    /// Nodes, each a process
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(2..=20), value_name = "N")]
    nodes: u16,
    /// Into how many parts the jobs are divided
    #[arg(long, default_value = "16", value_name = "N")]
    partitions: u16,
    /// How long a partition stays with a node that is silent
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    lease: Duration,
    /// Jobs per second
    #[arg(long, default_value = "300", value_parser = rate, value_name = "RATE")]
    rate: f64,
    /// Seed of the random choices [default: new each time, shown in the report]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Where the HTML report goes [default: target/delayed-jobs-report.html, or ./ without target]
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

impl DemoArgs {
    fn settings(self) -> DemoSettings {
        let name = "delayed-jobs-report.html";
        let beside = Path::new("target");
        let place = if beside.is_dir() { beside.join(name) } else { name.into() };
        DemoSettings {
            duration: self.duration,
            nodes: usize::from(self.nodes),
            partitions: self.partitions,
            lease: self.lease,
            producers: 2,
            consumers: 3,
            rate: self.rate,
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
            report: (!self.no_report).then(|| self.report.unwrap_or(place)),
            json: self.json,
            quiet: self.quiet,
        }
    }
}

#[derive(Clone, Debug, Args)]
struct FigureArgs {
    /// Time of paced load per contestant
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    duration: Duration,
    /// Jobs per second meanwhile
    #[arg(long, default_value = "1000", value_parser = rate, value_name = "RATE")]
    rate: f64,
    /// Jobs that are all due at one moment
    #[arg(long, default_value = "20000", value_name = "N")]
    burst: usize,
    /// Kills of a node
    #[arg(long, default_value = "5", value_name = "N")]
    failovers: usize,
    /// Folder with the programs of other libraries, such as target/peers
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,
}

impl FigureArgs {
    fn settings(self) -> FigureSettings {
        let Self { duration, rate, burst, failovers, peers } = self;
        FigureSettings { duration, rate, burst, failovers, peers }
    }
}

/// A number above 0.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| format!("`{text}` is not a rate above 0 such as 300"))
}

#[derive(Clone, Debug, Args)]
struct NodeArgs {
    /// The Redis server (7.0 or newer) or a Valkey
    #[arg(long, default_value = "redis://127.0.0.1:6379", value_name = "URL")]
    redis: String,
    /// Begins every key
    #[arg(long, default_value = "jobs", value_name = "NAME")]
    namespace: String,
    /// Into how many parts the jobs are divided; the same on all nodes
    #[arg(long, default_value = "16", value_name = "N")]
    partitions: u16,
    /// How long a partition stays with a node that is silent
    #[arg(long, default_value = "3s", value_parser = duration, value_name = "DURATION")]
    lease: Duration,
    /// How far ahead a node knows when something is due; the same on all nodes
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    window: Duration,
    /// How long an ended job can still be asked for
    #[arg(long, default_value = "1h", value_parser = duration, value_name = "DURATION")]
    retention: Duration,
    /// How long an answer of Redis is waited for; at most half a lease
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    patience: Duration,
    /// The unit of time of the node's timer
    #[arg(long, default_value = "1ms", value_parser = duration, value_name = "DURATION")]
    tick: Duration,
}

impl NodeArgs {
    fn settings(self) -> Settings {
        let Self { redis, namespace, partitions, lease, window, retention, patience, tick } = self;
        Settings { redis, namespace, partitions, lease, window, tick, retention, patience }
    }
}

/// A duration as people write it.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("`{text}` is not a duration like 500ms, 3s or 1h ({error})"))
}

/// Runs the program with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| "delayed_jobs=warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(dispatch(cli.command)),
        Err(error) => Err(Failure::System(error.to_string())),
    };
    match ended {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(match failure {
                Failure::Options(_) => USAGE,
                Failure::System(_) => SYSTEM,
            })
        }
    }
}

async fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve { listen, node } => serve(listen, node.settings()).await,
        Command::Demo { demo: options } => {
            let ok = demo(&options.settings(), &std::env::current_exe()?).await?;
            Ok(if ok { ExitCode::SUCCESS } else { ExitCode::from(BREACH) })
        }
        Command::Figures { figures: options } => {
            let ok = figures(&options.settings(), &std::env::current_exe()?).await?;
            Ok(if ok { ExitCode::SUCCESS } else { ExitCode::from(BREACH) })
        }
    }
}

async fn serve(listen: SocketAddr, settings: Settings) -> Result<ExitCode, Failure> {
    let busy = |error| Failure::System(format!("cannot listen on {listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(busy)?;
    let node = Node::start(settings).await?;
    println!("listening on http://{}", listener.local_addr()?);
    http::serve(&node, listener, asked_to_end()).await?;
    node.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Ready after Ctrl-C or a termination signal.
async fn asked_to_end() {
    let interrupt = tokio::signal::ctrl_c();
    let Ok(mut terminate) =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    else {
        let _ = interrupt.await;
        return;
    };
    tokio::select! {
        _ = interrupt => {}
        _ = terminate.recv() => {}
    }
}
