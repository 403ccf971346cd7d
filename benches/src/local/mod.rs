//! Peers of one thread, and what they are put through: churn, life, rearm, and the rounds and calls of a loop.

mod loops;
mod peers;

use crate::figure::{Scale, Work};
use crate::measure::{Metrics, per, resident_bytes};
use crate::peer::Peer;
use crate::stream::Stream;
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use peers::HashedPeer;

pub use loops::{idle_polls, resident};
pub use peers::{
    BitwheelPeer, DelayQueuePeer, EventLoopPeer, EventLoopRemotePeer, FloorPeer, HeapPeer,
    LocalPeer, LocalTimerPeer, LoopPeer, NexusPeer, TokioSleepPeer, TreePeer,
};

const TICK: Duration = Duration::from_millis(1);
/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;

/// Buckets of the hashed wheel, as Netty has in the comparison.
pub(crate) const HASHED_BUCKETS: usize = 32_768;

/// The delays of churn in milliseconds.
pub const LONG: Range<u64> = 1_000..60_000;
/// The delays of churn-tick in milliseconds.
pub const SHORT: Range<u64> = 2_000..3_000;

/// More than a timer of any peer takes.
const LIFE_BYTES: usize = 128;

/// Writes to each page of so much memory and gives it back: the first touch of a huge page of a virtual machine takes
/// longer than all else that a life costs, and only once.
fn touch(bytes: usize) {
    let mut memory = vec![0_u8; bytes];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    black_box(memory);
}

/// Runs a local figure.
pub fn measure(work: Work, peer: Peer, scale: Scale) -> Metrics {
    if matches!(work, Work::IdleRound | Work::Sparse | Work::LoopOwner(_)) {
        return loops::measure(work, peer, scale);
    }
    let run = match peer {
        Peer::LocalTimer => measure_peer::<LocalTimerPeer>,
        Peer::EventLoopTimer => measure_peer::<EventLoopPeer>,
        Peer::Nexus => measure_peer::<NexusPeer>,
        Peer::DelayQueue => measure_peer::<DelayQueuePeer>,
        Peer::Tokio => measure_peer::<TokioSleepPeer>,
        Peer::Hashed => measure_peer::<HashedPeer>,
        Peer::Heap => measure_peer::<HeapPeer>,
        Peer::Floor => measure_peer::<FloorPeer>,
        other => unreachable!("{other:?} takes no part in local figures"),
    };
    run(work, scale)
}

fn measure_peer<P: LocalPeer>(work: Work, scale: Scale) -> Metrics {
    let steps = scale.steps(4_000_000);
    match work {
        Work::Churn(n) => measure_churn(Churn::<P>::new(scale.timers(n), LONG, None), steps),
        Work::ChurnTick(n) => {
            let residents = scale.timers(n);
            let per_tick = (residents / 1000).max(1);
            measure_churn(Churn::<P>::new(residents, SHORT, Some(per_tick)), steps)
        }
        Work::Life(n) => {
            let timers = scale.timers(n);
            touch(timers * LIFE_BYTES);
            let (schedule, fire) = life::<P>(timers);
            let (schedule, fire) = (per(schedule, timers), per(fire, timers));
            vec![
                ("ns/timer", schedule + fire),
                ("schedule ns", schedule),
                ("fire ns", fire),
            ]
        }
        Work::Rearm(n) => {
            let mut churn = Churn::<P>::new(scale.timers(n), LONG, None);
            rearm(&mut churn, steps / 4);
            let taken = rearm(&mut churn, steps);
            churn.end();
            vec![("ns/rearm", per(taken, steps))]
        }
        other => unreachable!("{other:?} is not a local figure"),
    }
}

fn measure_churn<P: LocalPeer>(mut churn: Churn<P>, steps: usize) -> Metrics {
    let residents = churn.slots.len();
    // Until every resident has been replaced about twice: then the memory is as scattered as it gets, and
    // what cancelled timers leave behind has reached its steady state.
    churn.run(2 * residents + steps / 4);
    let bytes = |churn: &Churn<P>| (resident_bytes() - churn.base_bytes) / residents as f64;
    let before = bytes(&churn);
    let taken = churn.run(steps);
    let after = bytes(&churn);
    churn.end();
    let mut metrics = vec![("ns/pair", per(taken, steps))];
    // Below that, pages of anything else would count.
    if residents >= 100_000 {
        metrics.push(("bytes/timer", after));
        metrics.push(("growth %", (after / before - 1.0) * 100.0));
    }
    metrics
}

/// Resident timers, of which one after the other is cancelled and replaced.
pub struct Churn<P: LocalPeer> {
    peer: P,
    slots: Vec<Option<P::Handle>>,
    /// The delay of each slot's timer, for rearm.
    delays: Vec<Duration>,
    stream: Stream,
    /// Pairs per tick of the clock; without it the clock stands and victims are random.
    per_tick: Option<usize>,
    oldest: usize,
    until_tick: usize,
    base_bytes: f64,
}

impl<P: LocalPeer> Churn<P> {
    /// `residents` timers.
    pub fn new(residents: usize, delays: Range<u64>, per_tick: Option<usize>) -> Self {
        let mut stream = Stream::new(residents, delays);
        // Written, so that it is part of the base.
        let mut slots: Vec<Option<P::Handle>> = Vec::new();
        slots.resize_with(residents, || None);
        let delays: Vec<_> = (0..residents).map(|_| stream.delay()).collect();
        let base_bytes = resident_bytes();
        let mut peer = P::new(residents + 1);
        for (n, (slot, delay)) in slots.iter_mut().zip(&delays).enumerate() {
            *slot = Some(peer.schedule(*delay, n as u64));
        }
        let until_tick = per_tick.unwrap_or(0);
        Self {
            peer,
            slots,
            delays,
            stream,
            per_tick,
            oldest: 0,
            until_tick,
            base_bytes,
        }
    }

    /// Makes `pairs` pairs; returns the time that they took.
    pub fn run(&mut self, pairs: usize) -> Duration {
        let Self {
            peer,
            slots,
            stream,
            per_tick,
            oldest,
            until_tick,
            ..
        } = self;
        let mut taken = Duration::ZERO;
        let mut left = pairs;
        while left > 0 {
            let block = stream.block(left);
            let start = Instant::now();
            if let Some(per_tick) = per_tick {
                for step in block {
                    let slot = &mut slots[*oldest];
                    black_box(peer.cancel(slot.take().expect("every slot has a timer")));
                    *slot = Some(peer.schedule(step.delay, u64::from(step.victim)));
                    *oldest = if *oldest + 1 == slots.len() {
                        0
                    } else {
                        *oldest + 1
                    };
                    *until_tick -= 1;
                    if *until_tick == 0 {
                        *until_tick = *per_tick;
                        let fired = peer.advance(TICK);
                        assert_eq!(fired, 0, "every timer is cancelled after a second");
                    }
                }
            } else {
                for step in block {
                    let slot = &mut slots[step.victim as usize];
                    black_box(peer.cancel(slot.take().expect("every slot has a timer")));
                    *slot = Some(peer.schedule(step.delay, u64::from(step.victim)));
                }
            }
            taken += start.elapsed();
            left -= block.len();
        }
        taken
    }

    /// Cancels what is left: nexus-timer insists on it.
    pub fn end(self) {
        let Self {
            mut peer, slots, ..
        } = self;
        for handle in slots.into_iter().flatten() {
            peer.cancel(handle);
        }
    }
}

/// Pushes the deadlines of `steps` random residents out by what the stream says; returns the time that it took.
pub fn rearm<P: LocalPeer>(churn: &mut Churn<P>, steps: usize) -> Duration {
    let Churn {
        peer,
        slots,
        delays,
        stream,
        ..
    } = churn;
    let mut taken = Duration::ZERO;
    let mut left = steps;
    while left > 0 {
        let block = stream.block(left);
        let start = Instant::now();
        for step in block {
            let victim = step.victim as usize;
            delays[victim] += step.delay;
            let handle = slots[victim].take().expect("every slot has a timer");
            slots[victim] = Some(peer.rearm(handle, delays[victim]));
        }
        taken += start.elapsed();
        left -= block.len();
    }
    taken
}

/// Schedules `timers` over a minute and lets them all fire; returns how long the two halves took.
///
/// # Panics
///
/// If a timer does not fire.
pub fn life<P: LocalPeer>(timers: usize) -> (Duration, Duration) {
    let mut stream = Stream::new(timers, 1..60_001);
    let mut peer = P::new(timers);
    let (mut schedule, mut payload) = (Duration::ZERO, 0);
    while payload < timers as u64 {
        let block = stream.block(timers - payload as usize);
        let start = Instant::now();
        for step in block {
            peer.schedule_forget(step.delay, payload);
            payload += 1;
        }
        schedule += start.elapsed();
    }
    let start = Instant::now();
    let mut fired = 0;
    for _ in 0..60_002 {
        fired += peer.advance(TICK);
    }
    let fire = start.elapsed();
    assert_eq!(fired, timers, "every timer fires");
    (schedule, fire)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every peer has to do the same work: those that do not fire, or fire what was cancelled, would win.
    fn keeps_the_rules<P: LocalPeer>() {
        let ms = Duration::from_millis;
        let mut peer = P::new(100);
        let mut handles: Vec<_> = (0..90)
            .map(|n| Some(peer.schedule(ms(100 + n), n)))
            .collect();
        for n in (0..90).step_by(3) {
            let handle = handles[n].take().unwrap();
            let payload = peer.cancel(handle);
            assert!(payload == n as u64 || payload == 0);
        }
        for n in (1..90).step_by(3) {
            let handle = handles[n].take().unwrap();
            handles[n] = Some(peer.rearm(handle, ms(1000)));
        }
        peer.schedule_forget(ms(5), 0);
        let mut advance = |times| (0..times).map(|_| peer.advance(ms(1))).sum::<usize>();
        assert_eq!(
            advance(250),
            31,
            "one forgotten, and the thirty that were left alone"
        );
        assert_eq!(advance(800), 30, "those that were moved");
        // nexus-timer wants its handles back.
        handles.into_iter().flatten().for_each(std::mem::forget);
    }

    #[test]
    fn every_peer_keeps_the_rules() {
        keeps_the_rules::<LocalTimerPeer>();
        keeps_the_rules::<EventLoopPeer>();
        keeps_the_rules::<NexusPeer>();
        keeps_the_rules::<DelayQueuePeer>();
        keeps_the_rules::<TokioSleepPeer>();
        keeps_the_rules::<HashedPeer>();
        keeps_the_rules::<HeapPeer>();
        keeps_the_rules::<EventLoopRemotePeer>();
        keeps_the_rules::<TreePeer>();
    }
}
