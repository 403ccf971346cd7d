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

/// The acts of one connection.
pub(super) struct Activity {
    /// Silence after which the server has to close it.
    idle: Duration,
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
pub(super) enum Judgement {
    /// Closed when it had been idle for the timeout, and so much later.
    InTime(Duration),
    /// Closed so much before it had been idle for the timeout.
    Early(Duration),
    /// Closed after this program itself had been too late with a message; nothing can be said.
    Excused,
}

impl Activity {
    /// The connect that begins at `begun`.
    pub(super) fn connect(begun: Instant, idle: Duration) -> Self {
        Self {
            idle,
            certain: begun,
            possible: begun,
            late: false,
        }
    }

    /// A write that took bytes.
    pub(super) fn wrote(&mut self, begun: Instant, over: Instant) {
        // Loopback delivers at once; a busy kernel may put that off for some milliseconds.
        let delivery = self.idle / 10;
        self.possible = begun;
        if over + delivery > self.certain + self.idle {
            self.late = true;
        } else if !self.late {
            self.certain = begun;
        }
    }

    /// Judges a close that was seen at `seen`. `talking`: the client meant to go on, and so this program is
    /// late with its next message if the timeout is over.
    pub(super) fn judge(&self, seen: Instant, talking: bool) -> Judgement {
        let due = self.certain + self.idle;
        if seen < due {
            Judgement::Early(due - seen)
        } else if self.late || talking {
            Judgement::Excused
        } else {
            Judgement::InTime(self.lateness(seen))
        }
    }

    /// How late the close is that has not been seen before `now`.
    pub(super) fn lateness(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.possible + self.idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each close comes to: writes of 1 ms each, then the close, and whether the client meant to go on.
    #[test]
    fn closes_are_judged_by_the_last_act() {
        let ms = Duration::from_millis;
        for (writes, close, talking, judged) in [
            (&[][..], 2003, false, Judgement::InTime(ms(3))),
            (&[700, 1500], 3500, false, Judgement::InTime(ms(0))),
            (&[], 1999, false, Judgement::Early(ms(1))),
            // The server forgot to push the deadline out: closed two seconds after the connect.
            (&[600, 1400], 2000, true, Judgement::Early(ms(1400))),
            // Begun in time, but so close to the deadline that the server may have closed before.
            (&[1900], 2001, true, Judgement::Excused),
            // It does not excuse a close that is early by any reading.
            (&[1900], 1950, true, Judgement::Early(ms(50))),
            (&[1900, 2500], 4510, false, Judgement::Excused),
            // The next message was overdue when the server closed.
            (&[100], 2200, true, Judgement::Excused),
        ] {
            let start = Instant::now();
            let mut activity = Activity::connect(start, ms(2000));
            for &at in writes {
                activity.wrote(start + ms(at), start + ms(at + 1));
            }
            assert_eq!(
                activity.judge(start + ms(close), talking),
                judged,
                "{close}"
            );
        }
    }
}
