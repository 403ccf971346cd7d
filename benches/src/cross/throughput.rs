//! cross and remote-cancel.

use super::peer::{CrossPeer, Producer, Session, Setup};
use crate::book::Book;
use crate::figure::Scale;
use crate::measure::{Metrics, Sorted, Usage, per};
use crate::stream::{Delays, Stream};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The delays of cross.
pub(super) const DELAYS: Delays = Delays { from_ms: 10_000, to_ms: 30_000 };

/// Pairs between two looks at the clock.
const PIECE: usize = 512;

/// A thread that keeps timers in flight.
pub struct InFlight<S: Session> {
    session: S,
    ring: VecDeque<S::Handle>,
    stream: Stream,
}

impl<S: Session> InFlight<S> {
    /// `in_flight` timers; each thread has a stream of its own, the same for every peer.
    pub fn new(mut session: S, in_flight: usize) -> Self {
        let mut stream = Stream::new(in_flight, DELAYS);
        let ring = (0..in_flight).map(|n| session.schedule(stream.delay(), n as u64)).collect();
        Self { session, ring, stream }
    }

    /// Cancels the oldest and schedules another, `pairs` times; the time of it.
    pub fn run(&mut self, pairs: usize) -> Duration {
        let Self { session, ring, stream } = self;
        let (mut taken, mut left) = (Duration::ZERO, pairs);
        while left > 0 {
            let block = stream.block(left);
            let start = Instant::now();
            session.pairs(block, ring);
            taken += start.elapsed();
            left -= block.len();
        }
        taken
    }

    /// The same with a look at the clock around every schedule.
    fn run_watched(&mut self, pairs: usize, samples: &mut Vec<i64>) {
        let Self { session, ring, stream } = self;
        session.watched_pairs(stream.block(pairs), ring, samples);
    }

    /// Waits until everything is done.
    pub fn wait_idle(&mut self) {
        self.session.wait_idle();
    }
}

/// Runs one job per producer on the peer's threads and gives the producers back.
fn run_all<P: CrossPeer, T: Send + 'static>(
    peer: &P,
    states: Vec<T>,
    step: impl FnMut(&mut T) -> bool + Clone + Send + 'static,
) -> Vec<T> {
    let done = Arc::new(Mutex::new(Vec::new()));
    let job = |state: T| {
        let (mut state, mut step, done) = (Some(state), step.clone(), Arc::clone(&done));
        Box::new(move || {
            let go_on = state.as_mut().is_some_and(&mut step);
            if !go_on {
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                done.extend(state.take());
            }
            go_on
        }) as Producer
    };
    peer.run(states.into_iter().map(job).collect());
    std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner))
}

/// One producer and what it has counted.
struct Lane<S: Session> {
    timers: InFlight<S>,
    pairs: usize,
    samples: Vec<i64>,
}

/// Throughput for a while, then the latency of single schedules.
pub(super) fn cross<P: CrossPeer>(producers: usize, in_flight: usize, scale: Scale) -> Metrics {
    let peer = P::start(Setup::new(Arc::new(Book::new(0))));
    let lanes = (0..producers).map(|n| Lane {
        timers: InFlight::new(peer.session(n), in_flight),
        pairs: 0,
        samples: Vec::new(),
    });
    // The first timers are made by this thread, and freed by the producers during the warm-up.
    let warm = 4 * in_flight.max(PIECE);
    let mut lanes = run_all(&peer, lanes.collect(), move |lane| {
        lane.timers.run(PIECE);
        lane.pairs += PIECE;
        lane.pairs < warm
    });
    lanes.iter_mut().for_each(|lane| lane.pairs = 0);

    let watch = scale.watch(Duration::from_millis(1200));
    let (before, start) = (Usage::now(), Instant::now());
    let lanes = run_all(&peer, lanes, move |lane| {
        lane.timers.run(PIECE);
        lane.pairs += PIECE;
        let go_on = start.elapsed() < watch;
        if !go_on {
            lane.timers.wait_idle();
        }
        go_on
    });
    let (wall, cpu) = (start.elapsed(), Usage::now().cpu - before.cpu);
    let pairs = lanes.iter().map(|lane| lane.pairs).sum::<usize>();

    let wanted = scale.steps(400_000);
    let lanes = run_all(&peer, lanes, move |lane| {
        let Lane { timers, samples, .. } = lane;
        timers.run_watched(PIECE, samples);
        samples.len() < wanted
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

const BATCH: usize = 4096;

/// What one thread has scheduled and another has to cancel.
type Batch<S> = Vec<<S as Session>::Handle>;

fn schedule_batches<S: Session + Send + 'static>(
    mut session: S,
    batches: usize,
    out: SyncSender<Batch<S>>,
) -> Producer {
    let mut stream = Stream::new(BATCH, DELAYS);
    let mut left = batches;
    Box::new(move || {
        let schedule = |step: &crate::stream::Step| session.schedule(step.delay, 0);
        let batch = stream.block(BATCH).iter().map(schedule).collect();
        left -= 1;
        out.send(batch).is_ok() && left > 0
    })
}

/// The time of the cancels goes to `taken`.
fn cancel_batches<S: Session + Send + 'static>(
    mut session: S,
    batches: Receiver<Batch<S>>,
    taken: Arc<Mutex<Duration>>,
) -> Producer {
    Box::new(move || {
        let Ok(batch) = batches.recv() else {
            session.wait_idle();
            return false;
        };
        let start = Instant::now();
        batch.into_iter().for_each(|handle| session.cancel(handle));
        *taken.lock().unwrap_or_else(PoisonError::into_inner) += start.elapsed();
        true
    })
}

/// A schedules, B cancels.
pub(super) fn remote_cancel<P: CrossPeer>(scale: Scale) -> Metrics {
    let peer = P::start(Setup::new(Arc::new(Book::new(0))));
    let batches = scale.steps(400);
    let run = |batches: usize| {
        let taken = Arc::new(Mutex::new(Duration::ZERO));
        let (out, input) = sync_channel(4);
        let (before, start) = (Usage::now(), Instant::now());
        peer.run(vec![
            schedule_batches(peer.session(0), batches, out),
            cancel_batches(peer.session(1), input, Arc::clone(&taken)),
        ]);
        let cpu = Usage::now().cpu - before.cpu;
        (*taken.lock().unwrap_or_else(PoisonError::into_inner), start.elapsed(), cpu)
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
