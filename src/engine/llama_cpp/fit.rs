//! `--fit`: makes a model fit into what the devices have free: first a smaller context, if it is llama.cpp's to choose,
//! then fewer layers on GPUs, for models with experts first the experts (`common/fit.cpp`, 0.1.161).
#![allow(clippy::cast_possible_wrap, reason = "bytes and layers stay far below 2^63")]

mod layers;

use super::context::Options;
use super::error::Refusal;
use super::{Device, Loaded, Measured, Spread};
use layers::Filling;

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
    pub failure: Option<String>,
}

/// A model with everything that its measurements depend on.
struct Fitter<'a> {
    model: &'a Loaded,
    devices: &'a [Device],
    limits: &'a Limits,
    options: Options,
}

/// Memory per device, RAM last.
struct Use {
    model: Vec<i64>,
    total: Vec<i64>,
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
    let mut fitter = Fitter { model, devices, limits, options: options.clone() };
    let done = fitter.shrink_context(spread)?;
    let n_ctx = fitter.options.n_ctx;
    let unchanged = |failure: Option<String>| Fitted { n_ctx, spread: spread.clone(), failure };
    if done {
        return Ok(unchanged(None));
    }
    if devices.is_empty() {
        return Ok(unchanged(Some("the model does not fit into RAM, however small the context".to_owned())));
    }
    if spread.gpu_layers.is_some() {
        return Ok(unchanged(Some("it does not fit, and the number of layers on GPUs was set by hand".to_owned())));
    }
    if !spread.overrides.is_empty() {
        return Ok(unchanged(Some("it does not fit, and what stays in RAM was set by hand".to_owned())));
    }
    if devices.len() > 1 && spread.tensor_split.iter().any(|share| *share != 0.0) {
        return Ok(unchanged(Some("it does not fit, and the split over GPUs was set by hand".to_owned())));
    }
    let targets = devices.iter().zip(fitter.margins()).map(|(device, margin)| device.free as i64 - margin).collect();
    let spread = Filling::new(&fitter, targets)?.run()?;
    Ok(Fitted { n_ctx, spread, failure: None })
}

impl Fitter<'_> {
    fn margins(&self) -> Vec<i64> {
        (0..self.devices.len().max(1)).map(|i| self.limits.margins.get(i).map_or(0, |margin| *margin as i64)).collect()
    }

    fn measure(&self, spread: &Spread) -> Result<Use, Refusal> {
        let Measured { model, context, compute, .. } = self.model.measure(self.devices, spread, &self.options)?;
        let total = (0..model.len()).map(|i| (model[i] + context[i] + compute[i]) as i64).collect();
        Ok(Use { model: model.iter().map(|bytes| *bytes as i64).collect(), total })
    }

    /// Sequences with a cache of their own.
    fn streams(&self) -> u64 {
        if self.options.kv_unified { 1 } else { self.options.n_seq_max.max(1) }
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
        let streams = self.streams();
        let automatic = self.options.n_ctx == 0;
        let mut full = self.measure(spread)?;
        let most = (self.model.hparams.n_ctx_train * streams).min(u64::from(u32::MAX));
        let least = (self.limits.min_ctx * streams).min(u64::from(u32::MAX));
        if automatic {
            self.options.n_ctx = most;
            if streams > 1 {
                full = self.measure(spread)?;
            }
        }
        let margins = self.margins();
        let gpus = self.devices.len();
        let (free, used): (Vec<i64>, Vec<i64>) = if gpus == 0 {
            (vec![self.limits.ram as i64], vec![full.total[0]])
        } else {
            (self.devices.iter().map(|device| device.free as i64).collect(), full.total[..gpus].to_vec())
        };
        if (0..free.len()).all(|i| free[i] - used[i] >= margins[i]) {
            return Ok(true);
        }
        let target = free.iter().sum::<i64>() - margins.iter().sum::<i64>();
        let used: i64 = used.iter().sum();
        if target >= used || !automatic || most <= least {
            return Ok(false);
        }
        let mut target = target;
        if gpus > 1 {
            // only whole layers can be placed, or for experts whole tensors: expect to waste some on every device
            let per_layer = full.model[..gpus].iter().sum::<i64>() / i64::from(self.layers());
            target -= (gpus as i64 + 1) * per_layer / if self.has_experts() { 6 } else { 2 };
        }
        self.options.n_ctx = least;
        let smallest = self.measure(spread)?;
        let smallest: i64 = if gpus == 0 { smallest.total[0] } else { smallest.total[..gpus].iter().sum() };
        if target <= smallest {
            return Ok(false);
        }
        // memory grows linearly with the context; the product needs more bits than either factor
        let grown = i128::from(most - least) * i128::from(target - smallest) / i128::from((used - smallest).max(1));
        let step = 256 * streams;
        self.options.n_ctx = ((least + grown as u64) / step * step).max(least);
        Ok(gpus <= 1)
    }
}
