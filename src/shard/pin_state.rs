//! How a worker is pinned.

/// How a worker is pinned at the moment.
///
/// ```
/// use tickwheel::PinState;
///
/// assert_eq!(PinState::Pinned(3).core(), Some(3));
/// assert_eq!(PinState::Widened(3).core(), None);
///
/// # let timer: tickwheel::Timer = tickwheel::Timer::new()?;
/// for shard in &timer.stats().shards {
///     if let PinState::Widened(core) = shard.pinning {
///         println!("shard {} was kept waiting for core {core}", shard.shard);
///     }
/// }
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PinState {
    /// It runs wherever the operating system lets it: not started, not to be pinned, or the pin has failed.
    #[default]
    Unpinned,
    /// To this core.
    Pinned(usize),
    /// It was pinned to this core, was kept waiting for it, and may use all cores of the process again.
    Widened(usize),
}

impl PinState {
    /// Returns the core that the worker is pinned to now.
    #[must_use]
    pub const fn core(self) -> Option<usize> {
        match self {
            Self::Pinned(core) => Some(core),
            Self::Unpinned | Self::Widened(_) => None,
        }
    }

    /// Packs the state into one number, for a gauge.
    pub(crate) const fn pack(self) -> u64 {
        match self {
            Self::Unpinned => 0,
            Self::Pinned(core) => 1 + 2 * core as u64,
            Self::Widened(core) => 2 + 2 * core as u64,
        }
    }

    pub(crate) const fn unpack(packed: u64) -> Self {
        match packed {
            0 => Self::Unpinned,
            odd if odd % 2 == 1 => Self::Pinned((odd / 2) as usize),
            even => Self::Widened((even / 2 - 1) as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_state_survives_its_gauge() {
        let states = [0, 1, 7, 1023].map(|core| [PinState::Pinned(core), PinState::Widened(core)]);
        for state in states.into_iter().flatten().chain([PinState::Unpinned]) {
            assert_eq!(PinState::unpack(state.pack()), state);
        }
        assert_eq!(PinState::Widened(3).core(), None);
        assert_eq!(PinState::Pinned(3).core(), Some(3));
    }
}
