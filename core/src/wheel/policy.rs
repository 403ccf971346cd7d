//! When it pays to look for the dead before entries are inserted or sealed, and to seal.

/// How many looks for the dead are skipped after one that found hardly any: then looking costs an eighth.
pub(super) const SKIPPED_LOOKS: u32 = 7;

/// Decides whether it pays to look for the dead before entries are inserted or sealed.
#[derive(Default)]
pub(super) struct LookPolicy {
    skipped: u32,
}

impl LookPolicy {
    /// Returns whether the next look is skipped.
    pub(super) fn skips(&mut self) -> bool {
        let skips = self.skipped > 0;
        self.skipped = self.skipped.saturating_sub(1);
        skips
    }

    /// Notes a look that has removed so many `of` all entries.
    pub(super) fn note(&mut self, removed: usize, of: usize) {
        if removed < of / 8 {
            self.skipped = SKIPPED_LOOKS;
        }
    }
}

/// How often the log's young blocks are sealed after many zombies were seen the last time.
const SEALED_AFTER: u32 = 16;

/// Decides whether it pays to seal: not where hardly any timer dies. Then an entry here is only copied once more.
#[derive(Default)]
pub(super) struct SealPolicy {
    left: u32,
}

impl SealPolicy {
    pub(super) fn should_seal(&mut self, entries: u64, pending: u64) -> bool {
        let are_many = entries > pending + pending / 16;
        self.left = if are_many {
            SEALED_AFTER
        } else {
            self.left.saturating_sub(1)
        };
        self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealing_pays_where_timers_die_and_for_a_while_after_that() {
        let mut seals = SealPolicy::default();
        assert!(!seals.should_seal(160_000, 160_000) && !seals.should_seal(170_000, 160_000));
        assert!(
            !seals.should_seal(100, 160_000),
            "the others wait in the inbox"
        );
        assert!(seals.should_seal(170_001, 160_000));
        let after = (0..100)
            .take_while(|_| seals.should_seal(160_000, 160_000))
            .count();
        assert_eq!(after as u32, SEALED_AFTER - 1);
    }

    #[test]
    fn looks_are_skipped_for_a_while_after_one_that_finds_few() {
        let mut looks = LookPolicy::default();
        looks.note(10, 80);
        assert!(!looks.skips(), "an eighth is enough");
        looks.note(9, 80);
        assert_eq!(
            (0..100).filter(|_| looks.skips()).count() as u32,
            SKIPPED_LOOKS
        );
    }
}
