//! Whatever a file of lessons says: no panic.
//!
//! From the repository's root: as `scenario`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::teach::lessons::own::OwnLessons;

fuzz_target!(|text: &str| {
    let _ = OwnLessons::default().read(text, &|name| !name.is_empty());
});
