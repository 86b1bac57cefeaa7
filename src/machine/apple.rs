//! The share of a Mac's memory that its GPU may use.

use crate::units::Bytes;

/// Metal's `recommendedMaxWorkingSetSize` on a Mac with `ram` of memory: two thirds up to 32 GiB, three quarters above.
///
/// Assumed: Apple publishes no rule. These shares match what llama.cpp prints at start on M1 to M3 with macOS 13 and 14
/// (16 GB: 11453.25 MB, 32 GB: 22906.50 MB, 36 GB: 28991.03 MB, 64 GB: 51539.61 MB); newer systems allow a little more,
/// and `sysctl iogpu.wired_limit_mb` changes it.
pub const fn working_set(ram: Bytes) -> Bytes {
    if ram.0 <= Bytes::gib(32).0 { Bytes(ram.0 / 3 * 2) } else { Bytes(ram.0 / 4 * 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_set_matches_what_llama_cpp_prints() {
        for (gib, megabytes) in [(16, 11_453.25), (32, 22_906.50), (36, 28_991.03), (64, 51_539.61)] {
            let computed = working_set(Bytes::gib(gib)).0 as f64 / 1e6;
            assert!((computed - megabytes).abs() < 0.01, "{gib} GiB: {computed}");
        }
    }
}
