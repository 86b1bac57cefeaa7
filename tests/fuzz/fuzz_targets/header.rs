//! Whatever the bytes: no panic, and the same result however they arrive.
//!
//! From the repository's root: `cargo +nightly fuzz run header --fuzz-dir tests/fuzz tests/fuzz/corpus-found
//! tests/corpus/gguf tests/corpus/fuzz -- -malloc_limit_mb=64`. Small finds that reach new parts of the parser belong
//! into `tests/corpus/fuzz`, where `cargo test` reads them too.

#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use plimsoll::engine::llama_cpp::projector::{LoadedProjector, ProjectorOptions};
use plimsoll::engine::llama_cpp::release::ReleaseTraits;
use plimsoll::gguf::read::Shard;
use plimsoll::gguf::{HeaderLimits, ByteSource, read};
use plimsoll::settings::Release;

/// Gives a few bytes at a time, a number of its own at each offset.
struct Trickle<'b>(&'b [u8]);

impl ByteSource for Trickle<'_> {
    fn size(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        let from = usize::try_from(offset).map_or(self.0.len(), |at| at.min(self.0.len()));
        let to = self.0.len().min(from + 1 + from % 13);
        Ok(&self.0[from..to])
    }
}

fuzz_target!(|bytes: &[u8]| {
    let limits = HeaderLimits::default();
    let whole = read(&mut { bytes }, &limits).map_err(|error| error.to_string());
    let piecemeal = read(&mut Trickle(bytes), &limits).map_err(|error| error.to_string());
    // by text, where a number that is none equals itself
    assert_eq!(format!("{whole:?}"), format!("{piecemeal:?}"));
    if let Ok(header) = whole {
        let _ = Shard::of(&header.metadata, &limits);
        if let Ok(projector) = LoadedProjector::new(&header) {
            let release = ReleaseTraits::of(Release::default());
            let _ = projector.measure(release, &ProjectorOptions::default(), None);
        }
    }
});
