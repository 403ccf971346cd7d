#![no_main]

libfuzzer_sys::fuzz_target!(|case: tickwheel_fuzz::shard_model::Case| {
    tickwheel_fuzz::shard_model::check(&case)
});
