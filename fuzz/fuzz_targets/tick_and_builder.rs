#![no_main]

libfuzzer_sys::fuzz_target!(|case: tickwheel_fuzz::tick_and_builder::Case| {
    tickwheel_fuzz::tick_and_builder::check(&case)
});
