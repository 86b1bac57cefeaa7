//! Finds out how many bytes each device must reserve: walks through a schedule, gives every result a place, takes it
//! back after its last reader (`ggml_gallocr`, 0.1.161).

mod dyn_alloc;

use super::backend::BackendProps;
use super::graph::Graph;
use super::schedule::Schedule;
use super::tensor::{BackendId, Op, TensorId};
use dyn_alloc::{Address, DynAlloc};

/// How long a tensor holds its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The tensor.
    pub id: TensorId,
    /// The device.
    pub place: BackendId,
    /// Which of the device's buffers, where its needs are spread over several.
    pub chunk: usize,
    /// Where in it the tensor begins.
    pub offset: u64,
    /// How much it takes.
    pub bytes: u64,
    /// The moment (index into [`Schedule::nodes`]) from which it is alive; 0 also for what is there before the first.
    pub from: usize,
    /// The moment after which it is gone, or in which another takes its bytes over; the number of moments for what
    /// stays.
    pub until: usize,
    /// The operand whose bytes it took over, in place; none for bytes of its own.
    pub takes_over: TensorId,
}

/// Who holds a tensor's bytes, and who still needs them.
#[derive(Clone, Copy, Default)]
struct Allocation {
    readers: u32,
    views: u32,
    place: BackendId,
    held: bool,
    address: Address,
    /// What was taken there.
    bytes: u64,
    /// Its place among the lifetimes, where these are noted.
    life: usize,
}

struct Allocator<'a> {
    graph: &'a Graph,
    backends: &'a [BackendProps],
    blocks: Vec<DynAlloc>,
    holdings: Vec<Allocation>,
    lifetimes: Option<&'a mut Vec<Lifetime>>,
    moment: usize,
}

/// Bytes that each device must reserve for `schedule`. `lifetimes` receives what is alive when.
pub fn reserve(
    graph: &Graph,
    schedule: &Schedule,
    backends: &[BackendProps],
    lifetimes: Option<&mut Vec<Lifetime>>,
) -> Vec<u64> {
    let mut allocator = Allocator {
        graph,
        backends,
        blocks: backends.iter().map(|backend| DynAlloc::new(backend.alignment, backend.max_buffer)).collect(),
        holdings: vec![Allocation::default(); graph.tensors.len()],
        lifetimes,
        moment: 0,
    };
    allocator.walk(schedule);
    allocator.blocks.iter().map(DynAlloc::reserved).collect()
}

impl Allocator<'_> {
    fn walk(&mut self, schedule: &Schedule) {
        let graph = self.graph;
        for &(leaf, place) in &schedule.leafs {
            self.allocate(leaf, place);
        }
        for &(id, place) in &schedule.nodes {
            let node = &graph[id];
            // a reader that only keeps a copied tensor alive is no view of it
            if node.view_of.is_some() && node.op != Op::None {
                self.holdings[node.view_of.index()].views += 1;
            }
            if node.input {
                self.allocate(id, place);
            }
            for source in graph.sources(node) {
                self.holdings[source.index()].readers += 1;
                if graph[source].input {
                    self.allocate(source, place);
                }
            }
        }
        for (moment, &(id, place)) in schedule.nodes.iter().enumerate() {
            self.moment = moment;
            let node = &graph[id];
            for source in graph.sources(node) {
                self.allocate(source, place);
            }
            self.allocate(id, place);
            for source in graph.sources(node) {
                self.read(source);
            }
        }
        if let Some(lifetimes) = &mut self.lifetimes {
            for life in lifetimes.iter_mut().filter(|life| life.until == usize::MAX) {
                life.until = schedule.nodes.len();
            }
        }
    }

    /// Gives `id` its bytes, if it has none and is no view: an operand's where possible, else new ones.
    fn allocate(&mut self, id: TensorId, place: BackendId) {
        if self.holdings[id.index()].held {
            return;
        }
        let graph = self.graph;
        let tensor = &graph[id];
        if tensor.view_of.is_some() || tensor.buffer.place().is_some() {
            return;
        }
        self.holdings[id.index()].held = true;
        if tensor.op.can_be_in_place()
            && let Some(parent) = graph.sources(tensor).find(|source| self.can_take_over(id, *source))
        {
            self.take_over(id, parent);
            return;
        }
        let bytes = self.backends[usize::from(place)].allocation(tensor);
        let address = self.blocks[usize::from(place)].allocate(bytes);
        self.hold(id, place, address, bytes, TensorId::NONE);
    }

    /// Whether `id` is the last to need `parent`, whose layout is the same. (Views hold nothing, so they never qualify.)
    fn can_take_over(&self, id: TensorId, parent: TensorId) -> bool {
        let holding = &self.holdings[parent.index()];
        let tensor = &self.graph[parent];
        holding.held
            && !tensor.output
            && holding.readers == 1
            && holding.views == 0
            && self.graph[id].same_layout(tensor)
    }

    fn take_over(&mut self, id: TensorId, parent: TensorId) {
        let Allocation { place, address, .. } = self.holdings[parent.index()];
        self.forget(parent);
        let bytes = self.backends[usize::from(place)].allocation(&self.graph[id]);
        self.hold(id, place, address, bytes, parent);
    }

    /// One reader less; whoever is not needed any more gives its bytes back.
    fn read(&mut self, id: TensorId) {
        let holding = &mut self.holdings[id.index()];
        holding.readers -= 1;
        if holding.readers > 0 || holding.views > 0 {
            return;
        }
        let mut owner = id;
        if let Some(below) = self.graph[id].view_of.get() {
            owner = below;
            let below = &mut self.holdings[below.index()];
            below.views = below.views.saturating_sub(1);
            if below.views > 0 || below.readers > 0 {
                return;
            }
        }
        let Allocation { held, place, address, bytes, .. } = self.holdings[owner.index()];
        if held && !self.graph[owner].output {
            self.blocks[usize::from(place)].free(address, bytes);
            self.forget(owner);
        }
    }

    fn hold(&mut self, id: TensorId, place: BackendId, address: Address, bytes: u64, takes_over: TensorId) {
        let holding = &mut self.holdings[id.index()];
        (holding.place, holding.address, holding.bytes) = (place, address, bytes);
        if let Some(lifetimes) = &mut self.lifetimes {
            holding.life = lifetimes.len();
            lifetimes.push(Lifetime {
                id,
                place,
                chunk: address.chunk,
                offset: address.offset,
                bytes,
                from: self.moment,
                until: usize::MAX,
                takes_over,
            });
        }
    }

    fn forget(&mut self, id: TensorId) {
        let holding = &mut self.holdings[id.index()];
        holding.held = false;
        if let Some(lifetimes) = &mut self.lifetimes {
            lifetimes[holding.life].until = self.moment;
        }
    }
}
