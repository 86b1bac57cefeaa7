//! What was ever worked out of sections that are alike.

use std::sync::Arc;

use foldhash::HashMap;

use super::order::Order;
use super::{Alike, Section, Settled};
use crate::engine::ggml::allocate::{Name, Turnovers};
use crate::engine::ggml::number::Number;
use crate::engine::ggml::schedule::{Cut, Split};
use crate::engine::ggml::tensor::{Id, Place};
use crate::engine::ggml::workbench::Workbench;

/// Sections that are alike. Their tensors are counted from where each begins.
#[derive(Debug, Default)]
pub struct Kind {
    placings: Alike<Vec<u8>>,
    /// Of each way to place its tensors, the devices that compute.
    pub devices: Vec<u32>,
    pub cuts: Alike<Noted>,
    /// How it is cut, and what is known of the cut behind it: by what was cut before, by where its tensors are, and by the
    /// devices that compute behind it.
    pub cut_at: HashMap<(usize, usize, u32), (usize, usize)>,
    /// What is wanted from before it on, by its cut and by what is wanted behind it.
    pub ahead_of: HashMap<(usize, usize), usize>,
    /// By what it finds, by its cut, and by what is wanted behind it.
    pub played: HashMap<(usize, usize, usize), Played>,
}

/// How a section is cut.
#[derive(Debug, PartialEq, Eq)]
pub struct Noted {
    /// Where its tensors are.
    placing: usize,
    /// Their nodes are counted from where the section begins.
    pub splits: Vec<Split>,
    pub inputs: Vec<Number>,
    /// The how many-th node reads a copy as which of its operands.
    pub rewired: Vec<(usize, usize, Number)>,
    /// What is read, unless it had its bytes before anything ran.
    pub originals: Vec<Number>,
    /// What is read as copies.
    pub copies: Vec<(Number, Place)>,
}

/// What was taken and given in a section, and how things stand then.
#[derive(Debug)]
pub struct Played {
    pub next: usize,
    pub turnovers: Turnovers,
}

impl Kind {
    /// Which of the ways to place its tensors this is.
    pub fn placing(&mut self, placing: Vec<u8>, devices: impl FnOnce() -> u32) -> usize {
        let which = self.placings.which(placing);
        if which == self.devices.len() {
            self.devices.push(devices());
        }
        which
    }
}

impl Noted {
    pub fn new(section: &Section, order: &Order, settled: &Settled<'_>, cut: &Cut, placing: usize) -> Self {
        let Settled { graph, claims, whereabouts } = settled;
        let (start, base) = (section.nodes.start, section.bases[0]);
        let number = |id: Id| order.number(id, base);
        let mut left = cut.rewired.iter().peekable();
        let (mut rewired, mut copies) = (Vec::with_capacity(cut.rewired.len()), Vec::with_capacity(cut.rewired.len()));
        let mut originals = Vec::with_capacity(section.touched.len());
        for (node, &id) in graph.nodes[section.nodes.clone()].iter().enumerate() {
            for (operand, &source) in graph.slots(id).iter().enumerate() {
                if left.next_if(|(by, which, _)| (*by, *which) == (id, operand)).is_some() {
                    rewired.push((node, operand, number(source)));
                    copies.push((number(source), whereabouts.places[id.index()]));
                } else if source.is_some() && !claims[source.index()].is_given() {
                    originals.push(number(source));
                }
            }
        }
        let from_start = |split: &Split| {
            let nodes = split.nodes.start - start..split.nodes.end - start;
            Split { nodes, ..split.clone() }
        };
        let splits = cut.splits.iter().map(from_start).collect();
        let inputs = cut.inputs.iter().map(|id| number(*id)).collect();
        Self { placing, splits, inputs, rewired, originals, copies }
    }
}

/// What was noted on `bench`, with tensors counted from `base`.
pub fn turnovers(bench: &Workbench, order: &Order, base: u32) -> Turnovers {
    let renamed = |name: Name| name.renumbered(|number| order.number(Id(number.from(0) as u32), base));
    let noted = bench.ledgers.iter().enumerate().filter(|(_, ledger)| !ledger.is_empty());
    noted.map(|(device, ledger)| (device, Arc::new(ledger.turnover(renamed)))).collect()
}
