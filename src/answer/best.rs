//! The best settings while some knobs are held.

use std::fmt;

use super::change::width;
use super::{Case, Change, Goal};
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Context, FlashAttn, Settings};
use crate::units::Tokens;

/// What is wanted most, with every layer on GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The most context.
    Context,
    /// The most sequences at once.
    Parallel,
    /// The widest KV cache.
    CacheType,
}

/// Settings that keep every layer on GPUs, and what they cost against those in effect now.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// What the wished-for knob comes to: tokens, sequences, or the cache's format.
    pub gain: Gain,
    /// What else changes.
    pub costs: Vec<Cost>,
    /// All of it as settings.
    pub settings: Settings,
    /// The plan that they make.
    pub plan: Plan,
}

/// What a suggestion brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gain {
    /// Tokens of context.
    Context(u64),
    /// Sequences at once.
    Parallel(u64),
    /// A format of the KV cache.
    CacheType(CacheType),
}

/// A knob that a suggestion sets lower than it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Fewer tokens of context.
    Context {
        /// Tokens in effect now.
        from: u64,
        /// Tokens suggested.
        to: u64,
    },
    /// Fewer sequences at once.
    Parallel {
        /// Sequences in effect now.
        from: u64,
        /// Sequences suggested.
        to: u64,
    },
    /// A smaller batch.
    Batch {
        /// Tokens in effect now.
        from: u64,
        /// Tokens suggested.
        to: u64,
    },
    /// A narrower KV cache.
    CacheType {
        /// The format in effect now.
        from: CacheType,
        /// The format suggested.
        to: CacheType,
    },
    /// Flash attention has to be switched on.
    FlashAttn,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Context { from, to } => write!(f, "a context of {} instead of {}", Tokens(to), Tokens(from)),
            Self::Parallel { from, to: 1 } => write!(f, "one sequence at a time instead of {from}"),
            Self::Parallel { from, to } => write!(f, "{to} sequences at once instead of {from}"),
            Self::Batch { from, to } => write!(f, "a batch of {} instead of {}", Tokens(to), Tokens(from)),
            Self::CacheType { from, to } => write!(f, "a {to} cache instead of {from}"),
            Self::FlashAttn => write!(f, "flash attention switched on"),
        }
    }
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Context(tokens) => write!(f, "a context of {}", Tokens(tokens)),
            Self::Parallel(1) => write!(f, "one sequence at a time"),
            Self::Parallel(sequences) => write!(f, "{sequences} sequences at once"),
            Self::CacheType(ty) => write!(f, "a {ty} cache"),
        }
    }
}

/// No more suggestions than these.
const MOST_SUGGESTIONS: usize = 3;

impl Case<'_> {
    /// Up to three ways to get the most of what is wished for with every layer on GPUs, the one that costs least first;
    /// each further one costs more and brings more. The knobs in `held` stay as they are. `plan` is this case's.
    pub fn best(&self, plan: &Plan, wish: Wish, held: &[Knob]) -> Vec<Suggestion> {
        // suggestions give K and V one format
        let apart = held.iter().any(|knob| matches!(knob, Knob::CacheTypeK | Knob::CacheTypeV));
        let held: Vec<Knob> = held.iter().copied().chain(apart.then_some(Knob::CacheType)).collect();
        let held = held.as_slice();
        if held.contains(&wish.knob()) || self.machine.gpus.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<Suggestion> = Vec::new();
        for changes in Self::combinations(plan, wish, held) {
            let mut settings = self.settings.clone();
            let mut machine = self.machine.clone();
            for change in &changes {
                change.apply(&mut settings, &mut machine);
            }
            found.extend(self.fulfil(plan, wish, held, settings));
        }
        // fewest costs first; of equal costs the one that brings most
        found.sort_by_key(|one| (one.costs.len(), std::cmp::Reverse(one.gain.worth())));
        let mut best: Vec<Suggestion> = Vec::new();
        for one in found {
            if best.last().is_none_or(|last| last.gain.worth() < one.gain.worth()) {
                best.push(one);
            }
        }
        // the cheapest, the one that brings most, and the best that one more change buys
        if best.len() > MOST_SUGGESTIONS {
            best.drain(MOST_SUGGESTIONS - 1..best.len() - 1);
        }
        best
    }

    /// Ways to set the knobs that are neither wished for nor held.
    fn combinations(plan: &Plan, wish: Wish, held: &[Knob]) -> Vec<Vec<Change>> {
        let effect = &plan.settings;
        let free = |knob: Knob| knob != wish.knob() && !held.contains(&knob);
        let mut axes: Vec<Vec<Option<Change>>> = Vec::new();
        let mut axis =
            |changes: Vec<Change>| axes.push(std::iter::once(None).chain(changes.into_iter().map(Some)).collect());
        let flash = free(Knob::FlashAttn) && effect.flash_attn != FlashAttn::On;
        if free(Knob::CacheType) {
            let narrower =
                [CacheType::Q8_0, CacheType::Q4_0].into_iter().filter(|&ty| width(ty) < width(effect.cache_type_k));
            let mut changes: Vec<_> =
                narrower.map(if flash { Change::CacheWithFlash } else { Change::Cache }).collect();
            changes.extend(flash.then_some(Change::FlashAttn));
            axis(changes);
        } else if flash {
            axis(vec![Change::FlashAttn]);
        }
        if free(Knob::Parallel) && effect.parallel > 1 {
            axis(vec![Change::Parallel(1)]);
        }
        if free(Knob::Batch) && effect.batch > 128 {
            axis(vec![Change::Batch(128)]);
        }
        if free(Knob::Context) && wish == Wish::Parallel {
            let shorter = [2, 4, 8].map(|part| effect.ctx / part);
            axis(shorter.into_iter().filter(|&tokens| tokens >= 1024).map(Change::Context).collect());
        }
        axes.iter().fold(vec![Vec::new()], |sets, axis| {
            let with = |set: &Vec<Change>, one: &Option<Change>| set.iter().copied().chain(*one).collect();
            sets.iter().flat_map(|set| axis.iter().map(move |one| with(set, one))).collect()
        })
    }

    /// The most of what is wished for with these settings.
    fn fulfil(&self, now: &Plan, wish: Wish, held: &[Knob], mut settings: Settings) -> Option<Suggestion> {
        let case = Case { settings: &settings, ..*self };
        let (gain, plan) = match wish {
            Wish::Context | Wish::Parallel => {
                let largest = case.largest(wish.knob(), Goal::All)?;
                (
                    if wish == Wish::Context { Gain::Context(largest.value) } else { Gain::Parallel(largest.value) },
                    largest.plan,
                )
            }
            Wish::CacheType => case.widest_cache(held)?,
        };
        match gain {
            Gain::Context(tokens) => settings.ctx = Context::Tokens(tokens),
            Gain::Parallel(sequences) => settings.parallel = Some(sequences),
            Gain::CacheType(ty) => {
                (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty));
                if wish == Wish::CacheType && plan.settings.ctx < now.settings.ctx {
                    settings.ctx = Context::Tokens(plan.settings.ctx);
                }
            }
        }
        Some(Suggestion { gain, costs: costs(now, &plan, wish), settings, plan })
    }

    /// The widest cache that keeps every layer on GPUs, with less context where that is not held.
    fn widest_cache(&self, held: &[Knob]) -> Option<(Gain, Plan)> {
        [CacheType::F16, CacheType::Q8_0, CacheType::Q4_0].into_iter().find_map(|ty| {
            let mut settings = self.settings.clone();
            (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty));
            let case = Case { settings: &settings, ..*self };
            let plan = case.plan().ok().filter(|plan| plan.settings.cache_type_k == ty)?;
            if Goal::All.is_met_by(&plan) {
                return Some((Gain::CacheType(ty), plan));
            }
            if held.contains(&Knob::Context) {
                return None;
            }
            let shorter = case.largest_below(Knob::Context, Goal::All, plan.settings.ctx)?;
            Some((Gain::CacheType(ty), shorter.plan))
        })
    }
}

impl Wish {
    /// Every wish.
    pub const ALL: [Self; 3] = [Self::Context, Self::Parallel, Self::CacheType];

    /// The knob that is to go as far as it can.
    pub const fn knob(self) -> Knob {
        match self {
            Self::Context => Knob::Context,
            Self::Parallel => Knob::Parallel,
            Self::CacheType => Knob::CacheType,
        }
    }
}

impl Gain {
    /// More is better; only gains of one kind are compared.
    const fn worth(self) -> u64 {
        match self {
            Self::Context(amount) | Self::Parallel(amount) => amount,
            Self::CacheType(ty) => width(ty) as u64,
        }
    }
}

/// What is lower in `then` than it is `now`.
fn costs(now: &Plan, then: &Plan, wish: Wish) -> Vec<Cost> {
    let (now, then) = (&now.settings, &then.settings);
    let mut costs = Vec::new();
    if wish != Wish::Context && then.ctx < now.ctx {
        costs.push(Cost::Context { from: now.ctx, to: then.ctx });
    }
    if wish != Wish::Parallel && then.parallel < now.parallel {
        costs.push(Cost::Parallel { from: now.parallel, to: then.parallel });
    }
    if then.batch < now.batch && then.batch < then.ctx {
        costs.push(Cost::Batch { from: now.batch, to: then.batch });
    }
    if width(then.cache_type_k) < width(now.cache_type_k) {
        costs.push(Cost::CacheType { from: now.cache_type_k, to: then.cache_type_k });
    }
    if then.flash_attn == FlashAttn::On && now.flash_attn != FlashAttn::On {
        costs.push(Cost::FlashAttn);
    }
    costs
}
