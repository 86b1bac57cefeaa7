//! The types that each file type uses per category.

#![allow(clippy::enum_glob_use, reason = "a table of formats is read by their names alone")]

use super::kinds::TensorCategory;
use super::traits::{QuantFamily, QuantTraits};

use crate::gguf::GgmlType::*;
use crate::gguf::{FileType, GgmlType};
use PositionRule::*;

/// A condition for another type than the mix's base. `i` and `n` as in
/// [`TensorPosition`](TensorPosition).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PositionRule {
    Always,
    /// `i` is less than this.
    First(u64),
    /// `i` is less than `n` divided by this.
    FirstPart(u64),
    /// Neither in the first eighth nor in the last.
    Middle,
    /// `use_more_bits`: in the first eighth, the last eighth, or every third in between.
    MoreBits,
    /// At least four attention heads share a KV head.
    SharedHeads,
    /// At least four experts.
    FourExperts,
}

/// The type of the first condition that applies, else the mix's base.
pub(super) type FormatRule = &'static [(PositionRule, GgmlType)];

/// Which adjustments apply to a mix, and how it determines the block of an expert tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Usual,
    /// The mixes of one and two bits: the block index of expert tensors is unknown, and there is no rule for 70B
    /// models.
    Low,
    /// One type for experts, one for all else.
    Experts(GgmlType),
}

/// The types of a file type: the base, that of the output tensor, and rules per category.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub scheme: Scheme,
    pub base: GgmlType,
    pub output: GgmlType,
    pub embedding: FormatRule,
    pub value: FormatRule,
    pub key: FormatRule,
    pub query: FormatRule,
    pub attn_output: FormatRule,
    pub ffn_down: FormatRule,
    pub ffn_gate_and_up: FormatRule,
}

impl Mix {
    /// The mix of `to` for a model with these traits; none if the quantiser does not produce it.
    pub fn of(to: FileType, traits: &QuantTraits) -> Option<Self> {
        let mut mix = mix(to)?;
        if traits.family == QuantFamily::Falcon {
            mix.adjust_to_falcon(to);
        }
        if traits.experts == 8 {
            mix.adjust_to_eight_experts(to, traits.family);
        }
        Some(mix)
    }

    pub const fn rule(&self, category: TensorCategory) -> FormatRule {
        match category {
            TensorCategory::Output | TensorCategory::Other => &[],
            TensorCategory::Embedding => self.embedding,
            TensorCategory::Value => self.value,
            TensorCategory::Key => self.key,
            TensorCategory::Query => self.query,
            TensorCategory::AttnOutput => self.attn_output,
            TensorCategory::FfnUp | TensorCategory::FfnGate => self.ffn_gate_and_up,
            TensorCategory::FfnDown => self.ffn_down,
        }
    }

    /// With an importance matrix some types need no wider one in the first blocks (`has_imatrix` in src/llama-quant.cpp,
    /// llama-cpp-sys-2 0.1.161).
    pub const fn adjust_to_importance(&mut self, to: FileType) {
        match to {
            FileType::Iq4Xs | FileType::Iq4Nl => self.ffn_down = &[],
            FileType::Q4_0 => self.ffn_down = &[(FirstPart(8), Q4_1)],
            FileType::Q5_0 => self.ffn_down = &[(FirstPart(8), Q5_1)],
            FileType::Iq3Xxs => {
                self.ffn_down = &[];
                self.value = &[(SharedHeads, Q4K)];
            }
            _ => {}
        }
    }

    pub fn adjust_to_falcon(&mut self, to: FileType) {
        self.output = Q8_0;
        if self.scheme != Scheme::Usual {
            return;
        }
        self.attn_output = if to == FileType::Q3KL { &[(Always, Q4K)] } else { &[] };
        self.ffn_down = match to {
            FileType::Q3KM => &[(FirstPart(16), Q5K), (MoreBits, Q4K)],
            FileType::Q3KL => &[(Always, Q4K)],
            FileType::Q4KS => &[],
            FileType::Q4KM => &[(FirstPart(16), Q6K), (MoreBits, Q5K)],
            _ => self.ffn_down,
        };
    }

    /// With eight experts, attention is a small part of the model and gets more bits.
    pub fn adjust_to_eight_experts(&mut self, to: FileType, family: QuantFamily) {
        match self.scheme {
            Scheme::Usual => {
                self.value = &[(Always, Q8_0)];
                self.key = &[(Always, Q8_0)];
                if to == FileType::Iq3M {
                    self.ffn_down = &[(FirstPart(8), Q4K), (MoreBits, Q4K)];
                }
                if family != QuantFamily::Falcon {
                    self.attn_output = if has_larger_attn_output(to) { &[(Always, Q5K)] } else { &[] };
                }
            }
            Scheme::Low => {
                self.key = &[(Always, Q4K)];
                self.attn_output = &[(Always, Q5K)];
            }
            Scheme::Experts(_) => {}
        }
    }
}

/// Mixes with more bits for `attn_output` in models of eight experts.
pub(super) const fn has_larger_attn_output(to: FileType) -> bool {
    use FileType as T;
    matches!(
        to,
        T::Q2K | T::Q3KS | T::Q3KM | T::Q4KS | T::Q4KM | T::Iq3Xxs | T::Iq3Xs | T::Iq3S | T::Iq3M | T::Iq4Nl | T::Iq4Xs
    )
}

pub(super) const fn plain(base: GgmlType) -> Mix {
    Mix {
        scheme: Scheme::Usual,
        base,
        output: if matches!(base, Q8_0) { Q8_0 } else { Q6K },
        embedding: &[],
        value: &[],
        key: &[],
        query: &[],
        attn_output: &[],
        ffn_down: &[],
        ffn_gate_and_up: &[],
    }
}

pub(super) const fn low(base: GgmlType) -> Mix {
    Mix {
        scheme: Scheme::Low,
        output: Q5K,
        embedding: &[(Always, Q2K)],
        value: &[(SharedHeads, Q4K), (FourExperts, Q4K), (Always, Q2K)],
        ffn_down: &[(FirstPart(8), Q2K)],
        ..plain(base)
    }
}

/// `IQ2_S` and `IQ2_M`, which have more bits than the other low mixes.
pub(super) const fn iq2_s_m(base: GgmlType) -> Mix {
    Mix {
        embedding: &[(Always, Iq3S)],
        value: &[(SharedHeads, Q4K), (FourExperts, Q4K), (Always, Iq3S)],
        attn_output: &[(Always, Iq3S)],
        ffn_down: &[(FirstPart(8), Iq3S)],
        ..low(base)
    }
}

pub(super) const fn iq4(base: GgmlType) -> Mix {
    Mix { value: &[(SharedHeads, Q5K)], ffn_down: &[(FirstPart(8), Q5K)], ..plain(base) }
}

pub(super) const fn k_m(base: GgmlType) -> Mix {
    Mix { value: &[(MoreBits, Q6K)], ffn_down: &[(MoreBits, Q6K)], ..plain(base) }
}

pub(super) const fn mix(to: FileType) -> Option<Mix> {
    use FileType as T;
    Some(match to {
        T::F32 => plain(F32),
        T::F16 => plain(F16),
        T::Bf16 => plain(Bf16),
        T::Q4_0 => plain(Q4_0),
        T::Q4_1 => plain(Q4_1),
        T::Q5_0 => plain(Q5_0),
        T::Q5_1 => plain(Q5_1),
        T::Q8_0 => plain(Q8_0),
        T::Q1_0 => plain(Q1_0),
        T::Q2_0 => Mix { embedding: &[(Always, Q4K)], ..plain(Q2_0) },
        T::Tq1_0 => Mix { embedding: &[(Always, Q4K)], ..plain(Tq1_0) },
        T::Tq2_0 => Mix { embedding: &[(Always, Q4K)], ..plain(Tq2_0) },
        T::Mxfp4 => Mix { scheme: Scheme::Experts(Mxfp4), ..plain(Q8_0) },
        T::Nvfp4 => return None,

        T::Q2K => Mix {
            value: &[(SharedHeads, Q4K), (Always, Q3K)],
            attn_output: &[(Always, Q3K)],
            ffn_down: &[(Always, Q3K)],
            ..plain(Q2K)
        },
        T::Q2KS => Mix { value: &[(SharedHeads, Q4K)], ffn_down: &[(FirstPart(8), Q4K)], ..plain(Q2K) },
        T::Q3KS => plain(Q3K),
        T::Q3KM => Mix {
            value: &[(First(2), Q5K), (Always, Q4K)],
            attn_output: &[(Always, Q4K)],
            ffn_down: &[(FirstPart(16), Q5K), (Always, Q4K)],
            ..plain(Q3K)
        },
        T::Q3KL => {
            Mix { value: &[(Always, Q5K)], attn_output: &[(Always, Q5K)], ffn_down: &[(Always, Q5K)], ..plain(Q3K) }
        }
        T::Q4KS => Mix { value: &[(First(4), Q5K)], ffn_down: &[(FirstPart(8), Q5K)], ..plain(Q4K) },
        T::Q4KM => k_m(Q4K),
        T::Q5KS => plain(Q5K),
        T::Q5KM => k_m(Q5K),
        T::Q6K => plain(Q6K),

        T::Iq1S => Mix { attn_output: &[(Always, Iq2Xxs)], ..low(Iq1S) },
        T::Iq1M => Mix { attn_output: &[(Always, Iq2Xxs)], ..low(Iq1M) },
        T::Iq2Xxs => low(Iq2Xxs),
        T::Iq2Xs => low(Iq2Xs),
        T::Iq2S => iq2_s_m(Iq2Xs),
        T::Iq2M => iq2_s_m(Iq2S),
        T::Iq3Xxs => Mix {
            output: Q5K,
            embedding: &[(Always, Iq3S)],
            value: &[(SharedHeads, Q4K), (Always, Iq3S)],
            key: &[(Always, Iq2S)],
            query: &[(Always, Iq2S)],
            attn_output: &[(Always, Iq3S)],
            ffn_down: &[(FirstPart(8), Q4K), (Always, Q3K)],
            ..plain(Iq3Xxs)
        },
        T::Iq3Xs => Mix {
            value: &[(SharedHeads, Q4K)],
            key: &[(Always, Iq3Xxs)],
            query: &[(Always, Iq3Xxs)],
            ffn_gate_and_up: &[(Middle, Iq3Xxs)],
            ..plain(Iq3S)
        },
        T::Iq3S => Mix { value: &[(SharedHeads, Q4K)], ..plain(Iq3S) },
        T::Iq3M => Mix {
            value: &[(Always, Q4K)],
            attn_output: &[(Always, Q4K)],
            ffn_down: &[(FirstPart(8), Q4K)],
            ..plain(Iq3S)
        },
        T::Iq4Nl => iq4(Iq4Nl),
        T::Iq4Xs => iq4(Iq4Xs),
    })
}
