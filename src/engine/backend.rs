//! The rules of each backend that plans depend on, in one table, with the source of every value.

use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::budget::flat_driver_memory;
use crate::machine::{Backend, Gpu};
use crate::plan::Confidence;
use crate::units::Bytes;

/// What differs between backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendRules {
    /// The backend.
    pub backend: Backend,
    /// Buffer alignment; none if each device reports its own.
    pub alignment: Option<Bytes>,
    /// CPU and GPU always share one memory.
    pub unified: bool,
    /// A model split between GPU and CPU needs no larger graph than a fully offloaded one (Ollama up to 0.24).
    pub partial_is_full: bool,
    /// Subtracted from every GPU's free memory before layers are placed (Ollama up to 0.24).
    pub minimum: Bytes,
    /// The same for Ollama up to 0.11.
    pub minimum_ollama_011: Bytes,
    /// Flash attention support in Ollama up to 0.11.
    pub flash_ollama_011: FlashSupport,
    /// Flash attention support in Ollama up to 0.24.
    pub flash_ollama_024: FlashSupport,
    /// Flash attention support in Ollama from 0.30.
    pub flash_ollama: FlashSupport,
}

/// Which GPUs of a backend have flash attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashSupport {
    /// All of them.
    Always,
    /// None.
    Never,
    /// GPUs with at least CUDA major version `driver` and compute capability `compute`, except capability `except`.
    /// Unknown values count as sufficient.
    Cuda {
        /// Minimum CUDA major version of the driver.
        driver: u32,
        /// Minimum compute capability.
        compute: (u32, u32),
        /// An unsupported compute capability.
        except: Option<(u32, u32)>,
    },
}

impl FlashSupport {
    /// Whether `gpu` supports flash attention.
    pub fn supports(self, gpu: &Gpu) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Cuda { driver, compute, except } => {
                gpu.driver_major.is_none_or(|major| major >= driver)
                    && gpu.compute.is_none_or(|found| found >= compute && Some(found) != except)
            }
        }
    }
}

const CUDA: BackendRules = BackendRules {
    backend: Backend::Cuda,
    alignment: Some(Bytes(128)),
    unified: false,
    partial_is_full: false,
    minimum: Bytes::mib(457),
    minimum_ollama_011: Bytes::mib(457),
    flash_ollama_011: FlashSupport::Cuda { driver: 7, compute: (0, 0), except: None },
    flash_ollama_024: FlashSupport::Cuda { driver: 7, compute: (0, 0), except: Some((7, 2)) },
    flash_ollama: FlashSupport::Cuda { driver: 0, compute: (6, 0), except: Some((7, 2)) },
};

const OTHER: BackendRules = BackendRules {
    flash_ollama_011: FlashSupport::Always,
    flash_ollama_024: FlashSupport::Always,
    flash_ollama: FlashSupport::Always,
    ..CUDA
};

/// The rules of all backends, in the order of [`Backend::ALL`].
pub const TABLE: [BackendRules; 5] = [
    CUDA,
    BackendRules { backend: Backend::Rocm, ..OTHER },
    BackendRules {
        backend: Backend::Metal,
        alignment: Some(Bytes(32)),
        unified: true,
        partial_is_full: true,
        minimum: Bytes::mib(512),
        minimum_ollama_011: Bytes::mib(512),
        ..OTHER
    },
    BackendRules {
        backend: Backend::Vulkan,
        alignment: None,
        minimum_ollama_011: Bytes::ZERO,
        flash_ollama_011: FlashSupport::Never,
        ..OTHER
    },
    BackendRules {
        backend: Backend::Sycl,
        minimum_ollama_011: Bytes::ZERO,
        flash_ollama_011: FlashSupport::Never,
        flash_ollama_024: FlashSupport::Never,
        ..OTHER
    },
];

/// The rules of `backend`.
pub const fn of(backend: Backend) -> &'static BackendRules {
    match backend {
        Backend::Cuda | Backend::Plain => &TABLE[0],
        Backend::Rocm => &TABLE[1],
        Backend::Metal => &TABLE[2],
        Backend::Vulkan => &TABLE[3],
        Backend::Sycl => &TABLE[4],
    }
}

/// Whether `gpu` gets layers only after the others, because it shares memory with the CPU.
/// Source: `ml/device.go`, `ByFreeMemory` and `llm/server.go`, `buildLayout`, Ollama, May 2026.
pub const fn is_placed_last(gpu: &Gpu) -> bool {
    gpu.integrated
}

/// One rule as text, with its source.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct BackendFact {
    /// `alignment`
    pub what: &'static str,
    /// `128 B`
    pub value: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// Upstream file and version.
    pub source: &'static str,
}

impl BackendRules {
    /// All rules as text.
    pub fn facts(&self) -> Vec<BackendFact> {
        let exact = |what, value: String, source| BackendFact { what, value, confidence: Confidence::Exact, source };
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let mut facts = vec![
            exact(
                "alignment",
                self.alignment.map_or_else(|| "as the device reports".to_owned(), |bytes| bytes.to_string()),
                match self.backend {
                    Backend::Metal => "ggml-metal.cpp, get_alignment, llama.cpp 2026-11",
                    Backend::Vulkan => "ggml-vulkan, minStorageBufferOffsetAlignment, llama.cpp 2026-11",
                    Backend::Sycl => "ggml-sycl.cpp, get_alignment, llama.cpp 2026-11",
                    Backend::Cuda | Backend::Rocm | Backend::Plain => "ggml-cuda.cu, get_alignment, llama.cpp 2026-11",
                },
            ),
            exact("unified memory", yes(self.unified), "ggml-metal-device.m, llama.cpp 2026-11"),
            exact(
                "larger compute buffer for a split model",
                yes(!self.partial_is_full),
                "llm/server.go, Ollama, May 2026",
            ),
            exact(
                "integrated GPUs",
                "filled after the others".to_owned(),
                "ml/device.go, ByFreeMemory, Ollama, May 2026",
            ),
            exact("minimum memory", self.minimum.to_string(), "ml/device.go, MinimumMemory, Ollama, May 2026"),
            exact(
                "minimum memory, Ollama up to 0.11",
                self.minimum_ollama_011.to_string(),
                "discover, cudaMinimumMemory, rocmMinimumMemory and metalMinimumMemory, Ollama, August 2025",
            ),
            exact(
                "flash attention, Ollama up to 0.11",
                self.flash_ollama_011.to_string(),
                "discover/types.go, FlashAttentionSupported, Ollama, August 2025",
            ),
            exact(
                "flash attention",
                self.flash_ollama_024.to_string(),
                "ml/device.go, FlashAttentionSupported, Ollama, May 2026",
            ),
            exact(
                "flash attention, Ollama from 0.30",
                self.flash_ollama.to_string(),
                "ml/device.go, FlashAttentionSupported, Ollama, August 2026",
            ),
        ];
        facts.extend(flat_driver_memory(self.backend).map(|bytes| BackendFact {
            what: "context",
            value: bytes.to_string(),
            confidence: Confidence::Assumed,
            source: "no upstream figure: it depends on card and driver; assets/gpus.toml has what was seen",
        }));
        facts
    }
}

impl std::fmt::Display for FlashSupport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Cuda { driver, compute, except } = *self else {
            return f.pad(if *self == Self::Always { "yes" } else { "no" });
        };
        let driver = (driver > 0).then(|| format!("with CUDA {driver} or newer"));
        let least = (compute > (0, 0)).then(|| format!("from compute capability {}.{}", compute.0, compute.1));
        let except = except.map(|(major, minor)| format!("not with compute capability {major}.{minor}"));
        let parts: Vec<String> = [driver, least, except].into_iter().flatten().collect();
        f.pad(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn every_backend_has_its_row() {
        for backend in Backend::ALL {
            assert_eq!(of(backend).backend, backend);
            let facts = of(backend).facts();
            assert!(facts.len() >= 7 && facts.iter().all(|fact| !fact.value.is_empty() && !fact.source.is_empty()));
        }
    }

    #[rstest]
    #[case(None, None, true, true)]
    #[case(Some((8, 6)), Some(12), true, true)]
    #[case(Some((7, 2)), Some(12), false, false)]
    #[case(Some((5, 2)), Some(12), true, false)]
    #[case(Some((8, 6)), Some(6), false, true)]
    fn flash_attention_depends_on_capability_and_driver(
        #[case] compute: Option<(u32, u32)>,
        #[case] driver_major: Option<u32>,
        #[case] until_024: bool,
        #[case] from_030: bool,
    ) {
        let gpu = Gpu {
            name: "a GPU".to_owned(),
            backend: Backend::Cuda,
            total: Bytes::gib(8),
            free: Bytes::gib(8),
            integrated: false,
            compute,
            driver_major,
            computer: None,
            vulkan: None,
            listed: crate::machine::Listed::default(),
            dedicated: None,
            driver_memory: None,
            display: None,
            link: None,
        };
        let rules = of(Backend::Cuda);
        assert_eq!((rules.flash_ollama_024.supports(&gpu), rules.flash_ollama.supports(&gpu)), (until_024, from_030));
        assert!(of(Backend::Metal).flash_ollama_024.supports(&gpu));
        assert!(!of(Backend::Sycl).flash_ollama_024.supports(&gpu));
    }
}
