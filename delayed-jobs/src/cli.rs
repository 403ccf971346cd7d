//! The options, and which command they lead to. Settings from a file and from the environment become arguments
//! in front of those of the command line, so one parser reads all of them, and what comes later wins.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::client::ClientError;
use crate::consume::{ConsumeSettings, consume};
use crate::demo::{DemoSettings, demo};
use crate::error::{Failure, StoreError};
use crate::http;
use crate::init;
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
struct Cli {
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
    Consume(ConsumeSettings),
    /// Start a Redis, three nodes, producers and consumers, kill and pause nodes at random, and judge
    Demo(DemoSettings),
}

/// Runs the program with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("error: {failure}");
            let unfit = matches!(
                failure.downcast_ref(),
                Some(StoreError::Unfit(_) | StoreError::Evicts(_))
            );
            let refused = matches!(failure.downcast_ref(), Some(ClientError::Refused { .. }));
            ExitCode::from(if unfit || refused { USAGE } else { SYSTEM })
        }
    }
}

fn run() -> Result<ExitCode, Failure> {
    init::let_signals_come();
    let all = gather(
        &Cli::command(),
        std::env::args_os().collect(),
        std::env::vars_os(),
    );
    let command = Cli::parse_from(all.map_err(StoreError::Unfit)?).command;
    if matches!(command, Command::Consume(_)) && init::is_first() {
        return init::run();
    }
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| "delayed_jobs=warn".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let is_well = runtime.block_on(async {
        let program = std::env::current_exe()?;
        match command {
            Command::Serve {
                listen,
                node,
                webhook,
            } => serve(listen, *node, &webhook).await,
            Command::Consume(options) => consume(&options, asked_to_end()?).await.map(|()| true),
            Command::Demo(options) => demo(&options, &program).await,
        }
    })?;
    Ok(match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(BREACH),
    })
}

async fn serve(
    listen: SocketAddr,
    settings: Settings,
    webhook: &WebhookSettings,
) -> Result<bool, Failure> {
    http::check_address(&settings, listen).map_err(StoreError::Unfit)?;
    let busy = |error| format!("cannot listen on {listen}: {error}");
    let listener = TcpListener::bind(listen).await.map_err(busy)?;
    // From the first lease on, so that each one is given back.
    let end = asked_to_end()?;
    let node = Node::start(settings).await?;
    node.shared.tokens.load().map_err(StoreError::Unfit)?;
    let pushing = webhook::push(webhook, &node)?;
    println!("listening on http://{}", listener.local_addr()?);
    http::serve(&node, listener, end).await?;
    // A receiver may never answer; what is not ended comes again after its hold.
    let _ = timeout(http::LAST, pushing.join_all()).await;
    node.stop().await;
    Ok(true)
}

/// Ready after Ctrl-C or a termination signal.
fn asked_to_end() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Begins the name of each variable.
const PREFIX: &str = "DELAYED_JOBS_";

/// Returns the arguments with those of the file and of the environment in their midst.
///
/// # Errors
///
/// A file that cannot be read, or a name or value in it that cannot be used.
fn gather(
    command: &clap::Command,
    given: Vec<OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<OsString>, String> {
    // Only the file may be named before the command.
    let mut at = 1;
    while let Some(one) = given.get(at).map(|one| one.to_string_lossy()) {
        match &*one {
            "--config" => at += 2,
            one if one.starts_with("--config=") => at += 1,
            _ => break,
        }
    }
    let Some(sub) = given.get(at).and_then(|name| command.find_subcommand(name)) else {
        return Ok(given);
    };
    let (before, after) = given.split_at(at + 1);
    let variables = environment.into_iter().filter_map(|(name, value)| {
        let name = name
            .to_str()?
            .strip_prefix(PREFIX)?
            .to_lowercase()
            .replace('_', "-");
        Some((name, value))
    });
    let variables: Vec<(String, OsString)> = variables.collect();
    let of_environment = variables.iter().find(|(name, _)| name == "config");
    let file = config(&given).or_else(|| of_environment.map(|(_, value)| value.into()));
    let mut settings = match file {
        Some(file) => read(command, &file).map_err(|why| format!("{}: {why}", file.display()))?,
        None => Vec::new(),
    };
    settings.extend(variables);
    let is_option = |name: &str| {
        let (alone, with_value) = (format!("--{name}"), format!("--{name}="));
        let is_it = |one: &str| one == alone || one.starts_with(&with_value);
        after.iter().any(|one| is_it(&one.to_string_lossy()))
    };
    // A setting of another command is left to it, and one that a later source has loses: an option that may be given
    // several times would have the values of both, and a flag that is off would not turn it off.
    let argument = |(at, (name, value)): (usize, &(String, OsString))| {
        if is_option(name) || settings[at + 1..].iter().any(|(later, _)| later == name) {
            return None;
        }
        let arg = sub
            .get_arguments()
            .find(|arg| arg.get_long() == Some(name))?;
        let mut text = OsString::from(format!("--{name}"));
        match (arg.get_action().takes_values(), value.to_str()) {
            (true, _) => {
                text.push("=");
                text.push(value);
            }
            (false, Some("true")) => {}
            (false, Some("false")) => return None,
            (false, _) => return Some(Err(format!("`{name}` must be true or false"))),
        }
        Some(Ok(text))
    };
    let settings = settings.iter().enumerate().filter_map(argument);
    let settings: Vec<OsString> = settings.collect::<Result<_, _>>()?;
    Ok([before, &settings, after].concat())
}

/// Reads the settings of a file.
fn read(command: &clap::Command, file: &Path) -> Result<Vec<(String, OsString)>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| error.to_string())?;
    let setting = |(name, value): (String, toml::Value)| {
        let long = name.replace('_', "-");
        let known =
            |sub: &clap::Command| sub.get_arguments().any(|arg| arg.get_long() == Some(&long));
        if !command.get_subcommands().any(known) || long == "config" {
            return Err(format!("there is no setting `{name}`; --help lists them"));
        }
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            _ => {
                return Err(format!(
                    "`{name}` must be a text, a number, or true or false"
                ));
            }
        };
        Ok((long, value.into()))
    };
    table.into_iter().map(setting).collect()
}

/// Finds the file that the command line names.
fn config(given: &[OsString]) -> Option<PathBuf> {
    let at = given
        .iter()
        .rposition(|one| one.to_string_lossy().starts_with("--config"))?;
    match given[at].to_string_lossy().strip_prefix("--config=") {
        Some(file) => Some(file.into()),
        None => given
            .get(at + 1)
            .filter(|_| given[at] == "--config")
            .map(PathBuf::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(given: &[&str], variables: &[(&str, &str)]) -> Result<clap::ArgMatches, String> {
        let given = ["delayed-jobs"]
            .iter()
            .chain(given)
            .map(OsString::from)
            .collect();
        let variables = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let all = gather(&Cli::command(), given, variables)?;
        Ok(Cli::command()
            .get_matches_from(all)
            .subcommand()
            .unwrap()
            .1
            .clone())
    }

    #[test]
    fn an_option_wins_over_a_variable_and_that_over_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "lease = '5s'\npatience = '5s'\nhold = '5s'\npartitions = 8\nredis_cluster = true\nrate = 5";
        std::fs::write(file.path(), text).unwrap();
        let name = file.path().to_str().unwrap();
        let named = format!("--config={name}");
        let variables = [
            ("DELAYED_JOBS_LEASE", "4s"),
            ("DELAYED_JOBS_PATIENCE", "4s"),
            ("DELAYED_JOBS_PORT", "tcp://x"),
            ("HOLD", "1s"),
        ];
        let all = parsed(&["serve", &named, "--lease", "3s"], &variables).unwrap();
        let seconds = |name| all.get_one::<std::time::Duration>(name).unwrap().as_secs();
        assert_eq!(["lease", "patience", "hold"].map(seconds), [3, 4, 5]);
        assert!(all.get_flag("redis_cluster") && all.get_one::<u16>("partitions") == Some(&8));
        let by_variable = parsed(&["serve"], &[("DELAYED_JOBS_CONFIG", name)]).unwrap();
        assert!(by_variable.get_flag("redis_cluster"));
        let off = ("DELAYED_JOBS_REDIS_CLUSTER", "false");
        for given in [&[&named, "serve"][..], &["--config", name, "serve"]] {
            let before = parsed(given, &[off]).unwrap();
            assert_eq!(before.get_one::<u16>("partitions"), Some(&8));
            assert!(!before.get_flag("redis_cluster"), "the variable wins");
        }
    }

    #[test]
    fn a_flag_is_true_or_false() {
        for unclear in ["1", "yes", "TRUE", ""] {
            let said = parsed(&["serve"], &[("DELAYED_JOBS_REDIS_CLUSTER", unclear)]);
            assert_eq!(said.unwrap_err(), "`redis-cluster` must be true or false");
        }
    }

    #[test]
    fn an_option_of_several_values_has_those_of_one_source() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "node = 'http://file'").unwrap();
        let named = format!("--config={}", file.path().display());
        let nodes = |more: &[&str], variables: &[(&str, &str)]| -> Vec<String> {
            let given = [&["consume", &named, "--exec", "true"], more].concat();
            let all = parsed(&given, variables).unwrap();
            all.get_many("nodes").unwrap().cloned().collect()
        };
        let variable = [("DELAYED_JOBS_NODE", "http://variable")];
        assert_eq!(nodes(&[], &[]), ["http://file"]);
        assert_eq!(nodes(&[], &variable), ["http://variable"]);
        let two = ["--node", "http://a", "--node=http://b"];
        assert_eq!(nodes(&two, &variable), ["http://a", "http://b"]);
    }
}
