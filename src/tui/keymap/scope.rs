//! Scopes of key bindings.

use super::{Binding, KEYS};

/// Where a key binding is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// On every screen.
    Everywhere,
    /// On the planner, with any focus.
    Plan,
    /// On the planner, with the focus on the knobs.
    Knobs,
    /// On the planner, with the focus on a panel with a list.
    Lists,
    /// While text is typed.
    Field,
    /// On the machine screen.
    Machine,
    /// In the card picker.
    CardPicker,
    /// In the list of saved machines.
    SavedMachines,
    /// In the model browser.
    Models,
    /// In lists of suggestions or engines.
    Suggestions,
    /// On the sweep page.
    Sweep,
    /// On the matrix page.
    Matrix,
    /// On the compare page.
    Compare,
    /// On the page of a log beside its plan.
    Verify,
    /// On the export page.
    Export,
    /// On the pages of the teach screen.
    Teach,
    /// On overlays.
    Page,
}

impl Scope {
    /// The bindings of this scope, in the order of the table.
    pub fn bindings(self) -> impl Iterator<Item = &'static Binding> {
        KEYS.iter().filter(move |binding| binding.scope == self)
    }

    /// The heading in the help.
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
            Self::Verify => "Planned and observed",
            Self::Export => "Export",
            Self::Teach => "Teach",
            Self::Page => "Pop-up pages",
        }
    }

    /// Every scope, in the order of the help.
    pub const ALL: [Self; 17] = [
        Self::Knobs,
        Self::Lists,
        Self::Plan,
        Self::Suggestions,
        Self::Sweep,
        Self::Matrix,
        Self::Compare,
        Self::Verify,
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
