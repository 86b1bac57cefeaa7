//! The formulas of Ollama's estimators by architecture, and the names that its releases know.
//!
//! To add an architecture's formula: a row in [`GRAPHS`], in the letters of [`Letter`]; if its cache has a rule of its
//! own, a line in [`cache`]; if it counts images, a row in [`VISION`]. Both releases read these rows.
//!
//! Sources: `fs/ggml/ggml.go` (`GraphSize`, `VisionGraphSize`, `OllamaEngineRequired`, `FlashAttention`),
//! `llm/server.go`, `server/sched.go` and `llama/llama.cpp/src/llama-arch.cpp`, Ollama, August 2025 (0.11.11) and May
//! 2026 (0.24.0).

use super::formulas::{BranchRule, Expr, GraphRule, Letter, TermRule, branch, expr, graph};
use super::header::OllamaRelease;

/// The two graph sizes of some architectures.
pub(super) struct GraphRow {
    pub architectures: &'static [&'static str],
    /// Only with flash attention, in the newer release.
    pub flash: bool,
    /// If some layers are in RAM.
    pub partial: GraphRule,
    /// If all layers are on GPUs.
    pub full: GraphRule,
}

impl GraphRow {
    /// Every letter in its formulas.
    pub fn letters(&self) -> Vec<Letter> {
        [self.partial.letters(), self.full.letters()].concat()
    }
}

const fn row(architectures: &'static [&'static str], partial: GraphRule, full: GraphRule) -> GraphRow {
    GraphRow { architectures, flash: false, partial, full }
}

/// The output layer on a GPU.
const LOGITS: BranchRule = branch!(["logits": "activations" (4 B E), "logits" (4 B V)]);

/// The output layer with dequantised weights: 105/128 bytes per weight, as for `Q6_K`.
const LOGITS_DEQUANTISED: BranchRule = branch!(["logits":
    "activations" (4 B E), "logits" (4 B V), "dequantised output weights" ((105 E V) / 128)]);

const GEMMA: BranchRule = branch!(["attention": "positions" (4 B 2), "attention mask" (4 B C),
    "attention scores" (4 B C H), "activations" (4 B 2 E), "queries" (4 B 2 Dk H)]);

const GEMMA_PARTIAL: BranchRule = branch!(["attention": "activations" (4 B 2 E), "positions" (4 B),
    "queries" (4 B 2 Dk H), "attention mask" (4 B C), "attention scores" (4 B C H),
    "keys of the context" (4 Dk C 8), "dequantised attention weights" ((9 E Dk H) / 16)]);

const LLAMA: BranchRule = branch!(["attention": "positions" (4 B), "activations" (4 B 4 E),
    "attention mask" (4 B C), "attention scores" (4 B C H)]);

const STABLELM: BranchRule = branch!(["attention": "attention mask" (4 B C), "attention scores" (4 B C H),
    "activations" (4 B 3 E), "positions" (4 B 2)]);

/// The graphs: the first row with the architecture and with letters that the file has; partial before full.
#[rustfmt::skip]
pub(super) static GRAPHS: &[GraphRow] = &[
    // Mixtral 8x22B, with its experts in one tensor
    row(&["llama", "llama4"],
        graph!(
            ["experts": "expert weights" (3 Wgate), "feed-forward activations" (4 B 2 Ff), "KV heads" (4 B Hkv),
                "activations" (4 B E), "attention mask" (4 B C), "keys of the batch" (4 B D Hkv)]
            ["attention": "attention scores" (4 B C H), "keys of the context" (4 C D Hkv), "routing" (4 B 1024),
                "keys of the batch" (4 D Hkv B)]),
        graph!(LLAMA LOGITS)),
    // Mixtral 8x7B, with one tensor per expert
    row(&["llama", "llama4"],
        graph!(
            ["experts": "positions" (4 B 3), "keys of the batch" (4 B D Hkv), "activations" (4 B E),
                "attention mask" (4 B C), "attention scores" (4 B C H), "feed-forward activations" (4 B Wdim),
                "dequantised expert weights" ((9 ((E E) + (3 E Hkv Wdim))) / 16)]
            ["attention": "positions" (4 B), "activations" (4 B 2 E), "attention mask" (4 B C),
                "attention scores" (4 B C H), "keys of the context" (E ((6 C Hkv) / H)),
                "dequantised attention weights" (E ((9 E) / 16))]),
        graph!(
            ["experts": "positions" (4 B 2), "activations" (4 B 3 E), "attention mask" (4 B C),
                "attention scores" (4 B C H), "KV heads" (4 B 2 Hkv), "feed-forward activations" (4 B Wdim)])),
    // the others, including Mistral
    row(&["llama", "llama4"],
        GraphRule { always: &[TermRule { name: "input embeddings", bytes: expr!(4 B E) }], ..graph!(
            ["attention": "positions" (4 B), "activations" (4 B E), "attention mask or activations" (4 B (max C E)),
                "dequantised attention weights" ((9 E E) / 16), "attention scores" (4 B C H),
                "keys of the context" (4 C D Hkv)]
            LOGITS_DEQUANTISED) },
        graph!(LLAMA LOGITS)),
    row(&["mllama"],
        graph!(
            ["attention": "activations" (4 B 2 E), "positions" (4 B), "attention mask" (4 B C),
                "attention scores" (4 B C H), "queries" (4 B Dk H), "RoPE frequencies" (4 Rfreq),
                "keys of the context" (4 Dk C Hkv)]
            LOGITS_DEQUANTISED),
        graph!(
            ["attention": "positions" (4 B 2), "activations" (4 B 3 E), "queries" (4 B Dk H),
                "attention mask" (4 B C), "attention scores" (4 B C H)]
            LOGITS)),
    row(&["gemma", "gemma2", "gemma3"], graph!(LOGITS_DEQUANTISED GEMMA_PARTIAL), graph!(LOGITS GEMMA)),
    row(&["gemma3n"],
        GraphRule { times: 4, ..graph!(LOGITS_DEQUANTISED GEMMA_PARTIAL) },
        GraphRule { times: 4, ..graph!(LOGITS GEMMA) }),
    row(&["command-r"],
        graph!(LOGITS_DEQUANTISED
            ["attention": "positions" (4 B), "activations" (4 B 2 E), "attention mask" (4 B C),
                "attention scores" (4 B C H), "keys of the context" (4 E C),
                "dequantised attention weights" ((9 E E) / 16)]),
        graph!(LOGITS
            ["attention": "positions" (4 B 2), "activations" (4 B 4 E), "attention mask" (4 B C),
                "attention scores" (4 B C H)])),
    row(&["qwen2"],
        graph!(LOGITS_DEQUANTISED
            ["attention": "positions" (4 B), "activations" (4 B 2 E), "attention mask" (4 B C),
                "attention scores" (4 B C H), "one embedding" (4 E), "keys of the context" (4 E C)]),
        graph!(LOGITS
            ["attention": "positions" (4 B), "activations" (4 B 2 E), "attention mask" (4 B C),
                "attention scores" (4 B C H)])),
    row(&["phi2"],
        graph!(
            ["logits": "activations" (4 B 2 E), "logits" (4 B V), "dequantised output weights" ((105 E V) / 128)]
            ["attention": "positions" (4 B 2), "activations" (4 B 3 E), "attention mask" (4 B C),
                "attention scores" (4 B C H)]),
        graph!(LOGITS LLAMA)),
    row(&["stablelm"],
        graph!(["logits": "logits" (4 B V), "activations" (4 B 2 E)] STABLELM),
        graph!(STABLELM)),
    row(&["deepseek2"],
        graph!(
            ["logits": "activations" (4 B 3 E), "logits" (4 B V), "dequantised output weights" ((105 E V) / 128)]
            ["attention": "activations" (4 B 2 E), "positions" (4 B), "keys of the batch" (4 B 2 Dk Hkv),
                "attention mask" (4 B C), "attention scores" (4 B C Hkv), "keys of the context" (4 Dk C Hkv),
                "dequantised attention weights" ((9 E Dk Hkv) / 16)]),
        graph!(
            ["logits": "activations" (4 B 3 E), "logits" (4 B V)]
            ["attention": "activations" (4 B 3 E), "positions" (4 B 2), "attention mask" (4 B C),
                "attention scores" (4 B C Hkv), "keys of the batch" (4 B 2 Dk Hkv)])),
    // with a bias of the fused QKV weights
    row(&["chatglm"],
        graph!(LOGITS_DEQUANTISED
            ["attention": "positions" (4 B), "activations" (4 B 2 E), "queries" (4 B Dk H), "attention mask" (4 B C),
                "attention scores" (4 B C H), "keys of the context" (4 Dk C), "values of the context" (4 C Dk),
                "bias" (4 Sbias)]),
        graph!(LOGITS
            ["attention": "positions" (4 B 2), "activations" (4 B 2 E), "attention mask" (4 B C),
                "attention scores" (4 B C H), "queries" (4 B Dk H), "biases" (4 B Sbias)])),
    row(&["chatglm"], graph!(LOGITS_DEQUANTISED), graph!(LOGITS)),
    // 1 MiB is 1048576 bytes
    GraphRow { flash: true, ..row(&["gptoss", "gpt-oss"],
        graph!(["flash attention": "per sequence" (4 Np 1_048_576),
            "1 MiB per 1024 tokens of context" ((C / 1024) 1_048_576), "constant" (110 1_048_576)]),
        graph!()) },
    row(&["gptoss", "gpt-oss"],
        graph!(["attention": "share of the cache" ((((2 H) / (max HkvMin 1)) KvUnwindowed) / 6)]),
        graph!()),
];

/// Architectures without a row.
pub(super) static OTHERS: GraphRow = row(&[], graph!(), graph!());

/// Where a row gives no bytes: a share of the cache, `llamaServer.Load` in `llm/server.go`.
pub(super) static PARTIAL_OF_OTHERS: GraphRule =
    graph!(["share of the cache": "share of the cache" (((H / (max HkvMin 1)) Kv) / 6)]);

/// What the older release counts for images, by architecture.
#[rustfmt::skip]
pub(super) static VISION: &[(&[&str], GraphRule)] = &[
    // an image is split into tiles, with attention between all patches of all tiles
    (&["mllama"], GraphRule { times: 4, ..graph!(
        ["vision": "positions" (8), "pixels" (Image Image Channels Tiles), "embeddings" (Evision Patches Tiles),
            "activations" (9 Evision Padded Tiles), "attention scores" (Padded Tiles Padded Tiles Hvision)]) }),
    (&["gemma3", "mistral3"], GraphRule { times: 4, ..graph!(
        ["vision": "pixels" (Image Image Channels), "embeddings" (Evision Patch),
            "attention scores" (Patches Patches Hvision)]) }),
    // by the number of pixels of the largest image
    (&["qwen25vl"], GraphRule { times: 4, ..graph!(
        ["vision": "pixels" (Pixels Channels), "normalised pixels" (Pixels Channels),
            "patches" (Patches Channels Patch Patch), "attention scores" (Patches Patches Hvision),
            "embeddings" (Evision Patches)]) }),
];

macro_rules! caches {
    ($($(#[$doc:meta])* $name:ident: $title:literal $bytes:tt;)+) => {
        $($(#[$doc])* static $name: TermRule = TermRule { name: $title, bytes: expr!($bytes) };)+
    };
}

caches! {
    /// Keys and values of all tokens of the context.
    ATTENTION: "KV cache" ((C (Dk + Dv) HkvLayer) P);
    /// The older release counts every layer, including recurrent ones, with the maximum number of KV heads.
    ATTENTION_MOST_HEADS: "KV cache" ((C (Dk + Dv) Hkv) P);
    /// The state of a recurrent layer and its convolution, in f32.
    RECURRENT: "recurrent state" ((((Dconv - 1) (Dinner + (2 Ngroups Dstate))) + (Dstate Dinner)) 4);
    /// The same without a convolution.
    RECURRENT_BARE: "recurrent state" ((Dstate Dinner) 4);
    /// gemma3: five of six layers.
    SLIDING: "KV cache, sliding window" ((((Np Window) + B) (Dk + Dv) Hkv) P);
    /// mllama: cross-attention layers keep 1601 vision tokens of 4 tiles, in f32.
    CROSS_ATTENTION: "vision cache" (Hkv (Dk + Dv) 4 1601 4);
    /// gpt-oss: even layers, with a window assumed to be 4096 tokens per sequence plus one batch.
    GPTOSS_EVEN: "KV cache, sliding window" ((((Dk + Dv) Hkv) P) ((Np 4096) + B));
    GPTOSS_ODD: "KV cache" ((((Dk + Dv) Hkv) P) C);
}

/// gemma3: one of six layers has full attention.
pub(super) const GEMMA3_GLOBAL_EVERY: usize = 6;

/// The cache of a block by the rule of its architecture, if that has one; `cross` layers see images.
pub(super) fn cache(architecture: &str, block: usize, cross: &[i32]) -> Option<&'static TermRule> {
    match architecture {
        "gemma3" if !(block + 1).is_multiple_of(GEMMA3_GLOBAL_EVERY) => Some(&SLIDING),
        "mllama" if cross.iter().any(|&layer| usize::try_from(layer) == Ok(block)) => Some(&CROSS_ATTENTION),
        "gptoss" | "gpt-oss" if block.is_multiple_of(2) => Some(&GPTOSS_EVEN),
        "gptoss" | "gpt-oss" => Some(&GPTOSS_ODD),
        _ => None,
    }
}

/// The cache of a block by the generic rule: in the newer release, one without heads is recurrent.
pub(super) fn generic_cache(release: OllamaRelease, heads: bool, convolution: bool) -> &'static TermRule {
    match (release, heads, convolution) {
        (OllamaRelease::August2025, ..) => &ATTENTION_MOST_HEADS,
        (_, true, _) => &ATTENTION,
        (_, false, true) => &RECURRENT,
        (_, false, false) => &RECURRENT_BARE,
    }
}

/// The architectures of which a release says something: those of August 2025, and those until May 2026 besides.
pub(super) struct Names(&'static [&'static str], &'static [&'static str]);

impl Names {
    pub fn contain(&self, architecture: &str, release: OllamaRelease) -> bool {
        self.0.contains(&architecture) || (release != OllamaRelease::August2025 && self.1.contains(&architecture))
    }
}

/// Files that it loads. The estimator reads the header of any other file too, but the program refuses it before it
/// estimates (`NewLlamaServer` in `llm/server.go`).
#[rustfmt::skip]
pub(super) const LOADED: Names = Names(&[
    "arcee", "arctic", "arwkv7", "baichuan", "bailingmoe", "bert", "bitnet", "bloom", "chameleon", "chatglm",
    "codeshell", "cohere2", "command-r", "dbrx", "deci", "deepseek", "deepseek2", "dots1", "dream", "ernie4_5",
    "ernie4_5-moe", "exaone", "exaone4", "falcon", "falcon-h1", "gemma", "gemma2", "gemma3", "gemma3n", "glm4",
    "glm4moe", "gpt-oss", "gpt2", "gptj", "gptneox", "gptoss", "granite", "granitehybrid", "granitemoe", "grok",
    "hunyuan-dense", "hunyuan-moe", "internlm2", "jais", "jamba", "jina-bert-v2", "lfm2", "llada", "llama", "llama4",
    "mamba", "mamba2", "minicpm", "minicpm3", "mistral3", "mllama", "mpt", "nemotron", "neo-bert", "nomic-bert",
    "nomic-bert-moe", "olmo", "olmo2", "olmoe", "openelm", "orion", "phi2", "phi3", "phimoe", "plamo", "plamo2",
    "plm", "qwen", "qwen2", "qwen25vl", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "refact", "rwkv6", "rwkv6qwen2",
    "rwkv7", "smallthinker", "smollm3", "solar", "stablelm", "starcoder", "starcoder2", "t5", "t5encoder",
    "wavtokenizer-dec", "xverse",
], &[
    "afmoe", "apertus", "bailingmoe2", "cogvlm", "deepseekocr", "gemma-embedding", "gemma4", "glm4moelite", "glmocr",
    "grovemoe", "jina-bert-v3", "laguna", "lfm2moe", "llada-moe", "minimax-m2", "nemotron_h", "nemotron_h_moe",
    "nemotron_h_omni", "olmo3", "pangu-embedded", "qwen35", "qwen35moe", "qwen3next", "qwen3vl", "qwen3vlmoe",
    "rnd1", "seed_oss",
]);

/// Run in its own engine; the others in its llama.cpp runner.
#[rustfmt::skip]
pub(super) const OWN_ENGINE: Names = Names(&[
    "gemma3", "gemma3n", "gpt-oss", "gptoss", "llama4", "mistral3", "mllama", "qwen25vl",
], &[
    "bert", "deepseek2", "deepseekocr", "gemma4", "glm4moelite", "glmocr", "laguna", "lfm2", "lfm2moe", "nemotron_h",
    "nemotron_h_moe", "nemotron_h_omni", "nomic-bert", "olmo3", "qwen3", "qwen35", "qwen35moe", "qwen3moe",
    "qwen3next", "qwen3vl", "qwen3vlmoe",
]);

/// With flash attention by default.
#[rustfmt::skip]
pub(super) const FLASH_BY_DEFAULT: Names = Names(&[], &[
    "bert", "gemma3", "gemma4", "glm4moelite", "glmocr", "gpt-oss", "gptoss", "lfm2", "lfm2moe", "mistral3",
    "nemotron_h", "nemotron_h_moe", "nemotron_h_omni", "olmo3", "qwen3", "qwen35", "qwen35moe", "qwen3moe",
    "qwen3next", "qwen3vl", "qwen3vlmoe",
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_the_newer_release_adds_to_the_older() {
        for Names(older, newer) in [LOADED, OWN_ENGINE, FLASH_BY_DEFAULT] {
            assert!(older.is_sorted() && newer.is_sorted(), "in order");
            assert!(newer.iter().all(|name| !older.contains(name)));
        }
        for Names(older, newer) in [OWN_ENGINE, FLASH_BY_DEFAULT] {
            assert!(older.iter().chain(newer).all(|name| LOADED.contain(name, OllamaRelease::May2026)));
        }
    }

    #[test]
    fn the_rows_are_of_architectures_that_are_loaded() {
        let graphs = GRAPHS.iter().flat_map(|row| row.architectures);
        for architecture in graphs.chain(VISION.iter().flat_map(|(architectures, _)| *architectures)) {
            assert!(LOADED.contain(architecture, OllamaRelease::August2025), "{architecture}");
        }
    }
}
