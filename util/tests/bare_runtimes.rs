//! Runtimes of tokio without some of its drivers. A runtime needs what tokio's own timers need, `enable_time`; with less
//! a worker turns its engine.
#![cfg(target_os = "linux")]

use std::future::pending;
use std::time::{Duration, Instant};
use tickwheel_util::DelayQueue;
use tickwheel_util::time::{interval, sleep, timeout};
use tokio::runtime::{Builder as Runtime, Runtime as Tokio};

const MS: Duration = Duration::from_millis(1);

/// Runs the rest of the test in a process of its own, which has nothing of other tests.
fn in_child(test: &str, run: impl FnOnce()) {
    const CHILD: &str = "TICKWHEEL_BARE";
    if std::env::var_os(CHILD).is_some() {
        return run();
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .status();
    assert!(child.unwrap().success());
}

/// A runtime of one thread and one of two, each with what `enable` switches on.
fn runtimes(enable: fn(&mut Runtime) -> &mut Runtime) -> [Tokio; 2] {
    let (one, mut two) = (Runtime::new_current_thread(), Runtime::new_multi_thread());
    two.worker_threads(2);
    [one, two]
        .each_mut()
        .map(|builder| enable(builder).build().unwrap())
}

/// Everything that waits, each long enough to need a timer.
async fn all_wait() {
    let start = Instant::now();
    sleep(3 * MS).await;
    assert!(timeout(3 * MS, pending::<()>()).await.is_err());
    let mut beat = interval(3 * MS);
    beat.tick().await;
    beat.tick().await;
    let mut queue = DelayQueue::new();
    queue.insert((), 3 * MS);
    queue.next_expired().await.unwrap().unwrap();
    assert!(start.elapsed() >= 12 * MS, "early");
}

fn threads_named(name: &str) -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("comm")).ok());
    names.filter(|it| it.starts_with(name)).count()
}

/// Not even one that is caught: a panic's hook may end the process, and `panic = "abort"` does.
#[test]
fn where_tokio_has_timers_nothing_panics() {
    in_child("where_tokio_has_timers_nothing_panics", || {
        let hook = |panic: &std::panic::PanicHookInfo<'_>| {
            eprintln!("{panic}");
            std::process::exit(3);
        };
        std::panic::set_hook(Box::new(hook));
        for runtime in runtimes(Runtime::enable_time) {
            runtime.block_on(all_wait());
            runtime.block_on(async {
                let tasks = [(); 4].map(|()| tokio::spawn(all_wait()));
                for task in tasks {
                    task.await.unwrap();
                }
            });
            // Armed when the runtime ends, and polled where it has ended.
            drop(runtime.spawn(sleep(3600 * 1000 * MS)));
            let handle = runtime.handle().clone();
            drop(runtime);
            let _inside = handle.enter();
            futures_lite::future::block_on(all_wait());
        }
        assert_eq!(threads_named("tick-tokio"), 0);
    });
}

#[test]
fn where_tokio_has_no_timers_a_worker_turns_the_engine_until_the_runtime_ends() {
    let test = "where_tokio_has_no_timers_a_worker_turns_the_engine_until_the_runtime_ends";
    in_child(test, || {
        for runtime in runtimes(|builder| builder) {
            runtime.block_on(all_wait());
            let far = runtime.spawn(sleep(3600 * 1000 * MS));
            runtime.block_on(async { sleep(3 * MS).await });
            assert_eq!(threads_named("tick-tokio"), 1);
            let tasks = runtime.metrics().num_alive_tasks();
            assert_eq!(
                tasks, 2,
                "the one that ends the engine with the runtime, and `far`"
            );
            drop((runtime, far));
            let start = Instant::now();
            while threads_named("tick-tokio") > 0 {
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "its worker stays"
                );
                std::thread::sleep(MS);
            }
        }
    });
}
