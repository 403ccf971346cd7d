#![no_main]

libfuzzer_sys::fuzz_target!(|case: tickwheel_fuzz::engine_threads::Case| {
    tickwheel_fuzz::until_its_threads_are_gone(|| tickwheel_fuzz::engine_threads::check(&case))
});
