//! `--fit`: fits a model into the devices' free memory: first with a smaller context unless the user set one, then with
//! fewer layers on GPUs, or for models with experts first without the experts (`common/fit.cpp`, 0.1.161).
#![allow(clippy::cast_possible_wrap, reason = "bytes and layers stay far below 2^63")]

use std::rc::Rc;

use super::context::{ContextParams, Cparams};
use super::devices::{self, Device};
use super::draft::{DeviceBytes, DraftRequest};
use super::error::LoadError;
use super::loaded::LoadedModel;
use super::measure::{MeasuredGraphs, Measurer, MemoryBreakdown, Reservation};
use super::placement::{BlockOverride, LayerSplit, OverrideGroup, Placement};
use super::release::FitContext;
use crate::engine::ggml::tensor::BackendId;
use crate::engine::goal::FitGoal;
use crate::machine::CpuInstructions;
use crate::settings::FlashAttn;

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
    /// The goal is not met, so that the fit stopped and the layers are not placed.
    pub missed: bool,
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
    measurer: &'f Measurer<'a>,
    draft: Option<FittedDraft<'f>>,
    /// MTP blocks are loaded.
    load_mtp: bool,
    /// The instructions for which weights in RAM are repacked.
    repack_for: CpuInstructions,
    /// Weights in RAM are in no host buffers of GPUs.
    no_host: bool,
    limits: &'f FitLimits,
    options: ContextParams,
    fit_goal: FitGoal,
    measurements: Vec<Measurement>,
    /// Of the last measurement.
    graphs: Option<MeasuredGraphs>,
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
    fit_with_draft(model, devices, None, spread, options, limits)
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
    fit_for(FitGoal::Most, &Measurer::new(model, devices), draft, spread, options, limits).map(|(fitted, _)| fitted)
}

/// The same with a goal, without which the fit stops early. The graphs are those measured last.
///
/// # Errors
/// As [`fit`].
pub(super) fn fit_for(
    fit_goal: FitGoal,
    measurer: &Measurer<'_>,
    draft: Option<&DraftRequest<'_>>,
    spread: &LayerSplit,
    options: &ContextParams,
    limits: &FitLimits,
) -> Result<(FitResult, Option<MeasuredGraphs>), LoadError> {
    let (devices, model, load_mtp) = (measurer.devices, measurer.model, spread.load_mtp);
    let repack_for = spread.repack_for;
    let draft = draft.map(|request| FittedDraft { request, model, spread: spread.clone(), measured: Vec::new() });
    let options = options.clone();
    let mut fitter = Fitter {
        measurer,
        draft,
        load_mtp,
        repack_for,
        no_host: spread.no_host,
        limits,
        options,
        fit_goal,
        measurements: Vec::new(),
        graphs: None,
    };
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
    // on one GPU, all that could be in VRAM is what did not fit
    if fit_goal == FitGoal::Vram && devices.len() == 1 {
        return fitter.miss(spread.clone());
    }
    let targets = devices.iter().zip(fitter.margins()).map(|(device, margin)| device.free as i64 - margin).collect();
    match LayerFill::new(&mut fitter, targets)?.run()? {
        Some((spread, refused)) => fitter.end(spread, None, refused),
        None => fitter.miss(spread.clone()),
    }
}

/// What there is without a fit: the context that was trained, unless one is set, and everything on GPUs that is not
/// placed.
///
/// # Errors
/// When llama.cpp refuses the options.
pub(super) fn without_fit(
    measurer: &Measurer<'_>,
    spread: &LayerSplit,
    options: &ContextParams,
) -> Result<(FitResult, Option<MeasuredGraphs>), LoadError> {
    let n_ctx = if options.n_ctx == 0 { measurer.model.hparams.n_ctx_train } else { options.n_ctx };
    let (options, placement) =
        (ContextParams { n_ctx, ..options.clone() }, measurer.model.place(measurer.devices, spread));
    let (measured, graphs) = measurer.reserve(&placement, &options, Reservation::Measured, None, None)?;
    let (spread, measured) = (spread.clone(), Rc::new(measured));
    let fitted = FitResult { n_ctx, spread, failure: None, refused: None, missed: false, measured };
    Ok((fitted, Some(graphs)))
}

impl LayerSplit {
    /// Why a fit over `gpus` GPUs must not change this split: fields set by the user.
    pub(super) fn set_by_user(&self, gpus: usize) -> Option<&'static str> {
        if self.gpu_layers.is_some() {
            Some("it does not fit, and the number of GPU layers was set by the user")
        } else if gpus > 1 && self.tensor_split.iter().any(|share| *share != 0.0) {
            Some("it does not fit, and the tensor split was set by the user")
        } else if gpus > 1 && self.by_rows {
            Some("it does not fit, and a split by rows was set by the user")
        } else if self.by_user.is_given {
            Some("it does not fit, and the devices of tensors were set by the user")
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
        LayerSplit {
            load_mtp: self.load_mtp,
            repack_for: self.repack_for,
            no_host: self.no_host,
            ..LayerSplit::default()
        }
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
        let before = self.graphs.take();
        let (main, graphs) = self.measurer.reserve(&placement, &self.options, Reservation::Measured, before, None)?;
        self.graphs = Some(graphs);
        let main = Rc::new(main);
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

    /// Bytes of weights and caches per device for `spread`: a lower bound for any graph.
    fn without_graph(&self, spread: &LayerSplit) -> Result<Vec<i64>, LoadError> {
        let (model, devices) = (self.model(), self.measurer.devices);
        let context = Cparams::new(&self.options, model)?;
        let bytes = model.without_graph(&model.place(devices, spread), &context, &devices::backends(devices));
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
    ) -> Result<(FitResult, Option<MeasuredGraphs>), LoadError> {
        let all = self.measure(&spread)?;
        let (n_ctx, placement) = (self.options.n_ctx, self.model().place(self.measurer.devices, &spread));
        let measured = self.measured(n_ctx, &placement).map_or(all, |known| Rc::clone(&known.main));
        Ok((FitResult { n_ctx, spread, failure, refused, missed: false, measured }, self.graphs.take()))
    }

    fn miss(&mut self, spread: LayerSplit) -> Result<(FitResult, Option<MeasuredGraphs>), LoadError> {
        let (fitted, graphs) = self.end(spread, None, None)?;
        Ok((FitResult { missed: true, ..fitted }, graphs))
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
        let smallest = self.measure(spread)?;
        let smallest: i64 = totals(&smallest)[..free.len()].iter().sum();
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

// The last two steps of a fit: assign layers without their experts to GPUs from the last layer to the first, then
// move experts back, starting with the first GPU.

const NEVER_ENDS: &str = "llama.cpp's fit would never finish for these GPUs: it keeps looking for experts to move back \
                       where none are left; set the number of GPU layers explicitly";

/// The layers of one GPU.
#[derive(Clone, Copy, Debug)]
struct GpuShare {
    /// Layers.
    layers: u32,
    /// The last of these layers, whose tensors are partly on another device.
    partial: u32,
    /// The tensors of the first partial layer that are elsewhere; of the others it is the experts.
    overflow: OverrideGroup,
    /// Their device: the next GPU, or RAM.
    to: Option<BackendId>,
}

/// An assignment of layers and its bytes per device.
struct Attempt {
    shares: Vec<GpuShare>,
    used: Vec<i64>,
    /// The first GPU with layers without experts.
    dense_from: usize,
}

/// The search for the best assignment.
struct LayerFill<'f, 'm, 'a> {
    fitter: &'f mut Fitter<'m, 'a>,
    /// Maximum bytes per GPU.
    targets: Vec<i64>,
    best: Attempt,
    /// The layer that the GPU filled last had no room for.
    refused: Option<NoRoom>,
}

impl<'f, 'm, 'a> LayerFill<'f, 'm, 'a> {
    /// Starts with no layer on GPUs.
    fn new(fitter: &'f mut Fitter<'m, 'a>, targets: Vec<i64>) -> Result<Self, LoadError> {
        let empty = GpuShare { layers: 0, partial: 0, overflow: OverrideGroup::Experts, to: None };
        let shares = vec![empty; targets.len()];
        let gpus = targets.len();
        let best = Attempt { shares, used: Vec::new(), dense_from: gpus };
        let mut fill = Self { fitter, targets, best, refused: None };
        fill.best = fill.attempt(fill.best.shares.clone(), gpus)?;
        Ok(fill)
    }

    /// Runs both steps. Returns the split and the first layer that did not fit; none if the goal is missed.
    pub fn run(mut self) -> Result<Option<(LayerSplit, Option<NoRoom>)>, LoadError> {
        Ok(self.fill()?.then(|| (self.spread(&self.best.shares), self.refused)))
    }

    /// Returns whether both steps were made; they are not if the goal is missed.
    fn fill(&mut self) -> Result<bool, LoadError> {
        let all_layers = self.fitter.fit_goal != FitGoal::Most;
        // MTP blocks that are not loaded are not counted here, so one block always stays in RAM
        let hparams = &self.fitter.model().hparams;
        if all_layers && !self.fitter.load_mtp && hparams.n_layer() < hparams.n_layer_all {
            return Ok(false);
        }
        for gpu in (0..self.targets.len()).rev() {
            self.fill_with_layers(gpu)?;
        }
        // layers without a GPU at this point do not get one later
        let placed: u32 = self.best.shares.iter().map(|share| share.layers).sum();
        if all_layers && placed <= self.fitter.layers() {
            return Ok(false);
        }
        if self.fitter.has_experts() && self.surplus_without_experts()? > 0 {
            let filled = self.best.shares.iter().rev().take_while(|share| share.layers > 0).count();
            self.best.dense_from = self.targets.len() - filled;
            let mut gpu = 0;
            while gpu <= self.best.dense_from && self.best.dense_from < self.targets.len() {
                self.restore_experts(gpu)?;
                gpu += 1;
            }
        }
        Ok(true)
    }

    /// Bytes left in total with all experts in RAM.
    fn surplus_without_experts(&mut self) -> Result<i64, LoadError> {
        let blocks = self.fitter.model().hparams.n_layer_all;
        let overrides =
            (0..blocks).map(|block| BlockOverride { block, part: OverrideGroup::Experts, gpu: None }).collect();
        let used = self.fitter.measure(&LayerSplit { overrides, ..self.fitter.unsplit() })?;
        Ok(self.targets.iter().zip(totals(&used)).map(|(target, used)| target - used).sum())
    }

    /// The split described by `shares`.
    fn spread(&self, shares: &[GpuShare]) -> LayerSplit {
        let layers: u32 = shares.iter().map(|share| share.layers).sum();
        let mut block = self.fitter.layers() + 1 - layers;
        let mut overrides = Vec::new();
        for share in shares {
            // unsigned numbers wrap as in llama.cpp: a share may have given away a partial layer that it did not have
            block = block.wrapping_add(share.layers.wrapping_sub(share.partial));
            let end = block.wrapping_add(share.partial);
            for il in block..end {
                let (part, gpu) = if il == block { (share.overflow, share.to) } else { (OverrideGroup::Experts, None) };
                overrides.push(BlockOverride { block: il as usize, part, gpu });
            }
            block = end;
        }
        let split = shares.iter().map(|share| share.layers as f32);
        let tensor_split = if shares.len() > 1 { split.collect() } else { Vec::new() };
        LayerSplit { gpu_layers: Some(layers.into()), tensor_split, overrides, ..self.fitter.unsplit() }
    }

    fn attempt(&mut self, shares: Vec<GpuShare>, dense_from: usize) -> Result<Attempt, LoadError> {
        let used = self.fitter.measure(&self.spread(&shares))?;
        Ok(Attempt { shares, used: totals(&used), dense_from })
    }

    /// Puts as many layers as possible on `gpu`, without experts; the rest is left for the GPUs before it.
    fn fill_with_layers(&mut self, gpu: usize) -> Result<(), LoadError> {
        let last = self.targets.len() - 1;
        let experts = self.fitter.has_experts();
        let taken: u32 = self.best.shares[gpu + 1..].iter().map(|share| share.layers).sum();
        let left = self.fitter.layers() + 1 - taken;
        self.refused = None;
        let mut shares = self.best.shares.clone();
        shares[gpu].layers = left;
        if experts {
            // the output layer has no experts
            shares[gpu].partial = if gpu < last { left } else { left.saturating_sub(1) };
        }
        if left == 0 {
            return Ok(());
        }
        let mut high = self.attempt(shares, self.best.dense_from)?;
        if high.used[gpu] <= self.targets[gpu] {
            self.best = high;
            return Ok(());
        }
        if gpu == 0 && self.fitter.fit_goal != FitGoal::Most {
            return Ok(());
        }
        self.skip_certain_failures(&mut high, gpu)?;
        while let Some(step) = self.step(&high, gpu, |share| share.layers) {
            let test = self.attempt(self.with_layers(gpu, step), self.best.dense_from)?;
            self.keep(test, &mut high, gpu);
        }
        let (used, may) = (self.best.used[gpu], self.targets[gpu]);
        self.refused =
            Some(NoRoom { gpu, needed: (high.used[gpu] - used).max(0) as u64, room: (may - used).max(0) as u64 });
        Ok(())
    }

    /// The best attempt with `step` more layers on `gpu`, without their experts.
    fn with_layers(&self, gpu: usize, step: u32) -> Vec<GpuShare> {
        let mut shares = self.best.shares.clone();
        shares[gpu].layers += step;
        if self.fitter.has_experts() {
            let output = gpu + 1 == shares.len() && shares[gpu].partial == 0;
            shares[gpu].partial += if output { step - 1 } else { step };
        }
        shares
    }

    /// If even the best attempt exceeds the target of `gpu`, the false position method walks down from `high` layer by
    /// layer. Attempts whose weights and caches alone exceed the best are certain to fail and need not be measured.
    fn skip_certain_failures(&mut self, high: &mut Attempt, gpu: usize) -> Result<(), LoadError> {
        let best = self.best.used[gpu];
        let added = high.shares[gpu].layers - self.best.shares[gpu].layers;
        if best <= self.targets[gpu] || high.used[gpu] < best || self.fitter.may_be_refused() {
            return Ok(());
        }
        let mut fails = added;
        while fails > 1
            && (best == 0 || self.fitter.without_graph(&self.spread(&self.with_layers(gpu, fails - 1)))?[gpu] >= best)
        {
            fails -= 1;
        }
        if fails < added {
            *high = self.attempt(self.with_layers(gpu, fails), self.best.dense_from)?;
        }
        Ok(())
    }

    /// The next number of layers to add to the best attempt, by false position, assuming memory grows linearly up to
    /// `high`. None if nothing lies between them.
    fn step(&self, high: &Attempt, gpu: usize, count: impl Fn(&GpuShare) -> u32) -> Option<u32> {
        let between = count(&high.shares[gpu]).wrapping_sub(count(&self.best.shares[gpu]));
        if between <= 1 || between > i32::MAX as u32 {
            return None;
        }
        let room = self.targets[gpu] - self.best.used[gpu];
        let growth = high.used[gpu] - self.best.used[gpu];
        let guess = if growth == 0 { i64::MAX } else { i64::from(between) * room / growth };
        // llama.cpp computes without signs, so a negative guess becomes a very large one
        let guess = if guess < 0 { u32::MAX } else { u32::try_from(guess).unwrap_or(u32::MAX) };
        Some(guess.clamp(1, between - 1))
    }

    fn keep(&mut self, test: Attempt, high: &mut Attempt, gpu: usize) {
        if test.used[gpu] <= self.targets[gpu] {
            self.best = test;
        } else {
            *high = test;
        }
    }

    /// Turns layers without experts into full layers on `gpu`, those furthest back first, until it is full; then adds a
    /// partial one.
    fn restore_experts(&mut self, gpu: usize) -> Result<(), LoadError> {
        let last = self.targets.len() - 1;
        let mut shares = self.best.shares.clone();
        for from in self.best.dense_from..=last {
            let moved = if from < last { shares[from].layers } else { shares[from].layers.saturating_sub(1) };
            shares[gpu].layers += moved;
            shares[from].layers -= moved;
            shares[from].partial = 0;
        }
        let mut high = self.attempt(shares, last)?;
        if high.used[gpu] <= self.targets[gpu] {
            self.best = high;
        } else {
            let full = |share: &GpuShare| share.layers.saturating_sub(share.partial);
            while let Some(step) = self.step(&high, gpu, full) {
                let (shares, dense_from) = self.converted(gpu, step);
                if full(&shares[gpu]) <= full(&self.best.shares[gpu]) {
                    // no layer is left to convert: llama.cpp repeats the same attempt until it no longer fits
                    if self.best.used[gpu] <= self.targets[gpu] {
                        return Err(LoadError::settings(NEVER_ENDS.to_owned()));
                    }
                    break;
                }
                let test = self.attempt(shares, dense_from)?;
                self.keep(test, &mut high, gpu);
            }
        }
        self.add_partial_layer(gpu)
    }

    /// `step` layers without experts moved to `gpu` as full ones, and the first GPU that still has such layers.
    fn converted(&self, gpu: usize, step: u32) -> (Vec<GpuShare>, usize) {
        let mut shares = self.best.shares.clone();
        let mut from = self.best.dense_from;
        let mut moved = 0;
        while from < shares.len() {
            let now = (step - moved).min(shares[from].partial);
            shares[from].layers -= now;
            shares[from].partial -= now;
            shares[gpu].layers += now;
            moved += now;
            if shares[from].partial > 0 {
                break;
            }
            from += 1;
        }
        (shares, from)
    }

    /// Adds one more layer to `gpu` without the feed-forward tensors that do not fit.
    fn add_partial_layer(&mut self, gpu: usize) -> Result<(), LoadError> {
        let last = self.targets.len() - 1;
        let from = self.best.dense_from;
        let spare = u32::from(gpu == last);
        if self.best.shares.get(from).is_none_or(|share| share.layers <= spare) {
            return Ok(());
        }
        let mut shares = self.best.shares.clone();
        shares[from].layers -= 1;
        shares[from].partial = shares[from].partial.wrapping_sub(1);
        shares[gpu].layers += 1;
        shares[gpu].partial = shares[gpu].partial.wrapping_add(1);
        let dense_from = if shares[from].partial == 0 { from + 1 } else { from };
        if gpu < last {
            shares[gpu].to = Some(gpu as BackendId + 1);
        }
        let mut fits = |fill: &mut Self, part: OverrideGroup| -> Result<bool, LoadError> {
            shares[gpu].overflow = part;
            let test = fill.attempt(shares.clone(), dense_from)?;
            let room = |i: usize| test.used[i] < fill.targets[i];
            let fits = room(gpu) && (gpu == last || room(gpu + 1));
            if fits {
                fill.best = test;
            }
            Ok(fits)
        };
        if fits(self, OverrideGroup::GateAndDown)? {
            fits(self, OverrideGroup::Down)?;
        } else {
            fits(self, OverrideGroup::FeedForward)?;
        }
        Ok(())
    }
}
