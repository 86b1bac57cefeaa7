//! Weights that the CPU computes with in a layout of its own: llama.cpp writes them into buffers beside the file
//! (`CPU_REPACK`, and `AMX`), unless a GPU offers host buffers, which come first (`make_cpu_buft_list` in
//! `llama-model.cpp`, `ggml-cpu/repack.cpp` and `ggml-cpu/amx/`, 0.1.161). Builds with `KleidiAI` or for other
//! processors have further layouts, which are not planned.

use super::weights::Weight;
use crate::engine::ggml::tensor::Op;
use crate::engine::ggml::{Tensor, Type};
use crate::gguf;
use crate::machine::CpuInstructions;

/// The layouts that a build of llama.cpp has for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layouts {
    /// The CPU's instructions.
    pub instructions: CpuInstructions,
    /// There is one of one-bit weights for ARM (from 0.1.159 on).
    pub one_bit: bool,
}

impl Layouts {
    /// Bytes that `weight` takes in a layout of its own as the weight of `op`; none if it stays as it is in the file.
    pub(super) fn bytes(self, op: Op, weight: &Weight) -> Option<u64> {
        self.layout(op, weight.ty, weight.ne)
    }

    /// Whether experts that are in RAM get a layout of the CPU's own.
    pub fn takes_experts(self, tensor: &gguf::Tensor) -> bool {
        self.layout(Op::MulMatId, tensor.ty, sides(tensor)).is_some()
    }

    /// Whether a matrix that is in RAM gets one.
    pub fn takes_matrix(self, tensor: &gguf::Tensor) -> bool {
        self.layout(Op::MulMat, tensor.ty, sides(tensor)).is_some()
    }

    fn layout(self, op: Op, ty: Type, ne: [u64; 4]) -> Option<u64> {
        self.amx(op, ty, ne).or_else(|| self.repacks(op, ty, ne).then(|| Tensor::new(ty, ne).bytes()))
    }

    /// As `ggml_repack_get_optimal_repack_type` chooses, and `supports_op` allows: products with whole groups of rows.
    fn repacks(self, op: Op, ty: Type, ne: [u64; 4]) -> bool {
        use CpuInstructions as C;
        let dimensions = ne.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1);
        if !matches!((op, dimensions), (Op::MulMat, 2) | (Op::MulMatId, 3)) {
            return false;
        }
        let rows = match (self.instructions, ty) {
            (C::Avx2 | C::Avx512 | C::Amx, Type::Q4_0 | Type::Q4K | Type::Iq4Nl | Type::Mxfp4)
            | (C::Avx512 | C::Amx, Type::Q2K)
            | (C::NeonDotprod | C::NeonI8mm, Type::Q4K | Type::Q5K | Type::Q6K) => 8,
            (C::NeonDotprod | C::NeonI8mm, Type::Q4_0 | Type::Iq4Nl | Type::Mxfp4 | Type::Q8_0) => 4,
            (C::NeonDotprod | C::NeonI8mm, Type::Q1_0) if self.one_bit => 4,
            _ => return false,
        };
        ne[1].is_multiple_of(rows)
    }

    /// Bytes in AMX's own buffer (`ggml_backend_amx_get_alloc_size` in `ggml-cpu/amx/mmq.cpp`, 0.1.161).
    fn amx(self, op: Op, ty: Type, ne: [u64; 4]) -> Option<u64> {
        /// Rows of the result that are computed at once (2 `TILE_N`).
        const ROWS: u64 = 32;
        if self.instructions != CpuInstructions::Amx || op != Op::MulMat || !ne[1].is_multiple_of(ROWS) {
            return None;
        }
        // columns that are computed at once, and what each block has besides in that layout
        let (columns, more) = match ty {
            Type::Q4_0 | Type::Q4_1 => (32, 0),
            Type::Q8_0 => (32, 4),
            Type::Q4K | Type::Q5K => (256, 4),
            Type::Q6K => (256, 0),
            Type::Iq4Xs => (256, 2),
            Type::F16 => (16, 0),
            _ => return None,
        };
        let [wide, rows, ..] = ne;
        let blocks = if more > 0 { wide / ty.block() * rows } else { 0 };
        // of quantised weights room for one matrix is reserved, whatever they have
        let matrix = Tensor::new(ty, [wide, rows, 1, 1]).bytes() + more * blocks;
        let bytes = if ty == Type::F16 { Tensor::new(ty, ne).bytes() } else { matrix };
        wide.is_multiple_of(columns).then_some(bytes)
    }
}

/// The shape of a tensor in a file.
fn sides(tensor: &gguf::Tensor) -> [u64; 4] {
    std::array::from_fn(|at| tensor.dims.get(at).copied().unwrap_or(1))
}

/// What of a model's weights is in RAM, and in which buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightsInRam {
    /// Bytes in buffers of the CPU's own layouts.
    pub repacked: u64,
    /// Bytes of the other weights.
    pub others: u64,
    /// Bytes from the first to the last of the others in the mapped files.
    pub span: u64,
}

impl WeightsInRam {
    /// All bytes where the file is mapped: what is not read through the mapping is in it all the same.
    pub const fn mapped(self) -> u64 {
        self.repacked + self.span
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn weight(ty: Type, ne: [u64; 4]) -> Weight {
        Weight { block: Some(0), role: None, index: 0, ty, ne, bytes: Tensor::new(ty, ne).bytes(), file: 0, start: 0 }
    }

    #[rstest]
    #[case("avx2", Type::Q4K, true)]
    #[case("avx2", Type::Q2K, false)]
    #[case("avx512", Type::Q2K, true)]
    #[case("avx512", Type::Q6K, false)]
    #[case("avx512", Type::Q8_0, false)]
    #[case("avx2", Type::Mxfp4, true)]
    #[case("neon-dotprod", Type::Q6K, true)]
    #[case("neon-i8mm", Type::Q8_0, true)]
    #[case("neon-i8mm", Type::Q2K, false)]
    #[case("none", Type::Q4_0, false)]
    #[case("avx512", Type::F16, false)]
    fn types_are_repacked_by_the_instructions(#[case] cpu: &str, #[case] ty: Type, #[case] repacked: bool) {
        let layouts = Layouts { instructions: cpu.parse().unwrap(), one_bit: true };
        let dense = weight(ty, [2048, 1024, 1, 1]);
        assert_eq!(layouts.bytes(Op::MulMat, &dense), repacked.then_some(dense.bytes));
        let experts = weight(ty, [2048, 1024, 8, 1]);
        assert_eq!(layouts.bytes(Op::MulMatId, &experts), repacked.then_some(experts.bytes));
        // rows to look up, a product with several matrices, and rows that are no whole groups
        assert_eq!(layouts.bytes(Op::GetRows, &dense), None);
        assert_eq!(layouts.bytes(Op::MulMat, &experts), None);
        assert_eq!(layouts.bytes(Op::MulMat, &weight(ty, [2048, 1026, 1, 1])), None);
    }

    #[test]
    fn one_bit_weights_have_a_layout_for_arm_since_0_1_159() {
        let bits = weight(Type::Q1_0, [2048, 1024, 1, 1]);
        let arm = |one_bit| Layouts { instructions: CpuInstructions::NeonDotprod, one_bit };
        assert!(arm(true).bytes(Op::MulMat, &bits).is_some() && arm(false).bytes(Op::MulMat, &bits).is_none());
    }

    #[test]
    fn amx_takes_products_before_anything_else_does() {
        let amx = Layouts { instructions: CpuInstructions::Amx, one_bit: true };
        let of = |ty| amx.bytes(Op::MulMat, &weight(ty, [4096, 1024, 1, 1]));
        let plain = |ty| weight(ty, [4096, 1024, 1, 1]).bytes;
        assert_eq!(of(Type::Q8_0), Some(plain(Type::Q8_0) + 4 * 128 * 1024));
        assert_eq!(of(Type::Q4K), Some(plain(Type::Q4K) + 4 * 16 * 1024));
        assert_eq!(of(Type::F16), Some(plain(Type::F16)));
        assert_eq!(of(Type::Q2K), Some(plain(Type::Q2K)), "repacked");
        assert_eq!(of(Type::Q3K), None);
        // its products are no experts', which are repacked
        let experts = weight(Type::Q4K, [4096, 1024, 8, 1]);
        assert_eq!(amx.bytes(Op::MulMatId, &experts), Some(experts.bytes));
    }
}
