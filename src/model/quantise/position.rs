//! Position of a tensor in the model, for rules like "the first eighth of the blocks".

use super::QuantiseError;
use super::kinds::{TensorCategory, block};
use super::mix::{Mix, PositionRule, Scheme};
use super::traits::QuantTraits;

/// A tensor is number `i` of `n`, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TensorPosition {
    pub i: u64,
    pub n: u64,
}

impl PositionRule {
    /// Whether the rule applies to a tensor at this position in a model with these traits.
    pub fn applies(self, position: TensorPosition, traits: &QuantTraits) -> bool {
        let TensorPosition { i, n } = position;
        let eighth = n / 8;
        let last_eighth = n.saturating_mul(7) / 8;
        match self {
            Self::Always => true,
            Self::First(count) => i < count,
            Self::FirstPart(parts) => i < n / parts,
            Self::Middle => (eighth..last_eighth).contains(&i),
            Self::MoreBits => i < eighth || i >= last_eighth || (i - eighth) % 3 == 2,
            Self::SharedHeads => traits.shared_heads,
            Self::FourExperts => traits.experts >= 4,
        }
    }
}

/// Counts the tensors per category, in the quantiser's order.
///
/// As upstream, the `i`-th feed-forward tensor of a category is taken for that of block `i`, which is right if each
/// block has one. In a mixture of experts, which may have several, the block is taken from the name.
#[derive(Debug)]
pub(super) struct TensorCounters {
    /// Number of tensors in [`TensorCategory::Value`], quantised or not.
    all_values: u64,
    blocks: u64,
    by_name: bool,
    values: u64,
    ffn_down: u64,
    ffn_gate: u64,
    ffn_up: u64,
}

impl TensorCounters {
    pub fn new(all_values: u64, mix: &Mix, traits: &QuantTraits) -> Self {
        let by_name = mix.scheme == Scheme::Usual && traits.experts > 1;
        Self { all_values, blocks: traits.blocks, by_name, values: 0, ffn_down: 0, ffn_gate: 0, ffn_up: 0 }
    }

    /// The position of the next tensor of `category`, whose name is `name`.
    pub fn next(&mut self, category: TensorCategory, name: &str) -> Result<TensorPosition, QuantiseError> {
        let count = match category {
            TensorCategory::Value => &mut self.values,
            TensorCategory::FfnDown => &mut self.ffn_down,
            TensorCategory::FfnGate => &mut self.ffn_gate,
            TensorCategory::FfnUp => &mut self.ffn_up,
            _ => return Ok(TensorPosition { i: 0, n: 0 }),
        };
        let i = *count;
        *count += 1;
        let n = self.blocks;
        if category == TensorCategory::Value {
            return Ok(TensorPosition { i, n: self.all_values });
        }
        if !self.by_name {
            return Ok(TensorPosition { i, n });
        }
        match block(name) {
            Some(i) if i < n => Ok(TensorPosition { i, n }),
            _ => Err(QuantiseError::Block { tensor: name.to_owned(), blocks: n }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::quantise::traits::QuantFamily;

    #[test]
    fn of_32_blocks_half_get_more_bits() {
        let traits = QuantTraits {
            family: QuantFamily::Any,
            blocks: 32,
            experts: 0,
            shared_heads: false,
            size_70b: false,
            tied: false,
        };
        let applicable = |when: PositionRule| {
            (0..32).filter(|&i| when.applies(TensorPosition { i, n: 32 }, &traits)).collect::<Vec<_>>()
        };
        assert_eq!(applicable(PositionRule::MoreBits), [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]);
        assert_eq!(applicable(PositionRule::Middle), (4..28).collect::<Vec<_>>());
        assert_eq!(applicable(PositionRule::FirstPart(16)), [0, 1]);
        assert_eq!(applicable(PositionRule::First(4)), [0, 1, 2, 3]);
        assert!(applicable(PositionRule::SharedHeads).is_empty());
    }
}
