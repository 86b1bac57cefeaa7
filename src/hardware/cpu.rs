//! The CPU's vector instructions, as the standard library and Linux tell them.

use crate::machine::CpuInstructions;

/// Those of this computer.
#[cfg(target_arch = "x86_64")]
pub(super) fn instructions() -> CpuInstructions {
    use std::arch::is_x86_feature_detected as has;
    // what ggml builds with `GGML_AVX512` and `GGML_AMX_INT8` (`ggml-cpu/CMakeLists.txt`, llama.cpp 2026-11)
    let avx512 = has!("avx512f") && has!("avx512cd") && has!("avx512vl") && has!("avx512dq") && has!("avx512bw");
    if avx512 && has!("avx512vnni") && listed(&["amx_tile", "amx_int8"]) {
        CpuInstructions::Amx
    } else if avx512 {
        CpuInstructions::Avx512
    } else if has!("avx2") {
        CpuInstructions::Avx2
    } else {
        CpuInstructions::None
    }
}

/// Whether Linux lists all these flags; the standard library cannot tell them yet.
#[cfg(target_arch = "x86_64")]
fn listed(flags: &[&str]) -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    flags.iter().all(|flag| line.split_whitespace().any(|word| word == *flag))
}

/// Those of this computer.
#[cfg(target_arch = "aarch64")]
pub(super) fn instructions() -> CpuInstructions {
    use std::arch::is_aarch64_feature_detected as has;
    if has!("i8mm") {
        CpuInstructions::NeonI8mm
    } else if has!("dotprod") {
        CpuInstructions::NeonDotprod
    } else {
        CpuInstructions::None
    }
}

/// Those of this computer.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn instructions() -> CpuInstructions {
    CpuInstructions::None
}
