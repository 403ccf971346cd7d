//! One runtime of one thread per core, here of smol and of monoio, and in each a timer for all its sleeps: an echo server
//! that gives up on silent clients.
//!
//! ```text
//! cargo run -p tickwheel-util --all-features --example runtime_per_core
//! ```
//!
//! `runtimes/README.md` has the lines for tokio, compio and glommio.

use std::error::Error;
use std::future::pending;
use std::time::{Duration, Instant};
use tickwheel::Settings;
use tickwheel_util::local::LocalSleeps;

const PATIENCE: Duration = Duration::from_millis(20);

/// Serves a client that says one word and falls silent; returns how many words it said.
async fn serve(sleeps: &LocalSleeps) -> u32 {
    let mut words = 0;
    loop {
        // In place of a socket: ready at once the first time, and never again.
        let word = async {
            if words > 0 {
                pending().await
            }
        };
        match sleeps.timeout(PATIENCE, word).await {
            Ok(()) => words += 1,
            Err(_late) => return words,
        }
    }
}

/// What a runtime does: it serves a client, and ticks.
async fn work(sleeps: LocalSleeps, runtime: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let start = Instant::now();
    assert_eq!(serve(&sleeps).await, 1);
    let silent = start.elapsed();
    assert!(silent >= PATIENCE, "never early");
    let mut beat = sleeps.interval(Duration::from_millis(2));
    for _ in 0..3 {
        beat.tick().await?;
    }
    println!("{runtime}: a client was silent for {silent:?}");
    Ok(())
}

fn on_smol() -> Result<(), Box<dyn Error + Send + Sync>> {
    let tasks = smol::LocalExecutor::new();
    smol::block_on(tasks.run(async {
        let sleeps = LocalSleeps::new(Settings::new())?;
        let driver = sleeps.clone();
        let drive = async move { driver.drive(smol::Timer::after).await };
        tasks.spawn(drive).detach();
        work(sleeps, "smol").await
    }))
}

#[cfg(unix)]
fn on_monoio() -> Result<(), Box<dyn Error + Send + Sync>> {
    // The driver without `io_uring`, which containers often forbid.
    let builder = monoio::RuntimeBuilder::<monoio::LegacyDriver>::new();
    builder.enable_timer().build()?.block_on(async {
        let sleeps = LocalSleeps::new(Settings::new())?;
        let driver = sleeps.clone();
        monoio::spawn(async move { driver.drive(monoio::time::sleep).await });
        work(sleeps, "monoio").await
    })
}

#[cfg(not(unix))]
fn on_monoio() -> Result<(), Box<dyn Error + Send + Sync>> {
    println!("monoio is for Unix");
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let cores = std::thread::available_parallelism()?.get();
    let start = |core: usize| {
        let runtime = if core % 2 == 0 { on_smol } else { on_monoio };
        std::thread::spawn(runtime)
    };
    let runtimes: Vec<_> = (0..cores.max(2)).map(start).collect();
    for runtime in runtimes {
        runtime.join().expect("no runtime panics")?;
    }
    Ok(())
}
