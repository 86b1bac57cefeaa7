//! What a card gives up against the plan now.

use std::fmt;

use crate::answer::glance::uncapitalised;
use crate::answer::quality;
use crate::engine::PlanRequest;
use crate::plan::{Outcome, Plan};
use crate::settings::CacheType;
use crate::speed::prompt::PromptSpeed;
use crate::speed::{Speed, SpeedRange};
use crate::units::{Bytes, Difference, Tokens};

/// What a card gives up.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// All of a token's weights on GPUs.
    Vram(Outcome),
    /// Layers on GPUs.
    Layers {
        /// On GPUs now.
        from: usize,
        /// On GPUs then.
        to: usize,
    },
    /// Tokens per second.
    Speed {
        /// Now.
        from: SpeedRange,
        /// Then.
        to: SpeedRange,
        /// Tokens in the cache.
        depth: u64,
    },
    /// Tokens per second with the context full, where that is longer.
    SpeedWhenFull {
        /// Now.
        from: SpeedRange,
        /// Then.
        to: SpeedRange,
        /// The context now, in tokens.
        from_tokens: u64,
        /// The context then, in tokens.
        to_tokens: u64,
    },
    /// Tokens of a prompt per second.
    Prompts {
        /// Now.
        from: SpeedRange,
        /// Then.
        to: SpeedRange,
    },
    /// Tokens of context.
    Context {
        /// Tokens in effect now.
        from: u64,
        /// Tokens suggested.
        to: u64,
    },
    /// Bits of the weights.
    Quantisation {
        /// The quantisation now.
        from: String,
        /// The one suggested.
        to: String,
    },
    /// Bits of the KV cache.
    CacheType {
        /// The type in effect now.
        from: CacheType,
        /// The type suggested.
        to: CacheType,
    },
    /// Margin: so much is left.
    Margin {
        /// Left now.
        from: Difference,
        /// Left then.
        to: Difference,
    },
}

/// A margin that shrinks by less is as large as before.
const NOTABLE: Bytes = Bytes::mib(32);

impl Loss {
    /// All losses of `then` against `now`, the gravest first.
    pub(super) fn between(now: (&PlanRequest, &Plan), then: (&PlanRequest, &Plan)) -> Vec<Self> {
        let ((request_now, now), (request_then, then)) = (now, then);
        let (before, after) = (&now.settings, &then.settings);
        let mut losses = Vec::new();
        if then.outcome() > now.outcome() {
            losses.push(Self::Vram(then.outcome()));
        }
        if then.on_gpus() < now.on_gpus() {
            losses.push(Self::Layers { from: now.on_gpus(), to: then.on_gpus() });
        }
        let both = before.ctx_per_sequence.min(after.ctx_per_sequence);
        for depth in [0, both] {
            let of = |request: &PlanRequest, plan: &Plan| Speed::of(&request.model, &request.machine, plan, depth);
            let Some((from, to)) = of(request_now, now).zip(of(request_then, then)) else { continue };
            let is_slower = to.shown() < from.shown();
            if is_slower && !losses.iter().any(|loss| matches!(loss, Self::Speed { .. })) {
                losses.push(Self::Speed { from: from.range(), to: to.range(), depth });
            }
        }
        let full = |request: &PlanRequest, plan: &Plan| {
            Speed::of(&request.model, &request.machine, plan, plan.settings.ctx_per_sequence)
        };
        if !losses.iter().any(|loss| matches!(loss, Self::Speed { .. }))
            && let (Some(from), Some(to)) = (full(request_now, now), full(request_then, then))
            && to.shown() < from.shown()
        {
            let (from_tokens, to_tokens) = (before.ctx_per_sequence, after.ctx_per_sequence);
            losses.push(Self::SpeedWhenFull { from: from.range(), to: to.range(), from_tokens, to_tokens });
        }
        if let (Some(from), Some(to)) = (prompts_of(request_now, now), prompts_of(request_then, then))
            && to.range().shown() < from.range().shown()
        {
            losses.push(Self::Prompts { from: from.range(), to: to.range() });
        }
        if after.ctx < before.ctx {
            losses.push(Self::Context { from: before.ctx, to: after.ctx });
        }
        if quality::of_model(&request_then.model) > quality::of_model(&request_now.model) {
            let name = |plan: &Plan| plan.model.file_type.clone().unwrap_or_default();
            losses.push(Self::Quantisation { from: name(now), to: name(then) });
        }
        let types = [(before.cache_type_k, after.cache_type_k), (before.cache_type_v, after.cache_type_v)];
        let narrower =
            |&(from, to): &(CacheType, CacheType)| quality::of_caches(to, to) > quality::of_caches(from, from);
        losses.extend(types.into_iter().find(narrower).map(|(from, to)| Self::CacheType { from, to }));
        if let (Some(from), Some(to)) = (margin_of(now), margin_of(then))
            && from.left() - to.left() >= NOTABLE
        {
            losses.push(Self::Margin { from, to });
        }
        losses
    }

    /// Its name in JSON, and what is given up in a word.
    const fn names(&self) -> [&'static str; 2] {
        match self {
            Self::Vram(_) => ["vram", "VRAM alone"],
            Self::Layers { .. } => ["layers", "GPU layers"],
            Self::Speed { .. } => ["speed", "speed"],
            Self::SpeedWhenFull { .. } => ["speed_when_full", "full speed"],
            Self::Prompts { .. } => ["prompts", "prompts"],
            Self::Context { .. } => ["ctx", "context"],
            Self::Quantisation { .. } => ["quant", "weights"],
            Self::CacheType { .. } => ["kv-type", "KV"],
            Self::Margin { .. } => ["margin", "headroom"],
        }
    }

    /// Its name in JSON.
    pub const fn name(&self) -> &'static str {
        self.names()[0]
    }

    /// What is given up, in a word.
    pub const fn word(&self) -> &'static str {
        self.names()[1]
    }
}

/// After "gives up".
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vram(outcome) => {
                write!(f, "running from VRAM alone: {}", uncapitalised(outcome.headline()))
            }
            Self::Layers { from, to } => write!(f, "layers on GPU: {to} instead of {from}"),
            Self::Speed { from, to, depth: 0 } => write!(f, "speed: {to} instead of ≈ {}", from.cell()),
            Self::Speed { from, to, depth } => {
                write!(f, "speed at {} tokens: {to} instead of ≈ {}", Tokens(*depth), from.cell())
            }
            Self::SpeedWhenFull { from, to, from_tokens, to_tokens } => write!(
                f,
                "speed with the context full: {to} at {} tokens instead of ≈ {} at {}",
                Tokens(*to_tokens),
                from.cell(),
                Tokens(*from_tokens)
            ),
            Self::Prompts { from, to } => write!(f, "speed of prompts: {to} instead of ≈ {}", from.cell()),
            Self::Context { from, to } => write!(f, "{} of {} tokens of context", Tokens(from - to), Tokens(*from)),
            Self::Quantisation { from, to } => write!(f, "precise weights: {to} instead of {from}"),
            Self::CacheType { from, to } => write!(f, "a precise KV cache: {to} instead of {from}"),
            Self::Margin { from, to } => write!(f, "headroom: {to} instead of {from}"),
        }
    }
}

/// How fast a long prompt is read, or one of the whole context.
pub(super) fn prompts_of(request: &PlanRequest, plan: &Plan) -> Option<PromptSpeed> {
    PromptSpeed::of_plan(&request.model, &request.machine, plan).ok()
}

/// What the fullest GPU has left above what must stay free.
pub(super) fn margin_of(plan: &Plan) -> Option<Difference> {
    plan.tightest_gpu().map(|(_, headroom)| headroom.above())
}
