//! The best settings, as a few named cards: each is the best of its name among all settings that were planned, with
//! everything that it changes and gives up.

mod candidates;
mod card;
mod loss;
mod sides;

use std::borrow::Cow;
use std::sync::Arc;

use rayon::prelude::*;

use super::quality;
use crate::engine::{EngineError, PlanRequest};
use crate::gguf::FileType;
use crate::model::mixture::Quantisation;
use crate::named::named;
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Flag, Settings};
use crate::units::Bytes;
use candidates::{BestSearch, Candidate, Step};

pub use card::{Card, FirstToken, KnobChange, NEW_TOKENS, Placement, Poorer};
pub use loss::Loss;
pub use sides::Side;

named! {
    /// What a card serves best, by its name on the command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Objective {
        /// What an expert would take: precise enough, with a margin, a useful context, fast enough.
        Balanced = "balanced",
        /// The most tokens per second, with the context that is wanted full.
        Speed = "speed",
        /// The least loss by quantisation, fast enough to be used.
        Quality = "quality",
        /// The most tokens of a prompt per second.
        Prompts = "prompts",
        /// The longest context that is fast enough to be used when it is full.
        Context = "context",
        /// Layers and experts where they are read fastest, rather than where the engine puts them.
        Placement = "placement",
        /// All in VRAM with the largest margin, at the context that is wanted.
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
    /// Whether, of a model of the catalogue, types that a place is known to have stand before all others.
    pub prefers_published: bool,
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

/// The knobs that cards choose where they are not held.
const MOVED: [Knob; 11] = [
    Knob::Context,
    Knob::Quant,
    Knob::CacheType,
    Knob::CacheTypeK,
    Knob::CacheTypeV,
    Knob::FlashAttn,
    Knob::Batch,
    Knob::Ubatch,
    Knob::GpuLayers,
    Knob::CpuMoe,
    Knob::TensorSplit,
];

/// The narrowest KV cache that is good without a word.
const GOOD_CACHE: CacheType = CacheType::Q8_0;

impl BestRequest {
    /// For the user, if there is no safe card.
    pub fn nothing_is_safe(&self) -> String {
        format!("Safe: no settings were found that keep all in VRAM with {} left on every GPU.", self.margin)
    }

    /// `request` without what cards choose, where it is not held: knobs as the engine sets them, the model as opened, and no
    /// placement that a card has made.
    fn freed(&self, request: &PlanRequest) -> PlanRequest {
        let free: Vec<Knob> = MOVED.into_iter().filter(|knob| !self.holds(*knob)).collect();
        let places =
            free.contains(&Knob::GpuLayers) && free.contains(&Knob::CpuMoe) && free.contains(&Knob::TensorSplit);
        let mut freed = request.clone();
        let settings = &mut freed.settings;
        let is_given = |flag| request.settings.is_given(flag);
        if places && settings.no_fit && !is_given(Flag::Fit) {
            let placing = [Flag::Device, Flag::OverrideTensor, Flag::NoKvOffload, Flag::Fit];
            placing
                .into_iter()
                .filter(|flag| !is_given(*flag))
                .for_each(|flag| flag.copy(&Settings::default(), settings));
        }
        for knob in &free {
            knob.reset(settings);
        }
        if free.contains(&Knob::Quant) {
            freed.model = Arc::clone(&freed.opened);
        }
        freed
    }

    /// Whether the knob stays as it is.
    fn holds(&self, knob: Knob) -> bool {
        // suggestions set K and V to one type, so holding either holds both
        let one_of_two = || self.held.iter().any(|held| matches!(held, Knob::CacheTypeK | Knob::CacheTypeV));
        let is_cache = matches!(knob, Knob::CacheType | Knob::CacheTypeK | Knob::CacheTypeV);
        self.held.contains(&knob) || is_cache && (one_of_two() || self.held.contains(&Knob::CacheType))
    }
}

impl Minimums {
    /// Whether weights of this type may be suggested.
    fn allow(self, to: Quantisation) -> bool {
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
        let search = BestSearch::of_held(self, Cow::Borrowed(plan), question);
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
        let search = BestSearch::of_held(self, Cow::Owned(plan), question);
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
        let (found, known) = BestSearch::around(self, Cow::Borrowed(plan), question).balanced()?;
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
        let widest = quality::ladder_of(self.engine).into_iter().find(|to| quality::of_weights(*to) > 0.0);
        let wide = widest.filter(|_| !quality::is_trained_in(&self.opened)).and_then(|widest| self.quantised(widest));
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
