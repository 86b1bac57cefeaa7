//! Whether a plan fits as was asked, for a command that goes on only if it does.

use super::{Goal, verdict};
use crate::named::named;
use crate::plan::{Outcome, Plan};

named! {
    /// How a model must fit; each one that follows asks for less.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fit {
        /// All that a token needs is in VRAM, and every GPU keeps free what must stay free.
        Vram = "vram",
        /// The same, whatever stays free.
        Gpu = "gpu",
        /// Every layer is on a GPU; parts of layers, such as experts, may be in RAM.
        Experts = "experts",
        /// It loads, wherever its layers are.
        Load = "load",
    }
}

impl Fit {
    /// Whether `plan` fits so.
    pub fn is_met_by(self, plan: &Plan) -> bool {
        match self {
            Self::Vram => Goal::Vram.is_met_by(plan),
            Self::Gpu => plan.outcome() <= Outcome::Tight,
            Self::Experts => plan.outcome() <= Outcome::ExpertsInRam,
            Self::Load => plan.outcome() < Outcome::DoesNotFit,
        }
    }

    /// Why `plan` does not fit so, as a sentence; none if it does.
    pub fn why_not(self, plan: &Plan) -> Option<String> {
        let asked = match self {
            Self::Vram => "not all in VRAM with what must stay free",
            Self::Gpu => "not all in VRAM",
            Self::Experts => "not every layer is on a GPU",
            Self::Load => "does not load",
        };
        (!self.is_met_by(plan)).then(|| format!("{asked}: {}", verdict::state(plan)))
    }
}
