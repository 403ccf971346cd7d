//! `walk`: which functions and files of `src` one public call runs through, counted by callgrind.
//!
//! ```sh
//! cargo run -p tickwheel-benches --bin walk             # a table
//! cargo run -p tickwheel-benches --bin walk -- turn     # the functions of one walk, file by file
//! ```
//!
//! It tells how much a reader must open to follow a timer, for information: no count is a limit. Without optimisation a
//! function is one even where a release build folds it into its caller; only what is `#[inline(always)]` does not count.
//! Closures count, and all copies of a generic function are one.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;
use tickwheel::{Builder, Drive, Expired, LocalTimer, ManualClock, Time, Timer};
use tickwheel_benches::process::{Failure, arguments, callgrind, find};

/// The walk that happens on a worker's thread, below the function of its loop.
const WORKER: &str = "worker";

const MS: Duration = Duration::from_millis(1);

/// A walk through an engine that is turned by hand.
type Walk = fn(&Timer<u64>, &ManualClock);

const WALKS: [(&str, Walk); 6] = [
    ("schedule", |timer, _| _ = walked(|| timer.schedule(MS, 2))),
    ("cancel", |timer, _| {
        let key = timer.schedule(MS, 2).expect("there is room");
        assert!(walked(|| timer.cancel(key)).is_won());
    }),
    // One timer fires.
    ("turn", |timer, clock| {
        timer.schedule(MS, 2).expect("there is room");
        clock.advance(2 * MS);
        assert_eq!(walked(|| timer.turn()), Ok(1));
    }),
    // All that a worker does from its start to its end: it sleeps, is woken, fires one timer, and sleeps.
    (WORKER, |_, _| {
        let (fired, fires) = channel();
        let timer = Builder::new()
            .shards(1)
            .build_with(move |expired: Expired<u64>| _ = fired.send(expired.payload))
            .expect("the settings are valid");
        timer.start().expect("there is a thread");
        timer.wait_idle();
        timer.schedule(MS, 2).expect("there is room");
        assert_eq!(fires.recv(), Ok(2));
        timer.wait_idle();
        assert!(timer.stop().is_ok_and(|left| left.is_empty()));
    }),
    // One timer is pending.
    ("stop", |timer, _| {
        timer.schedule(MS, 2).expect("there is room");
        assert_eq!(walked(|| timer.stop()).map(|rest| rest.len()), Ok(1));
    }),
    // One timer fires.
    ("local-poll", |_, _| {
        let mut local = LocalTimer::new(MS).expect("the settings are valid");
        let mut schedule_and_poll = |at, poll: fn(&mut LocalTimer<u64>, Time) -> usize| {
            local.schedule(at, MS, 2).expect("there is room");
            assert_eq!(poll(&mut local, at + 2 * MS), 1);
        };
        schedule_and_poll(Time::ZERO, |local, now| local.poll(now, |_| ()).fired);
        let at = Time::ZERO + 4 * MS;
        schedule_and_poll(at, |local, now| walked(|| local.poll(now, |_| ())).fired);
    }),
];

fn main() -> Result<(), Failure> {
    let arguments = arguments();
    if let ["--child", name] = arguments[..] {
        let clock = ManualClock::new();
        let builder = Builder::new()
            .shards(1)
            .drive(Drive::Manual)
            .clock(clock.clone());
        let timer = builder.build_with(|expired: Expired<u64>| _ = black_box(expired.payload))?;
        // Once before, so that what happens only the first time does not count.
        let key = timer.schedule(MS, 1)?;
        assert!(timer.cancel(key).is_won());
        timer.schedule(MS, 1)?;
        clock.advance(2 * MS);
        assert_eq!(timer.turn(), Ok(1));
        find(&WALKS, name)?(&timer, &clock);
        return Ok(());
    }
    if let [name] = arguments[..] {
        find(&WALKS, name)?;
    }
    println!(
        "{:14} {:>9} {:>5} {:>5}",
        "walk", "functions", "files", "rooms"
    );
    for (name, _) in WALKS
        .iter()
        .filter(|walk| arguments.first().is_none_or(|it| *it == walk.0))
    {
        let functions = functions_of(name)?;
        let files: BTreeSet<&str> = functions.iter().map(|(file, _)| file.as_str()).collect();
        let rooms: BTreeSet<_> = files.iter().map(|file| file.split('/').next()).collect();
        println!(
            "{name:14} {:9} {:5} {:5}",
            functions.len(),
            files.len(),
            rooms.len()
        );
        for (file, function) in functions.iter().filter(|_| !arguments.is_empty()) {
            println!("  {file:32} {function}");
        }
    }
    Ok(())
}

/// Runs one walk under callgrind and returns the functions of the library and its core, each with its file.
fn functions_of(name: &str) -> Result<BTreeSet<(String, String)>, Failure> {
    let from = if name == WORKER {
        "--toggle-collect=tickwheel::engine::crew::worker::turn_until_the_end"
    } else {
        "--toggle-collect=walk::walked*"
    };
    let counts = callgrind(&[from], &["--child", name])?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = [
        here.join("../src").canonicalize()?,
        here.join("../core/src").canonicalize()?,
    ];
    let (mut file, mut functions, mut is_seen) = (None, BTreeSet::new(), false);
    for line in counts.lines() {
        if let Some(path) = line.strip_prefix("fl=") {
            let path = Path::new(path);
            let below = sources.iter().find_map(|src| path.strip_prefix(src).ok());
            file = below.map(|path| path.to_string_lossy().into_owned());
        }
        is_seen |= line.starts_with("fn=")
            && ["tickwheel::", "tickwheel_core::"]
                .iter()
                .any(|it| line.contains(it));
        if let (Some(function), Some(file)) = (line.strip_prefix("fn="), &file) {
            functions.insert((file.clone(), plain(function)));
        }
    }
    match (functions.is_empty(), is_seen) {
        (false, _) => Ok(functions),
        (true, true) => Err(format!("{name}: built without debug information").into()),
        (true, false) => Err(format!("{name}: no function was seen").into()),
    }
}

/// Strips the hash and the mark of a recursion from a function's name.
fn plain(function: &str) -> String {
    let function = function.split('\'').next().unwrap_or(function);
    let hash = function.rfind("::h").filter(|at| function.len() - at == 19);
    function[..hash.unwrap_or(function.len())].to_owned()
}

/// Does what is counted, and nothing else: callgrind looks for it by its name.
#[inline(never)]
fn walked<R>(call: impl FnOnce() -> R) -> R {
    black_box(call())
}
