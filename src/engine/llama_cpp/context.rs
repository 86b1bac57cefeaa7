//! The rules that turn the context options into those in effect: context, batches, outputs, flash attention
//! (`llama_context` and `llama_init_from_model` in `llama-context.cpp`, 0.1.161).

use super::LoadedModel;
use super::architectures::{GraphFamily, Trait};
use super::cache::Memory;
use super::draft::Partner;
use super::error::LoadError;
use super::graph::{self, GraphModel};
use super::placement::Placement;
use super::weights::LlmTensor;
use crate::engine::ggml::schedule::Scheduler;
use crate::engine::ggml::tensor::Op;
use crate::engine::ggml::{BackendRef, Graph, Type};
use crate::settings::{FlashAttn, Pooling};

/// llama.cpp's context options (`llama_context_params`), before its rules are applied.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct ContextParams {
    /// Tokens of context over all sequences; 0 for the training context.
    pub n_ctx: u64,
    /// Tokens of a logical batch.
    pub n_batch: u64,
    /// Tokens of a physical batch; 0 for that of the logical one.
    pub n_ubatch: u64,
    /// Parallel sequences.
    pub n_seq_max: u64,
    /// Tokens of a batch with logits; 0 for all.
    pub n_outputs_max: u64,
    /// Whether the compute buffers of a pipeline are refused, whatever is free; `None` goes by what is free.
    pub pipeline_refused: Option<bool>,
    /// The same of one sequence; 0 for the same as over all.
    pub n_outputs_max_per_seq: u64,
    /// Snapshots of recurrent states to roll back to, per sequence.
    pub n_rs_seq: u64,
    /// Whether it runs the model or its MTP blocks.
    pub ctx_type: ContextType,
    /// What drafting asks of the context after it is made.
    pub drafting: DraftingOutputs,
    /// Embeddings are computed, pooled so.
    pub embeddings: Option<Pooling>,
    /// Format of the K cache.
    pub type_k: Type,
    /// Format of the V cache.
    pub type_v: Type,
    /// Flash attention.
    pub flash_attn: FlashAttn,
    /// One KV cache for all sequences.
    pub kv_unified: bool,
    /// Caches are on the devices of their layers; otherwise in RAM.
    pub offload_kqv: bool,
    /// GPUs may run operations whose weights are in RAM.
    pub op_offload: bool,
    /// Caches of blocks with a sliding window have full size.
    pub swa_full: bool,
}

/// `llama_context_type` (`llama.h`, 0.1.161).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextType {
    /// The model without its MTP blocks.
    #[default]
    Default,
    /// The MTP blocks alone, which draft tokens.
    Mtp,
}

/// What drafting asks of a context besides logits. Each makes the context reserve its memory again
/// (`common/speculative.cpp`, 0.1.161).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftingOutputs {
    /// The best tokens of every sequence, chosen by the device of the output layer.
    pub samplers: bool,
    /// The hidden states before the output layer.
    pub embeddings_nextn: NextnRows,
    /// The inputs of these layers.
    pub layer_inputs: Vec<usize>,
}

/// The tokens whose hidden states are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NextnRows {
    /// None.
    #[default]
    None,
    /// Those with logits (masked).
    Outputs,
    /// All.
    All,
}

impl Default for ContextParams {
    /// `llama_context_default_params`, 0.1.161, with the batches of llama-server.
    fn default() -> Self {
        Self {
            n_ctx: 0,
            n_batch: 2048,
            n_ubatch: 512,
            n_seq_max: 1,
            n_outputs_max: 0,
            pipeline_refused: None,
            n_outputs_max_per_seq: 0,
            n_rs_seq: 0,
            ctx_type: ContextType::Default,
            drafting: DraftingOutputs::default(),
            embeddings: None,
            type_k: Type::F16,
            type_v: Type::F16,
            flash_attn: FlashAttn::Auto,
            kv_unified: false,
            offload_kqv: true,
            op_offload: true,
            swa_full: false,
        }
    }
}

/// The parameters in effect.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Cparams {
    /// Tokens over all sequences.
    pub n_ctx: u64,
    /// Tokens per sequence.
    pub n_ctx_seq: u64,
    pub n_batch: u64,
    pub n_ubatch: u64,
    pub n_seq_max: u64,
    pub n_outputs_max: u64,
    pub n_outputs_max_per_seq: u64,
    pub n_rs_seq: u64,
    pub ctx_type: ContextType,
    pub drafting: DraftingOutputs,
    pub embeddings: Option<Pooling>,
    pub type_k: Type,
    pub type_v: Type,
    pub flash_attn: bool,
    /// Flash attention is on if the devices can compute it.
    pub auto_fa: bool,
    /// The delta rule is a fused operation for batches of several tokens per sequence.
    pub fused_delta_chunks: bool,
    /// The same for batches of one token per sequence.
    pub fused_delta_token: bool,
    /// Which parts of hyper-connections are fused operations.
    pub fused_hc: FusedHyperConnections,
    pub kv_unified: bool,
    pub offload_kqv: bool,
    pub op_offload: bool,
    pub swa_full: bool,
}

/// The operations of mixed residual streams that are fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FusedHyperConnections {
    /// The mix that a half reads.
    pub pre: bool,
    /// The matrix that mixes the streams with one another.
    pub comb: bool,
    /// The streams after a half.
    pub post: bool,
}

/// The batch that a graph is built for, with the same number of tokens in every sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Tokens.
    pub n_tokens: u64,
    /// Tokens with logits.
    pub n_outputs: u64,
}

impl Batch {
    /// Few enough tokens that norms are kept on their block's device (`graph_get_cb` in `llama-context.cpp`, 0.1.161).
    pub const fn has_few_tokens(self) -> bool {
        self.n_tokens < 32
    }
}

/// `LLAMA_MAX_SEQ` (`llama-cparams.h`, 0.1.161).
const MAX_SEQUENCES: u64 = 256;
/// Maximum of its options, which are signed 32-bit integers.
const MAX_TOKENS: u64 = i32::MAX as u64;

impl Cparams {
    /// Applies llama.cpp's rules.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn new(options: &ContextParams, model: &LoadedModel) -> Result<Self, LoadError> {
        let LoadedModel { hparams, release, family, .. } = model;
        let architecture = family.architecture;
        let flash = if architecture.has(Trait::ForbidsFlashAttention) { FlashAttn::Off } else { options.flash_attn };
        if architecture.has(Trait::NeedsFlashAttentionOff) && flash != FlashAttn::Off {
            return Err(LoadError::settings(
                "llama.cpp would end with an error: its graph of this model cannot use flash attention: turn it off",
            ));
        }
        check(options, flash, model)?;
        let n_seq_max = options.n_seq_max.max(1);
        let asked = if options.n_ctx == 0 { hparams.n_ctx_train } else { options.n_ctx };
        let n_batch = if hparams.causal { asked.min(options.n_batch) } else { options.n_batch };
        let n_ubatch = n_batch.min(if options.n_ubatch == 0 { options.n_batch } else { options.n_ubatch });
        let mut n_ctx = asked.next_multiple_of(256);
        let mut n_ctx_seq = n_ctx;
        if !options.kv_unified {
            n_ctx_seq = (n_ctx / n_seq_max).next_multiple_of(256);
            n_ctx = n_ctx_seq * n_seq_max;
        }
        if n_ctx_seq == 0 {
            return Err(LoadError::settings(format!(
                "a context of {asked} tokens is too small for {n_seq_max} sequences: raise it"
            )));
        }
        let sparse = flash != FlashAttn::Off && (n_seq_max == 1 || !options.kv_unified);
        if sparse && hparams.blocks_lack_indexer_heads() {
            return Err(LoadError::settings(
                "llama.cpp would end with an error: its sparse attention needs as many heads of the indexer as KV heads: \
                 turn flash attention off",
            ));
        }
        if architecture.has(Trait::OneCacheOnly) && n_seq_max > 1 && !options.kv_unified {
            return Err(LoadError::settings(
                "llama.cpp would end with an error: its graph of this model only works with one cache for all sequences: \
                 use a unified cache, or one sequence",
            ));
        }
        if architecture.has(Trait::ReservesOneSequence)
            && !options.kv_unified
            && !n_ctx.min(n_ubatch).is_multiple_of(n_seq_max)
        {
            return Err(LoadError::settings(format!(
                "llama.cpp would end with an error: a ubatch of {} tokens cannot be split over {n_seq_max} sequences: use \
                 a multiple of {n_seq_max}, or a unified cache",
                n_ctx.min(n_ubatch)
            )));
        }
        let all_rows = options.n_outputs_max == 0 || architecture.has(Trait::HasEncoder);
        let n_outputs_max = if all_rows { n_batch } else { options.n_outputs_max };
        let per_seq = if options.n_outputs_max_per_seq == 0 { n_outputs_max } else { options.n_outputs_max_per_seq };
        Ok(Self {
            n_ctx,
            n_ctx_seq,
            n_batch,
            n_ubatch,
            n_seq_max,
            n_outputs_max,
            n_outputs_max_per_seq: per_seq.min(n_outputs_max),
            n_rs_seq: if architecture.row().rolls_back.contain(release.name) { options.n_rs_seq } else { 0 },
            ctx_type: options.ctx_type,
            drafting: options.drafting.clone(),
            embeddings: options.embeddings,
            type_k: options.type_k,
            type_v: options.type_v,
            flash_attn: flash != FlashAttn::Off,
            auto_fa: flash == FlashAttn::Auto,
            fused_delta_chunks: true,
            fused_delta_token: true,
            fused_hc: FusedHyperConnections { pre: true, comb: true, post: true },
            kv_unified: options.kv_unified,
            offload_kqv: options.offload_kqv,
            op_offload: options.op_offload,
            swa_full: options.swa_full,
        })
    }

    /// The batch for which memory is reserved.
    pub fn reserved(&self) -> Batch {
        let n_tokens = self.n_ctx.min(self.n_ubatch);
        Batch { n_tokens: n_tokens.next_multiple_of(self.n_seq_max), n_outputs: n_tokens.min(self.n_outputs_max) }
    }

    /// A small batch for probe graphs.
    pub fn probe(&self, tokens_per_sequence: u64) -> Batch {
        let n_tokens = tokens_per_sequence * self.n_seq_max;
        Batch { n_tokens, n_outputs: n_tokens }
    }
}

fn check(options: &ContextParams, flash: FlashAttn, model: &LoadedModel) -> Result<(), LoadError> {
    let LoadedModel { hparams, release, family: GraphFamily { architecture, .. }, .. } = model;
    let refuse = |why: String| Err(LoadError::settings(why));
    if options.n_batch == 0 && options.n_ubatch == 0 {
        return refuse("batch and ubatch are both 0: set one of them".to_owned());
    }
    for (name, tokens) in [("context", options.n_ctx), ("batch", options.n_batch), ("ubatch", options.n_ubatch)] {
        if tokens > MAX_TOKENS {
            return refuse(format!("a {name} of {tokens} tokens is too large for llama.cpp: use at most {MAX_TOKENS}"));
        }
    }
    if options.ctx_type == ContextType::Mtp && hparams.n_layer_nextn == 0 {
        return refuse(
            "the model has no MTP blocks, so it cannot draft with draft-mtp: use another --spec-type".to_owned(),
        );
    }
    if options.ctx_type == ContextType::Mtp && architecture.has(Trait::NoMtpGraph) {
        return refuse(
            "llama.cpp has no graph of this model's MTP blocks, so it cannot draft with draft-mtp: use another \
             --spec-type"
                .to_owned(),
        );
    }
    if options.n_ctx == 0 && hparams.n_ctx_train == 0 {
        return refuse("the model has no training context: set a context".to_owned());
    }
    if options.n_seq_max > MAX_SEQUENCES {
        return refuse(format!(
            "{} parallel sequences are too many: llama.cpp supports at most {MAX_SEQUENCES}",
            options.n_seq_max
        ));
    }
    let (type_k, type_v) = (options.type_k, options.type_v);
    let one_row = hparams.mla.is_some() || !hparams.compress_ratios.is_empty();
    if release.mla_one_type && one_row && type_k != type_v {
        return refuse(format!(
            "this model stores K and V in one cache: use the same type for both, not {type_k} and \
                               {type_v}"
        ));
    }
    let flash = flash != FlashAttn::Off;
    if type_v.block() > 1 && !flash {
        return refuse(format!("a V cache of {type_v} needs flash attention: turn it on or use f16"));
    }
    for (name, ty, sizes) in [("K", type_k, &hparams.n_embd_head_k), ("V", type_v, &hparams.n_embd_head_v)] {
        let block = ty.block();
        let odd = (0..hparams.n_layer())
            .map(|il| sizes[usize::from(hparams.is_swa[il])])
            .find(|head| !head.is_multiple_of(block));
        if let (true, true, Some(head)) = (flash, block > 1, odd) {
            return refuse(format!(
                "a {name} head of {head} elements is not a multiple of the {ty} block size {block}: use f16"
            ));
        }
    }
    Ok(())
}

// llama.cpp's tests before it reserves memory: whether fused operations would run on the device of their block
// (`llama_context::resolve_fused_ops`, 0.1.161; `llama_context::sched_reserve`, 0.1.150).

/// The input of a probe graph.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    pub model: &'a LoadedModel,
    pub placement: &'a Placement,
    pub memory: &'a Memory,
    pub partner: Option<&'a Partner<'a>>,
    pub backends: &'a [BackendRef],
}

impl Probe<'_> {
    /// Decides in `context` what is left to llama.cpp. Probe graphs are built in `graph`.
    ///
    /// # Errors
    /// When a tensor is missing in the file, or flash attention is required but not supported.
    pub fn resolve(&self, context: &mut Cparams, options: &ContextParams, graph: &mut Graph) -> Result<(), LoadError> {
        let LoadedModel { release, hparams, .. } = self.model;
        let quantised = options.type_v.block() > 1;
        if context.auto_fa && !(quantised && release.quantised_v_forces_flash) {
            context.flash_attn = self.attention_is_supported(context, graph)
                && (self.attention_follows_caches(context)
                    || self.runs_on_layer_device(context, context.probe(1), Op::FlashAttn, graph)?);
            if quantised && !context.flash_attn {
                return Err(needs_flash_attention(options.type_v));
            }
        }
        if release.probes_delta_net && hparams.is_recr.contains(&true) {
            context.fused_delta_token =
                self.runs_on_layer_device(context, context.probe(1), Op::GatedDeltaNet, graph)?;
            context.fused_delta_chunks =
                self.runs_on_layer_device(context, context.probe(16), Op::GatedDeltaNet, graph)?;
        }
        if self.model.family.architecture.has(Trait::FusesHyperConnections) {
            // each is tried with what was found out about those before
            let stays = |context: &Cparams, op, graph: &mut Graph| {
                self.runs_on_layer_device(context, context.probe(1), op, graph)
            };
            context.fused_hc.pre = stays(context, Op::HcPre, graph)?;
            context.fused_hc.comb = stays(context, Op::HcComb, graph)?;
            context.fused_hc.post = stays(context, Op::HcPost, graph)?;
        }
        Ok(())
    }

    const fn graph_model(&self) -> GraphModel<'_> {
        GraphModel { model: self.model, placement: self.placement, memory: self.memory, partner: self.partner }
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
        let plain = memory.indexer.is_none() && memory.compressed.is_none();
        context.offload_kqv && cached && own && plain && !sinks && stays && !recurrent.any(|is| *is)
    }

    /// Whether every `op` of a graph for `batch` runs on the device of its block.
    fn runs_on_layer_device(
        &self,
        context: &Cparams,
        batch: Batch,
        op: Op,
        graph: &mut Graph,
    ) -> Result<bool, LoadError> {
        let Self { model, placement, backends, .. } = *self;
        if backends.len() == 1 {
            return Ok(true);
        }
        graph::build(&self.graph_model(), context, batch, graph)?;
        let scheduler = Scheduler {
            backends,
            op_offload: context.op_offload,
            pipeline: false,
            pins: true,
            rules: model.release.rules,
        };
        let mut places = Vec::new();
        scheduler.assign(graph, &mut places, |_, _| {});
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

#[cfg(all(test, feature = "source"))]
mod tests {
    use std::collections::HashSet;

    use std::sync::Arc;

    use super::*;
    use crate::engine::ggml::backend::Plain;
    use crate::engine::llama_cpp::{Device, LayerSplit};
    use crate::gguf::FileType;
    use crate::settings::Release;
    use crate::source::catalogue;

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
                let backends = crate::engine::llama_cpp::backends(&devices);
                let probe = Probe {
                    model: &loaded,
                    placement: &placement,
                    memory: &memory,
                    partner: None,
                    backends: &backends,
                };
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
                let stays = probe.runs_on_layer_device(context, context.probe(1), Op::FlashAttn, &mut Graph::default());
                assert_ne!(stays, Ok(false), "{:?} {:?}", probe.model.family, probe.placement);
                followed += usize::from(stays.is_ok());
            }
        });
        assert!(followed > 250, "{followed} cases skip the trial");
    }
}
