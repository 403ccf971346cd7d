//! The last comparison, and the judgement over a run against the server.

use super::kind::Kind;
use super::totals::{Fault, KindTotals, Totals};
use crate::host::protocol::ServerCounts;

/// The judgement.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) opened: u64,
    /// Closed by the server.
    pub(crate) closed: u64,
    /// Open when the run ended: all forgotten, unless it ended early.
    pub(crate) open: u64,
    /// Closes that could not be judged because this program was late itself.
    pub(crate) excused: u64,
    pub(crate) early: u64,
    pub(crate) forgotten: u64,
    pub(crate) corrupt: u64,
    pub(crate) mismatches: u64,
    /// `kind: description`, the first of each kind.
    pub(crate) findings: Vec<String>,
}

impl Verdict {
    /// Whether nothing at all was found.
    #[cfg(test)]
    fn is_ok(&self) -> bool {
        self.early == 0 && self.forgotten == 0 && self.corrupt == 0 && self.mismatches == 0
    }

    /// Holds the server's counts, or the reason why there are none, against those of the clients.
    pub(super) fn reach(
        totals: &mut Totals,
        server: &Result<ServerCounts, String>,
        interrupted: bool,
    ) -> Self {
        let all = totals.all();
        let found = match server {
            Ok(server) => compare(totals, &all, server, interrupted),
            Err(error) => vec![error.clone()],
        };
        for text in found {
            totals.findings.add(Fault::Mismatch, text);
        }
        let findings = &totals.findings;
        Self {
            opened: all.opened,
            closed: all.closed,
            open: all.open,
            excused: all.excused,
            early: findings.count(Fault::Early),
            forgotten: findings.count(Fault::Forgotten),
            corrupt: findings.count(Fault::Corrupt),
            mismatches: findings.count(Fault::Mismatch),
            findings: findings.lines(),
        }
    }
}

/// What differs. Where a run that was ended early, or bytes that were under way, leave room, the server's
/// count has to lie in a range.
fn compare(
    totals: &Totals,
    all: &KindTotals,
    server: &ServerCounts,
    interrupted: bool,
) -> Vec<String> {
    let flood = totals.of(Kind::Flooding).sent;
    // A close that nobody is to blame for may have lost bytes; so may the end of the run.
    let all_read = !interrupted && all.excused == 0;
    let pairs = [
        (
            "connections accepted",
            server.accepted,
            all.opened,
            if interrupted { all.open } else { 0 },
        ),
        // The clients may not have seen the last ones.
        ("idle connections closed", server.closed_idle, all.closed + all.open, all.open),
        ("connections ended by their clients", server.closed_by_peer, 0, 0),
        ("connections turned away", server.refused, 0, 0),
        ("bytes echoed", server.echoed, all.sent, if all_read { flood } else { all.sent }),
    ];
    let mut found: Vec<String> = pairs
        .into_iter()
        .filter(|(_, theirs, most, room)| !(most.saturating_sub(*room)..=*most).contains(theirs))
        .map(|(what, theirs, most, room)| match room {
            0 => format!("{what}: the server's statistics say {theirs}, the clients {most}"),
            room => format!(
                "{what}: the server's statistics say {theirs}, the clients {} to {most}",
                most.saturating_sub(room)
            ),
        })
        .collect();
    if all.heartbeats > server.heartbeats {
        found.push(format!(
            "heartbeats: the server's statistics say {}, but the clients got {}",
            server.heartbeats, all.heartbeats
        ));
    }
    let mut open = server.accepted.saturating_sub(server.closed_idle + server.closed_by_peer);
    if interrupted {
        // The server goes on accepting between its two answers; it cannot have more than the clients opened.
        open = open.max(all.open);
    }
    if server.timers > 2 * open {
        found.push(format!(
            "timers: {} were pending at the end for {open} open connections, two for each at most",
            server.timers
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::activity::Judgement;
    use super::*;

    /// The totals of ten connections, all closed in time, and the counts of a server that agrees.
    fn sound() -> (Totals, ServerCounts) {
        let mut totals = Totals::default();
        for kind in [Kind::Silent, Kind::Fading] {
            let figures = totals.of_mut(kind);
            figures.opened = 5;
            figures.closed = 5;
            for _ in 0..5 {
                totals.enter(kind, Judgement::InTime { late: Some(Duration::from_millis(1)) }, "x");
            }
        }
        totals.of_mut(Kind::Fading).sent = 1000;
        totals.of_mut(Kind::Silent).heartbeats = 7;
        let server = ServerCounts {
            accepted: 10,
            closed_idle: 10,
            heartbeats: 7,
            echoed: 1000,
            ..ServerCounts::default()
        };
        (totals, server)
    }

    #[test]
    fn agreement_is_ok() {
        let (mut totals, server) = sound();
        let verdict = Verdict::reach(&mut totals, &Ok(server), false);
        assert!(verdict.is_ok(), "{verdict:?}");
        assert_eq!((verdict.opened, verdict.closed, verdict.open), (10, 10, 0));
        assert_eq!(totals.all().lateness.len(), 10);
    }

    #[test]
    fn an_early_close_and_a_forgotten_connection_are_breaches() {
        let by = Duration::from_millis(3);
        for (judgement, word) in [
            (Judgement::Early { by }, "early: chatty connection: closed 3.00 ms before"),
            (Judgement::Forgotten { late: by }, "forgotten: chatty connection: 3.00 ms late"),
        ] {
            let (mut totals, server) = sound();
            totals.enter(Kind::Chatty, judgement, "chatty connection");
            let verdict = Verdict::reach(&mut totals, &Ok(server), false);
            assert!(!verdict.is_ok());
            assert_eq!(verdict.early + verdict.forgotten, 1);
            assert!(verdict.findings[0].starts_with(word), "{verdict:?}");
        }
    }

    #[test]
    fn excused_closes_are_counted_and_no_breach() {
        let (mut totals, server) = sound();
        totals.enter(Kind::Chatty, Judgement::Excused, "x");
        let verdict = Verdict::reach(&mut totals, &Ok(server), false);
        assert!(verdict.is_ok());
        assert_eq!(verdict.excused, 1);
    }

    #[test]
    fn every_count_of_the_server_is_compared() {
        let forgeries: [fn(&mut ServerCounts); 8] = [
            |server| server.accepted += 1,
            |server| server.closed_idle -= 1,
            |server| server.closed_by_peer += 1,
            |server| server.refused += 1,
            |server| server.echoed += 1,
            |server| server.echoed -= 1,
            |server| server.heartbeats -= 1,
            |server| server.timers += 1,
        ];
        for (number, forge) in forgeries.into_iter().enumerate() {
            let (mut totals, mut server) = sound();
            forge(&mut server);
            let verdict = Verdict::reach(&mut totals, &Ok(server), false);
            assert!(verdict.mismatches >= 1, "forgery {number}: {verdict:?}");
        }
    }

    #[test]
    fn a_server_that_died_is_a_breach() {
        let (mut totals, _) = sound();
        let verdict = Verdict::reach(&mut totals, &Err("it is gone".to_owned()), false);
        assert_eq!((verdict.mismatches, verdict.is_ok()), (1, false));
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
        let verdict = Verdict::reach(&mut totals, &Ok(server.clone()), true);
        assert!(verdict.is_ok(), "{verdict:?}");
        server.closed_idle += 3;
        assert!(!Verdict::reach(&mut totals, &Ok(server), true).is_ok());
    }
}
