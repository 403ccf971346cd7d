//! What a person sees while something takes long: a live line on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Distance of plain lines when the error output is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Distance of updates on a terminal.
const LIVE_EVERY: Duration = Duration::from_millis(80);

/// Progress on the error output.
pub struct Progress(Look);

enum Look {
    Quiet,
    Live { bar: ProgressBar, next: Instant },
    Lines { next: Instant },
}

impl Progress {
    /// Progress of something with `length` units (milliseconds, operations, ...).
    pub fn new(length: u64, quiet: bool) -> Self {
        if quiet {
            return Self(Look::Quiet);
        }
        if !std::io::stderr().is_terminal() {
            return Self(Look::Lines { next: Instant::now() + LINE_EVERY });
        }
        let bar =
            ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{spinner:.cyan} [{bar:24.cyan/dim}] {wide_msg}")
            .expect("the template is a valid constant")
            .progress_chars("━╸─");
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(Look::Live { bar, next: Instant::now() })
    }

    /// Shows how far things are; the text is made only when it will be shown.
    pub fn at(&mut self, position: u64, text: impl FnOnce() -> String) {
        let (Look::Live { next, .. } | Look::Lines { next }) = &mut self.0 else { return };
        let now = Instant::now();
        if now < *next {
            return;
        }
        match &mut self.0 {
            Look::Quiet => {}
            Look::Live { bar, next } => {
                *next = now + LIVE_EVERY;
                bar.set_position(position);
                bar.set_message(text());
            }
            Look::Lines { next } => {
                *next = now + LINE_EVERY;
                eprintln!("{}", text());
            }
        }
    }

    /// Announces the next phase at once.
    pub fn phase(&mut self, text: &str) {
        match &self.0 {
            Look::Quiet => {}
            Look::Live { bar, .. } => bar.set_message(text.to_owned()),
            Look::Lines { .. } => eprintln!("{text}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Look::Live { bar, .. } = &self.0 {
            bar.finish_and_clear();
        }
    }
}
