//! The module shaped like `tokio::time`: each item used as tokio documents it; and limits as methods.

use std::future::{Future, pending, ready};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use tickwheel_util::FutureExt;
use tickwheel_util::time::{
    self, Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, error::Elapsed,
    interval, interval_at, sleep, sleep_until, timeout, timeout_at,
};

const MS: Duration = Duration::from_millis(1);

/// Holds the types of a program that names them.
struct Connection {
    idle: Pin<Box<Sleep>>,
    beat: Interval,
    answer: Option<Timeout<std::future::Ready<u8>>>,
}

#[test]
fn sleeps_are_ready_when_their_time_has_come() {
    smol::block_on(async {
        let start = Instant::now();
        sleep(5 * MS).await;
        assert!(start.elapsed() >= 5 * MS);
        let deadline = Instant::now() + 5 * MS;
        sleep_until(deadline).await;
        assert!(Instant::now() >= deadline);
        sleep_until(start).await;
        sleep(Duration::ZERO).await;
    });
}

#[test]
fn a_sleep_that_is_reset_keeps_its_task() {
    smol::block_on(async {
        let far = Instant::now() + Duration::from_secs(3600);
        let mut sleep = pin!(sleep_until(far));
        assert!(sleep.deadline() == far && !sleep.is_elapsed());
        assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
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
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(sleep.deadline() > Instant::now() + Duration::from_secs(1 << 29));
}

#[test]
fn timeouts_return_the_output_or_elapsed() {
    async fn body() -> io::Result<u8> {
        timeout(2 * MS, pending::<io::Result<u8>>()).await?
    }
    smol::block_on(async {
        assert_eq!(timeout(Duration::from_secs(60), ready(1)).await, Ok(1));
        // The future is polled first, whatever the limit.
        assert_eq!(timeout(Duration::ZERO, ready(2)).await, Ok(2));
        assert_eq!(timeout_at(Instant::now() - MS, ready(3)).await, Ok(3));
        let late: Result<(), Elapsed> = timeout_at(Instant::now() + 2 * MS, pending()).await;
        assert!(late.is_err());
        assert_eq!(body().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(ready(4).timeout(Duration::from_secs(60)).await, Ok(4));
        assert!(pending::<()>().timeout(2 * MS).await.is_err());
    });
}

#[test]
fn an_interval_ticks_at_once_and_then_once_per_period() {
    smol::block_on(async {
        let mut beat = interval(4 * MS);
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
    smol::block_on(async {
        for behavior in
            [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip]
        {
            let mut beat = interval(20 * MS);
            assert_eq!(beat.missed_tick_behavior(), MissedTickBehavior::Burst);
            beat.set_missed_tick_behavior(behavior);
            let first = beat.tick().await;
            // Three periods and a half.
            std::thread::sleep(70 * MS);
            assert_eq!(beat.tick().await, first + 20 * MS);
            let handled = Instant::now();
            let next = beat.tick().await;
            match behavior {
                MissedTickBehavior::Burst => assert_eq!(next, first + 40 * MS),
                MissedTickBehavior::Delay => {
                    assert!(next >= first + 90 * MS && next <= handled + 20 * MS)
                }
                MissedTickBehavior::Skip => {
                    assert!(next >= first + 80 * MS);
                    assert_eq!((next - first).as_nanos() % (20 * MS).as_nanos(), 0);
                }
            }
        }
    });
}

#[cfg(feature = "test-util")]
#[test]
fn virtual_time_reaches_all_of_them() {
    use tickwheel_util::test;
    let begun = Instant::now();
    test::run(async {
        let start = test::now();
        sleep(Duration::from_secs(60)).await;
        let mut beat = interval(Duration::from_secs(60));
        let first = beat.tick().await;
        for n in 1..4 {
            assert_eq!(beat.tick().await - first, n * Duration::from_secs(60));
        }
        assert!(timeout(Duration::from_secs(60), pending::<()>()).await.is_err());
        let passed = test::now() - start;
        assert!(passed >= Duration::from_secs(300) && passed < Duration::from_secs(301));
    });
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
#[should_panic = "non-zero"]
fn an_interval_of_zero_panics() {
    drop(interval(Duration::ZERO));
}

#[test]
fn a_struct_can_hold_each_of_them() {
    smol::block_on(async {
        let mut connection = Connection {
            idle: Box::pin(time::sleep(Duration::from_secs(60))),
            beat: time::interval(MS),
            answer: Some(time::timeout(MS, ready(1))),
        };
        connection.idle.as_mut().reset(Instant::now() + MS);
        connection.idle.as_mut().await;
        connection.beat.tick().await;
        assert_eq!(connection.answer.take().unwrap().await, Ok(1));
    });
}

#[cfg(feature = "stream")]
mod streams {
    use super::*;
    use futures_lite::{StreamExt as _, stream};
    use std::cell::Cell;
    use std::task::Poll;
    use tickwheel_util::StreamExt;

    /// A stream of one item that comes when it is let go, and at a poll.
    fn held_back(item: u8, released: &Cell<bool>) -> impl futures_lite::Stream<Item = u8> {
        stream::once_future(std::future::poll_fn(move |_| match released.get() {
            true => Poll::Ready(item),
            false => Poll::Pending,
        }))
    }

    #[test]
    fn a_pause_of_a_stream_is_told_once() {
        let released = Cell::new(false);
        smol::block_on(async {
            let items = stream::iter([1, 2]).chain(held_back(3, &released));
            let mut limited = pin!(StreamExt::timeout(items, 5 * MS));
            assert_eq!(limited.next().await, Some(Ok(1)));
            assert_eq!(limited.next().await, Some(Ok(2)));
            assert!(limited.next().await.unwrap().is_err());
            let again = timeout(20 * MS, limited.next()).await;
            assert!(again.is_err(), "one error per pause");
            released.set(true);
            assert_eq!(limited.next().await, Some(Ok(3)));
            assert_eq!(limited.next().await, None);
        });
    }

    #[test]
    fn a_throttled_stream_pauses_between_items() {
        smol::block_on(async {
            let start = Instant::now();
            let mut slow = pin!(stream::iter(0..4).throttle(5 * MS));
            assert_eq!(slow.next().await, Some(0));
            let items: Vec<i32> = slow.collect().await;
            assert_eq!(items, [1, 2, 3]);
            assert!(start.elapsed() >= 15 * MS);
        });
    }

    #[test]
    fn chunks_end_when_they_are_full_late_or_last() {
        let released = Cell::new(false);
        smol::block_on(async {
            let items = stream::iter(0..5).chain(held_back(5, &released));
            let mut chunks = pin!(items.chunks_timeout(3, 8 * MS));
            assert_eq!(chunks.next().await, Some(vec![0, 1, 2]), "full");
            assert_eq!(chunks.next().await, Some(vec![3, 4]), "late");
            released.set(true);
            assert_eq!(chunks.next().await, Some(vec![5]), "last");
            assert_eq!(chunks.next().await, None);
            let all = stream::iter(0..9).chunks_timeout(usize::MAX, MS).count();
            assert_eq!(all.await, 1);
        });
    }

    #[test]
    #[should_panic = "one item at least"]
    fn chunks_of_nothing_panic() {
        drop(stream::empty::<u8>().chunks_timeout(0, MS));
    }
}
