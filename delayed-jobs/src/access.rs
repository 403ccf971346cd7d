//! Bearer tokens from a file: who may read, and who may write.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::units::lock;

/// Distance of looks at the file.
const LOOK: Duration = Duration::from_secs(1);

/// Shortest token; a shorter one could be guessed.
const SHORTEST: usize = 16;

/// What the bearer of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The tokens of a file, read again when it changes.
pub(crate) struct Tokens {
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

struct Known {
    tokens: HashMap<String, Access>,
    /// The text of the file. A new one may have the date of the one before.
    text: Option<String>,
    looked: Instant,
}

impl Tokens {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        let known = Known {
            tokens: HashMap::new(),
            text: None,
            looked: Instant::now(),
        };
        Self {
            file,
            known: Mutex::new(known),
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a line of it is wrong: the tokens stay as they were.
    pub(crate) fn load(&self) -> Result<(), String> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let wrong = |why: String| format!("{}: {why}", file.display());
        let mut known = lock(&self.known);
        known.looked = Instant::now();
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        if known.text.as_ref() != Some(&text) {
            let tokens = parsed(&text);
            known.text = Some(text);
            known.tokens = tokens.map_err(wrong)?;
        }
        Ok(())
    }

    /// Finds out what the bearer of a token may do; `None` if the token is not known.
    pub(crate) fn access(&self, given: Option<&str>) -> Option<Access> {
        if self.file.is_none() {
            return Some(Access::Write);
        }
        let looked = lock(&self.known).looked;
        if let Some(Err(error)) = (looked.elapsed() >= LOOK).then(|| self.load()) {
            tracing::error!("the tokens stay as they were: {error}");
        }
        // The map's keyed hash keeps the time of a look-up from telling how much of a token is right.
        lock(&self.known).tokens.get(given?.trim()).copied()
    }
}

fn parsed(text: &str) -> Result<HashMap<String, Access>, String> {
    let mut tokens = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [word @ ("read" | "write"), token] if token.len() >= SHORTEST => {
                let access = if word == "write" {
                    Access::Write
                } else {
                    Access::Read
                };
                tokens.insert(token.to_owned(), access);
            }
            [first, ..] if !first.starts_with('#') => {
                // The line itself is not shown: it may hold a token.
                let (number, form) = (number + 1, "`read TOKEN` or `write TOKEN`");
                return Err(format!(
                    "line {number} is not {form} of {SHORTEST} bytes or more"
                ));
            }
            _ => {}
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_wrong_line_of_the_tokens_is_named_and_not_shown() {
        let text = "# who\nread 0123456789abcdef\n\n write  fedcba9876543210\n";
        let tokens = parsed(text).unwrap();
        assert_eq!(tokens["0123456789abcdef"], Access::Read);
        assert_eq!(tokens["fedcba9876543210"], Access::Write);
        for wrong in [
            "write short",
            "0123456789abcdef",
            "all 0123456789abcdef",
            "read 0123456789 abcdef",
        ] {
            let said = parsed(&format!("\n{wrong}")).unwrap_err();
            assert!(said.contains("line 2") && !said.contains(wrong), "{said}");
        }
    }

    #[test]
    fn a_file_that_could_not_be_read_is_read_once_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let date = || {
            std::fs::File::open(&file)
                .unwrap()
                .set_modified(moment)
                .unwrap()
        };
        let tokens = Tokens::new(Some(file.clone()));
        std::fs::write(&file, "write 0123456789abcdef").unwrap();
        date();
        tokens.load().unwrap();
        assert_eq!(tokens.access(Some("0123456789abcdef")), Some(Access::Write));
        // Another one with the same date, as `cp -p` makes it.
        std::fs::write(&file, "read  0123456789abcdef").unwrap();
        date();
        tokens.load().unwrap();
        assert_eq!(tokens.access(Some("0123456789abcdef")), Some(Access::Read));
        // Nobody can read a folder, not even root.
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        date();
        tokens.load().unwrap_err();
        std::fs::remove_dir(&file).unwrap();
        std::fs::write(&file, "write fedcba9876543210").unwrap();
        date();
        tokens.load().unwrap();
        assert_eq!(tokens.access(Some("0123456789abcdef")), None);
    }
}
