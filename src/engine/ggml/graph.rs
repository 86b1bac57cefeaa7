//! A graph under construction: an arena of tensors, their order of computation, and the operations that add to it.

mod encoders;
mod operations;

use super::Type;
use super::tensor::{Buffer, Op, Operands, Tensor, TensorId};

/// Tensors and their order of computation.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// All tensors, including those not part of any computation.
    pub tensors: Vec<Tensor>,
    /// The operands of all operations, one after the other; [`TensorId::NONE`] for an omitted operand. Apart from the
    /// tensors to stay small: the passes walk through thousands of them.
    pub operands: Vec<TensorId>,
    /// Operations in order of computation.
    pub nodes: Vec<TensorId>,
    /// The same without views.
    pub computed: Vec<TensorId>,
    /// Weights, caches and inputs, in order of first use.
    pub leafs: Vec<TensorId>,
}

impl std::ops::Index<TensorId> for Graph {
    type Output = Tensor;
    #[inline]
    fn index(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }
}

impl std::ops::IndexMut<TensorId> for Graph {
    #[inline]
    fn index_mut(&mut self, id: TensorId) -> &mut Tensor {
        &mut self.tensors[id.index()]
    }
}

impl Graph {
    /// Reserves capacity for this many tensors.
    pub fn reserve(&mut self, tensors: usize) {
        self.tensors.reserve(tensors);
        self.operands.reserve(2 * tensors);
        self.nodes.reserve(tensors);
        self.computed.reserve(tensors);
        self.leafs.reserve(tensors / 2);
    }

    /// Removes all tensors, keeping the capacity.
    pub fn clear(&mut self) {
        self.tensors.clear();
        self.operands.clear();
        self.nodes.clear();
        self.computed.clear();
        self.leafs.clear();
    }

    /// The operands of a tensor.
    #[inline]
    pub fn sources(&self, tensor: &Tensor) -> impl Iterator<Item = TensorId> + '_ {
        self.operands[tensor.src.range()].iter().copied().filter(|id| id.is_some())
    }

    /// The operands, including omitted ones.
    #[inline]
    pub fn slots(&self, id: TensorId) -> &[TensorId] {
        &self.operands[self[id].src.range()]
    }

    /// Operand `at` of `tensor`.
    #[inline]
    pub fn operand(&self, tensor: &Tensor, at: usize) -> Option<TensorId> {
        self.operands[tensor.src.range()].get(at).copied().filter(|id| id.is_some())
    }

    /// How many operands of nodes refer to each tensor (`ggml_node_get_use_count`, 0.1.161).
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.tensors.len()];
        for id in &self.nodes {
            self.sources(&self[*id]).for_each(|source| uses[source.index()] += 1);
        }
        uses
    }

    /// Adds a tensor to the arena.
    #[inline]
    pub fn add_tensor(&mut self, tensor: Tensor) -> TensorId {
        let id = TensorId(self.tensors.len() as u32);
        self.tensors.push(tensor);
        id
    }

    /// Adds a weight or a cache, which is already allocated.
    pub fn given(&mut self, ty: Type, ne: [u64; 4], buffer: Buffer, label: &'static str, layer: i16) -> TensorId {
        self.add_tensor(Tensor { buffer, label, layer, ..Tensor::new(ty, ne) })
    }

    /// Adds an input.
    pub fn input(&mut self, ty: Type, ne: [u64; 4], label: &'static str) -> TensorId {
        self.add_tensor(Tensor { input: true, label, ..Tensor::new(ty, ne) })
    }

    /// Adds the result of `op`, to be allocated.
    pub fn compute<const N: usize>(&mut self, op: Op, ty: Type, ne: [u64; 4], src: [TensorId; N]) -> TensorId {
        let src = self.add_operands(src);
        self.add_tensor(Tensor { src, op, ..Tensor::new(ty, ne) })
    }

    /// Adds the result of `op` as a view of `of`.
    pub fn compute_view<const N: usize>(
        &mut self,
        op: Op,
        of: TensorId,
        ne: [u64; 4],
        nb: [u64; 4],
        src: [TensorId; N],
    ) -> TensorId {
        let Tensor { ty, layer, view_of, .. } = self[of];
        // a view of a view refers to the viewed tensor
        let view_of = view_of.get().unwrap_or(of);
        let src = self.add_operands(src);
        self.add_tensor(Tensor { nb, src, view_of, op, layer, ..Tensor::new(ty, ne) })
    }

    /// Adds a no-op that reads `operands`, at most as many as an operation may have, and so keeps them allocated.
    pub fn keep(&mut self, operands: &[TensorId]) -> TensorId {
        let src = Operands { first: self.operands.len() as u32, count: operands.len() as u8 };
        self.operands.extend(operands);
        let view_of = operands.first().copied().unwrap_or(TensorId::NONE);
        self.add_tensor(Tensor { src, view_of, ..Tensor::new(Type::F32, [1; 4]) })
    }

    #[inline]
    fn add_operands<const N: usize>(&mut self, src: [TensorId; N]) -> Operands {
        const { assert!(N <= u8::MAX as usize, "no operation reads so much") };
        let first = self.operands.len() as u32;
        self.operands.extend(src);
        Operands { first, count: N as u8 }
    }

    /// Marks a tensor as read from outside, and those whose bytes it views (`ggml_set_output`, 0.1.161).
    pub fn set_output(&mut self, id: TensorId) {
        self[id].output = true;
        if let Some(of) = self[id].view_of.get() {
            self[of].output = true;
        }
    }

    /// Sets a tensor's label and layer.
    pub fn name(&mut self, id: TensorId, label: &'static str, layer: i16) -> TensorId {
        let tensor = &mut self[id];
        (tensor.label, tensor.layer) = (label, layer);
        id
    }

    /// Adds `id` and the operands not yet in the graph, depth first from left to right (`ggml_build_forward_expand`).
    pub fn expand(&mut self, id: TensorId) {
        if !self[id].visited {
            self.visit(id);
        }
    }

    fn visit(&mut self, id: TensorId) {
        let tensor = &mut self[id];
        tensor.visited = true;
        if tensor.op == Op::None && tensor.src.count == 0 {
            self.leafs.push(id);
            return;
        }
        let (op, operands) = (tensor.op, tensor.src);
        for at in operands.range() {
            let source = self.operands[at];
            if source.is_some() && !self[source].visited {
                self.visit(source);
            }
        }
        if op == Op::None {
            self.leafs.push(id);
            return;
        }
        self.nodes.push(id);
        if !op.is_view() {
            self.computed.push(id);
        }
    }
}

/// Whether `tensor` is dense, with dimensions in order.
pub fn is_contiguous(tensor: &Tensor) -> bool {
    is_contiguous_beyond(tensor, 0)
}

/// Whether all dimensions but those from the second to `gaps` follow without gaps.
fn is_contiguous_beyond(tensor: &Tensor, gaps: usize) -> bool {
    let mut next = tensor.ty.block_bytes();
    if tensor.ne[0] != tensor.ty.block() && tensor.nb[0] != next {
        return false;
    }
    next *= tensor.ne[0] / tensor.ty.block();
    for i in 1..4 {
        if i <= gaps {
            next = tensor.ne[i] * tensor.nb[i];
        } else if tensor.ne[i] != 1 && tensor.nb[i] != next {
            return false;
        } else {
            next *= tensor.ne[i];
        }
    }
    true
}

/// How a kernel moves over its input, the same in all its dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Elements from one position to the next.
    pub stride: u64,
    /// Elements added on both sides.
    pub padding: u64,
}

impl Steps {
    /// Positions of a kernel of `kernel` elements over `input` elements (`ggml_calc_conv_output_size`); none if it is
    /// larger than the input.
    pub const fn positions(self, input: u64, kernel: u64) -> u64 {
        let padded = input + 2 * self.padding;
        if padded < kernel || kernel == 0 || self.stride == 0 { 0 } else { (padded - kernel) / self.stride + 1 }
    }
}
