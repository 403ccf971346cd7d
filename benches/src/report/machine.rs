//! Where, when and from what a run was made.

use std::fs::read_to_string;
use std::process::Command;

/// What every figure is quoted with.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The command line.
    pub command: String,
    /// The commit, and whether the tree had changes.
    pub commit: String,
    /// Processor, cores, memory, kernel.
    pub machine: String,
    /// In UTC.
    pub date: String,
    /// The compiler.
    pub compiler: String,
    /// Load averages before the run.
    pub load_before: String,
    /// And after it.
    pub load_after: String,
}

impl Circumstances {
    /// As of now; [`ended`](Self::ended) completes it.
    #[must_use]
    pub fn now() -> Self {
        let arguments: Vec<_> = std::env::args().skip(1).collect();
        let command = "cargo run --release -p tickwheel-benches --";
        Self {
            command: format!("{command} {}", arguments.join(" ")).trim_end().to_owned(),
            commit: commit(),
            machine: machine(),
            date: said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            compiler: said_by("rustc", &["-V"]),
            load_before: load(),
            load_after: String::new(),
        }
    }

    /// The run is over.
    pub fn ended(&mut self) {
        self.load_after = load();
    }

    /// The table at the head of a page; `method` is how its figures were measured.
    #[must_use]
    pub fn table(&self, method: &str) -> String {
        let Self { command, commit, machine, date, compiler, load_before, load_after } = self;
        format!(
            "| | |\n|---|---|\n| command | `{command}` |\n| commit | {commit} |\n| machine | {machine} |\n\
             | date | {date} |\n| compiler | {compiler} |\n\
             | load average (1, 5, 15 min) | before {load_before}; after {load_after} |\n\
             | method | {method} |\n\n"
        )
    }
}

/// The first line that a program prints; `unknown` if it prints none.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = text.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
    if line.is_empty() { "unknown".to_owned() } else { line.to_owned() }
}

fn commit() -> String {
    let commit = said_by("git", &["rev-parse", "--short=12", "HEAD"]);
    let changed = said_by("git", &["status", "--porcelain"]) != "unknown";
    if changed { format!("{commit} with uncommitted changes") } else { commit }
}

fn machine() -> String {
    let text = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(": ").map(|(_, value)| value.trim().to_owned())
    };
    let model = field("model name").unwrap_or_else(|| "unknown processor".to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    let gib = kib.unwrap_or(0) >> 20;
    format!("{model}, {cores} cores, {gib} GiB, {}", said_by("uname", &["-sr"]))
}

fn load() -> String {
    let text = read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<_> = text.split_whitespace().take(3).collect();
    if words.is_empty() { "unknown".to_owned() } else { words.join(" ") }
}
