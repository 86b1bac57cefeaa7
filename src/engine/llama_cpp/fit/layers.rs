//! The last two steps of a fit: assign layers without their experts to GPUs from the last layer to the first, then move
//! experts back, starting with the first GPU.

use super::{Fitter, NoRoom, totals};
use crate::engine::ggml::tensor::BackendId;
use crate::engine::id::FitGoal;
use crate::engine::llama_cpp::LayerSplit;
use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::placement::{OverrideGroup, TensorOverride};

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
#[derive(Clone)]
struct Attempt {
    shares: Vec<GpuShare>,
    used: Vec<i64>,
    /// The first GPU with layers without experts.
    dense_from: usize,
}

/// The search for the best assignment.
pub struct LayerFill<'f, 'm, 'a> {
    fitter: &'f mut Fitter<'m, 'a>,
    /// Maximum bytes per GPU.
    targets: Vec<i64>,
    best: Attempt,
    /// The layer that the GPU filled last had no room for.
    refused: Option<NoRoom>,
}

impl<'f, 'm, 'a> LayerFill<'f, 'm, 'a> {
    /// Starts with no layer on GPUs.
    pub fn new(fitter: &'f mut Fitter<'m, 'a>, targets: Vec<i64>) -> Result<Self, LoadError> {
        let empty = GpuShare { layers: 0, partial: 0, overflow: OverrideGroup::Experts, to: None };
        let shares = vec![empty; targets.len()];
        let gpus = targets.len();
        let best = Attempt { shares, used: Vec::new(), dense_from: gpus };
        let mut fill = Self { fitter, targets, best, refused: None };
        fill.best = fill.attempt(fill.best.shares.clone(), gpus)?;
        Ok(fill)
    }

    /// Runs both steps. Returns the split and the first layer that did not fit.
    pub fn run(mut self) -> Result<(LayerSplit, Option<NoRoom>), LoadError> {
        let all_layers = self.fitter.fit_goal != FitGoal::Most;
        // on one GPU, all layers are what did not fit before
        if self.fitter.fit_goal == FitGoal::Vram && self.targets.len() == 1 {
            return Ok((self.spread(&self.best.shares), None));
        }
        // MTP blocks that are not loaded are not counted here, so one block always stays in RAM
        let hparams = &self.fitter.model().hparams;
        if all_layers && !self.fitter.load_mtp && hparams.n_layer() < hparams.n_layer_all {
            return Ok((self.spread(&self.best.shares), None));
        }
        for gpu in (0..self.targets.len()).rev() {
            self.fill_with_layers(gpu)?;
        }
        // layers without a GPU at this point do not get one later
        let placed: u32 = self.best.shares.iter().map(|share| share.layers).sum();
        if all_layers && placed <= self.fitter.layers() {
            return Ok((self.spread(&self.best.shares), self.refused));
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
        Ok((self.spread(&self.best.shares), self.refused))
    }

    /// Bytes left in total with all experts in RAM.
    fn surplus_without_experts(&mut self) -> Result<i64, LoadError> {
        let blocks = self.fitter.model().hparams.n_layer_all;
        let overrides =
            (0..blocks).map(|block| TensorOverride { block, part: OverrideGroup::Experts, gpu: None }).collect();
        let used = totals(&*self.fitter.measure(&LayerSplit { overrides, ..self.fitter.unsplit() })?);
        Ok(self.targets.iter().zip(used).map(|(target, used)| target - used).sum())
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
                overrides.push(TensorOverride { block: il as usize, part, gpu });
            }
            block = end;
        }
        let split = shares.iter().map(|share| share.layers as f32);
        let tensor_split = if shares.len() > 1 { split.collect() } else { Vec::new() };
        LayerSplit { gpu_layers: Some(layers.into()), tensor_split, overrides, ..self.fitter.unsplit() }
    }

    fn attempt(&mut self, shares: Vec<GpuShare>, dense_from: usize) -> Result<Attempt, LoadError> {
        let used = totals(&*self.fitter.measure(&self.spread(&shares))?);
        Ok(Attempt { shares, used, dense_from })
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
