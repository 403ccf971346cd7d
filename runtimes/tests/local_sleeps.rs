//! `LocalSleeps` on five runtimes of one thread.
#![cfg(target_os = "linux")]

use futures_lite::{StreamExt as _, stream};
use std::error::Error;
use std::future::{pending, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};
use tickwheel::{Settings, TimeoutError};
use tickwheel_util::FutureExt;
use tickwheel_util::local::LocalSleeps;
use tickwheel_util::stream::StreamExt;

const MS: Duration = Duration::from_millis(1);

/// Sleeps, limits the time of another future and of a stream, ticks, and is woken by another thread.
async fn work(sleeps: &LocalSleeps) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    sleeps.sleep(5 * MS).await?;
    assert!(start.elapsed() >= 5 * MS, "early");

    assert_eq!(sleeps.timeout(3_600_000 * MS, async { 7 }).await?, 7);
    let start = Instant::now();
    let late = pending::<()>().timeout_on(sleeps, 3 * MS).await;
    assert_eq!(late, Err(TimeoutError::Elapsed));
    assert!(start.elapsed() >= 3 * MS, "early");

    let start = Instant::now();
    let mut beat = sleeps.interval(2 * MS);
    for _ in 0..5 {
        beat.tick().await?;
    }
    assert!(start.elapsed() >= 8 * MS, "early");

    let items = stream::once(1).chain(stream::pending());
    let mut limited = std::pin::pin!(items.timeout_on(sleeps, 2 * MS));
    assert_eq!(limited.next().await, Some(Ok(1)));
    assert_eq!(limited.next().await, Some(Err(TimeoutError::Elapsed)));

    // Another thread wakes this task, in one millisecond.
    let mut remote = Some(sleeps.remote());
    let start = Instant::now();
    poll_fn(|cx| {
        let Some(remote) = remote.take() else {
            // A runtime may poll a task that nothing has woken. If the wake were early, or did not come, this would
            // wait for ever.
            return if start.elapsed() < MS {
                Poll::Pending
            } else {
                Poll::Ready(())
            };
        };
        let waker = cx.waker().clone();
        std::thread::spawn(move || remote.schedule(MS, waker.into()).map(drop).is_ok());
        Poll::Pending
    })
    .await;
    Ok(())
}

#[test]
fn sleeps_of_one_thread_work_on_tokio() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let sleeps = LocalSleeps::new(Settings::new())?;
        let driver = sleeps.clone();
        tokio::task::spawn_local(async move { driver.drive(tokio::time::sleep).await });
        work(&sleeps).await
    })
}

#[test]
fn sleeps_of_one_thread_work_on_smol() -> Result<(), Box<dyn Error>> {
    let tasks = smol::LocalExecutor::new();
    smol::block_on(tasks.run(async {
        let sleeps = LocalSleeps::new(Settings::new())?;
        let driver = sleeps.clone();
        tasks
            .spawn(async move { driver.drive(smol::Timer::after).await })
            .detach();
        work(&sleeps).await
    }))
}

#[test]
fn sleeps_of_one_thread_work_on_monoio() -> Result<(), Box<dyn Error>> {
    let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
        .enable_timer()
        .build()?;
    runtime.block_on(async {
        let sleeps = LocalSleeps::new(Settings::new())?;
        let driver = sleeps.clone();
        monoio::spawn(async move { driver.drive(monoio::time::sleep).await });
        work(&sleeps).await
    })
}

#[test]
fn sleeps_of_one_thread_work_on_compio() -> Result<(), Box<dyn Error>> {
    let runtime = compio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let sleeps = LocalSleeps::new(Settings::new())?;
        let driver = sleeps.clone();
        compio::runtime::spawn(async move { driver.drive(compio::runtime::time::sleep).await })
            .detach();
        work(&sleeps).await
    })
}

#[test]
fn sleeps_of_one_thread_work_on_glommio() -> Result<(), Box<dyn Error>> {
    let executor = glommio::LocalExecutorBuilder::default().make()?;
    executor.run(async {
        let sleeps = LocalSleeps::new(Settings::new())?;
        let driver = sleeps.clone();
        glommio::spawn_local(async move { driver.drive(glommio::timer::sleep).await }).detach();
        work(&sleeps).await
    })
}
