//! The options, and which command they lead to.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tokio::net::TcpListener;

use crate::error::StoreError;
use crate::http;
use crate::node::Node;
use crate::settings::Settings;

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

/// Why a command ends without a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Options(String),
    #[error("{0}")]
    System(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unfit(reason) => Self::Options(reason),
            error => Self::System(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::System(error.to_string())
    }
}

async fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve { listen, node } => serve(listen, node.settings()).await,
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
