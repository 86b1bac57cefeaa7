//! `--fit`: fits a model into the devices' free memory: first with a smaller context unless the user set one, then with
//! fewer layers on GPUs, or for models with experts first without the experts (`common/fit.cpp`, 0.1.161).
#![allow(clippy::cast_possible_wrap, reason = "bytes and layers stay far below 2^63")]

mod layers;

use std::rc::Rc;

use super::context::{ContextParams, Cparams};
use super::draft::{DeviceBytes, DraftRequest};
use super::error::LoadError;
use super::measure::{Measurer, Reservation};
use super::placement::Placement;
use super::release::FitContext;
use super::{Device, LayerSplit, LoadedModel, MemoryBreakdown};
use crate::engine::id::FitGoal;
use crate::machine::CpuInstructions;
use crate::settings::FlashAttn;
use layers::LayerFill;

/// A fit chooses a multiple of this many tokens.
const CONTEXT_STEP: u64 = 256;

/// The limits of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct FitLimits {
    /// Bytes to leave free per GPU; without GPUs the first is for RAM.
    pub margins: Vec<u64>,
    /// Minimum context per sequence, in tokens.
    pub min_ctx: u64,
    /// Total RAM in bytes, used without GPUs.
    pub ram: u64,
}

/// The result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct FitResult {
    /// Tokens of context over all sequences.
    pub n_ctx: u64,
    /// Layers per device and overrides; as requested if nothing had to change.
    pub spread: LayerSplit,
    /// Why it failed, as one sentence.
    pub failure: Option<&'static str>,
    /// The first layer that did not fit on the GPU filled last.
    pub refused: Option<NoRoom>,
    /// The memory that the fit counts for it, which is not quite what a load takes.
    pub measured: Rc<MemoryBreakdown>,
}

/// One more layer that a GPU had no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Index of the GPU.
    pub gpu: usize,
    /// Bytes that the layer would have added: weights, cache and compute buffer.
    pub needed: u64,
    /// Bytes still available.
    pub room: u64,
}

/// A measured placement.
struct Measurement {
    n_ctx: u64,
    placement: Placement,
    /// Of the model.
    main: Rc<MemoryBreakdown>,
    /// With the draft.
    all: Rc<MemoryBreakdown>,
}

/// A draft that every trial counts.
struct FittedDraft<'f> {
    request: &'f DraftRequest<'f>,
    model: &'f LoadedModel,
    /// As the user split the layers.
    spread: LayerSplit,
    /// Its memory at the contexts tried.
    measured: Vec<(u64, DeviceBytes)>,
}

impl FittedDraft<'_> {
    fn at(&mut self, n_ctx: u64, devices: &[Device]) -> &DeviceBytes {
        let known = self.measured.iter().position(|(at, _)| *at == n_ctx);
        let at = known.unwrap_or_else(|| {
            self.measured.push((n_ctx, self.request.for_fit(self.model, devices, n_ctx, &self.spread)));
            self.measured.len() - 1
        });
        &self.measured[at].1
    }
}

/// The state of a fit.
struct Fitter<'f, 'a> {
    measurer: &'f mut Measurer<'a>,
    draft: Option<FittedDraft<'f>>,
    /// MTP blocks are loaded.
    load_mtp: bool,
    /// The instructions for which weights in RAM are repacked.
    repack_for: CpuInstructions,
    limits: &'f FitLimits,
    options: ContextParams,
    fit_goal: FitGoal,
    measurements: Vec<Measurement>,
}

/// Bytes per device, RAM last.
fn totals(measured: &MemoryBreakdown) -> Vec<i64> {
    (0..measured.model.len()).map(|device| measured.total(device) as i64).collect()
}

/// Chooses context, layers and overrides for `model` on `devices`.
///
/// # Errors
/// When llama.cpp refuses the options, or its fit would never finish.
pub fn fit(
    model: &LoadedModel,
    devices: &[Device],
    spread: &LayerSplit,
    options: &ContextParams,
    limits: &FitLimits,
) -> Result<FitResult, LoadError> {
    fit_for(FitGoal::Most, &mut Measurer::new(model, devices), None, spread, options, limits)
}

/// The same with a draft beside the model.
///
/// # Errors
/// As [`fit`].
pub fn fit_with_draft(
    model: &LoadedModel,
    devices: &[Device],
    draft: Option<&DraftRequest<'_>>,
    spread: &LayerSplit,
    options: &ContextParams,
    limits: &FitLimits,
) -> Result<FitResult, LoadError> {
    fit_for(FitGoal::Most, &mut Measurer::new(model, devices), draft, spread, options, limits)
}

/// The same with a goal: with `AllLayers` the fit may stop early if not all layers fit.
///
/// # Errors
/// As [`fit`].
pub(super) fn fit_for(
    fit_goal: FitGoal,
    measurer: &mut Measurer<'_>,
    draft: Option<&DraftRequest<'_>>,
    spread: &LayerSplit,
    options: &ContextParams,
    limits: &FitLimits,
) -> Result<FitResult, LoadError> {
    let (devices, model, load_mtp) = (measurer.devices, measurer.model, spread.load_mtp);
    let repack_for = spread.repack_for;
    let draft = draft.map(|request| FittedDraft { request, model, spread: spread.clone(), measured: Vec::new() });
    let options = options.clone();
    let mut fitter =
        Fitter { measurer, draft, load_mtp, repack_for, limits, options, fit_goal, measurements: Vec::new() };
    if fitter.shrink_context(spread)? {
        return fitter.end(spread.clone(), None, None);
    }
    let failure = if devices.is_empty() {
        Some("the model does not fit into RAM even with the smallest context")
    } else {
        spread.set_by_user(devices.len())
    };
    if failure.is_some() {
        return fitter.end(spread.clone(), failure, None);
    }
    let targets = devices.iter().zip(fitter.margins()).map(|(device, margin)| device.free as i64 - margin).collect();
    let (spread, refused) = LayerFill::new(&mut fitter, targets)?.run()?;
    fitter.end(spread, None, refused)
}

impl LayerSplit {
    /// Why a fit over `gpus` GPUs must not change this split: fields set by the user.
    pub(super) fn set_by_user(&self, gpus: usize) -> Option<&'static str> {
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

impl FitLimits {
    /// Minimum context of a fit, in tokens over all sequences.
    pub(super) fn min_context(&self, model: &LoadedModel, options: &ContextParams) -> u64 {
        let range = ContextRange::of(model, options, self.min_ctx);
        range.max.min(range.min)
    }
}

/// The contexts that a fit chooses from, in tokens over all sequences.
struct ContextRange {
    min: u64,
    max: u64,
    step: u64,
}

impl ContextRange {
    fn of(model: &LoadedModel, options: &ContextParams, min_ctx: u64) -> Self {
        let sequences = options.n_seq_max.max(1);
        let streams = if options.kv_unified { 1 } else { sequences };
        let (least, most) = match model.release.fits_context {
            FitContext::Trained => (1, 1),
            FitContext::PerSequence => (streams, sequences),
            FitContext::PerStream => (streams, streams),
        };
        let over_all = |tokens: u64, times: u64| tokens.saturating_mul(times).min(u64::from(u32::MAX));
        Self {
            min: over_all(min_ctx, least),
            max: over_all(model.hparams.n_ctx_train, most),
            step: CONTEXT_STEP * least,
        }
    }
}

impl Fitter<'_, '_> {
    /// What no trial changes of a split.
    fn unsplit(&self) -> LayerSplit {
        LayerSplit { load_mtp: self.load_mtp, repack_for: self.repack_for, ..LayerSplit::default() }
    }

    const fn model(&self) -> &LoadedModel {
        self.measurer.model
    }

    fn margins(&self) -> Vec<i64> {
        let gpus = self.measurer.devices.len();
        (0..gpus.max(1)).map(|i| self.limits.margins.get(i).map_or(0, |margin| *margin as i64)).collect()
    }

    /// What `spread` takes; each placement is measured once, even if different splits lead to it.
    fn measure(&mut self, spread: &LayerSplit) -> Result<Rc<MemoryBreakdown>, LoadError> {
        let (n_ctx, placement) = (self.options.n_ctx, self.model().place(self.measurer.devices, spread));
        if let Some(known) = self.measured(n_ctx, &placement) {
            return Ok(Rc::clone(&known.all));
        }
        let main = Rc::new(self.measurer.measure(&placement, &self.options, Reservation::Measured)?);
        let all = match &mut self.draft {
            Some(draft) => Rc::new(main.with(draft.at(n_ctx, self.measurer.devices))),
            None => Rc::clone(&main),
        };
        self.measurements.push(Measurement { n_ctx, placement, main, all: Rc::clone(&all) });
        Ok(all)
    }

    fn measured(&self, n_ctx: u64, placement: &Placement) -> Option<&Measurement> {
        self.measurements.iter().find(|known| (known.n_ctx, &known.placement) == (n_ctx, placement))
    }

    /// The same without the draft.
    fn measure_main(&mut self, spread: &LayerSplit) -> Result<Rc<MemoryBreakdown>, LoadError> {
        let all = self.measure(spread)?;
        let placement = self.model().place(self.measurer.devices, spread);
        Ok(self.measured(self.options.n_ctx, &placement).map_or(all, |known| Rc::clone(&known.main)))
    }

    /// Bytes of weights and caches per device for `spread`: a lower bound for any graph.
    fn without_graph(&self, spread: &LayerSplit) -> Result<Vec<i64>, LoadError> {
        let (model, devices) = (self.model(), self.measurer.devices);
        let context = Cparams::new(&self.options, model)?;
        let bytes = model.without_graph(&model.place(devices, spread), &context, &super::backends(devices));
        let of_draft = |at: usize| {
            let measured = self.draft.iter().flat_map(|draft| &draft.measured);
            measured.filter(|(n_ctx, _)| *n_ctx == self.options.n_ctx).map(|(_, draft)| draft.total(at)).sum::<u64>()
        };
        Ok(bytes.into_iter().enumerate().map(|(at, bytes)| (bytes + of_draft(at)) as i64).collect())
    }

    /// Whether llama.cpp may accept these options for one placement and refuse them for another.
    fn may_be_refused(&self) -> bool {
        let ContextParams { flash_attn, type_v, .. } = self.options;
        flash_attn == FlashAttn::Auto && type_v.block() > 1 && !self.model().release.quantised_v_forces_flash
    }

    fn end(
        &mut self,
        spread: LayerSplit,
        failure: Option<&'static str>,
        refused: Option<NoRoom>,
    ) -> Result<FitResult, LoadError> {
        Ok(FitResult { n_ctx: self.options.n_ctx, measured: self.measure_main(&spread)?, spread, failure, refused })
    }

    /// Layers that can go to GPUs, without the output layer.
    fn layers(&self) -> u32 {
        let hparams = &self.model().hparams;
        (if self.load_mtp { hparams.n_layer_all } else { hparams.n_layer() }) as u32
    }

    fn has_experts(&self) -> bool {
        self.model().hparams.n_expert > 0
    }

    /// The first two steps: nothing if everything fits, else a smaller context unless the user set one. Returns whether
    /// that was enough.
    fn shrink_context(&mut self, spread: &LayerSplit) -> Result<bool, LoadError> {
        let automatic = self.options.n_ctx == 0;
        let ContextRange { min: min_ctx, max: max_ctx, step } =
            ContextRange::of(self.model(), &self.options, self.limits.min_ctx);
        if automatic {
            self.options.n_ctx = max_ctx;
        }
        let full = self.measure(spread)?;
        let margins = self.margins();
        let devices = self.measurer.devices;
        let gpus = devices.len();
        let free: Vec<i64> = if gpus == 0 {
            vec![self.limits.ram as i64]
        } else {
            devices.iter().map(|device| device.free as i64).collect()
        };
        let used = &totals(&full)[..free.len()];
        if (0..free.len()).all(|i| free[i] - used[i] >= margins[i]) {
            return Ok(true);
        }
        let mut target = free.iter().sum::<i64>() - margins.iter().sum::<i64>();
        let used: i64 = used.iter().sum();
        if target >= used || !automatic || max_ctx <= min_ctx {
            return Ok(false);
        }
        if gpus > 1 {
            // only whole layers can be placed, or with experts whole tensors: expect some waste on every device
            let weights = full.model[..gpus].iter().map(|bytes| *bytes as i64).sum::<i64>();
            let per_layer = weights / i64::from(self.layers());
            target -= (gpus as i64 + 1) * per_layer / if self.has_experts() { 6 } else { 2 };
        }
        self.options.n_ctx = min_ctx;
        let smallest: i64 = totals(&*self.measure(spread)?)[..free.len()].iter().sum();
        if target <= smallest {
            return Ok(false);
        }
        // memory grows linearly with the context; 128 bits because the product may overflow
        let grown =
            i128::from(max_ctx - min_ctx) * i128::from(target - smallest) / i128::from((used - smallest).max(1));
        self.options.n_ctx = ((min_ctx + grown as u64) / step * step).max(min_ctx);
        Ok(gpus <= 1)
    }
}
