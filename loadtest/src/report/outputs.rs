//! The files of a run: opened before it, so that a path that cannot be written does not cost one, and
//! written after it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use super::circumstances::Circumstances;
use super::model::Report;
use super::{json, page, terminal};
use crate::failure::Failure;

/// Where results go besides the terminal.
pub struct Destination {
    /// The HTML page.
    pub page: Option<PathBuf>,
    /// The results for machines.
    pub json: Option<PathBuf>,
    /// The workload file that the run reads or writes, which has to be another one.
    pub workload: Option<PathBuf>,
    /// Only the verdict on the terminal.
    pub quiet: bool,
}

/// The page's place if none is given: beside the build, or else in the current folder.
pub(crate) fn default_page() -> PathBuf {
    let name = "tickwheel-report.html";
    if Path::new("target").is_dir() { Path::new("target").join(name) } else { name.into() }
}

/// The open files.
pub struct Outputs {
    page: Option<Output>,
    json: Option<Output>,
    quiet: bool,
}

impl Outputs {
    /// Opens every file without changing what is in it.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, or that two options name.
    pub fn open(destination: &Destination) -> Result<Self, Failure> {
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        let (page, json) = (open(&destination.page)?, open(&destination.json)?);
        distinct(destination)?;
        Ok(Self { page, json, quiet: destination.quiet })
    }

    /// Prints the results and writes the files. The verdict is printed even if a file cannot be written.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn deliver(self, report: &Report, circumstances: &Circumstances) -> Result<(), Failure> {
        let mut text = String::new();
        if !self.quiet {
            text.push_str(&terminal::tables(report));
            text.push('\n');
        }
        text.push_str(&terminal::verdict(report));
        print(&text);
        let mut written = String::new();
        if let Some(file) = self.page {
            let path = file.write(page::render(report, circumstances))?;
            let _ = writeln!(written, "report: {}", path.display());
        }
        if let Some(file) = self.json {
            let path = file.write(json::render(report, circumstances))?;
            if !self.quiet {
                let _ = writeln!(written, "json:   {}", path.display());
            }
        }
        print(&written);
        Ok(())
    }
}

/// Fails if two options name one file. Asked when those that are written first are there: what has no identity by
/// then is none of them.
fn distinct(destination: &Destination) -> Result<(), Failure> {
    let Destination { page, json, workload, .. } = destination;
    let named = [("--report", page), ("--json", json), ("the workload FILE", workload)];
    let named = named.map(|(name, path)| path.as_deref().map(|path| (name, path, identity(path))));
    let named: Vec<_> = named.into_iter().flatten().collect();
    for (at, (name, path, this)) in named.iter().enumerate() {
        let mut others = named[at + 1..].iter();
        if let Some((other, second, _)) = others.find(|(_, _, id)| this.is_some() && id == this) {
            return Err(Failure::Options(format!(
                "{name} {} and {other} {} are the same file; name another one for either",
                path.display(),
                second.display()
            )));
        }
    }
    Ok(())
}

/// What two names of one file have in common; `None` if there is none, or a device, which takes from many.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some((found.dev(), found.ino()))
}

/// Elsewhere the path without links.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    path.is_file().then(|| path.canonicalize().ok())?
}

/// One file; removed again if it is new and nothing was written.
pub(crate) struct Output {
    path: PathBuf,
    file: File,
    remove: bool,
}

impl Output {
    /// Opens the file, or makes it.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let is_new = !path.exists();
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(Failure::file("write", path))?;
        Ok(Self { path: path.to_owned(), file, remove: is_new })
    }

    /// Replaces what is in the file; where it is.
    pub(crate) fn write(mut self, text: impl AsRef<[u8]>) -> Result<PathBuf, Failure> {
        self.remove = false;
        self.replace(text.as_ref()).map_err(Failure::file("write", &self.path))?;
        Ok(std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone()))
    }

    fn replace(&mut self, text: &[u8]) -> std::io::Result<()> {
        // A device or a pipe has no length and no position.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
            self.file.rewind()?;
        }
        self.file.write_all(text)?;
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.remove {
            // It was made by this run and is empty; whoever removed it before has done the same. A link was there.
            let _ = self.path.canonicalize().and_then(std::fs::remove_file);
        }
    }
}

/// To the standard output; a reader that has gone away is no reason to fail.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
