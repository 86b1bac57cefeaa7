//! The weights of a plan, by classes of tensors.

use std::cmp::Reverse;

use super::{FormulaNode, beside};
use crate::engine::{self};
use crate::gguf::{GgmlType, Tensor};
use crate::model::{Model, TensorGroup};
use crate::plan::Plan;
use crate::units::Bytes;

/// Tensors of one name, type and number of elements.
struct TensorClass<'m> {
    name: &'m str,
    ty: GgmlType,
    elements: u64,
    count: u64,
    bytes: Bytes,
}

/// The weights of `plan`, a plan of `model`.
pub(super) fn weights(model: &Model, plan: &Plan) -> FormulaNode {
    let last = plan.layers.len().saturating_sub(1);
    let in_layers = |blocks: bool| -> Bytes {
        plan.layers.iter().filter(|layer| (layer.index < last) == blocks).map(|layer| layer.weights).sum()
    };
    let blocks = classes(plan, (0..last).flat_map(|block| model.tensors(TensorGroup::Block(block))));
    let output = classes(plan, model.output_tensors());
    let (in_blocks, in_output) = (in_layers(true), in_layers(false));
    let mut parts =
        vec![group(format!("{last} blocks"), in_blocks, &blocks), group("output layer".into(), in_output, &output)];
    let beside = beside(plan, |memory| memory.weights);
    let rest = plan.totals.weights - in_blocks - in_output - beside.iter().map(FormulaNode::bytes).sum();
    if rest > Bytes::ZERO {
        parts.push(outside_layers(model, plan, rest));
    }
    parts.extend(beside);
    FormulaNode::sum("weights", plan.totals.weights, parts)
}

/// The weights outside the layers: token embeddings, copies and alignment.
fn outside_layers(model: &Model, plan: &Plan, rest: Bytes) -> FormulaNode {
    let all = classes(plan, model.tensors(TensorGroup::Input));
    // embeddings that are also the output matrix are counted with the output layer, unless there are two copies
    let is_output = |tensor: &&Tensor| model.output_tensors().any(|output| output.name == tensor.name);
    let fits = sum(&all) <= rest;
    let input =
        if fits { all } else { classes(plan, model.tensors(TensorGroup::Input).filter(|tensor| !is_output(tensor))) };
    group("outside the layers".to_owned(), rest, &input)
}

fn sum(classes: &[TensorClass<'_>]) -> Bytes {
    classes.iter().map(|kind| kind.bytes).sum()
}

fn group(name: String, bytes: Bytes, classes: &[TensorClass<'_>]) -> FormulaNode {
    let mut parts: Vec<FormulaNode> = classes.iter().map(TensorClass::node).collect();
    parts.sort_by_key(|part| Reverse(part.bytes()));
    let known = sum(classes);
    if known > bytes {
        // some are not loaded
        parts = vec![FormulaNode::leaf("as counted by the engine", "loaded", bytes.0.to_string(), bytes)];
    }
    let rest = bytes - known;
    if rest > Bytes::ZERO {
        parts.push(FormulaNode::leaf("copies and alignment", "remainder", rest.0.to_string(), rest));
    }
    FormulaNode::sum(name, bytes, parts)
}

fn classes<'m>(plan: &Plan, tensors: impl Iterator<Item = &'m Tensor>) -> Vec<TensorClass<'m>> {
    let mut classes: Vec<TensorClass<'m>> = Vec::new();
    let estimator = engine::estimating(plan.engine);
    for tensor in tensors {
        let name = role(&tensor.name);
        let elements = tensor.dims.iter().fold(1u64, |product, &dim| product.saturating_mul(dim));
        let bytes = estimator.map_or(tensor.bytes, |estimator| Bytes(estimator.tensor_bytes(tensor)));
        match classes.iter_mut().find(|kind| kind.name == name && kind.ty == tensor.ty && kind.elements == elements) {
            Some(kind) => {
                kind.count += 1;
                kind.bytes += bytes;
            }
            None => classes.push(TensorClass { name, ty: tensor.ty, elements, count: 1, bytes }),
        }
    }
    classes
}

/// A tensor's name without `blk.N.`.
pub(super) fn role(name: &str) -> &str {
    let in_block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    in_block.map_or(name, |(_, role)| role)
}

impl TensorClass<'_> {
    pub(super) fn node(&self) -> FormulaNode {
        let Self { ty, elements, count, .. } = *self;
        let (block, size) = (ty.block(), ty.block_bytes());
        let (formula, numbers) = if block == 1 {
            ("n·elements·bytes".to_owned(), format!("{count}·{elements}·{size}"))
        } else {
            (format!("n·elements/{block}·bytes"), format!("{count}·{elements}/{block}·{size}"))
        };
        FormulaNode::leaf(format!("{} ({ty})", self.name), formula, numbers, self.bytes)
    }
}
