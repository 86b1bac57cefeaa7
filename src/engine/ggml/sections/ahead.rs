//! What is still wanted of what there is between two sections.

use super::Entry;
use super::kind::Noted;
use crate::engine::ggml::number::Number;
use crate::engine::ggml::tensor::Place;

/// What later sections ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// What crosses later into the split that is in progress, for the first time: it is copied when the split begins.
    pub pending: Vec<Number>,
    /// What is read, ascending.
    pub originals: Vec<Number>,
    /// What is looked at in another way by somebody who is read there, or by nobody ever, ascending.
    pub viewed: Vec<Number>,
    /// Copies that are read, but not made there, ascending. (Those of a pipeline are always there.)
    pub copies: Vec<(Number, Place)>,
}

impl Ahead {
    /// The same by other numbers.
    pub fn counted_from(&self, from: u32, to: u32) -> Self {
        let number = |number: &Number| number.counted_from(from, to);
        Self {
            pending: self.pending.iter().map(number).collect(),
            originals: self.originals.iter().map(number).collect(),
            viewed: self.viewed.iter().map(number).collect(),
            copies: self.copies.iter().map(|(copied, place)| (number(copied), *place)).collect(),
        }
    }

    /// The same from before a section on, which is cut so, and into whose splits `entries` cross; `views` are those of its
    /// nodes that look at tensors in another way, where anybody ever reads them, and at which. There is a split in progress
    /// where `goes_on`.
    pub fn before(
        self,
        cut: &Noted,
        entries: &[Entry],
        views: impl Iterator<Item = (Option<Number>, Number)>,
        (goes_on, pipeline): (bool, bool),
        is_there: impl Fn(Number) -> bool,
    ) -> Self {
        let mut pending = Vec::new();
        if goes_on {
            pending.extend_from_slice(&cut.inputs[cut.splits[0].inputs.clone()]);
            if entries.is_empty() {
                pending.extend(&self.pending);
            }
        }
        let mut viewed = self.viewed.clone();
        viewed.extend(self.viewed_from(cut, entries, views));
        viewed.retain(|number| is_there(*number));
        let mut originals = self.originals;
        originals.extend_from_slice(&cut.originals);
        originals.extend(entering(entries).map(|(input, _)| input));
        originals.retain(|number| is_there(*number) || pending.contains(number));
        let mut copies = self.copies;
        if !pipeline {
            copies.extend_from_slice(&cut.copies);
            copies.retain(|copy| !entering(entries).any(|made| made == *copy));
        }
        Self { pending, originals: ascending(originals), viewed: ascending(viewed), copies: ascending(copies) }
    }

    /// What `views` of a section look at, those apart whose last reader came before it.
    pub fn viewed_from(
        &self,
        cut: &Noted,
        entries: &[Entry],
        views: impl Iterator<Item = (Option<Number>, Number)>,
    ) -> impl Iterator<Item = Number> {
        let is_read = move |view: Number| {
            let mut inputs = entering(entries).map(|(input, _)| input);
            self.originals.contains(&view) || cut.originals.contains(&view) || inputs.any(|input| input == view)
        };
        views.filter(move |(view, _)| view.is_none_or(&is_read)).map(|(_, of)| of)
    }
}

/// What crosses into splits, and the devices of these.
pub fn entering(entries: &[Entry]) -> impl Iterator<Item = (Number, Place)> + '_ {
    entries.iter().flat_map(|(split, inputs)| inputs.iter().map(|input| (*input, split.place)))
}

fn ascending<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}
