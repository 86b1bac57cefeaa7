//! The releases of Ollama that read a header: their formulas agree, but they read different facts.

use crate::engine::id::EngineId;
use crate::gguf::{GgmlType, Tensor};

/// A release of Ollama's estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum OllamaRelease {
    /// Ollama up to 0.11: commit d5a0d8d904 of 14 August 2025.
    August2025,
    /// Ollama up to 0.24: 24 May 2026.
    May2026,
    /// Ollama from 0.30, which no longer estimates graphs but reads headers like the one before: August 2026.
    August2026,
}

impl OllamaRelease {
    /// The engine that uses it.
    pub const fn engine(self) -> EngineId {
        match self {
            Self::August2025 => EngineId::Ollama011,
            Self::May2026 => EngineId::Ollama024,
            Self::August2026 => EngineId::Ollama,
        }
    }

    /// Bytes of a tensor by Ollama's own table of formats, where `TQ1_0`, `TQ2_0` and newer ones have no size.
    /// Source: `fs/ggml/ggml.go`, `TypeSize`, `BlockSize` and `Size`, Ollama, August 2025 and May 2026.
    pub fn tensor_bytes(self, tensor: &Tensor) -> u64 {
        let (block, bytes) = match tensor.ty {
            GgmlType::Tq1_0 | GgmlType::Tq2_0 | GgmlType::Nvfp4 | GgmlType::Q1_0 | GgmlType::Q2_0 => (1, 0),
            // MXFP4 as format 39 is missing in the list of blocks of 32, so it counts as half a byte per weight plus
            // one per 256
            GgmlType::Mxfp4 if self == Self::August2025 && !tensor.old_mxfp4 => (256, 1 + 256 / 2),
            other => (other.block(), other.block_bytes()),
        };
        elements(tensor).wrapping_mul(bytes) / block
    }
}

/// Number of elements of a tensor.
pub(super) fn elements(tensor: &Tensor) -> u64 {
    tensor.dims.iter().fold(1, |product, &dim| product.wrapping_mul(dim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn the_older_release_underestimates_mxfp4_with_the_new_type_number() {
        let tensor = |old_mxfp4| Tensor {
            name: "blk.0.ffn_up_exps.weight".into(),
            dims: vec![256, 10],
            ty: GgmlType::Mxfp4,
            bytes: Bytes(1360),
            old_mxfp4,
        };
        // 17 bytes for 32 weights, or 129 for 256
        assert_eq!(OllamaRelease::August2025.tensor_bytes(&tensor(true)), 1360);
        assert_eq!(OllamaRelease::August2025.tensor_bytes(&tensor(false)), 1290);
        for old in [true, false] {
            assert_eq!(OllamaRelease::May2026.tensor_bytes(&tensor(old)), 1360);
        }
    }
}
