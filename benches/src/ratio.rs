//! Ratios with intervals: slices of several ways in random order, and what a bootstrap says of two of them.
//!
//! A slice is short, and the slices of a round follow one another, so other work on the machine hits all of them. The
//! ratio is that of two medians. Its interval has 95 % of the ratios of resampled rounds (Efron's percentile bootstrap,
//! 1979): a round is drawn as a whole, so what slows all its ways widens no interval.

use crate::measure::median;
use crate::process::Failure;
use crate::random::Random;
use std::time::SystemTime;

/// What a slice of ours took and one of theirs, in the same round.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Ours.
    pub ours: f64,
    /// Theirs.
    pub theirs: f64,
}

/// A ratio of ours to theirs, with its interval of 95 %.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// The end of the interval that is better for ours.
    pub low: f64,
    /// The ratio of the medians.
    pub value: f64,
    /// The end that is worse for ours: the one to quote.
    pub high: f64,
}

/// How many rounds are taken.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// So many at least: fewer have no interval that means anything.
    pub least: usize,
    /// So many at most, however wide the intervals are.
    pub most: usize,
}

/// Resamples of a bootstrap.
const RESAMPLES: usize = 1_000;
/// An interval narrower than this part of its ratio is narrow.
const NARROW: f64 = 0.1;

impl Rounds {
    /// At most so many, and at least six if that is not less.
    pub fn at_most(most: usize) -> Self {
        Self {
            least: most.min(6),
            most,
        }
    }

    /// Measures rounds of one slice of each way, in random order, until all the ratios that `pairs` makes of the rounds
    /// are [narrow](Ratio::is_narrow). Returns the slices of each round in the order of the ways.
    ///
    /// # Errors
    ///
    /// That of a slice.
    pub fn measure<T>(
        self,
        ways: usize,
        mut slice: impl FnMut(usize) -> Result<T, Failure>,
        pairs: impl Fn(&[Vec<T>]) -> Vec<Vec<Pair>>,
    ) -> Result<Vec<Vec<T>>, Failure> {
        let since = SystemTime::UNIX_EPOCH.elapsed()?;
        let mut random = Random::new(since.as_nanos() as u64);
        let mut rounds: Vec<Vec<T>> = Vec::new();
        while rounds.len() < self.most {
            let mut order: Vec<usize> = (0..ways).collect();
            for last in (1..ways).rev() {
                order.swap(last, random.below(last as u64 + 1) as usize);
            }
            let mut slices = Vec::new();
            for way in order {
                slices.push((way, slice(way)?));
            }
            slices.sort_by_key(|(way, _)| *way);
            rounds.push(slices.into_iter().map(|(_, slice)| slice).collect());
            let is_narrow = |pairs: &Vec<Pair>| Ratio::of(pairs).is_some_and(Ratio::is_narrow);
            if rounds.len() >= self.least && pairs(&rounds).iter().all(is_narrow) {
                break;
            }
        }
        Ok(rounds)
    }
}

impl Ratio {
    /// Returns the ratio of the medians and its interval, the same for the same pairs; `None` without pairs, or if
    /// theirs is not above zero: a cost that cannot be told from none has no ratio.
    pub fn of(pairs: &[Pair]) -> Option<Self> {
        let mut resampled = pairs.to_vec();
        let value = of_medians(&resampled)?;
        let mut random = Random::new(pairs.len() as u64);
        let mut ratios = Vec::with_capacity(RESAMPLES);
        for _ in 0..RESAMPLES {
            for place in &mut resampled {
                *place = pairs[random.below(pairs.len() as u64) as usize];
            }
            ratios.push(of_medians(&resampled).unwrap_or(f64::INFINITY));
        }
        ratios.sort_by(f64::total_cmp);
        let tail = RESAMPLES / 40;
        Some(Self {
            low: ratios[tail],
            value,
            high: ratios[RESAMPLES - 1 - tail],
        })
    }

    /// Returns whether the interval is narrower than a tenth of the ratio.
    pub fn is_narrow(self) -> bool {
        self.high - self.low < NARROW * self.value
    }

    /// Returns whether ours cannot be told from theirs.
    pub fn is_equal(self) -> bool {
        (self.low..=self.high).contains(&1.0)
    }

    /// Says the ratio and its interval in a table's cell.
    pub fn cell(pairs: &[Pair]) -> String {
        let Some(ratio) = Self::of(pairs) else {
            return "not known".to_owned();
        };
        let Self { low, value, high } = ratio;
        if ratio.is_equal() {
            format!("equal, {low:.2} to {high:.2}")
        } else {
            format!("{value:.2}, {low:.2} to {high:.2}")
        }
    }
}

/// Pairs the same figure of two ways, round by round.
pub fn pair_up<T>(rounds: &[Vec<T>], of: impl Fn(&[T]) -> (f64, f64)) -> Vec<Pair> {
    let pair = |round: &Vec<T>| {
        let (ours, theirs) = of(round);
        Pair { ours, theirs }
    };
    rounds.iter().map(pair).collect()
}

fn of_medians(pairs: &[Pair]) -> Option<f64> {
    let ours = median(pairs.iter().map(|pair| pair.ours).collect())?;
    let theirs = median(pairs.iter().map(|pair| pair.theirs).collect())?;
    (theirs > 0.0).then_some(ours / theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Between 0.9 and 1.1.
    fn noise(random: &mut Random) -> f64 {
        0.9 + random.below(1 << 20) as f64 / f64::from(5 << 20)
    }

    fn noisy(random: &mut Random, count: usize) -> Vec<Pair> {
        let pair = |_| Pair {
            ours: 0.8 * noise(random),
            theirs: noise(random),
        };
        (0..count).map(pair).collect()
    }

    fn close(found: f64, to: f64) -> bool {
        (found - to).abs() < 1e-9
    }

    /// The median of 200 numbers that are spread evenly over 0.2 deviates by 0.2 / (2 * sqrt(200)) = 0.0071; of two of
    /// them the ratio, 0.8, by 0.8 * 0.0071 * sqrt(2) = 0.008; an interval of 95 % is 3.92 times as wide.
    #[test]
    fn the_interval_is_as_wide_as_theory_says() {
        let mut random = Random::new(1);
        let mut width = 0.0;
        for _ in 0..20 {
            let ratio = Ratio::of(&noisy(&mut random, 200)).unwrap();
            assert!(ratio.low < ratio.value && ratio.value < ratio.high);
            width += (ratio.high - ratio.low) / 20.0;
        }
        assert!((0.025..0.038).contains(&width), "{width}");
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_ratio() {
        let mut random = Random::new(2);
        let holds = |_| {
            let ratio = Ratio::of(&noisy(&mut random, 20)).unwrap();
            (ratio.low..=ratio.high).contains(&0.8)
        };
        let held = (0..100).map(holds).filter(|it| *it).count();
        assert!((88..=99).contains(&held), "{held} of 100");
    }

    /// A statistic of means would say 2.8.
    #[test]
    fn a_slice_in_ten_that_took_long_changes_no_ratio() {
        let mut pairs = noisy(&mut Random::new(3), 200);
        pairs.iter_mut().step_by(10).for_each(|it| it.ours *= 26.0);
        let ratio = Ratio::of(&pairs).unwrap();
        assert!((ratio.value - 0.8).abs() < 0.03, "{ratio:?}");
        assert!(ratio.low < ratio.value && ratio.high < 0.85, "{ratio:?}");
    }

    /// Rounds that are drawn apart for ours and theirs would give an interval from 0.6 to 1.1.
    #[test]
    fn what_slows_a_whole_round_widens_no_interval() {
        let pair = |round: u32| {
            let speed = f64::from(1 + round % 7);
            Pair {
                ours: 0.8 * speed,
                theirs: speed,
            }
        };
        let ratio = Ratio::of(&(0..50).map(pair).collect::<Vec<_>>()).unwrap();
        assert!(close(ratio.low, 0.8) && close(ratio.value, 0.8) && close(ratio.high, 0.8));
    }

    #[test]
    fn medians_are_those_of_even_and_odd_counts() {
        let pairs = |ours: &[f64]| -> Vec<Pair> {
            let pair = |ours: &f64| Pair {
                ours: *ours,
                theirs: 2.0,
            };
            ours.iter().map(pair).collect()
        };
        for (ours, ratio) in [
            (&[4.0][..], 2.0),
            (&[5.0, 1.0, 2.0], 1.0),
            (&[9.0, 2.0, 1.0, 4.0], 1.5),
        ] {
            assert!(close(of_medians(&pairs(ours)).unwrap(), ratio));
        }
        assert!(Ratio::of(&[]).is_none());
    }

    #[test]
    fn what_cannot_be_told_from_one_is_equal() {
        let cell = |ours: f64| {
            let mut pairs = noisy(&mut Random::new(4), 50);
            pairs.iter_mut().for_each(|it| it.ours *= ours / 0.8);
            Ratio::cell(&pairs)
        };
        assert!(cell(1.0).starts_with("equal, 0.9"), "{}", cell(1.0));
        assert!(cell(0.5).starts_with("0.5"), "{}", cell(0.5));
        let none = [Pair {
            ours: 1.0,
            theirs: -0.1,
        }];
        assert_eq!(Ratio::cell(&none), "not known");
    }

    #[test]
    fn rounds_end_when_the_interval_is_narrow_or_the_limit_is_reached() {
        for (spread, expected) in [(0, 6), (1_000, 40)] {
            let (mut random, mut slices) = (Random::new(5), Vec::new());
            let slice = |way: usize| {
                slices.push(way);
                Ok((way, (1 + random.below(1 + spread)) as f64))
            };
            let pairs = |rounds: &[Vec<(usize, f64)>]| {
                vec![pair_up(rounds, |round| (round[1].1, round[0].1))]
            };
            let rounds = Rounds::at_most(40).measure(3, slice, pairs).unwrap();
            assert_eq!(rounds.len(), expected);
            let ways = rounds
                .iter()
                .map(|round| [round[0].0, round[1].0, round[2].0]);
            assert!(ways.into_iter().all(|ways| ways == [0, 1, 2]));
            let firsts = |way| slices.chunks(3).filter(|order| order[0] == way).count();
            assert!(
                expected == 6 || (0..3).all(|way| firsts(way) > 2),
                "{slices:?}"
            );
        }
    }
}
