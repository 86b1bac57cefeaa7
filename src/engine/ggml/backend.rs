//! What a backend decides: the size of tensors, the operations it refuses, the order of its part of the graph and what
//! it keeps longer there.
//!
//! One file per family, each with the facts of a card as values.

pub mod cuda;
pub mod metal;
pub mod vulkan;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::Type;
use super::graph::Graph;
use super::tensor::{Buffer, Op, Tensor, TensorId, row};
pub use cuda::Cuda;
pub use metal::Metal;
pub use vulkan::Vulkan;

/// The type that stands for those of weights which no backend tells from one another, as long as they stay on their
/// device.
pub const fn alike(ty: Type) -> Type {
    match ty {
        Type::Q5K | Type::Q6K => Type::Q4K,
        Type::Q3K | Type::Iq1S | Type::Iq1M | Type::Iq2Xxs | Type::Iq2Xs | Type::Iq2S | Type::Iq3Xxs | Type::Iq3S => {
            Type::Q2K
        }
        _ => ty,
    }
}

/// A device as seen by the scheduler and the allocator (`ggml_backend_i`, `ggml_backend_device_i` and
/// `ggml_backend_buffer_type_i` in `ggml-backend-impl.h`, 0.1.161).
pub trait Backend: Debug + Send + Sync {
    /// Allocations start at multiples of this many bytes, a power of two (`get_alignment`).
    fn alignment(&self) -> u64;

    /// RAM as the device offers it in host buffers; none if these are as the CPU's own, or it offers none.
    fn host(&self) -> Option<Cpu> {
        None
    }

    /// Whether the device offers RAM in host buffers at all (`host_buffer_type`).
    fn has_host_buffers(&self) -> bool {
        true
    }

    /// Maximum size of one buffer; larger allocations are spread over several (`get_max_size`).
    fn max_buffer(&self) -> u64 {
        u64::MAX / 2
    }

    /// Minimum batch for running an operation whose weights are in RAM; none if it never does.
    fn offload_batch(&self) -> Option<u64> {
        Some(32)
    }

    /// Computes asynchronously and has events, both required for pipeline parallelism.
    fn pipelines(&self) -> bool {
        true
    }

    /// Bytes that a tensor takes behind its last row, which has so many elements.
    fn padding(&self, _ty: Type, _row: u64) -> u64 {
        0
    }

    /// Bytes that a tensor without operands takes, before alignment: a weight or a cache.
    fn bytes(&self, tensor: &Tensor) -> u64 {
        tensor.bytes() + self.padding(tensor.ty, tensor.ne[0])
    }

    /// Bytes that a result takes with what its operation needs besides, before alignment (`get_alloc_size`).
    fn allocation(&self, _graph: &Graph, tensor: &Tensor) -> u64 {
        self.bytes(tensor)
    }

    /// Whether the device can compute `tensor` (`supports_op`).
    fn supports(&self, _graph: &Graph, _tensor: &Tensor) -> bool {
        true
    }

    /// Whether the device computes `tensor` although its weights are in RAM (`offload_op`).
    fn offloads(&self, tensor: &Tensor) -> bool {
        self.offload_batch().is_some_and(|least| batch(tensor) >= least)
    }

    /// Reorders the nodes of one split and keeps tensors longer, before memory is allocated (`graph_optimize`).
    fn graph_optimize(&self, _split: &mut SplitGraph<'_>, _kept: &mut AllocDeps) {}

    /// `bytes` rounded up to the alignment.
    fn align(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.alignment())
    }
}

/// A backend, shared by all that measure with it.
pub type BackendRef = Arc<dyn Backend>;

/// The batch of an operation that may be offloaded (`get_op_batch_size` in `ggml-cuda.cu`, 0.1.161).
fn batch(tensor: &Tensor) -> u64 {
    match tensor.op {
        Op::GetRows => 0,
        Op::MulMat => tensor.ne[1],
        Op::MulMatId | Op::Rope | Op::RopeBack => tensor.ne[2],
        _ => tensor.rows(),
    }
}

/// Bytes that a quantised row lacks to a multiple of `multiple` elements.
fn to_multiple(ty: Type, elements: u64, multiple: u64) -> u64 {
    let rest = elements % multiple;
    if ty.block() > 1 && rest > 0 { row(ty, multiple - rest) } else { 0 }
}

/// The nodes of one split, with the graph they belong to.
#[derive(Debug)]
pub struct SplitGraph<'a> {
    /// The graph after it was cut: operands on other devices are already the copies.
    pub graph: &'a mut Graph,
    /// The split: indices into [`Graph::nodes`].
    pub range: Range<usize>,
    /// Operands that refer to each tensor, counted before the graph was cut (`ggml_node_get_use_count`).
    pub uses: &'a [u32],
    /// Room to number tensors in: all zero between two splits.
    pub numbers: &'a mut Vec<u32>,
}

impl SplitGraph<'_> {
    /// The tensor of node `at`, counted from the start of the split.
    pub fn node(&self, at: usize) -> TensorId {
        self.graph.nodes[self.range.start + at]
    }

    /// The same, if the graph has that node; it may be behind the end of the split.
    pub fn node_after(&self, at: usize) -> Option<TensorId> {
        self.graph.nodes.get(self.range.start + at).copied()
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether the split has no nodes.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The nodes, which may be reordered.
    pub fn nodes(&mut self) -> &mut [TensorId] {
        &mut self.graph.nodes[self.range.clone()]
    }

    /// Whether `nodes` (indices into the split) may be computed by one kernel that only writes `results`: nothing else
    /// reads the others, and what they view is among them (`ggml_can_fuse_subgraph_ext` in `ggml.c`, 0.1.161).
    pub fn fusible(&self, nodes: &[usize], results: &[usize]) -> bool {
        let graph = &*self.graph;
        nodes.iter().enumerate().all(|(index, at)| {
            if results.contains(at) {
                return true;
            }
            let id = self.node(*at);
            let readers = nodes[index + 1..].iter().flat_map(|later| graph.sources(&graph[self.node(*later)]));
            let tensor = &graph[id];
            let is_inside = |of: TensorId| nodes.iter().any(|at| self.node(*at) == of);
            !tensor.output
                && readers.filter(|source| *source == id).count() as u32 == self.uses(id)
                && tensor.view_of.get().is_none_or(|of| is_inside(of) || matches!(graph[of].buffer, Buffer::Weights(_)))
        })
    }

    /// How many operands refer to `id`.
    pub fn uses(&self, id: TensorId) -> u32 {
        self.uses.get(id.index()).copied().unwrap_or(0)
    }
}

/// Tensors that are kept longer than until their last reader (`add_alloc_dep` in `ggml-backend.cpp`, 0.1.161): for a
/// node, what is kept until then.
#[derive(Clone, Debug, Default)]
pub struct AllocDeps {
    /// What is kept, in lists.
    lists: Vec<Vec<TensorId>>,
    /// For every tensor, one more than the index of its list; 0 for none.
    list_of: Vec<u32>,
}

impl AllocDeps {
    /// Keeps `tensor` until `until` was computed.
    pub fn add(&mut self, tensor: TensorId, until: TensorId) {
        if self.list_of.len() <= until.index() {
            self.list_of.resize(until.index() + 1, 0);
        }
        let list = &mut self.list_of[until.index()];
        if *list == 0 {
            self.lists.push(Vec::new());
            *list = self.lists.len() as u32;
        }
        let kept = &mut self.lists[*list as usize - 1];
        if !kept.contains(&tensor) {
            kept.push(tensor);
        }
    }

    /// What is kept until `node` was computed.
    pub fn until(&self, node: TensorId) -> &[TensorId] {
        match self.list_of.get(node.index()) {
            None | Some(0) => &[],
            Some(list) => &self.lists[*list as usize - 1],
        }
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }
}

// Main memory and the CPU.

/// Main memory and the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// That of the buffers used: the host buffers of the first GPU that has some, else the CPU's own.
    pub alignment: u64,
    /// Maximum size of one of these buffers.
    pub max_buffer: u64,
}

impl Default for Cpu {
    /// `TENSOR_ALIGNMENT` in `ggml-impl.h`, 0.1.161.
    fn default() -> Self {
        Self { alignment: 32, max_buffer: u64::MAX / 2 }
    }
}

impl Backend for Cpu {
    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn has_host_buffers(&self) -> bool {
        false
    }

    fn max_buffer(&self) -> u64 {
        self.max_buffer
    }

    fn offload_batch(&self) -> Option<u64> {
        None
    }

    fn pipelines(&self) -> bool {
        false
    }
}

// The simulated card: every operation, no room besides results, the graph as it is. For tests and comparisons.

/// A card that supports everything; alignment and padding are those of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain;

impl Backend for Plain {
    fn alignment(&self) -> u64 {
        128
    }

    fn padding(&self, ty: Type, row: u64) -> u64 {
        to_multiple(ty, row, 512)
    }
}

// A device in another computer, served by llama.cpp's `rpc-server` (`ggml-rpc.cpp`, 0.1.161).

/// Alignment, maximum buffer and sizes are asked of the device; it is asynchronous and has events, never runs an
/// operation whose weights are in RAM, and is sent the graph in the order of the scheduler.
#[derive(Clone, Debug)]
pub struct Remote(pub BackendRef);

impl Backend for Remote {
    fn alignment(&self) -> u64 {
        self.0.alignment()
    }

    fn has_host_buffers(&self) -> bool {
        false
    }

    fn max_buffer(&self) -> u64 {
        self.0.max_buffer()
    }

    fn offload_batch(&self) -> Option<u64> {
        None
    }

    fn padding(&self, ty: Type, row: u64) -> u64 {
        self.0.padding(ty, row)
    }

    fn allocation(&self, graph: &Graph, tensor: &Tensor) -> u64 {
        self.0.allocation(graph, tensor)
    }
}

// SYCL (`ggml-sycl.cpp`, 0.1.161). Temporary buffers of attention are not counted.

/// An Intel GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sycl;

impl Backend for Sycl {
    fn alignment(&self) -> u64 {
        128
    }

    fn padding(&self, ty: Type, row: u64) -> u64 {
        to_multiple(ty, row, 512)
    }
}

// A device that lacks an operation, to show what that changes.

/// The same device without one operation; never one that writes to a cache, since caches do not move.
#[derive(Clone, Debug)]
pub struct Without {
    /// The device.
    pub backend: BackendRef,
    /// The operation.
    pub op: Op,
}

impl Backend for Without {
    fn alignment(&self) -> u64 {
        self.backend.alignment()
    }

    fn host(&self) -> Option<Cpu> {
        self.backend.host()
    }

    fn has_host_buffers(&self) -> bool {
        self.backend.has_host_buffers()
    }

    fn max_buffer(&self) -> u64 {
        self.backend.max_buffer()
    }

    fn offload_batch(&self) -> Option<u64> {
        self.backend.offload_batch()
    }

    fn pipelines(&self) -> bool {
        self.backend.pipelines()
    }

    fn padding(&self, ty: Type, row: u64) -> u64 {
        self.backend.padding(ty, row)
    }

    fn allocation(&self, graph: &Graph, tensor: &Tensor) -> u64 {
        self.backend.allocation(graph, tensor)
    }

    fn supports(&self, graph: &Graph, tensor: &Tensor) -> bool {
        tensor.op != self.op && self.backend.supports(graph, tensor)
    }

    fn offloads(&self, tensor: &Tensor) -> bool {
        self.backend.offloads(tensor)
    }

    fn graph_optimize(&self, split: &mut SplitGraph<'_>, kept: &mut AllocDeps) {
        self.backend.graph_optimize(split, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn types_that_are_alike_are_not_told_apart() {
        let backends: [&dyn Backend; 7] = [
            &Cuda::default(),
            &Cuda { rules: cuda::CudaRules::MAY_2026, ..Cuda::default() },
            &Vulkan::default(),
            &Metal::default(),
            &Sycl,
            &Plain,
            &Cpu::default(),
        ];
        let answers = |backend: &dyn Backend, ty: Type| {
            let mut graph = Graph::default();
            let matrix = graph.given(ty, [1024, 512, 1, 1], Buffer::Weights(0), "", 0);
            let experts = graph.given(ty, [1024, 512, 8, 1], Buffer::Weights(0), "", 0);
            let x = graph.input(Type::F32, [1024, 64, 1, 1], "");
            let rows = graph.input(Type::I32, [64, 1, 1, 1], "");
            let of_experts = graph.input(Type::F32, [1024, 1, 64, 1], "");
            let chosen = graph.input(Type::I32, [2, 64, 1, 1], "");
            let product = graph.mul_mat(matrix, x);
            let of_chosen = graph.mul_mat_id(experts, of_experts, chosen);
            let looked_up = graph.get_rows(matrix, rows);
            [product, of_chosen, looked_up].map(|id| {
                let tensor = &graph[id];
                let answers = (backend.supports(&graph, tensor), backend.offloads(tensor));
                (answers, backend.allocation(&graph, tensor), backend.padding(ty, 1024) > 0)
            })
        };
        let others = Type::ALL.iter().copied().filter(|ty| alike(*ty) != *ty);
        let mut compared = 0;
        for ty in others {
            for backend in backends {
                assert_eq!(answers(backend, ty), answers(backend, alike(ty)), "{backend:?} {ty:?}");
                compared += 1;
            }
        }
        assert_eq!(compared, 10 * backends.len());
    }

    fn offloads(backend: &dyn Backend, op: Op) -> bool {
        backend.offloads(&Tensor { op, ..Tensor::new(Type::F32, [64, 32, 32, 1]) })
    }

    #[rstest]
    #[case(Arc::new(Plain), 828, true, true)]
    #[case(Arc::new(Cuda::default()), 828, true, true)]
    #[case(Arc::new(Sycl), 828, true, true)]
    #[case(Arc::new(Vulkan::default()), 720, true, true)]
    #[case(Arc::new(Metal::default()), 720, false, true)]
    #[case(Arc::new(Cpu::default()), 720, false, false)]
    fn padding_and_offloaded_operations_depend_on_the_backend(
        #[case] backend: BackendRef,
        #[case] bytes: u64,
        #[case] takes_sums: bool,
        #[case] takes_products: bool,
    ) {
        assert_eq!(backend.bytes(&Tensor::new(Type::Q4_0, [320, 4, 1, 1])), bytes);
        assert_eq!(offloads(&*backend, Op::Add), takes_sums);
        assert_eq!(offloads(&*backend, Op::MulMat), takes_products);
        assert!(backend.alignment().is_power_of_two());
    }
}
