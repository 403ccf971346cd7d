//! Breaches found while a run goes on and in the audit after it. Ground: knows no other room.

use std::collections::BTreeMap;

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
    /// Gave sums, statistics or an outcome that differ from what this program's own record says.
    Mismatch,
}

impl Breach {
    /// The name in results.
    fn name(self) -> &'static str {
        ["early", "twice", "lost", "forgotten", "mismatches"][self as usize]
    }
}

/// Counts of all breaches, and the first descriptions of each kind.
#[derive(Debug, Default)]
pub(crate) struct Findings(BTreeMap<Breach, (u64, Vec<String>)>);

impl Findings {
    pub(crate) fn add(&mut self, kind: Breach, text: String) {
        let (count, texts) = self.0.entry(kind).or_default();
        *count += 1;
        if texts.len() < KEPT_PER_KIND {
            texts.push(text);
        }
    }

    /// Notes a mismatch if the two numbers differ.
    pub(crate) fn compare(&mut self, what: &str, theirs: u64, ours: u64) {
        if theirs != ours {
            let text = format!("{what}: {theirs}, but this program's own record says {ours}");
            self.add(Breach::Mismatch, text);
        }
    }

    /// The counts of these kinds, for a verdict.
    pub(crate) fn counts(&self, kinds: &[Breach]) -> Vec<(&'static str, u64)> {
        let count = |kind| self.0.get(kind).map_or(0, |(count, _)| *count);
        kinds
            .iter()
            .map(|kind| (kind.name(), count(kind)))
            .collect()
    }

    /// `kind: description` lines, with a note where more were found than kept.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (kind, (count, texts)) in &self.0 {
            let name = kind.name();
            lines.extend(texts.iter().map(|text| format!("{name}: {text}")));
            let left = count - texts.len() as u64;
            lines.extend((left > 0).then(|| format!("{name}: and {left} more")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_all_and_keeps_the_first() {
        let mut findings = Findings::default();
        (0..50).for_each(|n| findings.add(Breach::Twice, format!("timer {n}")));
        findings.add(Breach::Early, "timer 7".to_owned());
        let counts = findings.counts(&[Breach::Twice, Breach::Early, Breach::Mismatch]);
        assert_eq!(counts, [("twice", 50), ("early", 1), ("mismatches", 0)]);
        let lines = findings.lines();
        let ends = (lines.len(), &*lines[0], &*lines[21]);
        assert_eq!(ends, (22, "early: timer 7", "twice: and 30 more"));
    }
}
