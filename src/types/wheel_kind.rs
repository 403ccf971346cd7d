//! Which wheel a timer has.

/// Which wheel the shards use.
///
/// ```
/// use tickwheel::{LocalTimer, WheelKind, Settings};
///
/// // As Netty's: 512 buckets of 1 ms.
/// let kind = WheelKind::Hashed { buckets: 512 };
/// let timer: LocalTimer<u64> = Settings::new().wheel(kind).build_local()?;
/// # drop(timer);
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum WheelKind {
    /// Rings of growing tick: right for every mix of delays. The default.
    #[default]
    Hierarchical,
    /// One ring with rounds: right when delays are short and similar. Where no timer is due within a revolution, each
    /// tick that fires, and each piece of a sweep, looks at all buckets that hold timers.
    Hashed {
        /// Buckets, rounded up to a power of two; 1 to 65 536.
        buckets: usize,
    },
}
