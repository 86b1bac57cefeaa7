//! Types for rows that are not a multiple of the block size.

#![allow(clippy::enum_glob_use, reason = "a table of formats is read by their names alone")]

use crate::gguf::GgmlType;
use crate::gguf::GgmlType::*;

/// `wanted` if `row` is a multiple of its block size, else llama.cpp's fallback with smaller blocks; none if there is
/// no fallback. `tensor_type_fallback` in src/llama-quant.cpp (llama-cpp-sys-2 0.1.161).
pub(super) const fn fitting(wanted: GgmlType, row: u64) -> Option<GgmlType> {
    if fits(wanted, row) {
        return Some(wanted);
    }
    let smaller = match wanted {
        Iq1S | Iq1M | Iq2Xxs | Iq2Xs | Iq2S | Iq3Xxs | Iq3S | Iq4Xs => Iq4Nl,
        Q2_0 | Q2K | Q3K | Tq1_0 | Tq2_0 => Q4_0,
        Q4K => Q5_0,
        Q5K => Q5_1,
        Q6K => Q8_0,
        _ if wanted.block() <= 32 => F16,
        _ => return None,
    };
    Some(if fits(smaller, row) { smaller } else { F16 })
}

pub(super) const fn fits(ty: GgmlType, row: u64) -> bool {
    row.is_multiple_of(ty.block())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_rows_fall_back_to_smaller_blocks() {
        for (wanted, row, taken) in [
            (Q4K, 4096, Some(Q4K)),
            (Q4K, 896, Some(Q5_0)),
            (Q6K, 896, Some(Q8_0)),
            (Q6K, 100, Some(F16)),
            (Q8_0, 100, Some(F16)),
            (Iq2Xs, 160, Some(Iq4Nl)),
            (Q1_0, 160, None),
        ] {
            assert_eq!(fitting(wanted, row), taken, "{wanted} {row}");
        }
    }
}
