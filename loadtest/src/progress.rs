//! What a person sees while something takes long: a live line on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// Distance of plain lines when the error output is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Distance of updates on a terminal.
const LIVE_EVERY: Duration = Duration::from_millis(80);

/// Width of the bar.
const BAR: usize = 12;

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
            let style = format!("{{spinner:.cyan}} [{{bar:{BAR}.cyan/dim}}] {{wide_msg}}");
            let style = ProgressStyle::with_template(&style).expect("it is a valid constant");
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
            Some(bar) => {
                let (_, columns) = Term::stderr().size();
                // A spinner, the bar between brackets, and blanks.
                let room = usize::from(columns).saturating_sub(BAR + 6);
                bar.set_message(fitting(text, room).to_owned());
            }
            None if !self.quiet => say(text),
            None => {}
        }
    }
}

/// Returns as many parts of a text, which two blanks part, as fit into the room; the first one always.
fn fitting(text: &str, room: usize) -> &str {
    let ends = text.match_indices("  ").map(|(end, _)| end);
    let ends = ends.chain([text.len()]);
    let fits = |(part, end): &(usize, usize)| *part == 0 || text[..*end].chars().count() <= room;
    let last = ends.enumerate().take_while(fits).last();
    last.map_or(text, |(_, end)| &text[..end])
}

/// A line on the error output; a reader that has gone away is no reason to fail.
pub(crate) fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_a_whole_part() {
        let line = "9.9/10 s  19.1 k pairs/s  1.25 µs";
        for (room, shown) in [
            (80, line),
            (33, line),
            (32, "9.9/10 s  19.1 k pairs/s"),
            (24, "9.9/10 s  19.1 k pairs/s"),
            (23, "9.9/10 s"),
            (3, "9.9/10 s"),
        ] {
            assert_eq!(fitting(line, room), shown, "{room}");
        }
        assert_eq!(fitting("stopping the engine", 5), "stopping the engine");
    }
}
