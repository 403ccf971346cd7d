#![no_main]

libfuzzer_sys::fuzz_target!(|case: tickwheel_fuzz::fixed_model::Case| {
    tickwheel_fuzz::fixed_model::check(&case)
});
