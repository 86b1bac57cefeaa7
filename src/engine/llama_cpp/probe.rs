//! What llama.cpp tries before it reserves memory: whether fused operations would run on their block's device
//! (`llama_context::resolve_fused_ops`, 0.1.161; `llama_context::sched_reserve`, 0.1.150).

use super::Loaded;
use super::cache::Memory;
use super::context::{Batch, Context, Options};
use super::desk::{Desk, Shared};
use super::error::Refusal;
use super::placement::Placement;
use super::trials::Trial;
use super::weights::Slot;
use crate::engine::ggml::families::{self, Draft};
use crate::engine::ggml::schedule::Scheduler;
use crate::engine::ggml::tensor::Op;
use crate::engine::ggml::{Backend, Type, Workbench};
use crate::settings::FlashAttn;

/// Everything that a trial needs.
pub struct Parts<'a> {
    pub placement: &'a Placement,
    pub memory: &'a Memory,
    pub backends: &'a [Backend],
}

impl Parts<'_> {
    /// Settles in `context` what is left to llama.cpp.
    ///
    /// # Errors
    /// When the model's file lacks a tensor, or flash attention turns out to be needed and not to be had.
    pub fn resolve(&self, context: &mut Context, options: &Options, desk: &mut Desk<'_>) -> Result<(), Refusal> {
        let Loaded { release, hparams, .. } = desk.model;
        let packed = options.type_v.block() > 1;
        if options.flash_attn == FlashAttn::Auto && !(packed && release.packed_v_needs_no_trial) {
            context.flash_attn = self.attention_follows_caches(desk.model, context)
                || self.stays_home(context, context.probe(1), Op::FlashAttn, desk)?;
            if packed && !context.flash_attn {
                return Err(needs_flash_attention(options.type_v));
            }
        }
        if release.probes_delta_net && hparams.is_recr.contains(&true) {
            context.fused_delta_token = self.stays_home(context, context.probe(1), Op::GatedDeltaNet, desk)?;
            context.fused_delta_chunks = self.stays_home(context, context.probe(16), Op::GatedDeltaNet, desk)?;
        }
        Ok(())
    }

    /// Whether attention is certain to be computed where its block is, so that no graph needs to be tried. On a GPU it
    /// follows the block's own matrices. In RAM what comes right before it are the writes to the block's caches, if these
    /// are its own, and it stays with them as long as what follows stays too: a matrix of the block, which no GPU takes
    /// over for few tokens. Where some blocks are recurrent, the next block's state may come first, and that may be on a
    /// GPU; where all are, there is no attention.
    fn attention_follows_caches(&self, model: &Loaded, context: &Context) -> bool {
        let Self { placement, memory, backends } = self;
        let caches = || memory.full.iter().chain(&memory.window);
        let mut recurrent = model.hparams.is_recr.iter().take(model.hparams.n_layer());
        if caches().next().is_none() {
            return recurrent.all(|is| *is);
        }
        let in_ram = |il: usize| placement.layers.get(il) == Some(&placement.cpu);
        let own = caches().all(|cache| {
            let mut layers = cache.layers.iter().enumerate();
            layers.all(|(il, layer)| layer.is_none_or(|layer| layer.owner == il) || !in_ram(il))
        });
        let sinks = model.release.rules.sinks_decide && model.weights.has(Slot::AttnSinks);
        let few = backends.iter().all(|backend| context.probe(1).n_tokens < backend.offload_batch);
        let stays = few || !placement.layers.contains(&placement.cpu);
        context.offload_kqv && own && !sinks && stays && !recurrent.any(|is| *is)
    }

    /// By which a trial is scheduled.
    fn scheduler(&self, context: &Context, model: &Loaded) -> Scheduler<'_> {
        let (op_offload, rules) = (context.op_offload, model.release.rules);
        Scheduler { backends: self.backends, op_offload, pipeline: false, pins: true, rules }
    }

    /// Whether every `op` of a graph for `batch` is computed where its block is.
    fn stays_home(&self, context: &Context, batch: Batch, op: Op, desk: &mut Desk<'_>) -> Result<bool, Refusal> {
        if self.backends.len() == 1 {
            return Ok(true);
        }
        let scheduler = self.scheduler(context, desk.model);
        let stays = |draft: &mut Draft, bench: &mut Workbench| {
            draft.settle(self.placement, |_| {});
            draft.stays_home(op, &scheduler, bench)
        };
        if let Desk { model, shared: Some(Shared { courses, .. }), bench, .. } = desk {
            let trial = Trial::new(context, batch, self.backends);
            let draft = || families::draft(model, context, batch, self.memory, courses.room());
            return courses.try_out(&trial, op, self.placement, draft, |draft| stays(draft, bench));
        }
        let mut draft = desk.draft(context, batch, self.memory, self.backends)?;
        let stays = stays(&mut draft, &mut desk.bench);
        desk.keep(draft);
        Ok(stays)
    }
}

fn needs_flash_attention(ty: Type) -> Refusal {
    Refusal::settings(format!(
        "a V cache of {ty} needs flash attention, which is not supported on the device of the layers: use f16"
    ))
}

#[cfg(all(test, feature = "source"))]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::engine::llama_cpp::{Device, Spread, release::Release};
    use crate::gguf::FileType;
    use crate::source::catalogue;

    /// One model of each architecture, by both releases, with few and with many layers on two GPUs.
    fn in_each_case(mut look: impl FnMut(&Loaded, &Parts<'_>, &Context)) {
        let mut seen = HashSet::new();
        for entry in catalogue::all() {
            let Ok(model) = entry.model(FileType::Q4KM) else { continue };
            let shares = Loaded::new(&model.header, Release::default()).is_ok_and(|Loaded { hparams, .. }| {
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
                let Ok(loaded) = Loaded::new(&model.header, release) else { continue };
                let options = Options { n_ctx: 8192, n_seq_max: sequences, kv_unified: true, ..Options::default() };
                let devices = vec![Device { backend: Backend::CUDA, free: 1 << 34 }; 2];
                let placement = loaded.place(&devices, &Spread { gpu_layers: layers, ..Spread::default() });
                let Ok(context) = Context::new(&options, &loaded.hparams, &release) else { continue };
                let memory = Memory::new(&loaded.hparams, loaded.family.architecture, &context, &placement);
                let backends = [Backend::CUDA, Backend::CUDA, Backend::CPU];
                look(&loaded, &Parts { placement: &placement, memory: &memory, backends: &backends }, &context);
            }
        }
    }

    #[test]
    fn attention_that_follows_its_caches_passes_the_trial() {
        let mut followed = 0;
        in_each_case(|loaded, parts, context| {
            if parts.attention_follows_caches(loaded, context) {
                // a file that lacks a tensor has no graph to try, nor one to be measured by
                let desk = &mut Desk::new(loaded);
                let stays = parts.stays_home(context, context.probe(1), Op::FlashAttn, desk);
                assert_ne!(stays, Ok(false), "{:?} {:?}", loaded.family, parts.placement);
                followed += usize::from(stays.is_ok());
            }
        });
        assert!(followed > 250, "{followed} cases skip the trial");
    }

    #[test]
    fn how_large_caches_are_decides_no_trial() {
        let mut tried = 0;
        in_each_case(|loaded, parts, context| {
            let tries = |tokens: u64, op: Op, per_sequence: u64| {
                let n_ctx = tokens * context.n_seq_max;
                let context =
                    Context { n_ctx, n_ctx_seq: tokens, n_batch: tokens, n_ubatch: tokens, ..context.clone() };
                let memory = Memory::new(&loaded.hparams, loaded.family.architecture, &context, parts.placement);
                let parts = Parts { memory: &memory, ..*parts };
                parts.stays_home(&context, context.probe(per_sequence), op, &mut Desk::new(loaded)).ok()
            };
            for (op, per_sequence) in [(Op::FlashAttn, 1), (Op::GatedDeltaNet, 1), (Op::GatedDeltaNet, 16)] {
                let small = tries(256, op, per_sequence);
                assert_eq!(tries(1 << 20, op, per_sequence), small, "{:?} {op:?} {:?}", loaded.family, parts.placement);
                tried += usize::from(small.is_some());
            }
        });
        assert!(tried > 500, "{tried} trials");
    }

    #[test]
    fn one_operation_is_assigned_as_among_all() {
        let mut told = 0;
        in_each_case(|loaded, parts, context| {
            for batch in [context.probe(1), context.reserved()] {
                let mut desk = Desk::new(loaded);
                let Ok(mut draft) = desk.draft(context, batch, parts.memory, parts.backends) else { continue };
                let scheduler = parts.scheduler(context, loaded);
                draft.settle(parts.placement, |_| {});
                draft.make_ready();
                let all = scheduler.assign(&draft.graph, &mut desk.bench);
                for (at, id) in draft.graph.computed.iter().enumerate() {
                    let one = scheduler.assign_one(&draft.graph, at);
                    assert!(one.is_none_or(|one| one == all[id.index()]), "{:?} {:?}", loaded.family, parts.placement);
                    told += usize::from(one.is_some());
                }
            }
        });
        assert!(told > 100_000, "{told} operations were told");
    }
}
