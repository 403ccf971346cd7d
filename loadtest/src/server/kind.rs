//! The kinds of clients, and when each of them speaks.

use std::fmt;
use std::time::Duration;

use crate::settings::server::Shares;

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Never pauses for as long as the idle timeout, until the load ends; reads and checks its echo.
    Chatty,
    /// Never says a word.
    Silent,
    /// Is chatty for a while, then silent.
    Fading,
    /// Sends a little and never reads.
    HalfOpen,
    /// Sends until nothing goes any more, and never reads.
    Flooding,
}

/// Every kind, in the order of the reports.
pub(crate) const KINDS: [Kind; 5] =
    [Kind::Chatty, Kind::Fading, Kind::Silent, Kind::HalfOpen, Kind::Flooding];

/// Bytes that a half-open client sends at most: what the buffers of both systems hold for certain, so that
/// the server has read all of it although nobody reads the echo.
pub(super) const HALF_OPEN_MOST: u64 = 32 * 1024;

/// Bounds of a pause between two messages, as parts of the idle timeout. The rest of it is the room for the
/// scheduler of a busy machine.
const PAUSE: (f64, f64) = (0.1, 0.6);
/// Bounds of the time for which a fading or half-open client talks.
const TALK: (f64, f64) = (0.3, 2.0);
/// Bytes of a message.
const MESSAGE: (f64, f64) = (1.0, 4096.0);

impl Kind {
    /// Whether it reads what the server sends.
    pub(super) fn reads(self) -> bool {
        matches!(self, Self::Chatty | Self::Fading | Self::Silent)
    }

    /// How long it talks once it is connected.
    pub(super) fn talks_for(self, idle: Duration, rng: &mut fastrand::Rng) -> Duration {
        match self {
            Self::Silent => Duration::ZERO,
            Self::Chatty | Self::Flooding => Duration::MAX,
            Self::Fading | Self::HalfOpen => between(TALK, idle, rng),
        }
    }
}

/// The time until the next message.
pub(super) fn pause(idle: Duration, rng: &mut fastrand::Rng) -> Duration {
    between(PAUSE, idle, rng)
}

/// The length of a message: as often between 1 and 10 bytes as between 100 and 1000.
pub(super) fn message(rng: &mut fastrand::Rng) -> usize {
    let (low, high) = (MESSAGE.0.ln(), MESSAGE.1.ln());
    // The logarithms are rounded, so the ends may be missed by one.
    ((low + (high - low) * rng.f64()).exp() as usize).clamp(1, MESSAGE_MOST)
}

/// The longest message.
pub(super) const MESSAGE_MOST: usize = MESSAGE.1 as usize;

fn between((low, high): (f64, f64), idle: Duration, rng: &mut fastrand::Rng) -> Duration {
    idle.mul_f64(low + (high - low) * rng.f64())
}

/// So many connections of each kind as the shares say, in random order.
pub(super) fn deal(connections: usize, shares: &Shares, rng: &mut fastrand::Rng) -> Vec<Kind> {
    let part = |share: f64| (share * connections as f64).round() as usize;
    let talking = [
        (Kind::Chatty, shares.chatty),
        (Kind::Fading, shares.fading),
        (Kind::HalfOpen, shares.half_open),
        (Kind::Flooding, shares.flooding),
    ];
    let mut kinds: Vec<Kind> = talking
        .into_iter()
        .flat_map(|(kind, share)| std::iter::repeat_n(kind, part(share)))
        .take(connections)
        .collect();
    kinds.resize(connections, Kind::Silent);
    rng.shuffle(&mut kinds);
    kinds
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chatty => "chatty",
            Self::Silent => "silent",
            Self::Fading => "fading",
            Self::HalfOpen => "half-open",
            Self::Flooding => "flooding",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_dealt_by_share() {
        let mut rng = fastrand::Rng::with_seed(1);
        let shares = Shares { chatty: 0.4, fading: 0.2, half_open: 0.1, flooding: 0.05 };
        let dealt = deal(1000, &shares, &mut rng);
        let count = |kind| dealt.iter().filter(|one| **one == kind).count();
        assert_eq!(KINDS.map(count), [400, 200, 250, 100, 50]);
        assert_ne!(dealt[..400], vec![Kind::Chatty; 400], "they are mixed");
        assert_eq!(deal(1, &shares, &mut rng).len(), 1);
    }

    #[test]
    fn messages_and_pauses_stay_inside() {
        let mut rng = fastrand::Rng::with_seed(2);
        let idle = Duration::from_secs(2);
        for _ in 0..10_000 {
            assert!((1..=MESSAGE_MOST).contains(&message(&mut rng)));
            let pause = pause(idle, &mut rng);
            assert!(idle / 10 <= pause && pause <= idle * 6 / 10, "{pause:?}");
        }
    }
}
