//! What the client loops have counted and found, and the last comparison with the server's own counts.

use std::fmt;

use hdrhistogram::Histogram;

use super::activity::Judgement;
use super::connection::{KINDS, Kind};
use super::process::ServerCounts;
use crate::findings::{Breach, Findings};
use crate::measure::{histogram, nanos};
use crate::numbers::{self, count};
use crate::report::model::Verdict;

/// Figures of one kind of connections.
#[derive(Clone, Debug)]
pub(super) struct KindTotals {
    pub(super) opened: u64,
    /// Closed by the server, whenever that was.
    pub(super) closed: u64,
    /// Of those, closes that could not be judged because this program was late itself.
    pub(super) excused: u64,
    /// Open when the run ended: all forgotten, unless it ended early.
    pub(super) open: u64,
    /// Bytes sent.
    pub(super) sent: u64,
    /// Bytes of echo received.
    pub(super) echoed: u64,
    /// Of the closes in time, in nanoseconds.
    pub(super) lateness: Histogram<u64>,
    /// From the begin of a write to the last byte of its echo, in nanoseconds.
    pub(super) round_trip: Histogram<u64>,
}

impl Default for KindTotals {
    fn default() -> Self {
        let (lateness, round_trip) = (histogram(), histogram());
        let (opened, closed, excused, open, sent, echoed) = Default::default();
        Self { opened, closed, excused, open, sent, echoed, lateness, round_trip }
    }
}

impl KindTotals {
    /// Adds the figures of another loop, or of another kind for a sum.
    fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.closed += other.closed;
        self.excused += other.excused;
        self.open += other.open;
        self.sent += other.sent;
        self.echoed += other.echoed;
        let same = "all histograms have the same bounds";
        self.lateness.add(&other.lateness).expect(same);
        self.round_trip.add(&other.round_trip).expect(same);
    }
}

/// Figures of all kinds, and the breaches found.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) kinds: [KindTotals; KINDS.len()],
    pub(super) findings: Findings,
}

impl Totals {
    pub(super) fn of_mut(&mut self, kind: Kind) -> &mut KindTotals {
        &mut self.kinds[kind as usize]
    }

    /// The sum over all kinds.
    pub(super) fn all(&self) -> KindTotals {
        let mut all = KindTotals::default();
        self.kinds.iter().for_each(|kind| all.add(kind));
        all
    }

    pub(super) fn echoed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.echoed).sum()
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
        let show = |by| numbers::nanos(nanos(by));
        match judgement {
            Judgement::InTime(late) => self.of_mut(kind).lateness.saturating_record(nanos(late)),
            Judgement::Excused => self.of_mut(kind).excused += 1,
            Judgement::Open => {}
            Judgement::Early(by) => {
                let what =
                    format!("{name}: closed {} before it had been idle long enough", show(by));
                self.findings.add(Breach::Early, what);
            }
            Judgement::Forgotten(late) => {
                self.findings.add(Breach::Forgotten, format!("{name}: {} late", show(late)));
            }
        }
    }

    /// Holds the server's counts, or the reason why there are none, against those of the clients, and judges the run.
    pub(super) fn verdict(
        &mut self,
        server: &Result<ServerCounts, String>,
        interrupted: bool,
    ) -> Verdict {
        let all = self.all();
        let found = match server {
            Ok(server) => compare(&all, server, interrupted),
            Err(error) => vec![error.clone()],
        };
        found.into_iter().for_each(|text| self.findings.add(Breach::Mismatch, text));
        let equals = if all.closed + all.open == all.opened { "=" } else { "≠" };
        let [opened, closed, open] = [all.opened, all.closed, all.open].map(count);
        let breaches = [Breach::Early, Breach::Forgotten, Breach::Corrupt, Breach::Mismatch];
        Verdict {
            began: all.opened,
            balance: format!(
                "opened {opened} {equals} closed by the server {closed} + open at the end {open}"
            ),
            counts: vec![
                ("opened", all.opened),
                ("closed", all.closed),
                ("open_at_end", all.open),
                ("excused", all.excused),
            ],
            breaches: self.findings.counts(&breaches),
            findings: self.findings.lines(),
        }
    }
}

/// What differs. Where a run that was ended early leaves room, the server's count has to lie in a range.
fn compare(all: &KindTotals, server: &ServerCounts, interrupted: bool) -> Vec<String> {
    // A close that nobody is to blame for may have lost bytes; so may the end of the run.
    let unread = if interrupted || all.excused > 0 { all.sent } else { 0 };
    let under_way = if interrupted { all.open } else { 0 };
    let mut open = server.accepted.saturating_sub(server.closed_idle + server.closed_by_peer);
    if interrupted {
        // The server goes on accepting between its two answers; it cannot have more than the clients opened.
        open = open.max(all.open);
    }
    let ranges = [
        ("connections accepted", server.accepted, all.opened - under_way..=all.opened),
        // The clients may not have seen the last ones.
        ("idle connections closed", server.closed_idle, all.closed..=all.closed + all.open),
        ("connections ended by their clients", server.closed_by_peer, 0..=0),
        ("connections turned away", server.refused, 0..=0),
        ("bytes echoed", server.echoed, all.sent - unread..=all.sent),
        ("timers pending at the end", server.timers, 0..=open),
    ];
    let wrong = ranges.into_iter().filter(|(_, theirs, ours)| !ours.contains(theirs));
    let text = |(what, theirs, ours): (&str, u64, std::ops::RangeInclusive<u64>)| {
        let (low, high) = ours.into_inner();
        let ours = if low == high { high.to_string() } else { format!("{low} to {high}") };
        format!("{what}: the server's statistics say {theirs}, the clients {ours}")
    };
    wrong.map(text).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The totals of ten connections, all closed in time, and the counts of a server that agrees.
    fn sound() -> (Totals, ServerCounts) {
        let mut totals = Totals::default();
        for kind in [Kind::Silent, Kind::Fading] {
            let figures = totals.of_mut(kind);
            (figures.opened, figures.closed) = (5, 5);
            totals.enter(kind, Judgement::InTime(Duration::from_millis(1)), "x");
        }
        totals.of_mut(Kind::Fading).sent = 1000;
        let server =
            ServerCounts { accepted: 10, closed_idle: 10, echoed: 1000, ..Default::default() };
        (totals, server)
    }

    #[test]
    fn every_wrong_close_and_every_wrong_count_is_a_breach() {
        let judged = |judgement, server: Option<ServerCounts>| {
            let (mut totals, sound) = sound();
            totals.enter(Kind::Chatty, judgement, "chatty connection");
            totals.verdict(&Ok(server.unwrap_or(sound)), false)
        };
        let verdict = judged(Judgement::Excused, None);
        assert!(verdict.is_ok() && verdict.counts.contains(&("excused", 1)), "{verdict:?}");
        let by = Duration::from_millis(3);
        for (judgement, word) in [
            (Judgement::Early(by), "early: chatty connection: closed 3.00 ms before"),
            (Judgement::Forgotten(by), "forgotten: chatty connection: 3.00 ms late"),
        ] {
            let verdict = judged(judgement, None);
            assert!(!verdict.is_ok() && verdict.findings[0].starts_with(word), "{verdict:?}");
        }
        let forgeries: [fn(&mut ServerCounts); 7] = [
            |server| server.accepted += 1,
            |server| server.closed_idle -= 1,
            |server| server.closed_by_peer += 1,
            |server| server.refused += 1,
            |server| server.echoed += 1,
            |server| server.echoed -= 1,
            |server| server.timers += 1,
        ];
        for (number, forge) in forgeries.into_iter().enumerate() {
            let mut server = sound().1;
            forge(&mut server);
            assert!(!judged(Judgement::Open, Some(server)).is_ok(), "forgery {number}");
        }
    }

    #[test]
    fn a_server_that_died_is_a_breach() {
        let verdict = sound().0.verdict(&Err("it is gone".to_owned()), false);
        assert_eq!(verdict.findings, ["mismatch: it is gone"]);
    }

    #[test]
    fn an_early_end_leaves_room_for_what_was_under_way() {
        let (mut totals, mut server) = sound();
        totals.of_mut(Kind::Silent).opened += 3;
        totals.of_mut(Kind::Silent).open += 3;
        totals.of_mut(Kind::Fading).sent += 10;
        server.accepted += 2;
        server.closed_idle += 1;
        let verdict = totals.verdict(&Ok(server.clone()), true);
        assert!(verdict.is_ok(), "{verdict:?}");
        server.closed_idle += 3;
        assert!(!totals.verdict(&Ok(server), true).is_ok());
    }
}
