//! How much of a Mac's memory its GPU may use.

use crate::units::Bytes;

/// What Metal recommends as a GPU's working set (`recommendedMaxWorkingSetSize`) on a Mac with `ram` of memory: two
/// thirds up to 32 GiB, three quarters above.
///
/// Assumed: Apple publishes no rule. These shares are what macOS 13 and 14 answer on M1 to M3, as llama.cpp prints it
/// when it starts (16 GB: 11453.25 MB, 32 GB: 22906.50 MB, 36 GB: 28991.03 MB, 64 GB: 51539.61 MB); newer systems allow
/// a little more, and `sysctl iogpu.wired_limit_mb` changes it.
pub const fn working_set(ram: Bytes) -> Bytes {
    if ram.0 <= Bytes::gib(32).0 { Bytes(ram.0 / 3 * 2) } else { Bytes(ram.0 / 4 * 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_gives_what_macs_print() {
        for (gib, megabytes) in [(16, 11_453.25), (32, 22_906.50), (36, 28_991.03), (64, 51_539.61)] {
            let said = working_set(Bytes::gib(gib)).0 as f64 / 1e6;
            assert!((said - megabytes).abs() < 0.01, "{gib} GiB: {said}");
        }
    }
}
