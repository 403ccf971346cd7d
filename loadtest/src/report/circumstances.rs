//! When, where and from what a run was made.

use std::time::SystemTime;

use crate::machine::Machine;

/// What every report is headed with.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The program's name.
    pub program: &'static str,
    /// As it was typed.
    pub command: String,
    /// When it began.
    pub started: SystemTime,
    /// Where.
    pub machine: Machine,
}

/// What the program was built from.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
pub(crate) const COMMIT: &str = env!("TICKWHEEL_COMMIT");
pub(crate) const COMPILER: &str = env!("TICKWHEEL_COMPILER");
pub(crate) const PROFILE: &str = env!("TICKWHEEL_PROFILE");

impl Circumstances {
    /// Those of a run of `program` that starts now.
    #[must_use]
    pub fn now(program: &'static str) -> Self {
        let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
        let command = format!("{program} {}", words.join(" ")).trim_end().to_owned();
        Self { program, command, started: SystemTime::now(), machine: Machine::look_up() }
    }
}

/// A word of a command line as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A moment as everybody reads it, in UTC.
#[must_use]
pub fn timestamp(moment: SystemTime) -> String {
    humantime::format_rfc3339_seconds(moment).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--delay=uniform:1ms..2s"), "--delay=uniform:1ms..2s");
        assert_eq!(quoted("my file's.csv"), r"'my file'\''s.csv'");
        assert_eq!(quoted(""), "''");
    }
}
