//! Which blocks have the same weights.

use super::Weight;
use crate::engine::ggml::backend::alike;

/// The weights of a block, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockWeights {
    /// Blocks of one number have the same weights but for their types.
    pub shapes: usize,
    /// Those of one number have weights of the same types.
    types: usize,
    /// Those of one number have weights of types that backends do not tell apart.
    alike: usize,
}

impl BlockWeights {
    /// Those of each of so many blocks.
    pub fn of_all(weights: &[Weight], blocks: usize) -> Vec<Self> {
        let mut each = vec![Vec::new(); blocks];
        for weight in weights {
            if let Some(own) = weight.block.and_then(|il| each.get_mut(il)) {
                own.push(weight);
            }
        }
        let shapes = numbered_by(&each, |weight| (weight.role, weight.ne));
        let types = numbered_by(&each, |weight| (weight.role, weight.ty));
        let alike = numbered_by(&each, |weight| (weight.role, alike(weight.ty)));
        (0..blocks).map(|il| Self { shapes: shapes[il], types: types[il], alike: alike[il] }).collect()
    }

    /// What the graph depends on of the types, and whether on each.
    pub const fn types(self, all: bool) -> (usize, bool) {
        (if all { self.types } else { self.alike }, all)
    }

    /// The same where the types decide on which device weights are.
    pub fn deciding_types(self, decide: bool) -> u64 {
        if decide { self.types as u64 + 1 } else { 0 }
    }
}

/// Lists of weights by what `of` tells of each.
fn numbered_by<T: PartialEq>(each: &[Vec<&Weight>], of: impl Fn(&Weight) -> T) -> Vec<usize> {
    numbered(each.iter().map(|own| own.iter().map(|weight| of(weight)).collect::<Vec<T>>()))
}

/// Each as the number of the first that is equal to it.
pub fn numbered<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<usize> {
    let mut known: Vec<T> = Vec::new();
    let number = |one: T| {
        // most are like the latest kinds
        known.iter().rposition(|other| *other == one).unwrap_or_else(|| {
            known.push(one);
            known.len() - 1
        })
    };
    all.map(number).collect()
}
