//! Which engine a sleep is on: that of the runtime that polls it, and the process's where there is none or the runtime has
//! ended. On one thread, where time may stand here, that of the runtime in which it is made, or else polled in first.
#![cfg(target_os = "linux")]

use futures_lite::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tickwheel_util::layer::{IdleBodyLayer, StatusTimeoutLayer, TimeoutLayer};
use tickwheel_util::stream::StreamExt;
use tickwheel_util::time::{self, Instant, interval, sleep, timeout};
use tickwheel_util::{DelayQueue, FutureExt, HyperTimer, QuinnRuntime};
use tokio::runtime::{Builder as Runtime, Handle, Runtime as Tokio};
use tower::{Layer, Service};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Runs the rest of the test in a process of its own, which has nothing of other tests.
fn in_child(test: &str, run: impl FnOnce()) {
    const CHILD: &str = "TICKWHEEL_CONTEXTS";
    if std::env::var_os(CHILD).is_some() {
        return run();
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .status();
    assert!(child.unwrap().success());
}

fn one_thread() -> Tokio {
    Runtime::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> Tokio {
    let mut builder = Runtime::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

type Wait = Pin<Box<dyn Future<Output = ()>>>;

/// One future of everything that waits, made where this is called. Each is ready after a few milliseconds.
fn all_kinds() -> Vec<(&'static str, Wait)> {
    let limit = 4 * MS;
    let mut kinds: Vec<(&'static str, Wait)> = Vec::new();
    let mut add = |name, wait: Wait| kinds.push((name, wait));
    add("sleep", Box::pin(sleep(limit)));
    add("sleep that was reset", {
        let mut sleep = Box::pin(sleep(HOUR));
        sleep.as_mut().reset(Instant::now() + limit);
        sleep
    });
    let late = timeout(limit, pending::<()>());
    add(
        "timeout",
        Box::pin(async { late.await.unwrap_err() }).map_unit(),
    );
    let late = pending::<()>().timeout(limit);
    add(
        "timeout as a method",
        Box::pin(async { late.await.unwrap_err() }).map_unit(),
    );
    let mut beat = interval(limit);
    add(
        "interval",
        Box::pin(async move {
            beat.tick().await;
            beat.tick().await;
        }),
    );
    let mut queue = DelayQueue::new();
    queue.insert((), limit);
    add(
        "queue",
        Box::pin(async move { queue.next_expired().await.unwrap().unwrap() }).map_unit(),
    );
    let mut queue = time::DelayQueue::new();
    queue.insert((), limit);
    add(
        "queue of time",
        Box::pin(async move {
            poll_fn(|cx| queue.poll_expired(cx)).await.unwrap();
        }),
    );
    let mut late = Box::pin(StreamExt::timeout(stream::pending::<()>(), limit));
    add(
        "stream",
        Box::pin(async move { late.next().await.unwrap().unwrap_err() }).map_unit(),
    );
    let mut slow = Box::pin(StreamExt::throttle(stream::repeat(()), limit));
    add(
        "throttle",
        Box::pin(async move {
            slow.next().await;
            slow.next().await;
        }),
    );
    let slow = tower::service_fn(|()| pending::<Result<(), std::io::Error>>());
    let answer = TimeoutLayer::new(limit).layer(slow).call(());
    add(
        "layer",
        Box::pin(async { answer.await.unwrap_err() }).map_unit(),
    );
    let slow = tower::service_fn(|()| pending::<Result<http::Response<String>, std::io::Error>>());
    let status = http::StatusCode::GATEWAY_TIMEOUT;
    let answer = StatusTimeoutLayer::new(status, limit).layer(slow).call(());
    add(
        "layer with a status",
        Box::pin(async move {
            assert_eq!(answer.await.unwrap().status(), status);
        }),
    );
    type Frame = http_body::Frame<&'static [u8]>;
    let frames = stream::pending::<Result<Frame, std::io::Error>>();
    let stuck = http_body_util::StreamBody::new(frames);
    let mut body = Box::pin(IdleBodyLayer::new(limit).body(stuck));
    add(
        "body",
        Box::pin(async move { body.frame().await.unwrap().unwrap_err() }).map_unit(),
    );
    let ends = hyper::rt::Timer::sleep(&HyperTimer::new(), limit);
    add("hyper", ends);
    let runtime = QuinnRuntime::new(quinn::TokioRuntime);
    let end = quinn::Runtime::now(&runtime) + limit;
    let mut timer = quinn::Runtime::new_timer(&runtime, end);
    add(
        "quinn",
        Box::pin(async move { poll_fn(|cx| timer.as_mut().poll(cx)).await }),
    );
    kinds
}

trait MapUnit {
    fn map_unit(self) -> Wait;
}

impl<F: Future + 'static> MapUnit for Pin<Box<F>> {
    fn map_unit(self) -> Wait {
        Box::pin(async move { drop(self.await) })
    }
}

fn threads_named(name: &str) -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("comm")).ok());
    names.filter(|it| it.starts_with(name)).count()
}

#[test]
fn what_is_made_before_its_runtime_is_entered_is_on_the_runtimes_engine() {
    in_child(
        "what_is_made_before_its_runtime_is_entered_is_on_the_runtimes_engine",
        || {
            for runtime in [one_thread(), two_threads()] {
                for n in 0..all_kinds().len() {
                    let start = Instant::now();
                    let (kind, wait) = all_kinds().swap_remove(n);
                    runtime.block_on(wait);
                    assert!(start.elapsed() >= 4 * MS, "{kind}");
                    assert_eq!(threads_named("tick"), 0, "{kind} has an engine of its own");
                }
            }
        },
    );
}

/// The parent's engine is dead there, and the child's runtime has its own.
#[test]
fn a_forked_child_waits_by_its_runtime() {
    in_child("a_forked_child_waits_by_its_runtime", || {
        // On a busy machine a short one may be over when it is first polled, and needs no engine.
        smol::block_on(sleep(100 * MS));
        assert!(threads_named("tick") > 0, "the process's engine runs");
        // SAFETY: the child uses what it makes itself, and ends without running destructors of the parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let waited = std::panic::catch_unwind(|| {
                let runtime = one_thread();
                for n in 0..all_kinds().len() {
                    runtime.block_on(all_kinds().swap_remove(n).1);
                }
            });
            // SAFETY: ends the process.
            unsafe { libc::_exit(waited.is_err().into()) };
        }
        let mut status = 0;
        // SAFETY: the status lives until the call has returned.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0), "it panicked");
    });
}

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    4096 * pages
}

/// Returns a runtime's handle that outlives it; its engine was there, or was not.
fn ended(runtime: Tokio, has_slept: bool) -> Handle {
    if has_slept {
        runtime.block_on(async { sleep(MS).await });
    }
    let handle = runtime.handle().clone();
    drop(runtime);
    handle
}

#[test]
fn a_runtime_that_has_ended_gets_no_engine() {
    in_child("a_runtime_that_has_ended_gets_no_engine", || {
        let handles = [
            ended(one_thread(), true),
            ended(one_thread(), false),
            ended(two_threads(), true),
            ended(two_threads(), false),
        ];
        let hold = |round: usize| {
            // One after the other, and in turns.
            let _inside = handles[round / 500 % 4].enter();
            let first = sleep(HOUR);
            let _inside = handles[round % 4].enter();
            (first, timeout(HOUR, pending::<()>()))
        };
        let first: Vec<_> = (0..10).map(hold).collect();
        let before = resident();
        let held: Vec<_> = (0..2000).map(hold).collect();
        let kept = resident().saturating_sub(before);
        assert!(kept < 16 << 20, "{} KiB for {}", kept / 1024, held.len());
        assert_eq!(threads_named("tick-tokio"), 0);
        drop((first, held));
    });
}

#[test]
fn everything_waits_where_the_runtime_has_ended() {
    for has_slept in [false, true] {
        for runtime in [one_thread(), two_threads()] {
            let handle = ended(runtime, has_slept);
            let _inside = handle.enter();
            for n in 0..all_kinds().len() {
                let start = Instant::now();
                let (kind, wait) = all_kinds().swap_remove(n);
                smol::block_on(wait);
                assert!(start.elapsed() >= 4 * MS, "{kind}");
            }
        }
    }
}

/// A closure on the pool for blocking work goes on when its runtime has ended.
#[test]
fn a_blocking_closure_outlives_its_runtime_and_sleeps_on() {
    let (tell, told) = std::sync::mpsc::channel();
    let runtime = two_threads();
    let (free, freed) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || {
        let mut first = pin!(sleep(20 * MS));
        let polled = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        freed.recv().unwrap();
        smol::block_on(first);
        for _ in 0..20 {
            smol::block_on(sleep(MS));
        }
        tell.send(()).unwrap();
    });
    runtime.block_on(async { sleep(MS).await });
    runtime.shutdown_background();
    free.send(()).unwrap();
    told.recv_timeout(Duration::from_secs(60)).unwrap();
}

fn poll(wait: Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
    wait.poll(&mut Context::from_waker(Waker::noop()))
}

/// Whichever runtime it was made or has waited in before: that one may have ended, or nobody may run it.
#[test]
fn a_sleep_is_on_the_engine_of_the_runtime_that_polls_it() {
    let name = "a_sleep_is_on_the_engine_of_the_runtime_that_polls_it";
    in_child(name, || {
        let [made, polls] = [two_threads(), two_threads()];
        let tasks = |runtime: &Tokio| runtime.metrics().num_alive_tasks();
        let inside = made.enter();
        let mut wait = Box::pin(sleep(4 * MS));
        drop(inside);
        let start = Instant::now();
        polls.block_on(wait.as_mut());
        assert_eq!(tasks(&made), 0, "it has no engine");
        assert!(tasks(&polls) > 0, "its engine's task");
        for runtime in [&made, &polls, &made] {
            wait.as_mut().reset(Instant::now() + HOUR);
            let _inside = runtime.enter();
            assert!(poll(wait.as_mut()).is_pending());
            wait.as_mut().reset(start);
            assert!(poll(wait.as_mut()).is_ready() && wait.is_elapsed());
            wait.as_mut().reset(Instant::now() + 4 * MS);
        }
        drop(made);
        polls.block_on(wait.as_mut());
        assert!(wait.deadline() >= start + 4 * MS && wait.deadline() <= Instant::now());
        assert_eq!(
            threads_named("tick-"),
            0,
            "another one than the runtimes' was used"
        );
    });
}

/// Of several first sleeps at once, one makes the engine.
#[test]
fn a_runtime_has_one_engine_however_many_threads_ask_at_once() {
    for round in 0..40 {
        let runtime = if round % 2 == 0 {
            one_thread()
        } else {
            two_threads()
        };
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _inside = runtime.enter();
                    start.wait();
                    assert!(poll(pin!(sleep(HOUR))).is_pending());
                });
            }
        });
        // The tasks that only ask or only wake another thread end when they are polled.
        let tasks = || runtime.metrics().num_alive_tasks();
        let waited = Instant::now();
        runtime.block_on(async {
            while tasks() > 1 && waited.elapsed() < Duration::from_secs(20) {
                tokio::time::sleep(MS).await;
            }
        });
        assert_eq!(tasks(), 1, "in round {round}");
    }
}

/// The process's engine is the last one that it goes to.
#[test]
fn a_queue_that_finds_no_engine_any_more_says_so() {
    in_child("a_queue_that_finds_no_engine_any_more_says_so", || {
        let runtime = one_thread();
        let mut queue = runtime.block_on(async { DelayQueue::new() });
        queue.insert("item", HOUR);
        drop(runtime);
        tickwheel::global().unwrap().stop().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..2 {
                let polled = queue.poll_expired(&mut cx);
                tell.send(matches!(polled, Poll::Ready(Some(Err(_)))))
                    .unwrap();
            }
        });
        for _ in 0..2 {
            assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(true));
        }
    });
}
