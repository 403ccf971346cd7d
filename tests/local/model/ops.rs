//! What a random run consists of, and how often.

use proptest::prelude::*;

/// One call. `pick` chooses among all keys ever handed out, so stale ones are used as well.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Schedule {
        delay: u64,
    },
    ScheduleAt {
        ago: bool,
        by: u64,
    },
    Cancel {
        pick: usize,
    },
    Reschedule {
        pick: usize,
        delay: u64,
    },
    RescheduleAt {
        pick: usize,
        ago: bool,
        by: u64,
    },
    Change {
        pick: usize,
    },
    /// Time goes on, without a poll.
    Pass {
        nanos: u64,
    },
    Poll {
        budget: usize,
    },
    /// Polls at the very time that the timer asks for.
    PollNext,
    Clear,
    Drain {
        take: usize,
    },
}

/// Nanoseconds of every size that matters: within a tick, around ring spans, far away.
fn span() -> impl Strategy<Value = u64> {
    const MS: u64 = 1_000_000;
    prop_oneof![
        3 => 0..3 * MS,
        4 => (0..200_u64).prop_map(|ticks| ticks * MS),
        3 => 0..10_000 * MS,
        2 => (0..40_u32, 0..3_u64).prop_map(|(bit, off)| ((1_u64 << bit) + off).saturating_sub(1) * MS),
        1 => (0..64_u32, any::<u64>()).prop_map(|(shift, n)| n >> shift),
    ]
}

/// A mixed run; clearing is rare, or nothing else would be tested.
pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let pick = any::<usize>;
    prop::collection::vec(
        prop_oneof![
            30 => span().prop_map(|delay| Op::Schedule { delay }),
            5 => (any::<bool>(), span()).prop_map(|(ago, by)| Op::ScheduleAt { ago, by }),
            14 => pick().prop_map(|pick| Op::Cancel { pick }),
            14 => (pick(), span()).prop_map(|(pick, delay)| Op::Reschedule { pick, delay }),
            5 => (pick(), any::<bool>(), span())
                .prop_map(|(pick, ago, by)| Op::RescheduleAt { pick, ago, by }),
            3 => pick().prop_map(|pick| Op::Change { pick }),
            10 => (0..50_000_000_u64).prop_map(|nanos| Op::Pass { nanos }),
            3 => span().prop_map(|nanos| Op::Pass { nanos: nanos / 8 }),
            12 => prop_oneof![0..5_usize, Just(usize::MAX)].prop_map(|budget| Op::Poll { budget }),
            6 => Just(Op::PollNext),
            1 => prop_oneof![Just(Op::Clear), (0..3_usize).prop_map(|take| Op::Drain { take })],
        ],
        1..300,
    )
}
