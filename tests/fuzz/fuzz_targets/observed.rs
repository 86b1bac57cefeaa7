//! Whatever the text: no panic, and the same observation however it arrives.
//!
//! From the repository's root: `cargo +nightly fuzz run observed --fuzz-dir tests/fuzz -- -malloc_limit_mb=64
//! -max_len=65536`. Sound seeds are the logs of `tests/observed/samples.jsonl.gz`, one file each.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::observed::Reader;

fuzz_target!(|bytes: &[u8]| {
    let mut whole = Reader::default();
    whole.feed(bytes);
    let whole = whole.finish();
    let mut piecemeal = Reader::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.len().min(1 + rest.len() % 13));
        piecemeal.feed(piece);
        rest = behind;
    }
    // by text, where a number that is none equals itself
    assert_eq!(format!("{whole:?}"), format!("{:?}", piecemeal.finish()));
});
