//! Names of tensors: their name in the model, else their operation.

use crate::engine::ggml::Graph;
use crate::engine::ggml::tensor::{Buffer, Op, Tensor, TensorId};

/// `blk.3.ffn_gate` for a weight, `cache_k-3` for a cache, `kq-3` for a result, `ROPE-3` for one without a name.
pub fn name(graph: &Graph, id: TensorId) -> String {
    let tensor = &graph[id];
    let word = if tensor.label.is_empty() { nameless(tensor) } else { tensor.label };
    match (tensor.buffer, tensor.layer) {
        (Buffer::Weights(_), layer @ 0..) => format!("blk.{layer}.{word}"),
        (_, layer @ 0..) => format!("{word}-{layer}"),
        _ => word.to_owned(),
    }
}

const fn nameless(tensor: &Tensor) -> &'static str {
    match (tensor.op, tensor.input) {
        (Op::None, true) => "input",
        (Op::None, false) => "tensor",
        (op, _) => op.name(),
    }
}

/// `f32 4096×512`: type and shape without trailing ones.
pub fn shape(tensor: &Tensor) -> String {
    let last = tensor.ne.iter().rposition(|&n| n != 1).unwrap_or(0);
    let sides: Vec<String> = tensor.ne[..=last].iter().map(ToString::to_string).collect();
    format!("{} {}", tensor.ty.name(), sides.join("×"))
}
