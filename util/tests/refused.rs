//! A system that allows a `timerfd` to be made, and refuses to set it, as a filter of system calls may.
#![cfg(target_os = "linux")]

use std::sync::mpsc;
use std::time::Duration;
use tickwheel::{Builder, Pinning, Timer, TurnError};
use tickwheel_util::DelayQueue;
use tickwheel_util::time::{Instant, interval, sleep, timeout};
use tickwheel_util::tokio_rt::drive;
use tokio::runtime::{Builder as Runtime, Runtime as Tokio};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

/// Lets the kernel refuse `timerfd_settime` to all threads of this process; false where it takes no filter.
fn refuse() -> bool {
    let rule = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut rules = [
        // The number of the call.
        rule((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, 0),
        rule(
            (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            0,
            1,
            libc::SYS_timerfd_settime as u32,
        ),
        rule(
            libc::BPF_RET as u16,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        rule(libc::BPF_RET as u16, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: rules.len() as u16,
        filter: rules.as_mut_ptr(),
    };
    // SAFETY: plain numbers.
    let privileges = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program and its rules live until the call has returned.
    let filter = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    privileges == 0 && filter == 0
}

/// Runs the rest of the test in a process of its own: a filter stays.
fn in_child(test: &str, run: impl FnOnce()) {
    const CHILD: &str = "TICKWHEEL_REFUSED";
    if std::env::var_os(CHILD).is_some() {
        return run();
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .status();
    assert!(child.unwrap().success());
}

fn runtimes() -> [Tokio; 3] {
    let one = Runtime::new_current_thread().enable_all().build().unwrap();
    let more = [1, 2].map(|threads| {
        let mut builder = Runtime::new_multi_thread();
        builder.worker_threads(threads).enable_all();
        builder.build().unwrap()
    });
    let [two, three] = more;
    [one, two, three]
}

/// Calls what might never end on a thread of its own.
fn ends(run: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        run();
        tell.send(()).unwrap();
    });
    told.recv_timeout(LONG).expect("it ends");
}

/// Everything that waits, in tasks of the runtime.
async fn all_wait() {
    let tasks = (0..4).map(|_| {
        tokio::spawn(async {
            let start = Instant::now();
            sleep(3 * MS).await;
            assert!(timeout(3 * MS, std::future::pending::<()>()).await.is_err());
            let mut beat = interval(3 * MS);
            beat.tick().await;
            beat.tick().await;
            let mut queue = DelayQueue::new();
            queue.insert((), 3 * MS);
            queue.next_expired().await.unwrap().unwrap();
            assert!(start.elapsed() >= 12 * MS);
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

#[test]
fn sleeps_end_where_alarms_are_refused_from_the_start() {
    in_child("sleeps_end_where_alarms_are_refused_from_the_start", || {
        if !refuse() {
            return println!("skipped: this system takes no filter");
        }
        for runtime in runtimes() {
            ends(move || runtime.block_on(all_wait()));
        }
    });
}

#[test]
fn sleeps_end_where_alarms_are_refused_later_on() {
    in_child("sleeps_end_where_alarms_are_refused_later_on", || {
        let runtimes = runtimes();
        for runtime in &runtimes {
            runtime.block_on(all_wait());
        }
        // Armed before, some for an alarm that is set before and some not.
        let sleeping = runtimes.each_ref().map(|runtime| {
            let sleeps = [5, 20, 100].map(|n| runtime.spawn(async move { sleep(n * MS).await }));
            runtime.block_on(async { sleep(MS).await });
            sleeps
        });
        if !refuse() {
            return println!("skipped: this system takes no filter");
        }
        for (runtime, sleeping) in runtimes.into_iter().zip(sleeping) {
            ends(move || {
                runtime.block_on(all_wait());
                for sleep in sleeping {
                    runtime.block_on(sleep).unwrap();
                }
                // Idle, and then woken by a first timer of another thread.
                runtime.block_on(async { tokio::time::sleep(5 * MS).await });
                let last = runtime.spawn(async { sleep(MS).await });
                runtime.block_on(last).unwrap();
            });
        }
    });
}

#[test]
fn a_worker_takes_a_driven_engine_whose_alarm_is_refused() {
    in_child(
        "a_worker_takes_a_driven_engine_whose_alarm_is_refused",
        || {
            let engine = || -> Timer {
                let builder = Builder::new().shards(2).pinning(Pinning::Off);
                builder.build().unwrap()
            };
            let runtimes = runtimes();
            let driven = runtimes.each_ref().map(|runtime| {
                let timer = engine();
                let tasks = runtime.block_on(async { drive(&timer).unwrap() });
                runtime.block_on(timer.sleep(2 * MS)).unwrap();
                (timer, tasks)
            });
            if !refuse() {
                return println!("skipped: this system takes no filter");
            }
            for (runtime, (timer, tasks)) in runtimes.into_iter().zip(driven) {
                ends(move || {
                    runtime.block_on(async {
                        for n in 1..20 {
                            let timer = timer.clone();
                            let sleep = async move { timer.sleep(n * MS / 4).await.unwrap() };
                            tokio::spawn(sleep).await.unwrap();
                        }
                        assert!(drive(&engine()).is_err(), "refused at once");
                    });
                    timer.stop().unwrap();
                    let ends: Vec<_> = tasks
                        .into_iter()
                        .map(|task| runtime.block_on(task))
                        .collect();
                    let is_left =
                        |end: &Result<_, _>| matches!(end, Ok(TurnError::DrivenByWorkers));
                    assert!(ends.iter().any(is_left), "{ends:?}");
                });
            }
        },
    );
}
