//! A graph under construction: an arena of tensors, and the order in which they are computed.

use super::Type;
use super::tensor::{Buffer, Op, Operands, Tensor, TensorId};

/// Tensors and the order of their computation.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Every tensor, also those that no computation reaches.
    pub tensors: Vec<Tensor>,
    /// What operations read, one after the other; [`TensorId::NONE`] where an operand is left out. Apart from the tensors, for
    /// whoever walks through thousands of them needs little else.
    pub operands: Vec<TensorId>,
    /// What is computed, in order.
    pub nodes: Vec<TensorId>,
    /// The same without views, which follow their bytes.
    pub computed: Vec<TensorId>,
    /// What is given: weights, caches, inputs; in the order in which computations first need them.
    pub leafs: Vec<TensorId>,
}

impl std::ops::Index<TensorId> for Graph {
    type Output = Tensor;
    fn index(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }
}

impl std::ops::IndexMut<TensorId> for Graph {
    fn index_mut(&mut self, id: TensorId) -> &mut Tensor {
        &mut self.tensors[id.index()]
    }
}

impl Graph {
    /// Makes room for so many tensors.
    pub fn reserve(&mut self, tensors: usize) {
        self.tensors.reserve(tensors);
        self.operands.reserve(2 * tensors);
        self.nodes.reserve(tensors);
        self.computed.reserve(tensors);
        self.leafs.reserve(tensors / 2);
    }

    /// Forgets all tensors, and keeps the room that they had.
    pub fn clear(&mut self) {
        self.tensors.clear();
        self.operands.clear();
        self.nodes.clear();
        self.computed.clear();
        self.leafs.clear();
    }

    /// What a tensor is computed from.
    pub fn sources(&self, tensor: &Tensor) -> impl Iterator<Item = TensorId> + '_ {
        self.operands[tensor.src.range()].iter().copied().filter(|id| id.is_some())
    }

    /// The same, with what is left out.
    pub fn slots(&self, id: TensorId) -> &[TensorId] {
        &self.operands[self[id].src.range()]
    }

    /// Lets an operation read another tensor as this operand.
    pub fn rewire(&mut self, id: TensorId, operand: usize, source: TensorId) {
        let at = self[id].src.range().start + operand;
        self.operands[at] = source;
    }

    /// Puts a tensor into the arena.
    pub fn add_tensor(&mut self, tensor: Tensor) -> TensorId {
        let id = TensorId(self.tensors.len() as u32);
        self.tensors.push(tensor);
        id
    }

    /// A weight or a cache that has its bytes already.
    pub fn given(&mut self, ty: Type, ne: [u64; 4], buffer: Buffer, label: &'static str, layer: i16) -> TensorId {
        self.add_tensor(Tensor { buffer, label, layer, ..Tensor::new(ty, ne) })
    }

    /// Something that is filled in from outside.
    pub fn input(&mut self, ty: Type, ne: [u64; 4], label: &'static str) -> TensorId {
        self.add_tensor(Tensor { input: true, label, ..Tensor::new(ty, ne) })
    }

    /// The result of `op`, in memory of its own.
    pub fn compute<const N: usize>(&mut self, op: Op, ty: Type, ne: [u64; 4], src: [TensorId; N]) -> TensorId {
        let src = self.add_operands(src);
        self.add_tensor(Tensor { src, op, ..Tensor::new(ty, ne) })
    }

    /// The result of `op` in the memory of `of`.
    pub fn look<const N: usize>(
        &mut self,
        op: Op,
        of: TensorId,
        ne: [u64; 4],
        nb: [u64; 4],
        src: [TensorId; N],
    ) -> TensorId {
        let Tensor { ty, layer, view_of, .. } = self[of];
        // a view of a view is a view of what lies below
        let view_of = view_of.get().unwrap_or(of);
        let src = self.add_operands(src);
        self.add_tensor(Tensor { nb, src, view_of, op, layer, ..Tensor::new(ty, ne) })
    }

    fn add_operands<const N: usize>(&mut self, src: [TensorId; N]) -> Operands {
        const { assert!(N <= u8::MAX as usize, "no operation reads so much") };
        let first = self.operands.len() as u32;
        self.operands.extend(src);
        Operands { first, count: N as u8 }
    }

    /// Names a tensor.
    pub fn name(&mut self, id: TensorId, label: &'static str, layer: i16) -> TensorId {
        let tensor = &mut self[id];
        (tensor.label, tensor.layer) = (label, layer);
        id
    }

    /// Adds `id` and everything that it needs and that is not there yet, operands from left to right.
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
