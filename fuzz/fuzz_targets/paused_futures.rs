#![no_main]

libfuzzer_sys::fuzz_target!(|case: tickwheel_fuzz::paused_futures::Case| {
    tickwheel_fuzz::paused_futures::check(&case)
});
