//! Breaches found while a run goes on and in the audit after it. Ground: knows no other room.

use std::collections::BTreeMap;
use std::fmt;

/// Descriptions kept per kind; beyond that only the count goes on.
const KEPT_PER_KIND: usize = 20;

/// What a timer engine, or the idle server, must never do, in the order in which reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Breach {
    /// Fired, or closed a connection, before its time.
    Early,
    /// Ended a timer twice: fired and cancelled, fired twice, returned after it fired, ...
    Twice,
    /// Accepted a timer, and then neither fired, nor cancelled, nor returned it.
    Lost,
    /// Did not close a connection until long after its time.
    Forgotten,
    /// Echoed something else than what had been sent.
    Corrupt,
    /// Gave sums, statistics or an outcome that differ from what this program's own record says.
    Mismatch,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural().trim_end_matches("es"))
    }
}

impl Breach {
    /// The name of its count in results.
    fn plural(self) -> &'static str {
        match self {
            Self::Early => "early",
            Self::Twice => "twice",
            Self::Lost => "lost",
            Self::Forgotten => "forgotten",
            Self::Corrupt => "corrupt",
            Self::Mismatch => "mismatches",
        }
    }
}

/// Counts of all breaches, and the first descriptions of each kind.
#[derive(Debug, Default)]
pub(crate) struct Findings(BTreeMap<Breach, (u64, Vec<String>)>);

impl Findings {
    pub(crate) fn add(&mut self, kind: Breach, text: String) {
        self.enter(kind, 1, vec![text]);
    }

    /// Takes over what another thread has found.
    pub(crate) fn absorb(&mut self, other: Self) {
        for (kind, (count, texts)) in other.0 {
            self.enter(kind, count, texts);
        }
    }

    fn enter(&mut self, kind: Breach, more: u64, new: Vec<String>) {
        let (count, texts) = self.0.entry(kind).or_default();
        *count += more;
        let room = KEPT_PER_KIND - texts.len();
        texts.extend(new.into_iter().take(room));
    }

    pub(crate) fn count(&self, kind: Breach) -> u64 {
        self.0.get(&kind).map_or(0, |(count, _)| *count)
    }

    /// The counts of these kinds, for a verdict.
    pub(crate) fn counts(&self, kinds: &[Breach]) -> Vec<(&'static str, u64)> {
        kinds.iter().map(|&kind| (kind.plural(), self.count(kind))).collect()
    }

    /// `kind: description` lines, with a note where more were found than kept.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (kind, (count, texts)) in &self.0 {
            lines.extend(texts.iter().map(|text| format!("{kind}: {text}")));
            let left = count - texts.len() as u64;
            lines.extend((left > 0).then(|| format!("{kind}: and {left} more")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_all_and_keeps_the_first() {
        let (mut findings, mut other) = (Findings::default(), Findings::default());
        for n in 0..50 {
            findings.add(Breach::Twice, format!("timer {n}"));
        }
        other.add(Breach::Twice, "timer 50".to_owned());
        other.add(Breach::Early, "timer 7".to_owned());
        findings.absorb(other);
        let counts = findings.counts(&[Breach::Twice, Breach::Early, Breach::Mismatch]);
        assert_eq!(counts, [("twice", 51), ("early", 1), ("mismatches", 0)]);
        let lines = findings.lines();
        assert_eq!(lines.len(), 1 + KEPT_PER_KIND + 1);
        assert_eq!(lines[0], "early: timer 7");
        assert_eq!(lines.last().unwrap(), "twice: and 31 more");
    }
}
