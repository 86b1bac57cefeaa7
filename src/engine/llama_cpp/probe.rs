//! llama.cpp's tests before it reserves memory: whether fused operations would run on the device of their block
//! (`llama_context::resolve_fused_ops`, 0.1.161; `llama_context::sched_reserve`, 0.1.150).

use super::architecture::Trait;
use super::architectures;
use super::cache::Memory;
use super::context::{Batch, ContextParams, Cparams};
use super::draft_target::DraftTarget;
use super::error::LoadError;
use super::graph::{self, GraphModel};
use super::loaded::LoadedModel;
use super::placement::Placement;
use super::weights::LlmTensor;
use crate::engine::ggml::schedule::Scheduler;
use crate::engine::ggml::tensor::{BackendId, Op};
use crate::engine::ggml::{BackendRef, Graph, Type};

/// The input of a probe graph.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    pub model: &'a LoadedModel,
    pub placement: &'a Placement,
    pub memory: &'a Memory,
    pub target: Option<&'a DraftTarget<'a>>,
    pub backends: &'a [BackendRef],
    /// The blocks that are built, ascending.
    pub blocks: &'a [usize],
}

/// The graph probed last. Most probes only confirm what their graph was built with, so the next asks the same graph.
struct Probed<'g> {
    graph: &'g mut Graph,
    /// What it was built for.
    built_for: Option<(Cparams, Batch)>,
    /// The device of every tensor.
    places: Vec<BackendId>,
}

impl Probe<'_> {
    /// Decides in `context` what is left to llama.cpp. Probe graphs are built in `graph`.
    ///
    /// # Errors
    /// When a tensor is missing in the file, or flash attention is required but not supported.
    pub fn resolve(&self, context: &mut Cparams, options: &ContextParams, graph: &mut Graph) -> Result<(), LoadError> {
        let LoadedModel { release, hparams, .. } = self.model;
        let quantised = options.type_v.block() > 1;
        let of_auto_fa = context.auto_fa && !(quantised && release.quantised_v_forces_flash);
        if of_auto_fa && !self.attention_is_supported(context, graph) {
            context.flash_attn = false;
        }
        let mut probed = Probed { graph, built_for: None, places: Vec::new() };
        let mut stays = |context: &Cparams, n_tokens: u64, op: Op| {
            self.runs_on_layer_device(context, context.probe(n_tokens), op, &mut probed)
        };
        if of_auto_fa {
            context.flash_attn &= self.attention_follows_caches(context) || stays(context, 1, Op::FlashAttn)?;
            if quantised && !context.flash_attn {
                return Err(needs_flash_attention(options.type_v));
            }
        }
        if release.probes_delta_net && hparams.is_recr.contains(&true) {
            context.fused_delta_token = stays(context, 1, Op::GatedDeltaNet)?;
            context.fused_delta_chunks = stays(context, 16, Op::GatedDeltaNet)?;
        }
        let elsewhere = self.backends.len() > 2 || !context.offload_kqv;
        if elsewhere && !release.fuses_delta_net_elsewhere {
            (context.fused_delta_token, context.fused_delta_chunks) = (false, false);
        }
        if self.model.family.architecture.has(Trait::FusesHyperConnections) {
            // each is tried with what was found out about those before
            context.fused_hc.pre = stays(context, 1, Op::HcPre)?;
            context.fused_hc.comb = stays(context, 1, Op::HcComb)?;
            context.fused_hc.post = stays(context, 1, Op::HcPost)?;
        }
        Ok(())
    }

    const fn graph_model(&self) -> GraphModel<'_> {
        let Self { model, placement, memory, target, blocks, .. } = *self;
        GraphModel { model, placement, memory, target, blocks }
    }

    /// Whether the device of every block with a cache can compute its attention.
    fn attention_is_supported(&self, context: &Cparams, graph: &mut Graph) -> bool {
        let Self { placement, backends, .. } = *self;
        graph::build_attention(&self.graph_model(), context, context.probe(1), graph);
        let mut attention = graph.computed.iter().map(|id| &graph[*id]).filter(|tensor| tensor.op == Op::FlashAttn);
        attention.all(|tensor| {
            let device = usize::try_from(tensor.layer).ok().and_then(|il| placement.layers.get(il));
            device.is_none_or(|device| backends[usize::from(*device)].supports(graph, tensor))
        })
    }

    /// Whether attention is certain to run on the device of its block, so that no graph needs to be built. On a GPU it
    /// follows the block's own matrices. In RAM it directly follows the writes to the block's caches, if these are its
    /// own, and stays there as long as the next operation does: a matrix product of the block, which no GPU runs for
    /// few tokens. Attention to an encoder's text has no cache. If some blocks are recurrent, the next block's state may come first, and that may be on a GPU; if
    /// all are recurrent, there is no attention.
    fn attention_follows_caches(&self, context: &Cparams) -> bool {
        let Self { model, placement, memory, backends, .. } = self;
        let caches = || memory.full.iter().chain(&memory.window);
        let mut recurrent = model.hparams.is_recr.iter().take(model.hparams.n_layer());
        if caches().next().is_none() {
            return recurrent.all(|is| *is);
        }
        let in_ram = |il: usize| placement.layers.get(il) == Some(&placement.cpu);
        let own = caches().all(|cache| {
            if cache.shared {
                return false;
            }
            let mut layers = cache.layers.iter().enumerate();
            layers.all(|(il, layer)| layer.is_none_or(|layer| layer.owner == il) || !in_ram(il))
        });
        let cached = model.hparams.dec_n_layer == 0 && !model.family.architecture.has(Trait::IgnoresCache);
        let sinks = model.release.rules.sinks_decide && model.weights.has(LlmTensor::AttnSinks);
        let few = backends.iter().all(|b| b.offload_batch().is_none_or(|least| context.probe(1).n_tokens < least));
        let stays = few || !placement.layers.contains(&placement.cpu);
        let plain = memory.indexer.is_none() && memory.compressed.is_none() && !placement.moves_attention();
        context.offload_kqv && cached && own && plain && !sinks && stays && !recurrent.any(|is| *is)
    }

    /// Whether every `op` of a graph for `batch` runs on the device of its block.
    fn runs_on_layer_device(
        &self,
        context: &Cparams,
        batch: Batch,
        op: Op,
        Probed { graph, built_for, places }: &mut Probed<'_>,
    ) -> Result<bool, LoadError> {
        let Self { model, placement, backends, .. } = *self;
        if backends.len() == 1 {
            return Ok(true);
        }
        if !built_for.as_ref().is_some_and(|(of, for_batch)| (of, *for_batch) == (context, batch)) {
            architectures::build(&self.graph_model(), context, batch, graph)?;
            let scheduler = Scheduler {
                backends,
                op_offload: context.op_offload,
                pipeline: false,
                pins: true,
                rules: model.release.rules,
            };
            places.clear();
            scheduler.assign(graph, places, |_, _| {});
            *built_for = Some((context.clone(), batch));
        }
        let device = |layer: i16| usize::try_from(layer).ok().and_then(|il| placement.layers.get(il));
        // sparse attention over blocks is not tried, and belongs to no block
        let mut tried = graph.computed.iter().filter(|id| graph[**id].op == op && graph[**id].layer >= 0);
        Ok(tried.all(|id| device(graph[*id].layer) == Some(&places[id.index()])))
    }
}

fn needs_flash_attention(ty: Type) -> LoadError {
    LoadError::settings(format!(
        "a V cache of {ty} needs flash attention, which is not supported on the device of the layers: use f16"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use std::sync::Arc;

    use super::*;
    use crate::catalogue;
    use crate::engine::ggml::backend::Plain;
    use crate::engine::llama_cpp::{Device, LayerSplit};
    use crate::gguf::FileType;
    use crate::settings::Release;

    /// One model of each architecture, for both releases, with few and with many layers on two GPUs.
    fn in_each_case(mut check: impl FnMut(&Probe<'_>, &Cparams)) {
        let mut seen = HashSet::new();
        for entry in catalogue::all() {
            let Ok(model) = entry.model(FileType::Q4KM) else { continue };
            let shares =
                LoadedModel::new(&model.header, Release::default()).is_ok_and(|LoadedModel { hparams, .. }| {
                    hparams.n_layer_kv_from_start.is_some_and(|own| own < hparams.n_layer())
                });
            if !seen.insert((model.architecture.clone(), shares)) {
                continue;
            }
            for (release, sequences, layers) in Release::ALL.into_iter().flat_map(|release| {
                [
                    (1, Some(7)),
                    (31, Some(1)),
                    (32, None),
                    (4, None),
                    (1, Some(4)),
                    (2, Some(3)),
                    (1, Some(20)),
                    (4, Some(33)),
                ]
                .map(|(n, layers)| (release, n, layers))
            }) {
                let Ok(loaded) = LoadedModel::new(&model.header, release) else { continue };
                let options =
                    ContextParams { n_ctx: 8192, n_seq_max: sequences, kv_unified: true, ..ContextParams::default() };
                let devices = vec![Device { backend: Arc::new(Plain), free: 1 << 34 }; 2];
                let placement = loaded.place(&devices, &LayerSplit { gpu_layers: layers, ..LayerSplit::default() });
                let Ok(context) = Cparams::new(&options, &loaded) else { continue };
                let memory = Memory::new(&loaded, &context, &placement, None);
                let backends = crate::engine::llama_cpp::devices::backends(&devices);
                let (placement, memory, backends) = (&placement, &memory, &backends);
                let blocks: Vec<usize> = (0..loaded.hparams.n_layer()).collect();
                let probe = Probe { model: &loaded, placement, memory, target: None, backends, blocks: &blocks };
                check(&probe, &context);
            }
        }
    }

    #[test]
    fn attention_that_follows_its_caches_stays_on_its_device() {
        let mut followed = 0;
        in_each_case(|probe, context| {
            if probe.attention_follows_caches(context) {
                // a file that lacks a tensor has no graph
                let mut graph = Graph::default();
                let mut probed = Probed { graph: &mut graph, built_for: None, places: Vec::new() };
                let stays = probe.runs_on_layer_device(context, context.probe(1), Op::FlashAttn, &mut probed);
                assert_ne!(stays, Ok(false), "{:?} {:?}", probe.model.family, probe.placement);
                followed += usize::from(stays.is_ok());
            }
        });
        assert!(followed > 250, "{followed} cases skip the trial");
    }
}
