//! What has to be reached, checked against what was measured in the same run.

use crate::peer::Peer;
use crate::results::Results;

/// One bar and how it went.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Which figure.
    pub figure: String,
    /// What is asked for.
    pub bar: String,
    /// What there is.
    pub measured: String,
    /// Whether that is enough; `None` if it was not measured.
    pub met: Option<bool>,
}

/// Every bar, in the order of the project's performance page.
#[must_use]
pub fn check(results: &Results) -> Vec<Verdict> {
    let judge = Judge(results);
    let mut verdicts = Vec::new();
    let local = Peer::LocalTimer;
    for (id, share, text) in
        [("churn-1k", 3.0, "1/3"), ("churn-100k", 2.0, "1/2"), ("churn-1M", 4.0, "1/4")]
    {
        verdicts.push(judge.share_of_best(id, local, "ns/pair", 1.0 / share, text));
    }
    for id in ["churn-tick-100k", "churn-tick-1M"] {
        verdicts.push(judge.share_of_best(id, local, "ns/pair", 2.0 / 3.0, "2/3"));
        verdicts.push(judge.at_most(id, local, "growth %", 5.0, "memory flat (growth <= 5 %)"));
    }
    verdicts.push(judge.share_of_best("life-1M", local, "ns/timer", 0.2, "1/5"));
    verdicts.push(judge.against(Against {
        figure: "life-10M",
        peer: local,
        metric: "ns/timer",
        other: ("life-1M", local, "ns/timer"),
        factor: 1.5,
        text: "<= 1.5 x its own life-1M",
    }));
    verdicts.push(judge.against(Against {
        figure: "rearm-100k",
        peer: local,
        metric: "ns/rearm",
        other: ("churn-100k", local, "ns/pair"),
        factor: 1.0 / 3.0,
        text: "<= 1/3 of its own churn pair",
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
    /// The bars of the engine.
    fn engine(&self, verdicts: &mut Vec<Verdict>) {
        let timer = Peer::Timer;
        for id in ["cross-1", "cross-2"] {
            verdicts.push(self.times_best(id, timer, "M pairs/s", 3.0));
        }
        verdicts.push(self.share_of_best("cross-1", timer, "p99.9 ns", 1.0, "1 x"));
        let late = "late-100k";
        verdicts.push(self.at_most(late, timer, "early", 0.0, "0 early"));
        verdicts.push(self.at_most(late, timer, "p50 ms", 0.6, "p50 <= 0.6 ms"));
        verdicts.push(self.at_most(late, timer, "p99 ms", 1.2, "p99 <= 1.2 ms"));
        verdicts.push(self.at_most(late, timer, "CPU us/timer", 0.85, "CPU <= 0.85 us per timer"));
        let fine = "late-100k-50us";
        verdicts.push(self.at_most(fine, timer, "early", 0.0, "0 early"));
        verdicts.push(self.at_most(fine, timer, "p50 us", 60.0, "p50 <= 60 us"));
        verdicts.push(self.at_most(fine, timer, "p99 us", 200.0, "p99 <= 200 us"));
        verdicts.push(self.against(Against {
            figure: fine,
            peer: timer,
            metric: "CPU us/timer",
            other: (fine, Peer::LockedTree, "CPU us/timer"),
            factor: 0.5,
            text: "CPU <= 1/2 of mutex+tree's",
        }));
        verdicts.push(self.at_most("idle-1M", timer, "wake-ups/s", 0.0, "0 wake-ups/s"));
        verdicts.push(self.at_most("idle-1M", timer, "bytes/timer", 48.0, "<= 48 bytes per timer"));
        // One timer lives at a time, so twice the live ones is nothing beside the 32 MiB.
        verdicts.push(self.at_most("zombie", timer, "peak MiB", 32.0, "peak <= 2 x live + 32 MiB"));
        verdicts.push(self.at_most("zombie", timer, "final MiB", 8.0, "final <= start + 8 MiB"));
        verdicts.push(self.at_most("burst", timer, "fired in ms", 60.0, "fired in <= 60 ms"));
        verdicts.push(self.at_most("burst", timer, "others max ms", 60.0, "others <= 60 ms late"));
    }

    fn at_most(&self, figure: &str, peer: Peer, metric: &str, most: f64, text: &str) -> Verdict {
        let value = self.0.median(figure, peer, metric);
        Verdict {
            figure: figure.to_owned(),
            bar: text.to_owned(),
            measured: value.map_or_else(missing, |value| format!("{metric} {}", number(value))),
            met: value.map(|value| value <= most),
        }
    }

    fn share_of_best(
        &self,
        figure: &str,
        peer: Peer,
        metric: &str,
        share: f64,
        text: &str,
    ) -> Verdict {
        let text = format!("{metric} <= {text} of the best peer");
        self.beside_best(figure, peer, metric, false, text, |own, best| own <= best * share)
    }

    fn times_best(&self, figure: &str, peer: Peer, metric: &str, times: f64) -> Verdict {
        let text = format!("{metric} >= {times} x the best peer");
        self.beside_best(figure, peer, metric, true, text, |own, best| own >= best * times)
    }

    fn beside_best(
        &self,
        figure: &str,
        peer: Peer,
        metric: &str,
        more_is_better: bool,
        bar: String,
        is_enough: impl Fn(f64, f64) -> bool,
    ) -> Verdict {
        let own = self.0.median(figure, peer, metric);
        let best = self.0.table(figure).and_then(|table| table.best_peer(metric, more_is_better));
        let both = own.zip(best);
        let show = |(own, (rival, best)): (f64, (Peer, f64))| {
            let ratio = own / best;
            format!("{} : {} ({}) = {ratio:.2}", number(own), number(best), rival.name())
        };
        Verdict {
            figure: figure.to_owned(),
            bar,
            measured: both.map_or_else(missing, show),
            met: both.map(|(own, (_, best))| is_enough(own, best)),
        }
    }

    fn against(&self, it: Against<'_>) -> Verdict {
        let own = self.0.median(it.figure, it.peer, it.metric);
        let (other_figure, other_peer, other_metric) = it.other;
        let both = own.zip(self.0.median(other_figure, other_peer, other_metric));
        let show = |(own, other): (f64, f64)| {
            format!("{} : {} = {:.2}", number(own), number(other), own / other)
        };
        Verdict {
            figure: it.figure.to_owned(),
            bar: it.text.to_owned(),
            measured: both.map_or_else(missing, show),
            met: both.map(|(own, other)| own <= other * it.factor),
        }
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
    fn a_bar_is_met_missed_or_not_measured() {
        let met = |own, rival| check(&results(own, rival))[0].met;
        assert_eq!(met(10.0, 30.0), Some(true));
        assert_eq!(met(10.1, 30.0), Some(false));
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
