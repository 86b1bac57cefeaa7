//! A graph before anybody says which device holds what: the same for every placement, so that a fit need not build it
//! again for each.

use std::sync::Arc;

use crate::engine::ggml::allocate::{self, Claim, Course, Scale};
use crate::engine::ggml::outline::Outline;
use crate::engine::ggml::schedule::Scheduler;
use crate::engine::ggml::sections::Exchanged;
use crate::engine::ggml::tensor::{Buffer, Id, NOWHERE, Place};
use crate::engine::ggml::{Backend, Graph, Op, Workbench};
use crate::engine::llama_cpp::architecture::Architecture;
use crate::engine::llama_cpp::cache::Memory;
use crate::engine::llama_cpp::context::{Batch, Context};
use crate::engine::llama_cpp::placement::{InBlocks, Placement};
use crate::engine::llama_cpp::weights::Slot;

/// Whose device a tensor is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// That of a tensor of block `il`, unless it overflows.
    InBlock(usize, Slot),
    /// That of a tensor of the whole model.
    OfModel(Slot),
    /// That of block `il` itself.
    Block(usize),
    /// That of the output layer.
    Output,
    /// That of the caches of block `il`.
    Cache(usize),
    /// The CPU.
    Ram,
}

/// A weight that every device whose blocks read it has of its own.
#[derive(Debug, Default)]
struct Shared {
    /// One for each block or layer that reads it; which of them there really are, a placement says.
    ids: Vec<Id>,
    /// Operation, operand, and which of `ids` that is.
    readers: Vec<(Id, usize, usize)>,
    /// From where each of them reads.
    places: Vec<Place>,
}

/// What a graph is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Purpose {
    pub(super) architecture: Architecture,
    pub(super) context: Context,
    pub(super) batch: Batch,
    /// Whether V is stored with tokens along rows.
    pub(super) v_transposed: Option<bool>,
}

/// Drafts of the same pattern have, under the same placement, the same schedule and the same course.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    outline: Outline,
    given: Vec<(Id, Home)>,
    pinned: Vec<(Id, Home)>,
    has_few_tokens: bool,
    offload_kqv: bool,
    op_offload: bool,
}

/// A graph whose weights and caches have no home yet.
#[derive(Debug)]
pub struct Draft {
    /// The graph; after [`Self::settle`], one under a placement.
    pub graph: Graph,
    /// How large its tensors are, once that was asked for.
    pub scale: Option<Arc<Scale>>,
    /// The devices for which its sizes are.
    pub backends: Vec<Backend>,
    /// What it is for.
    pub purpose: Purpose,
    /// Weights and caches; once it was settled, in the order of their blocks.
    given: Vec<(Id, Home)>,
    /// What the model's own code keeps on a device, in the same order then.
    pinned: Vec<(Id, Home)>,
    shared: Vec<Shared>,
    /// Who needs what of its tensors, once it was made ready.
    pub claims: Vec<Claim>,
    /// What is given, of shared weights one for each reader, once it was settled.
    leafs: Vec<Id>,
    /// Which of what is computed are such operations, once anybody asked for them.
    operations: Option<(Op, Vec<usize>)>,
    /// For which it was settled last.
    placement: Option<Placement>,
}

impl Home {
    /// The block on which it depends, and on nothing else.
    const fn block(self) -> Option<usize> {
        match self {
            Self::InBlock(il, _) | Self::Block(il) | Self::Cache(il) => Some(il),
            Self::OfModel(_) | Self::Output | Self::Ram => None,
        }
    }

    fn under(self, placement: &Placement, in_blocks: &mut InBlocks<'_>, purpose: &Purpose) -> Place {
        match self {
            Self::InBlock(il, slot) => in_blocks.home(il, Some(slot)),
            Self::OfModel(slot) => placement.of_model(Some(slot), purpose.architecture),
            Self::Cache(il) if purpose.context.offload_kqv => placement.layers[il],
            Self::Block(il) => placement.layers[il],
            Self::Output => placement.output,
            Self::Cache(_) | Self::Ram => placement.cpu,
        }
    }
}

impl Purpose {
    /// Whether this is what a graph would be for.
    pub fn is_that(&self, context: &Context, batch: Batch, memory: &Memory) -> bool {
        let Self { context: own, batch: own_batch, v_transposed, .. } = self;
        own == context && *own_batch == batch && *v_transposed == memory.v_transposed()
    }
}

impl Draft {
    /// `shared` are weights that enter the graph once for each who reads them.
    pub(super) fn new(
        graph: Graph,
        purpose: Purpose,
        given: Vec<(Id, Home)>,
        pinned: Vec<(Id, Home)>,
        shared: impl IntoIterator<Item = Vec<Id>>,
    ) -> Self {
        let shared = shared.into_iter().filter(|ids| ids.len() > 1).map(|ids| Shared { ids, ..Shared::default() });
        let shared = shared.collect();
        let (claims, leafs, operations) = Default::default();
        Self {
            graph,
            scale: None,
            backends: Vec::new(),
            purpose,
            given,
            pinned,
            shared,
            claims,
            leafs,
            operations,
            placement: None,
        }
    }

    /// Finds out what is needed to settle it; where courses are known, nobody does.
    fn make_movable(&mut self) {
        for shared in &mut self.shared {
            shared.find_readers(&self.graph);
        }
        for homes in [&mut self.given, &mut self.pinned] {
            homes.sort_by_key(|(_, home)| home.block());
        }
        self.leafs = self.graph.leafs.clone();
    }

    /// Finds out what whole schedules need to know; trials mostly look at less.
    pub fn make_ready(&mut self) {
        if self.claims.is_empty() {
            self.graph.finish();
            self.claims = allocate::claims(&self.graph);
        }
    }

    /// Its pattern, as devices of these kinds would compute it, before it is settled.
    pub fn pattern(&self, backends: &[Backend]) -> Pattern {
        let Purpose { context, batch, .. } = &self.purpose;
        Pattern {
            outline: Outline::of(&self.graph, backends),
            given: self.given.clone(),
            pinned: self.pinned.clone(),
            has_few_tokens: batch.has_few_tokens(),
            offload_kqv: context.offload_kqv,
            op_offload: context.op_offload,
        }
    }

    /// Gives weights and caches their homes. `moved` is told which of them had others before, and which operations read
    /// another of several weights now.
    pub fn settle(&mut self, placement: &Placement, mut moved: impl FnMut(Id)) {
        if self.leafs.is_empty() {
            self.make_movable();
        }
        let Self { graph, purpose, given, pinned, placement: before, .. } = self;
        // what has to do with no block, and what has to do with those of which something is elsewhere
        let before = before.replace(placement.clone());
        let is_like = |before: &Placement| before.full_offload == placement.full_offload;
        let elsewhere = before
            .filter(is_like)
            .map_or_else(|| (0..placement.layers.len()).collect(), |before| before.blocks_elsewhere(placement));
        let blocks = || std::iter::once(None).chain(elsewhere.iter().copied().map(Some));
        let mut in_blocks = placement.in_blocks();
        for &(id, home) in blocks().flat_map(|block| of_block(given, block)) {
            let place = home.under(placement, &mut in_blocks, purpose);
            let is_cache = matches!(home, Home::Cache(_));
            let buffer = if is_cache { Buffer::Cache(place) } else { Buffer::Weights(place) };
            if graph[id].buffer != buffer {
                graph[id].buffer = buffer;
                moved(id);
            }
        }
        // llama.cpp's own code keeps things with their blocks when all layers are offloaded, or for few tokens
        let with_blocks = purpose.batch.has_few_tokens() || placement.full_offload;
        for &(id, home) in blocks().flat_map(|block| of_block(pinned, block)) {
            let is_pinned = with_blocks || matches!(home, Home::Ram);
            graph[id].pin = if is_pinned { home.under(placement, &mut in_blocks, purpose) } else { NOWHERE };
        }
        self.share(moved);
    }

    /// Who takes and gives what under a placement.
    pub fn course(&mut self, scheduler: &Scheduler<'_>, placement: &Placement, bench: &mut Workbench) -> Course {
        self.settle(placement, |_| {});
        self.make_ready();
        let (graph, tensors) = (&mut self.graph, self.claims.len());
        let schedule = scheduler.run(graph, bench, None);
        let course = allocate::course(graph, &self.claims, &schedule, scheduler.backends, bench);
        schedule.undo(graph);
        if scheduler.pipeline {
            // what a pipeline multiplies outlives only that
            for at in 0..graph.leafs.len() {
                let leaf = &mut graph.tensors[graph.leafs[at].index()];
                leaf.output &= !leaf.input;
            }
        }
        graph.truncate(tensors);
        bench.take_schedule(schedule);
        course
    }

    /// Whether every `op` is computed at its block's home, as it was settled last.
    pub fn stays_home(&mut self, op: Op, scheduler: &Scheduler<'_>, bench: &mut Workbench) -> bool {
        if !scheduler.can_do_all() {
            self.make_ready();
        }
        let Self { graph, operations, placement, .. } = self;
        if operations.as_ref().is_none_or(|(of, _)| *of != op) {
            let places = 0..graph.computed.len();
            *operations = Some((op, places.filter(|at| graph[graph.computed[*at]].op == op).collect()));
        }
        let home = |il: usize| placement.as_ref()?.layers.get(il);
        let mut all = None;
        let stays = operations.iter().flat_map(|(_, places)| places).all(|at| {
            let id = graph.computed[*at];
            let one = scheduler.assign_one(graph, *at);
            let place = one.unwrap_or_else(|| all.get_or_insert_with(|| scheduler.assign(graph, bench))[id.index()]);
            let block = usize::try_from(graph[id].layer).ok();
            block.and_then(home) == Some(&place)
        });
        if let Some(places) = all {
            bench.take_places(places);
        }
        stays
    }

    /// Lets all readers on a device read the first of the weights there.
    fn share(&mut self, mut moved: impl FnMut(Id)) {
        if self.shared.is_empty() {
            return;
        }
        let graph = &mut self.graph;
        for Shared { ids, readers, places } in &mut self.shared {
            places.resize(readers.len(), NOWHERE);
            let mut first = [Id::NONE; Place::MAX as usize + 1];
            let place = |graph: &Graph, id: Id| usize::from(graph[id].buffer.place().unwrap_or(NOWHERE));
            for &id in &*ids {
                let place = place(graph, id);
                graph[id].visited = !first[place].is_some();
                if graph[id].visited {
                    first[place] = id;
                }
            }
            for (&(reader, operand, which), before) in readers.iter().zip(places) {
                let place = place(graph, ids[which]);
                let source = first[place];
                let before = std::mem::replace(before, place as Place);
                if usize::from(before) != place || graph.slots(reader)[operand] != source {
                    graph.rewire(reader, operand, source);
                    moved(reader);
                }
            }
        }
        let Graph { leafs, tensors, .. } = graph;
        leafs.clear();
        leafs.extend(self.leafs.iter().filter(|id| tensors[id.index()].visited));
    }

    /// What is left of it: an empty graph that has room.
    pub fn into_room(self) -> Graph {
        let mut graph = self.graph;
        graph.clear();
        graph
    }

    /// Weights of which operations read one or another, depending on the placement.
    pub fn exchanged(&self) -> impl Iterator<Item = Exchanged<'_>> {
        self.shared.iter().map(|Shared { ids, readers, .. }| Exchanged { readers, ids })
    }
}

/// Those of a block, or those that have to do with none, of all in the order of their blocks.
fn of_block(homes: &[(Id, Home)], block: Option<usize>) -> &[(Id, Home)] {
    let from = homes.partition_point(|(_, home)| home.block() < block);
    let own = &homes[from..];
    &own[..own.partition_point(|(_, home)| home.block() == block)]
}

impl Shared {
    fn find_readers(&mut self, graph: &Graph) {
        let mut which = vec![usize::MAX; graph.tensors.len()];
        for (at, id) in self.ids.iter().enumerate() {
            which[id.index()] = at;
        }
        for &reader in &graph.nodes {
            for (operand, id) in graph.slots(reader).iter().enumerate() {
                let which = which.get(id.index()).copied().unwrap_or(usize::MAX);
                if which != usize::MAX {
                    self.readers.push((reader, operand, which));
                }
            }
        }
    }
}
