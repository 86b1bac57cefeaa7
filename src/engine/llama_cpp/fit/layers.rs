//! The last two steps of a fit: layers without their experts onto GPUs from the last to the first, then experts back to
//! their layers from the first GPU on.

use super::{Fitter, NoRoom, totals};
use crate::engine::ggml::tensor::BackendId;
use crate::engine::id::FitGoal;
use crate::engine::llama_cpp::LayerSplit;
use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::placement::{OverrideGroup, TensorOverride};

const NEVER_ENDS: &str = "llama.cpp's fit would never finish for these GPUs: it keeps looking for experts to move back \
                       where none are left; set the number of GPU layers explicitly";

/// What one GPU is given.
#[derive(Clone, Copy, Debug)]
struct GpuShare {
    /// Layers.
    layers: u32,
    /// Those of them, the last ones, that leave tensors elsewhere.
    partial: u32,
    /// What the first of the partial ones leaves elsewhere; the others leave their experts.
    overflow: OverrideGroup,
    /// Where the first partial one leaves it: the next GPU, or RAM.
    to: Option<BackendId>,
}

/// A way to spread the layers, and what it takes per device.
#[derive(Clone)]
struct Attempt {
    shares: Vec<GpuShare>,
    used: Vec<i64>,
    /// The first GPU whose layers have no experts.
    dense_from: usize,
}

/// The search for the best spread.
pub struct LayerFill<'f, 'm, 'a> {
    fitter: &'f mut Fitter<'m, 'a>,
    /// The most that each GPU may take.
    targets: Vec<i64>,
    best: Attempt,
    /// What the GPU filled last had no room for.
    refused: Option<NoRoom>,
}

impl<'f, 'm, 'a> LayerFill<'f, 'm, 'a> {
    /// Starts with nothing on GPUs.
    pub fn new(fitter: &'f mut Fitter<'m, 'a>, targets: Vec<i64>) -> Result<Self, LoadError> {
        let empty = GpuShare { layers: 0, partial: 0, overflow: OverrideGroup::Experts, to: None };
        let shares = vec![empty; targets.len()];
        let gpus = targets.len();
        let best = Attempt { shares, used: Vec::new(), dense_from: gpus };
        let mut filling = Self { fitter, targets, best, refused: None };
        filling.best = filling.attempt(filling.best.shares.clone(), gpus)?;
        Ok(filling)
    }

    /// Both steps; the spread that is left, and the layer that was one too many.
    pub fn run(mut self) -> Result<(LayerSplit, Option<NoRoom>), LoadError> {
        let every_layer = self.fitter.fit_goal == FitGoal::AllLayers;
        // blocks that predict further tokens are not counted here, and so one block always stays in RAM
        let hparams = &self.fitter.model().hparams;
        if every_layer && hparams.n_layer() < hparams.n_layer_all {
            return Ok((self.spread(&self.best.shares), None));
        }
        for gpu in (0..self.targets.len()).rev() {
            self.fill_with_layers(gpu)?;
        }
        // layers that have found no GPU by now will find none
        let placed: u32 = self.best.shares.iter().map(|share| share.layers).sum();
        if every_layer && placed <= self.fitter.layers() {
            return Ok((self.spread(&self.best.shares), self.refused));
        }
        if self.fitter.has_experts() && self.surplus_without_experts()? > 0 {
            let filled = self.best.shares.iter().rev().take_while(|share| share.layers > 0).count();
            self.best.dense_from = self.targets.len() - filled;
            let mut gpu = 0;
            while gpu <= self.best.dense_from && self.best.dense_from < self.targets.len() {
                self.give_experts_back(gpu)?;
                gpu += 1;
            }
        }
        Ok((self.spread(&self.best.shares), self.refused))
    }

    /// Bytes left in total when all experts are in RAM.
    fn surplus_without_experts(&mut self) -> Result<i64, LoadError> {
        let blocks = self.fitter.model().hparams.n_layer_all;
        let overrides =
            (0..blocks).map(|block| TensorOverride { block, part: OverrideGroup::Experts, gpu: None }).collect();
        let used = totals(&*self.fitter.measure(&LayerSplit { overrides, ..LayerSplit::default() })?);
        Ok(self.targets.iter().zip(used).map(|(target, used)| target - used).sum())
    }

    /// The layers that `shares` stand for.
    fn spread(&self, shares: &[GpuShare]) -> LayerSplit {
        let layers: u32 = shares.iter().map(|share| share.layers).sum();
        let mut block = self.fitter.layers() + 1 - layers;
        let mut overrides = Vec::new();
        for share in shares {
            // numbers without signs, as in llama.cpp: a share that gave away a partial layer it did not have has none
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
        LayerSplit { gpu_layers: Some(layers.into()), tensor_split, overrides }
    }

    fn attempt(&mut self, shares: Vec<GpuShare>, dense_from: usize) -> Result<Attempt, LoadError> {
        let used = totals(&*self.fitter.measure(&self.spread(&shares))?);
        Ok(Attempt { shares, used, dense_from })
    }

    /// As many layers as fit onto `gpu`, those with experts without them; the rest is for the GPUs before it.
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
        if gpu == 0 && self.fitter.fit_goal == FitGoal::AllLayers {
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

    /// The best, with `step` layers more on `gpu`, those with experts without them.
    fn with_layers(&self, gpu: usize, step: u32) -> Vec<GpuShare> {
        let mut shares = self.best.shares.clone();
        shares[gpu].layers += step;
        if self.fitter.has_experts() {
            let output = gpu + 1 == shares.len() && shares[gpu].partial == 0;
            shares[gpu].partial += if output { step - 1 } else { step };
        }
        shares
    }

    /// Where even the best asks for more than `gpu` may take, false position comes down from `high` one layer at a time. As
    /// long as weights and caches alone ask for no less than the best does, that is certain, and nothing is measured.
    fn skip_certain_failures(&mut self, high: &mut Attempt, gpu: usize) -> Result<(), LoadError> {
        let best = self.best.used[gpu];
        let most = high.shares[gpu].layers - self.best.shares[gpu].layers;
        if best <= self.targets[gpu] || high.used[gpu] < best || self.fitter.may_be_refused() {
            return Ok(());
        }
        let mut fails = most;
        while fails > 1
            && (best == 0 || self.fitter.without_graph(&self.spread(&self.with_layers(gpu, fails - 1)))?[gpu] >= best)
        {
            fails -= 1;
        }
        if fails < most {
            *high = self.attempt(self.with_layers(gpu, fails), self.best.dense_from)?;
        }
        Ok(())
    }

    /// How many layers further than the best to try next, by false position: memory is taken to grow evenly up to
    /// `high`. None when there is nothing between them.
    fn step(&self, high: &Attempt, gpu: usize, count: impl Fn(&GpuShare) -> u32) -> Option<u32> {
        let between = count(&high.shares[gpu]).wrapping_sub(count(&self.best.shares[gpu]));
        if between <= 1 || between > i32::MAX as u32 {
            return None;
        }
        let room = self.targets[gpu] - self.best.used[gpu];
        let growth = high.used[gpu] - self.best.used[gpu];
        let guess = if growth == 0 { i64::MAX } else { i64::from(between) * room / growth };
        // a negative guess is a very large one to llama.cpp, which counts without signs
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

    /// Layers without experts at the back become full layers on `gpu` until it is full; then part of one more.
    fn give_experts_back(&mut self, gpu: usize) -> Result<(), LoadError> {
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
                    // nothing is left to convert: llama.cpp tries the same again until it no longer fits
                    if self.best.used[gpu] <= self.targets[gpu] {
                        return Err(LoadError::settings(NEVER_ENDS.to_owned()));
                    }
                    break;
                }
                let test = self.attempt(shares, dense_from)?;
                self.keep(test, &mut high, gpu);
            }
        }
        self.add_a_part(gpu)
    }

    /// `step` layers without experts moved to `gpu` as full ones, and the first GPU that still has any.
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

    /// One more layer for `gpu`, as much of it as fits: attention, the first matrix, the gate.
    fn add_a_part(&mut self, gpu: usize) -> Result<(), LoadError> {
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
        let mut fits = |filling: &mut Self, part: OverrideGroup| -> Result<bool, LoadError> {
            shares[gpu].overflow = part;
            let test = filling.attempt(shares.clone(), dense_from)?;
            let room = |i: usize| test.used[i] < filling.targets[i];
            let fits = room(gpu) && (gpu == last || room(gpu + 1));
            if fits {
                filling.best = test;
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
