//! With the feature `tokio` each runtime has an engine of its own, which it turns, and no line of code asks for it.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;
use tickwheel_util::DelayQueue;
use tickwheel_util::time::{Instant, MissedTickBehavior, Sleep, interval, sleep, timeout};
use tokio::runtime::{Builder as Runtime, Runtime as Tokio};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(120);

fn one_thread() -> Tokio {
    Runtime::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> Runtime {
    let mut builder = Runtime::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder
}

/// Runs what might never end on a thread of its own.
fn ends<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(run()));
    receiver.recv_timeout(LONG).expect("it ends")
}

/// Notes on which thread it is woken.
struct Noting(mpsc::Sender<ThreadId>);

impl Wake for Noting {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(thread::current().id());
    }
}

fn noting() -> (Waker, mpsc::Receiver<ThreadId>) {
    let (sender, woken) = mpsc::channel();
    (Arc::new(Noting(sender)).into(), woken)
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// Everything that waits, each long enough to need a timer.
async fn all_wait() {
    let start = Instant::now();
    sleep(2 * MS).await;
    assert!(timeout(2 * MS, pending::<()>()).await.is_err());
    let mut beat = interval(2 * MS);
    beat.tick().await;
    beat.tick().await;
    let mut queue = DelayQueue::new();
    queue.insert("late", 2 * MS);
    assert_eq!(queue.next_expired().await.unwrap().unwrap().payload, "late");
    assert!(start.elapsed() >= 8 * MS);
}

#[test]
fn a_runtimes_own_thread_fires_its_timers() {
    let threads = Arc::new(Mutex::new(Vec::new()));
    let started = Arc::clone(&threads);
    let runtime = two_threads()
        .on_thread_start(move || started.lock().unwrap().push(thread::current().id()))
        .build()
        .unwrap();
    // tokio wakes a task once that is woken twice in a row.
    let tasks = [(); 4].map(|()| noting());
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|task: usize| &tasks[task].0);
    let _inside = runtime.enter();
    let mut sleep = pin!(sleep(200 * MS));
    let mut late = pin!(timeout(200 * MS, pending::<()>()));
    let mut beat = interval(200 * MS);
    let mut queue = DelayQueue::new();
    queue.insert((), 200 * MS);
    let (mut third, mut fourth) = (Context::from_waker(third), Context::from_waker(fourth));
    assert!(beat.poll_tick(&mut third).is_ready());
    assert!(poll(sleep.as_mut(), first).is_pending());
    assert!(poll(late.as_mut(), second).is_pending());
    assert!(beat.poll_tick(&mut third).is_pending());
    assert!(queue.poll_expired(&mut fourth).is_pending());
    for (_, woken) in &tasks {
        let thread = woken.recv_timeout(LONG).unwrap();
        assert!(threads.lock().unwrap().contains(&thread));
    }
    assert!(poll(sleep, first).is_ready() && poll(late, second).is_ready());
    assert!(beat.poll_tick(&mut third).is_ready() && queue.poll_expired(&mut fourth).is_ready());
}

#[test]
fn everything_waits_on_every_kind_of_runtime() {
    let plain = Runtime::new_current_thread().build().unwrap();
    let two = two_threads().build().unwrap();
    for runtime in [one_thread(), two, plain] {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(all_wait())).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
    smol::block_on(all_wait());
}

#[test]
fn a_task_that_blocks_holds_up_no_other_runtime() {
    let (blocked, when_blocked) = mpsc::channel();
    let (free, freed) = mpsc::channel::<()>();
    let busy = thread::spawn(move || {
        one_thread().block_on(async {
            sleep(MS).await;
            blocked.send(()).unwrap();
            let _ = freed.recv_timeout(LONG);
        });
    });
    when_blocked.recv_timeout(LONG).unwrap();
    ends(|| one_thread().block_on(all_wait()));
    assert!(!busy.is_finished());
    drop(free);
    busy.join().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_task_that_sets_the_next_timer_and_blocks_does_not_hold_it_up() {
    ends(|| {
        let runtime = two_threads().build().unwrap();
        runtime.block_on(async { sleep(MS).await });
        let mut far = pin!(sleep(HOUR));
        let _inside = runtime.enter();
        assert!(poll(far.as_mut(), Waker::noop()).is_pending());
        // From outside, so that tokio lets the other thread wait for events.
        let blocked = runtime.spawn(async {
            let (waker, woken) = noting();
            let mut early = pin!(sleep(20 * MS));
            assert!(poll(early.as_mut(), &waker).is_pending());
            woken.recv_timeout(LONG).unwrap();
        });
        runtime.block_on(blocked).unwrap();
    });
}

/// Calls `begin` in a task that then blocks its thread, and sees to it that what `wait` returns does not wait for it.
#[cfg(target_os = "linux")]
fn holds_up_nobody<F: Future>(
    begin: impl FnOnce() + Send + 'static,
    wait: impl FnOnce() -> F + Send + 'static,
) {
    ends(|| {
        let runtime = two_threads().build().unwrap();
        let (tell, begun) = mpsc::channel();
        let (free, freed) = mpsc::channel();
        // From outside, so that tokio lets the other thread wait for events.
        let blocked = runtime.spawn(async move {
            begin();
            tell.send(()).unwrap();
            freed.recv_timeout(LONG / 4).is_ok()
        });
        begun.recv_timeout(LONG).unwrap();
        runtime.block_on(async { wait().await });
        let _ = free.send(());
        let is_freed = runtime.block_on(blocked).unwrap();
        assert!(is_freed, "it has waited for the task");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_task_that_makes_the_first_timer_and_blocks_holds_up_nobody() {
    holds_up_nobody(|| drop(sleep(MS)), || sleep(20 * MS));
}

#[cfg(target_os = "linux")]
#[test]
fn a_task_that_has_an_engine_driven_and_blocks_holds_up_nobody() {
    let builder = tickwheel::Builder::new().shards(1);
    let timer = builder.pinning(tickwheel::Pinning::Off).build().unwrap();
    let driven = timer.clone();
    let drive = move || drop(tickwheel_util::tokio_rt::drive(&driven).unwrap());
    holds_up_nobody(drive, async move || timer.sleep(20 * MS).await.unwrap());
}

/// Makes what waits for a while on a runtime that is gone when this returns.
fn orphans(waker: &Waker) -> (Pin<Box<Sleep>>, DelayQueue<&'static str>) {
    let runtime = one_thread();
    let _inside = runtime.enter();
    let (mut sleep, mut queue) = (Box::pin(sleep(50 * MS)), DelayQueue::new());
    assert!(poll(sleep.as_mut(), waker).is_pending());
    queue.insert("item", 50 * MS);
    assert!(
        queue
            .poll_expired(&mut Context::from_waker(waker))
            .is_pending()
    );
    (sleep, queue)
}

#[test]
fn what_outlives_its_runtime_goes_on_elsewhere() {
    let (waker, woken) = noting();
    let start = Instant::now();
    let (sleep, mut queue) = orphans(&waker);
    assert!(woken.try_iter().count() >= 2, "woken by the end");
    ends(move || {
        smol::block_on(async {
            sleep.await;
            assert_eq!(queue.next_expired().await.unwrap().unwrap().payload, "item");
        });
    });
    assert!(start.elapsed() >= 50 * MS, "early");
}

/// Ends although it never waits, because it yields.
fn ends_in_time<F: Future>(work: impl FnOnce() -> F + Send + 'static) {
    ends(move || {
        let runtime = one_thread();
        runtime.block_on(async {
            let others = tokio::spawn(async {});
            assert!(timeout(5 * MS, work()).await.is_err());
            assert!(others.is_finished(), "the task beside it has run");
        });
    });
}

#[test]
fn loops_over_what_is_ready_yield() {
    ends_in_time(|| async {
        loop {
            sleep(Duration::ZERO).await;
        }
    });
    ends_in_time(|| async {
        loop {
            let _ = timeout(Duration::ZERO, pending::<()>()).await;
        }
    });
    ends_in_time(|| async {
        let mut beat = interval(MS / 100);
        loop {
            beat.tick().await;
            thread::sleep(MS / 50);
        }
    });
    ends_in_time(|| async {
        let mut queue = DelayQueue::new();
        loop {
            queue.insert((), Duration::ZERO);
            queue.next_expired().await.unwrap().unwrap();
        }
    });
    ends(|| {
        one_thread().block_on(async {
            let task = tokio::spawn(async {});
            while !task.is_finished() {
                sleep(Duration::ZERO).await;
            }
        });
    });
}

/// Its memory, too, goes from a thread that uses no runtime any more.
#[cfg(target_os = "linux")]
#[test]
fn the_thread_that_ran_a_runtime_keeps_no_memory_of_its_timers() {
    const CHILD: &str = "TICKWHEEL_RUNTIMES_MEMORY";
    if std::env::var_os(CHILD).is_none() {
        let test = "the_thread_that_ran_a_runtime_keeps_no_memory_of_its_timers";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(CHILD, "1")
            .status();
        return assert!(child.unwrap().success());
    }
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
        4096 * pages
    };
    let run = |sleeps: usize| {
        one_thread().block_on(async {
            let mut all: Vec<_> = (0..sleeps).map(|_| sleep(HOUR)).collect();
            let mut cx = Context::from_waker(Waker::noop());
            assert!(
                all.iter_mut()
                    .all(|sleep| Pin::new(sleep).poll(&mut cx).is_pending())
            );
        });
    };
    run(1000);
    let before = resident();
    run(300_000);
    let kept = resident().saturating_sub(before);
    assert!(kept < 6 << 20, "{} KiB stay", kept / 1024);
}

/// How late the ticks of an interval of 10 s come, the first one left out, in virtual time.
fn lateness(slack: Duration, behavior: MissedTickBehavior) -> Vec<Duration> {
    tickwheel_util::test::run(async move {
        let mut beat = interval(10_000 * MS);
        beat.set_slack(slack);
        beat.set_missed_tick_behavior(behavior);
        let start = beat.tick().await;
        let mut late = Vec::new();
        for n in 1..20 {
            let due = beat.tick().await;
            assert_eq!(due, start + n * 10_000 * MS, "it does not add up");
            late.push(due.elapsed());
        }
        late
    })
}

#[test]
fn ticks_are_late_by_as_much_as_their_owner_allows() {
    use MissedTickBehavior::{Burst, Delay, Skip};
    for behavior in [Burst, Delay, Skip] {
        let late = lateness(Duration::ZERO, behavior);
        assert!(late.iter().all(|late| *late <= MS));
        let late = lateness(10 * MS, behavior);
        assert!(late.iter().all(|late| *late <= 11 * MS));
        assert!(late.iter().any(|late| *late > 3 * MS));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn runtimes_that_are_gone_leave_nothing_behind() {
    const CHILD: &str = "TICKWHEEL_FIFTY_RUNTIMES";
    // In a process of its own: the counts are the process's.
    if std::env::var_os(CHILD).is_none() {
        let test = "runtimes_that_are_gone_leave_nothing_behind";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(CHILD, "1")
            .status();
        return assert!(child.unwrap().success());
    }
    let count = |what: &str| std::fs::read_dir(what).unwrap().count();
    let counts = || ["/proc/self/fd", "/proc/self/task"].map(count);
    let run = || {
        for runtime in [one_thread(), two_threads().build().unwrap()] {
            runtime.block_on(all_wait());
            // Armed when the runtime ends.
            drop(runtime.spawn(sleep(HOUR)));
            runtime.block_on(sleep(MS));
        }
    };
    run();
    // Before another thread of a runtime drops a task that its engine's end has woken, the task may be polled, and then
    // asks the process's engine. So that one has its threads from the beginning.
    one_thread().block_on(tickwheel::sleep(MS));
    let before = counts();
    for _ in 0..25 {
        run();
    }
    // A thread of the runtime may be there for a moment after its end, also when it was counted before.
    let is_left = || {
        counts()
            .into_iter()
            .zip(before)
            .any(|(now, before)| now > before)
    };
    let start = Instant::now();
    while is_left() {
        assert!(start.elapsed() < LONG, "{before:?} {:?}", counts());
        thread::sleep(MS);
    }
}
