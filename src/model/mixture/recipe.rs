//! Which tensor has which type in the files of packagers.
//!
//! To add a recipe: a row of [`RECIPES`], and its name in the column of `assets/mixtures.tsv`. A name that a recipe has
//! no row for is the file type of llama-quantize with the recipe's importance matrix, if it is one.
//!
//! Source: found from the sizes in bytes in `assets/mixtures.tsv`, and counts of types in logs of single files.
//! `tests/mixtures.rs` says how many sizes each recipe gives exactly.
#![allow(clippy::enum_glob_use, reason = "a table of formats is read by their names alone")]

use crate::gguf::GgmlType::{self, *};
use crate::gguf::{FileType, Tensor};
use crate::model::Model;
use crate::model::quantise::{self, Method};

use super::name::{Packager, Quantisation};

/// A packager's way to make files.
#[derive(Debug)]
pub struct Recipe {
    /// Its name in `assets/mixtures.tsv`.
    pub name: &'static str,
    /// Whose it is, in sentences.
    pub title: &'static str,
    /// Whether llama-quantize has an importance matrix.
    importance: bool,
    /// The type that experts are trained in and keep.
    experts: Option<Experts>,
    /// Types that hold for every name.
    always: &'static [TypeRule],
    /// Types of tables that are looked up in, which hold for every name but those of floats.
    tables: &'static [TypeRule],
    rows: &'static [RecipeRow],
    is_known: bool,
    /// How far it was off.
    pub error: RecipeError,
}

/// How far the sizes by a recipe were off those of published files; `tests/mixtures.rs` computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipeError {
    /// Files that were compared.
    pub files: u64,
    /// Half of them were within this, in thousandths of a percent of the file.
    pub half_within: u64,
    /// All of them were within this.
    pub all_within: u64,
}

/// Experts that are trained in a type.
#[derive(Clone, Copy, Debug)]
struct Experts {
    ty: GgmlType,
    /// Whether narrower files keep it too.
    always: bool,
}

/// What a recipe does for some names.
#[derive(Debug)]
struct RecipeRow {
    names: &'static [&'static str],
    /// Decides the types of tensors without a rule.
    base: FileType,
    /// The first that matches counts.
    rules: &'static [TypeRule],
}

/// The type of tensors whose names contain a text.
#[derive(Clone, Copy, Debug)]
struct TypeRule {
    part: &'static str,
    ty: GgmlType,
    /// Whether it is only for models with an output matrix of its own.
    untied: bool,
    /// Whether it is for tensors that llama-quantize leaves as they are.
    kept: bool,
}

const fn of(part: &'static str, ty: GgmlType) -> TypeRule {
    TypeRule { part, ty, untied: false, kept: false }
}

const fn untied(part: &'static str, ty: GgmlType) -> TypeRule {
    TypeRule { untied: true, ..of(part, ty) }
}

const fn kept(part: &'static str, ty: GgmlType) -> TypeRule {
    TypeRule { kept: true, ..of(part, ty) }
}

const fn row(names: &'static [&'static str], base: FileType, rules: &'static [TypeRule]) -> RecipeRow {
    RecipeRow { names, base, rules }
}

const fn within(files: u64, half_within: u64, all_within: u64) -> RecipeError {
    RecipeError { files, half_within, all_within }
}

const EMBEDDING: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";
/// All further tensors.
const REST: &str = "";

const UNSLOTH: &[RecipeRow] = &[
    row(&["Q2_K_L"], FileType::Q2K, &[untied(EMBEDDING, Q4K)]),
    row(&["IQ4_XS"], FileType::Iq4Xs, &[untied(EMBEDDING, Q4K)]),
];

const BARTOWSKI: &[RecipeRow] = {
    const WIDE: &[TypeRule] = &[of(EMBEDDING, Q8_0), of(OUTPUT, Q8_0)];
    &[
        row(&["Q2_K_L"], FileType::Q2K, WIDE),
        row(&["Q3_K_XL"], FileType::Q3KL, WIDE),
        row(&["Q4_K_L"], FileType::Q4KM, WIDE),
        row(&["Q5_K_L"], FileType::Q5KM, WIDE),
        row(&["Q6_K_L"], FileType::Q6K, WIDE),
    ]
};

/// Dense models with delta nets: their output gets more bits.
const UNSLOTH_DELTA: &[RecipeRow] = &[
    row(&["Q3_K_S"], FileType::Q3KS, &[of("ssm_out", Q4K)]),
    row(&["Q3_K_M"], FileType::Q3KM, &[of("ssm_out", Q4K)]),
    row(&["Q3_K_L"], FileType::Q3KL, &[of("ssm_out", Q4K)]),
    row(&["IQ4_XS"], FileType::Iq4Xs, &[untied(EMBEDDING, Q4K), of("ssm_out", Q5K)]),
    row(&["IQ4_NL"], FileType::Iq4Nl, &[of("ssm_out", Q5K)]),
    row(&["Q4_0"], FileType::Q4_0, &[of("ssm_out", Q5K)]),
    row(&["Q4_K_S"], FileType::Q4KS, &[of("ssm_out", Q5K)]),
    row(&["Q4_K_M"], FileType::Q4KM, &[of("ssm_out", Q5K)]),
    row(&["Q5_K_S"], FileType::Q5KS, &[of("ssm_out", Q6K)]),
    row(&["Q5_K_M"], FileType::Q5KM, &[of("ssm_out", Q6K)]),
];

/// The same of March 2026, with a fused Q, K and V that is no V.
const UNSLOTH_DELTA_2026_03: &[RecipeRow] = &[
    row(&["Q3_K_S"], FileType::Q3KS, &[of("ssm_out", Q4K)]),
    row(&["Q3_K_M"], FileType::Q3KM, &[of("ssm_out", Q4K), of("attn_qkv", Q4K)]),
    row(&["Q3_K_L"], FileType::Q3KL, &[of("ssm_out", Q4K), of("attn_qkv", Q4K)]),
    row(&["IQ3_M"], FileType::Iq3M, &[of("attn_qkv", Q4K)]),
    row(&["IQ4_XS"], FileType::Iq4Xs, &[untied(EMBEDDING, Q4K), of("ssm_out", Q5K), of("attn_qkv", Iq4Xs)]),
    row(&["IQ4_NL"], FileType::Iq4Nl, &[of("ssm_out", Q5K), of("attn_qkv", Iq4Nl)]),
    row(&["Q4_0"], FileType::Q4_0, &[of("ssm_out", Q5K)]),
    row(&["Q4_K_S"], FileType::Q4KS, &[of("ssm_out", Q5K), of("attn_qkv", Q4K)]),
    row(&["Q4_K_M"], FileType::Q4KM, &[of("ssm_out", Q5K), of("attn_qkv", Q5K)]),
    row(&["Q5_K_S"], FileType::Q5KS, &[of("ssm_out", Q6K)]),
    row(&["Q5_K_M"], FileType::Q5KM, &[of("ssm_out", Q6K), of("attn_qkv", Q6K)]),
];

/// Gemma 4: the embeddings are no output matrix, though they are that too.
const UNSLOTH_GEMMA4: &[RecipeRow] = &[
    row(&["Q3_K_S"], FileType::Q3KS, &[of(EMBEDDING, Q3K)]),
    row(&["Q3_K_M"], FileType::Q3KM, &[of(EMBEDDING, Q3K)]),
    row(&["IQ4_XS"], FileType::Iq4Xs, &[of(EMBEDDING, Q4K)]),
    row(&["IQ4_NL"], FileType::Iq4Nl, &[of(EMBEDDING, Iq4Nl)]),
    row(&["Q4_0"], FileType::Q4_0, &[of(EMBEDDING, Q4_0)]),
    row(&["Q4_K_S"], FileType::Q4KS, &[of(EMBEDDING, Q4K)]),
    row(&["Q4_K_M"], FileType::Q4KM, &[of(EMBEDDING, Q4K)]),
    row(&["Q5_K_S"], FileType::Q5KS, &[of(EMBEDDING, Q5K)]),
    row(&["Q5_K_M"], FileType::Q5KM, &[of(EMBEDDING, Q5K)]),
];

/// Gemma 4 with embeddings per layer.
const UNSLOTH_GEMMA4_PER_LAYER: &[RecipeRow] = {
    const NARROW: &[TypeRule] =
        &[of("per_layer_token_embd", Q4K), of(EMBEDDING, Q5K), kept("per_layer_model_proj", Bf16)];
    const USUAL: &[TypeRule] = &[of("per_layer_token_embd", Q5K), kept("per_layer_model_proj", Bf16)];
    &[
        row(&["Q3_K_S"], FileType::Q3KS, NARROW),
        row(&["Q3_K_M"], FileType::Q3KM, NARROW),
        row(&["IQ4_XS"], FileType::Iq4Xs, USUAL),
        row(&["IQ4_NL"], FileType::Iq4Nl, USUAL),
        row(&["Q4_0"], FileType::Q4_0, USUAL),
        row(&["Q4_K_S"], FileType::Q4KS, USUAL),
        row(&["Q4_K_M"], FileType::Q4KM, USUAL),
        row(&["Q5_K_S"], FileType::Q5KS, USUAL),
        row(&["Q5_K_M"], FileType::Q5KM, USUAL),
    ]
};

/// Models with experts: all else is wide, and experts have a type by name. A few blocks get more bits.
macro_rules! with_experts {
    ($($names:expr, $base:ident: $output:ident $embedding:ident $gate_and_up:ident $down:ident;)*) => {
        &[$(row(&$names, FileType::$base, &[
            of(EMBEDDING, $embedding),
            of(OUTPUT, $output),
            of("ffn_gate_up_exps", $gate_and_up),
            of("ffn_gate_exps", $gate_and_up),
            of("ffn_up_exps", $gate_and_up),
            of("ffn_down_exps", $down),
            of(REST, Q8_0),
        ]),)*]
    };
}

const UNSLOTH_EXPERTS: &[RecipeRow] = with_experts! {
    ["Q3_K_S", "UD-Q3_K_S"], Q3KS: Q6K Q6K Iq3Xxs Iq3S;
    ["Q3_K_M", "UD-Q3_K_M"], Q3KM: Q6K Q6K Iq3Xxs Iq4Xs;
    ["UD-Q3_K_XL"], Q3KM: Q6K Q8_0 Iq3Xxs Iq4Xs;
    ["UD-IQ4_XS"], Iq4Xs: Q6K Q8_0 Iq3S Iq4Xs;
    ["UD-IQ4_NL"], Iq4Nl: Q6K Q8_0 Iq3S Iq4Nl;
    ["Q4_K_S", "UD-Q4_K_S"], Q4KS: Q6K Q8_0 Q4K Q4K;
    ["Q4_K_M", "UD-Q4_K_M"], Q4KM: Q6K Q8_0 Q4K Q5K;
    ["UD-Q4_K_XL"], Q4KM: Q8_0 Q8_0 Q4K Q5K;
    ["MXFP4"], Mxfp4: Q8_0 Q8_0 Mxfp4 Q5K;
    ["Q5_K_S", "UD-Q5_K_S"], Q5KS: Q8_0 Q8_0 Q5K Q5K;
    ["Q5_K_M", "UD-Q5_K_M", "UD-Q5_K_XL"], Q5KM: Q8_0 Q8_0 Q5K Q6K;
    ["UD-Q6_K_XL"], Q6K: Q8_0 Q8_0 Q6K Q8_0;
};

/// From April 2026 on: the small tensors of delta nets stay as they are.
const PRECISE_DELTA: &[TypeRule] = &[of("ssm_alpha", F32), of("ssm_beta", F32)];
/// Before.
const WIDE_DELTA: &[TypeRule] = &[of("ssm_alpha", Q8_0), of("ssm_beta", Q8_0)];
/// Tables of n-grams: their rows are shorter than a block of the K types. In Unsloth's UD-Q2_K_XL of Qwen3.8 Flash Next that of
/// 160 × 320,001,536 has 26.82 GiB (github.com/Tanguille/cluster, pull request 4764), and ggml-org's script for it names the
/// type (github.com/ggml-org/convert, pull request 27).
const NGRAMS: &[TypeRule] = &[of("per_layer_token_embd", Q4_0)];

const WITH_MATRIX: Recipe = Recipe {
    name: "importance",
    title: "llama-quantize with an importance matrix",
    importance: true,
    experts: None,
    always: &[],
    tables: &[],
    rows: &[],
    is_known: true,
    error: within(20, 1, 1),
};

/// All recipes.
pub const RECIPES: &[Recipe] = &[
    Recipe { name: "static", title: "llama-quantize", importance: false, error: within(46, 1, 231), ..WITH_MATRIX },
    WITH_MATRIX,
    Recipe {
        name: "bartowski",
        title: "bartowski's usual recipe",
        rows: BARTOWSKI,
        error: within(18, 1, 1),
        ..WITH_MATRIX
    },
    Recipe {
        name: "unsloth",
        title: "Unsloth's usual recipe",
        rows: UNSLOTH,
        error: within(238, 1, 3053),
        ..WITH_MATRIX
    },
    Recipe {
        name: "unsloth-delta",
        title: "Unsloth's recipe for delta nets",
        always: PRECISE_DELTA,
        rows: UNSLOTH_DELTA,
        error: within(13, 1, 1),
        ..WITH_MATRIX
    },
    Recipe {
        name: "unsloth-delta-2026-03",
        title: "Unsloth's recipe for delta nets of March 2026",
        always: WIDE_DELTA,
        rows: UNSLOTH_DELTA_2026_03,
        error: within(32, 1, 1),
        ..WITH_MATRIX
    },
    Recipe {
        name: "unsloth-experts",
        title: "Unsloth's recipe for experts",
        always: PRECISE_DELTA,
        tables: NGRAMS,
        rows: UNSLOTH_EXPERTS,
        error: within(96, 533, 2847),
        ..WITH_MATRIX
    },
    Recipe {
        name: "unsloth-gemma4",
        title: "Unsloth's recipe for Gemma 4",
        rows: UNSLOTH_GEMMA4,
        error: within(18, 1, 1),
        ..WITH_MATRIX
    },
    Recipe {
        name: "unsloth-gemma4-per-layer",
        title: "Unsloth's recipe for Gemma 4 with embeddings per layer",
        rows: UNSLOTH_GEMMA4_PER_LAYER,
        error: within(18, 337, 1730),
        ..WITH_MATRIX
    },
    // some of what is outside the experts is narrower; which is not known
    Recipe {
        name: "unsloth-experts-and-convolutions",
        title: "Unsloth's recipe for experts",
        rows: UNSLOTH_EXPERTS,
        error: within(14, 1985, 3111),
        ..WITH_MATRIX
    },
    // the importance matrix decides
    Recipe { name: "not-known", title: "an importance matrix", is_known: false, error: within(4, 1, 1), ..WITH_MATRIX },
    Recipe {
        name: "unsloth-experts-2026-03",
        title: "Unsloth's recipe for experts of March 2026",
        always: WIDE_DELTA,
        rows: UNSLOTH_EXPERTS,
        error: within(51, 1, 1153),
        ..WITH_MATRIX
    },
    Recipe {
        name: "mxfp4-experts",
        title: "the usual recipe of experts that are trained in MXFP4",
        experts: Some(Experts { ty: Mxfp4, always: true }),
        rows: &[
            row(&["Q2_K_L"], FileType::Q2K, &[of(EMBEDDING, Q8_0)]),
            row(&["UD-Q4_K_XL"], FileType::Q4KM, &[of(EMBEDDING, Q8_0)]),
            row(&["UD-Q6_K_XL"], FileType::Q6K, &[]),
            row(&["UD-Q8_K_XL"], FileType::Q8_0, &[of(EMBEDDING, Bf16), of(OUTPUT, Bf16)]),
        ],
        error: within(25, 1, 257),
        ..WITH_MATRIX
    },
    Recipe {
        name: "mxfp4-experts-wide",
        title: "the usual recipe of experts that are trained in MXFP4",
        experts: Some(Experts { ty: Mxfp4, always: false }),
        rows: TRAINED_IN_FOUR_BITS,
        error: within(4, 10, 13),
        ..WITH_MATRIX
    },
    Recipe {
        name: "q4_0-experts",
        title: "the usual recipe of experts that are trained in 4 bits",
        experts: Some(Experts { ty: Q4_0, always: false }),
        rows: TRAINED_IN_FOUR_BITS,
        error: within(1, 1, 1),
        ..WITH_MATRIX
    },
];

const TRAINED_IN_FOUR_BITS: &[RecipeRow] =
    &[row(&["UD-Q4_K_XL"], FileType::Q8_0, &[]), row(&["UD-Q8_K_XL"], FileType::Bf16, &[])];

/// The recipe with this name.
pub fn named(name: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.name == name)
}

/// What a packager does with a model of which no file is known, by its tensors.
pub fn usual(packager: Packager, model: &Model) -> Option<&'static Recipe> {
    let has_delta = model.header.tensors.iter().any(|tensor| tensor.name.ends_with("ssm_alpha.weight"));
    named(match packager {
        Packager::Bartowski if model.hyper.experts.is_some() => "not-known",
        Packager::Bartowski => "bartowski",
        Packager::Mradermacher | Packager::GgmlOrg => "static",
        Packager::Unsloth if model.hyper.experts.is_some() => "unsloth-experts",
        Packager::Unsloth if has_delta => "unsloth-delta",
        Packager::Unsloth => "unsloth",
    })
}

impl Recipe {
    /// Whether it is for experts that are trained in 4 bits.
    pub const fn has_own_experts(&self) -> bool {
        self.experts.is_some()
    }

    /// Whether it is for experts that are trained in MXFP4.
    pub fn trains_in_mxfp4(&self) -> bool {
        self.experts.is_some_and(|experts| experts.ty == GgmlType::Mxfp4)
    }

    /// Whether experts are trained in a type that files of this name keep.
    pub fn keeps_experts(&self, name: Quantisation) -> bool {
        let bits = quantise::bits(name.nearest());
        // llama.cpp's converter writes integers of 4 bits as floats where a file of floats is asked for, but never MXFP4
        let is_float = |experts: Experts| bits >= 16.0 && experts.ty != Mxfp4;
        let keeps = |experts: Experts| experts.always || self.row(name).is_some() || bits >= 4.0 && !is_float(experts);
        self.experts.is_some_and(keeps)
    }

    /// Whether it says the type of every tensor of a file with this name.
    pub fn knows(&self, name: Quantisation) -> bool {
        let plain = name.name().parse::<FileType>();
        // who has an importance matrix makes these by a recipe too
        let is_plain = plain.is_ok_and(|plain| plain != FileType::Mxfp4 || !self.importance || self.experts.is_some());
        let is_plain = is_plain && (self.experts.is_none() || self.keeps_experts(name));
        // no importance matrix decides what these are
        let is_wide = quantise::bits(name.nearest()) >= 8.0;
        self.row(name).is_some() && self.is_known || is_plain && (self.is_known || is_wide)
    }

    fn row(&self, name: Quantisation) -> Option<&'static RecipeRow> {
        self.rows.iter().find(|row| row.names.contains(&name.name()))
    }

    /// How the tensors of `model` are quantised for `name`; as the nearest file type where the recipe does not know it.
    pub(in crate::model) fn method<'m>(&'static self, name: Quantisation, model: &'m Model) -> Method<'m> {
        let row = self.row(name);
        let base = row.map_or_else(|| name.nearest(), |row| row.base);
        let experts = self.experts.filter(|_| self.keeps_experts(name)).map(|experts| experts.ty);
        let rules = row.map_or(&[][..], |row| row.rules);
        // what holds for all quantised files does not for plain Q8_0 and wider ones
        let always = if row.is_some() { self.always } else { &[] };
        let tables = if quantise::bits(base) < 16.0 { self.tables } else { &[] };
        let tied = model.tensor(OUTPUT).is_none();
        let other = move |tensor: &Tensor, kept: bool| {
            let is_expert = !kept && tensor.name.contains("_exps.");
            let ruled = || {
                let fits = |rule: &&TypeRule| rule.kept == kept && rule.matches(&tensor.name) && !(rule.untied && tied);
                always.iter().chain(tables).chain(rules).find(fits).map(|rule| rule.ty)
            };
            experts.filter(|_| is_expert).or_else(ruled)
        };
        Method { to: base, importance: self.importance, other: Some(Box::new(other)) }
    }
}

impl TypeRule {
    fn matches(&self, name: &str) -> bool {
        match self.part {
            // not those of blocks
            EMBEDDING | OUTPUT => name == self.part,
            part => name.contains(part),
        }
    }
}
