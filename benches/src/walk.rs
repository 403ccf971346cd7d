//! `walk`: which functions and files of `src` one public call runs through, counted by callgrind.
//!
//! ```sh
//! cargo run -p tickwheel-benches --bin walk             # a table
//! cargo run -p tickwheel-benches --bin walk -- turn     # the functions of one walk, file by file
//! ```
//!
//! It is the measure of how much a reader must open to follow a timer. Without optimisation a function is one even
//! where a release build folds it into its caller; only what is `#[inline(always)]` does not count. Closures count, and
//! all copies of a generic function are one.

use clap::{Parser, ValueEnum};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tickwheel::{Builder, Drive, Expired, LocalTimer, ManualClock, Time, Timer};
use tickwheel_benches::valgrind;

const MS: Duration = Duration::from_millis(1);
/// The most that a turn with one fire may take: functions, files.
const TURN: (usize, usize) = (140, 35);

/// Counts the functions and files of `src` that one public call runs through.
#[derive(Parser)]
#[command(name = "walk", version)]
struct Arguments {
    /// Lists the functions of this walk.
    walk: Option<Walk>,
    /// One walk, in this process.
    #[arg(long, hide = true)]
    child: Option<Walk>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Walk {
    /// `Timer::schedule_key`.
    ScheduleKey,
    /// `Timer::cancel`.
    Cancel,
    /// A turn by hand in which one timer fires.
    Turn,
    /// `Timer::stop` with one timer pending.
    Stop,
    /// A poll of a `LocalTimer` in which one timer fires.
    LocalPoll,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(walk) = arguments.child {
        perform(walk);
        return ExitCode::SUCCESS;
    }
    match report(arguments.walk) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("a turn may take {} functions in {} files at most", TURN.0, TURN.1);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table, or the functions of one walk; returns whether the turn keeps its bounds.
fn report(only: Option<Walk>) -> Result<bool, String> {
    let mut is_short = true;
    println!("{:14} {:>9} {:>5} {:>5}", "walk", "functions", "files", "rooms");
    for walk in Walk::value_variants().iter().filter(|walk| only.is_none_or(|it| it == **walk)) {
        let functions = functions_of(*walk)?;
        let files: BTreeSet<&str> = functions.iter().map(|(file, _)| file.as_str()).collect();
        let room = |file: &&str| file.split('/').next().unwrap_or_default().to_owned();
        let rooms: BTreeSet<String> = files.iter().map(room).collect();
        let counts = (functions.len(), files.len());
        println!("{:14} {:9} {:5} {:5}", name(*walk), counts.0, counts.1, rooms.len());
        is_short &= *walk != Walk::Turn || (counts.0 <= TURN.0 && counts.1 <= TURN.1);
        for (file, function) in functions.iter().filter(|_| only.is_some()) {
            println!("  {file:32} {function}");
        }
    }
    Ok(is_short)
}

fn name(walk: Walk) -> String {
    walk.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Runs one walk under callgrind and returns the functions below `src`, each with its file.
fn functions_of(walk: Walk) -> Result<BTreeSet<(String, String)>, String> {
    let counts = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let out = format!("--callgrind-out-file={}", counts.path().display());
    let only =
        ["--tool=callgrind", "--toggle-collect=walk::walked*", "--compress-strings=no", &out];
    let status = valgrind::this_program(&only, &["--child", &name(walk)])?
        .stderr(Stdio::null())
        .status()
        .map_err(|error| valgrind::not_started(&error))?;
    let counts = std::fs::read_to_string(counts.path()).map_err(|error| error.to_string())?;
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let src = src.canonicalize().map_err(|error| error.to_string())?;
    let (mut file, mut functions) = (None, BTreeSet::new());
    for line in counts.lines() {
        if let Some(path) = line.strip_prefix("fl=") {
            let below = Path::new(path).strip_prefix(&src).ok();
            file = below.map(|path| path.to_string_lossy().into_owned());
        } else if let (Some(function), Some(file)) = (line.strip_prefix("fn="), &file) {
            functions.insert((file.clone(), plain(function)));
        }
    }
    match functions.is_empty() {
        true => Err(format!("{}: no function was seen ({status})", name(walk))),
        false => Ok(functions),
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

fn engine() -> (Timer<u64>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Builder::new().shards(1).drive(Drive::Manual).clock(clock.clone());
    let timer = builder.build_with(|expired: Expired<u64>| _ = black_box(expired.payload));
    (timer.expect("the settings are valid"), clock)
}

fn perform(walk: Walk) {
    let (timer, clock) = engine();
    // Once before, so that what happens only the first time does not count.
    let key = timer.schedule_key(MS, 1).expect("there is room");
    assert!(timer.cancel(key).won());
    timer.schedule_key(MS, 1).expect("there is room");
    clock.advance(2 * MS);
    assert_eq!(timer.turn(), Ok(1));
    match walk {
        Walk::ScheduleKey => _ = walked(|| timer.schedule_key(MS, 2)),
        Walk::Cancel => {
            let key = timer.schedule_key(MS, 2).expect("there is room");
            assert!(walked(|| timer.cancel(key)).won());
        }
        Walk::Turn => {
            timer.schedule_key(MS, 2).expect("there is room");
            clock.advance(2 * MS);
            assert_eq!(walked(|| timer.turn()), Ok(1));
        }
        Walk::Stop => {
            timer.schedule_key(MS, 2).expect("there is room");
            assert_eq!(walked(|| timer.stop()).map(|rest| rest.len()), Ok(1));
        }
        Walk::LocalPoll => {
            let mut local = LocalTimer::new(MS).expect("the settings are valid");
            for at in [Time::ZERO, Time::ZERO + 4 * MS] {
                local.schedule(at, MS, 2).expect("there is room");
                let later = at + 2 * MS;
                let mut fired = 0;
                walked_if(at > Time::ZERO, || local.poll(later, |_| fired += 1));
                assert_eq!(fired, 1);
            }
        }
    }
}

fn walked_if<R>(counts: bool, call: impl FnOnce() -> R) -> R {
    if counts { walked(call) } else { call() }
}
