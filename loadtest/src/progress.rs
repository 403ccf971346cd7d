//! What a person sees while something takes long: a live line on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Progress on the error output.
pub(crate) struct Progress {
    quiet: bool,
    on_terminal: bool,
    /// How often something is shown, and when again.
    every: Duration,
    next: Instant,
}

impl Progress {
    /// Progress of something that begins now.
    pub(crate) fn new(quiet: bool) -> Self {
        let on_terminal = !quiet && std::io::stderr().is_terminal();
        let every = Duration::from_millis(if on_terminal { 80 } else { 2000 });
        Self { quiet, on_terminal, every, next: Instant::now() + every }
    }

    /// Shows how far things are; the text is made only when it will be shown.
    pub(crate) fn at(&mut self, text: impl FnOnce() -> String) {
        if !self.quiet && Instant::now() >= self.next {
            self.next = Instant::now() + self.every;
            self.phase(&text());
        }
    }

    /// Announces the next phase at once.
    pub(crate) fn phase(&self, text: &str) {
        if self.on_terminal {
            eprint!("\r\x1b[K{text}");
        } else if !self.quiet {
            eprintln!("{text}");
        }
    }
}

/// What follows begins on an empty line.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.on_terminal {
            eprint!("\r\x1b[K");
        }
    }
}
