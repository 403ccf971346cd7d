//! Every example runs to its end; each checks itself.

/// An example as a module, with a test that runs its `main`.
macro_rules! examples {
    ($($name:ident: $path:literal => $result:pat,)*) => {
        $(
            #[path = $path]
            mod $name;

            #[test]
            fn $name() {
                assert!(matches!($name::main(), $result));
            }
        )*
    };
}

examples! {
    schedule_and_cancel: "../examples/schedule_and_cancel.rs" => Ok(()),
    typed_payload: "../examples/typed_payload.rs" => Ok(()),
    event_loop: "../examples/event_loop.rs" => Ok(()),
    epoll: "../examples/epoll.rs" => Ok(()),
    two_timers: "../examples/two_timers.rs" => Ok(()),
    ring_of_loops: "../examples/ring_of_loops.rs" => (),
    spinning_loop: "../examples/spinning_loop.rs" => Ok(()),
    hedging: "../examples/hedging.rs" => Ok(()),
    priority: "../examples/priority.rs" => Ok(()),
    per_shard_handlers: "../examples/per_shard_handlers.rs" => Ok(()),
    manual_clock: "../examples/manual_clock.rs" => Ok(()),
    heartbeat_and_debounce: "../examples/heartbeat_and_debounce.rs" => Ok(()),
    idle_server: "../examples/idle_server.rs" => Ok(()),
    rpc_client: "../examples/rpc_client.rs" => Ok(()),
    cache_ttl: "../examples/cache_ttl.rs" => Ok(()),
    async_timeouts: "../examples/async_timeouts.rs" => Ok(()),
    purgatory: "../examples/purgatory.rs" => Ok(()),
    limiter: "../examples/limiter.rs" => Ok(()),
    simulation: "../examples/simulation.rs" => (),
    fixed_delay: "../examples/fixed_delay.rs" => Ok(()),
    hashed_wheel: "../examples/hashed_wheel.rs" => Ok(()),
}
