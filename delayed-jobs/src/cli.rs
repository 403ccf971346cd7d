//! The options, and which command they lead to.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::client::ClientError;
use crate::consume::{ConsumeSettings, consume};
use crate::demo::{DemoSettings, demo};
use crate::error::{Failure, StoreError};
use crate::figures::{FigureSettings, figures};
use crate::gather::gather;
use crate::http;
use crate::node::Node;
use crate::settings::Settings;
use crate::webhook::{self, WebhookSettings};

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
    args_override_self = true,
    after_help = "Exit codes: 0 ended well, 1 breach, 2 bad options or a Redis that does not fit, 3 the \
                  system or the network refused something."
)]
pub(crate) struct Cli {
    /// A file (TOML) of settings named like the options; DELAYED_JOBS_NAME in the environment wins over it,
    /// and an option over both
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
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
        node: Box<Settings>,
        #[command(flatten)]
        webhook: WebhookSettings,
    },
    /// Run a command for each job that fires: its input is the payload, its exit code the outcome
    Consume {
        #[command(flatten)]
        consume: ConsumeSettings,
    },
    /// Start a Redis, three nodes, producers and consumers, kill and pause nodes at random, and judge
    Demo {
        #[command(flatten)]
        demo: DemoSettings,
    },
    /// Measure lateness, throughput and failover beside a worker that polls; a table in Markdown
    Figures {
        #[command(flatten)]
        figures: FigureSettings,
    },
}

/// Runs the program with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BREACH),
        Err(failure) => {
            eprintln!("error: {failure}");
            let unfit = matches!(failure.downcast_ref(), Some(StoreError::Unfit(_)));
            let refused = matches!(failure.downcast_ref(), Some(ClientError::Refused { .. }));
            ExitCode::from(if unfit || refused { USAGE } else { SYSTEM })
        }
    }
}

fn run() -> Result<bool, Failure> {
    let all = gather(&Cli::command(), std::env::args_os().collect(), std::env::vars_os());
    let command = Cli::parse_from(all.map_err(StoreError::Unfit)?).command;
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| "delayed_jobs=warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let program = std::env::current_exe()?;
        match command {
            Command::Serve { listen, node, webhook } => serve(listen, *node, &webhook).await,
            Command::Consume { consume: options } => {
                consume(&options, asked_to_end()).await.map(|()| true)
            }
            Command::Demo { demo: options } => demo(&options, &program).await,
            Command::Figures { figures: options } => figures(&options, &program).await,
        }
    })
}

async fn serve(
    listen: SocketAddr,
    settings: Settings,
    webhook: &WebhookSettings,
) -> Result<bool, Failure> {
    let busy = |error| format!("cannot listen on {listen}: {error}");
    let listener = TcpListener::bind(listen).await.map_err(busy)?;
    let node = Node::start(settings).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let pushing = webhook::push(webhook, &node)?;
    http::serve(&node, listener, asked_to_end()).await?;
    // Requests that are under way are waited for.
    pushing.join_all().await;
    node.stop().await;
    Ok(true)
}

/// Ready after Ctrl-C or a termination signal.
async fn asked_to_end() {
    let mut terminate = signal(SignalKind::terminate());
    let terminated = async {
        match &mut terminate {
            Ok(terminate) => terminate.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
}
