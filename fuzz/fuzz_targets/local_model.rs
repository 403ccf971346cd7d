#![no_main]

libfuzzer_sys::fuzz_target!(|case: tickwheel_fuzz::local_model::Case| {
    tickwheel_fuzz::local_model::check(&case)
});
