//! What a fit decided, as settings that leave it nothing to decide: what llama-fit-params prints (`-c -ngl -ts -ot`), and
//! the layers of every GPU also where the fit changed nothing.

use super::placement::BlockOverride;
use super::resolved::ResolvedRequest;
use crate::engine::error::EngineError;
use crate::settings::{Context, DeviceName, Flag, GpuLayers, Settings, SplitMode};

impl ResolvedRequest {
    /// `settings` with context and placement as they were fitted; as they are where nothing is fitted. `asked` is what
    /// llama.cpp was asked for, `has_draft` whether a draft of its own file is loaded. `--fit off` is not needed: a fit
    /// changes neither layers whose number is set nor a context that is (`common/fit.cpp`, 0.1.161).
    ///
    /// # Errors
    /// When a pattern cannot be read.
    pub fn pinned(&self, settings: &Settings, asked: &Settings, has_draft: bool) -> Result<Settings, EngineError> {
        let Self { gpus, spread, options, .. } = self;
        let mut pinned = settings.clone();
        if asked.no_fit || asked.split_mode == SplitMode::Tensor {
            return Ok(pinned);
        }
        if !matches!(asked.ctx, Context::Tokens(_)) && options.n_ctx > 0 {
            pinned.ctx = Context::Tokens(options.n_ctx);
        }
        if gpus.is_empty() {
            return Ok(pinned);
        }
        let counts = self.layer_counts();
        if asked.gpu_layers == GpuLayers::Auto {
            pinned.gpu_layers = GpuLayers::Count(spread.gpu_layers.unwrap_or_else(|| counts.iter().sum()));
        }
        if !spread.overrides.is_empty() {
            let texts: Vec<String> = spread.overrides.iter().map(|to| written(to, gpus)).collect();
            Flag::OverrideTensor.read(&mut pinned, &texts.join(",")).map_err(EngineError::Settings)?;
        }
        // a draft is split by the same shares, and by free memory without them
        let splits_draft = spread.tensor_split.is_empty() && has_draft;
        let is_split = gpus.len() > 1 && asked.split_mode == SplitMode::Layer && counts.iter().any(|count| *count > 0);
        if is_split && asked.tensor_split.is_empty() && !splits_draft {
            pinned.tensor_split = counts.iter().map(|count| *count as f64).collect();
        }
        Ok(pinned)
    }

    /// Layers on each GPU, the output layer included. Shares of these sizes give the same layers again.
    fn layer_counts(&self) -> Vec<u64> {
        let places = self.loaded.place(&self.devices, &self.spread).layer_devices();
        let on = |gpu: usize| places.iter().filter(|place| usize::from(**place) == gpu).count() as u64;
        (0..self.gpus.len()).map(on).collect()
    }
}

/// `blk\.7\.ffn_down.*=CPU`
fn written(to: &BlockOverride, gpus: &[usize]) -> String {
    let gpu = to.gpu.and_then(|place| gpus.get(usize::from(place)));
    let device = gpu.map_or_else(DeviceName::cpu, |gpu| DeviceName::gpu(*gpu));
    format!(r"blk\.{}\.{}={device}", to.block, to.part.pattern())
}
