//! How fast a plan reads a prompt: tokens per second as a range with its terms, or why there is no figure.
//!
//! A prompt is computed in ubatches. Each multiplies its tokens with the dense weights and with the experts that they
//! choose, attends to what is in the cache, and reads every weight that it needs; the longer of arithmetic and reading
//! counts. Launching the layers, and copying weights from RAM, come on top.
//!
//! - [`work`]: what every card does under a plan, and the time of an ubatch.
//! - [`constants`]: what was fitted on measurements, and the widths of the ranges.

pub mod constants;
pub mod work;

use schemars::JsonSchema;
use serde::Serialize;

use super::range::Class;
use super::{SpeedRange, Term};
use crate::engine::PreparedModel;
use crate::machine::Machine;
use crate::plan::{Confidence, Outcome, Plan};
use crate::units::Bandwidth;
use constants::{FITTED, PromptConstants, spread};
use work::PromptWork;

/// Tokens of the prompt that speeds are shown for, or the context if that is less: several batches.
pub const LONG: u64 = 4096;

/// Where a CPU attends to a part of the cache, a prompt may be this many times slower.
const CPU_ATTENTION: f64 = 1.6;

/// The modelled speed at which a prompt is read.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PromptSpeed {
    /// Tokens of the prompt.
    pub tokens: u64,
    /// Tokens that are in the cache before it.
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
    /// What the prompt's time consists of, in the order of devices.
    pub terms: Vec<Term>,
}

impl PromptSpeed {
    /// The speed at which `plan`, a plan of `model` on `machine`, reads `tokens` behind `depth` tokens in the cache.
    ///
    /// # Errors
    /// Why no figure would be honest, as one clause.
    pub fn of(model: &PreparedModel, machine: &Machine, plan: &Plan, depth: u64, tokens: u64) -> Result<Self, String> {
        if model.mlx.is_some() {
            return Err("how fast MLX reads a prompt is not modelled".to_owned());
        }
        if plan.outcome() == Outcome::DoesNotFit {
            return Err("the plan does not fit".to_owned());
        }
        Self::of_work(&PromptWork::of(model, machine, plan)?, depth, tokens)
    }

    /// That of a long prompt in an empty cache.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn of_plan(model: &PreparedModel, machine: &Machine, plan: &Plan) -> Result<Self, String> {
        Self::of(model, machine, plan, 0, LONG.min(plan.settings.ctx_per_sequence).max(1))
    }

    /// The speed at which cards do `work`.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn of_work(work: &PromptWork, depth: u64, tokens: u64) -> Result<Self, String> {
        let per_second = |work: &PromptWork| tokens as f64 / work.seconds(&FITTED, depth, tokens);
        let tokens_per_second = per_second(work);
        if !tokens_per_second.is_finite() || tokens_per_second <= 0.0 {
            return Err("nothing of it is computed on a card".to_owned());
        }
        let (fast, slow) = work.extremes(&FITTED, depth, tokens);
        let (mut low, high) = (tokens as f64 / slow, tokens as f64 / fast);
        let (mut reason, mut confidence) = (None, Confidence::Modelled);
        if work.attends_in_ram {
            let what = "the CPU attends to the cache of layers in RAM, which takes a time that is not known";
            (reason, low) = (Some(what.to_owned()), low / CPU_ATTENTION);
        }
        if work.link_assumed {
            let link = work.devices.iter().find(|device| device.copies());
            let link = link.map_or(String::new(), |device| device.link().to_string());
            reason = Some(format!("the link from RAM to the card is assumed: {link}"));
            confidence = Confidence::Assumed;
        }
        let terms = terms(work, depth, tokens);
        Ok(Self { tokens, depth, tokens_per_second, low, high, confidence, reason, terms })
    }

    /// Its range, without the terms.
    pub const fn range(&self) -> SpeedRange {
        SpeedRange { tokens_per_second: self.tokens_per_second, low: self.low, high: self.high }
    }
}

impl PromptWork {
    /// Seconds of a prompt where every part is at its fastest, and where every part is at its slowest: what is not known of a
    /// link widens what is copied over it alone.
    pub fn extremes(&self, constants: &PromptConstants, depth: u64, tokens: u64) -> (f64, f64) {
        let parts = self.parts(constants, depth, tokens);
        let copies: f64 = parts.iter().map(|parts| parts.copies).sum();
        let others = parts.iter().map(work::Parts::sum).sum::<f64>() - copies;
        let link = if self.link_assumed { Class::RamAssumed } else { Class::Ram };
        let ends = |class: Class, seconds: f64| {
            let (low, high) = spread(class);
            (seconds / high, seconds / low)
        };
        let (of_cards, of_link) = (ends(self.class_of_cards(), others), ends(link, copies));
        (of_cards.0 + of_link.0, of_cards.1 + of_link.1)
    }

    /// The class of the errors of what cards do, without copies.
    pub fn class_of_cards(&self) -> Class {
        match self.devices.as_slice() {
            [device] => Class::of_one(device.known.family),
            _ => Class::SeveralGpus,
        }
    }

    /// The class of its errors.
    pub fn class(&self) -> Class {
        match self.devices.as_slice() {
            _ if self.link_assumed => Class::RamAssumed,
            _ if self.copies() => Class::Ram,
            _ => self.class_of_cards(),
        }
    }
}

/// The bandwidth of the link from RAM over which cards do `work` at a measured speed. Copying is the only part of a
/// prompt's time that goes with it, so two bandwidths tell how large it is.
///
/// # Errors
/// One clause, if nothing is copied or no plausible bandwidth explains the speed.
pub fn link_bandwidth(work: &PromptWork, depth: u64, tokens: u64, tokens_per_second: f64) -> Result<Bandwidth, String> {
    let link = work.devices.iter().find(|device| device.copies());
    let link = link.ok_or("nothing of this plan is copied from RAM, so the measurement tells nothing of the link")?;
    let parts = work.parts(&FITTED, depth, tokens);
    let copying: f64 = parts.iter().map(|parts| parts.copies).sum();
    let others = parts.iter().map(work::Parts::sum).sum::<f64>() - copying;
    let left = tokens as f64 / tokens_per_second - others;
    if left <= 0.0 {
        return Err(format!(
            "{tokens_per_second} tokens per second cannot be: what does not depend on the link allows {:.0} at most",
            tokens as f64 / others
        ));
    }
    Bandwidth::checked((link.link().per_second() * copying / left) as u64)
}

fn terms(work: &PromptWork, depth: u64, tokens: u64) -> Vec<Term> {
    let ubatches = tokens.div_ceil(work.ubatch);
    let parts = work.parts(&FITTED, depth, tokens);
    let of_device = work.devices.iter().zip(&parts).flat_map(|(device, parts)| {
        let of = FITTED.of(device.known.family);
        let name = |what: &str| format!("{} {what}", device.id);
        let flops = device.known.flops / 1e12;
        let share = |share: f64| format!("({share:.2} × {flops:.0} TFLOPS)");
        let gb = |bytes: f64| format!("{:.2} GB", bytes / 1e9);
        [
            (
                name("dense weights"),
                parts.dense,
                format!("2 × {:.2} B × {tokens} tokens / {}", device.dense.elements / 1e9, share(of.dense)),
            ),
            (
                name("experts"),
                parts.experts,
                format!(
                    "2 × {:.2} B × {tokens} tokens / {}, {:.0} tokens per expert, half as fast with {:.0}",
                    device.experts.elements * device.used / 1e9,
                    share(of.experts),
                    work.ubatch.min(tokens) as f64 * device.used,
                    of.half
                ),
            ),
            (
                name("attention"),
                parts.attention,
                format!("to {} tokens in the middle / {}", depth + tokens / 2, share(of.attention)),
            ),
            (
                name("reading weights"),
                parts.reading,
                format!(
                    "{} × {ubatches} ubatches / ({READ} × {}), beyond the arithmetic",
                    gb(device.dense.bytes + device.experts.bytes),
                    device.known.bandwidth,
                    READ = constants::READ
                ),
            ),
            (
                name("layers"),
                parts.layers,
                format!("{} layers × {ubatches} ubatches × {:.0} µs", device.layers, of.layer * 1e6),
            ),
            (
                name("copies from RAM"),
                parts.copies,
                format!(
                    "{} × {ubatches} ubatches / ({:.2} × {})",
                    gb(device.dense_in_ram + device.experts_in_ram),
                    FITTED.copies(device.known.family),
                    device.link()
                ),
            ),
        ]
    });
    of_device
        .filter(|(_, seconds, _)| *seconds > 0.0)
        .map(|(name, seconds, formula)| Term { name, milliseconds: seconds * 1e3, formula })
        .collect()
}
