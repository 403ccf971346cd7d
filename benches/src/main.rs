//! `compare`: tickwheel beside its peers, each in a process of its own, repeats interleaved.
//!
//! ```sh
//! cargo run --release -p tickwheel-benches -- --quick
//! cargo run --release -p tickwheel-benches -- --only churn,life --repeats 7
//! cargo run --release -p tickwheel-benches -- --out benches/results/comparison.md
//! ```

use clap::Parser;
use clap::builder::PossibleValuesParser;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;
use tickwheel_benches::figure::{Figure, Scale};
use tickwheel_benches::machine::load;
use tickwheel_benches::peer::Peer;
use tickwheel_benches::process::{Failure, name, output, this_program};
use tickwheel_benches::report::{draw, insert, render};
use tickwheel_benches::results::Table;
use tickwheel_benches::{cross, local, measure, servers};

/// Measures tickwheel beside its peers and checks the goals of the performance page.
#[derive(Parser)]
#[command(name = "compare", version)]
struct Arguments {
    /// Fewer steps and 3 repeats; leaves out the figures of ten million timers.
    #[arg(long)]
    quick: bool,
    /// The figures to measure, by group or by name; everything if not given.
    #[arg(long, value_delimiter = ',', value_name = "GROUP", value_parser = names())]
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
    /// Measures the chosen figure of the chosen peer once, in this process.
    #[arg(long, hide = true)]
    child: bool,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let scale = match arguments {
        Arguments { tiny: true, .. } => Scale::Tiny,
        Arguments { quick: true, .. } => Scale::Quick,
        _ => Scale::Full,
    };
    let is_chosen = |figure: &Figure| {
        let mut only = arguments.only.iter();
        only.len() == 0 || only.any(|name| name == figure.id || name == figure.group())
    };
    let figures: Vec<_> = Figure::all(scale).into_iter().filter(is_chosen).collect();
    if arguments.child {
        let ([figure], [peer]) = (&figures[..], &arguments.peers[..]) else {
            return Err("a child measures one figure of one peer".into());
        };
        let measure = if figure.work.is_local() {
            local::measure
        } else if figure.work.is_of_servers() {
            servers::measure
        } else {
            cross::measure
        };
        for (name, value) in measure(figure.work, *peer, scale) {
            println!("{name}\t{value}");
        }
        return Ok(());
    }
    let default = if scale == Scale::Full { 5 } else { 3 };
    let repeats = usize::from(arguments.repeats.unwrap_or(default));
    let before = load();
    let results = measure_all(figures, &arguments.peers, scale, repeats);
    // `benches/results/comparison.md` has its charts in `benches/results/comparison`.
    let folder = arguments.out.as_ref().map(|out| out.with_extension(""));
    let charts = folder
        .as_ref()
        .and_then(|folder| folder.file_name()?.to_str());
    let page = render(&results, &before, repeats, charts);
    println!("{page}");
    if let (Some(out), Some(folder)) = (&arguments.out, &folder) {
        std::fs::create_dir_all(folder)?;
        for table in &results {
            if let Some(svg) = draw(table) {
                std::fs::write(folder.join(format!("{}.svg", table.figure.id)), svg)?;
            }
        }
        let old = std::fs::read_to_string(out).unwrap_or_default();
        std::fs::write(out, insert(&old, &page))?;
        eprintln!("written to {} and {}", out.display(), folder.display());
    }
    Ok(())
}

/// Returns the names that `--only` takes.
fn names() -> PossibleValuesParser {
    let all = Figure::all(Scale::Full).into_iter();
    let names: BTreeSet<_> = all.flat_map(|figure| [figure.group(), figure.id]).collect();
    PossibleValuesParser::new(names)
}

/// Repeats on the outside, peers on the inside, so that other work on the machine hits all of them.
fn measure_all(figures: Vec<Figure>, only: &[Peer], scale: Scale, repeats: usize) -> Vec<Table> {
    let start = Instant::now();
    let measure = |figure: Figure| {
        let mut peers = figure.peers();
        peers.retain(|peer| only.is_empty() || only.contains(peer));
        let mut table = Table::new(figure, peers);
        let rows = table.rows.len();
        for repeat in 0..repeats {
            for n in 0..rows {
                // No peer always comes first, or always after the same one.
                let row = &mut table.rows[(n + repeat) % rows];
                let (seconds, id, peer) = (start.elapsed().as_secs(), figure.id, row.peer.name());
                eprint!(
                    "\r\x1b[K[{seconds:4} s] {id} {}/{repeats} {peer}",
                    repeat + 1
                );
                match measured(figure, row.peer, scale) {
                    Ok(metrics) => row.repeats.push(metrics),
                    Err(failure) => {
                        eprintln!(": failed: {failure}");
                        row.failure = Some(failure.to_string());
                    }
                }
            }
        }
        table
    };
    let tables = figures.into_iter().map(measure);
    let tables = tables.filter(|table| !table.rows.is_empty()).collect();
    eprintln!("\r\x1b[K[{:4} s] done", start.elapsed().as_secs());
    tables
}

/// Measures in a process of its own.
fn measured(figure: Figure, peer: Peer, scale: Scale) -> Result<Vec<(String, f64)>, Failure> {
    let mut child = this_program(&["--child", "--only", figure.id, "--peers", &name(&peer)]);
    match scale {
        Scale::Tiny => child.arg("--tiny"),
        Scale::Quick => child.arg("--quick"),
        Scale::Full => &mut child,
    };
    Ok(measure::parse(&output(&mut child)?.stdout))
}
