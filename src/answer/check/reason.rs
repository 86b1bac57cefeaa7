//! Why a planned figure and an observed one differ.

use std::fmt;

use super::planned::Planned;
use super::{Aside, CheckedTerm, Compared, Part, settings};
use crate::engine::PlanRequest;
use crate::observed::{Event, FitResult, Load, Mib, Program, TablePhase};
use crate::settings::Release;

/// A reason that was tried or that the log tells. Displayed as one sentence without a full stop.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// This release agrees.
    Release(Release),
    /// It agrees with logits reserved for every token of a ubatch.
    AllOutputs,
    /// It agrees with caches of full size for sliding windows.
    FullSizeWindows,
    /// It agrees without flash attention; the program's words, if it says why.
    FlashAttentionOff(Option<String>),
    /// It agrees with an option that the log does not tell.
    Setting(String),
    /// The model that was found has caches of another shape than the file.
    OtherShape,
    /// The file mixes types differently from the model that was planned.
    Mixture,
    /// The log is of this many saved recurrent states per sequence, for a draft.
    SavedStates(u64),
    /// The plan agrees with the buffer before it was reserved anew.
    ReservedAnew(Mib),
    /// The span of a mapped file.
    MappedSpan,
    /// The plan holds no such part.
    NotPlanned(Part, CheckedTerm),
    /// The projector's file has other weights than the one that was found.
    OtherProjector,
    /// No release that is known takes this for what is beside the model.
    OtherBeside(Part),
    /// Tensors were put elsewhere by name.
    OverrideTensor,
    /// All GPUs share every layer.
    SplitMode(String),
    /// The device is on another computer, and the log does not tell its backend.
    OtherComputer,
    /// Layers are elsewhere: observed and planned on GPUs.
    Layers(u64, usize),
    /// Another program's own code.
    OtherProgram(Program),
    /// Why the plan's figure is not exact.
    Modelled(String),
    /// Settings that are not in the log, so that defaults were planned.
    Assumed(Vec<&'static str>),
    /// The load failed before it was complete.
    Failed,
    /// All devices together hold the same.
    OtherDevices,
    /// The log does not tell which layers are on GPUs.
    UntoldLayers,
    /// The table is of a trial of the fit.
    FitTrial,
    /// It agrees if what the backend needs besides results is not part of the buffer, as in older builds.
    NothingBesides,
    /// Two backends of the CPU print the same buffer each.
    TwiceOnCpu,
    /// It agrees with as many layers on each device as its caches show.
    CachesShowLayers(String),
    /// It is the sum of rows above that differ.
    RowsAbove,
    /// Ollama's estimator was another in this version, or the log names none.
    OtherEstimator(Option<String>),
    /// The build is older than every release that is known, and reserves otherwise.
    OlderBuild(Option<u64>),
    /// The file that was given has other weights than the one that was loaded.
    OtherFile,
    /// No release that is known agrees; the build in the log.
    OtherBuild(Option<u64>),
    /// Nothing that is known explains it.
    Unexplained,
    /// All of these at once.
    Together(Vec<Self>),
}

impl Reason {
    /// This one on top of others that hold already.
    pub(super) fn with(self, others: &[Self]) -> Self {
        // of two releases the later one holds
        let kept = |other: &&Self| !(matches!(self, Self::Release(_)) && matches!(other, Self::Release(_)));
        let mut all: Vec<Self> = others.iter().filter(kept).cloned().collect();
        if all.is_empty() {
            return self;
        }
        all.push(self);
        Self::Together(all)
    }

    /// The option that it is about, as it is typed.
    pub fn option(&self) -> String {
        match self {
            Self::Setting(option) => option.clone(),
            Self::CachesShowLayers(split) => format!("--tensor-split {split}"),
            Self::AllOutputs => "--outputs ubatch".to_owned(),
            Self::Release(release) => format!("--release {release}"),
            other => other.to_string(),
        }
    }

    /// Whether it was found by planning again, so that it is known to hold.
    pub fn is_tried(&self) -> bool {
        matches!(
            self,
            Self::Release(_)
                | Self::AllOutputs
                | Self::FullSizeWindows
                | Self::FlashAttentionOff(_)
                | Self::Setting(_)
                | Self::NothingBesides
                | Self::TwiceOnCpu
                | Self::CachesShowLayers(_)
                | Self::SavedStates(_)
                | Self::ReservedAnew(_)
                | Self::Together(_)
        )
    }
}

/// What the row and its load tell without planning anything else.
pub fn of_row(row: &Compared, load: &Load) -> Option<Reason> {
    let difference = row.difference().0;
    match row.aside {
        Some(Aside::NotPlanned) => return Some(Reason::NotPlanned(row.part, row.term)),
        Some(Aside::Mapped) if difference > 0.0 => return Some(Reason::MappedSpan),
        _ => {}
    }
    let (planned, observed) = (row.planned?, row.observed?);
    let same = |mib: f64| (observed.0 - mib).abs() <= row.tolerance.0 + 1e-9;
    if row.term == CheckedTerm::Rs {
        let times = (observed.0 / planned.0).round();
        let drafts = load.settings.n_rs_seq.is_some_and(|saved| saved > 0) || drafts(load);
        if drafts && times >= 2.0 && same(planned.0 * times) {
            return Some(Reason::SavedStates(times as u64 - 1));
        }
    }
    let before = load.contexts.first().and_then(|context| context.reserved_before.get(&row.device));
    if let Some(&before) = before.filter(|_| row.term == CheckedTerm::Compute)
        && (before.0 - planned.0).abs() <= row.tolerance.0
    {
        return Some(Reason::ReservedAnew(before));
    }
    None
}

/// Whether the table is of a trial of the fit that may not be its result.
pub fn is_trial(load: &Load) -> bool {
    let chosen = load.settings.gpu_layers.is_some() || load.layers_on_gpus().is_some();
    load.table_phase == Some(TablePhase::Fit) && !chosen && load.fit.result != Some(FitResult::Fits)
}

/// Whether the load has a draft, or drafts with layers of its own.
fn drafts(load: &Load) -> bool {
    load.settings.spec_type.is_some() || load.settings.model_draft.is_some() || load.contexts.len() > 1
}

/// What the log tells of the whole load, for a row that nothing else explains.
pub fn of_request(
    row: &Compared,
    load: &Load,
    placed: &PlanRequest,
    plan: &Planned,
    assumed: &[&'static str],
) -> Option<Reason> {
    if load.settings.override_tensor.is_some() && row.term != CheckedTerm::Kv && row.term != CheckedTerm::Rs {
        return Some(Reason::OverrideTensor);
    }
    if let Some(mode) = load.settings.split_mode.as_ref().filter(|mode| ["row", "tensor", "graph"].contains(&&***mode))
    {
        return Some(Reason::SplitMode(mode.clone()));
    }
    if load.events.iter().any(|event| matches!(event, Event::Failed(_) | Event::OutOfMemory { .. })) {
        return Some(Reason::Failed);
    }
    if let Some((on, _)) = load.layers_on_gpus()
        && on != plan.layers.0 as u64
    {
        return Some(Reason::Layers(on, plan.layers.0));
    }
    if let Some(program @ (Program::IkLlamaCpp | Program::KoboldCpp)) = load.program {
        return Some(Reason::OtherProgram(program));
    }
    if is_trial(load) && !placed.machine.gpus.is_empty() {
        return Some(Reason::FitTrial);
    }
    if row.term == CheckedTerm::Compute && settings::is_older(load) && placed.settings.release.is_some() {
        return Some(Reason::OlderBuild(load.build.or(load.older_than)));
    }
    // the ubatch moves compute buffers, and caches only where windows slide
    let moves = |setting: &&'static str| *setting != "the ubatch" || row.term == CheckedTerm::Compute;
    let mut assumed = assumed.to_vec();
    if assumed.len() > 1 {
        assumed.retain(moves);
    }
    if !assumed.is_empty() && row.term != CheckedTerm::Model {
        return Some(Reason::Assumed(assumed));
    }
    if placed.machine.gpus.iter().any(|gpu| gpu.computer.is_some()) && row.term == CheckedTerm::Compute {
        return Some(Reason::OtherComputer);
    }
    // weights and caches are the engine's own arithmetic in any case
    if row.term == CheckedTerm::Compute {
        let planned = placed.plan().ok()?;
        let uncertain = planned.uncertainties.into_iter().next();
        let modelled = uncertain.map(|uncertainty| Reason::Modelled(uncertainty.reason));
        let other = placed.settings.release.map(|_| Reason::OtherBuild(load.build));
        return modelled.or(other).or(Some(Reason::Unexplained));
    }
    Some(Reason::Unexplained)
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release(release) => write!(f, "release {release} of llama.cpp agrees"),
            Self::AllOutputs => f.write_str(
                "this build reserves logits for every token of a ubatch, as llama-server did until mid-2026: --outputs \
                 ubatch agrees",
            ),
            Self::FullSizeWindows => {
                f.write_str("sliding windows have caches of the whole context here: --swa-full agrees")
            }
            Self::FlashAttentionOff(None) => f.write_str("flash attention is off: --flash-attn off agrees"),
            Self::FlashAttentionOff(Some(why)) => {
                write!(f, "flash attention is off, and --flash-attn off agrees; the log says: {why}")
            }
            Self::Setting(option) => write!(f, "{option}, which the log does not tell, agrees"),
            Self::OtherShape => f.write_str(
                "the file's caches have another shape than those of the model that was found by its name, as those of an \
                 older conversion may: give the file with --model",
            ),
            Self::Mixture => f.write_str(
                "the file's weights are not those of the model that was found by its name: give the file with --model",
            ),
            Self::OtherDevices => {
                f.write_str("all devices together hold as much as planned: layers are on other devices")
            }
            Self::UntoldLayers => f.write_str("the log does not tell which layers are on GPUs"),
            Self::FitTrial => f.write_str("the table is of one of the fit's trials, with other layers than the plan's"),
            Self::OlderBuild(build) => {
                let of = build.map_or_else(String::new, |build| format!(", b{build} or before,"));
                write!(f, "the build{of} is older than the releases known here, and reserves otherwise")
            }
            Self::Unexplained => f.write_str("no usual setting and no release known here explains it"),
            Self::OtherFile => f.write_str(
                "the log's weights are not those of the file that was given: another file was loaded, or another quantisation",
            ),
            Self::OtherBuild(Some(build)) => {
                write!(f, "no release of llama.cpp that is known here agrees with b{build}")
            }
            Self::OtherBuild(None) => {
                f.write_str("no release of llama.cpp that is known here agrees, and the log names no build")
            }
            Self::Together(reasons) => {
                let all: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                f.write_str(&all.join("; and with that "))
            }
            Self::SavedStates(1) => f.write_str("a draft keeps 1 further state per sequence"),
            Self::SavedStates(count) => write!(f, "a draft keeps {count} further states per sequence"),
            Self::ReservedAnew(before) => {
                write!(f, "it was {before} as planned, and was reserved anew while the program ran")
            }
            Self::MappedSpan => f.write_str("the log has the span of a mapped file, which is no memory of its own"),
            Self::NotPlanned(Part::Draft, CheckedTerm::Output) => f.write_str("a draft's output is not part of a plan"),
            Self::NotPlanned(Part::Draft, _) => f.write_str("the draft is not part of this plan"),
            Self::NotPlanned(Part::Projector, _) => f.write_str("the projector is not part of this plan"),
            Self::NotPlanned(Part::Model, term) => write!(f, "{term} is not part of a plan"),
            Self::OtherProjector => f.write_str(
                "the projector's weights are not those of the one that was found: give it with --mmproj",
            ),
            Self::OtherBeside(part) => {
                let name = if *part == Part::Draft { "draft" } else { "projector" };
                write!(f, "no release known here reserves this for the {name}")
            }
            Self::OverrideTensor => f.write_str("--override-tensor puts tensors elsewhere, which a plan does not hold"),
            Self::SplitMode(mode) => write!(f, "--split-mode {mode} splits every layer over the GPUs; a plan has whole layers"),
            Self::OtherComputer => f.write_str("the log does not tell the backend of the other computer's device"),
            Self::Layers(on, planned) => write!(f, "{on} layers are on GPUs, and the plan puts {planned} there"),
            Self::OtherProgram(program) => write!(f, "{program} has code of its own here"),
            Self::Modelled(why) => write!(f, "the planned figure is not exact: {why}"),
            Self::Assumed(settings) => {
                let settings = settings.join(", ");
                write!(f, "it depends on {settings}, which the log does not tell; none of the usual values agrees")
            }
            Self::NothingBesides => f.write_str(
                "it agrees without what the backend needs besides results, which is not part of this build's buffer",
            ),
            Self::TwiceOnCpu => f.write_str("the CPU and its BLAS backend each reserve this buffer, as planned for one"),
            Self::CachesShowLayers(split) => {
                write!(f, "--tensor-split {split}, the layers that the caches show, agrees")
            }
            Self::RowsAbove => f.write_str("it follows from the rows above that differ"),
            Self::OtherEstimator(Some(version)) => {
                write!(f, "the estimator of Ollama 0.11 was planned, and the log is of {version}")
            }
            Self::OtherEstimator(None) => f.write_str(
                "the estimator of Ollama 0.11 was planned, and the log names no version: it changed from 0.1 to 0.12",
            ),
            Self::Failed => f.write_str("the load failed before this was complete"),
        }
    }
}

impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
