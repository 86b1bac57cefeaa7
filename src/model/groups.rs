//! Tensors grouped by the part of the model that they belong to.

use crate::gguf::Tensor;

/// A part of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorGroup {
    /// A block, by index: `blk.N.…`.
    Block(usize),
    /// `output_norm` and `output`.
    Output,
    /// `token_embd` and all tensors that are not in another group.
    Input,
    /// The image or audio projector: `v`, `mm`, `a`.
    Projector,
    /// Blocks beyond the block count of the header.
    Beyond,
}

/// Indices of tensors, per group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TensorGroups {
    blocks: Vec<Vec<usize>>,
    output: Vec<usize>,
    input: Vec<usize>,
    projector: Vec<usize>,
    beyond: Vec<usize>,
}

impl TensorGroups {
    pub(super) fn of(tensors: &[Tensor], blocks: usize) -> Self {
        let mut groups = Self { blocks: vec![Vec::new(); blocks], ..Self::default() };
        for (index, tensor) in tensors.iter().enumerate() {
            groups.push(group_of(&tensor.name), index);
        }
        groups
    }

    fn push(&mut self, group: TensorGroup, index: usize) {
        let list = match group {
            TensorGroup::Block(number) => self.blocks.get_mut(number).unwrap_or(&mut self.beyond),
            TensorGroup::Output => &mut self.output,
            TensorGroup::Input => &mut self.input,
            TensorGroup::Projector => &mut self.projector,
            TensorGroup::Beyond => &mut self.beyond,
        };
        list.push(index);
    }

    pub(super) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn of_group(&self, group: TensorGroup) -> &[usize] {
        match group {
            TensorGroup::Block(number) => self.blocks.get(number).map_or(&[], Vec::as_slice),
            TensorGroup::Output => &self.output,
            TensorGroup::Input => &self.input,
            TensorGroup::Projector => &self.projector,
            TensorGroup::Beyond => &self.beyond,
        }
    }
}

/// The group by name alone. `blk.N.` only counts as a block if N is a plain number and a tensor's name follows.
fn group_of(name: &str) -> TensorGroup {
    let mut parts = name.split('.');
    match parts.next().unwrap_or_default() {
        "blk" => match (parts.next().and_then(plain_number), parts.next()) {
            (Some(number), Some(_)) => TensorGroup::Block(number),
            _ => TensorGroup::Beyond,
        },
        "output_norm" | "output" => TensorGroup::Output,
        "v" | "mm" | "a" => TensorGroup::Projector,
        _ => TensorGroup::Input,
    }
}

/// `7`, but not `07` or `+7`.
fn plain_number(text: &str) -> Option<usize> {
    let plain = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_grouped_by_name() {
        for (name, group) in [
            ("blk.0.attn_q.weight", TensorGroup::Block(0)),
            ("blk.93.ffn_gate.7.weight", TensorGroup::Block(93)),
            ("blk.07.attn_q.weight", TensorGroup::Beyond),
            ("blk.1", TensorGroup::Beyond),
            ("blk.x.attn_q.weight", TensorGroup::Beyond),
            ("output.weight", TensorGroup::Output),
            ("output_norm.weight", TensorGroup::Output),
            ("token_embd.weight", TensorGroup::Input),
            ("rope_freqs.weight", TensorGroup::Input),
            ("v.blk.0.attn_q.weight", TensorGroup::Projector),
            ("mm.0.weight", TensorGroup::Projector),
            ("a.conv1d.weight", TensorGroup::Projector),
            ("", TensorGroup::Input),
        ] {
            assert_eq!(group_of(name), group, "{name}");
        }
    }
}
