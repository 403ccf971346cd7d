//! What has to be reached, checked against what was measured in the same run.

use crate::peer::Peer;
use crate::results::Results;

/// One goal and how it went.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Which figure.
    pub figure: String,
    /// What is asked for.
    pub goal: String,
    /// What there is.
    pub measured: String,
    /// Whether that is enough; `None` if it was not measured.
    pub met: Option<bool>,
}

/// What a metric has to be.
enum Bar {
    /// At most this much.
    AtMost(f64),
    /// At most this share of the best peer's.
    Share(f64),
    /// The same for the time above that of a table without a timer, because memory bounds everybody alike.
    AboveFloor(f64),
    /// At least so many times the best peer's.
    Times(f64),
    /// At most this share of the best of what async code takes today.
    ShareOfFutures(f64),
    /// At most so many times another figure: its name, peer and metric.
    Than(f64, &'static str, Peer, &'static str),
    /// At least so many times another peer's.
    AtLeast(f64, Peer),
}

/// Every goal, in the order of the project's performance page.
#[must_use]
pub fn check(results: &Results) -> Vec<Verdict> {
    goals().into_iter().map(|goal| judge(results, goal)).collect()
}

type Goal = (&'static str, Peer, &'static str, Bar, &'static str);

#[rustfmt::skip]
fn goals() -> Vec<Goal> {
    use Bar::{AboveFloor, AtLeast, AtMost, Share, ShareOfFutures, Than, Times};
    use Peer::{
        EventLoopTimer, Floor, LocalTimer, LockedTree, LockedWheel, Netty, Sleep, Timer,
        TimerClosures, TimerHandles, TimerSlack, TimerSubmitter, TimerTimes, Tokio,
    };
    let (pair, own_loop) = ("ns/pair", "EventLoopTimer <= 1.5 x LocalTimer");
    let (flat, late, fine) = ("memory flat (growth <= 5 %)", "late-100k", "late-100k-50us");
    let (cpu, zero) = ("CPU us/timer", "zero delay ns");
    vec![
        ("churn-1k", LocalTimer, pair, AboveFloor(1.0 / 3.0), "1/3"),
        ("churn-100k", LocalTimer, pair, AboveFloor(0.8), "0.8"),
        ("churn-1M", LocalTimer, pair, AboveFloor(0.8), "0.8"),
        ("churn-tick-100k", LocalTimer, pair, Share(0.8), "0.8"),
        ("churn-tick-100k", LocalTimer, "growth %", AtMost(5.0), flat),
        ("churn-tick-1M", LocalTimer, pair, Share(0.8), "0.8"),
        ("churn-tick-1M", LocalTimer, "growth %", AtMost(5.0), flat),
        ("life-1M", LocalTimer, "ns/timer", Share(0.22), "0.22"),
        ("life-10M", LocalTimer, "ns/timer", Than(1.3, "life-1M", LocalTimer, "ns/timer"), "<= 1.3 x its own life-1M"),
        ("rearm-100k", LocalTimer, "ns/rearm", Than(1.5, "rearm-100k", Floor, "ns/rearm"), "<= 1.5 x the floor"),
        ("churn-1k", EventLoopTimer, pair, Than(1.5, "churn-1k", LocalTimer, pair), own_loop),
        ("churn-100k", EventLoopTimer, pair, Than(1.5, "churn-100k", LocalTimer, pair), own_loop),
        ("churn-1M", EventLoopTimer, pair, Than(1.5, "churn-1M", LocalTimer, pair), own_loop),
        ("life-1M", EventLoopTimer, "ns/timer", Than(1.5, "life-1M", LocalTimer, "ns/timer"), own_loop),
        ("cross-1", Timer, PAIRS, Times(3.0), "3"),
        ("cross-1", TimerHandles, PAIRS, AtLeast(0.85, Timer), "handles >= 0.85 x keys"),
        ("cross-1", TimerClosures, PAIRS, AtLeast(0.85, Timer), "closures >= 0.85 x keys"),
        ("cross-2", Timer, PAIRS, Times(3.0), "3"),
        ("cross-2", TimerHandles, PAIRS, AtLeast(0.85, Timer), "handles >= 0.85 x keys"),
        ("cross-2", TimerClosures, PAIRS, AtLeast(0.85, Timer), "closures >= 0.85 x keys"),
        ("cross-1", Timer, PAIRS, AtLeast(2.2, Netty), ">= 2.2 x Netty"),
        ("cross-2", Timer, PAIRS, AtLeast(2.5, Netty), ">= 2.5 x Netty"),
        ("cross-1", TimerSubmitter, PAIRS, Times(4.0), "4"),
        ("cross-1", TimerTimes, PAIRS, Times(6.0), "6"),
        ("cross-1", Timer, PAIRS, AtLeast(1.5, LockedWheel), ">= 1.5 x one lock around our own wheel"),
        ("cross-1", Timer, "p99.9 ns", Share(1.0), "1 x"),
        ("forms", Timer, "Time ns", Than(1.05, "forms", Timer, "delay ns"), "a Time <= 1.05 x a delay"),
        ("forms", Timer, "Instant ns", Than(1.05, "forms", Timer, "delay ns"), "an Instant <= 1.05 x a delay"),
        ("forms", Timer, "overdue Time ns", Than(1.05, "forms", Timer, zero), "an overdue Time <= 1.05 x a zero delay"),
        (late, Timer, "early", AtMost(0.0), "0 early"),
        (late, Timer, "p50 ms", AtMost(0.6), "p50 <= 0.6 ms"),
        (late, Timer, "p99 ms", AtMost(1.2), "p99 <= 1.2 ms"),
        (late, Timer, "CPU us/timer", AtMost(0.8), "CPU <= 0.8 us per timer"),
        (fine, Timer, "early", AtMost(0.0), "0 early"),
        (fine, Timer, "p50 us", AtMost(60.0), "p50 <= 60 us"),
        (fine, Timer, "p99 us", AtMost(200.0), "p99 <= 200 us"),
        (fine, TimerSlack, "p50 us", AtMost(120.0), "slack 100 us: p50 <= 120 us"),
        (fine, TimerSlack, cpu, Than(0.5, fine, LockedTree, cpu), "slack 100 us: CPU <= 1/2 of mutex + tree's"),
        ("wake", Timer, "p50 us", Than(1.3, "wake", LockedTree, "p50 us"), "p50 <= 1.3 x mutex + condvar"),
        ("idle-1M", Timer, "wake-ups/s", AtMost(0.0), "0 wake-ups/s"),
        ("idle-1M", Timer, "bytes/timer", AtMost(48.0), "<= 48 bytes per timer"),
        // One timer lives at a time, so twice the live ones is nothing beside the 32 MiB.
        ("zombie", Timer, "peak MiB", AtMost(32.0), "peak <= 2 x live + 32 MiB"),
        ("zombie", Timer, "final MiB", AtMost(8.0), "final <= start + 8 MiB"),
        ("burst", Timer, "fired in ms", AtMost(50.0), "fired in <= 50 ms"),
        ("burst", Timer, "others max ms", AtMost(60.0), "others <= 60 ms late"),
        ("shrink", Timer, "left %", AtMost(25.0), "<= 25 % of the growth stays"),
        ("cross-1", Sleep, "CPU ns/pair", ShareOfFutures(0.6), "0.6"),
        ("cross-2", Sleep, "CPU ns/pair", ShareOfFutures(0.5), "0.5"),
        (late, Sleep, "CPU us/timer", Than(1.0, late, Tokio, "CPU us/timer"), "a fired sleep's CPU <= tokio's"),
        (late, Sleep, "early", AtMost(0.0), "0 sleeps early"),
        (late, Sleep, "p50 ms", AtMost(0.6), "sleeps: p50 <= 0.6 ms"),
        (late, Sleep, "p99 ms", AtMost(1.2), "sleeps: p99 <= 1.2 ms"),
        ("idle-1M", Sleep, "wake-ups/s", AtMost(0.0), "sleeps: 0 wake-ups/s"),
        ("idle-1M", Sleep, "bytes beside handle", AtMost(48.0), "<= 48 bytes per sleep beside the future"),
    ]
}

const PAIRS: &str = "M pairs/s";

fn judge(results: &Results, (figure, peer, metric, bar, text): Goal) -> Verdict {
    let median = |peer| results.median(figure, peer, metric);
    let best = |more| results.table(figure)?.best_peer(metric, more);
    let (mut own, text) = (median(peer), text.to_owned());
    let (other, goal, factor) = match bar {
        Bar::AtMost(most) => {
            let measured = own.map_or_else(missing, |value| format!("{metric} {}", number(value)));
            let met = own.map(|value| value <= most);
            return Verdict { figure: figure.to_owned(), goal: text, measured, met };
        }
        Bar::Share(share) => (best(false), format!("{metric} <= {text} of the best peer"), share),
        Bar::AboveFloor(share) => {
            let floor = median(Peer::Floor).unwrap_or(0.0);
            own = own.map(|own| own - floor);
            let goal = format!("{metric} above the floor <= {text} of the best peer's");
            (best(false).map(|(rival, best)| (rival, best - floor)), goal, share)
        }
        Bar::Times(times) => (best(true), format!("{metric} >= {text} x the best peer"), times),
        Bar::ShareOfFutures(share) => {
            let rivals = [Peer::Tokio, Peer::Pingora, Peer::AsyncIo].into_iter();
            let rivals = rivals.filter_map(|rival| Some((rival, median(rival)?)));
            let goal = format!("a sleep's {metric} <= {text} of the best future's");
            (rivals.min_by(|one, other| one.1.total_cmp(&other.1)), goal, share)
        }
        Bar::Than(factor, id, peer, metric) => {
            (results.median(id, peer, metric).map(|other| (peer, other)), text, factor)
        }
        Bar::AtLeast(share, of) => (median(of).map(|other| (of, other)), text, share),
    };
    let more_is_better = matches!(bar, Bar::Times(_) | Bar::AtLeast(..));
    compared(figure, goal, own, other, |own, other| {
        if more_is_better { own >= other * factor } else { own <= other * factor }
    })
}

/// Two figures beside each other, and their ratio, which is what the goal is about.
fn compared(
    figure: &str,
    goal: String,
    own: Option<f64>,
    other: Option<(Peer, f64)>,
    is_enough: impl Fn(f64, f64) -> bool,
) -> Verdict {
    let both = own.zip(other);
    let show = |(own, (peer, other)): (f64, (Peer, f64))| {
        format!("{} : {} ({}) = {:.2}", number(own), number(other), peer.name(), own / other)
    };
    Verdict {
        figure: figure.to_owned(),
        goal,
        measured: both.map_or_else(missing, show),
        met: both.map(|(own, (_, other))| is_enough(own, other)),
    }
}

fn missing() -> String {
    "not measured".to_owned()
}

/// Three digits that count.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size.round() >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;

    fn results(own: f64, rival: f64) -> Results {
        let mut results = Results::default();
        let metric = |value| Ok(vec![("ns/pair".to_owned(), value)]);
        results.add(Figure::Churn(1000), Peer::LocalTimer, metric(own));
        results.add(Figure::Churn(1000), Peer::Nexus, metric(rival));
        results
    }

    #[test]
    fn a_goal_is_met_missed_or_not_measured() {
        let met = |own, rival| check(&results(own, rival))[0].met;
        assert_eq!(met(10.0, 30.0), Some(true));
        assert_eq!(met(10.1, 30.0), Some(false));
        let mut with_floor = results(12.0, 30.0);
        with_floor.add(Figure::Churn(1000), Peer::Floor, Ok(vec![("ns/pair".to_owned(), 3.0)]));
        let verdict = &check(&with_floor)[0];
        assert_eq!(verdict.met, Some(true));
        assert_eq!(verdict.measured, "9.00 : 27.0 (nexus-timer) = 0.33", "above the floor");
        let verdicts = check(&results(10.0, 30.0));
        assert_eq!(verdicts[1].met, None);
        assert_eq!(verdicts[0].measured, "10.0 : 30.0 (nexus-timer) = 0.33");
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown: Vec<_> = [0.0, 0.123, 9.994, 12.34, 99.96, 1234.6].map(number).to_vec();
        assert_eq!(shown, ["0", "0.12", "9.99", "12.3", "100", "1235"]);
    }
}
