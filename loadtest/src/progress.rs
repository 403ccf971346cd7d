//! What a person sees while something takes long: a live line on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// Distance of plain lines when the error output is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Distance of updates on a terminal.
const LIVE_EVERY: Duration = Duration::from_millis(80);

/// Progress on the error output.
pub(crate) struct Progress {
    quiet: bool,
    /// On a terminal only.
    bar: Option<ProgressBar>,
    /// When something is shown again.
    next: Instant,
}

impl Progress {
    /// Progress of something with `length` units (milliseconds, operations, ...).
    pub(crate) fn new(length: u64, quiet: bool) -> Self {
        let on_terminal = !quiet && std::io::stderr().is_terminal();
        let bar = on_terminal.then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(10);
            let style = "{spinner:.cyan} [{bar:24.cyan/dim}] {wide_msg}";
            let style = ProgressStyle::with_template(style).expect("it is a valid constant");
            let bar = ProgressBar::with_draw_target(Some(length), target)
                .with_finish(ProgressFinish::AndClear);
            bar.set_style(style.progress_chars("━╸─"));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        let first = if on_terminal {
            Duration::ZERO
        } else {
            LINE_EVERY
        };
        Self {
            quiet,
            bar,
            next: Instant::now() + first,
        }
    }

    /// Shows how far things are; the text is made only when it will be shown.
    pub(crate) fn at(&mut self, position: u64, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.quiet || now < self.next {
            return;
        }
        self.next = now
            + if self.bar.is_some() {
                LIVE_EVERY
            } else {
                LINE_EVERY
            };
        if let Some(bar) = &self.bar {
            bar.set_position(position);
        }
        self.phase(&text());
    }

    /// Announces the next phase at once.
    pub(crate) fn phase(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None if !self.quiet => say(text),
            None => {}
        }
    }
}

/// A line on the error output; a reader that has gone away is no reason to fail.
pub(crate) fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
