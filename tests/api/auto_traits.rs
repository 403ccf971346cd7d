//! `Send`, `Sync` and `Unpin` of every public type: a field that takes one of them away breaks users in silence.
//! `tests/tidy/api.rs` sees that no type is missing. Payloads are `SendOnly`, futures neither `Sync` nor `Unpin`.

use super::SendOnly;
use std::cell::Cell;
use std::marker::PhantomPinned;
use tickwheel::*;

/// A future that may only move to another thread before it is polled.
type Future = (Cell<u8>, PhantomPinned);

macro_rules! is_auto {
    ($($type:ty: $expected:literal)*) => {
        [$((stringify!($type), $expected, [
            ("Send", is!($type: Send)),
            ("Sync", is!($type: Sync)),
            ("Unpin", is!($type: Unpin)),
        ])),*]
    };
}

#[test]
fn auto_traits_are_pinned() {
    let pinned = is_auto! {
        BootClock: "Send Sync Unpin"
        Budget: "Send Sync Unpin"
        BuildError: "Send Sync Unpin"
        Builder: "Send Sync Unpin"
        Cancel<SendOnly>: "Send Unpin"
        DrivenShard<SendOnly>: "Send Sync Unpin"
        DurationHistogram: "Send Sync Unpin"
        Elapsed: "Send Sync Unpin"
        EngineState: "Send Sync Unpin"
        Drive: "Send Sync Unpin"
        EventLoopTimer<SendOnly>: "Send Unpin"
        Expirations<'static, LocalTimer<SendOnly>>: "Send Unpin"
        Expirations<'static, EventLoopTimer<SendOnly>>: "Send Unpin"
        Expired<SendOnly>: "Send Unpin"
        IdleStrategy: "Send Sync Unpin"
        Interval: "Send Sync Unpin"
        Key<SendOnly>: "Send Sync Unpin"
        LocalTimer<SendOnly>: "Send Unpin"
        ManualClock: "Send Sync Unpin"
        MissedTicks: "Send Sync Unpin"
        MonotonicClock: "Send Sync Unpin"
        PanicReport: "Send Sync Unpin"
        Period: "Send Sync Unpin"
        PinState: "Send Sync Unpin"
        Pinning: "Send Sync Unpin"
        Polled: "Send Sync Unpin"
        RawKey: "Send Sync Unpin"
        Remote<SendOnly>: "Send Sync Unpin"
        RemoteKey<SendOnly>: "Send Sync Unpin"
        Reschedule: "Send Sync Unpin"
        ScheduleError<SendOnly>: "Send Sync Unpin"
        ScheduleErrorKind: "Send Sync Unpin"
        Settings: "Send Sync Unpin"
        ShardStats: "Send Sync Unpin"
        Shutdown: "Send Sync Unpin"
        Sleep: "Send Sync Unpin"
        SleepError: "Send Sync Unpin"
        SlowHandler: "Send Sync Unpin"
        SystemError: "Send Sync Unpin"
        StartError: "Send Sync Unpin"
        Stats: "Send Sync Unpin"
        StopError: "Send Sync Unpin"
        Time: "Send Sync Unpin"
        Timeout<Future>: "Send"
        TimeoutError: "Send Sync Unpin"
        Timer<SendOnly>: "Send Sync Unpin"
        TimerGuard<SendOnly>: "Send Sync Unpin"
        TimerHandle<SendOnly>: "Send Sync Unpin"
        TimerState: "Send Sync Unpin"
        TimerTask: "Send Unpin"
        TurnError: "Send Sync Unpin"
        Unfired<SendOnly>: "Send Unpin"
        WeakTimer<SendOnly>: "Send Sync Unpin"
        When: "Send Sync Unpin"
        WorkerFailure: "Send Sync Unpin"
    };
    let mut wrong = Vec::new();
    for (name, expected, answers) in pinned {
        let are = answers.iter().filter(|answer| answer.1);
        let are: Vec<_> = are.map(|answer| answer.0).collect();
        if are.join(" ") != expected {
            wrong.push(format!("{name}: \"{}\"", are.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "not as pinned:\n{}", wrong.join("\n"));
}
