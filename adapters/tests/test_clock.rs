//! Virtual time for code that calls the free functions, on any executor of one thread.

use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::panic::catch_unwind;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tickwheel::{Elapsed, Time, interval, sleep, sleep_until, timeout};
use tickwheel_util::{DelayQueue, test};

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Waits for all of them, and polls each of them each time.
async fn all(futures: impl Iterator<Item = impl Future<Output = ()> + 'static>) {
    let mut futures: Vec<Pin<Box<dyn Future<Output = ()>>>> =
        futures.map(|future| Box::pin(future) as _).collect();
    poll_fn(|cx| {
        futures.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

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
        assert!(passed > 2 * HOUR && passed <= 2 * HOUR + 9 * SEC, "{passed:?}");
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
fn a_join_of_many_ends_in_the_order_of_deadlines() {
    let ends = Rc::new(RefCell::new(Vec::new()));
    test::run(all((0..500_u64).map(|n| {
        let (ends, delay) = (Rc::clone(&ends), MS * (n * 7919 % 500) as u32);
        async move {
            sleep(delay).await;
            assert_eq!(test::now(), Time::ZERO + delay, "not a tick late");
            ends.borrow_mut().push(delay);
        }
    })));
    assert!(ends.borrow().is_sorted() && ends.borrow().len() == 500);
}

#[test]
fn tests_on_other_threads_do_not_notice() {
    let threads: Vec<_> = (1..=8_u32)
        .map(|n| {
            std::thread::spawn(move || {
                test::run(async move {
                    for round in 1..=200 {
                        sleep(n * SEC).await;
                        assert_eq!(test::now(), Time::ZERO + round * n * SEC);
                    }
                });
            })
        })
        .collect();
    // This thread keeps the machine's time.
    let (real, start) = (Instant::now(), test::now());
    smol::block_on(sleep(20 * MS));
    assert!(real.elapsed() >= 20 * MS && test::now() - start < HOUR);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_clock_ends_with_its_test_and_the_outer_one_returns() {
    let machine = || {
        let before = Time::from(Instant::now());
        let now = test::now();
        before <= now && now < before + 60 * SEC
    };
    assert!(machine());
    test::run(async {
        sleep(HOUR).await;
        test::run(async {
            assert_eq!(test::now(), Time::ZERO);
            sleep(2 * SEC).await;
        });
        assert_eq!(test::now(), Time::ZERO + HOUR);
    });
    assert!(machine());
    assert!(catch_unwind(|| test::run(async { panic!("a test that fails") })).is_err());
    assert!(machine());
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
            .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
            .is_pending()
    );
    drop(half);
    assert!(machine());
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

/// Tasks of the same thread see the same time, and time waits for chains of them.
#[tokio::test]
async fn spawned_tasks_of_tokio_are_waited_for() {
    test::paused(async {
        let tasks: Vec<_> = (0..10_000_u32)
            .map(|n| {
                tokio::spawn(async move {
                    sleep(SEC).await; // all of them at once
                    assert_eq!(test::now(), Time::ZERO + SEC);
                    sleep((n % 10) * MS).await;
                    assert_eq!(test::now(), Time::ZERO + SEC + (n % 10) * MS);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        // None of these arms another timer, and one follows a tick later.
        let start = test::now();
        let ends: Vec<_> = (0..10_000_u32)
            .map(|_| {
                tokio::spawn(async move {
                    sleep(SEC).await;
                    assert_eq!(test::now(), start + SEC);
                })
            })
            .collect();
        sleep(SEC + MS).await;
        for end in ends {
            end.await.unwrap();
        }
        // A message goes through forty tasks, each of which sleeps for a second when it has it.
        let (first, mut receiver) = tokio::sync::mpsc::unbounded_channel::<u32>();
        for _ in 0..40 {
            let (next, from) = tokio::sync::mpsc::unbounded_channel();
            let mut from = std::mem::replace(&mut receiver, from);
            tokio::spawn(async move {
                while let Some(hops) = from.recv().await {
                    sleep(SEC).await;
                    next.send(hops + 1).unwrap();
                }
            });
        }
        // A timer that must not fire while messages go from task to task.
        let start = test::now();
        first.send(0).unwrap();
        assert_eq!(timeout(41 * SEC, receiver.recv()).await, Ok(Some(40)));
        assert_eq!(test::now() - start, 40 * SEC);
    })
    .await;
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

#[test]
fn on_smol() {
    let executor = smol::LocalExecutor::new();
    let (sender, receiver) = mpsc::channel();
    smol::block_on(executor.run(test::paused(async {
        let tasks: Vec<_> = (0..100_u32)
            .map(|n| {
                let sender = sender.clone();
                executor.spawn(async move {
                    sleep((100 - n) * SEC).await;
                    sender.send((n, test::now())).unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    })));
    // None of these arms another timer, and one follows a tick later.
    smol::block_on(executor.run(test::paused(async {
        let woken_at_once = async || {
            sleep(SEC).await;
            assert_eq!(test::now(), Time::ZERO + SEC);
        };
        let tasks: Vec<_> = (0..500).map(|_| executor.spawn(woken_at_once())).collect();
        sleep(SEC + MS).await;
        all(tasks.into_iter()).await;
    })));
    let ends: Vec<_> = receiver.try_iter().collect();
    let expected: Vec<_> = (0..100).rev().map(|n| (n, Time::ZERO + (100 - n) * SEC)).collect();
    assert_eq!(ends, expected);
}

#[test]
fn a_delay_queue_is_in_virtual_time() {
    test::run(async {
        let mut queue = DelayQueue::new();
        for hours in [3, 1, 2] {
            queue.insert(hours, hours * HOUR);
        }
        for hours in 1..=3 {
            assert_eq!(queue.next_expired().await.unwrap().unwrap().payload, hours);
            assert_eq!(test::now(), Time::ZERO + hours * HOUR);
        }
    });
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
            ask(async || if server.is_finished() { 7 } else { pending().await }).await,
            Some(7)
        );
    })
    .await;
}

#[test]
fn the_guide_shows_tests_of_this_file() {
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let (guide, this) =
        (read(&format!("{root}../docs/GUIDE.md")), read(&format!("{root}tests/test_clock.rs")));
    let chapter = guide.split("## Testing async code").nth(1).expect("the chapter");
    let shown = chapter.split("```").nth(1).and_then(|code| code.split_once('\n')).unwrap().1;
    assert!(shown.contains("test::run") && shown.contains("test::paused"));
    for test in shown.trim().split("\n\n") {
        assert!(this.contains(test), "not in this file:\n{test}");
    }
}
