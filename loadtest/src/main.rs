//! The `loadtest` program; everything it does lives in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tickwheel_loadtest::main()
}
