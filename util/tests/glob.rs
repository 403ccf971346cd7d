//! `use tickwheel_util::*` beside the crates that it works with: no name of this crate stands before one of theirs.

#![allow(unused_imports, reason = "the names need only be found")]

use tickwheel_util::*;

/// The attribute's code names the crate `tokio`.
#[tokio::main(flavor = "current_thread")]
async fn sleeps() {
    time::sleep(time::Duration::ZERO).await;
}

/// Names every crate that stands in the interface, by paths that a module of the same name would hide.
mod crates {
    use super::*;

    use http::Request;
    use http_body::Body;
    use hyper::rt::Timer;
    use metrics::Recorder;
    use quinn::Endpoint;
    use smol::Task;
    use tickwheel::Key;
    use tokio::runtime::Runtime;
    use tower::Layer;
}

#[test]
fn a_glob_import_hides_no_crate() {
    sleeps();
}
