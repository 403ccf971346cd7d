//! Settings from a file and from the environment: both become arguments in front of those of the command
//! line, so one parser reads all of them, and what comes later wins.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Command;

/// Begins the name of each variable.
const PREFIX: &str = "DELAYED_JOBS_";

/// Returns the arguments with those of the file and of the environment in their midst.
///
/// # Errors
///
/// A file that cannot be read, or a name or value in it that cannot be used.
pub(crate) fn gather(
    command: &Command,
    given: Vec<OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<OsString>, String> {
    let Some(sub) = given.get(1).and_then(|name| command.find_subcommand(name)) else {
        return Ok(given);
    };
    let variables = environment.into_iter().filter_map(|(name, value)| {
        let name = name.to_str()?.strip_prefix(PREFIX)?.to_lowercase().replace('_', "-");
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
    // A setting of another command is left to it.
    let argument = |(name, value): &(String, OsString)| {
        let arg = sub.get_arguments().find(|arg| arg.get_long() == Some(name))?;
        let mut text = OsString::from(format!("--{name}"));
        if arg.get_action().takes_values() {
            text.push("=");
            text.push(value);
        }
        (arg.get_action().takes_values() || value == "true").then_some(text)
    };
    let settings: Vec<OsString> = settings.iter().filter_map(argument).collect();
    Ok([&given[..2], &settings, &given[2..]].concat())
}

/// Reads the settings of a file.
fn read(command: &Command, file: &Path) -> Result<Vec<(String, OsString)>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| error.to_string())?;
    let setting = |(name, value): (String, toml::Value)| {
        let long = name.replace('_', "-");
        let known = |sub: &Command| sub.get_arguments().any(|arg| arg.get_long() == Some(&long));
        if !command.get_subcommands().any(known) || long == "config" {
            return Err(format!("there is no setting `{name}`; --help lists them"));
        }
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            _ => return Err(format!("`{name}` must be a text, a number, or true or false")),
        };
        Ok((long, value.into()))
    };
    table.into_iter().map(setting).collect()
}

/// Finds the file that the command line names.
fn config(given: &[OsString]) -> Option<PathBuf> {
    let at = given.iter().rposition(|one| one.to_string_lossy().starts_with("--config"))?;
    match given[at].to_string_lossy().strip_prefix("--config=") {
        Some(file) => Some(file.into()),
        None => given.get(at + 1).filter(|_| given[at] == "--config").map(PathBuf::from),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn gathered(given: &[&str], variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let given = ["delayed-jobs"].iter().chain(given).map(OsString::from).collect();
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let all = gather(&Cli::command(), given, variables)?;
        Ok(all.into_iter().skip(1).map(|one| one.into_string().unwrap()).collect())
    }

    #[test]
    fn the_command_line_comes_last_and_the_file_first() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "lease = '5s'\nredis_password = '0123'\npartitions = 8\nredis_cluster = true\nnodes = 5";
        std::fs::write(file.path(), text).unwrap();
        let named = format!("--config={}", file.path().display());
        let variables =
            [("DELAYED_JOBS_LEASE", "4s"), ("DELAYED_JOBS_PORT", "tcp://x"), ("LEASE", "1s")];
        let all = gathered(&["serve", &named, "--lease", "3s"], &variables).unwrap();
        let expected = [
            "serve",
            "--lease=5s",
            "--partitions=8",
            "--redis-cluster",
            "--redis-password=0123",
            "--lease=4s",
            &named,
            "--lease",
            "3s",
        ];
        let mut sorted = all.clone();
        sorted[1..5].sort();
        assert_eq!(sorted, expected);
        let parsed = Cli::command().try_get_matches_from(
            ["delayed-jobs"].into_iter().chain(all.iter().map(String::as_str)),
        );
        let lease: std::time::Duration =
            *parsed.unwrap().subcommand().unwrap().1.get_one("lease").unwrap();
        assert_eq!(lease.as_secs(), 3);
        let by_variable = [("DELAYED_JOBS_CONFIG", file.path().to_str().unwrap())];
        assert!(gathered(&["serve"], &by_variable).unwrap().contains(&"--lease=5s".to_owned()));
    }

    #[test]
    fn a_wrong_file_is_named_with_its_reason() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, hint) in
            [("leese = '5s'", "`leese`"), ("lease = [1]", "`lease` must be"), ("=", "line 1")]
        {
            std::fs::write(file.path(), text).unwrap();
            let said =
                gathered(&["serve", "--config", file.path().to_str().unwrap()], &[]).unwrap_err();
            assert!(said.contains(hint) && said.contains(file.path().to_str().unwrap()), "{said}");
        }
        assert!(gathered(&["serve", "--config=/none"], &[]).unwrap_err().contains("/none"));
    }
}
