//! The examples run to their ends and check themselves.

#[path = "../examples/axum_server.rs"]
mod axum_server;
#[path = "../examples/hyper_server.rs"]
mod hyper_server;
#[path = "../examples/io_uring.rs"]
mod io_uring_loop;
#[path = "../examples/runtime_per_core.rs"]
mod runtime_per_core;
#[path = "../examples/tokio_server.rs"]
mod tokio_server;

#[test]
fn each_example_runs_to_its_end() {
    assert!(matches!(hyper_server::main(), Ok(())));
    assert!(matches!(axum_server::main(), Ok(())));
    assert!(matches!(io_uring_loop::main(), Ok(())));
    assert!(matches!(runtime_per_core::main(), Ok(())));
    assert!(matches!(tokio_server::main(), Ok(())));
}
