//! Tensors without data: shape, strides, operands and location.

use super::Type;

/// Index of a tensor in its graph's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorId(pub u32);

impl TensorId {
    /// No tensor.
    pub const NONE: Self = Self(u32::MAX);

    /// Whether this is a tensor.
    #[inline]
    pub const fn is_some(self) -> bool {
        self.0 != u32::MAX
    }

    /// Its index in the arena.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The tensor, unless this is [`Self::NONE`].
    #[inline]
    pub fn get(self) -> Option<Self> {
        self.is_some().then_some(self)
    }
}

/// A device's index in a schedule: GPUs from 0, the CPU last.
pub type BackendId = u8;

/// Not placed yet.
pub const NO_BACKEND: BackendId = BackendId::MAX;

/// The range of an operation's operands in its graph.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operands {
    /// The first of them.
    pub first: u32,
    /// Their number, including omitted ones.
    pub count: u8,
}

impl Operands {
    /// Their indices in the graph's operands.
    #[inline]
    pub const fn range(self) -> std::ops::Range<usize> {
        let first = self.first as usize;
        first..first + self.count as usize
    }
}

/// An operation, as far as memory depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Op {
    None,
    Dup,
    Add,
    AddId,
    Arange,
    Argmax,
    Argsort,
    Clamp,
    Concat,
    Cont,
    Cos,
    Cpy,
    CumSum,
    Diag,
    Div,
    Fill,
    FlashAttn,
    GatedDeltaNet,
    GatedLinearAttn,
    GetRows,
    Glu,
    GroupNorm,
    HcComb,
    HcPost,
    HcPre,
    Im2Col,
    L2Norm,
    LightningIndexer,
    Mean,
    Mul,
    MulMat,
    MulMatId,
    Norm,
    Pad,
    Permute,
    Pool1d,
    Pool2d,
    Repeat,
    Reshape,
    RmsNorm,
    Roll,
    Rope,
    RopeBack,
    RwkvWkv6,
    RwkvWkv7,
    Scale,
    Set,
    SetRows,
    Sin,
    SoftMax,
    SolveTri,
    Sqr,
    Sqrt,
    SsmConv,
    SsmScan,
    Sub,
    SumRows,
    TopK,
    Transpose,
    Tri,
    Unary,
    Upscale,
    View,
}

impl Op {
    /// ggml's name (`ggml_op_name`, 0.1.161).
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Dup => "DUP",
            Self::Add => "ADD",
            Self::AddId => "ADD_ID",
            Self::Arange => "ARANGE",
            Self::Argmax => "ARGMAX",
            Self::Argsort => "ARGSORT",
            Self::Clamp => "CLAMP",
            Self::Concat => "CONCAT",
            Self::Cont => "CONT",
            Self::Cos => "COS",
            Self::Cpy => "CPY",
            Self::CumSum => "CUMSUM",
            Self::Diag => "DIAG",
            Self::Div => "DIV",
            Self::Fill => "FILL",
            Self::FlashAttn => "FLASH_ATTN_EXT",
            Self::GatedDeltaNet => "GATED_DELTA_NET",
            Self::GatedLinearAttn => "GATED_LINEAR_ATTN",
            Self::GetRows => "GET_ROWS",
            Self::Glu => "GLU",
            Self::GroupNorm => "GROUP_NORM",
            Self::HcComb => "DSV4_HC_COMB",
            Self::HcPost => "DSV4_HC_POST",
            Self::HcPre => "DSV4_HC_PRE",
            Self::Im2Col => "IM2COL",
            Self::L2Norm => "L2_NORM",
            Self::Mean => "MEAN",
            Self::LightningIndexer => "LIGHTNING_INDEXER",
            Self::Mul => "MUL",
            Self::MulMat => "MUL_MAT",
            Self::MulMatId => "MUL_MAT_ID",
            Self::Norm => "NORM",
            Self::Pad => "PAD",
            Self::Permute => "PERMUTE",
            Self::Pool1d => "POOL_1D",
            Self::Pool2d => "POOL_2D",
            Self::Repeat => "REPEAT",
            Self::Reshape => "RESHAPE",
            Self::RmsNorm => "RMS_NORM",
            Self::Roll => "ROLL",
            Self::Rope => "ROPE",
            Self::RopeBack => "ROPE_BACK",
            Self::RwkvWkv6 => "RWKV_WKV6",
            Self::RwkvWkv7 => "RWKV_WKV7",
            Self::Scale => "SCALE",
            Self::Set => "SET",
            Self::SetRows => "SET_ROWS",
            Self::Sin => "SIN",
            Self::SoftMax => "SOFT_MAX",
            Self::SolveTri => "SOLVE_TRI",
            Self::Sqr => "SQR",
            Self::Sqrt => "SQRT",
            Self::SsmConv => "SSM_CONV",
            Self::SsmScan => "SSM_SCAN",
            Self::Sub => "SUB",
            Self::SumRows => "SUM_ROWS",
            Self::TopK => "TOP_K",
            Self::Transpose => "TRANSPOSE",
            Self::Tri => "TRI",
            Self::Unary => "UNARY",
            Self::Upscale => "UPSCALE",
            Self::View => "VIEW",
        }
    }

    /// Whether the result is a view of another tensor's bytes.
    pub const fn is_view(self) -> bool {
        matches!(self, Self::View | Self::Reshape | Self::Permute | Self::Transpose)
    }

    /// Whether the result may replace an operand in place (`ggml_op_can_inplace`, 0.1.161).
    pub const fn can_be_in_place(self) -> bool {
        matches!(
            self,
            Self::Fill
                | Self::Scale
                | Self::Add
                | Self::AddId
                | Self::Sub
                | Self::Mul
                | Self::Div
                | Self::Sqr
                | Self::Sqrt
                | Self::Unary
                | Self::Rope
                | Self::RopeBack
                | Self::RmsNorm
                | Self::Clamp
                | Self::SoftMax
        )
    }
}

/// The function of [`Op::Unary`], as far as a backend's decisions depend on it (`ggml_unary_op`, 0.1.161).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum UnaryOp {
    Abs,
    Exp,
    Gelu,
    GeluErf,
    GeluQuick,
    Neg,
    Relu,
    Round,
    Sgn,
    Sigmoid,
    Silu,
    Softplus,
    Tanh,
}

/// Whether a tensor is allocated before the graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// To be allocated with the graph.
    Unallocated,
    /// A weight.
    Weights(BackendId),
    /// A KV cache or recurrent state.
    Cache(BackendId),
}

impl Buffer {
    /// The device that holds it.
    pub const fn place(self) -> Option<BackendId> {
        match self {
            Self::Unallocated => None,
            Self::Weights(place) | Self::Cache(place) => Some(place),
        }
    }
}

/// A tensor without data.
#[allow(clippy::struct_excessive_bools, reason = "ggml's own flags, independent of one another")]
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// Elements per dimension.
    pub ne: [u64; 4],
    /// Bytes from one element of a dimension to the next.
    pub nb: [u64; 4],
    /// Its operands.
    pub src: Operands,
    /// The tensor whose bytes it views.
    pub view_of: TensorId,
    /// Element type.
    pub ty: Type,
    /// Its operation.
    pub op: Op,
    /// The function of [`Op::Unary`].
    pub unary: Option<UnaryOp>,
    /// The limit of the operands of a gated unit (`ggml_swiglu_clamp`, 0.1.161), or the largest bias of attention by
    /// distance (`ALiBi`); 0 for none.
    pub limit: f32,
    /// A product whose second operand must stay in f32 (`ggml_prec_set_src`, 0.1.161).
    pub f32_operand: bool,
    /// A weight in a layout of the CPU's own, which no other device can copy.
    pub repacked: bool,
    /// Set from outside before the graph runs.
    pub input: bool,
    /// Read from outside after the graph ran.
    pub output: bool,
    /// Already part of the graph.
    pub visited: bool,
    /// Whether it is allocated already.
    pub buffer: Buffer,
    /// The device set by the model's graph code.
    pub pin: BackendId,
    /// Its label: `ffn_gate`. Empty for unnamed intermediate tensors.
    pub label: &'static str,
    /// Its block; -1 for none.
    pub layer: i16,
}

impl Tensor {
    /// A contiguous tensor.
    #[inline]
    pub fn new(ty: Type, ne: [u64; 4]) -> Self {
        Self {
            ne,
            nb: contiguous(ty, ne),
            src: Operands::default(),
            view_of: TensorId::NONE,
            ty,
            op: Op::None,
            unary: None,
            limit: 0.0,
            f32_operand: false,
            repacked: false,
            input: false,
            output: false,
            visited: false,
            buffer: Buffer::Unallocated,
            pin: NO_BACKEND,
            label: "",
            layer: -1,
        }
    }

    /// Number of elements.
    #[inline]
    pub fn elements(&self) -> u64 {
        self.ne.iter().product()
    }

    /// Number of rows.
    #[inline]
    pub fn rows(&self) -> u64 {
        self.ne[1] * self.ne[2] * self.ne[3]
    }

    /// Bytes from its first to its last element, including gaps between strides.
    #[inline]
    pub fn bytes(&self) -> u64 {
        if self.ne.contains(&0) {
            return 0;
        }
        let rest = |from: usize| (from..4).map(|i| (self.ne[i] - 1) * self.nb[i]).sum::<u64>();
        if self.ty.block() > 1 {
            self.ne[0] * self.nb[0] / self.ty.block() + rest(1)
        } else {
            self.ty.block_bytes() + rest(0)
        }
    }

    /// Same type, shape and strides.
    #[inline]
    pub fn same_layout(&self, other: &Self) -> bool {
        self.ty == other.ty && self.ne == other.ne && self.nb == other.nb
    }
}

/// Strides of a contiguous tensor.
#[inline]
pub fn contiguous(ty: Type, ne: [u64; 4]) -> [u64; 4] {
    let row = row(ty, ne[0]);
    [ty.block_bytes(), row, row * ne[1], row * ne[1] * ne[2]]
}

/// Bytes of `elements` consecutive elements.
#[inline]
pub const fn row(ty: Type, elements: u64) -> u64 {
    elements * ty.block_bytes() / ty.block()
}
