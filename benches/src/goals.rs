//! The goals, checked against the figures of the same run.

use crate::peer::Peer;
use crate::results::{Table, find_median, more_is_better, table};

/// The bound of a metric: an upper one, and a lower one for pairs per second.
enum Bar {
    /// So much.
    AtMost(f64),
    /// This share of the best peer's.
    Best(f64),
    /// This share of the best peer's time above that of a table without a timer, because memory bounds everybody alike.
    AboveFloor(f64),
    /// This share of the best of what async code takes today.
    BestFuture(f64),
    /// So many times another figure: its name, peer and metric.
    Than(f64, &'static str, Peer, &'static str),
}

/// Judges every goal, in the order of the project's performance page. Returns the figure, the goal, what there is, and
/// whether that is enough; the last two if the figure was measured.
pub fn check(results: &[Table]) -> Vec<Verdict> {
    goals()
        .into_iter()
        .map(|goal| judge(results, goal))
        .collect()
}

/// A judged goal.
pub type Verdict = (&'static str, String, Option<(String, bool)>);

type Goal = (&'static str, Peer, &'static str, Bar, &'static str);

#[rustfmt::skip]
fn goals() -> Vec<Goal> {
    use Bar::{AboveFloor, AtMost, Best, BestFuture, Than};
    use Peer::{
        EventLoopRemote, EventLoopTimer, Floor, Heap, LocalTimer, LockedTree, LockedWheel, Netty,
        Nexus, Sleep, Time, Timer, TimerClosures, TimerHandles, TimerPriority, TimerSlack, TimerTimes,
        TimerUnpinned, Tokio,
    };
    let (pair, own_loop) = ("ns/pair", "EventLoopTimer <= 1.5 x LocalTimer");
    let (flat, late, fine) = ("memory flat (growth <= 5 %)", "late-100k", "late-100k-50us");
    let (cpu, zero) = ("CPU us/timer", "zero delay ns");
    vec![
        ("churn-1k", LocalTimer, pair, AboveFloor(1.0 / 3.0), "1/3 of"),
        ("churn-100k", LocalTimer, pair, AboveFloor(0.8), "0.8 of"),
        ("churn-1M", LocalTimer, pair, AboveFloor(0.8), "0.8 of"),
        ("churn-tick-100k", LocalTimer, pair, Best(0.8), "0.8 of"),
        ("churn-tick-100k", LocalTimer, "growth %", AtMost(5.0), flat),
        ("churn-tick-1M", LocalTimer, pair, Best(0.8), "0.8 of"),
        ("churn-tick-1M", LocalTimer, "growth %", AtMost(5.0), flat),
        ("life-1M", LocalTimer, "ns/timer", Best(0.22), "0.22 of"),
        ("life-10M", LocalTimer, "ns/timer", Than(1.3, "life-1M", LocalTimer, "ns/timer"), "<= 1.3 x its own life-1M"),
        ("rearm-100k", LocalTimer, "ns/rearm", Than(1.5, "rearm-100k", Floor, "ns/rearm"), "<= 1.5 x the floor"),
        ("churn-1k", EventLoopTimer, pair, Than(1.5, "churn-1k", LocalTimer, pair), own_loop),
        ("churn-100k", EventLoopTimer, pair, Than(1.5, "churn-100k", LocalTimer, pair), own_loop),
        ("churn-1M", EventLoopTimer, pair, Than(1.5, "churn-1M", LocalTimer, pair), own_loop),
        ("life-1M", EventLoopTimer, "ns/timer", Than(1.5, "life-1M", LocalTimer, "ns/timer"), own_loop),
        (IDLE, LocalTimer, POLL, Than(0.5, IDLE, Nexus, POLL), "LocalTimer's poll <= 0.5 x nexus-timer's"),
        (IDLE, EventLoopTimer, POLL, Than(0.5, IDLE, Nexus, POLL), "EventLoopTimer's poll <= 0.5 x nexus-timer's"),
        (IDLE, EventLoopRemote, POLL, Than(0.5, IDLE, Nexus, POLL), "with a remote: poll <= 0.5 x nexus-timer's"),
        (IDLE, EventLoopTimer, SPIN, Than(0.5, IDLE, Nexus, SPIN), "a spinning round <= 0.5 x nexus-timer's"),
        (IDLE, EventLoopTimer, SLEEP, Than(1.5, IDLE, Nexus, SLEEP), "a sleeping round <= 1.5 x nexus-timer's"),
        (OWN_1K, EventLoopRemote, LATER, Than(1.0, OWN_1K, Heap, LATER), "with a remote: later <= a lazy heap's"),
        (OWN_1K, EventLoopRemote, LATER, Than(3.0, OWN_1K, LocalTimer, LATER), "with a remote: later <= 3 x LocalTimer's"),
        (OWN_1K, EventLoopRemote, RANDOM, Than(2.0, OWN_1K, LocalTimer, RANDOM), "with a remote: a pair <= 2 x LocalTimer's"),
        (OWN_1K, EventLoopRemote, FIRE, Than(2.0, OWN_1K, LocalTimer, FIRE), "with a remote: fire <= 2 x LocalTimer's"),
        (OWN_100K, EventLoopRemote, LATER, Than(1.0, OWN_100K, Heap, LATER), "with a remote: later <= a lazy heap's"),
        (OWN_100K, EventLoopRemote, LATER, Than(3.0, OWN_100K, LocalTimer, LATER), "with a remote: later <= 3 x LocalTimer's"),
        (OWN_100K, EventLoopRemote, RANDOM, Than(2.0, OWN_100K, LocalTimer, RANDOM), "with a remote: a pair <= 2 x LocalTimer's"),
        (OWN_100K, EventLoopRemote, FIRE, Than(2.0, OWN_100K, LocalTimer, FIRE), "with a remote: fire <= 2 x LocalTimer's"),
        ("sparse", LocalTimer, POLL, Than(1.3, "sparse", Heap, POLL), "LocalTimer's poll <= 1.3 x a lazy heap's"),
        ("sparse", EventLoopTimer, POLL, Than(1.75, "sparse", Heap, POLL), "EventLoopTimer's poll <= 1.75 x a lazy heap's"),
        ("quic", Time, RESET, Than(0.8, "quic", Tokio, RESET), "`time`: a reset <= 0.8 x tokio's"),
        ("quic", Time, "bytes/connection", AtMost(200.0), "`time`: <= 200 bytes per connection"),
        ("reconnect", Time, STORM, Than(0.6, "reconnect", Tokio, STORM), "`time`: <= 0.6 x tokio's"),
        ("reconnect", Time, CALL, Than(1.0, "reconnect", Tokio, CALL), "`time`: p99 of a call <= tokio's"),
        ("beats", Time, "early", AtMost(0.0), "`time`: 0 early"),
        ("beats", Time, "p99 ms", Than(1.0, "beats", Tokio, "p99 ms"), "`time`: p99 <= tokio's"),
        ("spawned", Time, "early", AtMost(0.0), "`time`: 0 early"),
        ("spawned", Time, SPAWNED, Than(1.1, "spawned", Tokio, SPAWNED), "`time`: CPU <= 1.1 x tokio's"),
        ("cross-1", Timer, PAIRS, Best(3.0), "3 x"),
        ("cross-1", TimerHandles, PAIRS, Than(0.85, "cross-1", Timer, PAIRS), "handles >= 0.85 x keys"),
        ("cross-1", TimerClosures, PAIRS, Than(0.85, "cross-1", Timer, PAIRS), "closures >= 0.85 x keys"),
        ("cross-2", Timer, PAIRS, Best(3.0), "3 x"),
        ("cross-2", TimerHandles, PAIRS, Than(0.85, "cross-2", Timer, PAIRS), "handles >= 0.85 x keys"),
        ("cross-2", TimerClosures, PAIRS, Than(0.85, "cross-2", Timer, PAIRS), "closures >= 0.85 x keys"),
        ("cross-1", Timer, PAIRS, Than(2.2, "cross-1", Netty, PAIRS), ">= 2.2 x Netty"),
        ("cross-2", Timer, PAIRS, Than(2.5, "cross-2", Netty, PAIRS), ">= 2.5 x Netty"),
        ("cross-1", TimerTimes, PAIRS, Best(6.0), "6 x"),
        ("cross-1", Timer, PAIRS, Than(1.5, "cross-1", LockedWheel, PAIRS), ">= 1.5 x one lock around our own wheel"),
        ("cross-1", Timer, "p99.9 ns", Best(1.0), "1 x of"),
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
        (BUSY, Timer, "early", AtMost(0.0), "0 early"),
        (BUSY, Timer, "p99 ms", Than(0.5, BUSY, Tokio, "p99 ms"), "beside busy loops: p99 <= 0.5 x tokio's"),
        (BUSY, TimerPriority, "p99 ms", AtMost(1.1), "with a priority: p99 <= 1.1 ticks"),
        ("busy-wake", Timer, "p99 us", Than(1.3, "busy-wake", TimerUnpinned, "p99 us"), "p99 <= 1.3 x unpinned's"),
        ("wake", Timer, "p50 us", Than(1.3, "wake", LockedTree, "p50 us"), "p50 <= 1.3 x mutex + condvar"),
        ("idle-1M", Timer, "wake-ups/s", AtMost(0.0), "0 wake-ups/s"),
        ("idle-1M", Timer, "bytes/timer", AtMost(48.0), "<= 48 bytes per timer"),
        // One timer lives at a time, so twice the live ones is nothing beside the 32 MiB.
        ("zombie", Timer, "peak MiB", AtMost(32.0), "peak <= 2 x live + 32 MiB"),
        ("zombie", Timer, "final MiB", AtMost(8.0), "final <= start + 8 MiB"),
        ("burst", Timer, "fired in ms", AtMost(50.0), "fired in <= 50 ms"),
        ("burst", Timer, "others max ms", AtMost(60.0), "others <= 60 ms late"),
        ("shrink", Timer, "left %", AtMost(25.0), "<= 25 % of the growth stays"),
        ("cross-1", Sleep, "CPU ns/pair", BestFuture(0.6), "0.6 of"),
        ("cross-2", Sleep, "CPU ns/pair", BestFuture(0.5), "0.5 of"),
        (late, Sleep, "CPU us/timer", Than(1.0, late, Tokio, "CPU us/timer"), "a fired sleep's CPU <= tokio's"),
        (late, Sleep, "early", AtMost(0.0), "0 sleeps early"),
        (late, Sleep, "p50 ms", AtMost(0.6), "sleeps: p50 <= 0.6 ms"),
        (late, Sleep, "p99 ms", AtMost(1.2), "sleeps: p99 <= 1.2 ms"),
        ("idle-1M", Sleep, "wake-ups/s", AtMost(0.0), "sleeps: 0 wake-ups/s"),
        ("idle-1M", Sleep, "bytes beside handle", AtMost(48.0), "<= 48 bytes per sleep beside the future"),
    ]
}

const PAIRS: &str = "M pairs/s";
const IDLE: &str = "idle-round";
const POLL: &str = "poll ns";
const SPIN: &str = "spinning round ns";
const SLEEP: &str = "sleeping round ns";
const OWN_1K: &str = "loop-owner-1k";
const OWN_100K: &str = "loop-owner-100k";
const RANDOM: &str = "random pair ns";
const LATER: &str = "later ns";
const FIRE: &str = "fire ns";
const BUSY: &str = "late-busy";
const RESET: &str = "ns/reset";
const STORM: &str = "ns/connection";
const CALL: &str = "p99 of a call ns";
const SPAWNED: &str = "CPU us/timer";

fn judge(results: &[Table], (figure, peer, metric, bar, text): Goal) -> Verdict {
    let median = |peer| find_median(results, figure, peer, metric);
    let (more_is_better, floor) = (more_is_better(metric), median(Peer::Floor).unwrap_or(0.0));
    let sign = if more_is_better { ">=" } else { "<=" };
    let best = || table(results, figure)?.best_peer(metric);
    let mut own = median(peer);
    let (other, factor, goal) = match bar {
        Bar::AtMost(most) => {
            let there_is = |own| (format!("{metric} {}", number(own)), own <= most);
            return (figure, text.to_owned(), own.map(there_is));
        }
        Bar::Best(share) => (
            best(),
            share,
            format!("{metric} {sign} {text} the best peer"),
        ),
        Bar::AboveFloor(share) => {
            own = own.map(|own| own - floor);
            let goal = format!("{metric} above the floor {sign} {text} the best peer's");
            (
                best().map(|(rival, best)| (rival, best - floor)),
                share,
                goal,
            )
        }
        Bar::BestFuture(share) => {
            let futures = [Peer::Tokio, Peer::Pingora, Peer::AsyncIo].into_iter();
            let futures = futures.filter_map(|future| Some((future, median(future)?)));
            let goal = format!("a sleep's {metric} {sign} {text} the best future's");
            (
                futures.min_by(|one, other| one.1.total_cmp(&other.1)),
                share,
                goal,
            )
        }
        Bar::Than(factor, id, peer, metric) => {
            let other = find_median(results, id, peer, metric);
            (other.map(|other| (peer, other)), factor, text.to_owned())
        }
    };
    let there_is = |(own, (peer, other)): (f64, (Peer, f64))| {
        let is_met = if more_is_better {
            own >= other * factor
        } else {
            own <= other * factor
        };
        let (own_shown, ratio) = (number(own), own / other);
        (
            format!(
                "{own_shown} : {} ({}) = {ratio:.2}",
                number(other),
                peer.name()
            ),
            is_met,
        )
    };
    (figure, goal, own.zip(other).map(there_is))
}

/// Three digits that count.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let is_whole = size.round() >= 100.0 || value == 0.0;
    let digits = if is_whole {
        0
    } else {
        1 + usize::from(size < 10.0)
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Figure, Scale};
    use crate::results::measured;

    fn verdict(values: &[(Peer, f64)]) -> (String, bool) {
        let mut verdicts = check(&[measured("ns/pair", values)]);
        assert_eq!(verdicts[1].2, None, "it is not measured");
        verdicts.swap_remove(0).2.unwrap()
    }

    #[test]
    fn a_goal_is_met_missed_or_not_measured() {
        let (own, rival) = (Peer::LocalTimer, (Peer::Nexus, 30.0));
        let shown = "10.0 : 30.0 (nexus-timer) = 0.33".to_owned();
        assert_eq!(verdict(&[(own, 10.0), rival]), (shown, true));
        assert!(!verdict(&[(own, 10.1), rival]).1);
        let shown = "9.00 : 27.0 (nexus-timer) = 0.33".to_owned();
        assert_eq!(
            verdict(&[(own, 12.0), rival, (Peer::Floor, 3.0)]),
            (shown, true)
        );
    }

    /// Otherwise it counts as not measured.
    #[test]
    fn goals_compare_figures_that_exist() {
        let figures = Figure::all(Scale::Full);
        for (id, .., bar, goal) in goals() {
            let other = match bar {
                Bar::Than(_, other, ..) => other,
                _ => id,
            };
            for id in [id, other] {
                assert!(figures.iter().any(|it| it.id == id), "{id} of {goal}");
            }
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown: Vec<_> = [0.0, 0.123, 9.994, 12.34, 99.96, 1234.6]
            .map(number)
            .to_vec();
        assert_eq!(shown, ["0", "0.12", "9.99", "12.3", "100", "1235"]);
    }
}
