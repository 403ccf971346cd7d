//! What a loop asks of its timer in every round, and the calls of the loop's own thread.

use super::peers::{
    BitwheelPeer, EventLoopPeer, EventLoopRemotePeer, HeapPeer, LocalPeer, LocalTimerPeer,
    LoopPeer, NexusPeer, TreePeer,
};
use super::{Churn, LONG, SHORT, TICK};
use crate::figure::{Scale, Work};
use crate::measure::{Metrics, per, resident_bytes};
use crate::peer::Peer;
use crate::random::Random;
use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Residents of an idle round.
const RESIDENTS: usize = 1000;
/// By how much the time moves from round to round: what a short round takes.
const ROUND: Duration = Duration::from_nanos(50);

/// Runs a figure of loops.
pub(super) fn measure(work: Work, peer: Peer, scale: Scale) -> Metrics {
    let run = match peer {
        Peer::LocalTimer => measure_peer::<LocalTimerPeer>,
        Peer::EventLoopTimer => measure_peer::<EventLoopPeer>,
        Peer::EventLoopRemote => measure_peer::<EventLoopRemotePeer>,
        Peer::Nexus => measure_peer::<NexusPeer>,
        Peer::Bitwheel => measure_peer::<BitwheelPeer>,
        Peer::Heap => measure_peer::<HeapPeer>,
        Peer::Tree => measure_peer::<TreePeer>,
        other => unreachable!("{other:?} takes no part in figures of loops"),
    };
    run(work, scale)
}

fn measure_peer<P: LoopPeer>(work: Work, scale: Scale) -> Metrics {
    match work {
        Work::IdleRound => idle_round::<P>(scale.steps(4_000_000)),
        Work::Sparse => vec![("poll ns", sparse::<P>(scale.steps(1_000_000)))],
        Work::LoopOwner(residents) => owner::<P>(scale.timers(residents), scale.steps(4_000_000)),
        other => unreachable!("{other:?} is not a figure of loops"),
    }
}

/// Returns the processor time of this thread: what others do on the machine does not count, nor do waits for a core.
fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.expect("the clock of the own thread").into()
}

/// Returns a peer with residents that are due in 1 to 60 s.
pub fn resident<P: LocalPeer>() -> (P, Vec<P::Handle>) {
    let mut random = Random::new(0);
    let mut peer = P::new(RESIDENTS);
    let delay = |random: &mut Random| Duration::from_millis(1_000 + random.below(59_000));
    let handles = (0..RESIDENTS as u64)
        .map(|n| peer.schedule(delay(&mut random), n))
        .collect();
    (peer, handles)
}

/// Polls `times` while nothing is due, on a clock that moves with the rounds.
pub fn idle_polls<P: LoopPeer>(peer: &mut P, times: usize) {
    for _ in 0..times {
        black_box(black_box(&mut *peer).advance(ROUND));
    }
}

/// Nothing is due and nothing is sent: what a round costs, by parts and whole.
fn idle_round<P: LoopPeer>(rounds: usize) -> Metrics {
    // Chunks of a fiftieth, of which the least counts: an interrupt is charged to the thread that it interrupts.
    let chunk = rounds / 50;
    let least = |round: &mut dyn FnMut(usize)| {
        let timed = |_| {
            let start = thread_cpu();
            round(chunk);
            thread_cpu() - start
        };
        let least = (0..50).map(timed).min().unwrap_or_default();
        per(least, chunk)
    };
    let (mut peer, handles) = resident::<P>();
    idle_polls(&mut peer, chunk);
    let poll = least(&mut |times| idle_polls(&mut peer, times));
    let collect = least(&mut |times| {
        for _ in 0..times {
            black_box(black_box(&mut peer).advance_and_collect(ROUND));
        }
    });
    let timeout = least(&mut |times| {
        for _ in 0..times {
            black_box(black_box(&mut peer).timeout());
        }
    });
    handles.into_iter().for_each(|it| _ = peer.cancel(it));
    // On the real clock, with residents that are due after the measurement: in one to two minutes.
    peer.read_clock();
    let mut random = Random::new(0);
    let handles: Vec<_> = (0..RESIDENTS as u64)
        .map(|n| peer.schedule(Duration::from_secs(60 + random.below(60)), n))
        .collect();
    let sleeping = least(&mut |times| {
        for _ in 0..times {
            let peer = black_box(&mut peer);
            peer.read_clock();
            black_box(peer.advance(Duration::ZERO));
            black_box(peer.timeout());
        }
    });
    // The loop is awake from now on.
    peer.advance(Duration::ZERO);
    let spinning = least(&mut |times| {
        for _ in 0..times {
            black_box(black_box(&mut peer).spin());
        }
    });
    handles.into_iter().for_each(|it| _ = peer.cancel(it));
    vec![
        ("poll ns", poll),
        ("expired ns", collect),
        ("timeout ns", timeout),
        ("sleeping round ns", sleeping),
        ("spinning round ns", spinning),
    ]
}

/// One timer is due in each tick, and each tick has its poll; returns nanoseconds per poll.
fn sparse<P: LoopPeer>(polls: usize) -> f64 {
    let passes = polls.div_ceil(RESIDENTS);
    let mut peer = P::new(RESIDENTS);
    let mut taken = Duration::ZERO;
    for _ in 0..passes {
        for tick in 1..=RESIDENTS as u32 {
            peer.schedule_forget(tick * TICK, u64::from(tick));
        }
        let start = thread_cpu();
        let polled = |_| black_box(&mut peer).advance(TICK);
        let mut fired: usize = (0..RESIDENTS).map(polled).sum();
        taken += thread_cpu() - start;
        // Some peers are some ticks late.
        for _ in 0..RESIDENTS {
            fired += peer.advance(TICK);
        }
        assert_eq!(fired, RESIDENTS, "every timer fires");
    }
    per(taken, passes * RESIDENTS)
}

/// The calls of the owner beside so many residents.
fn owner<P: LocalPeer>(residents: usize, steps: usize) -> Metrics {
    // Until every resident has been replaced about twice.
    let warm = 2 * residents + steps / 4;
    let mut churn = Churn::<P>::new(residents, LONG, None);
    churn.run(warm);
    let random = per(churn.run(steps), steps);
    let bytes = (resident_bytes() - churn.base_bytes) / residents as f64;
    let (later, earlier) = moves(&mut churn, steps);
    churn.end();

    // Deadlines are 2 to 3 s ahead, and a tick is a tenth of the residents: none comes due.
    let mut churn = Churn::<P>::new(residents, SHORT, Some((residents / 10).max(1)));
    churn.run(warm);
    let oldest = per(churn.run(steps), steps);
    churn.end();

    let mut metrics = vec![
        ("random pair ns", random),
        ("oldest pair ns", oldest),
        ("later ns", later),
        ("earlier ns", earlier),
        ("fire ns", fire::<P>(residents, steps)),
    ];
    // Below that, pages of anything else would count.
    if residents >= 100_000 {
        metrics.push(("bytes/timer", bytes));
    }
    metrics
}

/// Moves all residents, in an order that has nothing to do with their memory: to later, then to earlier. Returns
/// nanoseconds of each.
fn moves<P: LocalPeer>(churn: &mut Churn<P>, steps: usize) -> (f64, f64) {
    let Churn { peer, slots, .. } = churn;
    let mut random = Random::new(0);
    let passes = steps.div_ceil(slots.len());
    let mut taken = [Duration::ZERO; 2];
    let mut delays = vec![Duration::ZERO; slots.len()];
    for _ in 0..passes {
        for (taken, from_ms) in taken.iter_mut().zip([120_000, 1_000]) {
            for delay in &mut delays {
                *delay = Duration::from_millis(from_ms + random.below(59_000));
            }
            let start = Instant::now();
            for (slot, delay) in slots.iter_mut().zip(&delays) {
                let handle = slot.take().expect("every slot has a timer");
                *slot = Some(peer.rearm(handle, *delay));
            }
            *taken += start.elapsed();
        }
    }
    let [later, earlier] = taken.map(|taken| per(taken, passes * slots.len()));
    (later, earlier)
}

/// Lets all residents fire within 100 ticks, again and again; returns nanoseconds per timer, polls included.
fn fire<P: LocalPeer>(residents: usize, steps: usize) -> f64 {
    const TICKS: u64 = 100;
    let mut peer = P::new(residents);
    let mut random = Random::new(0);
    let passes = steps.div_ceil(residents);
    let mut taken = Duration::ZERO;
    for _ in 0..passes {
        for n in 0..residents as u64 {
            peer.schedule_forget(Duration::from_millis(1 + random.below(TICKS)), n);
        }
        let start = Instant::now();
        let mut fired = 0;
        // Some peers are some ticks late.
        for _ in 0..2 * TICKS {
            fired += peer.advance(TICK);
            if fired == residents {
                break;
            }
        }
        taken += start.elapsed();
        assert_eq!(fired, residents, "every timer fires");
    }
    per(taken, passes * residents)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that fires in an idle round, or that does not know its next deadline, would be compared with others that
    /// do more.
    fn idles<P: LoopPeer>() {
        let (mut peer, handles) = resident::<P>();
        assert_eq!(peer.advance(ROUND), 0);
        assert_eq!(peer.advance_and_collect(ROUND), 0);
        let timeout = peer.timeout().expect("timers are pending");
        assert!(timeout > Duration::from_millis(900), "{timeout:?}");
        assert!(timeout < Duration::from_secs(31), "{timeout:?}");
        handles.into_iter().for_each(|it| _ = peer.cancel(it));
        peer.read_clock();
        peer.schedule_forget(Duration::from_millis(1), 1);
        assert_eq!(peer.advance_and_collect(Duration::from_secs(31)), 1);
    }

    #[test]
    fn every_peer_idles_and_fires() {
        idles::<LocalTimerPeer>();
        idles::<EventLoopPeer>();
        idles::<EventLoopRemotePeer>();
        idles::<NexusPeer>();
        idles::<BitwheelPeer>();
        idles::<HeapPeer>();
        idles::<TreePeer>();
    }
}
