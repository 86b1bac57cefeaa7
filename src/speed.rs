//! How fast a plan generates: tokens per second at a depth of context, as a range with its terms.
//!
//! Generating a token reads every weight that it needs and its part of the cache once. So the time per token is what
//! all devices read, over the share of their bandwidth that they reach, plus what launching the layers, passing from
//! card to card and waiting for RAM take. One device works after the other.
//!
//! - [`work`]: what each block reads, and the work of every device under a plan; `mlx_work` is that of MLX.
//! - [`terms`]: the time of that work, by constants that were fitted on measurements of devices of a family; and what a
//!   measured speed tells of RAM.
//! - [`family`]: families of devices, and what is known of a card.
//! - [`prompt`]: how fast a prompt is read.
//! - [`turn`]: how long an answer to a prompt takes.
//! - [`range`]: how far measurements are from the model, and how users read it.
//!
//! ```
//! use plimsoll::speed::Speed;
//! # use plimsoll::engine::{EngineId, PlanRequest};
//! # use plimsoll::machine::Machine;
//! # use plimsoll::settings::Settings;
//! # use plimsoll::catalogue;
//! # let (model, _) = catalogue::model_and_projector("qwen3-8b").ok_or("no such model")?;
//! # let machine = Machine::described(&["RTX 3060"], "32GiB")?;
//! # let request = PlanRequest::new(EngineId::LlamaCpp, model, machine, Settings::default());
//! let plan = request.plan()?;
//! let at = |depth| Speed::of(&request.model, &request.machine, &plan, depth).ok_or("the card is not known");
//! println!("{}, {} with 8192 tokens in the cache", at(0)?, at(8192)?);
//! assert!(at(0)?.tokens_per_second > at(8192)?.tokens_per_second);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod family;
mod mlx_work;
pub mod prompt;
pub mod range;
pub mod terms;
pub mod turn;
pub mod work;

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::PreparedModel;
use crate::machine::Machine;
use crate::plan::{Confidence, Outcome, Plan};
use prompt::PromptSpeed;
use terms::FITTED;
use turn::TurnTime;
use work::Work;

/// Tokens per second that are comfortable to read along with.
pub const FAST_ENOUGH: f64 = 10.0;

/// Tokens per second below which few would wait.
pub const USABLE: f64 = 5.0;

/// The modelled speed of generation.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Speed {
    /// Tokens in the cache.
    pub depth: u64,
    /// Tokens per second, in the middle of the range.
    pub tokens_per_second: f64,
    /// Nine of ten measurements are faster.
    pub low: f64,
    /// Nine of ten measurements are slower.
    pub high: f64,
    /// Always modelled, or assumed.
    pub confidence: Confidence,
    /// Why it is assumed or wide, as part of a sentence.
    pub reason: Option<String>,
    /// What is assumed, in a few words.
    #[serde(skip)]
    pub assumes: Option<&'static str>,
    /// What a token's time consists of, in the order of devices.
    pub terms: Vec<Term>,
}

/// Tokens per second, as a range.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SpeedRange {
    /// In the middle.
    pub tokens_per_second: f64,
    /// Nine of ten measurements are faster.
    pub low: f64,
    /// Nine of ten measurements are slower.
    pub high: f64,
}

/// A part of a token's time.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Term {
    /// What it is: `GPU0 weights`.
    pub name: String,
    /// Its time.
    pub milliseconds: f64,
    /// How it is computed, with its numbers.
    pub formula: String,
}

/// The speed of a plan at the start and with its context full.
#[derive(Clone, Debug, PartialEq)]
pub struct Speeds {
    /// With the cache as it is at first: empty, unless a depth is given.
    pub start: Speed,
    /// With a full cache.
    pub full: Speed,
    /// How fast a long prompt is read, or why there is no figure.
    pub prompt: Result<PromptSpeed, String>,
    /// How long the turn takes that was asked for, or why there is no figure.
    pub turn: Option<Result<TurnTime, String>>,
}

impl Speeds {
    /// The speeds of `plan`, a plan of `model` on `machine`, at `depth` and with the context full; none where
    /// [`Speed::of`] has none.
    pub fn of(model: &PreparedModel, machine: &Machine, plan: &Plan, depth: u64) -> Option<Self> {
        let at = |depth| Speed::of(model, machine, plan, depth);
        let prompt = PromptSpeed::of_plan(model, machine, plan);
        let turn = plan.settings.turn.map(|turn| TurnTime::of(model, machine, plan, turn));
        Some(Self { start: at(depth)?, full: at(plan.settings.ctx_per_sequence.max(depth))?, prompt, turn })
    }
}

impl Speed {
    /// Its range, without the terms.
    pub const fn range(&self) -> SpeedRange {
        SpeedRange { tokens_per_second: self.tokens_per_second, low: self.low, high: self.high }
    }

    /// The speed of `plan`, which is a plan of `model` on `machine`, with `depth` tokens in the cache. None where it
    /// cannot be known: without the bandwidth of a GPU that takes part, for a GPU of another computer, and for a plan
    /// that does not fit.
    pub fn of(model: &PreparedModel, machine: &Machine, plan: &Plan, depth: u64) -> Option<Self> {
        if plan.outcome() == Outcome::DoesNotFit {
            return None;
        }
        Self::of_work(&Work::of(model, machine, plan, depth)?, depth)
    }

    /// The speed at which devices do `work`; none without work.
    pub fn of_work(work: &Work, depth: u64) -> Option<Self> {
        let tokens_per_second = Some(work.seconds(&FITTED, None).recip()).filter(|speed| speed.is_finite())?;
        let (fast, slow) = work.extremes(&FITTED);
        let (low, high) = (slow.recip(), fast.recip());
        let mut reason = None;
        if work.may_be_limited_by_arithmetic(&FITTED) {
            reason = Some("the CPU's arithmetic may limit this quantisation, and its threads are not known".to_owned());
        }
        if let Some(ram) = work.assumed {
            reason = Some(format!("the bandwidth of RAM is assumed: {}, {}", ram.bandwidth, ram.kind));
        }
        if let Some(disk) = work.disk.filter(|disk| disk.assumed) {
            reason =
                Some(format!("the speed of the disk is assumed: {}, give or take a factor of 3.5", disk.bandwidth));
        }
        // the disk is the slower of the two
        let assumes = match work.disk {
            Some(disk) if disk.assumed => Some("the disk's speed"),
            _ => work.assumed.map(|_| "RAM's bandwidth"),
        };
        let confidence = if assumes.is_some() { Confidence::Assumed } else { Confidence::Modelled };
        Some(Self { depth, tokens_per_second, low, high, confidence, reason, assumes, terms: terms::of(work, &FITTED) })
    }
}
