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

/// The acts of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    /// Begin of the last act that the server must have counted.
    certain: Instant,
    /// Begin of the last act that it may have counted.
    possible: Instant,
    /// An act came so late that the server may rightly have closed the connection before: the load
    /// program's own delay.
    late: bool,
}

/// What came of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Judgement {
    /// Closed when it had been idle for the timeout, and so much later.
    InTime(Duration),
    /// Closed so much before it had been idle for the timeout.
    Early(Duration),
    /// Closed, or still open, so long after the timeout that it counts as forgotten.
    Forgotten(Duration),
    /// Closed after this program itself had been too late with a message; nothing can be said.
    Excused,
    /// Open, and rightly so.
    Open,
}

impl Activity {
    /// The connect that begins at `begun`.
    pub(super) fn connect(begun: Instant) -> Self {
        Self { certain: begun, possible: begun, late: false }
    }

    /// The connect took effect at `not_before` at the earliest. That is long after its begin if the server's
    /// queue was full, because it is only repeated after a second.
    pub(super) fn established(&mut self, not_before: Instant) {
        self.certain = self.certain.max(not_before);
        self.possible = self.possible.max(not_before);
    }

    /// A write that took bytes.
    pub(super) fn wrote(&mut self, begun: Instant, over: Instant, rules: &Rules) {
        // Loopback delivers at once; a busy kernel may put that off for some milliseconds.
        let delivery = rules.idle / 10;
        self.possible = begun;
        if over + delivery > self.certain + rules.idle {
            self.late = true;
        } else if !self.late {
            self.certain = begun;
        }
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
            return Judgement::Early(due - seen);
        }
        if self.late || talking {
            return Judgement::Excused;
        }
        match self.judge_open(seen, rules) {
            Judgement::Open => {
                Judgement::InTime(seen.saturating_duration_since(self.possible + rules.idle))
            }
            forgotten => forgotten,
        }
    }

    /// Judges a connection that is open at `now`.
    pub(super) fn judge_open(&self, now: Instant, rules: &Rules) -> Judgement {
        let late = now.saturating_duration_since(self.possible + rules.idle);
        if late > rules.grace { Judgement::Forgotten(late) } else { Judgement::Open }
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

    /// What each close comes to: writes, then the close, and whether the client meant to go on.
    #[test]
    fn closes_are_judged_by_the_last_act() {
        for (writes, close, talking, judged) in [
            (&[][..], 2003, false, Judgement::InTime(ms(3))),
            (&[700, 1500], 3500, false, Judgement::InTime(ms(0))),
            (&[], 1999, false, Judgement::Early(ms(1))),
            // The server forgot to push the deadline out: closed two seconds after the connect.
            (&[600, 1400], 2000, true, Judgement::Early(ms(1400))),
            (&[500], 7501, false, Judgement::Forgotten(ms(5001))),
            // Begun in time, but so close to the deadline that the server may have closed before.
            (&[1900], 2001, true, Judgement::Excused),
            // It does not excuse a close that is early by any reading.
            (&[1900], 1950, true, Judgement::Early(ms(50))),
            // The next message was overdue when the server closed.
            (&[100], 2200, true, Judgement::Excused),
        ] {
            let (start, activity) = written(writes);
            assert_eq!(activity.judge_close(start + ms(close), talking, &RULES), judged, "{close}");
        }
        let (start, activity) = written(&[500]);
        assert_eq!(activity.judge_open(start + ms(7500), &RULES), Judgement::Open);
        let forgotten = activity.judge_open(start + ms(7501), &RULES);
        assert_eq!(forgotten, Judgement::Forgotten(ms(5001)));
    }

    #[test]
    fn a_connect_that_had_to_be_repeated_counts_from_then() {
        let (start, mut silent) = written(&[]);
        silent.established(start + ms(1000));
        let judged = silent.judge_close(start + ms(2999), false, &RULES);
        assert_eq!(judged, Judgement::Early(ms(1)));
        let judged = silent.judge_close(start + ms(3001), false, &RULES);
        assert_eq!(judged, Judgement::InTime(ms(1)));
    }

    #[test]
    fn an_answer_makes_a_late_message_certain() {
        let (start, mut late) = written(&[1900, 2500]);
        late.answered(start + ms(1900));
        let early = late.judge_close(start + ms(3000), false, &RULES);
        assert_eq!(early, Judgement::Early(ms(900)));
        assert_eq!(late.judge_close(start + ms(4000), false, &RULES), Judgement::Excused);
        late.answered(start + ms(2500));
        let judged = late.judge_close(start + ms(4510), false, &RULES);
        assert_eq!(judged, Judgement::InTime(ms(10)));
    }
}
