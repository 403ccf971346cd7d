//! The example runs to its end and checks itself.

#[path = "../examples/hyper_server.rs"]
mod hyper_server;

#[test]
fn hyper_server() {
    assert!(matches!(hyper_server::main(), Ok(())));
}
