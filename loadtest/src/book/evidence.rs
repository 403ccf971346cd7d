//! Breaches found while the run goes on and in the audit after it.

use serde::Serialize;

/// What a timer engine must never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Fired before its requested deadline.
    Early,
    /// Ended twice: fired and cancelled, fired twice, returned after it fired, ...
    Twice,
    /// Accepted, and then neither fired, nor cancelled, nor returned.
    Lost,
    /// The sums, the engine's statistics or a computed outcome differ from what the books say.
    Mismatch,
}

/// Every kind, in the order in which reports name them.
pub(crate) const KINDS: [Kind; 4] = [Kind::Early, Kind::Twice, Kind::Lost, Kind::Mismatch];

impl Kind {
    /// One word for tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Early => "early",
            Self::Twice => "twice",
            Self::Lost => "lost",
            Self::Mismatch => "mismatch",
        }
    }
}

/// Descriptions kept per kind; beyond that only the count goes on.
pub(crate) const KEPT_PER_KIND: usize = 20;

/// Counts of all breaches, and the first descriptions of each kind.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    counts: [u64; KINDS.len()],
    texts: [Vec<String>; KINDS.len()],
}

impl Evidence {
    pub(crate) fn add(&mut self, kind: Kind, text: String) {
        self.counts[kind as usize] += 1;
        let texts = &mut self.texts[kind as usize];
        if texts.len() < KEPT_PER_KIND {
            texts.push(text);
        }
    }

    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }

    /// `kind: description` lines, with a note where more were found than kept.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for kind in KINDS {
            let texts = &self.texts[kind as usize];
            lines.extend(texts.iter().map(|text| format!("{}: {text}", kind.name())));
            let kept = texts.len() as u64;
            if self.count(kind) > kept {
                lines.push(format!("{}: and {} more", kind.name(), self.count(kind) - kept));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_all_and_keeps_the_first() {
        let mut evidence = Evidence::default();
        for n in 0..50 {
            evidence.add(Kind::Twice, format!("timer {n}"));
        }
        evidence.add(Kind::Early, "timer 7".to_owned());
        assert_eq!(evidence.count(Kind::Twice), 50);
        let lines = evidence.lines();
        assert_eq!(lines.len(), 1 + KEPT_PER_KIND + 1);
        assert_eq!(lines[0], "early: timer 7");
        assert_eq!(lines.last().unwrap(), "twice: and 30 more");
    }
}
