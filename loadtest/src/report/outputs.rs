//! The files of a run: tried before it, so that a path that cannot be written does not cost one, and
//! written after it.

use std::io::Write as _;
use std::path::{Path, PathBuf, absolute};

use super::facts::{Facts, facts};
use super::model::Report;
use super::terminal::Reader;
use super::{json, page, terminal};
use crate::failure::Failure;
use crate::options::Results;

/// The page's place if none is given: beside the build, or else in the current folder.
fn default_page() -> PathBuf {
    let name = "tickwheel-report.html";
    if Path::new("target").is_dir() {
        Path::new("target").join(name)
    } else {
        name.into()
    }
}

/// Files that can be written.
pub(crate) struct Outputs<'a> {
    page: Option<PathBuf>,
    results: &'a Results,
    made_with: Facts,
}

impl<'a> Outputs<'a> {
    /// Tries every file without changing what is in it. `workload` is the one that the run reads or writes, which has
    /// to be another one.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, or that two options name.
    pub(crate) fn open(results: &'a Results, workload: Option<&Path>) -> Result<Self, Failure> {
        let page = results.report.clone().unwrap_or_else(default_page);
        let page = (!results.no_report).then_some(page);
        let (report, json) = (page.as_deref(), results.json.as_deref());
        let mut seen: Vec<(&str, &Path, PathBuf)> = Vec::new();
        for (name, path) in [
            ("--report", report),
            ("--json", json),
            ("the workload FILE", workload),
        ] {
            let Some(path) = path else { continue };
            // Whether the workload can be read or written shows where that is done.
            let real = match name {
                "the workload FILE" => path.canonicalize().or_else(|_| absolute(path)).ok(),
                _ => probe(path)?,
            };
            let Some(real) = real else { continue };
            if let Some((other, first, _)) = seen.iter().find(|(.., known)| *known == real) {
                return Err(Failure::Options(format!(
                    "{other} {} and {name} {} are the same file; name another one for either",
                    first.display(),
                    path.display()
                )));
            }
            seen.push((name, path, real));
        }
        Ok(Self {
            page,
            results,
            made_with: facts(),
        })
    }

    /// Prints the results and writes the files. The verdict is printed even if a file cannot be written.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(crate) fn deliver(&self, report: &Report) -> Result<(), Failure> {
        let reader = Reader::of_output();
        if !self.results.quiet {
            print(&format!("{}\n", terminal::tables(report, reader)));
        }
        print(&terminal::verdict(report, reader));
        let write = |path: &Path, name: &str, text: String| {
            std::fs::write(path, text).map_err(Failure::write(path))?;
            let path = absolute(path).unwrap_or_else(|_| path.to_owned());
            print(&format!("{name} {}\n", path.display()));
            Ok(())
        };
        if let Some(path) = &self.page {
            write(path, "report:", page::render(report, &self.made_with))?;
        }
        if let Some(path) = &self.results.json {
            write(path, "json:  ", json::render(report, &self.made_with))?;
        }
        Ok(())
    }
}

/// Fails if the file cannot be written. Its path without links, by which two names of one file are told; `None` for a
/// device, which takes from many.
pub(crate) fn probe(path: &Path) -> Result<Option<PathBuf>, Failure> {
    if path
        .metadata()
        .is_ok_and(|found| !found.is_file() && !found.is_dir())
    {
        return Ok(None);
    }
    let is_new = !path.exists();
    let opened = std::fs::File::options()
        .append(true)
        .create(true)
        .open(path);
    let real = opened
        .and_then(|_| path.canonicalize())
        .map_err(Failure::write(path))?;
    if is_new {
        // Where a link was, the link stays.
        std::fs::remove_file(&real).map_err(Failure::write(path))?;
    }
    Ok(Some(real))
}

/// To the standard output; a reader that has gone away is no reason to fail.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
