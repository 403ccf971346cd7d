//! The `delayed-jobs` program; everything it does lives in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    delayed_jobs::main()
}
