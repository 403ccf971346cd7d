//! Which figure is measured how, and which peer is which type.

use super::engine::EnginePeer;
use super::peer::CrossPeer;
use super::submitter::{self, ByWay};
use super::{
    engine, forms, futures, locked, netty, pingora, sleep, throughput, timed, tokio_sleep, watched,
};
use crate::figure::{Figure, Scale};
use crate::measure::Metrics;
use crate::peer::Peer;
use std::time::Duration;

/// Runs a figure of many threads.
#[must_use]
pub fn measure(figure: Figure, peer: Peer, scale: Scale) -> Metrics {
    if let (Peer::Netty, Figure::Cross { producers, in_flight }) = (peer, figure) {
        return netty::cross(producers, scale.timers(in_flight), scale);
    }
    let run = match peer {
        Peer::Timer => measure_peer::<EnginePeer>,
        Peer::TimerHandles => measure_peer::<engine::HandlesPeer>,
        Peer::TimerClosures => measure_peer::<engine::ClosuresPeer>,
        Peer::TimerSubmitter => measure_peer::<ByWay<submitter::Keeping>>,
        Peer::TimerTimes => measure_peer::<ByWay<submitter::KeepingTime>>,
        Peer::TimerSlack => measure_peer::<submitter::SlackPeer>,
        Peer::LockedWheel => measure_peer::<locked::LockedWheel>,
        Peer::LockedTree => measure_peer::<locked::LockedTree>,
        Peer::LockedHeaps => measure_peer::<locked::LockedHeaps>,
        Peer::Tokio => measure_peer::<tokio_sleep::TokioPeer>,
        Peer::Sleep => measure_peer::<sleep::SleepPeer>,
        Peer::Pingora => measure_peer::<pingora::PingoraPeer>,
        Peer::AsyncIo => measure_peer::<futures::AsyncIoPeer>,
        other => unreachable!("{other:?} takes no part in figures of many threads"),
    };
    run(figure, scale)
}

fn measure_peer<P: CrossPeer>(figure: Figure, scale: Scale) -> Metrics {
    match figure {
        Figure::Cross { producers, in_flight } => {
            throughput::cross::<P>(producers, scale.timers(in_flight), scale)
        }
        Figure::RemoteCancel => throughput::remote_cancel::<P>(scale),
        Figure::Forms => forms::forms(scale),
        Figure::Late { timers, tick_us } => {
            timed::late::<P>(scale.timers(timers), Duration::from_micros(tick_us), scale)
        }
        Figure::Burst => timed::burst::<P>(scale),
        Figure::Wake => timed::wake::<P>(scale),
        Figure::Idle => watched::idle::<P>(scale),
        Figure::Zombie => watched::zombie::<P>(scale),
        Figure::Shrink => watched::shrink::<P>(scale),
        other => unreachable!("{other:?} is a local figure"),
    }
}
