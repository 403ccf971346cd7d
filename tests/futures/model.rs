//! Random sleeps against a list: each is ready exactly from its deadline's tick on, and whoever polled it last, and
//! nobody else, is woken once.

use crate::rig::{Bell, Rig, poll, wakers};
use crate::support::random::Random;
use crate::support::setup::stress;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tickwheel::{Sleep, SleepError, Time, When};

const TICK: u64 = 1_000_000;
const BELLS: usize = 4;

/// A sleep and what the list says of it.
struct Entry {
    sleep: Sleep<SleepError>,
    /// In nanoseconds, as it was asked for.
    deadline: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Whether its first poll asks if the deadline has passed.
    Unarmed {
        look: bool,
    },
    /// Whose waker it has.
    Armed(usize),
    Fired,
    Elapsed,
}

struct Model {
    rig: Rig,
    bells: [Arc<Bell>; BELLS],
    rings: [u64; BELLS],
    entries: Vec<Entry>,
    now: u64,
}

/// The tick from whose beginning on a deadline has passed.
fn up(deadline: u64) -> u64 {
    deadline.div_ceil(TICK) * TICK
}

impl Model {
    fn new() -> Self {
        Self {
            rig: Rig::with(|builder| builder.tick(Duration::from_nanos(TICK))),
            bells: std::array::from_fn(|_| Bell::new()),
            rings: [0; BELLS],
            entries: Vec::new(),
            now: 0,
        }
    }

    fn sleep(&mut self, random: &mut Random) {
        let (deadline, when, look) = self.deadline(random);
        let sleep = self.rig.timer.sleep(when);
        assert_eq!(sleep.deadline().as_nanos(), deadline);
        self.entries.push(Entry {
            sleep,
            deadline,
            stage: Stage::Unarmed { look },
        });
    }

    /// Chooses a deadline: in nanoseconds, as a delay or as a point, and whether it is a point, which may have passed.
    fn deadline(&self, random: &mut Random) -> (u64, When, bool) {
        let far = if random.chance(80) {
            20 * TICK
        } else {
            5_000 * TICK
        };
        let ahead = 1 + random.below(far);
        if random.chance(50) {
            return (self.now + ahead, Duration::from_nanos(ahead).into(), false);
        }
        let deadline = (self.now + ahead).saturating_sub(5 * TICK);
        (deadline, Time::from_nanos(deadline).into(), true)
    }

    fn poll(&mut self, which: usize, bell: usize) {
        let entry = &mut self.entries[which];
        let answer = poll(&mut entry.sleep, &self.bells[bell]);
        let expected = match entry.stage {
            Stage::Elapsed | Stage::Fired => Stage::Elapsed,
            Stage::Unarmed { look: true } if entry.deadline <= self.now => Stage::Elapsed,
            Stage::Unarmed { .. } | Stage::Armed(_) => Stage::Armed(bell),
        };
        assert_eq!(
            answer.is_ready(),
            expected == Stage::Elapsed,
            "{:?}",
            entry.stage
        );
        assert!(matches!(answer, Poll::Pending | Poll::Ready(Ok(()))));
        entry.stage = expected;
    }

    fn reset(&mut self, which: usize, random: &mut Random) {
        let (deadline, when, look) = self.deadline(random);
        let entry = &mut self.entries[which];
        entry.sleep.reset(when);
        entry.stage = match entry.stage {
            Stage::Armed(bell) if deadline < entry.deadline && deadline <= self.now => {
                self.rings[bell] += 1;
                Stage::Elapsed
            }
            Stage::Armed(bell) => Stage::Armed(bell),
            _ => Stage::Unarmed { look },
        };
        entry.deadline = deadline;
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        let fired = self.rig.pass(Duration::from_nanos(time));
        let mut expected = 0;
        for entry in &mut self.entries {
            if let Stage::Armed(bell) = entry.stage {
                if up(entry.deadline) <= self.now {
                    entry.stage = Stage::Fired;
                    self.rings[bell] += 1;
                    expected += 1;
                }
            }
        }
        assert_eq!(fired, expected);
    }

    fn check(&self) {
        let armed = |bell| {
            self.entries
                .iter()
                .filter(|it| it.stage == Stage::Armed(bell))
                .count()
        };
        for bell in 0..BELLS {
            assert_eq!(self.bells[bell].rings(), self.rings[bell], "bell {bell}");
            assert_eq!(
                wakers(&self.bells[bell]),
                armed(bell),
                "wakers of bell {bell}"
            );
        }
        assert_eq!(
            self.rig.timer.pending(),
            (0..BELLS).map(armed).sum::<usize>()
        );
    }
}

fn run(seed: u64, steps: u64) {
    let random = &mut Random::new(seed);
    let mut model = Model::new();
    for _ in 0..steps {
        let which = random.below(model.entries.len().max(1) as u64) as usize;
        let is_there = which < model.entries.len();
        match random.below(100) {
            0..25 => model.sleep(random),
            25..60 if is_there => model.poll(which, random.below(BELLS as u64) as usize),
            60..75 if is_there => model.reset(which, random),
            75..85 if is_there => drop(model.entries.swap_remove(which)),
            _ => model.pass(random.below(4 * TICK)),
        }
        model.check();
    }
    // The end: everything that sleeps is woken, whether it fires or is returned.
    let armed = model
        .entries
        .iter()
        .filter(|it| matches!(it.stage, Stage::Armed(_)))
        .count();
    assert_eq!(model.rig.timer.stop().unwrap().len(), armed);
    for entry in &mut model.entries {
        let answer = poll(&mut entry.sleep, &Bell::new());
        match entry.stage {
            Stage::Fired | Stage::Elapsed => assert_eq!(answer, Poll::Ready(Ok(()))),
            Stage::Armed(_) => assert!(matches!(answer, Poll::Ready(Err(_)))),
            Stage::Unarmed { .. } => assert!(answer.is_ready()),
        }
    }
    assert!(model.bells.iter().all(|bell| wakers(bell) == 0));
}

#[test]
fn sleeps_behave_as_the_list_says() {
    for seed in 0..stress(60) {
        run(seed, 400);
    }
}
