//! The best settings, as a few named cards: each is the best of its name among all settings that were planned, with
//! everything that it changes and gives up.

mod candidates;
mod card;
mod loss;

use std::borrow::Cow;

use rayon::prelude::*;

use super::quality;
use crate::engine::{EngineError, PlanRequest};
use crate::gguf::FileType;
use crate::named::named;
use crate::plan::Plan;
use crate::settings::CacheType;
use crate::settings::knob::Knob;
use crate::units::Bytes;
use candidates::{BestSearch, Candidate, Step, WIDEST_USEFUL};

pub use card::{Card, FirstToken, KnobChange, NEW_TOKENS, Placement};
pub use loss::Loss;

named! {
    /// What a card serves best, by its name on the command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Objective {
        /// What an expert would take: precise enough, with a margin, a useful context, fast enough.
        Balanced = "balanced",
        /// The most tokens per second, at the context that is wanted.
        Speed = "speed",
        /// The least loss by quantisation.
        Quality = "quality",
        /// The most tokens of a prompt per second.
        Prompts = "prompts",
        /// The longest context.
        Context = "context",
        /// Layers and experts where they are read fastest, rather than where the engine puts them.
        Placement = "placement",
        /// All in VRAM with the largest margin.
        Safe = "safe",
    }
}

/// The question: what may change, and what is good enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestRequest {
    /// Knobs that stay as they are.
    pub held: Vec<Knob>,
    /// What the safe card leaves on every GPU besides what the engine keeps free, and the balanced one where good weights
    /// allow it.
    pub margin: Bytes,
    /// The narrowest types that are suggested.
    pub minimums: Minimums,
}

/// The narrowest types that are suggested; without one, none that lose much, unless nothing else runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Minimums {
    /// Of weights.
    pub quant: Option<FileType>,
    /// Of the KV cache.
    pub cache: Option<CacheType>,
}

/// Takes in what a driver or a desktop may do.
pub const DEFAULT_MARGIN: Bytes = Bytes::mib(512);

/// The narrowest KV cache that is good without a word.
const GOOD_CACHE: CacheType = CacheType::Q8_0;

impl BestRequest {
    /// For the user, if there is no safe card.
    pub fn nothing_is_safe(&self) -> String {
        format!("Safe: no settings were found that keep all in VRAM with {} left on every GPU.", self.margin)
    }

    /// Whether the knob stays as it is.
    fn holds(&self, knob: Knob) -> bool {
        // suggestions set K and V to one type, so holding either holds both
        let one_of_two = || self.held.iter().any(|held| matches!(held, Knob::CacheTypeK | Knob::CacheTypeV));
        self.held.contains(&knob) || (knob == Knob::CacheType && one_of_two())
    }
}

impl Minimums {
    /// Whether weights of this type may be suggested.
    fn allow(self, to: FileType) -> bool {
        let loss = quality::of_weights(to);
        self.quant.map_or(!quality::is_last_resort(loss), |floor| loss <= quality::of_weights(floor))
    }

    /// Whether a cache of this type may be.
    fn allow_cache(self, ty: CacheType) -> bool {
        quality::of_caches(ty, ty) <= quality::of_caches(self.cache(), self.cache())
    }

    fn cache(self) -> CacheType {
        self.cache.unwrap_or(GOOD_CACHE)
    }
}

impl PlanRequest {
    /// The card of each objective; settings that serve several make one card. `plan` is this request's plan. An
    /// objective without a card cannot be served: no settings are safe, or no speed is known.
    pub fn best(&self, plan: &Plan, question: &BestRequest) -> Vec<Card> {
        let search = BestSearch::new(self, Cow::Borrowed(plan), question);
        let (first, last): (Vec<Step>, Vec<Step>) = search.steps().into_iter().partition(Step::is_alone);
        let mut tried: Vec<Candidate> =
            first.into_par_iter().with_max_len(1).flat_map_iter(|step| step.take(&search, &[])).collect();
        for step in last {
            let found = step.take(&search, &tried);
            tried.extend(found);
        }
        search.cards(&tried)
    }

    /// As [`PlanRequest::best`], in steps, of which the last one gives the cards.
    pub fn best_in_steps<'a>(
        &'a self,
        plan: Plan,
        question: &'a BestRequest,
    ) -> impl Iterator<Item = Option<Vec<Card>>> + 'a {
        let search = BestSearch::new(self, Cow::Owned(plan), question);
        let mut steps = search.steps().into_iter();
        let mut tried: Vec<Candidate> = Vec::new();
        let mut is_done = false;
        std::iter::from_fn(move || {
            if let Some(step) = steps.next() {
                let found = step.take(&search, &tried);
                tried.extend(found);
                return Some(None);
            }
            (!std::mem::replace(&mut is_done, true)).then(|| Some(search.cards(&tried)))
        })
    }

    /// What an expert would take: good weights and a good cache all in VRAM with the margin and a useful context; else
    /// experts in RAM, a shorter context, or layers in RAM, as far as that is fast enough; else narrower weights. With its
    /// trial, as `plan` may be one.
    pub fn balanced(&self, plan: &Plan, question: &BestRequest) -> Option<(Self, Plan)> {
        let (found, known) = BestSearch::new(self, Cow::Borrowed(plan), question).balanced()?;
        let planned = known.or_else(|| if found == *self { Some(plan.clone()) } else { found.trial().ok() })?;
        Some((found, planned))
    }

    /// The balanced settings of a model that can be had in any type, of which no plan is known yet: the first one is made
    /// in the type that is tried first. With its trial.
    ///
    /// # Errors
    /// As [`PlanRequest::trial`].
    pub fn balanced_in_any(&self, question: &BestRequest) -> Result<(Self, Plan), EngineError> {
        let vram: Bytes = self.machine.gpus.iter().map(|gpu| gpu.free).sum();
        let is_trained_in = quality::own_type(&self.opened).is_some_and(|own| quality::TRAINED_IN.contains(&own));
        let wide = if is_trained_in { None } else { self.quantised(WIDEST_USEFUL) };
        let wide = wide.filter(|wide| wide.model.bytes <= vram);
        let first = wide.and_then(|wide| Some((wide.trial().ok()?, wide)));
        if let Some(found) = first.and_then(|(plan, wide)| wide.balanced(&plan, question)) {
            return Ok(found);
        }
        let plan = self.trial()?;
        Ok(self.balanced(&plan, question).unwrap_or_else(|| (self.clone(), plan)))
    }
}

impl Objective {
    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Balanced => "Balanced",
            Self::Safe => "Safe",
            Self::Placement => "Faster placement",
            Self::Context => "Longest context",
            Self::Speed => "Fastest",
            Self::Prompts => "Fastest prompts",
            Self::Quality => "Best quality",
        }
    }
}
