//! The same futures on tokio's two runtimes, on smol and monoio, and in a loop of one's own.

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tickwheel::{Builder, Elapsed, EventLoopTimer, Settings};
use tickwheel_util::DelayQueue;
use tickwheel_util::local::LocalSleeps;
use tokio::runtime::{Builder as Runtime, Runtime as Tokio};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn two_threads() -> Tokio {
    Runtime::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap()
}

/// What holds on every runtime.
async fn futures_keep_their_promises() {
    let start = Instant::now();
    tickwheel::sleep(5 * MS).await;
    assert!(start.elapsed() >= 5 * MS);

    assert_eq!(tickwheel::timeout(HOUR, async { 7 }).await, Ok(7));
    assert_eq!(
        tickwheel::timeout(5 * MS, pending::<()>()).await,
        Err(Elapsed)
    );

    let start = Instant::now();
    let mut interval = tickwheel::interval(2 * MS);
    for _ in 0..5 {
        interval.tick().await;
    }
    assert!(start.elapsed() >= 8 * MS);

    let start = Instant::now();
    let mut idle = tickwheel::sleep(HOUR);
    assert!(tickwheel::timeout(5 * MS, &mut idle).await.is_err());
    idle.reset(10 * MS);
    idle.await;
    assert!(
        start.elapsed() >= 15 * MS,
        "the reset counts from when it was called"
    );
}

#[test]
fn on_tokio_and_on_smol() {
    let runtime = Runtime::new_current_thread().build().unwrap();
    runtime.block_on(futures_keep_their_promises());
    let runtime = two_threads();
    let tasks: Vec<_> = (0..100)
        .map(|_| runtime.spawn(futures_keep_their_promises()))
        .collect();
    tasks
        .into_iter()
        .for_each(|task| runtime.block_on(task).unwrap());
    let tasks: Vec<_> = (0..100)
        .map(|_| smol::spawn(futures_keep_their_promises()))
        .collect();
    tasks.into_iter().for_each(smol::block_on);
}

/// Two tasks share a queue: who waits for items is woken by what the other one does.
#[test]
fn a_queue_behind_a_lock_serves_two_tasks() {
    two_threads().block_on(async {
        let queue = Arc::new(Mutex::new(DelayQueue::new()));
        let far = queue.lock().unwrap().insert(u32::MAX, HOUR);
        let shared = Arc::clone(&queue);
        let taker = tokio::spawn(async move {
            let mut taken = 0;
            while let Some(due) = poll_fn(|cx| shared.lock().unwrap().poll_expired(cx)).await {
                due.unwrap();
                taken += 1;
            }
            taken
        });
        for number in 0..200 {
            queue.lock().unwrap().insert(number, MS * (number % 7));
            if number % 16 == 0 {
                tickwheel::sleep(MS).await;
            }
        }
        tickwheel::sleep(20 * MS).await;
        assert_eq!(queue.lock().unwrap().remove(far), Some(u32::MAX));
        assert_eq!(
            taker.await.unwrap(),
            200,
            "ended by the last item's removal"
        );
    });
}

#[test]
fn the_last_removal_wakes_the_task_although_the_engine_is_busy() {
    struct Bell(AtomicU64);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let timer = Builder::new().shards(1).build().unwrap();
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let handler = move || {
        enter.send(()).unwrap();
        let _ = left.recv();
    };
    timer.run_after(Duration::ZERO, handler).unwrap();
    entered.recv().unwrap();
    let mut queue = DelayQueue::on(&timer);
    let key = queue.insert("far", HOUR);
    let bell = Arc::new(Bell(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&bell));
    let mut cx = Context::from_waker(&waker);
    assert!(queue.poll_expired(&mut cx).is_pending());
    // An item that is due already.
    queue.insert("now", Instant::now());
    assert_eq!(bell.0.load(Ordering::SeqCst), 1);
    let due = queue.poll_expired(&mut cx);
    assert!(matches!(due, Poll::Ready(Some(Ok(due))) if due.payload == "now"));
    assert!(queue.poll_expired(&mut cx).is_pending());
    assert_eq!(queue.remove(key), Some("far"));
    assert_eq!(bell.0.load(Ordering::SeqCst), 2);
    assert!(matches!(queue.poll_expired(&mut cx), Poll::Ready(None)));
    drop(leave);
}

/// Two hundred tasks of one thread that sleep, and one that another thread wakes.
fn tasks(sleeps: &LocalSleeps) -> impl Iterator<Item = impl Future<Output = ()> + use<>> {
    (0..=200).map(|number| {
        let sleeps = sleeps.clone();
        async move {
            match number {
                200 => woken_by_a_thread(sleeps).await,
                _ => sleep_often(sleeps, number).await,
            }
        }
    })
}

async fn sleep_often(sleeps: LocalSleeps, number: u32) {
    for round in 0..5 {
        let (start, delay) = (Instant::now(), MS * ((number + round) % 7));
        sleeps.sleep(delay).await.unwrap();
        assert!(start.elapsed() >= delay, "early");
    }
}

/// By then the loop sleeps without an end.
async fn woken_by_a_thread(sleeps: LocalSleeps) {
    let (start, mut is_first) = (Instant::now(), true);
    poll_fn(|cx| {
        if !std::mem::take(&mut is_first) {
            return Poll::Ready(());
        }
        let (remote, waker) = (sleeps.remote(), cx.waker().clone());
        std::thread::spawn(move || {
            std::thread::sleep(50 * MS);
            remote.schedule(20 * MS, waker.into()).unwrap();
        });
        Poll::Pending
    })
    .await;
    assert!(start.elapsed() >= 70 * MS, "early");
}

#[test]
fn a_local_set_of_tokio_is_driven_by_one_of_its_tasks() {
    let runtime = Runtime::new_current_thread().enable_time().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let sleeps = LocalSleeps::new(Settings::new()).unwrap();
    let driver = sleeps.clone();
    local.spawn_local(async move { driver.drive(tokio::time::sleep).await });
    local.block_on(&runtime, async {
        for task in tasks(&sleeps)
            .map(tokio::task::spawn_local)
            .collect::<Vec<_>>()
        {
            task.await.unwrap();
        }
    });
    assert_eq!(sleeps.pending(), 0);
}

/// A runtime per thread, each with the sleeps of its own.
#[cfg(unix)]
#[test]
fn each_runtime_of_monoio_wakes_its_own_tasks() {
    use monoio::{LegacyDriver, RuntimeBuilder};
    let run = || {
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new()
            .enable_timer()
            .build()
            .unwrap();
        let sleeps = LocalSleeps::new(Settings::new()).unwrap();
        let driver = sleeps.clone();
        runtime.block_on(async {
            monoio::spawn(async move { driver.drive(monoio::time::sleep).await });
            for task in tasks(&sleeps).map(monoio::spawn).collect::<Vec<_>>() {
                task.await;
            }
        });
        assert_eq!(sleeps.pending(), 0);
    };
    for thread in [run; 2].map(std::thread::spawn) {
        thread.join().unwrap();
    }
}

#[test]
fn a_local_executor_and_an_epoll_loop_of_ones_own_need_no_other_timer() {
    let mut poll = mio::Poll::new().unwrap();
    let mut events = mio::Events::with_capacity(8);
    let timer = EventLoopTimer::with_mio(Settings::new(), poll.registry(), mio::Token(0)).unwrap();
    let sleeps = LocalSleeps::from(timer);
    let executor = smol::LocalExecutor::new();
    let tasks: Vec<_> = tasks(&sleeps).map(|task| executor.spawn(task)).collect();
    loop {
        while executor.try_tick() {}
        if tasks.iter().all(|task| task.is_finished()) {
            break;
        }
        match poll.poll(&mut events, sleeps.poll_timeout()) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            polled => polled.unwrap(),
        }
        sleeps.fire();
    }
    tasks.into_iter().for_each(smol::block_on);
    assert_eq!(sleeps.pending(), 0);
}
