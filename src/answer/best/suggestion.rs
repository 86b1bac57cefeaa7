//! A suggestion of best settings: its gain, its costs, and its command line options.

use std::fmt;

use super::Objective;
use crate::answer::change::width;
use crate::plan::{Outcome, Plan};
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Context, FlashAttn, Settings};
use crate::units::Tokens;

/// Settings that keep every layer on GPUs, with their costs relative to those in effect now.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// The new value of the objective's knob.
    pub gain: Gain,
    /// Other knobs that change for it.
    pub costs: Vec<Cost>,
    /// The suggested settings.
    pub settings: Settings,
    /// Their plan.
    pub plan: Plan,
}

impl Suggestion {
    /// Its costs in words, and how many bytes of the weights are in RAM although every layer counts as on GPUs.
    pub fn cost_text(&self) -> String {
        let costs: Vec<String> = self.costs.iter().map(ToString::to_string).collect();
        let costs = if costs.is_empty() {
            "with nothing else changed".to_owned()
        } else {
            format!("in exchange for {}", costs.join(", "))
        };
        match self.plan.outcome() {
            Outcome::ExpertsInRam => format!("{costs}; {} of the weights are in RAM", self.plan.parts_in_ram()),
            _ => costs,
        }
    }
}

/// The gain of a suggestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gain {
    /// Tokens of context.
    Context(u64),
    /// Parallel sequences.
    Parallel(u64),
    /// Type of the KV cache.
    CacheType(CacheType),
}

/// A knob that a suggestion lowers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Fewer tokens of context.
    Context {
        /// Tokens in effect now.
        from: u64,
        /// Tokens suggested.
        to: u64,
    },
    /// Fewer parallel sequences.
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
        /// The type in effect now.
        from: CacheType,
        /// The type suggested.
        to: CacheType,
    },
    /// Flash attention is switched on.
    FlashAttn,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Context { from, to } => write!(f, "a context of {} instead of {}", Tokens(to), Tokens(from)),
            Self::Parallel { from, to: 1 } => write!(f, "1 parallel sequence instead of {from}"),
            Self::Parallel { from, to } => write!(f, "{to} parallel sequences instead of {from}"),
            Self::Batch { from, to } => write!(f, "a batch of {} instead of {}", Tokens(to), Tokens(from)),
            Self::CacheType { from, to } => write!(f, "{} {to} cache instead of {from}", article(to)),
            Self::FlashAttn => write!(f, "flash attention on"),
        }
    }
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Context(tokens) => write!(f, "a context of {}", Tokens(tokens)),
            Self::Parallel(1) => write!(f, "1 parallel sequence"),
            Self::Parallel(sequences) => write!(f, "{sequences} parallel sequences"),
            Self::CacheType(ty) => write!(f, "{} {ty} cache", article(ty)),
        }
    }
}

/// `an f16 cache`, `a q8_0 cache`.
fn article(ty: CacheType) -> &'static str {
    if ty.to_string().starts_with(['f', 'i']) { "an" } else { "a" }
}

impl Suggestion {
    /// The command line options that turn `asked` into the suggested settings.
    pub fn options(&self, asked: &Settings) -> String {
        let to = &self.settings;
        let mut options = Vec::new();
        if let Context::Tokens(tokens) = to.ctx
            && to.ctx != asked.ctx
        {
            options.push(format!("--ctx {tokens}"));
        }
        let numbers = [("parallel", to.parallel, asked.parallel), ("batch", to.batch, asked.batch)];
        for (name, number, before) in numbers {
            options.extend(number.filter(|_| number != before).map(|number| format!("--{name} {number}")));
        }
        if (to.cache_type_k, to.cache_type_v) != (asked.cache_type_k, asked.cache_type_v) {
            options.extend(to.cache_type_k.map(|ty| format!("--kv-type {ty}")));
        }
        if to.flash_attn != asked.flash_attn {
            options.push(format!("--flash-attn {}", to.flash_attn));
        }
        options.join(" ")
    }
}

impl Cost {
    /// The knob that is lowered.
    pub const fn knob(self) -> Knob {
        match self {
            Self::Context { .. } => Knob::Context,
            Self::Parallel { .. } => Knob::Parallel,
            Self::Batch { .. } => Knob::Batch,
            Self::CacheType { .. } => Knob::CacheType,
            Self::FlashAttn => Knob::FlashAttn,
        }
    }
}

impl Gain {
    /// Higher is better; only comparable between gains of one objective.
    pub(super) const fn worth(self) -> u64 {
        match self {
            Self::Context(amount) | Self::Parallel(amount) => amount,
            Self::CacheType(ty) => width(ty) as u64,
        }
    }
}

/// The knobs that are lower in `then` than in `now`.
pub(super) fn costs(now: &Plan, then: &Plan, objective: Objective) -> Vec<Cost> {
    let (now, then) = (&now.settings, &then.settings);
    let mut costs = Vec::new();
    if objective != Objective::Context && then.ctx < now.ctx {
        costs.push(Cost::Context { from: now.ctx, to: then.ctx });
    }
    if objective != Objective::Parallel && then.parallel < now.parallel {
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
