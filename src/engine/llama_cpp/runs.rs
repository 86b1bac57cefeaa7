//! Runs of equal blocks: in a graph of such a run, scheduler and allocator soon come back to the state in which the
//! block before left them. A graph is then built without most of the run, and measures the same: that it came back is
//! seen in the graph itself, or the whole one is built.

use std::ops::Range;

use super::cache::Memory;
use super::context::{ContextType, Cparams};
use super::graph::block_traits;
use super::loaded::LoadedModel;
use super::placement::Placement;
use crate::engine::ggml::Graph;
use crate::engine::ggml::allocate::AllocatorState;
use crate::engine::ggml::backend::alike;
use crate::engine::ggml::schedule::{Schedule, Split};
use crate::engine::ggml::tensor::{BackendId, Buffer, TensorId};

/// Blocks after which a run may begin anew, at most: patterns of attention, and of the types that quantisers mix.
const MAX_PERIOD: usize = 12;
/// Periods that are built of a run at least: all but the last are compared.
const BUILT_PERIODS: usize = 4;

/// The blocks of a graph that are built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltBlocks {
    /// Ascending.
    pub blocks: Vec<usize>,
    /// The runs of which some are left out.
    runs: Vec<Run>,
}

/// A run of equal blocks, or of equal groups of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Its first block.
    first: usize,
    /// Blocks of a group.
    period: usize,
    /// Groups that are built before those that are left out; one more follows.
    built: usize,
    /// Groups that are left out.
    left_out: usize,
}

/// Operations that a graph lacks because their blocks are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The step before which they are missing: an index into [`Schedule::nodes`].
    pub before: usize,
    /// Steps.
    pub steps: usize,
}

impl Run {
    /// The blocks at which its groups begin that are built before those left out, and the first block behind these.
    fn starts(&self) -> impl Iterator<Item = usize> {
        let Self { first, period, built, .. } = *self;
        (0..built).map(move |group| first + group * period).chain([self.next()])
    }

    /// The first block behind what is left out.
    fn next(&self) -> usize {
        self.first + (self.built + self.left_out) * self.period
    }
}

impl BuiltBlocks {
    /// All blocks.
    pub fn all(model: &LoadedModel) -> Self {
        Self { blocks: (0..model.hparams.n_layer()).collect(), runs: Vec::new() }
    }

    /// Those that may stand for all.
    pub fn of(model: &LoadedModel, placement: &Placement, memory: &Memory, context: &Cparams) -> Self {
        let hparams = &model.hparams;
        let one_pass = hparams.weight_blocks.is_empty() && hparams.hrm.is_none() && hparams.dec_n_layer == 0;
        let plain = context.ctx_type == ContextType::Default && context.adapters.is_none();
        if !one_pass || !plain {
            return Self::all(model);
        }
        Self::of_kinds(&kinds(model, placement, memory, context))
    }

    /// Of blocks of these kinds.
    fn of_kinds(kinds: &[usize]) -> Self {
        let mut built = Self::default();
        let mut il = 0;
        while il < kinds.len() {
            let Some(run) = (1..=MAX_PERIOD).filter_map(|period| Run::at(il, period, kinds)).max_by_key(Run::saves)
            else {
                built.blocks.push(il);
                il += 1;
                continue;
            };
            let (gap, end) = (run.first + run.built * run.period, run.next());
            built.blocks.extend(il..gap);
            built.runs.push(run);
            // its last group
            built.blocks.extend(end..end + run.period);
            il = end + run.period;
        }
        built
    }
}

impl Run {
    /// The run of groups of `period` blocks that begins at `first`, if some can be left out.
    fn at(first: usize, period: usize, kinds: &[usize]) -> Option<Self> {
        let rest = &kinds[first..];
        let again = rest.iter().zip(rest.get(period..)?).take_while(|(a, b)| a == b).count();
        let groups = (again + period) / period;
        // in pairs: what comes back after two groups is left out too
        let left_out = groups.checked_sub(BUILT_PERIODS)? / 2 * 2;
        (left_out > 0).then_some(Self { first, period, built: groups - left_out - 1, left_out })
    }

    /// Blocks that it leaves out; of equals the shorter period.
    fn saves(&self) -> (usize, std::cmp::Reverse<usize>) {
        (self.left_out * self.period, std::cmp::Reverse(self.period))
    }
}

/// The kind of each block, as a number: two of one kind have the same graph.
fn kinds(model: &LoadedModel, placement: &Placement, memory: &Memory, context: &Cparams) -> Vec<usize> {
    let count = model.hparams.n_layer();
    let mut traits: Vec<Vec<u64>> = (0..count)
        .map(|il| {
            let mut of_block = block_traits::of(il, &model.hparams, context);
            of_block.extend(memory.traits_of(il));
            of_block.push(placement.layers[il].into());
            of_block
        })
        .collect();
    for (index, weight) in model.weights.all.iter().enumerate() {
        let (Some(il), Some((slot, part))) = (weight.block.filter(|il| *il < count), weight.role) else { continue };
        let home = placement.home(placement.in_block(il, Some(slot)), index);
        let repacked = placement.repacked(home, index).is_some();
        let ty = if home == placement.cpu { weight.ty } else { alike(weight.ty) };
        traits[il].extend([slot as u64, part as u64, ty as u64, home.into(), repacked.into()]);
        traits[il].extend(weight.ne);
    }
    let mut known: Vec<usize> = Vec::new();
    let number = |il: usize| {
        let same = known.iter().position(|other| traits[*other] == traits[il]);
        same.unwrap_or_else(|| {
            known.push(il);
            known.len() - 1
        })
    };
    (0..count).map(number).collect()
}

/// Where the blocks of a graph begin in the order of computation, before it is scheduled.
#[derive(Debug, Default)]
pub struct BlockStarts {
    /// Per run, where the groups begin, and what follows those left out.
    runs: Vec<Vec<BlockStart>>,
}

/// The first operation of a block that reads a weight of it.
#[derive(Clone, Copy, Debug)]
struct BlockStart {
    operation: TensorId,
    /// Its index in [`Graph::nodes`].
    node: usize,
    /// The index of that weight in [`Graph::leafs`].
    leaf: usize,
}

impl BlockStarts {
    /// Those of `built` in `graph`; none if a block has no weights there, or not in the order of the blocks.
    pub fn of(built: &BuiltBlocks, graph: &Graph) -> Option<Self> {
        if built.runs.is_empty() {
            return Some(Self::default());
        }
        let block = |id: TensorId| match graph[id].buffer {
            Buffer::Weights(_) => usize::try_from(graph[id].layer).ok(),
            _ => None,
        };
        let blocks = built.blocks.last().map_or(0, |last| last + 1);
        let mut starts: Vec<Option<BlockStart>> = vec![None; blocks];
        let mut leafs = vec![usize::MAX; blocks];
        for (leaf, id) in graph.leafs.iter().enumerate() {
            if let Some(first) = block(*id).and_then(|il| leafs.get_mut(il)) {
                *first = leaf.min(*first);
            }
        }
        for (node, operation) in graph.nodes.iter().enumerate() {
            for source in graph.sources(&graph[*operation]) {
                if let Some((il, start)) = block(source).and_then(|il| Some((il, starts.get_mut(il)?)))
                    && start.is_none()
                {
                    *start = Some(BlockStart { operation: *operation, node, leaf: leafs[il] });
                }
            }
        }
        let of_run = |run: &Run| {
            let starts: Option<Vec<BlockStart>> = run.starts().map(|il| *starts.get(il)?).collect();
            starts.filter(|starts| starts.is_sorted_by(|a, b| a.node < b.node && a.leaf < b.leaf))
        };
        let runs: Option<Vec<_>> = built.runs.iter().map(of_run).collect();
        runs.map(|runs| Self { runs })
    }

    /// Operations and leafs that the graph lacks.
    pub fn left_out(&self, built: &BuiltBlocks) -> (usize, usize) {
        let each = built.runs.iter().zip(&self.runs).filter_map(|(run, starts)| {
            let [.., a, b, _] = starts.as_slice() else { return None };
            Some((run.left_out * (b.node - a.node), run.left_out * (b.leaf - a.leaf)))
        });
        each.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// The steps of `schedule` at which they begin.
    pub fn steps(&self, schedule: &Schedule) -> Vec<usize> {
        let mut starts = self.runs.iter().flatten().peekable();
        let mut steps = Vec::new();
        for (step, (id, _)) in schedule.nodes.iter().enumerate() {
            if starts.next_if(|start| start.operation == *id).is_some() {
                steps.push(step);
            }
        }
        steps
    }

    /// What `graph` lacks, if every run came back to an earlier state at one of `steps`, where the allocator had
    /// `states`; none if one did not.
    pub fn settled(
        &self,
        built: &BuiltBlocks,
        graph: &Graph,
        schedule: &Schedule,
        steps: &[usize],
        states: &[AllocatorState],
        cpu: BackendId,
    ) -> Option<Vec<LeftOut>> {
        if steps.len() != self.runs.iter().map(Vec::len).sum::<usize>() {
            return None;
        }
        // weights that stay on their device may be of any type that backends do not tell apart, copies may not
        let copied = |id: &TensorId| matches!(graph[*id].buffer, Buffer::Weights(device) if device != cpu);
        if !self.runs.is_empty() && schedule.inputs.iter().any(copied) {
            return None;
        }
        let mut at = 0;
        let mut left_out = Vec::new();
        for (run, starts) in built.runs.iter().zip(&self.runs) {
            let of_run = at..at + starts.len();
            at = of_run.end;
            let (steps, states) = (&steps[of_run.clone()], &states[of_run]);
            let [.., before, last, next] = *steps else { return None };
            let [.., a, b, _] = starts.as_slice() else { return None };
            let inputs = graph.leafs[a.leaf..b.leaf].iter().any(|id| graph[*id].buffer == Buffer::Unallocated);
            if inputs || !same_steps(graph, schedule, before..last, last..next) || grows(schedule, a.node..b.node) {
                return None;
            }
            let (end, earlier) = states.split_last()?;
            let since = earlier.first()?;
            if !earlier.iter().rev().take(2).any(|state| state.equals(end, since)) {
                return None;
            }
            left_out.push(LeftOut { before: next, steps: run.left_out * (last - before) });
        }
        Some(left_out)
    }
}

/// Whether two ranges of steps run the same operations on the same devices.
fn same_steps(graph: &Graph, schedule: &Schedule, a: Range<usize>, b: Range<usize>) -> bool {
    let of = |range: Range<usize>| {
        schedule.nodes[range].iter().map(|(id, place)| {
            let tensor = &graph[*id];
            (tensor.op, tensor.ty, tensor.ne, *place)
        })
    };
    of(a).eq(of(b))
}

/// Whether every further group like `nodes` takes something from the beginning on: the copies of a pipeline, which are
/// allocated before the graph runs, or a place among the inputs of a split that goes on, which is cut where these are
/// too many.
fn grows(schedule: &Schedule, nodes: Range<usize>) -> bool {
    let goes_on = |split: &&Split| split.nodes.start <= nodes.start && nodes.end < split.nodes.end;
    let splits = schedule.splits.iter().filter(|split| schedule.copies > 1 || goes_on(split));
    splits.flat_map(|split| &schedule.input_nodes[split.inputs.clone()]).any(|node| nodes.contains(node))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;
    use crate::catalogue;
    use crate::engine::ggml::backend::{Cuda, Metal, Plain, Remote, Sycl, Vulkan};
    use crate::engine::ggml::{BackendRef, Type};
    use crate::engine::llama_cpp::context::ContextParams;
    use crate::engine::llama_cpp::measure::{Measurer, Reservation};
    use crate::engine::llama_cpp::placement::{BlockOverride, LayerSplit, OverrideGroup};
    use crate::engine::llama_cpp::{Device, LoadedModel};
    use crate::machine::CpuInstructions;
    use crate::settings::{FlashAttn, Release};

    fn built(kinds: &str) -> String {
        let kinds: Vec<usize> = kinds.bytes().map(usize::from).collect();
        BuiltBlocks::of_kinds(&kinds).blocks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn runs_are_built_in_part() {
        assert_eq!(built("aaaaa"), "0 1 2 3 4");
        assert_eq!(built("aaaaaaaaaaaa"), "0 1 2 11");
        assert_eq!(built("aaaaaaaaaaaaa"), "0 1 2 3 12");
        // groups of two, between a first and a last of their own
        assert_eq!(built("fabababababababl"), "0 1 2 3 4 5 6 7 8 13 14 15");
        // a run on each of two devices
        assert_eq!(built("aaaaaaaabbbbbbbb"), "0 1 2 7 8 9 10 15");
    }

    fn backends() -> impl Strategy<Value = BackendRef> {
        let own: [BackendRef; 6] = [
            Arc::new(Cuda::default()),
            Arc::new(Vulkan::default()),
            Arc::new(Metal::default()),
            Arc::new(Plain),
            Arc::new(Sycl),
            Arc::new(Remote(Arc::new(Cuda::default()))),
        ];
        select(own.to_vec())
    }

    fn options() -> impl Strategy<Value = ContextParams> {
        let flash = select(vec![FlashAttn::Auto, FlashAttn::On, FlashAttn::Off]);
        let sizes = (select(vec![2048, 8192, 32_768, 131_072]), select(vec![64, 512, 2048]), select(vec![1, 2, 4]));
        (sizes, flash, select(vec![Type::F16, Type::Q8_0]), any::<[bool; 4]>()).prop_map(
            |((n_ctx, n_ubatch, n_seq_max), flash_attn, ty, [kv_unified, offload_kqv, op_offload, swa_full])| {
                let type_v = if flash_attn == FlashAttn::Off { Type::F16 } else { ty };
                let defaults = ContextParams { n_ctx, n_ubatch, n_seq_max, flash_attn, ..ContextParams::default() };
                ContextParams { type_k: ty, type_v, kv_unified, offload_kqv, op_offload, swa_full, ..defaults }
            },
        )
    }

    /// A share of the layers on GPUs, of the experts in RAM, and whether weights in RAM are repacked.
    fn splits() -> impl Strategy<Value = (Option<Index>, Option<Index>, bool)> {
        (any::<Option<Index>>(), prop::option::weighted(0.2, any::<Index>()), prop::bool::weighted(0.2))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        /// What a graph without most of its equal blocks reserves is what the whole one does.
        #[test]
        fn equal_blocks_are_measured_by_a_few(
            entry in any::<Index>(),
            quantisation in select(vec!["Q4_K_M", "Q3_K_L", "Q8_0", "IQ2_XXS", "F16"]),
            release in any::<Index>(),
            (backend, free) in (backends(), prop::collection::vec(select(vec![8_u64, 12, 24, 48]), 0..5)),
            (layers, experts, repacks) in splits(),
            options in options(),
            reservation in select(vec![Reservation::Measured, Reservation::Loaded]),
        ) {
            let name = &entry.get(catalogue::all()).name;
            let model = catalogue::model(&format!("{name}:{quantisation}")).or_else(|| catalogue::model(name));
            let Some(model) = model else { return Ok(()) };
            let Ok(loaded) = LoadedModel::new(&model.header, *release.get(&Release::ALL)) else { return Ok(()) };
            let blocks = loaded.hparams.n_layer_all;
            let of_experts = |count: Index| {
                let in_ram = |block| BlockOverride { block, part: OverrideGroup::Experts, gpu: None };
                (0..count.index(blocks)).map(in_ram).collect()
            };
            let spread = LayerSplit {
                gpu_layers: layers.map(|layers| layers.index(blocks + 2) as u64),
                overrides: experts.map(of_experts).unwrap_or_default(),
                repack_for: if repacks { CpuInstructions::Avx2 } else { CpuInstructions::None },
                ..LayerSplit::default()
            };
            let device = |gib| Device { backend: Arc::clone(&backend), free: gib << 30 };
            let devices: Vec<Device> = free.into_iter().map(device).collect();
            let placement = loaded.place(&devices, &spread);
            let cut = Measurer::new(&loaded, &devices).measure(&placement, &options, reservation);
            let whole = Measurer::new(&loaded, &devices).whole().measure(&placement, &options, reservation);
            prop_assert_eq!(cut, whole, "{} {}", name, quantisation);
        }
    }

    /// Of the catalogue's models on one card, how many blocks are built, and in which graphs no run came back to an earlier
    /// state.
    #[test]
    fn most_blocks_are_left_out() {
        let devices = [Device { backend: Arc::new(Cuda::default()), free: 1 << 40 }];
        let options = ContextParams { n_ctx: 8192, ..ContextParams::default() };
        let (mut all, mut built, mut whole) = (0, 0, Vec::new());
        for entry in catalogue::all() {
            let Some(model) = catalogue::model(&entry.name) else { continue };
            let Ok(loaded) = LoadedModel::new(&model.header, Release::default()) else { continue };
            let (measurer, placement) =
                (Measurer::new(&loaded, &devices), loaded.place(&devices, &LayerSplit::default()));
            let Ok((_, graphs)) = measurer.reserve(&placement, &options, Reservation::Loaded, None, None) else {
                continue;
            };
            let blocks = graphs.built_blocks();
            all += loaded.hparams.n_layer();
            built += blocks;
            if blocks == loaded.hparams.n_layer() && blocks > 12 {
                whole.push(entry.name.as_str());
            }
        }
        assert!(built * 3 < all, "{built} of {all}");
        assert_eq!(whole, [""; 0]);
    }
}
