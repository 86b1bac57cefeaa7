//! Why a planned figure and an observed one differ.

use std::borrow::Cow;
use std::fmt;

use super::{CheckedTerm, Compared, Part, Uncounted, log};
use crate::observed::{FitResult, Load, Mib, TablePhase};
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
    /// It agrees if what the backend needs besides results is not part of the buffer, as in older builds.
    NothingBesides,
    /// It agrees if servers over RPC compute on what needs nothing besides results, such as a CPU.
    PlainServers,
    /// It agrees if every copy of a pipeline has the inputs that nothing reads, as in builds after release 2026-09.
    UnreadInputs,
    /// It agrees without the copies of a pipeline.
    NoPipeline,
    /// Two backends of the CPU print the same buffer each.
    TwiceOnCpu,
    /// It agrees with as many layers on each device as its caches show.
    CachesShowLayers(String),
    /// The log is of this many saved recurrent states per sequence, for a draft.
    SavedStates(u64),
    /// The plan agrees with the buffer before it was reserved anew.
    ReservedAnew(Mib),
    /// The table is of a trial of the fit.
    FitTrial,
    /// What the log tells, or does not tell, as a sentence.
    Told(Cow<'static, str>),
    /// All of these at once.
    Together(Vec<Self>),
}

/// The options of `--ctx 4096 --parallel 2` with their values; empty for one without.
fn options(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let starts = std::iter::once(0).chain(text.match_indices(" --").map(|(at, _)| at + 1));
    let ends = text.match_indices(" --").map(|(at, _)| at).chain([text.len()]);
    starts.zip(ends).map(|(start, end)| text[start..end].split_once(' ').unwrap_or((&text[start..end], "")))
}

/// A sentence of the log.
pub const fn told(sentence: &'static str) -> Reason {
    Reason::Told(Cow::Borrowed(sentence))
}

/// One with figures.
pub fn sentence(words: String) -> Reason {
    Reason::Told(Cow::Owned(words))
}

/// The file mixes types differently from the model that was planned.
pub const MIXTURE: Reason =
    told("the file's weights are not those of the model that was found by its name: give the file with --model");
/// The span of a mapped file.
pub const MAPPED_SPAN: Reason = told("the log has the span of a mapped file, which is no memory of its own");
/// It is the sum of rows above that differ.
pub const ROWS_ABOVE: Reason = told("it follows from the rows above that differ");
/// The model that was found has caches of another shape than the file.
pub const OTHER_SHAPE: Reason = told(
    "the file's caches have another shape than those of the model that was found by its name, as those of an older \
     conversion may: give the file with --model",
);

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

    /// With the values that hold at the end, where one of the settings in `held` sets an option again.
    pub(super) fn as_held(&self, held: &[Self]) -> Self {
        let settings =
            || held.iter().rev().filter_map(|reason| if let Self::Setting(text) = reason { Some(text) } else { None });
        match self {
            Self::Setting(text) => {
                let value = |option: &str| settings().flat_map(|text| options(text)).find(|(name, _)| *name == option);
                let last = options(text).map(|(option, now)| value(option).unwrap_or((option, now)));
                let words: Vec<String> =
                    last.map(|(option, value)| format!("{option} {value}").trim_end().to_owned()).collect();
                Self::Setting(words.join(" "))
            }
            Self::Together(all) => {
                let mut kept: Vec<Self> = Vec::new();
                for reason in all.iter().map(|reason| reason.as_held(held)) {
                    let said = |text: &str| {
                        let mut earlier = kept.iter().flat_map(|reason| match reason {
                            Self::Setting(text) => options(text).collect(),
                            _ => Vec::new(),
                        });
                        options(text).all(|option| earlier.any(|earlier| earlier == option))
                    };
                    if !matches!(&reason, Self::Setting(text) if said(text)) {
                        kept.push(reason);
                    }
                }
                if kept.len() == 1 { kept.remove(0) } else { Self::Together(kept) }
            }
            other => other.clone(),
        }
    }

    /// The option that it is about, as it is typed.
    pub fn option(&self) -> String {
        match self {
            Self::Setting(option) => option.clone(),
            Self::CachesShowLayers(split) => format!("--tensor-split {split}"),
            Self::AllOutputs => "--outputs ubatch".to_owned(),
            Self::Release(release) => format!("--release {release}"),
            Self::PlainServers => "servers over RPC that compute on a CPU".to_owned(),
            Self::UnreadInputs => "copies of unread inputs".to_owned(),
            Self::NoPipeline => "no pipeline".to_owned(),
            other => other.to_string(),
        }
    }

    /// Whether it was found by planning again, so that it is known to hold.
    pub fn is_tried(&self) -> bool {
        !matches!(self, Self::FitTrial | Self::Told(_))
    }
}

/// What the row and its load tell without planning anything else.
pub fn of_row(row: &Compared, load: &Load) -> Option<Reason> {
    let difference = row.difference().0;
    match row.uncounted {
        Some(Uncounted::NotPlanned) => return Some(not_planned(row.part, row.term)),
        Some(Uncounted::Mapped) if difference > 0.0 => return Some(MAPPED_SPAN),
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
    let chosen = load.settings.gpu_layers.is_some() || load.layers_on_gpus().is_some() || log::fitted(load).is_some();
    load.table_phase == Some(TablePhase::Fit) && !chosen && load.fit.result != Some(FitResult::Fits)
}

/// Whether the load has a draft, or drafts with layers of its own.
fn drafts(load: &Load) -> bool {
    load.settings.spec_type.is_some() || load.settings.model_draft.is_some() || load.contexts.len() > 1
}

/// The plan holds no such part.
pub fn not_planned(part: Part, term: CheckedTerm) -> Reason {
    match (part, term) {
        (Part::Draft, CheckedTerm::Output) => told("a draft's output is not part of a plan"),
        (Part::Draft, _) => told("the draft is not part of this plan"),
        (Part::Projector, _) => told("the projector is not part of this plan"),
        (Part::Model, CheckedTerm::Lora) => told("the adapter is not part of this plan: give its file with --lora"),
        (Part::Model, term) => sentence(format!("{term} is not part of a plan")),
    }
}

/// Layers are elsewhere: observed and planned on GPUs.
pub fn other_layers(observed: u64, planned: usize) -> Reason {
    sentence(format!("{observed} layers are on GPUs, and the plan puts {planned} there"))
}

/// Ollama's estimator was another in this version, or the log names none.
pub fn other_estimator(version: Option<&str>) -> Reason {
    let planned = "the estimator of Ollama 0.11 was planned, and the log";
    match version {
        Some(version) => sentence(format!("{planned} is of {version}")),
        None => sentence(format!("{planned} names no version: it changed from 0.1 to 0.12")),
    }
}

/// The build is older than every release that is known, and reserves otherwise.
pub fn older_build(load: &Load) -> Reason {
    let build = log::build(load).or(load.older_than);
    let of = build.map_or_else(String::new, |build| format!(", b{build} or before,"));
    sentence(format!("the build{of} is older than the releases known here, and reserves otherwise"))
}

/// For what is loaded beside the model, where no release agrees.
pub fn of_beside(row: &Compared, load: &Load) -> Reason {
    match (row.part, row.term) {
        (Part::Projector, CheckedTerm::Model) => {
            told("the projector's weights are not those of the one that was found: give it with --mmproj")
        }
        (Part::Draft, CheckedTerm::Model) => MIXTURE,
        _ if log::is_older(load) => older_build(load),
        (Part::Draft, _) => told("no release known here reserves this for the draft"),
        _ => told("no release known here reserves this for the projector"),
    }
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
            Self::FitTrial => f.write_str("the table is of one of the fit's trials, with other layers than the plan's"),
            Self::Told(sentence) => f.write_str(sentence),
            Self::Together(reasons) => {
                let all: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                f.write_str(&all.join("; and with that "))
            }
            Self::SavedStates(1) => f.write_str("a draft keeps 1 further state per sequence"),
            Self::SavedStates(count) => write!(f, "a draft keeps {count} further states per sequence"),
            Self::ReservedAnew(before) => {
                write!(f, "it was {before} as planned, and was reserved anew while the program ran")
            }
            Self::NothingBesides => f.write_str(
                "it agrees without what the backend needs besides results, which is not part of this build's buffer",
            ),
            Self::PlainServers => f.write_str(
                "the servers over RPC take no more than results do, as those that compute on a CPU; the log does not tell",
            ),
            Self::UnreadInputs => f.write_str(
                "each of the pipeline's copies has the inputs that nothing reads, as in builds after release 2026-09",
            ),
            Self::NoPipeline => {
                f.write_str("it agrees without a pipeline over the GPUs, of which the log does not tell")
            }
            Self::TwiceOnCpu => {
                f.write_str("measured before the load, the one buffer of the CPU and its BLAS backend counts for each")
            }
            Self::CachesShowLayers(split) => {
                write!(f, "--tensor-split {split}, the layers that the caches show, agrees")
            }
        }
    }
}

impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
