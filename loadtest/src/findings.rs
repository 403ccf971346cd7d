//! Breaches found while a run goes on and in the audit after it. Ground: knows no other room.

use std::collections::BTreeMap;
use std::fmt;

/// Descriptions kept per kind; beyond that only the count goes on.
pub(crate) const KEPT_PER_KIND: usize = 20;

/// Counts of all breaches, and the first descriptions of each kind.
#[derive(Debug)]
pub(crate) struct Findings<K>(BTreeMap<K, Found>);

#[derive(Debug, Default)]
struct Found {
    count: u64,
    texts: Vec<String>,
}

impl<K> Default for Findings<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy + fmt::Display> Findings<K> {
    pub(crate) fn add(&mut self, kind: K, text: String) {
        let found = self.0.entry(kind).or_default();
        found.count += 1;
        if found.texts.len() < KEPT_PER_KIND {
            found.texts.push(text);
        }
    }

    /// Takes over what another thread has found.
    pub(crate) fn absorb(&mut self, other: Self) {
        for (kind, theirs) in other.0 {
            let found = self.0.entry(kind).or_default();
            found.count += theirs.count;
            let room = KEPT_PER_KIND - found.texts.len();
            found.texts.extend(theirs.texts.into_iter().take(room));
        }
    }

    pub(crate) fn count(&self, kind: K) -> u64 {
        self.0.get(&kind).map_or(0, |found| found.count)
    }

    /// `kind: description` lines, with a note where more were found than kept.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (kind, found) in &self.0 {
            lines.extend(found.texts.iter().map(|text| format!("{kind}: {text}")));
            let kept = found.texts.len() as u64;
            if found.count > kept {
                lines.push(format!("{kind}: and {} more", found.count - kept));
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
        let mut findings = Findings::default();
        for n in 0..50 {
            findings.add("twice", format!("timer {n}"));
        }
        findings.add("early", "timer 7".to_owned());
        assert_eq!(findings.count("twice"), 50);
        let lines = findings.lines();
        assert_eq!(lines.len(), 1 + KEPT_PER_KIND + 1);
        assert_eq!(lines[0], "early: timer 7");
        assert_eq!(lines.last().unwrap(), "twice: and 30 more");
    }

    #[test]
    fn takes_over_what_others_found() {
        let (mut all, mut other) = (Findings::default(), Findings::default());
        for n in 0..15 {
            all.add("early", format!("timer {n}"));
            other.add("early", format!("other {n}"));
        }
        other.add("lost", "timer 7".to_owned());
        all.absorb(other);
        assert_eq!((all.count("early"), all.count("lost")), (30, 1));
        let lines = all.lines();
        assert_eq!(lines.len(), KEPT_PER_KIND + 2);
        assert_eq!(lines[KEPT_PER_KIND], "early: and 10 more");
    }
}
