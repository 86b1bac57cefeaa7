//! Flash attention: which heads and types have a kernel, and the room that it takes besides its result
//! (`ggml-metal-ops.cpp`, `ggml-metal-device.m`, 0.1.161).

use super::MetalRules;
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::Tensor;

/// Cells of a group (`OP_FLASH_ATTN_EXT_NCPSG`), for few tokens (`…_VEC_NCPSG`), and tokens (`…_NQPSG`).
const CELLS: u64 = 64;
const FEW_CELLS: u64 = 32;
const TOKENS: u64 = 8;
/// Groups whose results are kept apart, and the most tokens of which they are.
const PARTIAL: u64 = 32;

/// Whether there is a kernel.
pub(super) fn supported(graph: &Graph, tensor: &Tensor, rules: MetalRules) -> bool {
    let operand = |at: usize| graph.operand(tensor, at).map(|id| &graph[id]);
    let (Some(q), Some(k), Some(v)) = (operand(0), operand(1), operand(2)) else { return true };
    let head = matches!(q.ne[0], 32 | 40 | 48 | 64 | 72 | 80 | 96 | 112 | 128 | 192 | 256 | 320 | 512 | 576);
    let smaller = !rules.reserves_more || (k.ne[0] >= v.ne[0] && (k.ne[0] != 72 || v.ne[0] == 72));
    let ty = matches!(
        k.ty,
        Type::F32 | Type::F16 | Type::Bf16 | Type::Q8_0 | Type::Q4_0 | Type::Q4_1 | Type::Q5_0 | Type::Q5_1
    );
    head && smaller && ty && k.ty == v.ty
}

/// Bytes besides the result.
pub(super) fn extra(graph: &Graph, tensor: &Tensor, rules: MetalRules) -> u64 {
    let operand = |at: usize| graph.operand(tensor, at).map(|id| &graph[id]);
    let (Some(q), Some(k), Some(v)) = (operand(0), operand(1), operand(2)) else { return 0 };
    let mask = operand(3);
    let [head, tokens, heads, streams] = q.ne;
    let part_of_k = v.view_of.is_some() && v.view_of == k.view_of;

    // the last cells, padded to a group: of the f16 copies if there are some
    let copied = rules.reserves_more && tokens >= 32 && k.ty.block() > 1;
    let strides =
        if copied { [2 * k.ne[0], 2 * if part_of_k { k.ne[0] } else { v.ne[0] }] } else { [k.nb[1], v.nb[1]] };
    let mask_rows = mask.map_or(0, |mask| 2 * mask.ne[1] * mask.ne[2] * mask.ne[3]);
    let padding = CELLS * (strides[0] * k.ne[2] * k.ne[3] + strides[1] * v.ne[2] * v.ne[3] + mask_rows);

    // which blocks of the mask hide everything
    let few = tokens < 20 && head.is_multiple_of(32);
    let (rows, columns) = if few { (1, FEW_CELLS) } else { (TOKENS, CELLS) };
    let blocks = mask.map_or(0, |mask| {
        (mask.ne[0].div_ceil(columns) * tokens.div_ceil(rows) * mask.ne[2] * mask.ne[3]).next_multiple_of(32)
    });

    // results of groups, with the sum and the maximum of each
    let partial = 4 * tokens.min(PARTIAL) * heads * streams * PARTIAL * (v.ne[0] + 2);

    let copy = |tensor: &Tensor| (2 * tensor.elements()).next_multiple_of(16);
    let copies = if !rules.reserves_more {
        0
    } else if part_of_k {
        copy(k)
    } else {
        copy(k) + copy(v)
    };
    padding + blocks + partial + copies
}
