//! Whatever a machine file says: no panic, and what was read is written and read as the same.
//!
//! From the repository's root: as `scenario`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::machine::file;
use plimsoll::machine::spec::MachineSpec;

fuzz_target!(|text: &str| {
    let Ok(machine) = file::read(text) else { return };
    let again = file::write(&machine).map(|text| file::read(&text));
    assert_eq!(again.ok().and_then(Result::ok).as_ref(), Some(&machine));
    let mut joined = MachineSpec::from(machine.clone());
    let _ = joined.join("other", &machine);
    let _ = joined.complete(machine).to_string();
});
