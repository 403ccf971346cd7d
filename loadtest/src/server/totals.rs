//! What the client loops have counted, and what they have found.

use std::fmt;

use hdrhistogram::Histogram;

use super::activity::Judgement;
use super::kind::{KINDS, Kind};
use crate::findings::Findings;
use crate::measure::{LiveCount, histogram, nanos};
use crate::numbers;

/// What the server must never do, in the order in which reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Closed before the connection had been idle for the timeout.
    Early,
    /// Not closed long after that.
    Forgotten,
    /// The echo was not what had been sent.
    Corrupt,
    /// The server's own counts differ from what the clients saw.
    Mismatch,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Early => "early",
            Self::Forgotten => "forgotten",
            Self::Corrupt => "corrupt",
            Self::Mismatch => "mismatch",
        })
    }
}

/// Figures of one kind of connections.
#[derive(Clone, Debug)]
pub(crate) struct KindTotals {
    pub(crate) opened: u64,
    /// Closed by the server, whenever that was.
    pub(crate) closed: u64,
    /// Of those, closes that could not be judged because this program was late itself.
    pub(crate) excused: u64,
    /// Open when the run ended.
    pub(crate) open: u64,
    /// Bytes sent.
    pub(crate) sent: u64,
    /// Bytes of echo received.
    pub(crate) echoed: u64,
    pub(crate) heartbeats: u64,
    /// Of the closes in time, in nanoseconds.
    pub(crate) lateness: Histogram<u64>,
    /// From the begin of a write to the last byte of its echo, in nanoseconds.
    pub(crate) round_trip: Histogram<u64>,
}

impl Default for KindTotals {
    fn default() -> Self {
        Self {
            opened: 0,
            closed: 0,
            excused: 0,
            open: 0,
            sent: 0,
            echoed: 0,
            heartbeats: 0,
            lateness: histogram(),
            round_trip: histogram(),
        }
    }
}

impl KindTotals {
    /// Adds the figures of another loop, or of another kind for a sum.
    pub(crate) fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.closed += other.closed;
        self.excused += other.excused;
        self.open += other.open;
        self.sent += other.sent;
        self.echoed += other.echoed;
        self.heartbeats += other.heartbeats;
        let same = "all histograms have the same bounds";
        self.lateness.add(&other.lateness).expect(same);
        self.round_trip.add(&other.round_trip).expect(same);
    }
}

/// Figures of all kinds, and the breaches found.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    kinds: [KindTotals; KINDS.len()],
    pub(super) findings: Findings<Fault>,
}

impl Totals {
    pub(crate) fn of(&self, kind: Kind) -> &KindTotals {
        &self.kinds[kind as usize]
    }

    pub(super) fn of_mut(&mut self, kind: Kind) -> &mut KindTotals {
        &mut self.kinds[kind as usize]
    }

    /// The sum over all kinds.
    pub(crate) fn all(&self) -> KindTotals {
        let mut all = KindTotals::default();
        self.kinds.iter().for_each(|kind| all.add(kind));
        all
    }

    /// Takes over what another loop has counted and found.
    pub(super) fn absorb(&mut self, other: Self) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.add(theirs);
        }
        self.findings.absorb(other.findings);
    }

    /// Enters what came of the connection that `name` describes.
    pub(super) fn enter(&mut self, kind: Kind, judgement: Judgement, name: impl fmt::Display) {
        let figures = self.of_mut(kind);
        let fault = match judgement {
            Judgement::InTime { late: Some(late) } => {
                return figures.lateness.saturating_record(nanos(late));
            }
            Judgement::Excused => return figures.excused += 1,
            Judgement::InTime { late: None } | Judgement::Open => return,
            Judgement::Early { by } => {
                let by = numbers::nanos(nanos(by));
                (Fault::Early, format!("{name}: closed {by} before it had been idle long enough"))
            }
            Judgement::Forgotten { late } => {
                let late = numbers::nanos(nanos(late));
                (Fault::Forgotten, format!("{name}: {late} late"))
            }
        };
        self.findings.add(fault.0, fault.1);
    }
}

/// Totals that a loop publishes while it runs.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) opened: LiveCount,
    pub(super) closed: LiveCount,
    /// Bytes sent and received.
    pub(super) bytes: LiveCount,
}
