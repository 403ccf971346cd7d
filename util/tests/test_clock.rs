//! Virtual time for code that calls the free functions, on any executor of one thread.

use smol::channel::bounded;
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use tickwheel::{Elapsed, Time, interval, sleep, sleep_until, timeout};
use tickwheel_util::{test, time};

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn time_jumps_to_the_next_deadline_and_no_further() {
    let real = Instant::now();
    test::run(async {
        let start = test::now();
        sleep(HOUR).await;
        assert_eq!(test::now() - start, HOUR);
        assert_eq!(timeout(5 * SEC, sleep(HOUR)).await, Err(Elapsed));
        assert_eq!(timeout(5 * SEC, sleep(4 * SEC)).await, Ok(()));
        assert_eq!(test::now() - start, HOUR + 9 * SEC);
        sleep_until(Instant::now() + HOUR).await;
        let passed = test::now() - start;
        // As far as the machine's time went on meanwhile it is less; a tick rounds up.
        assert!(
            passed > 2 * HOUR && passed <= 2 * HOUR + 9 * SEC,
            "{passed:?}"
        );
        let mut beat = interval(60 * SEC);
        let first = beat.tick().await;
        for n in 1..=1440 {
            assert_eq!(beat.tick().await, first + n * 60 * SEC);
        }
        assert_eq!(test::now(), first + 24 * HOUR);
    });
    assert!(real.elapsed() < 60 * SEC);
}

#[test]
fn tests_on_other_threads_do_not_notice() {
    let threads = [1, 2, 3, 4].map(|n| {
        std::thread::spawn(move || {
            test::run(async {
                for round in 1..=200 {
                    sleep(n * SEC).await;
                    assert_eq!(test::now(), Time::ZERO + round * n * SEC);
                }
            });
        })
    });
    // This thread keeps the machine's time.
    let (real, start) = (Instant::now(), test::now());
    smol::block_on(sleep(20 * MS));
    assert!(real.elapsed() >= 20 * MS && test::now() - start < HOUR);
    for thread in threads {
        thread.join().unwrap();
    }
}

fn is_on_the_machines_clock() -> bool {
    let before = Time::from(Instant::now());
    let now = test::now();
    before <= now && now < before + 60 * SEC && time::Instant::now().into_std().elapsed() < 60 * SEC
}

#[test]
fn a_clock_ends_with_its_test() {
    assert!(is_on_the_machines_clock());
    test::run(async {
        sleep(HOUR).await;
        assert!(!is_on_the_machines_clock());
    });
    assert!(is_on_the_machines_clock());
    assert!(catch_unwind(|| test::run(async { panic!("a test that fails") })).is_err());
    assert!(is_on_the_machines_clock());
    // A future that is dropped half-way is dropped in its own time.
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            assert_eq!(test::now(), Time::ZERO);
        }
    }
    let mut half = Box::pin(test::paused(async {
        let _late = Late;
        pending::<()>().await;
    }));
    assert!(
        half.as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    drop(half);
    assert!(is_on_the_machines_clock());
}

#[test]
fn a_thread_has_one_test_clock_at_a_time() {
    test::run(async {
        sleep(HOUR).await;
        assert!(catch_unwind(|| test::run(async {})).is_err());
        assert_eq!(test::now(), Time::ZERO + HOUR, "the first one goes on");
        sleep(HOUR).await;
    });
    // Of two at once the second is refused; dropped in any order they leave no clock behind.
    let mut cx = Context::from_waker(Waker::noop());
    let mut first = Box::pin(test::paused(pending::<()>()));
    assert!(first.as_mut().poll(&mut cx).is_pending());
    let mut second = Box::pin(test::paused(pending::<()>()));
    let refused = catch_unwind(AssertUnwindSafe(|| second.as_mut().poll(&mut cx)));
    let message = *refused.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("has a test clock"), "{message}");
    drop(first);
    drop(second);
    assert!(is_on_the_machines_clock());
    test::run(async { sleep(HOUR).await });
}

/// Asks and answers. Each question arms a timer and cancels it, so as many are pending after it as before.
fn asker_and_answerer() -> (
    impl Future<Output = ()> + Send,
    impl Future<Output = ()> + Send,
) {
    let (ask, questions) = bounded(1);
    let (answer, answers) = bounded(1);
    let asker = async move {
        let start = test::now();
        for n in 0..5000 {
            ask.send(n).await.unwrap();
            assert_eq!(timeout(5 * SEC, answers.recv()).await, Ok(Ok(n)));
        }
        assert_eq!(test::now(), start);
    };
    let answerer = async move {
        while let Ok(n) = questions.recv().await {
            answer.send(n).await.unwrap();
        }
    };
    (asker, answerer)
}

#[test]
fn time_stands_while_other_tasks_arm_and_cancel() {
    let executor = smol::LocalExecutor::new();
    smol::block_on(executor.run(test::paused(async {
        let (asker, answerer) = asker_and_answerer();
        let (asker, answerer) = (executor.spawn(asker), executor.spawn(answerer));
        asker.await;
        answerer.await;
    })));
    let tokio = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    tokio.block_on(test::paused(async {
        let (asker, answerer) = asker_and_answerer();
        let (asker, answerer) = (tokio::spawn(asker), tokio::spawn(answerer));
        asker.await.unwrap();
        answerer.await.unwrap();
    }));
}

#[test]
fn the_module_time_is_exact_and_the_same_in_each_run() {
    let run = || {
        let mut seed = 1_u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Duration::from_nanos(seed >> 34)
        };
        let mut times = Vec::new();
        test::run(async {
            let start = time::Instant::now();
            for _ in 0..2000 {
                time::sleep(random()).await;
                time::sleep_until(time::Instant::now() + random()).await;
                times.push(start.elapsed());
            }
            let mut beat = time::interval(7 * SEC);
            let first = beat.tick().await;
            assert_eq!(first, start + *times.last().unwrap());
            time::sleep_until(beat.tick().await + 50 * MS).await;
            assert_eq!(first.elapsed(), 7 * SEC + 50 * MS);
            let end = time::Instant::now() + HOUR;
            assert!(time::timeout_at(end, pending::<()>()).await.is_err());
            assert_eq!(time::Instant::now(), end);
            assert!(time::timeout(HOUR, pending::<()>()).await.is_err());
            assert_eq!(end.elapsed(), HOUR);
        });
        times
    };
    assert_eq!(run(), run());
}

#[test]
fn without_a_timer_a_wake_from_another_thread_is_waited_for() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(20 * MS);
        sender.send(7).unwrap();
    });
    assert_eq!(test::run(receiver), Ok(7));
    thread.join().unwrap();
}

/// Ten thousand tasks that are woken at once. None of them arms another timer.
async fn woken_at_once() {
    sleep(SEC).await;
    assert_eq!(test::now(), Time::ZERO + SEC);
}

#[tokio::test]
async fn spawned_tasks_of_tokio_see_one_time() {
    test::paused(async {
        let tasks: Vec<_> = (0..10_000).map(|_| tokio::spawn(woken_at_once())).collect();
        // A tick later time goes on.
        sleep(SEC + MS).await;
        for task in tasks {
            task.await.unwrap();
        }
    })
    .await;
}

#[test]
fn spawned_tasks_of_smol_see_one_time() {
    let executor = smol::LocalExecutor::new();
    smol::block_on(executor.run(test::paused(async {
        let tasks: Vec<_> = (0..500).map(|_| executor.spawn(woken_at_once())).collect();
        sleep(SEC + MS).await;
        for task in tasks {
            task.await;
        }
    })));
}

/// Chains of tasks without a sleep in between: a jump would be seen as a timeout.
#[tokio::test]
async fn time_stands_while_tasks_wake_each_other() {
    test::paused(async {
        for _ in 0..20 {
            let start = test::now();
            let (first, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
            for _ in 0..30 {
                let (next, from) = tokio::sync::mpsc::channel(1);
                let mut from = std::mem::replace(&mut receiver, from);
                tokio::spawn(async move {
                    from.recv().await;
                    next.send(()).await.unwrap();
                });
            }
            first.send(()).await.unwrap();
            assert_eq!(timeout(MS, receiver.recv()).await, Ok(Some(())));
            assert_eq!(test::now(), start);
            sleep(SEC).await;
        }
    })
    .await;
}

/// Each of them cancels a timer, and is no sign of rest.
#[tokio::test]
async fn time_stands_while_a_task_cancels_timers() {
    test::paused(async {
        let start = time::Instant::now();
        tokio::spawn(time::sleep(SEC));
        let mut cx = Context::from_waker(Waker::noop());
        let mut sleeps: Vec<_> = (0..500).map(|_| Box::pin(time::sleep(HOUR))).collect();
        for sleep in &mut sleeps {
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
        }
        let cancels = tokio::spawn(async move {
            for sleep in sleeps {
                drop(sleep);
                tokio::task::yield_now().await;
            }
            start.elapsed()
        });
        assert_eq!(cancels.await.unwrap(), Duration::ZERO);
    })
    .await;
}

#[test]
fn each_task_wakes_at_its_own_time() {
    let executor = smol::LocalExecutor::new();
    test::run(executor.run(async {
        let wakes_in_time = async |delay| {
            sleep(delay).await;
            assert_eq!(test::now(), Time::ZERO + delay, "not a tick late");
        };
        let delays = (0..500).map(|n| MS * (n * 7919 % 500));
        for task in delays
            .map(|delay| executor.spawn(wakes_in_time(delay)))
            .collect::<Vec<_>>()
        {
            task.await;
        }
    }));
}

/// Fails if no answer comes in time, three times in a row.
async fn ask(answer: impl AsyncFn() -> u32) -> Option<u32> {
    for pause in [SEC, 10 * SEC, 60 * SEC] {
        match timeout(5 * SEC, answer()).await {
            Ok(answer) => return Some(answer),
            Err(Elapsed) => sleep(pause).await,
        }
    }
    None
}

#[test]
fn a_dead_server_is_given_up_after_86_seconds() {
    test::run(async {
        assert_eq!(ask(async || pending().await).await, None);
        assert_eq!(test::now(), Time::ZERO + 86 * SEC);
    });
}

#[tokio::test]
async fn a_slow_server_is_asked_again() {
    test::paused(async {
        let server = tokio::spawn(async { sleep(7 * SEC).await });
        assert_eq!(
            ask(async || if server.is_finished() {
                7
            } else {
                pending().await
            })
            .await,
            Some(7)
        );
    })
    .await;
}

/// Asks for the time when it is dropped.
struct Asks;

impl Drop for Asks {
    fn drop(&mut self) {
        drop((time::Instant::now(), time::sleep(MS), sleep(MS)));
        let _ = test::now();
    }
}

/// A panic there would end the process.
#[test]
fn a_thread_local_that_outlives_the_others_may_ask_for_the_time() {
    thread_local!(static LATE: Cell<Option<Asks>> = const { Cell::new(None) });
    let thread = std::thread::spawn(|| {
        LATE.set(Some(Asks));
        // Those of the test clock are made later, and so they end earlier.
        test::run(async { drop(Asks) });
    });
    thread.join().unwrap();
}

/// A panic there would end the process.
#[test]
fn a_test_clock_may_end_with_a_thread_local() {
    type Kept = Option<Pin<Box<dyn Future<Output = ()>>>>;
    thread_local!(static KEPT: RefCell<Kept> = const { RefCell::new(None) });
    let thread = std::thread::spawn(|| {
        KEPT.set(Some(Box::pin(test::paused(pending()))));
        KEPT.with_borrow_mut(|kept| {
            let kept = kept.as_mut().unwrap().as_mut();
            // The thread-locals of the test clock are made by this, and so they end earlier.
            let polled = kept.poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        });
    });
    thread.join().unwrap();
}

#[test]
fn the_page_about_tokio_shows_tests_of_this_file() {
    let (page, this) = (
        include_str!("../../docs/TOKIO.md"),
        include_str!("test_clock.rs"),
    );
    let chapter = page.split("## Tests").nth(1).expect("the chapter");
    let shown = chapter
        .split("```")
        .find(|part| part.contains("test::run"))
        .and_then(|code| code.split_once('\n'))
        .expect("the tests")
        .1;
    assert!(shown.contains("test::paused"));
    for test in shown
        .trim()
        .split("\n\n")
        .filter(|part| part.contains("fn "))
    {
        assert!(this.contains(test), "not in this file:\n{test}");
    }
}
