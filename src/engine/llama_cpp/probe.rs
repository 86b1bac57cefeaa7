//! What llama.cpp tries before it reserves memory: whether fused operations would run on their block's device
//! (`llama_context::resolve_fused_ops`, 0.1.161; `llama_context::sched_reserve`, 0.1.150).

use super::Loaded;
use super::cache::Memory;
use super::context::{Batch, Context, Options};
use super::error::Refusal;
use super::placement::Placement;
use crate::engine::ggml::families;
use crate::engine::ggml::schedule::Scheduler;
use crate::engine::ggml::tensor::Op;
use crate::engine::ggml::{Backend, Type};
use crate::settings::FlashAttn;

/// Everything that a trial needs.
pub struct Parts<'a> {
    pub model: &'a Loaded,
    pub placement: &'a Placement,
    pub memory: &'a Memory,
    pub backends: &'a [Backend],
}

impl Parts<'_> {
    /// Settles in `context` what is left to llama.cpp.
    ///
    /// # Errors
    /// When the model's file lacks a tensor, or flash attention turns out to be needed and not to be had.
    pub fn resolve(&self, context: &mut Context, options: &Options) -> Result<(), Refusal> {
        let release = &self.model.release;
        let packed = options.type_v.block() > 1;
        if options.flash_attn == FlashAttn::Auto && !(packed && release.packed_v_needs_no_trial) {
            context.flash_attn = self.stays_home(context, context.probe(1), Op::FlashAttn)?;
            if packed && !context.flash_attn {
                return Err(needs_flash_attention(options.type_v));
            }
        }
        if release.probes_delta_net && self.model.hparams.is_recr.contains(&true) {
            context.fused_delta_token = self.stays_home(context, context.probe(1), Op::GatedDeltaNet)?;
            context.fused_delta_chunks = self.stays_home(context, context.probe(16), Op::GatedDeltaNet)?;
        }
        Ok(())
    }

    /// Whether every `op` of a graph for `batch` is computed where its block is.
    fn stays_home(&self, context: &Context, batch: Batch, op: Op) -> Result<bool, Refusal> {
        if self.backends.len() == 1 {
            return Ok(true);
        }
        let mut graph = families::build(self.model, context, batch, self.placement, self.memory)?;
        let scheduler = Scheduler {
            backends: self.backends,
            op_offload: context.op_offload,
            pipeline: false,
            pins: true,
            rules: self.model.release.rules,
        };
        let places = scheduler.assign(&graph);
        let home = |layer: i16| usize::try_from(layer).ok().and_then(|il| self.placement.layers.get(il).copied());
        graph.nodes.retain(|id| graph.tensors[id.index()].op == op);
        Ok(graph.nodes.iter().all(|id| home(graph[*id].layer) == Some(places[id.index()])))
    }
}

fn needs_flash_attention(ty: Type) -> Refusal {
    Refusal::settings(format!(
        "a V cache of {ty} needs flash attention, which does not run where the blocks are: use f16"
    ))
}
