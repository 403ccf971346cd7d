//! Measures the C interface beside the timers of libuv, libevent and libev, from C: CPU time per operation, and bytes.
//!
//! Each library takes part where it is installed (Debian: `libuv1-dev`, `libevent-dev`, `libev-dev`); `make`, `cc` and
//! `pkg-config` must be. `work.c` says what is done. Each measurement runs in a process of its own, and the libraries
//! take turns.
//!
//! ```text
//! cargo run --release -p tickwheel-benches --bin c-loops -- [--rounds 3] [--timers 1000,100000,1000000]
//! ```

use clap::Parser;
use std::path::Path;
use std::process::Command;
use tickwheel_benches::goals::number;
use tickwheel_benches::machine;
use tickwheel_benches::measure::{median, parse};
use tickwheel_benches::process::{Failure, output};

#[derive(Parser)]
struct Options {
    /// Measurements of each kind; the tables show medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Timers that are pending, one table each.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 100_000, 1_000_000])]
    timers: Vec<usize>,
    /// Operations that are measured.
    #[arg(long, default_value_t = 2_000_000)]
    steps: usize,
}

/// The libraries: the name in the tables, the one that `work.c` knows, and the compiler's options if they are not those
/// of pkg-config.
const LIBRARIES: [(&str, &str, &str); 5] = [
    ("tickwheel", "TICKWHEEL", "tickwheel"),
    ("tickwheel, with remotes", "REMOTES", "tickwheel"),
    ("libuv", "LIBUV", "libuv"),
    ("libevent", "LIBEVENT", "libevent"),
    ("libev", "LIBEV", "-lev"),
];

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let folder = tempfile::tempdir()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = root.join("target");
    let target = std::env::var("CARGO_TARGET_DIR").map_or(target, Into::into);
    let path = |path: &Path| path.display().to_string();
    output(Command::new("make").args([
        "-C",
        &path(&root.join("c")),
        // An install by itself takes what an earlier commit has built.
        "all",
        "install",
        "PREFIX=/usr",
        &format!("DESTDIR={}", path(folder.path())),
        &format!("TARGET={}", path(&std::path::absolute(target)?)),
    ]))?;
    let mut programs = Vec::new();
    for (library, define, package) in LIBRARIES {
        let Some(linked) = link_options(folder.path(), package) else {
            println!("{library} is not installed");
            continue;
        };
        let program = folder.path().join(define);
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/c_loops/work.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-D_GNU_SOURCE", &format!("-D{define}"), source]);
        compiler.args(linked).arg("-o").arg(&program);
        match output(&mut compiler) {
            Ok(_) => programs.push((library, program)),
            Err(error) => println!("{library} does not take part: {error}"),
        }
    }
    println!("{}", machine::head());
    for timers in &options.timers {
        let mut rows: Vec<_> = programs.iter().map(|_| Vec::new()).collect();
        for _ in 0..options.rounds {
            for ((_, program), row) in programs.iter().zip(&mut rows) {
                let mut work = Command::new(program);
                work.args([timers.to_string(), options.steps.to_string()]);
                work.env("LD_LIBRARY_PATH", folder.path().join("usr/lib"));
                row.push(parse(&output(&mut work)?.stdout));
            }
        }
        let figures: Vec<&str> = rows[0][0].iter().map(|figure| &*figure.0).collect();
        println!(
            "\n{timers} timers, ns of CPU time\n\n| | {} |",
            figures.join(" | ")
        );
        println!("|---|{}", "--:|".repeat(figures.len()));
        for ((library, _), row) in programs.iter().zip(&rows) {
            let cells: Vec<_> = (0..figures.len())
                .filter_map(|at| median(row.iter().map(|figures| figures[at].1).collect()))
                .map(number)
                .collect();
            println!("| {library} | {} |", cells.join(" | "));
        }
    }
    Ok(())
}

/// Returns the compiler's options for a library; `None` if it is not installed.
fn link_options(folder: &Path, package: &str) -> Option<Vec<String>> {
    if package.starts_with('-') {
        return Some(vec![package.to_owned()]);
    }
    let mut tool = Command::new("pkg-config");
    if package == "tickwheel" {
        tool.env("PKG_CONFIG_LIBDIR", folder.join("usr/lib/pkgconfig"))
            .env("PKG_CONFIG_SYSROOT_DIR", folder)
            .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
            .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1");
    }
    let told = output(tool.args(["--cflags", "--libs", package])).ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    Some(told.split_whitespace().map(str::to_owned).collect())
}
