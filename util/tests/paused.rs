//! Time that a test holds still on tokio: `pause`, `advance`, `resume`, and jumps when nothing is ready.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tickwheel_util::stream::StreamExt;
use tickwheel_util::time::{
    self, DelayQueue, Duration, Instant, advance, interval, pause, resume, sleep, sleep_until,
    timeout,
};
use tickwheel_util::{FutureExt, HyperTimer, QuinnRuntime, test};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// What a cache does with a time to live.
struct Fresh {
    until: Instant,
}

impl Fresh {
    fn is_stale(&self) -> bool {
        Instant::now() >= self.until
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_is_stale_after_an_hour() {
    let entry = Fresh {
        until: Instant::now() + HOUR,
    };
    sleep(HOUR - MS).await; // takes no time
    assert!(!entry.is_stale());
    time::advance(MS).await;
    assert!(entry.is_stale());
}

#[tokio::test]
async fn the_same_after_a_pause() {
    let real = std::time::Instant::now();
    let before = Instant::now();
    sleep(2 * MS).await;
    pause();
    let start = Instant::now();
    assert!(start >= before + 2 * MS);
    std::thread::sleep(2 * MS);
    assert_eq!(Instant::now(), start);
    sleep(HOUR).await;
    assert_eq!(start.elapsed(), HOUR);
    assert_eq!(
        timeout(HOUR, pending::<()>()).await,
        Err(time::error::Elapsed)
    );
    assert_eq!(start.elapsed(), 2 * HOUR);
    resume();
    let resumed = Instant::now();
    sleep(3 * MS).await;
    assert!(resumed.elapsed() >= 3 * MS && start.elapsed() >= 2 * HOUR + 3 * MS);
    assert!(real.elapsed() < HOUR);
}

/// All that has a limit of time.
async fn times() -> Vec<Duration> {
    let start = Instant::now();
    let mut seed = 1_u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Duration::from_nanos(seed >> 34)
    };
    let mut times = Vec::new();
    let mut queue = DelayQueue::new();
    let mut beat = interval(7 * SEC);
    beat.tick().await;
    for _ in 0..300 {
        sleep(random()).await;
        times.push(start.elapsed());
        let end = Instant::now() + random();
        assert!(pending::<()>().timeout_at(end).await.is_err());
        assert!(Instant::now() >= end && Instant::now() <= end + MS + MS / 1000);
        advance(random()).await;
        let due = beat.tick().await;
        assert!(due.elapsed() < 8 * SEC);
        sleep_until(Instant::now() + 50 * MS).await;
        times.push(start.elapsed());
        queue.insert("item", random());
        std::future::poll_fn(|cx| queue.poll_expired(cx)).await;
        times.push(start.elapsed());
    }
    times
}

#[test]
fn each_run_sees_the_same_times_to_the_nanosecond() {
    let run = |start_paused| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(start_paused).build();
        runtime.unwrap().block_on(async {
            if !start_paused {
                sleep(2 * MS).await; // of the machine's time
                pause();
            }
            times().await
        })
    };
    assert_eq!(run(true), run(true));
    assert_eq!(run(false), run(false));
}

/// Sleeps of this crate and of tokio share one time, and time does not jump over either.
#[tokio::test(start_paused = true)]
async fn deadlines_of_both_crates_come_in_order() {
    let (sender, mut order) = mpsc::unbounded_channel();
    for n in [5_u64, 1, 4] {
        let sender = sender.clone();
        tokio::spawn(async move {
            sleep(Duration::from_secs(n)).await;
            sender.send(n).unwrap();
        });
    }
    for n in [6, 2, 3] {
        let sender = sender.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(n)).await;
            sender.send(n).unwrap();
        });
    }
    drop(sender);
    let start = Instant::now();
    for n in 1..=6 {
        assert_eq!(order.recv().await, Some(n));
        assert_eq!(start.elapsed().as_secs(), n);
    }
    assert!(start.elapsed() < 6 * SEC + 6 * MS);
}

#[tokio::test(start_paused = true)]
async fn time_stands_while_tasks_are_busy() {
    let (ask, mut questions) = mpsc::channel(1);
    let (answer, mut answers) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(n) = questions.recv().await {
            answer.send(n).await.unwrap();
        }
    });
    let start = Instant::now();
    let asker = tokio::spawn(async move {
        for n in 0..5000 {
            ask.send(n).await.unwrap();
            assert_eq!(answers.recv().timeout(5 * SEC).await, Ok(Some(n)));
        }
    });
    asker.await.unwrap();
    let blocking = tokio::task::spawn_blocking(|| std::thread::sleep(5 * MS));
    blocking.timeout(HOUR).await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn an_advance_wakes_what_is_due() {
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut sleep = pin!(sleep(MS));
    assert!(sleep.as_mut().poll(&mut cx).is_pending());
    advance(MS - Duration::from_nanos(1)).await;
    assert!(!woken.0.load(Ordering::SeqCst) && sleep.as_mut().poll(&mut cx).is_pending());
    advance(Duration::from_nanos(1)).await;
    assert!(woken.0.load(Ordering::SeqCst));
    assert_eq!(sleep.as_mut().poll(&mut cx), Poll::Ready(()));
}

/// Moves time when it is called.
struct Advances(Woken);

impl Wake for Advances {
    fn wake(self: Arc<Self>) {
        let polled = pin!(advance(MS)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "it yields once");
        self.0.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_waker_of_a_test_clock_may_advance_it() {
    let woken = Arc::new(Advances(Woken::default()));
    let waker = Waker::from(Arc::clone(&woken));
    test::run(async move {
        let start = Instant::now();
        let mut by_waker = pin!(sleep(MS));
        let mut cx = Context::from_waker(&waker);
        assert!(by_waker.as_mut().poll(&mut cx).is_pending());
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR, "1 ms of it by the waker");
    });
    assert!(woken.0.0.load(Ordering::SeqCst));
}

/// Sleeps on another runtime when it is called.
struct Elsewhere(Runtime, Woken);

impl Wake for Elsewhere {
    fn wake(self: Arc<Self>) {
        let _inside = self.0.enter();
        drop(sleep(HOUR));
        self.1.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn an_advance_may_call_wakers_that_sleep_elsewhere() {
    let other = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let woken = Arc::new(Elsewhere(other, Woken::default()));
    let waker = Waker::from(Arc::clone(&woken));
    let mut builder = Builder::new_current_thread();
    let here = builder.enable_time().start_paused(true).build().unwrap();
    here.block_on(async {
        let mut sleep = pin!(sleep(MS));
        assert!(
            sleep
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        advance(MS).await;
    });
    assert!(woken.1.0.load(Ordering::SeqCst));
}

#[test]
fn a_test_clock_can_be_advanced_and_not_paused() {
    test::run(async {
        let start = Instant::now();
        let sleep = pin!(sleep(HOUR));
        let mut both = pin!(sleep.timeout(2 * HOUR));
        assert!(
            futures_lite::future::poll_once(both.as_mut())
                .await
                .is_none()
        );
        advance(HOUR).await;
        assert_eq!(futures_lite::future::poll_once(both).await, Some(Ok(())));
        assert_eq!(start.elapsed(), HOUR);
        assert!(std::panic::catch_unwind(pause).is_err());
        assert!(std::panic::catch_unwind(resume).is_err());
    });
}

#[tokio::test]
#[should_panic = "not frozen"]
async fn time_that_does_not_stand_is_not_advanced() {
    advance(MS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[should_panic = "current_thread"]
async fn the_time_of_several_threads_does_not_stand() {
    pause();
}

#[test]
#[should_panic = "enable_time"]
fn time_stands_only_with_a_driver_of_time() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.build().unwrap().block_on(async { pause() });
}

#[test]
fn a_runtime_that_stood_leaves_nothing_behind() {
    for _ in 0..20 {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        let mut sleep = Box::pin(sleep(Duration::ZERO));
        runtime.block_on(async {
            sleep = Box::pin(time::sleep(3 * MS));
            assert!(
                futures_lite::future::poll_once(sleep.as_mut())
                    .await
                    .is_none()
            );
        });
        drop(runtime);
        // It goes on in the machine's time, on the shared engine.
        futures_lite::future::block_on(sleep);
        let now = std::time::Instant::now();
        assert!(Instant::now().into_std() - now < HOUR);
    }
}

#[tokio::test(start_paused = true)]
async fn lists_and_limits_of_streams_see_it_too() {
    let start = Instant::now();
    let items = futures_lite::stream::pending::<u8>().timeout_repeating(interval(HOUR));
    let mut items = pin!(items);
    for n in 0..3 {
        assert!(
            futures_lite::StreamExt::next(&mut items)
                .await
                .unwrap()
                .is_err()
        );
        assert_eq!(start.elapsed(), n * HOUR);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_hyper_sees_it_too() {
    let timer = HyperTimer::new();
    let start = hyper::rt::Timer::now(&timer);
    let mut sleep = hyper::rt::Timer::sleep_until(&timer, start + 2 * HOUR);
    hyper::rt::Timer::reset(&timer, &mut sleep, start + HOUR);
    sleep.await;
    assert_eq!(hyper::rt::Timer::now(&timer), start + HOUR);
}

#[tokio::test(start_paused = true)]
async fn a_clock_of_quinn_sees_it_too() {
    let runtime = QuinnRuntime::new(quinn::TokioRuntime);
    let start = quinn::Runtime::now(&runtime);
    let mut timer = quinn::Runtime::new_timer(&runtime, start + 2 * HOUR);
    timer.as_mut().reset(start + HOUR);
    poll_fn(|cx| timer.as_mut().poll(cx)).await;
    assert_eq!(quinn::Runtime::now(&runtime), start + HOUR);
}

/// Asks for the time when it is dropped.
struct Asks;

impl Drop for Asks {
    fn drop(&mut self) {
        drop((Instant::now(), sleep(MS)));
    }
}

/// A panic there would end the process.
#[test]
fn a_thread_local_that_outlives_tokios_may_ask_for_the_time() {
    thread_local!(static LATE: Cell<Option<Asks>> = const { Cell::new(None) });
    let mut paused = Builder::new_current_thread();
    drop(paused.enable_time().start_paused(true).build());
    let thread = std::thread::spawn(|| {
        LATE.set(Some(Asks));
        // tokio's are made later, and so they end earlier.
        drop(Asks);
    });
    thread.join().unwrap();
}

#[test]
fn the_page_about_tokio_shows_a_test_of_this_file() {
    let name = "async fn an_entry_is_stale_after_an_hour";
    let (page, this) = (
        include_str!("../../docs/TOKIO.md"),
        include_str!("paused.rs"),
    );
    let shown = page.split("```").find(|part| part.contains(name)).unwrap();
    let shown = &shown[shown.find("/// What a cache").unwrap()..];
    assert!(this.contains(shown.trim()), "not in this file:\n{shown}");
}

fn stands() -> Runtime {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    runtime.unwrap()
}

/// Ticks of a time that stands begin where it began, at any nanosecond of a tick of another one.
#[test]
fn what_waits_in_one_time_that_stands_may_be_moved_in_another_one() {
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..50 {
        let (there, here) = (stands(), stands());
        let inside = there.enter();
        let start = Instant::now();
        let end = start + 2 * MS;
        let mut sleep = pin!(sleep(MS));
        assert!(sleep.as_mut().poll(&mut cx).is_pending());
        here.block_on(async { sleep.as_mut().reset(end) });
        there.block_on(sleep);
        assert_eq!(start.elapsed(), 2 * MS, "a sleep");

        let mut beat = interval(HOUR);
        assert!(beat.poll_tick(&mut cx).is_ready());
        here.block_on(async { beat.reset_at(end + 2 * MS) });
        there.block_on(beat.tick());
        assert_eq!(start.elapsed(), 4 * MS, "an interval");

        let mut queue = DelayQueue::new();
        let key = queue.insert("item", HOUR);
        here.block_on(async { queue.reset_at(&key, end + 4 * MS) });
        here.block_on(async { queue.insert_at("second", end + 6 * MS) });
        for due in [6 * MS, 8 * MS] {
            let polled = there.block_on(poll_fn(|cx| queue.poll_expired(cx)));
            assert_eq!(start.elapsed(), due, "a queue");
            // It is a point of that time wherever it is asked for.
            assert_eq!(polled.unwrap().deadline(), start + due);
        }

        let timer = HyperTimer::new();
        let mut sleep = hyper::rt::Timer::sleep(&timer, HOUR);
        let end = (start + 10 * MS).into_std();
        here.block_on(async { hyper::rt::Timer::reset(&timer, &mut sleep, end) });
        there.block_on(sleep);
        assert_eq!(start.elapsed(), 10 * MS, "a timer of hyper");

        let quinn = QuinnRuntime::new(quinn::TokioRuntime);
        let mut timer = quinn::Runtime::new_timer(&quinn, (start + HOUR).into_std());
        here.block_on(async { timer.as_mut().reset((start + 12 * MS).into_std()) });
        there.block_on(poll_fn(|cx| timer.as_mut().poll(cx)));
        assert_eq!(start.elapsed(), 12 * MS, "a timer of quinn");
        drop(inside);
    }
}

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Everything that waits for `duration`, polled once.
fn assert_waits(duration: Duration) {
    let mut cx = Context::from_waker(Waker::noop());
    let what = format!("{duration:?} at {:?}", Instant::now());
    assert!(pin!(sleep(duration)).poll(&mut cx).is_pending(), "{what}");
    let mut again = pin!(sleep(HOUR));
    if let Some(end) = Instant::now().checked_add(duration) {
        again.as_mut().reset(end);
        assert!(again.poll(&mut cx).is_pending(), "{what}");
        assert!(pin!(sleep_until(end)).poll(&mut cx).is_pending(), "{what}");
    }
    let late = pin!(timeout(duration, pending::<()>()));
    assert!(late.poll(&mut cx).is_pending(), "{what}");
    let mut beat = interval(duration);
    beat.reset();
    assert!(beat.poll_tick(&mut cx).is_pending(), "{what}");
    let mut queue = DelayQueue::new();
    queue.insert((), duration);
    assert!(queue.poll_expired(&mut cx).is_pending(), "{what}");
}

/// Sleeps and ticks without an end, beside a time that comes: 40 years later each.
async fn assert_no_end() {
    let limit = 40 * YEAR;
    assert!(timeout(limit, sleep(Duration::MAX)).await.is_err());
    let mut beat = interval(Duration::MAX);
    beat.tick().await;
    assert!(timeout(limit, beat.tick()).await.is_err());
    beat.reset();
    assert!(timeout(limit, beat.tick()).await.is_err());
}

/// Time ends after 584 years; tokio's goes on.
async fn end_of_time() {
    // It does not jump there, or anywhere: these wait for ever.
    for far in [600 * YEAR, 30_000 * YEAR, Duration::MAX] {
        assert_waits(far);
        let before = Instant::now();
        let task = tokio::spawn(async move { sleep(far).await });
        sleep(SEC).await;
        assert_eq!(before.elapsed(), SEC);
        assert!(!task.is_finished());
        task.abort();
    }
    assert_no_end().await;
    advance(380 * YEAR).await;
    let before = Instant::now();
    sleep(MS).await;
    assert_eq!(before.elapsed(), MS, "it goes on");
    for n in [85, 1, 100, 10_000, 30_000] {
        advance(n * YEAR).await;
        for wait in [MS, HOUR, 600 * YEAR, Duration::MAX] {
            assert_waits(wait);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn beyond_the_end_of_time_everything_waits() {
    end_of_time().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_time_may_come_before_the_first_sleep() {
    advance(585 * YEAR).await;
    assert_waits(MS);
    advance(30_000 * YEAR).await;
    assert_waits(Duration::MAX);
}

#[tokio::test]
async fn the_end_of_time_may_come_after_a_pause() {
    sleep(MS).await;
    pause();
    end_of_time().await;
}

#[test]
fn a_test_clock_has_the_same_end_of_time() {
    test::run(async {
        for far in [600 * YEAR, Duration::MAX] {
            assert_waits(far);
            let before = Instant::now();
            let mut far = pin!(sleep(far));
            let polled = poll_fn(|cx| Poll::Ready(far.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
            sleep(SEC).await;
            assert_eq!(before.elapsed(), SEC);
        }
        assert_no_end().await;
        for n in [380, 85, 30_000] {
            advance(n * YEAR).await;
        }
        assert_waits(MS);
    });
}

/// Waits for a thread: meanwhile time jumps wherever something asks for it.
async fn wait_for_a_thread() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(20 * MS);
        tell.send(()).unwrap();
    });
    told.await.unwrap();
    thread.join().unwrap();
}

/// Waits for a sleep at first, then drops it.
async fn give_up(sleep: impl Future) {
    let mut sleep = pin!(sleep);
    let mut ready = pin!(tokio::task::yield_now());
    poll_fn(|cx| {
        assert!(sleep.as_mut().poll(cx).is_pending());
        ready.as_mut().poll(cx)
    })
    .await;
}

type Waits = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Everything that waits for an hour, as a future that does not end before.
fn waits_for_an_hour() -> Vec<(&'static str, Waits)> {
    vec![
        ("a sleep", Box::pin(sleep(HOUR))),
        (
            "a sleep that was moved",
            Box::pin(async {
                let mut sleep = pin!(sleep(2 * HOUR));
                assert!(
                    futures_lite::future::poll_once(sleep.as_mut())
                        .await
                        .is_none()
                );
                sleep.as_mut().reset(Instant::now() + HOUR);
                sleep.await;
            }),
        ),
        (
            "a timeout",
            Box::pin(async {
                timeout(HOUR, pending::<()>()).await.unwrap_err();
            }),
        ),
        (
            "an interval",
            Box::pin(async {
                let mut beat = interval(HOUR);
                beat.tick().await;
                beat.tick().await;
            }),
        ),
        (
            "a queue",
            Box::pin(async {
                let mut queue = DelayQueue::new();
                queue.insert("item", HOUR);
                poll_fn(|cx| queue.poll_expired(cx)).await;
            }),
        ),
        (
            "a timer of hyper",
            Box::pin(async {
                hyper::rt::Timer::sleep(&HyperTimer::new(), HOUR).await;
            }),
        ),
        (
            "a timer of quinn",
            Box::pin(async {
                let quinn = QuinnRuntime::new(quinn::TokioRuntime);
                let end = quinn::Runtime::now(&quinn) + HOUR;
                let mut timer = quinn::Runtime::new_timer(&quinn, end);
                poll_fn(|cx| timer.as_mut().poll(cx)).await;
            }),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn time_stands_after_a_timeout_was_dropped_as_tokios_does() {
    for seconds in [0, 1] {
        let start = Instant::now();
        give_up(tokio::time::sleep(HOUR)).await;
        tokio::time::sleep(seconds * SEC).await;
        wait_for_a_thread().await;
        assert_eq!(start.elapsed(), seconds * SEC, "tokio's");
    }
    time_stands_after_a_timeout_was_dropped().await;
}

async fn time_stands_after_a_timeout_was_dropped() {
    for (name, waits) in waits_for_an_hour() {
        let start = Instant::now();
        give_up(waits).await;
        wait_for_a_thread().await;
        sleep(SEC).await;
        wait_for_a_thread().await;
        assert_eq!(start.elapsed(), SEC, "{name}");
    }
    let start = Instant::now();
    let mut queue = DelayQueue::new();
    let key = queue.insert("item", HOUR);
    give_up(poll_fn(|cx| queue.poll_expired(cx))).await;
    queue.remove(&key);
    wait_for_a_thread().await;
    assert_eq!(
        start.elapsed(),
        Duration::ZERO,
        "an item that was taken out"
    );
    // By another thread, while this one waits.
    for (name, mut waits) in waits_for_an_hour() {
        let start = Instant::now();
        poll_fn(|cx| {
            assert!(waits.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        let thread = std::thread::spawn(|| drop(waits));
        thread.join().unwrap();
        wait_for_a_thread().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "{name}, by a thread");
    }
}

#[test]
fn the_time_of_a_test_clock_stands_as_well() {
    test::run(time_stands_after_a_timeout_was_dropped());
    let mut builder = Builder::new_current_thread();
    let runtime = builder.build().unwrap();
    runtime.block_on(test::paused(time_stands_after_a_timeout_was_dropped()));
}

/// Their memory is spare then, and goes back when time has moved by a second.
#[tokio::test(start_paused = true)]
async fn time_stands_after_a_burst() {
    burst_and_wait().await;
}

#[test]
fn the_time_of_a_test_clock_stands_after_a_burst() {
    test::run(burst_and_wait());
}

async fn burst_and_wait() {
    const BURST: usize = 100_000;
    for fires in [false, true] {
        let start = Instant::now();
        let mut cx = Context::from_waker(Waker::noop());
        let mut burst: Vec<_> = (0..BURST).map(|_| Box::pin(sleep(SEC / 10))).collect();
        for sleep in &mut burst {
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
        }
        if !fires {
            burst.clear();
        }
        sleep(SEC / 10).await;
        assert_eq!(
            burst.iter().filter(|it| it.is_elapsed()).count(),
            burst.len()
        );
        wait_for_a_thread().await;
        assert_eq!(start.elapsed(), SEC / 10);
    }
}
