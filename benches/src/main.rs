//! `compare`: tickwheel beside its peers, each in a process of its own, repeats interleaved.
//!
//! ```sh
//! cargo run --release -p tickwheel-benches -- --quick
//! cargo run --release -p tickwheel-benches -- --only churn,life --repeats 7
//! cargo run --release -p tickwheel-benches -- --out docs/performance/comparison.md
//! ```

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tickwheel_benches::figure::{Figure, GROUPS, Scale};
use tickwheel_benches::peer::Peer;
use tickwheel_benches::report::{Circumstances, draw, insert, render};
use tickwheel_benches::results::Results;
use tickwheel_benches::{child, goals};

/// Measures tickwheel beside its peers and checks the goals of the performance page.
#[derive(Parser)]
#[command(name = "compare", version)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Fewer steps and 3 repeats; leaves out the figures of ten million timers.
    #[arg(long)]
    quick: bool,
    /// The figures to measure, by group or by name; everything if not given.
    #[arg(long, value_delimiter = ',', value_name = "GROUP")]
    only: Vec<String>,
    /// The peers to measure, by name; everybody if not given.
    #[arg(long, value_delimiter = ',', value_name = "PEER")]
    peers: Vec<Peer>,
    /// Repeats, of which the median counts [default: 5, quick: 3].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    repeats: Option<u16>,
    /// Writes the tables into this Markdown page, between its marks, and charts into a folder beside it.
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
    /// Sizes that only test this program.
    #[arg(long, hide = true)]
    tiny: bool,
    #[command(subcommand)]
    job: Option<Job>,
}

#[derive(Subcommand)]
enum Job {
    /// One measurement, in this process.
    #[command(hide = true)]
    Child { figure: String, peer: Peer, scale: Scale },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Job::Child { figure, peer, scale }) = arguments.job {
        let Some(figure) = Figure::of_id(&figure) else {
            eprintln!("there is no figure {figure}");
            return ExitCode::FAILURE;
        };
        child::run(figure, peer, scale);
        return ExitCode::SUCCESS;
    }
    match compare(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> Result<(), String> {
    let scale = match arguments {
        Arguments { tiny: true, .. } => Scale::Tiny,
        Arguments { quick: true, .. } => Scale::Quick,
        _ => Scale::Full,
    };
    let figures = chosen(scale, &arguments.only)?;
    let default = if scale == Scale::Full { 5 } else { 3 };
    let repeats = usize::from(arguments.repeats.unwrap_or(default));
    let mut circumstances = Circumstances::now();
    let results = measure(&figures, &arguments.peers, scale, repeats);
    circumstances.ended();

    let verdicts = goals::check(&results);
    let folder = arguments.out.as_deref().map(charts_of);
    let name = folder.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let page = render(&results, &verdicts, &circumstances, repeats, name.as_deref());
    println!("{page}");
    if let (Some(out), Some(folder)) = (&arguments.out, &folder) {
        write(out, folder, &page, &results)
            .map_err(|error| format!("{}: {error}", out.display()))?;
        eprintln!("written to {} and {}", out.display(), folder.display());
    }
    Ok(())
}

fn chosen(scale: Scale, only: &[String]) -> Result<Vec<Figure>, String> {
    let all = Figure::all(scale);
    let known = |name: &String| {
        GROUPS.contains(&name.as_str()) || all.iter().any(|figure| figure.id() == *name)
    };
    if let Some(stranger) = only.iter().find(|name| !known(name)) {
        let ids: Vec<_> = all.iter().map(|figure| figure.id()).collect();
        return Err(format!(
            "there is no figure {stranger}; groups: {}; figures: {}",
            GROUPS.join(", "),
            ids.join(", ")
        ));
    }
    let wanted = |figure: &Figure| {
        only.is_empty() || only.iter().any(|name| name == figure.group() || *name == figure.id())
    };
    Ok(all.into_iter().filter(wanted).collect())
}

/// Repeats on the outside, peers on the inside: whatever else the machine does hits all of them.
fn measure(figures: &[Figure], only: &[Peer], scale: Scale, repeats: usize) -> Results {
    let mut results = Results::default();
    let start = Instant::now();
    for figure in figures {
        let mut peers = figure.peers();
        peers.retain(|peer| only.is_empty() || only.contains(peer));
        for repeat in 0..repeats {
            // Nobody always comes first, or always after the same one.
            let first = repeat % peers.len().max(1);
            peers.rotate_left(first);
            for peer in &peers {
                let seconds = start.elapsed().as_secs();
                eprint!(
                    "\r\x1b[K[{seconds:4} s] {} {}/{repeats} {}",
                    figure.id(),
                    repeat + 1,
                    peer.name()
                );
                let outcome = child::spawn(*figure, *peer, scale);
                if let Err(failure) = &outcome {
                    eprintln!(": failed: {failure}");
                }
                results.add(*figure, *peer, outcome);
            }
        }
    }
    eprintln!("\r\x1b[K[{:4} s] done", start.elapsed().as_secs());
    results
}

/// The folder beside a page: `docs/performance/comparison.md` has `docs/performance`.
fn charts_of(out: &Path) -> PathBuf {
    let stem = out.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    out.with_file_name(stem)
}

fn write(out: &Path, folder: &Path, page: &str, results: &Results) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for table in &results.tables {
        if let Some(svg) = draw(table) {
            std::fs::write(folder.join(format!("{}.svg", table.figure.id())), svg)?;
        }
    }
    let old = std::fs::read_to_string(out).unwrap_or_default();
    std::fs::write(out, insert(&old, page))
}
