//! What a node is made of. All nodes of one namespace must agree on partitions and window.

use std::time::Duration;

/// Settings of a [`Store`](crate::Store) and of a [`Node`](crate::Node).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address of the Redis server, such as `redis://127.0.0.1:6379`.
    pub redis: String,
    /// Begins every key, so that several systems can share a server.
    pub namespace: String,
    /// Into how many parts the jobs are divided; the most nodes that can share the work. 1 to 4096.
    pub partitions: u16,
    /// How long a partition stays with a node that says nothing any more. At least 100 ms.
    pub lease: Duration,
    /// How far ahead a node knows when something is due. At least one second.
    pub window: Duration,
    /// The unit of time of the node's timer.
    pub tick: Duration,
    /// How long an ended job, and its idempotency key, can still be asked for.
    pub retention: Duration,
    /// How long an answer of Redis is waited for.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            redis: "redis://127.0.0.1:6379".to_owned(),
            namespace: "jobs".to_owned(),
            partitions: 16,
            lease: Duration::from_secs(3),
            window: Duration::from_secs(30),
            tick: Duration::from_millis(1),
            retention: Duration::from_secs(3600),
            patience: Duration::from_secs(1),
        }
    }
}

impl Settings {
    /// What is wrong with these settings, if anything is.
    ///
    /// # Errors
    ///
    /// The first value that cannot be used, with what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.namespace.is_empty() || !self.namespace.chars().all(name) {
            return Err(format!(
                "the namespace `{}` is not made of letters, digits, `-`, `_` and `.`",
                self.namespace
            ));
        }
        if !(1..=4096).contains(&self.partitions) {
            return Err(format!("{} partitions are not possible; use 1 to 4096", self.partitions));
        }
        if self.lease < Duration::from_millis(100) {
            return Err("the lease is too short; use 100 ms or more".to_owned());
        }
        if self.window < Duration::from_secs(1) {
            return Err("the window is too short; use 1 s or more".to_owned());
        }
        if self.patience.is_zero() || self.retention < Duration::from_secs(1) {
            return Err("patience must not be 0 and retention not below 1 s".to_owned());
        }
        Ok(())
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        millis(self.lease)
    }

    pub(crate) fn window_ms(&self) -> u64 {
        millis(self.window)
    }
}

/// Whole milliseconds, rounded up, saturating.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_named() {
        assert_eq!(Settings::default().check(), Ok(()));
        let bad = [
            (Settings { namespace: "a b".to_owned(), ..Settings::default() }, "letters"),
            (Settings { partitions: 0, ..Settings::default() }, "1 to 4096"),
            (Settings { lease: Duration::from_millis(99), ..Settings::default() }, "100 ms"),
            (Settings { window: Duration::ZERO, ..Settings::default() }, "1 s"),
            (Settings { patience: Duration::ZERO, ..Settings::default() }, "patience"),
        ];
        for (settings, hint) in bad {
            let said = settings.check().unwrap_err();
            assert!(said.contains(hint), "{said}");
        }
    }

    #[test]
    fn parts_of_a_millisecond_round_up() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
