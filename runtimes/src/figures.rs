//! The measurements, the same for every runtime.

use clap::{Parser, ValueEnum};
use nix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tickwheel::Settings;
use tickwheel_benches::goals::number;
use tickwheel_benches::machine;
use tickwheel_benches::measure::{Metrics, median, parse, per, resident_bytes};
use tickwheel_benches::process::{Failure, name, output, this_program};
use tickwheel_benches::ratio::{Pair, Ratio, Rounds, pair_up};
use tickwheel_util::local::LocalSleeps;

#[derive(Parser)]
struct Options {
    /// Measurements of each kind at most; the table shows medians and intervals of 95 %.
    #[arg(long, default_value_t = 12)]
    rounds: usize,
    /// Sizes that only test this program.
    #[arg(long)]
    tiny: bool,
    /// Makes one measurement in this process.
    #[arg(long, hide = true, requires = "timer")]
    runtime: Option<Which>,
    #[arg(long, hide = true)]
    timer: Option<TimerOf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Tokio,
    Smol,
    Monoio,
    Compio,
    Glommio,
}

/// Whose sleeps are measured.
#[derive(Clone, Copy, ValueEnum)]
enum TimerOf {
    Runtime,
    Tickwheel,
}

pub fn main() -> Result<(), Failure> {
    let options = Options::parse();
    if let (Some(runtime), Some(timer)) = (options.runtime, options.timer) {
        let measure = match runtime {
            Which::Tokio => measure::<Tokio>,
            Which::Smol => measure::<Smol>,
            Which::Monoio => measure::<Monoio>,
            Which::Compio => measure::<Compio>,
            Which::Glommio => measure::<Glommio>,
        };
        for (name, value) in measure(timer, options.tiny) {
            println!("{name}\t{value}");
        }
        return Ok(());
    }
    println!("{}\n", machine::head());
    println!("| runtime, timer | made, polled, dropped ns | fired ns | bytes |\n|---|--:|--:|--:|");
    for runtime in Which::value_variants() {
        let timers = TimerOf::value_variants();
        let slice = |timer: usize| {
            let timer = name(&timers[timer]);
            let mut child = this_program(&["--runtime", &name(runtime), "--timer", &timer]);
            if options.tiny {
                child.arg("--tiny");
            }
            Ok(parse(&output(&mut child)?.stdout))
        };
        let ratios = |all: &[Vec<Vec<(String, f64)>>]| -> Vec<Vec<Pair>> {
            let figure = |at: usize| pair_up(all, |round| (round[1][at].1, round[0][at].1));
            (0..2).map(figure).collect()
        };
        let all = Rounds::at_most(options.rounds).measure(timers.len(), slice, ratios)?;
        for (timer, which) in timers.iter().enumerate() {
            let cells = (0..3).filter_map(|at| {
                let values = all.iter().map(|round| round[timer][at].1);
                median(values.collect()).map(number)
            });
            let cells = cells.collect::<Vec<_>>().join(" | ");
            println!("| {}, {} | {cells} |", name(runtime), name(which));
        }
        let cells = ratios(&all)
            .iter()
            .map(|pairs| Ratio::cell(pairs))
            .collect::<Vec<_>>()
            .join(" | ");
        println!(
            "| tickwheel beside it, 95 % of {} rounds | {cells} | |",
            all.len()
        );
    }
    println!("\nload average {} after", machine::load());
    Ok(())
}

/// A runtime of one thread.
trait Runtime: 'static {
    fn block_on<F: Future>(future: F) -> F::Output;

    fn spawn(task: impl Future<Output = ()> + 'static);

    /// The runtime's own.
    fn sleep(delay: Duration) -> impl Future<Output = ()> + 'static;
}

fn measure<R: Runtime>(timer: TimerOf, tiny: bool) -> Metrics {
    R::block_on(async {
        match timer {
            TimerOf::Runtime => figures::<R, _>(R::sleep, tiny).await,
            TimerOf::Tickwheel => {
                let sleeps = LocalSleeps::new(Settings::new()).expect("the defaults are valid");
                let driver = sleeps.clone();
                R::spawn(async move { match driver.drive(R::sleep).await {} });
                figures::<R, _>(move |delay| sleeps.sleep(delay), tiny).await
            }
        }
    })
}

/// Pieces in which sleeps are made and dropped.
const CHUNKS: usize = 40;

/// Returns the processor time of this thread.
fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.expect("the clock of the own thread").into()
}

async fn figures<R: Runtime, S: Future + 'static>(
    sleep: impl Fn(Duration) -> S + 'static,
    tiny: bool,
) -> Metrics {
    let minute = Duration::from_secs(60);
    let lives = if tiny { 1_000 } else { 1_000_000 };
    // Chunks, of which the least counts: an interrupt is charged to the thread that it interrupts. The runtime has its
    // turn in between, to tidy up.
    let mut least = Duration::MAX;
    for _ in 0..CHUNKS {
        let start = thread_cpu();
        for _ in 0..lives / CHUNKS {
            let mut sleep = pin!(sleep(minute));
            poll_fn(|cx| {
                assert!(sleep.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        least = least.min(thread_cpu() - start);
        R::sleep(Duration::from_millis(1)).await;
    }

    // Not more: glommio counts the wakers of a task in sixteen bits.
    let armed = if tiny { 1_000 } else { 30_000 };
    let mut sleeps = Vec::with_capacity(armed);
    // Written, so that it is there before the count begins; each sleep is on the heap, as in its task.
    sleeps.resize_with(armed, || None);
    let before = resident_bytes();
    for place in &mut sleeps {
        let mut sleep = Box::pin(sleep(minute));
        poll_fn(|cx| {
            assert!(sleep.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        *place = Some(sleep);
    }
    let bytes = (resident_bytes() - before) / armed as f64;
    drop(sleeps);

    let tasks = if tiny { 100 } else { 100_000 };
    let left = Rc::new(Cell::new(tasks));
    // Due between 500 and 1500 ms, when all tasks have been polled once.
    for task in 0..tasks {
        let delay =
            Duration::from_millis(500) + Duration::from_micros(task as u64 * 618 % 1_000_000);
        let (sleep, left) = (sleep(delay), Rc::clone(&left));
        R::spawn(async move {
            sleep.await;
            left.set(left.get() - 1);
        });
    }
    R::sleep(Duration::from_millis(250)).await;
    let start = thread_cpu();
    while left.get() > 0 {
        R::sleep(Duration::from_millis(100)).await;
    }
    let fired = thread_cpu() - start;
    vec![
        ("made, polled, dropped ns", per(least, lives / CHUNKS)),
        ("fired ns", per(fired, tasks)),
        ("bytes", bytes),
    ]
}

struct Tokio;

impl Runtime for Tokio {
    fn block_on<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        // The figures do not yield, which tokio's budget of a task would ask for.
        let future = tokio::task::coop::unconstrained(future);
        tokio::task::LocalSet::new().block_on(&runtime, future)
    }

    fn spawn(task: impl Future<Output = ()> + 'static) {
        tokio::task::spawn_local(task);
    }

    fn sleep(delay: Duration) -> impl Future<Output = ()> + 'static {
        tokio::time::sleep(delay)
    }
}

struct Smol;

thread_local! {
    static TASKS: &'static smol::LocalExecutor<'static> =
        Box::leak(Box::new(smol::LocalExecutor::new()));
}

impl Runtime for Smol {
    fn block_on<F: Future>(future: F) -> F::Output {
        smol::block_on(TASKS.with(|tasks| tasks.run(future)))
    }

    fn spawn(task: impl Future<Output = ()> + 'static) {
        TASKS.with(|tasks| tasks.spawn(task).detach());
    }

    fn sleep(delay: Duration) -> impl Future<Output = ()> + 'static {
        let timer = smol::Timer::after(delay);
        async move { _ = timer.await }
    }
}

struct Monoio;

impl Runtime for Monoio {
    fn block_on<F: Future>(future: F) -> F::Output {
        let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
            .enable_timer()
            .build()
            .expect("a runtime");
        runtime.block_on(future)
    }

    fn spawn(task: impl Future<Output = ()> + 'static) {
        drop(monoio::spawn(task));
    }

    fn sleep(delay: Duration) -> impl Future<Output = ()> + 'static {
        monoio::time::sleep(delay)
    }
}

struct Compio;

impl Runtime for Compio {
    fn block_on<F: Future>(future: F) -> F::Output {
        compio::runtime::Runtime::new()
            .expect("a runtime")
            .block_on(future)
    }

    fn spawn(task: impl Future<Output = ()> + 'static) {
        compio::runtime::spawn(task).detach();
    }

    fn sleep(delay: Duration) -> impl Future<Output = ()> + 'static {
        compio::runtime::time::sleep(delay)
    }
}

struct Glommio;

impl Runtime for Glommio {
    fn block_on<F: Future>(future: F) -> F::Output {
        let executor = glommio::LocalExecutorBuilder::default().make();
        executor.expect("a runtime").run(future)
    }

    fn spawn(task: impl Future<Output = ()> + 'static) {
        glommio::spawn_local(task).detach();
    }

    fn sleep(delay: Duration) -> impl Future<Output = ()> + 'static {
        let timer = glommio::timer::Timer::new(delay);
        async move { _ = timer.await }
    }
}
