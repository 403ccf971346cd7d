//! Computed times against a world that slews its clock, preempts threads, reads its counter early, and sleeps.

use super::*;

/// Counts per microsecond.
const FREQUENCY: u64 = 2_500;
/// The duration of one reading.
const STEP_NS: u64 = 12;

/// A machine whose true time moves a little with every reading.
struct World {
    /// True time, in nanoseconds.
    time: Cell<u64>,
    /// The clock, in thousandths of a nanosecond.
    clock: Cell<u64>,
    /// The clock's pace, in thousandths of the true one.
    pace: Cell<u64>,
    /// The counter is read up to this many nanoseconds early.
    early: u64,
    readings: Cell<u64>,
    /// Before which reading something happens, and what, with a number of nanoseconds.
    event: Option<(u64, Event, u64)>,
    /// How far ahead of the clock a computed time may be.
    ahead: u64,
}

/// Something that happens between two readings.
type Event = fn(&World, u64);

/// The thread is preempted.
const PREEMPTED: Event = |world, nanos| world.pass(nanos);
/// The machine sleeps. The clock stands meanwhile, and the counter goes on or begins anew.
const COUNTER_GOES_ON: Event = |world, nanos| world.time.set(world.time.get() + nanos);
const COUNTER_BEGINS_ANEW: Event = |world, nanos| world.time.set(nanos + 1_000);
/// The same with the counter and the clock exchanged.
const CLOCK_GOES_ON: Event = |world, nanos| world.clock.set(world.clock.get() + nanos * 1_000);

impl World {
    fn new(pace: u64, early: u64, preempted: Option<(u64, u64)>) -> Self {
        let event = preempted.map(|(at, nanos)| (at, PREEMPTED, nanos));
        let (time, readings) = (Cell::new(1_000_000), Cell::new(0));
        let (clock, pace) = (Cell::new(5_000_000), Cell::new(pace));
        Self {
            time,
            clock,
            pace,
            early,
            readings,
            event,
            ahead: AHEAD_NS,
        }
    }

    /// A machine that sleeps before one of the readings. What the counter counts meanwhile is ahead of the clock, by an
    /// anchor's window at most.
    fn sleeping(at: u64, event: Event, nanos: u64) -> Self {
        let event = Some((at, event, nanos));
        Self {
            event,
            ahead: SLACK_NS + WINDOW_NS + 100,
            ..Self::new(1000, 0, None)
        }
    }

    fn pass(&self, nanos: u64) {
        self.time.set(self.time.get() + nanos);
        self.clock.set(self.clock.get() + nanos * self.pace.get());
    }

    fn reading(&self) {
        self.pass(STEP_NS);
        let reading = self.readings.replace(self.readings.get() + 1);
        match self.event {
            Some((at, event, nanos)) if at == reading => event(self, nanos),
            _ => {}
        }
    }

    fn clock_now(&self) -> u64 {
        // Rounded up: the harder comparison.
        self.clock.get().div_ceil(1_000)
    }
}

impl Source for World {
    fn counter(&self) -> u64 {
        self.reading();
        let early = self.readings.get().wrapping_mul(0x9E37_79B9) % (self.early + 1);
        (self.time.get() - early) * FREQUENCY / 1_000
    }

    fn nanos(&self) -> u64 {
        self.reading();
        self.clock.get() / 1_000
    }
}

/// Reads through `calls` calls with `apart` nanoseconds between them; how many times were computed.
#[track_caller]
fn never_behind(world: &World, calibration: &Calibration, calls: u64, apart: u64) -> u64 {
    let anchor = Cell::new(Anchor::NONE);
    let mut computed = 0;
    for _ in 0..calls {
        let (before, readings) = (world.clock_now(), world.readings.get());
        let now = calibration.now(&anchor, world);
        assert!(now + 1 >= before, "{now} is behind {before}");
        let after = world.clock_now();
        assert!(now <= after + world.ahead, "{now} is ahead of {after}");
        computed += u64::from(world.readings.get() == readings + 1);
        world.pass(apart);
    }
    computed
}

/// The pace may change at any moment of an anchor's life, and the counter may be read early.
#[test]
fn never_behind_however_the_clock_is_slewed() {
    let paces = [890, 900, 1000, 1100, 1110];
    let pairs = paces
        .into_iter()
        .flat_map(|measured| paces.map(|used| (measured, used, 0)));
    for (measured, used, early) in pairs.chain([(890, 1110, 400)]) {
        let (world, calibration) = (World::new(measured, early, None), Calibration::new());
        // Long enough for the rate to be measured at the first pace.
        never_behind(&world, &calibration, 300, 100_000);
        world.pace.set(used);
        let computed = never_behind(&world, &calibration, 5_000, 50);
        assert!(
            computed > 4_000,
            "{computed} of 5000 were computed, {measured} then {used}"
        );
        for pace in [measured, used].repeat(20) {
            world.pace.set(pace);
            never_behind(&world, &calibration, 37, 91);
        }
        // A thread may have nothing to schedule for hours.
        never_behind(&world, &calibration, 3, 3_600_000_000_000);
        assert!(!calibration.is_broken());
    }
}

/// A preemption before each of the first readings in turn, that of the very first anchor and those before and after the
/// rate is measured among them.
#[test]
fn never_behind_wherever_a_preemption_falls() {
    for at in 0..60 {
        for nanos in [700, 5_000, 1_000_000, 4_000_000, 30_000_000] {
            for (pace, calls, apart, least) in [(1000, 20, 2_000_000, 2000), (890, 12, 999_000, 0)]
            {
                let world = World::new(pace, 0, Some((at, nanos)));
                let calibration = Calibration::new();
                never_behind(&world, &calibration, calls, apart);
                world.pace.set(1110);
                let computed = never_behind(&world, &calibration, 3_000, 50);
                assert!(
                    computed >= least,
                    "{computed} of 3000 computed, {nanos} ns before {at}"
                );
                assert!(!calibration.is_broken());
            }
        }
    }
}

/// Computes the value that a counter shows, from its value at some moment and the right one.
type Shown = fn(u64, u64) -> u64;

/// A machine whose counter goes another way from some moment on.
struct Unsteady<'a> {
    world: &'a World,
    /// The counter at that moment.
    since: u64,
    shown: Shown,
}

impl Source for Unsteady<'_> {
    fn counter(&self) -> u64 {
        (self.shown)(self.since, self.world.counter())
    }

    fn nanos(&self) -> u64 {
        self.world.nanos()
    }
}

/// At a tenth of its pace, and at little more than half of it, which the rate's margin does not hide.
#[test]
fn a_counter_that_becomes_slow_is_given_up() {
    let slow: [(Shown, _); 2] = [
        (|since, counter| since + (counter - since) / 10, 100),
        (|since, counter| since + (counter - since) * 6 / 10, 100_000),
    ];
    for (shown, apart) in slow {
        let (world, calibration) = (World::new(1000, 0, None), Calibration::new());
        never_behind(&world, &calibration, 300, 100_000);
        let anchor = Cell::new(Anchor::NONE);
        calibration.now(&anchor, &world);
        let unsteady = Unsteady {
            world: &world,
            since: world.counter(),
            shown,
        };
        for _ in 0..10_000 {
            calibration.now(&anchor, &unsteady);
            world.pass(apart);
        }
        assert!(calibration.is_broken());
        let before = world.clock_now();
        assert!(
            calibration.now(&anchor, &unsteady) + 1 >= before,
            "every reading is the clock's now"
        );
    }
}

#[test]
fn a_counter_that_stands_or_goes_back_while_the_rate_is_measured_is_never_used() {
    let ways: [Shown; 2] = [|since, _| since, |_, counter| counter.wrapping_sub(1 << 40)];
    for shown in ways {
        let (world, calibration) = (World::new(1000, 0, None), Calibration::new());
        let anchor = Cell::new(Anchor::NONE);
        calibration.now(&anchor, &world);
        let unsteady = Unsteady {
            world: &world,
            since: world.counter(),
            shown,
        };
        for _ in 0..500 {
            let (before, readings) = (world.clock_now(), world.readings.get());
            let now = calibration.now(&anchor, &unsteady);
            assert!(now + 1 >= before, "{now} is behind {before}");
            assert!(world.readings.get() > readings + 1, "the clock is read");
            world.pass(100_000);
        }
    }
}

/// How long a machine sleeps.
const SLEEPS_NS: [u64; 10] = [
    500,
    3_000,
    17_000,
    1_000_000,
    2_400_000,
    12_000_000,
    700_000_000,
    5_000_000_000,
    30_000_000_000,
    43_200_000_000_000,
];
/// How far apart calls are while the rate is measured.
const APART_NS: [u64; 4] = [700_000, 2_000_000, 300_000_000, 980_000_000];

/// A sleep before each of the readings in turn, those by which the rate is measured and the first that are computed.
/// A counter that begins anew may be given up, when it comes back to where it was for a thread's anchor; one that goes on
/// is not.
#[test]
fn never_behind_wherever_the_machine_sleeps() {
    for apart in APART_NS {
        // So many measure the rate in any case: each has four readings.
        let calls = 6 + 5 * BASE_NS.div_ceil(apart);
        for (event, goes_on) in [(COUNTER_GOES_ON, true), (COUNTER_BEGINS_ANEW, false)] {
            for nanos in SLEEPS_NS {
                for at in (0..4 * calls + 40).step_by(if calls > 30 { 3 } else { 1 }) {
                    let (world, calibration) =
                        (World::sleeping(at, event, nanos), Calibration::new());
                    // The clock is slow meanwhile.
                    world.pace.set(890);
                    never_behind(&world, &calibration, calls, apart);
                    world.pace.set(1110);
                    let quick = never_behind(&world, &calibration, 200, 50);
                    let given_up = calibration.is_broken();
                    assert!(
                        quick >= 150 || given_up && !goes_on,
                        "{quick} of 200 were quick, {nanos} ns before {at}"
                    );
                    assert!(!given_up || !goes_on);
                }
            }
        }
    }
}

/// The two readings may be as far apart as they like.
#[test]
fn a_rate_is_not_measured_over_more_than_a_second() {
    for (awake, asleep) in [(3600, 43_200), (2, 10), (1, 0), (100_000, 1)] {
        let (world, calibration) = (World::new(1000, 0, None), Calibration::new());
        let anchor = Cell::new(Anchor::NONE);
        for _ in 0..5 {
            calibration.now(&anchor, &world);
            world.pass(awake * 1_000_000_000 + 1);
            COUNTER_GOES_ON(&world, asleep * 1_000_000_000);
        }
        let calls = |apart: u64| {
            let (before, readings) = (world.clock_now(), world.readings.get());
            let now = calibration.now(&anchor, &world);
            assert!(now + 1 >= before, "{now} is behind {before}");
            world.pass(apart);
            world.readings.get() == readings + 1
        };
        assert!((0..10_000).all(|_| !calls(50)), "no rate is known");
        (0..300).for_each(|_| _ = calls(100_000));
        assert!((0..100).filter(|_| calls(50)).count() > 90);
    }
}

/// Two threads measure, and one of them sleeps through it all between two readings that are near by the clock.
#[test]
fn a_thread_that_sleeps_with_the_machine_measures_no_rate() {
    for asleep in SLEEPS_NS {
        for by_other in 0..60 {
            let (world, calibration) = (World::new(1000, 0, None), Calibration::new());
            let [own, other] = [(); 2].map(|()| Cell::new(Anchor::NONE));
            calibration.now(&own, &world);
            for _ in 0..by_other {
                calibration.now(&other, &world);
                world.pass(400_000);
            }
            COUNTER_GOES_ON(&world, asleep);
            for nth in 0..200 {
                for anchor in [&own, &other] {
                    let before = world.clock_now();
                    let now = calibration.now(anchor, &world);
                    assert!(now + 1 >= before, "{now} is behind {before}");
                }
                world.pass(if nth < 120 { 400_000 } else { 300 });
            }
            assert!(!calibration.is_broken());
        }
    }
}

/// An anchor serves for its window of counts only. The next reading finds out, however much later it comes.
#[test]
fn a_counter_that_stands_while_the_clock_goes_on_is_found_out() {
    for stood in SLEEPS_NS.into_iter().filter(|nanos| *nanos > 10_000) {
        for later in [50, 100_000, 20_000_000, 90_000_000_000_000] {
            let (world, calibration) = (World::new(1000, 0, None), Calibration::new());
            let anchor = Cell::new(Anchor::NONE);
            for _ in 0..300 {
                calibration.now(&anchor, &world);
                world.pass(100_000);
            }
            assert!(anchor.get().serves());
            calibration.now(&anchor, &world);
            CLOCK_GOES_ON(&world, stood);
            // What the counter counts meanwhile, rounded up by a third, hides a part of a shorter time.
            if later / 2 > stood {
                continue;
            }
            let mut behind = 0;
            for _ in 0..200 {
                world.pass(later);
                let before = world.clock_now();
                behind += u64::from(calibration.now(&anchor, &world) + 1 < before);
            }
            assert!(calibration.is_broken(), "{stood} ns, {later} ns later");
            assert!(behind * later <= WINDOW_NS, "{behind} are behind");
            assert_eq!(never_behind(&world, &calibration, 100, 50), 0);
        }
    }
}

/// A thread that has nothing to schedule for hours looks back over all of them.
#[test]
fn a_counter_that_was_slow_for_hours_is_found_out() {
    for hours in [1, 24, 1_000] {
        for share in [1, 6] {
            let (world, calibration) = (World::new(1000, 0, None), Calibration::new());
            let anchor = Cell::new(Anchor::NONE);
            for _ in 0..300 {
                calibration.now(&anchor, &world);
                world.pass(100_000);
            }
            calibration.now(&anchor, &world);
            let nanos = hours * 3_600_000_000_000;
            world.pass(nanos / 10 * share);
            CLOCK_GOES_ON(&world, nanos / 10 * (10 - share));
            calibration.now(&anchor, &world);
            assert!(calibration.is_broken(), "{hours} hours");
        }
    }
}
