//! Whatever a scenario file says: no panic, and at most one sentence of error.
//!
//! From the repository's root: `cargo +nightly fuzz run scenario --fuzz-dir tests/fuzz tests/fuzz/corpus-found/scenario
//! tests/corpus/scenario -- -malloc_limit_mb=64 -max_len=16384 -timeout=1`. Small finds belong into `tests/corpus`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::cli::fuzz;

fuzz_target!(|text: &str| {
    if let Err(sentence) = fuzz::scenario(text) {
        assert!(!sentence.contains('\n'), "{sentence}");
    }
});
