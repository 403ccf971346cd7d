//! The record of one connection: which of its acts the server must have counted, and whether it was closed
//! in time.
//!
//! All instants are the client's, read from the standard library's clock. An *act* is the connect, or a
//! write that took bytes. The server notices it at some moment after the client began it, and closes the
//! connection an idle timeout after the last act that it noticed. So:
//!
//! ```text
//!          begun        noticed by the server                           close seen by the client
//!   -------|------------|-----------------------------------------------|------------>
//!          |------ idle timeout ------|   a close seen before that is early
//!                       |------ idle timeout ------|   the server's own deadline
//!                                      |--------------- lateness -------|
//! ```
//!
//! Lateness is counted from the act's *begin*, the way to the server and back included, so it is an upper
//! bound of what the server's timers are responsible for.

use std::time::{Duration, Instant};

/// What connections are judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) idle: Duration,
    /// Lateness from which a connection counts as forgotten.
    pub(super) grace: Duration,
}

impl Rules {
    /// How long before the earliest deadline an act must be over to have reached the server for certain.
    /// Loopback delivers at once; a busy kernel may put that off for some milliseconds.
    fn delivery(&self) -> Duration {
        self.idle / 10
    }
}

/// The acts of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    /// Begin of the last act that the server must have counted.
    certain: Instant,
    /// Begin of the last act that it may have counted.
    possible: Instant,
    /// Bytes may have moved at the server after the last act that can be seen from here.
    vague: bool,
    /// An act came so late that the server may rightly have closed the connection before: the load
    /// program's own delay.
    late: bool,
}

/// What came of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Judgement {
    /// Closed when it had been idle for the timeout, and so much later if that can be said.
    InTime { late: Option<Duration> },
    /// Closed so much before it had been idle for the timeout.
    Early { by: Duration },
    /// Closed, or still open, so long after the timeout that it counts as forgotten.
    Forgotten { late: Duration },
    /// Closed after this program itself had been too late with a message; nothing can be said.
    Excused,
    /// Open, and rightly so.
    Open,
}

impl Activity {
    /// The connect that begins at `begun`.
    pub(super) fn connect(begun: Instant) -> Self {
        Self { certain: begun, possible: begun, vague: false, late: false }
    }

    /// The connect took effect at `not_before` at the earliest. That is long after its begin if the server's
    /// queue was full, because it is only repeated after a second.
    pub(super) fn established(&mut self, not_before: Instant) {
        self.certain = self.certain.max(not_before);
        self.possible = self.possible.max(not_before);
    }

    /// A write that took bytes which the server will read.
    pub(super) fn wrote(&mut self, begun: Instant, over: Instant, rules: &Rules) {
        self.possible = begun;
        if over + rules.delivery() > self.certain + rules.idle {
            self.late = true;
        } else if !self.late {
            self.certain = begun;
        }
    }

    /// A write that took bytes which the server need not read any more. When the last byte moves between the
    /// full buffers of both systems cannot be seen from here; each such move counts for the server.
    pub(super) fn wrote_in_vain(&mut self, begun: Instant) {
        self.possible = begun;
        self.vague = true;
    }

    /// The server has answered the write that began at `begun`.
    pub(super) fn answered(&mut self, begun: Instant) {
        self.certain = self.certain.max(begun);
        if begun >= self.possible {
            self.late = false;
        }
    }

    /// Judges a close that was seen at `seen`. `talking`: the client meant to go on, and so this program is
    /// late with its next message if the timeout is over.
    pub(super) fn judge_close(&self, seen: Instant, talking: bool, rules: &Rules) -> Judgement {
        let due = self.certain + rules.idle;
        if seen < due {
            return Judgement::Early { by: due - seen };
        }
        if self.late || talking {
            return Judgement::Excused;
        }
        let late = self.lateness(seen, rules);
        if late > self.patience(rules) {
            return Judgement::Forgotten { late };
        }
        Judgement::InTime { late: (!self.vague).then_some(late) }
    }

    /// Judges a connection that is open at `now`.
    pub(super) fn judge_open(&self, now: Instant, rules: &Rules) -> Judgement {
        let late = self.lateness(now, rules);
        if late > self.patience(rules) { Judgement::Forgotten { late } } else { Judgement::Open }
    }

    fn lateness(&self, seen: Instant, rules: &Rules) -> Duration {
        seen.saturating_duration_since(self.possible + rules.idle)
    }

    fn patience(&self, rules: &Rules) -> Duration {
        if self.vague { rules.grace + rules.idle } else { rules.grace }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { idle: Duration::from_secs(2), grace: Duration::from_secs(5) };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A connection that wrote at the given milliseconds after its connect, each write lasting 1 ms.
    fn written(at: &[u64]) -> (Instant, Activity) {
        let start = Instant::now();
        let mut activity = Activity::connect(start);
        for &at in at {
            activity.wrote(start + ms(at), start + ms(at + 1), &RULES);
        }
        (start, activity)
    }

    #[test]
    fn a_close_after_the_timeout_is_in_time_and_measured() {
        let (start, silent) = written(&[]);
        let judged = silent.judge_close(start + ms(2003), false, &RULES);
        assert_eq!(judged, Judgement::InTime { late: Some(ms(3)) });
        let (start, fading) = written(&[700, 1500]);
        let judged = fading.judge_close(start + ms(3500), false, &RULES);
        assert_eq!(judged, Judgement::InTime { late: Some(ms(0)) });
    }

    #[test]
    fn a_connect_that_had_to_be_repeated_counts_from_then() {
        let (start, mut silent) = written(&[]);
        silent.established(start - ms(5));
        let judged = silent.judge_close(start + ms(2000), false, &RULES);
        assert_eq!(judged, Judgement::InTime { late: Some(ms(0)) });
        silent.established(start + ms(1000));
        let judged = silent.judge_close(start + ms(2999), false, &RULES);
        assert_eq!(judged, Judgement::Early { by: ms(1) });
        let judged = silent.judge_close(start + ms(3001), false, &RULES);
        assert_eq!(judged, Judgement::InTime { late: Some(ms(1)) });
    }

    #[test]
    fn a_forged_early_close_is_found() {
        let (start, silent) = written(&[]);
        let judged = silent.judge_close(start + ms(1999), false, &RULES);
        assert_eq!(judged, Judgement::Early { by: ms(1) });
        // The server forgot to push the deadline out: closed two seconds after the connect.
        let (start, chatty) = written(&[600, 1400]);
        for talking in [true, false] {
            let judged = chatty.judge_close(start + ms(2000), talking, &RULES);
            assert_eq!(judged, Judgement::Early { by: ms(1400) });
        }
    }

    #[test]
    fn a_forged_forgotten_connection_is_found() {
        let (start, fading) = written(&[500]);
        let end = |at| start + ms(500) + RULES.idle + RULES.grace + ms(at);
        assert_eq!(fading.judge_open(end(0), &RULES), Judgement::Open);
        let forgotten = Judgement::Forgotten { late: RULES.grace + ms(1) };
        assert_eq!(fading.judge_open(end(1), &RULES), forgotten);
        assert_eq!(fading.judge_close(end(1), false, &RULES), forgotten, "closed far too late");
    }

    #[test]
    fn messages_that_this_program_sent_too_late_excuse_the_server() {
        // Begun in time, but so close to the deadline that the server may have closed before.
        let (start, late) = written(&[1900]);
        assert_eq!(late.judge_close(start + ms(2001), true, &RULES), Judgement::Excused);
        // It does not excuse a close that is early by any reading.
        let judged = late.judge_close(start + ms(1950), true, &RULES);
        assert_eq!(judged, Judgement::Early { by: ms(50) });
        // The next message was overdue when the server closed.
        let (start, stalled) = written(&[100]);
        assert_eq!(stalled.judge_close(start + ms(2200), true, &RULES), Judgement::Excused);
    }

    #[test]
    fn an_answer_makes_a_late_message_certain() {
        let (start, mut late) = written(&[1900, 2500]);
        late.answered(start + ms(1900));
        let early = late.judge_close(start + ms(3000), false, &RULES);
        assert_eq!(early, Judgement::Early { by: ms(900) });
        assert_eq!(late.judge_close(start + ms(4000), false, &RULES), Judgement::Excused);
        late.answered(start + ms(2500));
        let judged = late.judge_close(start + ms(4510), false, &RULES);
        assert_eq!(judged, Judgement::InTime { late: Some(ms(10)) });
    }

    #[test]
    fn a_flood_is_certain_only_in_its_first_write() {
        let (start, mut flood) = written(&[300]);
        flood.wrote_in_vain(start + ms(320));
        let early = flood.judge_close(start + ms(2299), false, &RULES);
        assert_eq!(early, Judgement::Early { by: ms(1) });
        let judged = flood.judge_close(start + ms(2310), false, &RULES);
        assert_eq!(judged, Judgement::InTime { late: None });
        // One more timeout, for bytes that moved unseen.
        let end = |at| start + ms(320) + 2 * RULES.idle + RULES.grace + ms(at);
        assert_eq!(flood.judge_open(end(0), &RULES), Judgement::Open);
        assert!(matches!(flood.judge_open(end(1), &RULES), Judgement::Forgotten { .. }));
    }
}
