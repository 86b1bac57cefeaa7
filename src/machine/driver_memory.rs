//! Memory that a driver and a backend take on a GPU besides the buffers that a program prints: from `assets/gpus.toml`,
//! or as this machine really took it. No engine counts it, so it decides nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Backend, Gpu, presets};
use crate::units::Bytes;

/// Least and most that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The least.
    pub least: Bytes,
    /// The most.
    pub most: Bytes,
}

/// What a driver and a backend take on one GPU. Nothing of it is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DriverMemory {
    /// The backend.
    pub backend: Backend,
    /// After the load.
    pub loaded: Span,
    /// Further memory after the first prompt, at most, where a backend grows.
    pub first_prompt: Option<FirstPrompt>,
    /// How it is known.
    #[serde(flatten)]
    pub basis: Basis,
}

/// Further memory at the first prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FirstPrompt {
    /// For a model without experts.
    pub dense: Bytes,
    /// For a model with experts.
    pub experts: Bytes,
}

/// How a figure is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "basis", rename_all = "lowercase")]
pub enum Basis {
    /// Measured on this machine and remembered.
    Remembered,
    /// Seen by others.
    Seen {
        /// The card it was seen on.
        on: &'static str,
        /// Where.
        source: &'static str,
    },
    /// A flat figure: nothing is known of this card.
    Assumed,
}

/// A context of CUDA or HIP on a card of which nothing is known. It depends on card and driver.
const FLAT: Bytes = Bytes::mib(350);

/// A row of `assets/gpus.toml`; sizes in MiB.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriverRow {
    backend: Backend,
    /// Presets that it stands for; absent: every card of the backend.
    cards: Option<Vec<String>>,
    loaded: (u64, u64),
    /// Of a dense model, and of one with experts.
    first_prompt: Option<(u64, u64)>,
    on: String,
    source: String,
}

impl Span {
    fn mib((least, most): (u64, u64)) -> Self {
        Self { least: Bytes::mib(least), most: Bytes::mib(most) }
    }
}

impl DriverMemory {
    /// What is known for `gpu`; none for a backend of which nothing is.
    pub fn of(gpu: &Gpu) -> Option<Self> {
        let backend = gpu.backend;
        let rows = || presets::drivers().iter().filter(move |row| row.backend == backend);
        let first_prompt = rows().find_map(DriverRow::first_prompt);
        if let Some(bytes) = gpu.driver_memory {
            let loaded = Span { least: bytes, most: bytes };
            return Some(Self { backend, loaded, first_prompt, basis: Basis::Remembered });
        }
        let named = presets::of_gpu(&gpu.name, gpu.total).map(|preset| preset.name.as_str());
        let found = rows().find(|row| match &row.cards {
            Some(cards) => cards.iter().any(|card| Some(card.as_str()) == named),
            None => true,
        });
        let seen = found.map(|row| Self {
            backend,
            loaded: Span::mib(row.loaded),
            first_prompt,
            basis: Basis::Seen { on: &row.on, source: &row.source },
        });
        let flat = |bytes| Span { least: bytes, most: bytes };
        seen.or_else(|| Some(Self { backend, loaded: flat(self::flat(backend)?), first_prompt, basis: Basis::Assumed }))
    }

    /// All that may be taken, at the first prompt at the latest.
    pub fn most(&self, has_experts: bool) -> Bytes {
        self.loaded.most + self.first_prompt(has_experts)
    }

    /// What may be taken in addition at the first prompt.
    pub fn first_prompt(&self, has_experts: bool) -> Bytes {
        let of = |growth: FirstPrompt| if has_experts { growth.experts } else { growth.dense };
        self.first_prompt.map_or(Bytes::ZERO, of)
    }

    /// How it is known, as the end of a sentence.
    pub fn known_from(&self) -> String {
        match self.basis {
            Basis::Remembered => "as measured on this machine".to_owned(),
            Basis::Seen { on, .. } => format!("as seen on {on}"),
            Basis::Assumed => "assumed".to_owned(),
        }
    }
}

impl DriverRow {
    fn first_prompt(&self) -> Option<FirstPrompt> {
        self.first_prompt.map(|(dense, experts)| FirstPrompt { dense: Bytes::mib(dense), experts: Bytes::mib(experts) })
    }
}

/// The figure for cards of which nothing is known; none where nothing is known of the backend either.
pub const fn flat(backend: Backend) -> Option<Bytes> {
    match backend {
        Backend::Cuda | Backend::Rocm | Backend::Plain => Some(FLAT),
        Backend::Metal | Backend::Vulkan | Backend::Sycl => None,
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most { self.most.fmt(f) } else { write!(f, "{} to {}", self.least, self.most) }
    }
}

/// `CUDA context, assumed 350 MiB`, `besides buffers CUDA takes 451 MiB to 456 MiB, as seen on an RTX 4090`.
impl fmt::Display for DriverMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.backend.name();
        match self.basis {
            Basis::Assumed => write!(f, "{name} context, assumed {}", self.loaded)?,
            _ if self.loaded.most == Bytes::ZERO => {
                write!(f, "{name} takes nothing besides buffers, {}", self.known_from())?;
            }
            _ => write!(f, "besides buffers {name} takes {}, {}", self.loaded, self.known_from())?,
        }
        match self.first_prompt {
            Some(FirstPrompt { dense, experts }) => {
                write!(f, "; at the first prompt up to {dense} more, or {experts} with experts")
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::spec::MachineSpec;

    fn gpu(text: &str) -> Gpu {
        MachineSpec::read(&[text.to_owned()], None).unwrap().gpus.unwrap().remove(0)
    }

    fn words(text: &str) -> Option<String> {
        DriverMemory::of(&gpu(text)).map(|memory| memory.to_string())
    }

    #[test]
    fn a_card_that_was_seen_has_its_own_figure_and_others_the_flat_one() {
        assert_eq!(words("24GiB").as_deref(), Some("CUDA context, assumed 350 MiB"));
        assert_eq!(words("RTX 3060").as_deref(), Some("CUDA context, assumed 350 MiB"));
        let seen = "besides buffers CUDA takes 451 MiB to 456 MiB, as seen on an RTX 4090";
        assert_eq!(words("RTX 4090").as_deref(), Some(seen));
        assert_eq!(words("total=24GiB,backend=SYCL"), None);
        let metal = "Metal takes nothing besides buffers, as seen on an M5";
        assert_eq!(words("total=24GiB,backend=Metal").as_deref(), Some(metal));
    }

    #[test]
    fn a_backend_that_grows_says_what_the_first_prompt_may_take() {
        let memory = DriverMemory::of(&gpu("total=24GiB,backend=Vulkan")).unwrap();
        assert_eq!(memory.most(false), Bytes::mib(32 + 191));
        assert_eq!(memory.most(true), Bytes::mib(32 + 1872));
        assert!(memory.to_string().contains("at the first prompt up to 191 MiB more"), "{memory}");
    }

    #[test]
    fn what_this_machine_took_stands_over_the_table() {
        let gpu = Gpu { driver_memory: Some(Bytes::mib(410)), ..gpu("RTX 4090") };
        let memory = DriverMemory::of(&gpu).unwrap();
        assert_eq!(memory.to_string(), "besides buffers CUDA takes 410 MiB, as measured on this machine");
    }
}
