//! `Send`, `Sync` and `Unpin` of every public type: a field that takes one of them away breaks users in silence.
//! Payloads, futures and services are `Inner`, which is `Send` only, as most futures are.

use std::cell::Cell;
use std::marker::{PhantomData, PhantomPinned};
use tickwheel_util::*;

/// A future, service, stream or payload that may move to another thread and is neither `Sync` nor `Unpin`.
struct Inner(PhantomData<Cell<u8>>, PhantomPinned);

/// For streams and services, whose types ask for more.
type Stream = futures_lite::stream::Pending<Cell<u8>>;
type Service = tower::util::BoxService<(), (), std::io::Error>;

/// Answers at compile time whether a type has a trait, without requiring it: the type's own constant, where the bound
/// holds, comes before the trait's.
macro_rules! has {
    ($type:ty: $bound:path) => {{
        #[allow(dead_code, reason = "one of the two answers is shadowed")]
        trait Otherwise {
            const ANSWER: bool = false;
        }
        impl<T: ?Sized> Otherwise for T {}
        struct Asked<T: ?Sized>(PhantomData<T>);
        #[allow(dead_code, reason = "absent for types that have it not")]
        impl<T: ?Sized + $bound> Asked<T> {
            const ANSWER: bool = true;
        }
        <Asked<$type>>::ANSWER
    }};
}

macro_rules! auto_traits {
    ($($type:ty: $expected:literal)*) => {
        [$((stringify!($type), $expected, [
            ("Send", has!($type: Send)),
            ("Sync", has!($type: Sync)),
            ("Unpin", has!($type: Unpin)),
        ])),*]
    };
}

#[test]
fn auto_traits_are_pinned() {
    let _ = (Inner(PhantomData, PhantomPinned), test::now());
    let pinned = auto_traits! {
        DelayQueue<Inner>: "Send Unpin"
        HyperTimer: "Send Sync Unpin"
        MetricsReporter: "Send Sync Unpin"
        QuinnRuntime<Inner>: "Unpin"
        layer::Backoff: "Send Sync Unpin"
        layer::IdleBody<Inner>: "Send"
        layer::IdleBodyLayer: "Send Sync Unpin"
        layer::IdleError<Inner>: "Send"
        layer::IdleFuture<Inner>: "Send"
        layer::IdleRequestBodyLayer: "Send Sync Unpin"
        layer::Layered<Inner, Inner>: "Send"
        layer::LimitedFuture<Inner>: "Send"
        layer::RequestError<Inner>: "Send"
        layer::RetryErrors: "Send Sync Unpin"
        layer::RetryFuture<Service, Inner, ()>: "Send Unpin"
        layer::RetryLayer<Inner>: "Send"
        layer::StatusFuture<Inner>: "Send"
        layer::StatusTimeoutLayer: "Send Sync Unpin"
        layer::TimeoutLayer: "Send Sync Unpin"
        local::LocalInterval: "Unpin"
        local::LocalSleep: "Unpin"
        local::LocalSleeps: "Unpin"
        local::LocalTimeout<Inner>: ""
        local::Wakeup: "Send Sync Unpin"
        stream::ChunksTimeout<Stream>: "Send Unpin"
        stream::IntervalStream: "Send Sync Unpin"
        stream::Throttle<Stream>: "Send Unpin"
        stream::TimeoutRepeating<Stream>: "Send Unpin"
        stream::TimeoutStream<Stream>: "Send Unpin"
        time::DelayQueue<Inner>: "Send Unpin"
        time::delay_queue::Expired<Inner>: "Send"
        time::delay_queue::Key: "Send Sync Unpin"
        time::Instant: "Send Sync Unpin"
        time::Interval: "Send Sync Unpin"
        time::MissedTickBehavior: "Send Sync Unpin"
        time::Sleep: "Send Sync Unpin"
        time::Timeout<Inner>: "Send"
    };
    let mut wrong = Vec::new();
    for (name, expected, answers) in pinned {
        let has = answers.iter().filter(|answer| answer.1);
        let has: Vec<_> = has.map(|answer| answer.0).collect();
        if has.join(" ") != expected {
            wrong.push(format!("{name}: \"{}\"", has.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "not as pinned:\n{}", wrong.join("\n"));
}
