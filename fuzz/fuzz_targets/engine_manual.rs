#![no_main]

libfuzzer_sys::fuzz_target!(|case: tickwheel_fuzz::engine_manual::Case| {
    tickwheel_fuzz::engine_manual::check(&case)
});
