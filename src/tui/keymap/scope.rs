//! Where keys have their meaning.

use super::{Binding, KEYS};

/// Where a key has its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// On every screen.
    Everywhere,
    /// On the planner, whatever has the focus.
    Plan,
    /// On the planner, with the focus on the knobs.
    Knobs,
    /// On the planner, with the focus on a panel that lists things.
    Lists,
    /// While something is typed.
    Field,
    /// On the machine screen.
    Machine,
    /// While a card is chosen.
    CardPicker,
    /// Among the saved machines.
    SavedMachines,
    /// While a model is chosen.
    Models,
    /// Where one of several suggestions can be taken.
    Suggestions,
    /// On memory along a knob's range.
    Sweep,
    /// On what fits where.
    Matrix,
    /// While plans are compared.
    Compare,
    /// While a plan is taken away.
    Export,
    /// On the pages of the teach screen.
    Teach,
    /// On a page in front of the planner.
    Page,
}

impl Scope {
    /// The lines of the table that hold here, in its order.
    pub fn bindings(self) -> impl Iterator<Item = &'static Binding> {
        KEYS.iter().filter(move |binding| binding.scope == self)
    }

    /// The heading in the help, for those that have one of their own.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Everywhere => "Everywhere",
            Self::Plan => "Planner",
            Self::Knobs => "Knobs",
            Self::Lists => "Layers, memory, graph",
            Self::Field => "Text input",
            Self::Machine => "Machine",
            Self::CardPicker => "Choosing a card",
            Self::SavedMachines => "Saved machines",
            Self::Models => "Models",
            Self::Suggestions => "Suggestions, engines",
            Self::Sweep => "Sweep",
            Self::Matrix => "Matrix",
            Self::Compare => "Compare",
            Self::Export => "Export",
            Self::Teach => "Teach",
            Self::Page => "Pop-up pages",
        }
    }

    /// Every scope, in the order of the help.
    pub const ALL: [Self; 16] = [
        Self::Knobs,
        Self::Lists,
        Self::Plan,
        Self::Suggestions,
        Self::Sweep,
        Self::Matrix,
        Self::Compare,
        Self::Export,
        Self::Machine,
        Self::CardPicker,
        Self::SavedMachines,
        Self::Teach,
        Self::Models,
        Self::Field,
        Self::Page,
        Self::Everywhere,
    ];
}
