#![no_main]

libfuzzer_sys::fuzz_target!(|case: tickwheel_fuzz::wheel_model::Case| {
    tickwheel_fuzz::wheel_model::check(&case)
});
