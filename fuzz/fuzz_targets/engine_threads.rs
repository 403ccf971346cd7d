#![no_main]

libfuzzer_sys::fuzz_target!(|case: tickwheel_fuzz::engine_threads::Case| {
    tickwheel_fuzz::engine_threads::check(&case)
});
