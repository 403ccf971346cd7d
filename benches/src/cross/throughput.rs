//! cross, remote-cancel and forms: how long the calls take.

use super::{CrossPeer, Pairs, Setup};
use crate::book::Book;
use crate::figure::Scale;
use crate::measure::{Metrics, Sorted, Usage, parse, per};
use crate::peer::NETTY_JAR;
use crate::process::output;
use crate::stream::Stream;
use std::collections::VecDeque;
use std::ops::Range;
use std::process::Command;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use tickwheel::{Builder, Drive, Expired, Key, Timer, When};

/// The delays of cross in milliseconds.
const DELAYS: Range<u64> = 10_000..30_000;

/// Pairs between two looks at the clock.
const PIECE: usize = 512;

/// A thread that keeps timers in flight.
pub struct InFlight<P: CrossPeer> {
    peer: P,
    ring: VecDeque<P::Handle>,
    stream: Stream,
    pairs: usize,
    samples: Vec<i64>,
}

impl<P: CrossPeer> InFlight<P> {
    /// `in_flight` timers; each thread has a stream of its own, the same for every peer.
    pub fn new(peer: P, in_flight: usize) -> Self {
        let mut stream = Stream::new(in_flight, DELAYS);
        let ring = (0..in_flight)
            .map(|n| peer.schedule(stream.delay(), n as u64))
            .collect();
        Self {
            peer,
            ring,
            stream,
            pairs: 0,
            samples: Vec::new(),
        }
    }

    /// Cancels the oldest and schedules another, `pairs` times.
    pub fn run(&mut self, pairs: usize) {
        let mut left = pairs;
        while left > 0 {
            let steps = self.stream.block(left);
            left -= steps.len();
            self.peer.pairs(Pairs {
                steps,
                ring: &mut self.ring,
                samples: None,
            });
        }
        self.pairs += pairs;
    }

    /// Does a piece of that with a look at the clock around every schedule.
    fn run_watched(&mut self) {
        let (steps, samples) = (self.stream.block(PIECE), Some(&mut self.samples));
        self.peer.pairs(Pairs {
            steps,
            ring: &mut self.ring,
            samples,
        });
    }
}

/// Throughput for a while, then the latency of single schedules.
pub(super) fn cross<P: CrossPeer>(
    setup: Setup,
    producers: usize,
    in_flight: usize,
    scale: Scale,
) -> Metrics {
    let peer = P::start(setup);
    let lanes = (0..producers)
        .map(|n| InFlight::new(peer.session(n), in_flight))
        .collect();
    // The first timers are made by this thread, and freed by the producers during the warm-up.
    let warm = 4 * in_flight.max(PIECE);
    let mut lanes = peer.run(lanes, move |lane| {
        lane.run(PIECE);
        lane.pairs < warm
    });
    lanes.iter_mut().for_each(|lane| lane.pairs = 0);

    let watch = scale.watch(Duration::from_millis(1200));
    let (before, start) = (Usage::now(), Instant::now());
    let lanes = peer.run(lanes, move |lane| {
        lane.run(PIECE);
        start.elapsed() < watch
    });
    let (wall, cpu) = (start.elapsed(), Usage::now().cpu - before.cpu);
    let pairs = lanes.iter().map(|lane| lane.pairs).sum::<usize>();

    let wanted = scale.steps(400_000);
    let lanes = peer.run(lanes, move |lane| {
        lane.run_watched();
        lane.samples.len() < wanted
    });
    let samples = Sorted::new(lanes.into_iter().flat_map(|lane| lane.samples).collect());
    vec![
        ("M pairs/s", pairs as f64 / wall.as_secs_f64() / 1e6),
        ("CPU ns/pair", per(cpu, pairs)),
        ("p50 ns", samples.at(0.5)),
        ("p99 ns", samples.at(0.99)),
        ("p99.9 ns", samples.at(0.999)),
    ]
}

/// The load of [`cross`], written in Java.
const NETTY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cross/Netty.java");

/// Does the work of [`cross`] by Netty's `HashedWheelTimer`, in a Java virtual machine of its own, after three seconds of
/// warm-up for the compilers. It takes part where that is installed (Debian: `default-jdk-headless` and `libnetty-java`).
///
/// # Panics
///
/// If Java cannot be run: this is a process of its own, whose parent tells what it says.
pub(super) fn cross_netty(producers: usize, in_flight: usize, scale: Scale) -> Metrics {
    let watch = scale.watch(Duration::from_millis(1200));
    let numbers = [
        producers,
        in_flight,
        watch.as_millis() as usize,
        scale.steps(400_000),
    ];
    let mut java = Command::new("java");
    java.args(["-cp", NETTY_JAR]).arg(NETTY);
    java.args(numbers.map(|number| number.to_string()));
    let metrics = parse(&output(&mut java).expect("java runs").stdout);
    let name = |(name, value): (String, f64)| (&*name.leak(), value);
    metrics.into_iter().map(name).collect()
}

const BATCH: usize = 4096;

/// Handles one batch and returns the time to count, or nothing when there is no more.
type Batches = Box<dyn FnMut() -> Option<Duration> + Send>;

/// A schedules, B cancels.
pub(super) fn remote_cancel<P: CrossPeer>(scale: Scale) -> Metrics {
    let peer = P::start(Setup::new(Book::new(0, 0)));
    let batches = (scale.steps(400 * BATCH) / BATCH).max(1);
    let run = |batches: usize| {
        let (one, other) = (peer.session(0), peer.session(1));
        let (out, input) = sync_channel(4);
        let mut stream = Stream::new(BATCH, DELAYS);
        let mut left = 0..batches;
        let schedule: Batches = Box::new(move || {
            left.next()?;
            let steps = stream.block(BATCH).iter();
            let batch: Vec<_> = steps.map(|step| one.schedule(step.delay, 0)).collect();
            out.send(batch).ok().map(|()| Duration::ZERO)
        });
        let mut left = 0..batches;
        let cancel: Batches = Box::new(move || {
            left.next()?;
            let batch = input.recv().ok()?;
            let start = Instant::now();
            batch.into_iter().for_each(|handle| other.cancel(handle));
            Some(start.elapsed())
        });
        let (before, start) = (Usage::now(), Instant::now());
        let sides = [schedule, cancel].map(|side| (side, Duration::ZERO)).into();
        let sides = peer.run(sides, |(side, taken): &mut (Batches, Duration)| {
            side().map(|time| *taken += time).is_some()
        });
        let cpu = Usage::now().cpu - before.cpu;
        (sides.iter().map(|side| side.1).sum(), start.elapsed(), cpu)
    };
    run(batches / 4 + 1);
    let (taken, wall, cpu) = run(batches);
    let cancels = batches * BATCH;
    vec![
        ("ns/cancel", per(taken, cancels)),
        ("M pairs/s", cancels as f64 / wall.as_secs_f64() / 1e6),
        ("CPU ns/pair", per(cpu, cancels)),
    ]
}

/// Schedules of one form between two looks at the clock.
const FORM_PIECE: usize = 1024;

/// A tolerance.
const SLACK: Duration = Duration::from_millis(100);

/// Returns the time of a piece of schedules; the cancels that follow are not in it.
fn timed<W: Into<When>>(
    timer: &Timer<u64>,
    delays: &[Duration],
    keys: &mut Vec<Key<u64>>,
    when: impl Fn(Duration) -> W,
) -> Duration {
    let start = Instant::now();
    for delay in delays {
        keys.push(timer.schedule(when(*delay), 17).expect("there is no limit"));
    }
    let taken = start.elapsed();
    for key in keys.drain(..) {
        assert!(timer.cancel(key).is_won(), "nobody turns meanwhile");
    }
    timer.turn().expect("it is turned by hand");
    taken
}

/// Schedules in each form of a deadline in turn, piece by piece, so that other work on the machine hits all of them.
pub(super) fn forms(scale: Scale) -> Metrics {
    let builder = Builder::new().shards(1).drive(Drive::Manual);
    let timer = builder
        .build_with(|_: Expired<u64>| ())
        .expect("the settings are in range");
    let mut stream = Stream::new(FORM_PIECE, DELAYS);
    let mut keys = Vec::with_capacity(FORM_PIECE);
    let mut taken = [Duration::ZERO; 6];
    let pieces = scale.steps(2_000_000) / FORM_PIECE + 2;
    for piece in 0..pieces {
        let delays: Vec<_> = (0..FORM_PIECE).map(|_| stream.delay()).collect();
        // Read once per piece, as a server does once per round.
        let (now, instant) = (timer.now(), Instant::now());
        let this = [
            timed(&timer, &delays, &mut keys, |delay| delay),
            timed(&timer, &delays, &mut keys, |delay| now + delay),
            timed(&timer, &delays, &mut keys, |delay| instant + delay),
            timed(&timer, &delays, &mut keys, |delay| {
                When::from(delay).with_slack(SLACK)
            }),
            timed(&timer, &delays, &mut keys, |_| Duration::ZERO),
            timed(&timer, &delays, &mut keys, |_| now),
        ];
        // The first one makes the nodes.
        if piece > 0 {
            taken
                .iter_mut()
                .zip(this)
                .for_each(|(sum, this)| *sum += this);
        }
    }
    let schedules = (pieces - 1) * FORM_PIECE;
    let [delay, time, instant, slack, zero, overdue] = taken.map(|taken| per(taken, schedules));
    vec![
        ("delay ns", delay),
        ("Time ns", time),
        ("Instant ns", instant),
        ("delay with slack ns", slack),
        ("zero delay ns", zero),
        ("overdue Time ns", overdue),
    ]
}
