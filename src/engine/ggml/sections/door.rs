//! What can be the case between two sections.

use super::Alike;
use super::ahead::Ahead;
use super::order::{Known, Order};
use crate::engine::ggml::allocate::Held;
use crate::engine::ggml::number::Number;
use crate::engine::ggml::schedule::{Beginning, Copies};
use crate::engine::ggml::tensor::Place;
use crate::engine::ggml::workbench::Workbench;

/// Between two sections.
#[derive(Debug)]
pub struct Door {
    /// What there is before it and somebody behind it has to do with, ascending.
    known: Vec<Number>,
    /// Those that may hold bytes.
    pub holders: Vec<Number>,
    pub bounds: Alike<Bound>,
    pub aheads: Alike<Ahead>,
    pub states: Alike<State>,
}

/// How far a graph is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub beginning: Beginning,
    /// What was copied before, as far as anybody may want it, ascending.
    pub crossed: Vec<(Number, Place)>,
}

/// Who holds what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Each of the door's.
    pub holders: Vec<Held>,
    /// Copies that somebody still wants.
    pub copies: Vec<(Number, Place, Held)>,
}

impl State {
    /// As it was left on `bench`, with tensors counted from a base.
    pub fn on(
        bench: &Workbench,
        holders: &[Number],
        wanted: &[(Number, Place)],
        copies: &Copies,
        (order, base): (&Order, u32),
    ) -> Self {
        let holder = |number: &Number| Held::on(bench, order.id(*number, base));
        let copy = |&(number, place): &(Number, Place)| {
            (number, place, Held::on(bench, copies.of(order.id(number, base), place)))
        };
        Self { holders: holders.iter().map(holder).collect(), copies: wanted.iter().map(copy).collect() }
    }
}

impl Door {
    pub fn new(known: Known) -> Self {
        let holders = known.iter().filter(|(_, holds)| *holds).map(|(number, _)| *number).collect();
        let known = known.into_iter().map(|(number, _)| number).collect();
        let (bounds, aheads, states) = Default::default();
        Self { known, holders, bounds, aheads, states }
    }

    /// Which of the ways to come to it this is.
    pub fn bound(&mut self, mut bound: Bound) -> usize {
        bound.crossed.retain(|(number, _)| self.known.binary_search(number).is_ok());
        bound.crossed.sort_unstable();
        self.bounds.which(bound)
    }

    /// Which of what may be wanted behind it this is.
    pub fn ahead(&mut self, ahead: Ahead) -> usize {
        self.aheads.which(ahead)
    }

    /// Which of what may be found there this is.
    pub fn state(&mut self, state: State) -> usize {
        self.states.which(state)
    }
}
