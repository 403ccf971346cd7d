#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| tickwheel_fuzz::replay_parser::check(file));
