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

/// Every goal, in the order of the project's performance page.
#[must_use]
pub fn check(results: &Results) -> Vec<Verdict> {
    let judge = Judge(results);
    let mut verdicts = Vec::new();
    let local = Peer::LocalTimer;
    for (id, share, text) in
        [("churn-1k", 1.0 / 3.0, "1/3"), ("churn-100k", 0.8, "0.8"), ("churn-1M", 0.8, "0.8")]
    {
        verdicts.push(judge.above_floor(id, local, "ns/pair", share, text));
    }
    for id in ["churn-tick-100k", "churn-tick-1M"] {
        verdicts.push(judge.share_of_best(id, local, "ns/pair", 0.8, "0.8"));
        verdicts.push(judge.at_most(id, local, "growth %", 5.0, "memory flat (growth <= 5 %)"));
    }
    verdicts.push(judge.share_of_best("life-1M", local, "ns/timer", 0.22, "0.22"));
    verdicts.push(judge.against(Against {
        figure: "life-10M",
        peer: local,
        metric: "ns/timer",
        other: ("life-1M", local, "ns/timer"),
        factor: 1.3,
        text: "<= 1.3 x its own life-1M",
    }));
    verdicts.push(judge.against(Against {
        figure: "rearm-100k",
        peer: local,
        metric: "ns/rearm",
        other: ("rearm-100k", Peer::Floor, "ns/rearm"),
        factor: 1.5,
        text: "<= 1.5 x the floor",
    }));
    for (figure, metric) in [
        ("churn-1k", "ns/pair"),
        ("churn-100k", "ns/pair"),
        ("churn-1M", "ns/pair"),
        ("life-1M", "ns/timer"),
    ] {
        verdicts.push(judge.against(Against {
            figure,
            peer: Peer::EventLoopTimer,
            metric,
            other: (figure, local, metric),
            factor: 1.5,
            text: "EventLoopTimer <= 1.5 x LocalTimer",
        }));
    }
    judge.engine(&mut verdicts);
    judge.futures(&mut verdicts);
    verdicts
}

/// A figure compared with another one of this project.
struct Against<'a> {
    figure: &'a str,
    peer: Peer,
    metric: &'a str,
    other: (&'a str, Peer, &'a str),
    factor: f64,
    text: &'a str,
}

struct Judge<'a>(&'a Results);

impl Judge<'_> {
    /// The goals of the engine.
    fn engine(&self, verdicts: &mut Vec<Verdict>) {
        let timer = Peer::Timer;
        for id in ["cross-1", "cross-2"] {
            verdicts.push(self.times_best(id, timer, "M pairs/s", 3.0));
            for (peer, text) in [
                (Peer::TimerHandles, "handles >= 0.85 x keys"),
                (Peer::TimerClosures, "closures >= 0.85 x keys"),
            ] {
                verdicts.push(self.at_least_of(id, peer, timer, 0.85, text));
            }
        }
        for (id, times, text) in
            [("cross-1", 2.2, ">= 2.2 x Netty"), ("cross-2", 2.5, ">= 2.5 x Netty")]
        {
            verdicts.push(self.at_least_of(id, timer, Peer::Netty, times, text));
        }
        for (peer, times) in [(Peer::TimerSubmitter, 4.0), (Peer::TimerTimes, 6.0)] {
            verdicts.push(self.times_best("cross-1", peer, "M pairs/s", times));
        }
        let text = ">= 1.5 x one lock around our own wheel";
        verdicts.push(self.at_least_of("cross-1", timer, Peer::LockedWheel, 1.5, text));
        verdicts.push(self.share_of_best("cross-1", timer, "p99.9 ns", 1.0, "1 x"));
        for (metric, other, text) in [
            ("Time ns", "delay ns", "a Time <= 1.05 x a delay"),
            ("Instant ns", "delay ns", "an Instant <= 1.05 x a delay"),
            ("overdue Time ns", "zero delay ns", "an overdue Time <= 1.05 x a zero delay"),
        ] {
            let (figure, other) = ("forms", ("forms", timer, other));
            verdicts.push(self.against(Against {
                figure,
                peer: timer,
                metric,
                other,
                factor: 1.05,
                text,
            }));
        }
        let late = "late-100k";
        verdicts.push(self.at_most(late, timer, "early", 0.0, "0 early"));
        verdicts.push(self.at_most(late, timer, "p50 ms", 0.6, "p50 <= 0.6 ms"));
        verdicts.push(self.at_most(late, timer, "p99 ms", 1.2, "p99 <= 1.2 ms"));
        verdicts.push(self.at_most(late, timer, "CPU us/timer", 0.8, "CPU <= 0.8 us per timer"));
        let fine = "late-100k-50us";
        verdicts.push(self.at_most(fine, timer, "early", 0.0, "0 early"));
        verdicts.push(self.at_most(fine, timer, "p50 us", 60.0, "p50 <= 60 us"));
        verdicts.push(self.at_most(fine, timer, "p99 us", 200.0, "p99 <= 200 us"));
        let slack = Peer::TimerSlack;
        verdicts.push(self.at_most(fine, slack, "p50 us", 120.0, "slack 100 us: p50 <= 120 us"));
        verdicts.push(self.against(Against {
            figure: fine,
            peer: slack,
            metric: "CPU us/timer",
            other: (fine, Peer::LockedTree, "CPU us/timer"),
            factor: 0.5,
            text: "slack 100 us: CPU <= 1/2 of mutex + tree's",
        }));
        verdicts.push(self.against(Against {
            figure: "wake",
            peer: timer,
            metric: "p50 us",
            other: ("wake", Peer::LockedTree, "p50 us"),
            factor: 1.3,
            text: "p50 <= 1.3 x mutex + condvar",
        }));
        verdicts.push(self.at_most("idle-1M", timer, "wake-ups/s", 0.0, "0 wake-ups/s"));
        verdicts.push(self.at_most("idle-1M", timer, "bytes/timer", 48.0, "<= 48 bytes per timer"));
        // One timer lives at a time, so twice the live ones is nothing beside the 32 MiB.
        verdicts.push(self.at_most("zombie", timer, "peak MiB", 32.0, "peak <= 2 x live + 32 MiB"));
        verdicts.push(self.at_most("zombie", timer, "final MiB", 8.0, "final <= start + 8 MiB"));
        verdicts.push(self.at_most("burst", timer, "fired in ms", 50.0, "fired in <= 50 ms"));
        verdicts.push(self.at_most("burst", timer, "others max ms", 60.0, "others <= 60 ms late"));
        verdicts.push(self.at_most("shrink", timer, "left %", 25.0, "<= 25 % of the growth stays"));
    }

    /// The goals of the futures.
    fn futures(&self, verdicts: &mut Vec<Verdict>) {
        let sleep = Peer::Sleep;
        for (id, share) in [("cross-1", 0.6), ("cross-2", 0.5)] {
            verdicts.push(self.share_of_best_future(id, sleep, "CPU ns/pair", share));
        }
        let late = "late-100k";
        verdicts.push(self.against(Against {
            figure: late,
            peer: sleep,
            metric: "CPU us/timer",
            other: (late, Peer::Tokio, "CPU us/timer"),
            factor: 1.0,
            text: "a fired sleep's CPU <= tokio's",
        }));
        verdicts.push(self.at_most(late, sleep, "early", 0.0, "0 sleeps early"));
        verdicts.push(self.at_most(late, sleep, "p50 ms", 0.6, "sleeps: p50 <= 0.6 ms"));
        verdicts.push(self.at_most(late, sleep, "p99 ms", 1.2, "sleeps: p99 <= 1.2 ms"));
        let idle = "idle-1M";
        verdicts.push(self.at_most(idle, sleep, "wake-ups/s", 0.0, "sleeps: 0 wake-ups/s"));
        let text = "<= 48 bytes per sleep beside the future";
        verdicts.push(self.at_most(idle, sleep, "bytes beside handle", 48.0, text));
    }

    /// A share of the best of what async code takes today.
    fn share_of_best_future(&self, figure: &str, peer: Peer, metric: &str, share: f64) -> Verdict {
        let rivals = [Peer::Tokio, Peer::TokioAlt, Peer::Pingora, Peer::AsyncIo];
        let median = |peer| self.0.median(figure, peer, metric);
        let best = rivals.into_iter().filter_map(|rival| Some((rival, median(rival)?)));
        let best = best.min_by(|(_, one), (_, other)| one.total_cmp(other));
        let goal = format!("a sleep's {metric} <= {share} of the best future's");
        compared(figure, goal, median(peer), best, |own, best| own <= best * share)
    }

    fn at_most(&self, figure: &str, peer: Peer, metric: &str, most: f64, text: &str) -> Verdict {
        let value = self.0.median(figure, peer, metric);
        Verdict {
            figure: figure.to_owned(),
            goal: text.to_owned(),
            measured: value.map_or_else(missing, |value| format!("{metric} {}", number(value))),
            met: value.map(|value| value <= most),
        }
    }

    /// A share of another peer's throughput.
    fn at_least_of(&self, figure: &str, peer: Peer, of: Peer, share: f64, text: &str) -> Verdict {
        let median = |peer| self.0.median(figure, peer, "M pairs/s");
        let other = median(of).map(|other| (of, other));
        compared(figure, text.to_owned(), median(peer), other, |own, other| own >= other * share)
    }

    /// Memory bounds everybody alike, so the time above that of a table without a timer is compared.
    fn above_floor(
        &self,
        figure: &str,
        peer: Peer,
        metric: &str,
        share: f64,
        text: &str,
    ) -> Verdict {
        let floor = self.0.median(figure, Peer::Floor, metric).unwrap_or(0.0);
        let own = self.0.median(figure, peer, metric).map(|own| own - floor);
        let best = self.best(figure, metric, false).map(|(rival, best)| (rival, best - floor));
        let goal = format!("{metric} above the floor <= {text} of the best peer's");
        compared(figure, goal, own, best, |own, best| own <= best * share)
    }

    fn share_of_best(
        &self,
        figure: &str,
        peer: Peer,
        metric: &str,
        share: f64,
        text: &str,
    ) -> Verdict {
        let own = self.0.median(figure, peer, metric);
        let goal = format!("{metric} <= {text} of the best peer");
        let best = self.best(figure, metric, false);
        compared(figure, goal, own, best, |own, best| own <= best * share)
    }

    fn times_best(&self, figure: &str, peer: Peer, metric: &str, times: f64) -> Verdict {
        let own = self.0.median(figure, peer, metric);
        let goal = format!("{metric} >= {times} x the best peer");
        let best = self.best(figure, metric, true);
        compared(figure, goal, own, best, |own, best| own >= best * times)
    }

    fn best(&self, figure: &str, metric: &str, more_is_better: bool) -> Option<(Peer, f64)> {
        self.0.table(figure)?.best_peer(metric, more_is_better)
    }

    fn against(&self, it: Against<'_>) -> Verdict {
        let own = self.0.median(it.figure, it.peer, it.metric);
        let (figure, peer, metric) = it.other;
        let other = self.0.median(figure, peer, metric).map(|other| (peer, other));
        let goal = it.text.to_owned();
        compared(it.figure, goal, own, other, |own, other| own <= other * it.factor)
    }
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
