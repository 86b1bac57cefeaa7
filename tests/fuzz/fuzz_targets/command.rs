//! Whatever a command, a script, a compose file, a unit or presets say: no panic.
//!
//! From the repository's root: as `scenario`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::command;

fuzz_target!(|text: &str| {
    let _ = command::is_one(text);
    let Ok(all) = command::read(text) else { return };
    let _ = command::router(text, &all);
    for start in &all {
        let _ = (start.options(), start.settings(), start.remarks(false), start.without_model());
    }
});
