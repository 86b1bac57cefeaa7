//! The architectures that Ollama's older releases load. Its estimator reads the header of any other file too, but the
//! program refuses it before it estimates (`NewLlamaServer` in `llm/server.go`).
//!
//! Sources: `llama/llama.cpp/src/llama-arch.cpp` and `OllamaEngineRequired` in `fs/ggml/ggml.go`, Ollama 0.11.11 and
//! 0.24.0.

use super::OllamaRelease;

/// Loaded by Ollama 0.11.
#[rustfmt::skip]
const IN_AUGUST_2025: &[&str] = &[
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
];

/// Loaded by Ollama 0.24 besides.
#[rustfmt::skip]
const UNTIL_MAY_2026: &[&str] = &[
    "afmoe", "apertus", "bailingmoe2", "cogvlm", "deepseekocr", "gemma-embedding", "gemma4", "glm4moelite", "glmocr",
    "grovemoe", "jina-bert-v3", "laguna", "lfm2moe", "llada-moe", "minimax-m2", "nemotron_h", "nemotron_h_moe",
    "nemotron_h_omni", "olmo3", "pangu-embedded", "qwen35", "qwen35moe", "qwen3next", "qwen3vl", "qwen3vlmoe",
    "rnd1", "seed_oss",
];

impl OllamaRelease {
    /// Whether it loads files of this architecture.
    fn loads(self, architecture: &str) -> bool {
        let early = || IN_AUGUST_2025.contains(&architecture);
        match self {
            Self::August2025 => early(),
            Self::May2026 => early() || UNTIL_MAY_2026.contains(&architecture),
            Self::August2026 => true,
        }
    }

    /// That it does not know the architecture, as one sentence; none if it does.
    pub(in crate::engine) fn too_old_for(self, architecture: &str) -> Option<String> {
        (!self.loads(architecture)).then(|| {
            format!(
                "{} does not know the architecture {architecture} and refuses such a file; this is what its estimate says",
                self.engine().title()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_says_of_newer_architectures_that_it_refuses_them() {
        let said = |release: OllamaRelease, name: &str| release.too_old_for(name);
        assert_eq!(said(OllamaRelease::August2025, "llama"), None);
        assert_eq!(said(OllamaRelease::May2026, "qwen3next"), None);
        let sentence = said(OllamaRelease::August2025, "qwen3next").unwrap();
        assert!(sentence.starts_with("Ollama ≤ 0.11 does not know the architecture qwen3next"), "{sentence}");
        assert!(said(OllamaRelease::May2026, "hy_v4").is_some() && said(OllamaRelease::May2026, "").is_some());
        assert_eq!(said(OllamaRelease::August2026, "hy_v4"), None);
    }

    #[test]
    fn what_the_older_release_loads_the_newer_one_does_too() {
        assert!(UNTIL_MAY_2026.iter().all(|name| !IN_AUGUST_2025.contains(name)));
        for names in [IN_AUGUST_2025, UNTIL_MAY_2026] {
            assert!(names.is_sorted(), "in order");
        }
    }
}
