//! Whatever a configuration file says: no panic, and at most one sentence of error.
//!
//! From the repository's root: as `scenario`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::cli::fuzz;

fuzz_target!(|text: &str| {
    if let Err(sentence) = fuzz::config(text) {
        assert!(!sentence.contains('\n'), "{sentence}");
    }
});
