#![no_main]
//! See `vfl_fuzz_targets::config`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| vfl_fuzz_targets::config(data));
