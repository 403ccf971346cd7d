//! `delayed-jobs consume --exec COMMAND`: takes jobs over HTTP and runs a command for each. Exit code 0 ends
//! the job; any other one is a failed attempt.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Client, ClientError, ShownDelivery};
use crate::error::{Failure, StoreError};
use crate::http::LONGEST_HOLD;
use crate::job::Queue;
use crate::units::{duration, is_http};

/// How long one request waits for jobs.
const WAIT: Duration = Duration::from_secs(5);

/// How long a request is tried, on one node after the other.
const PATIENCE: Duration = Duration::from_secs(10);

/// Distance of tries while no node answers.
const AGAIN: Duration = Duration::from_secs(1);

/// The end of the command's error output that is kept as the reason of a failure, in bytes.
const REASON: usize = 400;

/// How long the rest of this output is waited for once the command has ended.
const REST: Duration = Duration::from_millis(100);

/// What is run, and for which jobs.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConsumeSettings {
    /// A node; may be given several times
    #[arg(
        long = "node",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL"
    )]
    nodes: Vec<String>,
    /// Holds the bearer token for the nodes
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The queue whose jobs are taken; may be given several times, or names with commas between them
    #[arg(
        long = "queue",
        default_value = "default",
        value_delimiter = ',',
        value_name = "NAME"
    )]
    queues: Vec<Queue>,
    /// What people see beside the jobs that it holds; `consume-` and the number of its process without it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Run by `sh -c` for each job, with the payload as its input and JOB_ID, JOB_QUEUE, JOB_PRIORITY, JOB_ATTEMPT, JOB_MAX_ATTEMPTS,
    /// JOB_DUE_MS, JOB_SCHEDULE and TRACEPARENT in its environment
    #[arg(long, value_name = "COMMAND")]
    exec: String,
    /// Commands at a time
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000), value_name = "N")]
    concurrency: u16,
    /// How long a node waits before it gives a job of a consumer that died to another one; a command may run
    /// for longer
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    hold: Duration,
    /// A command that runs for longer is killed, and the attempt has failed
    #[arg(long, default_value = "1h", value_parser = duration, value_name = "DURATION")]
    timeout: Duration,
}

/// Runs until `end` is ready; commands that run then are waited for.
///
/// # Errors
///
/// Options that cannot be used, or a node that refuses a request.
pub(crate) async fn consume(
    settings: &ConsumeSettings,
    end: impl Future<Output = ()>,
) -> Result<(), Failure> {
    if !(Duration::from_secs(1)..=LONGEST_HOLD).contains(&settings.hold) {
        let why = "hold: use 1s or more, and at most 24h";
        return Err(StoreError::Unfit(why.to_owned()).into());
    }
    for node in &settings.nodes {
        if !is_http(node) {
            // It is not shown: it may hold a password.
            let why = "node: not a URL of http or https, such as http://127.0.0.1:8080".to_owned();
            return Err(StoreError::Unfit(why).into());
        }
    }
    let own_name = || format!("consume-{}", std::process::id());
    let name = settings.name.clone().unwrap_or_else(own_name);
    let mut client = Client::new(settings.nodes.clone(), PATIENCE)?.with_name(&name);
    if let Some(file) = &settings.token_file {
        let token = std::fs::read_to_string(file);
        let wrong = |error| StoreError::Unfit(format!("{}: {error}", file.display()));
        client = client.with_token(token.map_err(wrong)?.trim());
    }
    let (client, settings) = (Arc::new(client), Arc::new(settings.clone()));
    let (stop, stopped) = watch::channel(false);
    let mut workers: JoinSet<_> = (0..settings.concurrency)
        .map(|_| work(Arc::clone(&client), Arc::clone(&settings), stopped.clone()))
        .collect();
    let ended = tokio::select! {
        Some(refused) = workers.join_next() => refused?,
        () = end => Ok(()),
    };
    stop.send_replace(true);
    workers.join_all().await;
    Ok(ended?)
}

/// Takes and handles one job after the other.
async fn work(
    client: Arc<Client>,
    settings: Arc<ConsumeSettings>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), ClientError> {
    loop {
        let taken = tokio::select! {
            taken = client.take(&settings.queues, 1, WAIT, settings.hold) => taken,
            _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
        };
        match taken {
            Ok(deliveries) => {
                for one in deliveries {
                    handle(&client, &settings, one).await;
                }
            }
            Err(error @ ClientError::Refused { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!("{error}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Runs the command for one job and says how it ended. The job is held for as long as the command runs.
async fn handle(client: &Client, settings: &ConsumeSettings, one: ShownDelivery) {
    let receipts = [one.receipt.clone()];
    let outcome = {
        let mut run = std::pin::pin!(tokio::time::timeout(settings.timeout, run(settings, &one)));
        loop {
            tokio::select! {
                outcome = &mut run => break outcome,
                () = tokio::time::sleep(settings.hold / 3) => {
                    match client.extend(&receipts, settings.hold).await {
                        Ok(cancelled) if cancelled.is_empty() => {}
                        Ok(_) => {
                            // What runs is killed with this.
                            tracing::info!(job = %one.id, "the job was cancelled");
                            return;
                        }
                        Err(error) => {
                            tracing::warn!(job = %one.id, "not held for longer: {error}");
                        }
                    }
                }
            }
        }
    };
    let failure = match outcome {
        Ok(ended) => ended.err(),
        Err(_) => Some("the command ran for too long".to_owned()),
    };
    // For as long as the job may be held.
    let end = Instant::now() + settings.hold;
    loop {
        let told = match &failure {
            None => client.acknowledge(&receipts).await,
            Some(reason) => client.fail(&receipts, reason).await,
        };
        match told {
            Ok(()) => return,
            Err(ClientError::Away(why)) if Instant::now() < end => {
                tracing::warn!(job = %one.id, "the outcome is not told yet: {why}");
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => {
                tracing::warn!(job = %one.id, "the outcome is not known to the nodes: {error}");
                return;
            }
        }
    }
}

/// The processes of a command that runs: they are killed together.
struct Running(Option<Pid>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Why the command failed, if it did.
async fn run(settings: &ConsumeSettings, one: &ShownDelivery) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the command does not run: {error}");
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(&settings.exec)
        .env("JOB_ID", one.id.as_str())
        .env("JOB_QUEUE", one.queue.to_string())
        .env("JOB_PRIORITY", one.priority.get().to_string())
        .env("JOB_ATTEMPT", one.attempt.to_string())
        .env("JOB_MAX_ATTEMPTS", one.max_attempts.to_string())
        .env("JOB_DUE_MS", one.due_ms.to_string())
        .env("JOB_SCHEDULE", one.schedule.as_deref().unwrap_or(""))
        .env("TRACEPARENT", one.traceparent.as_deref().unwrap_or(""))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let mut running = Running(group.map(Pid::from_raw));
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A command need not read its input.
            let _ = stdin.write_all(one.payload.as_bytes()).await;
        }
    };
    let mut last = Vec::new();
    let read = async {
        let mut buffer = [0; 1024];
        if let Some(mut stderr) = stderr {
            while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
                last.extend_from_slice(&buffer[..count]);
                last.drain(..last.len().saturating_sub(REASON));
            }
        }
    };
    let ended = async {
        let status = child.wait().await;
        // From now on its number may be another's.
        running.0 = None;
        status
    };
    let talk = async { tokio::join!(write, read) };
    let status = {
        let (mut talk, mut ended) = (std::pin::pin!(talk), std::pin::pin!(ended));
        let status = tokio::select! {
            status = &mut ended => Some(status),
            _ = &mut talk => None,
        };
        match status {
            Some(status) => {
                // What the command has left running may keep the pipes open.
                let _ = tokio::time::timeout(REST, talk).await;
                status
            }
            None => ended.await,
        }
    };
    let said = String::from_utf8_lossy(&last).trim().to_owned();
    let status = status.map_err(failed)?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{status}: {said}")),
    }
}
