//! The module shaped like `tokio::time`: each item used as tokio documents it; and limits as methods, and streams, in
//! virtual time.

use futures_core::stream::FusedStream as _;
use futures_lite::{Stream, StreamExt as _, stream};
use std::cell::Cell;
use std::future::{Future, Ready, pending, poll_fn, ready};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tickwheel::{Settings, Time};
use tickwheel_util::local::LocalSleeps;
use tickwheel_util::stream::{IntervalStream, StreamExt};
use tickwheel_util::time::{
    Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, error::Elapsed, interval,
    interval_at, sleep, sleep_until, timeout, timeout_at,
};
use tickwheel_util::{DelayQueue, FutureExt, test};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// As tokio's, so a loop of them leaves the processor to others.
#[test]
fn a_sleep_of_zero_waits() {
    const ROUNDS: u32 = 50;
    let rounds = async || {
        let start = std::time::Instant::now();
        for _ in 0..ROUNDS {
            sleep(Duration::ZERO).await;
        }
        start.elapsed()
    };
    // On the process's engine, and on that of a runtime.
    let took = smol::block_on(rounds());
    assert!(took >= (ROUNDS - 1) * MS / 2, "{took:?}");
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_time().build().unwrap();
    let took = runtime.block_on(rounds());
    assert!(took >= (ROUNDS - 1) * MS / 2, "{took:?}");
}

#[test]
fn sleeps_are_ready_when_their_time_has_come() {
    smol::block_on(async {
        let start = Instant::now();
        sleep(5 * MS).await;
        assert!(start.elapsed() >= 5 * MS);
        sleep_until(start).await;
        sleep(Duration::ZERO).await;

        let far = Instant::now() + HOUR;
        let mut sleep: Pin<&mut Sleep> = pin!(sleep_until(far));
        assert!(sleep.deadline() == far && !sleep.is_elapsed());
        assert!(
            sleep
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        let near = Instant::now() + 3 * MS;
        sleep.as_mut().reset(near);
        assert_eq!(sleep.deadline(), near);
        sleep.as_mut().await;
        assert!(Instant::now() >= near && sleep.is_elapsed());
    });
}

#[test]
fn a_delay_beyond_all_instants_is_a_sleep_without_an_end() {
    let mut sleep = pin!(sleep(Duration::MAX));
    assert!(
        sleep
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert!(sleep.deadline() > Instant::now() + Duration::from_secs(1 << 29));
}

#[test]
fn a_sleep_that_is_over_before_its_first_poll_is_ready_in_it() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let first_poll = async || {
        let mut sleep = pin!(sleep(MS));
        std::thread::sleep(2 * MS);
        poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_ready())).await
    };
    assert!(runtime.block_on(first_poll()), "on a runtime's engine");
    assert!(smol::block_on(first_poll()), "on the process's");
}

#[test]
fn timeouts_return_the_output_or_elapsed() {
    async fn body() -> io::Result<u8> {
        timeout(2 * MS, pending::<io::Result<u8>>()).await?
    }
    test::run(async {
        let answer: Timeout<Ready<u8>> = timeout(HOUR, ready(1));
        assert_eq!(answer.await, Ok(1));
        // The future is polled first, whatever the limit.
        assert_eq!(timeout(Duration::ZERO, ready(2)).await, Ok(2));
        assert_eq!(timeout_at(Instant::now() - MS, ready(3)).await, Ok(3));
        assert_eq!(
            timeout_at(Instant::now() + 2 * MS, pending::<()>()).await,
            Err(Elapsed)
        );
        assert_eq!(body().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(ready(4).timeout(HOUR).await, Ok(4));
        assert_eq!(ready(5).timeout_at(Instant::now()).await, Ok(5));
        let end = Instant::now() + HOUR;
        assert_eq!(pending::<()>().timeout_at(end).await, Err(Elapsed));
        assert_eq!(Instant::now(), end);
        assert_eq!(pending::<()>().timeout(2 * MS).await, Err(Elapsed));
    });
}

#[test]
fn an_interval_ticks_at_once_and_then_once_per_period() {
    smol::block_on(async {
        let mut beat: Interval = interval(4 * MS);
        assert_eq!(beat.period(), 4 * MS);
        let first = beat.tick().await;
        for n in 1..4 {
            let due = beat.tick().await;
            assert!(due >= first + n * 4 * MS && Instant::now() >= due);
        }
        let start = Instant::now() + 6 * MS;
        let mut later = interval_at(start, 5000 * MS);
        assert_eq!(later.tick().await, start);
        later.reset_immediately();
        assert!(later.tick().await < start + 5000 * MS);
        let now = Instant::now();
        later.reset_after(3 * MS);
        let due = later.tick().await;
        assert!(due >= now + 3 * MS && due < now + 5000 * MS);
        later.reset_at(start);
        assert_eq!(later.tick().await, start);
        let mut short = interval_at(start, 5 * MS);
        let now = Instant::now();
        short.reset();
        assert!(short.tick().await >= now + 5 * MS);
    });
}

#[test]
fn missed_ticks_are_made_up_delayed_or_skipped() {
    for (behavior, next) in [
        (MissedTickBehavior::Burst, 40 * MS),
        (MissedTickBehavior::Delay, 90 * MS),
        (MissedTickBehavior::Skip, 80 * MS),
    ] {
        test::run(async {
            let mut beat = interval(20 * MS);
            assert_eq!(beat.missed_tick_behavior(), MissedTickBehavior::Burst);
            beat.set_missed_tick_behavior(behavior);
            let first = beat.tick().await;
            // Three periods and a half.
            sleep(70 * MS).await;
            assert_eq!(beat.tick().await, first + 20 * MS);
            assert_eq!(beat.tick().await, first + next, "{behavior:?}");
        });
    }
}

#[test]
#[should_panic = "non-zero"]
fn an_interval_of_zero_panics() {
    drop(interval(Duration::ZERO));
}

/// Makes a stream in virtual time; returns its items, each with the milliseconds after which it came.
fn timed<S: Stream>(make: impl FnOnce() -> S) -> Vec<(u128, S::Item)> {
    let passed = || (test::now() - Time::ZERO).as_millis();
    test::run(async { make().map(|item| (passed(), item)).collect().await })
}

/// Items that are there, and a last one after 20 ms.
fn items(first: impl IntoIterator<Item = u8>, last: u8) -> impl Stream<Item = u8> {
    stream::iter(first).chain(stream::once_future(async move {
        tickwheel::sleep(20 * MS).await;
        last
    }))
}

#[test]
fn a_pause_of_a_stream_is_told_once() {
    let told = timed(|| StreamExt::timeout(items([1], 2).chain(items([], 3)), 5 * MS));
    let late = Err(Elapsed);
    assert_eq!(
        told,
        [(0, Ok(1)), (5, late), (20, Ok(2)), (25, late), (40, Ok(3))]
    );
}

/// Ends at once, and then says `after` if it is polled again.
fn ended(after: fn() -> Poll<Option<u8>>) -> impl Stream<Item = u8> + Unpin {
    let mut has_ended = false;
    stream::poll_fn(move |_| {
        if std::mem::replace(&mut has_ended, true) {
            after()
        } else {
            Poll::Ready(None)
        }
    })
}

#[test]
fn a_limited_stream_that_has_ended_stays_so() {
    for after in [|| Poll::Pending, || panic!("polled after its end")] {
        test::run(async move {
            let mut limited = StreamExt::timeout(ended(after), MS);
            assert_eq!([limited.next().await, limited.next().await], [None, None]);
            assert_eq!(limited.size_hint(), (0, Some(0)));
            let mut limited = ended(after).timeout_repeating(interval(MS));
            assert_eq!([limited.next().await, limited.next().await], [None, None]);
            assert_eq!(limited.size_hint(), (0, Some(0)));
        });
        let sleeps = LocalSleeps::new(Settings::new()).unwrap();
        let mut limited = ended(after).timeout_on(&sleeps, Duration::ZERO);
        smol::block_on(async {
            assert_eq!([limited.next().await, limited.next().await], [None, None]);
            assert_eq!(limited.size_hint(), (0, Some(0)));
        });
    }
}

#[test]
fn a_throttled_stream_pauses_between_items() {
    let slow = timed(|| items([1, 2, 3], 4).throttle(5 * MS));
    assert_eq!(slow, [(0, 1), (5, 2), (10, 3), (35, 4)]);
}

#[test]
fn chunks_end_when_they_are_full_late_or_last() {
    let parts = || items(0..5, 5).chain(items([], 6));
    let chunks = timed(|| parts().chunks_timeout(3, 8 * MS));
    assert_eq!(
        chunks,
        [
            (0, vec![0, 1, 2]),
            (8, vec![3, 4]),
            (28, vec![5]),
            (40, vec![6])
        ]
    );
    // The limit counts from the first item of a list, and not from the last.
    let spaced = || items([], 0).chain(items([], 1)).chain(items([], 2));
    let chunks = timed(|| spaced().chunks_timeout(9, 30 * MS));
    assert_eq!(chunks, [(50, vec![0, 1]), (60, vec![2])]);
    let all = timed(|| parts().chunks_timeout(usize::MAX, HOUR));
    assert_eq!(all, [(40, (0..7).collect())]);
    let long = timed(|| stream::iter(0..1000).chunks_timeout(300, HOUR));
    let lengths: Vec<_> = long.iter().map(|(_, list)| list.len()).collect();
    assert_eq!(lengths, [300, 300, 300, 100]);
}

#[test]
#[should_panic = "one item at least"]
fn chunks_of_nothing_panic() {
    drop(stream::empty::<u8>().chunks_timeout(0, MS));
}

#[test]
fn queues_and_intervals_are_streams() {
    let due = timed(|| {
        let mut queue = DelayQueue::new();
        for number in [3, 1, 2] {
            queue.insert(number, 4 * MS * number);
        }
        queue.map(|due| due.unwrap().payload)
    });
    assert_eq!(due, [(4, 1), (8, 2), (12, 3)]);
    assert_eq!(
        IntervalStream::new(interval(MS)).size_hint(),
        (usize::MAX, None)
    );
    let beats = timed(|| IntervalStream::new(tickwheel::interval(3 * MS)).take(3));
    assert_eq!(
        beats,
        [(0, 0), (3, 3), (6, 6)].map(|(ms, due)| (ms, Time::ZERO + due * MS))
    );
    let beats = timed(|| {
        let start = Instant::now();
        let mut beats = IntervalStream::new(interval(3 * MS));
        beats.as_mut().reset();
        assert_eq!(beats.as_ref().period(), 3 * MS);
        assert!(!beats.is_terminated());
        beats.map(move |due| due - start).take(2)
    });
    assert_eq!(beats, [(3, 3 * MS), (6, 6 * MS)]);
}

#[test]
fn an_error_repeats_while_a_stream_pauses() {
    let late = Err(Elapsed);
    let told = timed(|| {
        items([1], 2)
            .chain(items([], 3))
            .timeout_repeating(interval(8 * MS))
    });
    let expected = [
        (0, Ok(1)),
        (8, late),
        (16, late),
        (20, Ok(2)),
        (28, late),
        (36, late),
        (40, Ok(3)),
    ];
    assert_eq!(told, expected);
}

#[test]
fn lists_of_a_stream_that_never_pauses_come_in_time() {
    smol::block_on(async {
        let polls = Cell::new(0_u64);
        let start = Instant::now();
        let endless = stream::repeat(7).chunks_timeout(usize::MAX, 5 * MS);
        let mut endless = pin!(endless);
        let first = poll_fn(|cx| {
            polls.set(polls.get() + 1);
            endless.as_mut().poll_next(cx)
        });
        let first = first.await.unwrap();
        assert!(start.elapsed() >= 5 * MS);
        // One poll takes so many at most: other tasks run in between.
        assert!(first.len() as u64 <= 64 * polls.get());
        assert_eq!(endless.into_remainder(), []);
    });
}

/// A tick that is set is exact; only those that follow the period may be late.
#[test]
fn a_tick_that_is_set_has_no_slack() {
    type Set = fn(&mut Interval);
    let sets: [(Set, Duration); 4] = [
        (Interval::reset_immediately, Duration::ZERO),
        (|beat| beat.reset_after(201 * MS), 201 * MS),
        (|beat| beat.reset_at(Instant::now() + 33 * MS), 33 * MS),
        (Interval::reset, HOUR),
    ];
    test::run(async {
        let mut beat = interval(HOUR);
        beat.set_slack(HOUR / 2);
        beat.tick().await;
        for (set, after) in sets {
            sleep(777 * MS).await;
            let start = Instant::now();
            set(&mut beat);
            assert_eq!(beat.tick().await, start + after);
            assert!(start.elapsed() <= after + MS, "{:?}", start.elapsed());
        }
    });
}

#[test]
fn a_stale_key_panics_where_it_is_used() {
    use tickwheel_util::time::DelayQueue;
    let at = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = std::sync::Arc::clone(&at);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        noted
            .lock()
            .unwrap()
            .push(panic.location().unwrap().file().to_owned());
        before(panic);
    }));
    let uses: [fn(&mut DelayQueue<()>, &tickwheel_util::time::delay_queue::Key); 4] = [
        |queue, key| _ = queue.remove(key),
        |queue, key| _ = queue.deadline(key),
        |queue, key| queue.reset(key, MS),
        |queue, key| queue.reset_at(key, Instant::now()),
    ];
    for use_key in uses {
        let mut queue = DelayQueue::new();
        let key = queue.insert((), HOUR);
        queue.remove(&key);
        let used = std::panic::AssertUnwindSafe(|| use_key(&mut queue, &key));
        assert!(std::panic::catch_unwind(used).is_err());
    }
    let _ = std::panic::take_hook();
    let at = at.lock().unwrap();
    assert!(
        at.iter()
            .filter(|file| file.ends_with("tests/time.rs"))
            .count()
            >= 4,
        "{at:?}"
    );
    assert!(
        !at.iter()
            .any(|file| file.contains("src/time/delay_queue.rs")),
        "{at:?}"
    );
}
