//! Each error names the offending number and the cure.

use super::super::engine_error::{StopError, TurnError};
use super::*;

/// Asserts that the text of `error` holds every part, and a cure.
fn says(error: impl StdError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
    assert!(
        text.contains("; ") || text.contains("needs"),
        "{text:?} names no cure"
    );
}

#[test]
fn errors_name_the_cure() {
    use ScheduleErrorKind as Kind;
    #[cfg(feature = "std")]
    says(
        BuildError::Waker {
            source: std::io::Error::other("too many open files").into(),
        },
        &["too many open files", "with_mio_waker"],
    );
    says(Kind::Stopped, &["stopped", "build a new one"]);
    let limit = Kind::TooManyPending {
        pending: 3,
        max_pending: 2,
    };
    says(
        limit,
        &["3 timers are pending", "max_pending is 2", "raise"],
    );
    says(
        Kind::OutOfNodes {
            shard: 1,
            limit: 77,
        },
        &["shard 1", "maximum of 77", "more shards"],
    );
    says(Kind::OutOfMemory, &["out of memory", "try again"]);
    says(StartError::Stopped, &["stopped", "new one"]);
    let spawn = StartError::Spawn {
        shard: 2,
        source: std::io::Error::other("no memory").into(),
    };
    says(spawn, &["shard 2", "no memory", "fewer shards"]);
    says(StartError::Forked, &["fork", "build a new one"]);
    says(StopError::Forked, &["fork", "stop it there"]);
    says(
        StopError::TimedOut { shards: 2 },
        &["2 shards", "call shutdown or stop again"],
    );
    says(
        TurnError::Failed { shard: 4 },
        &["shard 4", "build a new one"],
    );
    let failed = Kind::WorkerFailed {
        shard: 5,
        message: "boom".into(),
    };
    says(failed, &["shard 5", "boom", "stop the engine"]);
    says(
        StopError::InsideHandler,
        &["inside a handler", "another thread"],
    );
    says(TurnError::DrivenByWorkers, &["Drive::Manual"]);
    says(TurnError::InsideHandler, &["inside a handler", "return"]);
    says(TurnError::Stopped, &["stopped", "new one"]);
}

#[test]
fn a_schedule_error_gives_back_any_payload_and_shows_the_reason() {
    /// Neither `Debug` nor `Clone`.
    struct Opaque(u32);
    let start = StartError::Spawn {
        shard: 0,
        source: std::io::Error::from_raw_os_error(11).into(),
    };
    let error = ScheduleError::new(ScheduleErrorKind::Start(start.clone()), Opaque(7));
    assert_eq!(error.to_string(), start.to_string());
    assert_eq!(*error.kind(), ScheduleErrorKind::Start(start));
    assert!(format!("{error:?}").starts_with("ScheduleError { kind: Start(Spawn"));
    assert_eq!(error.payload().0, 7);
    let behind = error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(behind.and_then(std::io::Error::raw_os_error), Some(11));
    let (kind, payload) = error.into_parts();
    let mut error = ScheduleError::new(kind.clone(), payload);
    error.payload_mut().0 += 1;
    assert_eq!(error.into_payload().0, 8);
    let boxed: Box<dyn StdError + Send + Sync> = Box::new(ScheduleError::new(kind.clone(), 1_u8));
    assert_eq!(boxed.to_string(), kind.to_string());
    assert_eq!(
        ScheduleErrorKind::from(ScheduleError::new(kind.clone(), 1)),
        kind
    );
}
