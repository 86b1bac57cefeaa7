//! `--fit`: makes a model fit into what the devices have free: first a smaller context, if it is llama.cpp's to choose,
//! then fewer layers on GPUs, for models with experts first the experts (`common/fit.cpp`, 0.1.161).
#![allow(clippy::cast_possible_wrap, reason = "bytes and layers stay far below 2^63")]

mod candidate;
mod layers;
pub mod sketch;
mod weighed;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::context::Options;
use super::desk::Desk;
use super::error::Refusal;
use super::release::Release;
use super::tally::Tally;
use super::{Device, Loaded, Measured, Spread, backends};
use crate::engine::Aim;
use crate::engine::ggml::Backend;
use crate::gguf::Header;
use crate::settings::FlashAttn;
use layers::Filling;
use sketch::Sketch;
use weighed::{AtContext, Weighed};

/// How a fit finds out what a placement takes.
#[derive(Clone, Copy, Debug)]
pub enum Gauge<'a> {
    /// By the graph of that very placement.
    Graph,
    /// By graphs like it.
    Sketch(&'a Sketch<'a>),
}

impl Gauge<'_> {
    /// The model with this header, read anew only where nobody has read it.
    pub(super) fn model(self, header: &Header, release: Release) -> Result<Arc<Loaded>, Refusal> {
        match self {
            Self::Graph => Ok(Arc::new(Loaded::new(header, release)?)),
            Self::Sketch(sketch) => sketch.shared().courses.model(header, release),
        }
    }

    /// Where the model is measured.
    pub(super) fn desk(self, model: &Loaded) -> Desk<'_> {
        match self {
            Self::Graph => Desk::new(model),
            Self::Sketch(sketch) => Desk::sharing(model, sketch.shared()),
        }
    }

    /// What its weights take on such devices.
    fn tally(self, model: &Loaded, backends: &[Backend]) -> Arc<Tally> {
        match self {
            Self::Graph => Arc::new(Tally::of(model, backends)),
            Self::Sketch(sketch) => sketch.shared().courses.tally(model, backends),
        }
    }
}

/// What a fit must heed.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Bytes to leave free, per GPU; without GPUs the first is for RAM.
    pub margins: Vec<u64>,
    /// The smallest context that it may choose per sequence, in tokens.
    pub min_ctx: u64,
    /// All of the RAM, in bytes: what counts where there is no GPU.
    pub ram: u64,
}

/// What a fit chose.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Tokens of context over all sequences.
    pub n_ctx: u64,
    /// Layers per device and what overflows; as asked where nothing had to change.
    pub spread: Spread,
    /// Why it gave up, in one sentence, where it did.
    pub failure: Option<&'static str>,
    /// The layer that the GPU filled last had no room for, where there was one.
    pub refused: Option<Refused>,
    /// What that takes.
    pub measured: Rc<Measured>,
}

/// One more layer on a GPU, had there been room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Index of the GPU.
    pub gpu: usize,
    /// Bytes by which the layer would have let its use grow: weights, cache, and what the graph grows by.
    pub needed: u64,
    /// Bytes that it might still have taken.
    pub room: u64,
}

/// A model with everything that its measurements depend on.
struct Fitter<'a> {
    model: &'a Loaded,
    devices: &'a [Device],
    limits: &'a Limits,
    at: Rc<AtContext>,
    aim: Aim,
    gauge: Gauge<'a>,
    tally: Arc<Tally>,
    known: RefCell<Vec<Rc<Weighed<'a>>>>,
    desk: RefCell<Desk<'a>>,
}

/// Chooses context, layers and overflow for `model` on `devices`.
///
/// # Errors
/// When llama.cpp refuses the options themselves.
pub fn fit(
    model: &Loaded,
    devices: &[Device],
    spread: &Spread,
    options: &Options,
    limits: &Limits,
) -> Result<Fitted, Refusal> {
    fit_for(Aim::Most, Gauge::Graph, model, devices, spread, options, limits)
}

/// The same for those who want every layer on GPUs or nothing: where that cannot be had, the fit may end before it has
/// placed as many as it could.
///
/// # Errors
/// When llama.cpp refuses the options themselves.
pub fn fit_for(
    aim: Aim,
    gauge: Gauge<'_>,
    model: &Loaded,
    devices: &[Device],
    spread: &Spread,
    options: &Options,
    limits: &Limits,
) -> Result<Fitted, Refusal> {
    let tally = gauge.tally(model, &backends(devices));
    let (known, desk) = (RefCell::new(Vec::with_capacity(32)), RefCell::new(gauge.desk(model)));
    let at = Rc::new(AtContext::new(model, &tally, options.clone())?);
    let mut fitter = Fitter { model, devices, limits, at, aim, gauge, tally, known, desk };
    if fitter.shrink_context(spread)? {
        return fitter.end(spread.clone(), None, None);
    }
    let failure = if devices.is_empty() {
        Some("the model does not fit into RAM even with the smallest context")
    } else {
        spread.by_hand(devices.len())
    };
    if failure.is_some() {
        return fitter.end(spread.clone(), failure, None);
    }
    let targets = devices.iter().zip(fitter.margins()).map(|(device, margin)| device.free as i64 - margin).collect();
    let (spread, refused) = Filling::new(&fitter, targets)?.run()?;
    fitter.end(spread, None, refused)
}

impl Spread {
    /// What was set by hand, so that a fit over so many GPUs must leave it alone.
    pub(super) fn by_hand(&self, gpus: usize) -> Option<&'static str> {
        if self.gpu_layers.is_some() {
            Some("it does not fit, and the number of GPU layers was set by the user")
        } else if !self.overrides.is_empty() {
            Some("it does not fit, and what stays in RAM was set by the user")
        } else if gpus > 1 && self.tensor_split.iter().any(|share| *share != 0.0) {
            Some("it does not fit, and the tensor split was set by the user")
        } else {
            None
        }
    }
}

impl Limits {
    /// The smallest context that a fit may choose, in tokens over all sequences.
    pub(super) fn least_context(&self, model: &Loaded, options: &Options) -> u64 {
        over_all(model.hparams.n_ctx_train, options).min(over_all(self.min_ctx, options))
    }
}

/// Sequences with a cache of their own.
fn streams(options: &Options) -> u64 {
    if options.kv_unified { 1 } else { options.n_seq_max.max(1) }
}

/// So many tokens for each of them.
fn over_all(tokens: u64, options: &Options) -> u64 {
    tokens.saturating_mul(streams(options)).min(u64::from(u32::MAX))
}

impl<'a> Fitter<'a> {
    fn margins(&self) -> Vec<i64> {
        (0..self.devices.len().max(1)).map(|i| self.limits.margins.get(i).map_or(0, |margin| *margin as i64)).collect()
    }

    /// Whether llama.cpp takes these options for one placement and not for another.
    fn may_be_refused(&self) -> bool {
        let Options { flash_attn, type_v, .. } = self.at.options;
        flash_attn == FlashAttn::Auto && type_v.block() > 1 && !self.model.release.packed_v_needs_no_trial
    }

    fn end(&self, spread: Spread, failure: Option<&'static str>, refused: Option<Refused>) -> Result<Fitted, Refusal> {
        let measured = Rc::new(self.measured(&*self.weigh(&spread)?)?);
        Ok(Fitted { n_ctx: self.at.options.n_ctx, measured, spread, failure, refused })
    }

    /// Layers that can go to GPUs, the output layer not counted.
    fn layers(&self) -> u32 {
        self.model.hparams.n_layer() as u32
    }

    fn has_experts(&self) -> bool {
        self.model.hparams.n_expert > 0
    }

    /// The first two steps: nothing, if everything fits; else a smaller context, if none was asked for. Says whether
    /// that was enough.
    fn shrink_context(&mut self, spread: &Spread) -> Result<bool, Refusal> {
        let options = self.at.options.clone();
        let streams = streams(&options);
        let automatic = options.n_ctx == 0;
        let mut full = self.weigh(spread)?;
        let most = over_all(self.model.hparams.n_ctx_train, &options);
        let least = over_all(self.limits.min_ctx, &options);
        if automatic {
            self.choose_context(most)?;
            if streams > 1 {
                full = self.weigh(spread)?;
            }
        }
        let margins = self.margins();
        let gpus = self.devices.len();
        let free: Vec<i64> = if gpus == 0 {
            vec![self.limits.ram as i64]
        } else {
            self.devices.iter().map(|device| device.free as i64).collect()
        };
        if self.leaves(&margins, &full, &free)? {
            return Ok(true);
        }
        if !automatic || most <= least {
            return Ok(false);
        }
        let mut target = free.iter().sum::<i64>() - margins.iter().sum::<i64>();
        let used = self.in_all(&full, free.len())?;
        if target >= used {
            return Ok(false);
        }
        if gpus > 1 {
            // only whole layers can be placed, or for experts whole tensors: expect to waste some on every device
            let weights = full.candidate.weights[..gpus].iter().map(|bytes| *bytes as i64).sum::<i64>();
            let per_layer = weights / i64::from(self.layers());
            target -= (gpus as i64 + 1) * per_layer / if self.has_experts() { 6 } else { 2 };
        }
        self.choose_context(least)?;
        let smallest = self.in_all(&*self.weigh(spread)?, free.len())?;
        if target <= smallest {
            return Ok(false);
        }
        // memory grows linearly with the context; the product needs more bits than either factor
        let grown = i128::from(most - least) * i128::from(target - smallest) / i128::from((used - smallest).max(1));
        let step = 256 * streams;
        self.choose_context(((least + grown as u64) / step * step).max(least))?;
        Ok(gpus <= 1)
    }

    /// Whether the first devices leave so much of what is free.
    fn leaves(&self, margins: &[i64], weighed: &Weighed<'a>, free: &[i64]) -> Result<bool, Refusal> {
        for (device, (margin, free)) in margins.iter().zip(free).enumerate() {
            if free - self.total(weighed, device)? < *margin {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn choose_context(&mut self, n_ctx: u64) -> Result<(), Refusal> {
        let options = Options { n_ctx, ..self.at.options.clone() };
        self.at = Rc::new(AtContext::new(self.model, &self.tally, options)?);
        Ok(())
    }

    /// Bytes on the first devices together.
    fn in_all(&self, weighed: &Weighed<'a>, devices: usize) -> Result<i64, Refusal> {
        (0..devices).map(|device| self.total(weighed, device)).sum()
    }
}
