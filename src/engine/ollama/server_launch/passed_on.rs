//! What is passed on to llama-server: its options, the GPUs that it sees, and who set what.

use std::collections::BTreeMap;

use super::super::command::ProjectorArgument;
use super::{Decisions, ServerLaunch, is_automatic};
use crate::engine::error::EngineError;
use crate::engine::launch::ServerStart;
use crate::engine::llama_cpp::architectures::is_known;
use crate::machine::{Gpu, Machine};
use crate::settings::{
    Context, DeviceName, Flag, GpuLayers, LlamaProgram, MmprojOptions, NearestRelease, Outputs, Release, Settings,
};
use crate::units::Bytes;

impl Decisions<'_> {
    pub(super) fn launch(mut self) -> Result<ServerLaunch, EngineError> {
        let command = self.command()?;
        let start = ServerStart {
            gpus: self.chosen.iter().map(|one| one.index).collect(),
            predicted: self.predicted,
            available: self.available,
            margin: self.margin,
            num_ctx: self.ctx,
            parallel: self.parallel,
            num_batch: self.batch,
            ctx_auto: is_automatic(self.settings),
            batch_auto: self.settings.batch.is_none() && !self.embedding,
            mmap_auto_off: self.mmap_auto_off,
            command,
        };
        let refusal = self.server_refusal(start.command.sees.len());
        let mut decided: Vec<_> =
            self.notes.iter().filter_map(|(decision, note)| Some((decision.as_ref()?, note))).collect();
        decided.sort_by_key(|(decision, _)| **decision);
        Ok(ServerLaunch {
            ctx: self.ctx,
            sources: self.sources(),
            options: self.options(&start.command.env)?,
            gpus: start.command.sees.clone(),
            embedding: self.embedding,
            has_projector_on_gpu: self.margin.is_some()
                || matches!(self.projector, ProjectorArgument::File { in_ram: false, .. }),
            failures: 0,
            refusal,
            machine: self.visible_machine(&start.command.sees),
            decided: decided.into_iter().map(|(_, note)| note.clone()).collect(),
            notes: self.notes.drain(..).map(|(_, note)| note).collect(),
            start,
            chosen: self.chosen,
            counted: self.discovery.counted,
        })
    }

    /// All devices that the Vulkan backend lists.
    pub fn vulkan(&self) -> &[usize] {
        &self.discovery.vulkan
    }

    /// The settings with the devices that llama-server sees. It knows them by names of its own; indices are those of the
    /// machine.
    ///
    /// # Errors
    /// When it does not see one.
    pub fn settings_as_seen(&self) -> Result<Settings, EngineError> {
        self.settings.seen_by_server(&self.sees(), DeviceName::index).map_err(EngineError::Settings)
    }

    /// llama-server's options, as it starts with `env`.
    fn options(&self, env: &BTreeMap<String, String>) -> Result<Settings, EngineError> {
        let settings = self.settings;
        let if_raw = |asked: bool| asked && settings.raw;
        let server = &settings.ollama.server;
        let by_variable = server.inherited.get("LLAMA_ARG_N_GPU_LAYERS").and_then(|count| count.trim().parse().ok());
        let gpu_layers = match settings.gpu_layers {
            GpuLayers::Auto if server.no_fit => by_variable.map_or(GpuLayers::All, GpuLayers::Count),
            GpuLayers::Auto => by_variable.map_or(GpuLayers::Auto, GpuLayers::Count),
            asked => asked,
        };
        let llama_cpp = self.llama_cpp();
        let sent = Some(self.sent).filter(|&batch| batch > 0);
        Ok(Settings {
            ctx: Context::Tokens(self.tokens),
            parallel: Some(self.parallel),
            batch: sent,
            ubatch: settings.ubatch.filter(|_| settings.raw).or(sent),
            flash_attn: self.flash_attn,
            gpu_layers,
            embeddings: Some(self.embedding),
            reranking: false,
            pooling: None,
            program: LlamaProgram::Server,
            fit_target: settings.fit_target.or(self.margin),
            no_op_offload: if_raw(settings.no_op_offload),
            outputs: if settings.raw { settings.outputs } else { Outputs::default() },
            release: Some(llama_cpp.release),
            build: llama_cpp.build,
            gpu_overhead: Bytes::ZERO,
            adapters: Bytes::ZERO,
            loras: Vec::new(),
            control_vectors: Vec::new(),
            ctx_per_slot: None,
            draft: self.draft_options(),
            mmproj: MmprojOptions { device: self.projector.device(settings), ..settings.mmproj },
            spread: false,
            raw: false,
            require_full: if_raw(settings.require_full),
            gpus_registered_last: env.contains_key("GGML_BACKEND_PATH"),
            // llama-server's argument stands over its variable
            load_mode: self.load_mode.and_then(|mode| mode.parse().ok()).or(settings.load_mode),
            ..self.settings_as_seen()?
        })
    }

    /// The llama.cpp that is planned: the one asked for, else the one that this version ships or the nearest release, else,
    /// where that does not know the architecture, the next release that does.
    pub(super) fn llama_cpp(&self) -> NearestRelease {
        if self.settings.release.is_some() {
            return self.settings.llama_cpp();
        }
        let own = self.settings.ollama.version.llama_cpp();
        let knows = |nearest: &NearestRelease| is_known(&self.model.architecture, nearest.llama_cpp());
        let newer =
            Release::ALL.into_iter().rev().skip_while(|release| *release != own.release).map(NearestRelease::from);
        std::iter::once(own).chain(newer).find(knows).unwrap_or(own)
    }

    /// Why llama-server, which sees some GPUs, refuses its options, if it does.
    fn server_refusal(&self, gpus: usize) -> Option<String> {
        if let Some(unknown) = &self.settings.ollama.server.unknown_cache_type {
            return Some(format!("llama-server knows no KV cache type '{unknown}'"));
        }
        let wrong = self.main_gpu.filter(|&index| usize::try_from(index).map_or(true, |index| index >= gpus.max(1)))?;
        Some(format!("llama-server sees no GPU {wrong} (main_gpu): it has {gpus}"))
    }

    /// The machine with only the GPUs that llama-server sees, by the backend that it is started with.
    pub fn visible_machine(&self, sees: &[usize]) -> Machine {
        let backend = self.chosen.first().map(|one| one.gpu.backend);
        let seen = |&index: &usize| {
            let gpu = self.machine.gpus.get(index)?.clone();
            Some(Gpu { backend: backend.unwrap_or(gpu.backend), ..gpu })
        };
        Machine { gpus: sees.iter().filter_map(seen).collect(), ..self.machine.clone() }
    }

    /// Who set a value, where it was not the request.
    fn sources(&self) -> BTreeMap<&'static str, String> {
        let knobs = [
            (Flag::Context, "ctx"),
            (Flag::Parallel, "parallel"),
            (Flag::Batch, "batch"),
            (Flag::CacheTypeK, "cache_type_k"),
            (Flag::CacheTypeV, "cache_type_v"),
            (Flag::FlashAttn, "flash_attn"),
            (Flag::GpuLayers, "gpu_layers"),
        ];
        let known = |(flag, key): (Flag, &'static str)| {
            let source = self.settings.source_of(flag).filter(|source| !source.is_asked())?;
            Some((key, source.to_string()))
        };
        let mut sources: BTreeMap<&'static str, String> = knobs.into_iter().filter_map(known).collect();
        if self.settings.ctx == Context::Auto && !self.settings.raw {
            let counted = &self.discovery.counted;
            let total: Bytes = counted.iter().map(|one| one.gpu.total).sum();
            let by = match (self.retry.ctx, counted.as_slice()) {
                (Some(_), _) => "lowered, as loading ran out of memory".to_owned(),
                (None, []) => "by VRAM, no GPU".to_owned(),
                (None, _) => format!("by VRAM, {total} in all"),
            };
            sources.insert("ctx", by);
        }
        sources
    }
}
