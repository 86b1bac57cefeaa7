//! Computes how many bytes each device must reserve: walks through a schedule, allocates every result and frees it
//! after its last reader (`ggml_gallocr`, 0.1.161).
#![allow(clippy::cast_possible_wrap, reason = "as in ggml, where the difference of sizes wraps")]

use super::backend::BackendRef;
use super::graph::Graph;
use super::schedule::Schedule;
use super::tensor::{BackendId, Op, TensorId};

/// The span of steps during which a tensor occupies its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The tensor.
    pub id: TensorId,
    /// The device.
    pub place: BackendId,
    /// The device's chunk (buffer), if its memory is spread over several.
    pub chunk: usize,
    /// Offset in the chunk.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
    /// First step (index into [`Schedule::nodes`]); also 0 for what is allocated before the first step.
    pub from: usize,
    /// Last step, or the step in which another tensor reuses the bytes in place; the number of steps for what is never
    /// freed.
    pub until: usize,
    /// The operand whose bytes are reused in place; none for a new allocation.
    pub takes_over: TensorId,
}

/// A tensor's allocation and its remaining readers.
#[derive(Clone, Copy, Default)]
struct Allocation {
    readers: u32,
    views: u32,
    place: BackendId,
    held: bool,
    address: Address,
    /// Allocated size.
    bytes: u64,
    /// The step in which it was allocated.
    from: usize,
    /// Index into the lifetimes, if these are recorded.
    life: usize,
}

struct Allocator<'a> {
    graph: &'a Graph,
    backends: &'a [BackendRef],
    blocks: Vec<DynAlloc>,
    allocations: Vec<Allocation>,
    lifetimes: Option<&'a mut Vec<Lifetime>>,
    /// What is held, where its states are asked for.
    held: Option<Vec<TensorId>>,
    step: usize,
}

/// Memory of one kind on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes of the largest tensor in it, which stays whole where the memory is divided into several buffers.
    pub tensor: u64,
}

impl Piece {
    /// With one more tensor of `bytes`.
    pub fn add(&mut self, bytes: u64) {
        *self = Self { bytes: self.bytes + bytes, tensor: self.tensor.max(bytes) };
    }
}

/// What is free and what is held before a step: equal to another such state if the same operations would do the same to both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorState {
    /// Per device, its chunks.
    chunks: Vec<Vec<Chunk>>,
    held: Vec<Held>,
}

/// A tensor that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    /// It was allocated since the state before.
    is_new: bool,
    /// Its age in steps if it is new, else the step in which it was allocated.
    from: usize,
    place: BackendId,
    chunk: usize,
    offset: u64,
    bytes: u64,
}

/// What each device must reserve for `schedule`. `lifetimes` receives every allocation's lifetime.
pub fn reserve(
    graph: &Graph,
    schedule: &Schedule,
    backends: &[BackendRef],
    lifetimes: Option<&mut Vec<Lifetime>>,
) -> Vec<Piece> {
    reserve_seen(graph, schedule, backends, lifetimes, &[]).0
}

/// The same, with the states before these steps, which ascend.
pub fn reserve_seen(
    graph: &Graph,
    schedule: &Schedule,
    backends: &[BackendRef],
    lifetimes: Option<&mut Vec<Lifetime>>,
    seen: &[usize],
) -> (Vec<Piece>, Vec<AllocatorState>) {
    let mut allocator = Allocator {
        graph,
        backends,
        blocks: backends.iter().map(|backend| DynAlloc::new(backend.alignment(), backend.max_buffer())).collect(),
        allocations: vec![Allocation::default(); graph.tensors.len()],
        lifetimes,
        held: (!seen.is_empty()).then(Vec::new),
        step: 0,
    };
    let states = allocator.walk(schedule, seen);
    (allocator.blocks.iter().map(DynAlloc::reserved).collect(), states)
}

impl Allocator<'_> {
    /// The states before the steps `seen`.
    fn walk(&mut self, schedule: &Schedule, seen: &[usize]) -> Vec<AllocatorState> {
        let graph = self.graph;
        for &(leaf, place) in &schedule.leafs {
            self.allocate(leaf, place);
        }
        for &(id, place) in &schedule.nodes {
            let node = &graph[id];
            // the no-op before a copy keeps its original alive, but is no view of it
            if node.view_of.is_some() && node.op != Op::None {
                self.allocations[node.view_of.index()].views += 1;
            }
            if node.input {
                self.allocate(id, place);
            }
            for source in graph.sources(node) {
                self.allocations[source.index()].readers += 1;
                if graph[source].input {
                    self.allocate(source, place);
                }
            }
        }
        let (mut states, mut seen, mut before) = (Vec::with_capacity(seen.len()), seen.iter().peekable(), usize::MAX);
        for (step, &(id, place)) in schedule.nodes.iter().enumerate() {
            self.step = step;
            if seen.next_if(|at| **at == step).is_some() {
                states.push(self.state(before));
                before = step;
            }
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
        states
    }

    /// The state before this step; what was allocated from the step `since` on is new.
    fn state(&self, since: usize) -> AllocatorState {
        let held = self.held.iter().flatten().map(|id| {
            let Allocation { from, place, address: Address { chunk, offset }, bytes, .. } =
                self.allocations[id.index()];
            let is_new = from >= since;
            Held { is_new, from: if is_new { self.step - from } else { from }, place, chunk, offset, bytes }
        });
        let mut held: Vec<Held> = held.collect();
        held.sort_unstable();
        AllocatorState { chunks: self.blocks.iter().map(|block| block.chunks.clone()).collect(), held }
    }

    /// Allocates `id` unless it is allocated or a view: in place of an operand if possible.
    fn allocate(&mut self, id: TensorId, place: BackendId) {
        if self.allocations[id.index()].held {
            return;
        }
        let graph = self.graph;
        let tensor = &graph[id];
        if tensor.view_of.is_some() || tensor.buffer.place().is_some() {
            return;
        }
        self.allocations[id.index()].held = true;
        if tensor.op.can_be_in_place()
            && let Some(parent) = graph.sources(tensor).find(|source| self.can_reuse(id, *source))
        {
            self.reuse(id, parent);
            return;
        }
        let bytes = self.backends[usize::from(place)].allocation(graph, tensor);
        let address = self.blocks[usize::from(place)].allocate(bytes);
        self.record(id, place, address, bytes, TensorId::NONE);
    }

    /// Whether `id` is the last reader of `parent` and has the same layout. (Views are never allocated, so they never
    /// qualify.)
    fn can_reuse(&self, id: TensorId, parent: TensorId) -> bool {
        let allocation = &self.allocations[parent.index()];
        let tensor = &self.graph[parent];
        allocation.held
            && !tensor.output
            && allocation.readers == 1
            && allocation.views == 0
            && self.graph[id].same_layout(tensor)
    }

    fn reuse(&mut self, id: TensorId, parent: TensorId) {
        let Allocation { place, address, bytes: taken, .. } = self.allocations[parent.index()];
        self.release(parent);
        let backend = &self.backends[usize::from(place)];
        let bytes = backend.allocation(self.graph, &self.graph[id]);
        // what the operand needed besides its result is free again
        let (kept, taken) = (backend.align(bytes), backend.align(taken));
        if taken > kept {
            let rest = Address { offset: address.offset + kept, ..address };
            self.blocks[usize::from(place)].free(rest, taken - kept);
        }
        self.record(id, place, address, bytes, parent);
    }

    /// Removes one reader, and frees the bytes after the last.
    fn read(&mut self, id: TensorId) {
        let allocation = &mut self.allocations[id.index()];
        allocation.readers -= 1;
        if allocation.readers > 0 || allocation.views > 0 {
            return;
        }
        let mut owner = id;
        if let Some(below) = self.graph[id].view_of.get() {
            owner = below;
            let below = &mut self.allocations[below.index()];
            below.views = below.views.saturating_sub(1);
            if below.views > 0 || below.readers > 0 {
                return;
            }
        }
        let Allocation { held, place, address, bytes, .. } = self.allocations[owner.index()];
        if held && !self.graph[owner].output {
            self.blocks[usize::from(place)].free(address, bytes);
            self.release(owner);
        }
    }

    fn record(&mut self, id: TensorId, place: BackendId, address: Address, bytes: u64, takes_over: TensorId) {
        let allocation = &mut self.allocations[id.index()];
        *allocation = Allocation { place, address, bytes, from: self.step, ..*allocation };
        if let Some(held) = &mut self.held {
            held.push(id);
        }
        if let Some(lifetimes) = &mut self.lifetimes {
            allocation.life = lifetimes.len();
            lifetimes.push(Lifetime {
                id,
                place,
                chunk: address.chunk,
                offset: address.offset,
                bytes,
                from: self.step,
                until: usize::MAX,
                takes_over,
            });
        }
    }

    fn release(&mut self, id: TensorId) {
        let allocation = &mut self.allocations[id.index()];
        allocation.held = false;
        if let Some(held) = &mut self.held
            && let Some(at) = held.iter().rposition(|held| *held == id)
        {
            held.swap_remove(at);
        }
        if let Some(lifetimes) = &mut self.lifetimes {
            lifetimes[allocation.life].until = self.step;
        }
    }
}

// The dynamic allocator of one device: best fit, adjacent free blocks merge, the last block grows.

/// Maximum number of chunks of one device (`GGML_VBUFFER_MAX_CHUNKS`, 0.1.161).
const MAX_CHUNKS: usize = 16;

/// A position in a device's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Address {
    pub chunk: usize,
    pub offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FreeBlock {
    offset: u64,
    size: u64,
}

/// One buffer: its free blocks by offset, and its highest used offset.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chunk {
    free: Vec<FreeBlock>,
    used: u64,
}

/// The buffers of one device.
struct DynAlloc {
    alignment: u64,
    max_buffer: u64,
    chunks: Vec<Chunk>,
    /// The largest allocation.
    largest: u64,
}

impl DynAlloc {
    pub fn new(alignment: u64, max_buffer: u64) -> Self {
        Self { alignment, max_buffer: max_buffer.min(u64::MAX / 2), chunks: Vec::new(), largest: 0 }
    }

    /// Total size of all buffers, and the largest tensor in them.
    pub fn reserved(&self) -> Piece {
        Piece { bytes: self.chunks.iter().map(|chunk| chunk.used).sum(), tensor: self.largest }
    }

    /// Takes `bytes` from the smallest free block that is large enough; from a chunk's last (growing) block only if no
    /// other fits.
    pub fn allocate(&mut self, bytes: u64) -> Address {
        let size = bytes.next_multiple_of(self.alignment);
        self.largest = self.largest.max(size);
        let (at, block) =
            self.inner_block(size).or_else(|| self.last_block(size)).unwrap_or_else(|| self.new_chunk(size));
        let chunk = &mut self.chunks[at];
        let address = Address { chunk: at, offset: chunk.free[block].offset };
        chunk.free[block].offset += size;
        chunk.free[block].size -= size;
        if chunk.free[block].size == 0 {
            chunk.free.remove(block);
        }
        chunk.used = chunk.used.max(address.offset + size);
        address
    }

    /// The smallest fitting block, last blocks excluded; the later of equals, and the last chunk that has one.
    fn inner_block(&self, size: u64) -> Option<(usize, usize)> {
        self.chunks.iter().enumerate().rev().find_map(|(at, chunk)| {
            let inner = chunk.free.len().saturating_sub(1);
            let fitting = chunk.free[..inner].iter().enumerate().filter(|(_, block)| block.size >= size);
            fitting.rev().min_by_key(|(_, block)| block.size).map(|(block, _)| (at, block))
        })
    }

    /// The last block of the chunk that wastes least or grows least.
    fn last_block(&self, size: u64) -> Option<(usize, usize)> {
        let mut best = None;
        let mut best_reuse = i64::MIN;
        for (at, chunk) in self.chunks.iter().enumerate() {
            let Some(block) = chunk.free.last() else { continue };
            let reuse = (chunk.used as i64).wrapping_sub(block.offset as i64).wrapping_sub(size as i64);
            let better = (best_reuse < 0 && reuse > best_reuse) || (reuse >= 0 && reuse < best_reuse);
            if block.size >= size && better {
                best = Some((at, chunk.free.len() - 1));
                best_reuse = reuse;
            }
        }
        best
    }

    /// A further chunk; the last one allowed is unlimited.
    fn new_chunk(&mut self, size: u64) -> (usize, usize) {
        let size = if self.chunks.len() + 1 >= MAX_CHUNKS { u64::MAX / 2 } else { size.max(self.max_buffer) };
        self.chunks.push(Chunk { free: vec![FreeBlock { offset: 0, size }], used: 0 });
        (self.chunks.len() - 1, 0)
    }

    /// Frees `bytes`: merges them into the first adjacent block, which may then merge with its neighbour. (Empty
    /// tensors leave empty blocks behind, so the order of these tests matters.)
    pub fn free(&mut self, address: Address, bytes: u64) {
        let size = bytes.next_multiple_of(self.alignment);
        let (start, end) = (address.offset, address.offset + size);
        let free = &mut self.chunks[address.chunk].free;
        let touching = free.iter().position(|block| block.offset + block.size == start || block.offset == end);
        let Some(at) = touching else {
            // no binary search: a block may have grown past an empty one, so the list is not always sorted
            let at = free.iter().position(|block| block.offset >= start).unwrap_or(free.len());
            free.insert(at, FreeBlock { offset: start, size });
            return;
        };
        let before = free[at].offset + free[at].size == start;
        free[at].size += size;
        if !before {
            free[at].offset = start;
        }
        let left = if before { at } else { at.wrapping_sub(1) };
        let joined = free.get(left).zip(free.get(left.wrapping_add(1))).filter(|(a, b)| a.offset + a.size == b.offset);
        if let Some((_, right)) = joined {
            free[left].size += right.size;
            free.remove(left + 1);
        }
    }
}
