//! The examples run to their ends and check themselves.

#[path = "../examples/axum_server.rs"]
mod axum_server;
#[path = "../examples/hyper_server.rs"]
mod hyper_server;

#[test]
fn hyper_server() {
    assert!(matches!(hyper_server::main(), Ok(())));
}

#[test]
fn axum_server() {
    assert!(matches!(axum_server::main(), Ok(())));
}
