//! Which blocks of a graph are built: scheduler and allocator soon come back to a state in which they were at the end of
//! an earlier block, and what follows is known. A graph without those blocks measures the same. That it does is seen
//! in the graph itself: each block that is left out begins in a state in which one of its kind was seen to begin, and
//! the next that is built begins where they end; else the whole graph is built.

use std::hash::Hash;
use std::ops::Range;

use super::cache::Memory;
use super::context::{ContextType, Cparams};
use super::graph::block_traits;
use super::loaded::LoadedModel;
use super::placement::Placement;
use super::weights::numbered;
use crate::engine::ggml::Graph;
use crate::engine::ggml::allocate::AllocatorState;
use crate::engine::ggml::schedule::{Schedule, Split};
use crate::engine::ggml::tensor::{BackendId, Buffer, TensorId};

/// Blocks of a kind that are built before others are left out, at most: where two end in turn in two states, or the first
/// alone ends elsewhere, the second shows it.
const MOST_OF_KIND: usize = 2;

/// The blocks of a graph that are built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltBlocks {
    /// Ascending; the first and the last are among them.
    pub blocks: Vec<usize>,
    /// How many there are in all.
    count: usize,
    /// How many of each kind are; more than [`MOST_OF_KIND`] if all blocks are built because that is not enough.
    of_kind: usize,
    /// The kinds of all blocks; none if all are built.
    kinds: BlockKinds,
}

/// Operations that a graph lacks because their blocks are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The step before which they are missing: an index into [`Schedule::nodes`].
    pub before: usize,
    /// Steps.
    pub steps: usize,
}

impl BuiltBlocks {
    /// All of so many blocks.
    pub fn all(count: usize) -> Self {
        Self { blocks: (0..count).collect(), count, of_kind: MOST_OF_KIND + 1, kinds: BlockKinds::default() }
    }

    /// Those that may stand for all where two blocks with equal traits have the same operations: the fewest.
    pub fn of_traits<T: Eq + Hash>(traits: impl Iterator<Item = T>) -> Self {
        Self::of_each_kind(1, BlockKinds::between(numbered(traits), |_| ()))
    }

    /// Those that may stand for all: the fewest.
    pub fn of(model: &LoadedModel, placement: &Placement, memory: &Memory, context: &Cparams) -> Self {
        let hparams = &model.hparams;
        let one_pass = hparams.weight_blocks.is_empty() && hparams.hrm.is_none() && hparams.dec_n_layer == 0;
        let plain = context.ctx_type == ContextType::Default && context.adapters.is_none();
        if !one_pass || !plain {
            return Self::all(hparams.n_layer());
        }
        Self::of_each_kind(1, BlockKinds::of(model, placement, memory, context))
    }

    fn of_each_kind(of_kind: usize, kinds: BlockKinds) -> Self {
        let (blocks, count) = (kinds.built(of_kind), kinds.builds.len());
        let kinds = if blocks.len() == count { BlockKinds::default() } else { kinds };
        Self { blocks, count, of_kind, kinds }
    }

    /// As many of a kind as in `before`, another graph of the model: fewer would most likely not do here either. Where
    /// recurrent blocks and others take turns, one of a kind never does.
    #[must_use]
    pub fn like_before(self, before: Option<&Self>, model: &LoadedModel) -> Self {
        let mut recurrent = model.hparams.is_recr.iter().take(model.hparams.n_layer());
        let take_turns = recurrent.clone().any(|is| *is) && !recurrent.all(|is| *is);
        match before.map_or(if take_turns { MOST_OF_KIND } else { 1 }, |before| before.of_kind) {
            of_kind if self.are_all() || of_kind <= self.of_kind => self,
            MOST_OF_KIND => Self::of_each_kind(MOST_OF_KIND, self.kinds),
            _ => Self::all(self.count),
        }
    }

    /// More of them.
    #[must_use]
    pub fn more(self) -> Self {
        if self.of_kind >= MOST_OF_KIND {
            Self::all(self.count)
        } else {
            Self::of_each_kind(self.of_kind + 1, self.kinds)
        }
    }

    /// Whether none is left out.
    pub fn are_all(&self) -> bool {
        self.kinds.builds.is_empty()
    }

    /// Those that are left out before the built block at `index`.
    fn left_out_before(&self, index: usize) -> Range<usize> {
        index.checked_sub(1).map_or(0, |before| self.blocks[before] + 1)..self.blocks[index]
    }
}

/// The kinds of a model's blocks, as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct BlockKinds {
    /// Two of one number have the same operations on the same devices.
    builds: Vec<usize>,
    /// Two of one number have weights of the same types besides, and neighbours of the same operations.
    between: Vec<usize>,
}

impl BlockKinds {
    fn of(model: &LoadedModel, placement: &Placement, memory: &Memory, context: &Cparams) -> Self {
        let count = model.hparams.n_layer();
        let builds = numbered((0..count).map(|il| {
            let mut traits = block_traits::of(il, &model.hparams, context);
            traits.extend(memory.traits_of(il));
            traits.extend(placement.traits_of(il, &model.weights));
            traits
        }));
        // what GPUs compute with weights in RAM takes copies of their size
        let copies = context.op_offload && placement.cpu > 0;
        let types = |il: usize| model.weights.block_kinds[il].types(copies && placement.may_hold_in_ram(il));
        Self::between(builds, types)
    }

    /// Those of blocks with these operations, and with weights of `types`.
    fn between<T: Eq + Hash>(builds: Vec<usize>, types: impl Fn(usize) -> T) -> Self {
        let between = numbered((0..builds.len()).map(|il| {
            let before = il.checked_sub(1).map(|before| builds[before]);
            (before, builds[il], types(il), builds.get(il + 1).copied())
        }));
        Self { builds, between }
    }

    /// The blocks that are built: all but those of which enough of their kind were built before, up to one that follows on
    /// the same neighbour.
    fn built(&self, of_kind: usize) -> Vec<usize> {
        let Self { builds, between } = self;
        let mut seen = vec![0; between.len()];
        let (mut built, mut il) = (Vec::new(), 0);
        while il < builds.len() {
            let known = between[il..].iter().take_while(|kind| seen[**kind] >= of_kind).count();
            let follows = |next: &usize| {
                let rest = &builds[*next..];
                builds[next - 1] == builds[il - 1]
                    && rest.first() == Some(&builds[il])
                    // what the last of them reads is freed behind it
                    && builds[il..*next].iter().all(|left_out| rest.contains(left_out))
            };
            let steps = |step: usize| (1..=known / step).rev().map(move |count| il + step * count);
            // blocks may end in one of two states in turn, or groups of them
            let next = if of_kind > 1 { steps(8).find(follows) } else { None };
            let next = next.or_else(|| steps(2).find(follows));
            if let Some(next) = next {
                il = next;
            } else {
                seen[between[il]] += 1;
                built.push(il);
                il += 1;
            }
        }
        built
    }
}

/// Where the built blocks of a graph begin in the order of computation, before it is scheduled.
#[derive(Debug, Default)]
pub struct BlockStarts(Vec<BlockStart>);

/// The first operation of a block that reads a weight of it.
#[derive(Clone, Copy, Debug)]
struct BlockStart {
    operation: TensorId,
    /// Its index in [`Graph::nodes`].
    node: usize,
    /// The index of that weight in [`Graph::leafs`].
    leaf: usize,
}

/// A built block: from one state to the next.
#[derive(Clone, Debug)]
struct SeenBlock {
    kind: usize,
    /// Indices of states.
    from: usize,
    to: usize,
    /// Its steps.
    steps: Range<usize>,
    /// It takes nothing that later blocks lack.
    is_steady: bool,
}

impl BlockStarts {
    /// Those of `built` in `graph`; none if a block has no weights there, or not in the order of the blocks.
    pub fn of(built: &BuiltBlocks, graph: &Graph) -> Option<Self> {
        if built.are_all() {
            return Some(Self::default());
        }
        let block = |id: TensorId| match graph[id].buffer {
            Buffer::Weights(_) => usize::try_from(graph[id].layer).ok(),
            _ => None,
        };
        let mut leafs = vec![usize::MAX; built.kinds.builds.len()];
        for (leaf, id) in graph.leafs.iter().enumerate().rev() {
            if let Some(first) = block(*id).and_then(|il| leafs.get_mut(il)) {
                *first = leaf;
            }
        }
        let mut blocks = built.blocks.iter().peekable();
        let mut starts = Vec::with_capacity(built.blocks.len());
        for (node, operation) in graph.nodes.iter().enumerate() {
            let Some(&&il) = blocks.peek() else { break };
            if graph.sources(&graph[*operation]).any(|source| block(source) == Some(il)) {
                starts.push(BlockStart { operation: *operation, node, leaf: leafs[il] });
                blocks.next();
            }
        }
        let in_order = starts.is_sorted_by(|a, b| a.node < b.node && a.leaf < b.leaf);
        (blocks.next().is_none() && in_order).then_some(Self(starts))
    }

    /// Operations and leafs that the graph lacks.
    pub fn left_out(&self, built: &BuiltBlocks) -> (usize, usize) {
        let of_kind = |il: usize| {
            let at = built.blocks.iter().position(|block| built.kinds.between[*block] == built.kinds.between[il]);
            let (start, end) = at.and_then(|at| Some((self.0.get(at)?, self.0.get(at + 1)?)))?;
            Some((end.node - start.node, end.leaf - start.leaf))
        };
        let left_out = (0..self.0.len()).flat_map(|index| built.left_out_before(index));
        left_out.filter_map(of_kind).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// The steps of `schedule` at which they begin.
    pub fn steps(&self, schedule: &Schedule) -> Vec<usize> {
        let mut starts = self.0.iter().peekable();
        let mut steps = Vec::with_capacity(self.0.len());
        for (step, (id, _)) in schedule.nodes.iter().enumerate() {
            let Some(start) = starts.peek() else { break };
            if start.operation == *id {
                steps.push(step);
                starts.next();
            }
        }
        steps
    }

    /// What `graph` lacks, if it measures as the whole one: it was in `states` before the `steps` at which its blocks begin;
    /// none if that is not seen.
    pub fn settled(
        &self,
        built: &BuiltBlocks,
        graph: &Graph,
        schedule: &Schedule,
        steps: &[usize],
        states: &[AllocatorState],
        cpu: BackendId,
    ) -> Option<Vec<LeftOut>> {
        // copies of weights are as large as their types are, which were told apart of those in RAM alone
        let on_gpu = |id: &TensorId| matches!(graph[*id].buffer, Buffer::Weights(device) if device != cpu);
        if steps.len() != self.0.len() || !built.are_all() && schedule.inputs.iter().any(on_gpu) {
            return None;
        }
        let states = numbered(states.iter());
        let mut seen: Vec<SeenBlock> = Vec::new();
        let mut left_out = Vec::new();
        for index in 0..steps.len() {
            let skipped = built.left_out_before(index);
            let mut state = seen.last().map_or(states[index], |block| block.to);
            let mut lacks = 0;
            for il in skipped.clone() {
                let kind = built.kinds.between[il];
                let mut of_kind = seen.iter().rev().filter(|block| block.kind == kind);
                // the first of a kind may take what the next ones have
                if !of_kind.clone().next()?.is_steady {
                    return None;
                }
                let known = of_kind.find(|block| block.from == state)?;
                (state, lacks) = (known.to, lacks + known.steps.len());
            }
            if state != states[index] {
                return None;
            }
            if !skipped.is_empty() {
                left_out.push(LeftOut { before: steps[index], steps: lacks });
            }
            let Some(end) = self.0.get(index + 1) else { break };
            let start = self.0[index];
            let inputs = graph.leafs[start.leaf..end.leaf].iter().any(|id| graph[*id].buffer == Buffer::Unallocated);
            let block = SeenBlock {
                kind: built.kinds.between[built.blocks[index]],
                from: state,
                to: states[index + 1],
                steps: steps[index]..steps[index + 1],
                is_steady: !inputs && !grows(schedule, start.node..end.node),
            };
            // where one of its kind did something else, more than its kind matters
            let other = seen.iter().find(|other| other.kind == block.kind);
            if other.is_some_and(|other| !same_steps(graph, schedule, other.steps.clone(), block.steps.clone())) {
                return None;
            }
            seen.push(block);
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

/// Whether every further block like that of `nodes` takes something from the beginning on: the copies of a pipeline,
/// which are allocated before the graph runs, or a place among the inputs of a split that goes on, which is cut where
/// these are too many.
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

    /// The built blocks of a model whose blocks have these operations, and weights of the same types.
    fn built(builds: &str) -> String {
        let builds = numbered(builds.bytes());
        let at = |il: Option<usize>| il.and_then(|il| builds.get(il)).copied();
        let between = numbered((0..builds.len()).map(|il| (at(il.checked_sub(1)), at(Some(il)), at(Some(il + 1)))));
        let built = BlockKinds { builds, between }.built(2);
        built.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn enough_of_each_kind_are_built() {
        assert_eq!(built("aaaa"), "0 1 2 3");
        assert_eq!(built("faaaaaaaaal"), "0 1 2 3 8 9 10");
        assert_eq!(built("faaaaaaaaaaaaaaal"), "0 1 2 3 14 15 16");
        // kinds in turn, and a run on each of two devices
        assert_eq!(built("fabababababababl"), "0 1 2 3 4 5 12 13 14 15");
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

    /// Of the catalogue's models on one card, how many blocks are built, and which are built whole: those whose blocks pass on
    /// more than a hidden state, as indexers and banks of residuals, and short hybrids.
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
        assert!(built * 5 < all * 2, "{built} of {all}");
        assert!(whole.len() * 7 < catalogue::all().len(), "{whole:?}");
    }
}
