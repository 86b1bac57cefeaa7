//! The operations that models use: shape of the result from the operands (`ggml.c`, 0.1.161).

use super::super::Type;
use super::super::tensor::{Op, Tensor, TensorId, UnaryOp, contiguous};
use super::{Graph, is_contiguous, is_contiguous_beyond};

/// Shapes and strides in ggml's order: fastest dimension first.
impl Graph {
    pub(in crate::engine::ggml) fn like<const N: usize>(&mut self, op: Op, src: [TensorId; N]) -> TensorId {
        let Tensor { ty, ne, .. } = self[src[0]];
        self.compute(op, ty, ne, src)
    }

    /// `a + b`; `b` is broadcast.
    pub fn add(&mut self, a: TensorId, b: TensorId) -> TensorId {
        self.like(Op::Add, [a, b])
    }

    /// `a + b`, unless `b` is none.
    pub fn plus(&mut self, a: TensorId, b: TensorId) -> TensorId {
        if b.is_some() { self.add(a, b) } else { a }
    }

    /// `a · b`, elementwise, unless `b` is none.
    pub fn times(&mut self, a: TensorId, b: TensorId) -> TensorId {
        if b.is_some() { self.mul(a, b) } else { a }
    }

    /// `a + b`, in place.
    pub fn add_in_place(&mut self, a: TensorId, b: TensorId) -> TensorId {
        let Tensor { ne, nb, .. } = self[a];
        self.compute_view(Op::Add, a, ne, nb, [a, b])
    }

    /// `a - b`.
    pub fn sub(&mut self, a: TensorId, b: TensorId) -> TensorId {
        self.like(Op::Sub, [a, b])
    }

    /// `a · b`, elementwise.
    pub fn mul(&mut self, a: TensorId, b: TensorId) -> TensorId {
        self.like(Op::Mul, [a, b])
    }

    /// `a / b`, elementwise.
    pub fn div(&mut self, a: TensorId, b: TensorId) -> TensorId {
        self.like(Op::Div, [a, b])
    }

    /// Adds to every row of `a` the row of `b` selected by `ids`.
    pub fn add_id(&mut self, a: TensorId, b: TensorId, ids: TensorId) -> TensorId {
        self.like(Op::AddId, [a, b, ids])
    }

    /// `a` times a constant.
    pub fn scale(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Scale, [a])
    }

    /// `a` times a constant, in place.
    pub fn scale_in_place(&mut self, a: TensorId) -> TensorId {
        let Tensor { ne, nb, .. } = self[a];
        self.compute_view(Op::Scale, a, ne, nb, [a])
    }

    /// An elementwise function.
    pub fn unary(&mut self, a: TensorId, function: UnaryOp) -> TensorId {
        let result = self.like(Op::Unary, [a]);
        self[result].unary = Some(function);
        result
    }

    /// Elementwise square.
    pub fn sqr(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Sqr, [a])
    }

    /// Limits all elements to a range.
    pub fn clamp(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Clamp, [a])
    }

    /// The same, in place.
    pub fn clamp_in_place(&mut self, a: TensorId) -> TensorId {
        let Tensor { ne, nb, .. } = self[a];
        self.compute_view(Op::Clamp, a, ne, nb, [a])
    }

    /// A tensor like `a`, filled with a constant.
    pub fn fill(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Fill, [a])
    }

    /// A copy of `a` with `part` written into it.
    pub fn set(&mut self, a: TensorId, part: TensorId) -> TensorId {
        self.like(Op::Set, [a, part])
    }

    /// `part`, written into `a`.
    pub fn set_in_place(&mut self, a: TensorId, part: TensorId) -> TensorId {
        let Tensor { ne, nb, .. } = self[a];
        self.compute_view(Op::Set, a, ne, nb, [a, part])
    }

    /// A square matrix with `a` on its diagonal.
    pub fn diag(&mut self, a: TensorId) -> TensorId {
        let Tensor { ty, ne, .. } = self[a];
        self.compute(Op::Diag, ty, [ne[0], ne[0], ne[2], ne[3]], [a])
    }

    /// A copy.
    pub fn dup(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Dup, [a])
    }

    /// Root-mean-square normalisation of rows.
    pub fn rms_norm(&mut self, a: TensorId) -> TensorId {
        self.like(Op::RmsNorm, [a])
    }

    /// Normalisation of rows by mean and variance.
    pub fn layer_norm(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Norm, [a])
    }

    /// Normalisation of rows by length.
    pub fn l2_norm(&mut self, a: TensorId) -> TensorId {
        self.like(Op::L2Norm, [a])
    }

    /// Cumulative sums of rows.
    pub fn cumsum(&mut self, a: TensorId) -> TensorId {
        self.like(Op::CumSum, [a])
    }

    /// The upper or lower triangle of `a`.
    pub fn tri(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Tri, [a])
    }

    /// Solves a triangular system; the result has the shape of `b`.
    pub fn solve_tri(&mut self, a: TensorId, b: TensorId) -> TensorId {
        let ne = self[b].ne;
        self.compute(Op::SolveTri, Type::F32, ne, [a, b])
    }

    /// Rotary position embedding; `factors` are optional.
    pub fn rope(&mut self, a: TensorId, positions: TensorId, factors: TensorId) -> TensorId {
        self.like(Op::Rope, [a, positions, factors])
    }

    /// The opposite rotation.
    pub fn rope_back(&mut self, a: TensorId, positions: TensorId) -> TensorId {
        self.like(Op::RopeBack, [a, positions])
    }

    /// Softmax of rows; mask and sinks are optional.
    pub fn soft_max(&mut self, a: TensorId, mask: TensorId, sinks: TensorId) -> TensorId {
        self.like(Op::SoftMax, [a, mask, sinks])
    }

    /// Matrix product.
    pub fn mul_mat(&mut self, a: TensorId, b: TensorId) -> TensorId {
        let (x, y) = (self[a].ne, self[b].ne);
        self.compute(Op::MulMat, Type::F32, [x[1], y[1], y[2], y[3]], [a, b])
    }

    /// Matrix products with the experts selected by `ids`.
    pub fn mul_mat_id(&mut self, experts: TensorId, b: TensorId, ids: TensorId) -> TensorId {
        let ne = [self[experts].ne[1], self[ids].ne[0], self[b].ne[2], 1];
        self.compute(Op::MulMatId, Type::F32, ne, [experts, b, ids])
    }

    /// The rows of `a` selected by `rows`.
    pub fn get_rows(&mut self, a: TensorId, rows: TensorId) -> TensorId {
        let (x, r) = (self[a], self[rows].ne);
        let ty = if x.ty == Type::I32 { Type::I32 } else { Type::F32 };
        self.compute(Op::GetRows, ty, [x.ne[0], r[0], r[1], r[2]], [a, rows])
    }

    /// Writes `values` into the rows of `into` selected by `rows`.
    pub fn set_rows(&mut self, into: TensorId, values: TensorId, rows: TensorId) -> TensorId {
        let Tensor { ne, nb, .. } = self[into];
        self.compute_view(Op::SetRows, into, ne, nb, [values, rows, into])
    }

    /// The same without `into` as an operand.
    pub fn set_rows_unread(&mut self, into: TensorId, values: TensorId, rows: TensorId) -> TensorId {
        let Tensor { ne, nb, .. } = self[into];
        self.compute_view(Op::SetRows, into, ne, nb, [values, rows])
    }

    /// Copies `a` into the bytes of `into`.
    pub fn cpy(&mut self, a: TensorId, into: TensorId) -> TensorId {
        let Tensor { ne, nb, .. } = self[into];
        self.compute_view(Op::Cpy, into, ne, nb, [a, into])
    }

    /// The same, as a node of the graph.
    pub fn store(&mut self, a: TensorId, into: TensorId) {
        let stored = self.cpy(a, into);
        self.expand(stored);
    }

    /// `a` converted to another type. In ggml the result is its own second operand.
    pub fn cast(&mut self, a: TensorId, ty: Type) -> TensorId {
        let ne = self[a].ne;
        let itself = TensorId(self.tensors.len() as u32);
        self.compute(Op::Cpy, ty, ne, [a, itself])
    }

    /// Gated unit of two operands.
    pub fn glu_split(&mut self, gate: TensorId, up: TensorId) -> TensorId {
        self.like(Op::Glu, [gate, up])
    }

    /// The same with operands limited.
    pub fn glu_clamped(&mut self, gate: TensorId, up: TensorId, limit: f32) -> TensorId {
        let result = self.glu_split(gate, up);
        self[result].limit = limit;
        result
    }

    /// Gated unit whose gate and value are halves of the same row.
    pub fn glu(&mut self, a: TensorId) -> TensorId {
        let Tensor { ty, mut ne, .. } = self[a];
        ne[0] /= 2;
        self.compute(Op::Glu, ty, ne, [a])
    }

    /// Sums of rows.
    pub fn sum_rows(&mut self, a: TensorId) -> TensorId {
        let Tensor { ty, mut ne, .. } = self[a];
        ne[0] = 1;
        self.compute(Op::SumRows, ty, ne, [a])
    }

    /// Means of rows.
    pub fn mean(&mut self, a: TensorId) -> TensorId {
        let [_, x, y, z] = self[a].ne;
        self.compute(Op::Mean, Type::F32, [1, x, y, z], [a])
    }

    /// Indices of the elements of each row in order.
    pub fn argsort(&mut self, a: TensorId) -> TensorId {
        let ne = self[a].ne;
        self.compute(Op::Argsort, Type::I32, ne, [a])
    }

    /// Indices of the `k` largest elements of each row.
    pub fn argsort_top_k(&mut self, a: TensorId, k: u64) -> TensorId {
        let order = self.argsort(a);
        let layer = self[a].layer;
        self.name(order, "ffn_moe_argsort", layer);
        let Tensor { ne: [_, x, y, z], nb, .. } = self[order];
        self.view(order, [k, x, y, z], nb)
    }

    /// The same by an operation of its own, in any order.
    pub fn top_k(&mut self, a: TensorId, k: u64) -> TensorId {
        let [_, x, y, z] = self[a].ne;
        self.compute(Op::TopK, Type::I32, [k, x, y, z], [a])
    }

    /// Index of the largest element of each row.
    pub fn argmax(&mut self, a: TensorId) -> TensorId {
        let rows = self[a].ne[1];
        self.compute(Op::Argmax, Type::I32, [rows, 1, 1, 1], [a])
    }

    /// Elementwise square root.
    pub fn sqrt(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Sqrt, [a])
    }

    /// Concatenates `a` and `b` along `dim`.
    pub fn concat(&mut self, a: TensorId, b: TensorId, dim: usize) -> TensorId {
        let Tensor { ty, mut ne, .. } = self[a];
        ne[dim] += self[b].ne[dim];
        self.compute(Op::Concat, ty, ne, [a, b])
    }

    /// Pads `a` with `more` elements per dimension.
    pub fn pad(&mut self, a: TensorId, more: [u64; 4]) -> TensorId {
        let Tensor { ty, ne, .. } = self[a];
        let ne = std::array::from_fn(|i| ne[i] + more[i]);
        self.compute(Op::Pad, ty, ne, [a])
    }

    /// `a` repeated to the shape `ne`.
    pub fn repeat(&mut self, a: TensorId, ne: [u64; 4]) -> TensorId {
        let ty = self[a].ty;
        self.compute(Op::Repeat, ty, ne, [a])
    }

    /// `a` made contiguous.
    pub fn cont(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Cont, [a])
    }

    /// `a` made contiguous, in another shape.
    pub fn cont_as(&mut self, a: TensorId, ne: [u64; 4]) -> TensorId {
        let ty = self[a].ty;
        self.compute(Op::Cont, ty, ne, [a])
    }

    /// A contiguous `a` as a view of another shape.
    pub fn reshape(&mut self, a: TensorId, ne: [u64; 4]) -> TensorId {
        let nb = contiguous(self[a].ty, ne);
        self.compute_view(Op::Reshape, a, ne, nb, [a])
    }

    /// A view of `a`.
    pub fn view(&mut self, a: TensorId, ne: [u64; 4], nb: [u64; 4]) -> TensorId {
        self.compute_view(Op::View, a, ne, nb, [a])
    }

    /// A view with a dense first dimension: strides start with the second dimension; dimensions beyond them are dense.
    pub fn window<const N: usize>(&mut self, a: TensorId, ne: [u64; 4], strides: [u64; N]) -> TensorId {
        let mut nb = contiguous(self[a].ty, ne);
        for i in 1..4 {
            if i <= N {
                nb[i] = strides[i - 1];
            } else if N > 0 {
                nb[i] = nb[i - 1] * ne[i - 1];
            }
        }
        self.view(a, ne, nb)
    }

    /// Dimension `i` of `a` becomes dimension `to[i]`.
    pub fn permute(&mut self, a: TensorId, to: [usize; 4]) -> TensorId {
        let t = self[a];
        let (mut ne, mut nb) = ([0; 4], [0; 4]);
        for (from, &to) in to.iter().enumerate() {
            (ne[to], nb[to]) = (t.ne[from], t.nb[from]);
        }
        self.compute_view(Op::Permute, a, ne, nb, [a])
    }

    /// The same, made contiguous.
    pub fn permuted(&mut self, a: TensorId, to: [usize; 4]) -> TensorId {
        let a = self.permute(a, to);
        self.cont(a)
    }

    /// Swaps the first two dimensions.
    pub fn transpose(&mut self, a: TensorId) -> TensorId {
        let Tensor { mut ne, mut nb, .. } = self[a];
        ne.swap(0, 1);
        nb.swap(0, 1);
        self.compute_view(Op::Transpose, a, ne, nb, [a])
    }

    /// The same, made contiguous.
    pub fn transposed(&mut self, a: TensorId) -> TensorId {
        let a = self.transpose(a);
        self.cont(a)
    }

    /// Attention in one operation; mask and sinks are optional.
    pub fn flash_attention(
        &mut self,
        q: TensorId,
        k: TensorId,
        v: TensorId,
        mask: TensorId,
        sinks: TensorId,
    ) -> TensorId {
        let (a, c) = (self[q].ne, self[v].ne);
        self.compute(Op::FlashAttn, Type::F32, [c[0], a[2], a[1], a[3]], [q, k, v, mask, sinks])
    }

    /// Short convolution of a state-space model.
    pub fn ssm_conv(&mut self, a: TensorId, kernel: TensorId) -> TensorId {
        let (x, c) = (self[a].ne, self[kernel].ne);
        self.compute(Op::SsmConv, Type::F32, [c[1], (x[0] + 1).saturating_sub(c[0]), x[2], 1], [a, kernel])
    }

    /// Selective scan of a state-space model: outputs followed by the new states.
    pub fn ssm_scan(&mut self, operands: [TensorId; 7], snapshots: u64) -> TensorId {
        let [state, x, .., ids] = operands.map(|id| self[id]);
        let states = state.ne[0] * state.ne[1] * state.ne[2] * ids.ne[0] * snapshots;
        self.compute(Op::SsmScan, Type::F32, [x.elements() + states, 1, 1, 1], operands)
    }

    /// Gated delta rule (q, k, v, gate, beta, state): outputs followed by the new states.
    pub fn gated_delta_net(&mut self, operands: [TensorId; 6], snapshots: u64) -> TensorId {
        let v = self[operands[2]].ne;
        let rows = v[2] * v[3] + v[0] * v[3] * snapshots;
        self.compute(Op::GatedDeltaNet, Type::F32, [v[0] * v[1], rows, 1, 1], operands)
    }

    /// Scores of an indexer: every query with every key, weighted and masked.
    pub fn lightning_indexer(&mut self, q: TensorId, k: TensorId, weights: TensorId, mask: TensorId) -> TensorId {
        let (keys, queries) = (self[k].ne, self[q].ne);
        self.compute(Op::LightningIndexer, Type::F32, [keys[2], queries[2], 1, queries[3]], [q, k, weights, mask])
    }

    /// A step of linear attention (`RwkvWkv6`, `RwkvWkv7` or `GatedLinearAttn`): outputs followed by the new states. The
    /// last operand is the state.
    pub fn linear_attention<const N: usize>(&mut self, op: Op, operands: [TensorId; N]) -> TensorId {
        let ([head, heads, n_tokens, _], [_, n_seqs, ..]) = (self[operands[0]].ne, self[operands[N - 1]].ne);
        self.compute(op, Type::F32, [head * heads, n_tokens + head * n_seqs, 1, 1], operands)
    }

    /// The weighted sum of several residual streams (`[embedding, streams, tokens]`).
    pub fn hc_pre(&mut self, streams: TensorId, weights: TensorId) -> TensorId {
        let [n_embd, _, n_tokens, _] = self[streams].ne;
        self.compute(Op::HcPre, Type::F32, [n_embd, n_tokens, 1, 1], [streams, weights])
    }

    /// How residual streams are mixed with one another: a doubly stochastic matrix per token
    /// (`[streams, streams, tokens]`) from what all streams say of each.
    pub fn hc_comb(&mut self, mixes: TensorId, scale: TensorId, base: TensorId, streams: u64) -> TensorId {
        let n_tokens = self[mixes].ne[1];
        self.compute(Op::HcComb, Type::F32, [streams, streams, n_tokens, 1], [mixes, scale, base])
    }

    /// The residual streams `residual`, mixed by `comb` if given, with `x` added in the shares `post`.
    pub fn hc_post(&mut self, x: TensorId, residual: TensorId, post: TensorId, comb: TensorId) -> TensorId {
        let [n_embd, streams, n_tokens, _] = self[residual].ne;
        self.compute(Op::HcPost, Type::F32, [n_embd, streams, n_tokens, 1], [x, residual, post, comb])
    }

    /// `n` numbers in order.
    pub fn arange(&mut self, n: u64) -> TensorId {
        self.compute(Op::Arange, Type::F32, [n, 1, 1, 1], [])
    }

    /// Whether `a` is dense, with dimensions in order (`ggml_is_contiguous`, 0.1.161).
    pub fn is_contiguous(&self, a: TensorId) -> bool {
        is_contiguous(&self[a])
    }

    /// Whether `a` is dense but for gaps between rows (`ggml_is_contiguous_1`, 0.1.161).
    pub fn is_contiguous_1(&self, a: TensorId) -> bool {
        is_contiguous_beyond(&self[a], 1)
    }
}
