//! Tensors without data: shape, strides, what they are computed from and where they live.

use super::Type;

/// A tensor's place in its graph's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorId(pub u32);

impl TensorId {
    /// No tensor.
    pub const NONE: Self = Self(u32::MAX);

    /// Whether there is a tensor.
    pub const fn is_some(self) -> bool {
        self.0 != u32::MAX
    }

    /// Its index in the arena.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The tensor, or nothing.
    pub fn get(self) -> Option<Self> {
        self.is_some().then_some(self)
    }
}

/// A device's place in a schedule: GPUs from 0, the CPU last.
pub type BackendId = u8;

/// Not placed yet.
pub const NO_BACKEND: BackendId = BackendId::MAX;

/// Which of its graph's operands an operation reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operands {
    /// The first of them.
    pub first: u32,
    /// How many there are, those that are left out included.
    pub count: u8,
}

impl Operands {
    /// Their places among the graph's.
    pub const fn range(self) -> std::ops::Range<usize> {
        let first = self.first as usize;
        first..first + self.count as usize
    }
}

/// What a tensor is, as far as memory depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Op {
    None,
    Dup,
    Add,
    AddId,
    Argsort,
    Clamp,
    Concat,
    Cont,
    Cpy,
    CumSum,
    Diag,
    Div,
    Fill,
    FlashAttn,
    GatedDeltaNet,
    GetRows,
    Glu,
    GroupNorm,
    L2Norm,
    Mul,
    MulMat,
    MulMatId,
    Norm,
    Pad,
    Permute,
    Repeat,
    Reshape,
    RmsNorm,
    Rope,
    Scale,
    Set,
    SetRows,
    SoftMax,
    SolveTri,
    Sqr,
    SsmConv,
    SsmScan,
    Sub,
    SumRows,
    Transpose,
    Tri,
    Unary,
    View,
}

impl Op {
    /// ggml's name of it (`ggml_op_name`, 0.1.161).
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Dup => "DUP",
            Self::Add => "ADD",
            Self::AddId => "ADD_ID",
            Self::Argsort => "ARGSORT",
            Self::Clamp => "CLAMP",
            Self::Concat => "CONCAT",
            Self::Cont => "CONT",
            Self::Cpy => "CPY",
            Self::CumSum => "CUMSUM",
            Self::Diag => "DIAG",
            Self::Div => "DIV",
            Self::Fill => "FILL",
            Self::FlashAttn => "FLASH_ATTN_EXT",
            Self::GatedDeltaNet => "GATED_DELTA_NET",
            Self::GetRows => "GET_ROWS",
            Self::Glu => "GLU",
            Self::GroupNorm => "GROUP_NORM",
            Self::L2Norm => "L2_NORM",
            Self::Mul => "MUL",
            Self::MulMat => "MUL_MAT",
            Self::MulMatId => "MUL_MAT_ID",
            Self::Norm => "NORM",
            Self::Pad => "PAD",
            Self::Permute => "PERMUTE",
            Self::Repeat => "REPEAT",
            Self::Reshape => "RESHAPE",
            Self::RmsNorm => "RMS_NORM",
            Self::Rope => "ROPE",
            Self::Scale => "SCALE",
            Self::Set => "SET",
            Self::SetRows => "SET_ROWS",
            Self::SoftMax => "SOFT_MAX",
            Self::SolveTri => "SOLVE_TRI",
            Self::Sqr => "SQR",
            Self::SsmConv => "SSM_CONV",
            Self::SsmScan => "SSM_SCAN",
            Self::Sub => "SUB",
            Self::SumRows => "SUM_ROWS",
            Self::Transpose => "TRANSPOSE",
            Self::Tri => "TRI",
            Self::Unary => "UNARY",
            Self::View => "VIEW",
        }
    }

    /// It only looks at another tensor's bytes in another way.
    pub const fn is_view(self) -> bool {
        matches!(self, Self::View | Self::Reshape | Self::Permute | Self::Transpose)
    }

    /// Its result may take the place of an operand (`ggml_op_can_inplace`, 0.1.161).
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
                | Self::Unary
                | Self::Rope
                | Self::RmsNorm
                | Self::Clamp
                | Self::SoftMax
        )
    }
}

/// Who has already given a tensor its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Nobody: the allocator will.
    Unallocated,
    /// It is a weight.
    Weights(BackendId),
    /// It is a cache.
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
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// Elements per dimension.
    pub ne: [u64; 4],
    /// Bytes from one element of a dimension to the next.
    pub nb: [u64; 4],
    /// What it is computed from.
    pub src: Operands,
    /// The tensor whose bytes it looks at.
    pub view_of: TensorId,
    /// Number format.
    pub ty: Type,
    /// How it is computed.
    pub op: Op,
    /// Filled in from outside before the graph runs.
    pub input: bool,
    /// Read from outside after the graph has run.
    pub output: bool,
    /// Part of the graph already.
    pub visited: bool,
    /// Whether it has bytes already.
    pub buffer: Buffer,
    /// The device that the model's own code insists on.
    pub pin: BackendId,
    /// What it is: `ffn_gate`. Empty for nameless steps in between.
    pub label: &'static str,
    /// The block that it belongs to; -1 for none.
    pub layer: i16,
}

impl Tensor {
    /// A tensor of its own, laid out without gaps.
    pub fn new(ty: Type, ne: [u64; 4]) -> Self {
        Self {
            ne,
            nb: contiguous(ty, ne),
            src: Operands::default(),
            view_of: TensorId::NONE,
            ty,
            op: Op::None,
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
    pub fn elements(&self) -> u64 {
        self.ne.iter().product()
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.ne[1] * self.ne[2] * self.ne[3]
    }

    /// Bytes from its first to its last element, gaps of its strides included.
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

    /// Same format, shape and strides.
    pub fn same_layout(&self, other: &Self) -> bool {
        self.ty == other.ty && self.ne == other.ne && self.nb == other.nb
    }
}

/// Strides of a tensor without gaps.
pub fn contiguous(ty: Type, ne: [u64; 4]) -> [u64; 4] {
    let row = row(ty, ne[0]);
    [ty.block_bytes(), row, row * ne[1], row * ne[1] * ne[2]]
}

/// Bytes of `elements` consecutive elements.
pub const fn row(ty: Type, elements: u64) -> u64 {
    elements * ty.block_bytes() / ty.block()
}
