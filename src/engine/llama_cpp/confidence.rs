//! How sure the figures are: exact only where they were compared with what llama.cpp's own backends decide.

use std::fmt;

use crate::engine::llama_cpp::architecture::Compared;
use crate::engine::llama_cpp::release::ReleaseTraits;
use crate::engine::llama_cpp::{LoadedModel, PreparedModel};
use crate::machine::budget::VulkanLimits;
use crate::machine::{Backend, Gpu, Os};
use crate::plan::{Confidence, Uncertainty};
use crate::settings::{Build, NearestRelease, Release};

/// How a backend's decisions are known. The comparisons are in `tests/llama_cpp/BACKEND`, and a test there checks that
/// every measured backend was compared for the release and all architectures that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Compared with what the backend's own code decides.
    Measured,
    /// Its source was read and compared with what its host code decides; there is no log of such a device yet.
    Read,
    /// Only sizes and alignment follow its source.
    Partly,
    /// What another release does is taken for it.
    TakenFrom(Release),
}

/// How the decisions of `backend` in a release are known.
pub fn evidence(backend: Backend, release: &ReleaseTraits) -> Evidence {
    match (backend, release.backends_from) {
        (Backend::Sycl, _) => Evidence::Partly,
        // ROCm is the same code as CUDA
        (Backend::Plain, _) | (Backend::Cuda | Backend::Rocm, None) => Evidence::Measured,
        (_, Some(other)) => Evidence::TakenFrom(other),
        (Backend::Vulkan, None) if release.vulkan.compared => Evidence::Measured,
        (Backend::Vulkan | Backend::Metal, None) => Evidence::Read,
    }
}

/// Why the figures of a plan of `model` as loaded, with these GPUs, are not exact; empty if they are.
pub fn uncertainties<'g>(
    model: &PreparedModel,
    loaded: &LoadedModel,
    llama_cpp: NearestRelease,
    os: Os,
    gpus: impl Iterator<Item = &'g Gpu>,
) -> Vec<Uncertainty> {
    let LoadedModel { family, release, .. } = loaded;
    let (architecture, build) = (&model.architecture, llama_cpp.llama_cpp());
    let mut found: Vec<Uncertainty> = refused(model, loaded, "this file").into_iter().collect();
    if build > Build::NEWEST_MEASURED {
        let newest = Build::NEWEST_MEASURED;
        let reason = format!("{llama_cpp} is newer than {newest}, the newest build that was measured");
        found.push(Uncertainty { confidence: Confidence::Modelled, reason });
    }
    if !family.exact {
        let likeness = Likeness::of(loaded);
        found.push(Uncertainty {
            confidence: Confidence::Modelled,
            reason: format!(
                "the graph of {architecture} is not known: judging by its tensors, it is modelled as that of {likeness}; {}",
                likeness.error()
            ),
        });
    }
    let gpus: Vec<&Gpu> = gpus.collect();
    let compared = |gpu: &&Gpu| matches!(gpu.backend, Backend::Plain | Backend::Cuda | Backend::Rocm);
    if let Compared::OnCuda(since) = family.architecture.compared
        && !(build >= since.build() && gpus.iter().all(compared))
    {
        let releases = Release::ALL.into_iter().filter(|release| release.is_from(since));
        let releases: Vec<&str> = releases.map(Release::name).collect();
        found.push(Uncertainty {
            confidence: Confidence::Modelled,
            reason: format!(
                "the graph of {architecture} was compared for release {} on CUDA only",
                releases.join(" and ")
            ),
        });
    }
    if let Some(last) = family.architecture.known_until.filter(|last| build > *last) {
        found.push(Uncertainty {
            confidence: Confidence::Modelled,
            reason: format!("the graph of {architecture} changed after {last}, and is not known for {llama_cpp}"),
        });
    }
    if family.exact && build < family.architecture.compared_since.build() {
        found.push(Uncertainty {
            confidence: Confidence::Modelled,
            reason: format!("the graph of {architecture} was not compared for {llama_cpp}"),
        });
    }
    let mut remote = Vec::new();
    for gpu in gpus {
        let known = match evidence(gpu.backend, release) {
            Evidence::Measured if gpu.backend == Backend::Vulkan => guessed_limits(gpu, os),
            Evidence::Measured => None,
            Evidence::Read => Some(Uncertainty {
                confidence: Confidence::Modelled,
                reason: format!(
                    "what {} does besides was read from the source of release {}: there is no log to check it by yet",
                    gpu.backend.name(),
                    release.name
                ),
            }),
            Evidence::TakenFrom(other) => Some(Uncertainty {
                confidence: Confidence::Modelled,
                reason: format!(
                    "release {} was compared on a simulated card only: what {} does besides is taken from release {other}",
                    release.name,
                    gpu.backend.name()
                ),
            }),
            Evidence::Partly => Some(Uncertainty {
                confidence: Confidence::Assumed,
                reason: format!(
                    "buffer sizes for {} follow its source code; what it needs besides was seen on one card only",
                    gpu.backend.name()
                ),
            }),
        };
        found.extend(known.filter(|known| !found.contains(known)));
        remote.extend(gpu.computer.clone().filter(|computer| !remote.contains(computer)));
    }
    if !remote.is_empty() {
        found.push(Uncertainty {
            confidence: Confidence::Modelled,
            reason: format!(
                "over RPC the first layers are on {}, the rest is local; sizes there are modelled, and network time is \
                 not included",
                remote.join(", ")
            ),
        });
    }
    found
}

/// No figure of a file that llama.cpp does not load can be compared with it.
fn refused(model: &PreparedModel, loaded: &LoadedModel, what: &str) -> Option<Uncertainty> {
    let reason = model.refused_as(what, loaded)?;
    Some(Uncertainty { confidence: Confidence::Modelled, reason })
}

/// Why the figures of a draft, `model` as loaded, are not exact.
pub fn of_draft(model: &PreparedModel, draft: &LoadedModel) -> Option<Uncertainty> {
    if let Some(refused) = refused(model, draft, "the draft's file") {
        return Some(refused);
    }
    let reason = if draft.hparams.draft.selector_top_k > 0 {
        "the convolutions and the selector of DFlash 2 are not counted in the draft's graph"
    } else if !draft.family.exact {
        let likeness = Likeness::of(draft);
        let error = likeness.error();
        &format!(
            "the draft's graph is not known: judging by its tensors, it is modelled as that of {likeness}; {error}"
        )
    } else {
        return None;
    };
    Some(Uncertainty { confidence: Confidence::Modelled, reason: reason.to_owned() })
}

/// A Vulkan device of an unknown maker.
fn guessed_limits(gpu: &Gpu, os: Os) -> Option<Uncertainty> {
    let (_, driver, guessed) = VulkanLimits::of(gpu, os);
    guessed.then(|| Uncertainty {
        confidence: Confidence::Assumed,
        reason: format!(
            "the Vulkan limits of {} are not known: those of {driver} are assumed; align=, host-align=, max-tensor= and \
             max-buffer= state them",
            gpu.name
        ),
    })
}

// What the graph of an architecture that no list knows is modelled on, and how far such answers were off.

/// The kind of graph that the file's tensors resemble most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Likeness {
    /// Ordinary attention and a dense feed-forward part.
    Dense,
    /// Ordinary attention and experts.
    Experts,
    /// Compressed attention.
    Compressed,
    /// Some blocks keep a recurrent state.
    Recurrent,
}

/// How far answers were off where they could be measured: architectures whose graph is known now, modelled as if it were
/// not, against what llama.cpp measured of miniatures, whose caches and buffers weigh more than those of real models.
/// `tests/llama_cpp/unlisted.rs` compares them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelledError {
    /// Plans that were exact, in percent, at least.
    pub exact: u64,
    /// Half of the plans were no further off than this, in percent of all memory.
    pub half_within: f64,
    /// Nine of ten were no further off than this.
    pub most_within: f64,
}

impl Likeness {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Dense, Self::Experts, Self::Compressed, Self::Recurrent];

    /// What an unlisted model is modelled on.
    pub fn of(loaded: &LoadedModel) -> Self {
        let hparams = &loaded.hparams;
        if hparams.is_recr.contains(&true) {
            Self::Recurrent
        } else if hparams.mla.is_some() {
            Self::Compressed
        } else if hparams.n_expert > 0 {
            Self::Experts
        } else {
            Self::Dense
        }
    }

    /// How far such answers were off.
    pub const fn error(self) -> ModelledError {
        match self {
            Self::Dense => ModelledError { exact: 25, half_within: 1.2, most_within: 70.0 },
            Self::Experts => ModelledError { exact: 20, half_within: 7.5, most_within: 70.0 },
            Self::Compressed => ModelledError { exact: 0, half_within: 22.0, most_within: 90.0 },
            Self::Recurrent => ModelledError { exact: 0, half_within: 6.0, most_within: 40.0 },
        }
    }
}

/// The family: `a transformer with experts, like Qwen 3 MoE`.
impl fmt::Display for Likeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dense => "a transformer like Llama",
            Self::Experts => "a transformer with experts, like Qwen 3 MoE",
            Self::Compressed => "a transformer with compressed attention, like DeepSeek 2",
            Self::Recurrent => "a model with recurrent states, like Mamba",
        })
    }
}

/// `where it could be measured, half of such plans were within 6 % of what llama.cpp takes, nine of ten within 70 %, …`
impl fmt::Display for ModelledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exact, half_within, most_within } = self;
        write!(
            f,
            "where it could be measured, on miniatures, half of such plans were within {half_within} % of what llama.cpp \
             takes, nine of ten within {most_within} %"
        )?;
        match exact {
            0 => f.write_str(", and hardly any was exact"),
            _ => write!(f, ", and over {exact} % were exact"),
        }
    }
}
