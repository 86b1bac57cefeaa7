//! What `assets/lessons.toml` holds of a lesson: its knobs and the sources of its figures.

use super::measure::{Case, FigureValue, PlanFigure};
use crate::engine::{EngineId, PreparedModel};
use crate::machine::{Backend, Machine, Origin};
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, ImageSize, Settings, SpecType, written};
use serde::{Deserialize, Deserializer, de::Error};
use std::collections::BTreeMap;

/// Maximum depth of figures computed from figures.
const MAX_DEPTH: usize = 8;
/// Maximum number of GPUs of a case.
const MAX_GPUS: usize = 16;

/// Knobs to set; the others stay.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct KnobOverrides {
    #[serde(deserialize_with = "some_engine")]
    pub engine: Option<EngineId>,
    ctx: Option<u64>,
    parallel: Option<u64>,
    batch: Option<u64>,
    ubatch: Option<u64>,
    #[serde(deserialize_with = "cache_type")]
    kv: Option<CacheType>,
    flash: Option<Flash>,
    layers: Option<Layers>,
    experts_in_ram: Option<bool>,
    swa_full: Option<bool>,
    /// Draft tokens, by the draft beside the model or by its own blocks; at most `drafted` of them.
    pub draft: Option<bool>,
    drafted: Option<u64>,
    /// Load the projector.
    pub projector: Option<bool>,
    /// For an image of this size; without it, for the largest one.
    #[serde(deserialize_with = "image_size")]
    image: Option<ImageSize>,
    /// The machine's first GPU, this many times.
    gpus: Option<usize>,
    /// The GPUs' library.
    backend: Option<Backend>,
    /// Keep the KV cache with the layers.
    kv_offload: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flash {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Layers {
    Auto,
    All,
    #[serde(rename = "all but one")]
    AllButOne,
}

pub(super) fn engine<'de, D: Deserializer<'de>>(from: D) -> Result<EngineId, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

fn some_engine<'de, D: Deserializer<'de>>(from: D) -> Result<Option<EngineId>, D::Error> {
    engine(from).map(Some)
}

fn cache_type<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CacheType>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

fn image_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ImageSize>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

impl KnobOverrides {
    /// The machine, with other GPUs if the knobs say so.
    pub(super) fn machine(&self, machine: &Machine) -> Machine {
        let mut machine = machine.clone();
        if let Some((count, first)) = self.gpus.zip(machine.gpus.first().cloned()) {
            machine.gpus = vec![first; count];
            machine.origin = Origin::Described;
        }
        if let Some(backend) = self.backend {
            machine.gpus.iter_mut().for_each(|gpu| gpu.backend = backend);
            machine.origin = Origin::Described;
        }
        machine
    }

    /// What it sets a knob to, as text that only compares; none if it leaves it.
    pub(super) fn value(&self, knob: Knob) -> Option<String> {
        let shown = |value: Option<u64>| value.map(|value| value.to_string());
        match knob {
            Knob::Context => shown(self.ctx),
            Knob::Parallel => shown(self.parallel),
            Knob::Batch => shown(self.batch),
            Knob::Ubatch => shown(self.ubatch),
            Knob::CacheType => self.kv.map(|kv| kv.to_string()),
            Knob::FlashAttn => self.flash.map(|flash| format!("{flash:?}")),
            Knob::GpuLayers => self.layers.map(|layers| format!("{layers:?}")),
            Knob::CpuMoe => self.experts_in_ram.map(|in_ram| in_ram.to_string()),
            Knob::Draft => self.draft.map(|draft| draft.to_string()),
            Knob::DraftMax => shown(self.drafted),
            Knob::ImageTokens => self.image.map(|image| image.to_string()),
            _ => None,
        }
    }

    /// What is out of range in it: the range is that of options.
    pub(super) fn check(&self) -> Result<(), String> {
        let counts = [
            ("ctx", self.ctx),
            ("parallel", self.parallel),
            ("batch", self.batch),
            ("ubatch", self.ubatch),
            ("drafted", self.drafted),
        ];
        for (name, count) in counts {
            count.map_or(Ok(0), |count| written::count(&count.to_string())).map_err(|why| format!("{name}: {why}"))?;
        }
        match self.gpus {
            Some(count) if !(1..=MAX_GPUS).contains(&count) => Err(format!("gpus: use a number from 1 to {MAX_GPUS}")),
            _ => Ok(()),
        }
    }

    /// Applies the knobs to `settings`.
    pub(super) fn apply(&self, settings: &mut Settings, model: &PreparedModel) {
        if let Some(tokens) = self.ctx {
            settings.ctx = Context::Tokens(tokens);
        }
        settings.parallel = self.parallel.or(settings.parallel);
        settings.batch = self.batch.or(settings.batch);
        settings.ubatch = self.ubatch.or(settings.ubatch);
        settings.cache_type_k = self.kv.or(settings.cache_type_k);
        settings.cache_type_v = self.kv.or(settings.cache_type_v);
        match self.flash {
            Some(Flash::On) => settings.flash_attn = FlashAttn::On,
            Some(Flash::Off) => settings.flash_attn = FlashAttn::Off,
            None => {}
        }
        match self.layers {
            Some(Layers::Auto) => settings.gpu_layers = GpuLayers::Auto,
            Some(Layers::All) => settings.gpu_layers = GpuLayers::All,
            // all blocks and the output layer, minus one
            Some(Layers::AllButOne) => settings.gpu_layers = GpuLayers::Count(model.block_count() as u64),
            None => {}
        }
        if let Some(in_ram) = self.experts_in_ram {
            settings.n_cpu_moe = in_ram.then_some(model.block_count() as u64);
        }
        settings.no_kv_offload = self.kv_offload.map_or(settings.no_kv_offload, |offload| !offload);
        settings.swa_full = self.swa_full.unwrap_or(settings.swa_full);
        match self.draft {
            Some(true) => settings.draft.types = model.drafts_by().map(|kind| vec![kind]),
            Some(false) => settings.draft.types = Some(vec![SpecType::None]),
            None => {}
        }
        settings.draft.n_max = self.drafted.or(settings.draft.n_max);
        settings.mmproj.image = self.image.or(settings.mmproj.image);
    }
}

/// The source of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a figure is `of` a plan `in` a case, or `minus`, `plus`, `share` or `times` of two others, or `quoted`"
)]
pub(super) enum FigureSource {
    /// A figure of a plan.
    Of {
        of: PlanFigure,
        /// The case whose plan it is from.
        r#in: String,
        /// Show it with two decimals.
        #[serde(default)]
        finely: bool,
    },
    /// The first minus the second.
    Minus { minus: [String; 2] },
    /// The sum of both.
    Plus { plus: [String; 2] },
    /// The first as a share of the second.
    Share { share: [String; 2] },
    /// The first divided by the second.
    Times { times: [String; 2] },
    /// A quotation from another document.
    Quoted { quoted: String },
}

impl FigureSource {
    /// The figures that it is computed from.
    pub(super) fn parts(&self) -> &[String] {
        match self {
            Self::Minus { minus: pair }
            | Self::Plus { plus: pair }
            | Self::Share { share: pair }
            | Self::Times { times: pair } => pair,
            Self::Of { .. } | Self::Quoted { .. } => &[],
        }
    }

    /// What is wrong with it in a lesson with these cases.
    pub(super) fn check(&self, cases: &BTreeMap<String, KnobOverrides>) -> Result<(), String> {
        let Self::Of { of, r#in: case, .. } = self else { return Ok(()) };
        of.check()?;
        if cases.contains_key(case) { Ok(()) } else { Err(format!("there is no case '{case}': add it to cases")) }
    }

    /// Whether it or one that it is computed from, and so on, is more than [`MAX_DEPTH`] figures away: it may be computed
    /// from itself.
    pub(super) fn is_too_deep(&self, all: &BTreeMap<String, Self>) -> bool {
        self.is_deeper(all, MAX_DEPTH - 1)
    }

    fn is_deeper(&self, all: &BTreeMap<String, Self>, left: usize) -> bool {
        let parts = self.parts().iter().filter_map(|name| all.get(name));
        match left.checked_sub(1) {
            Some(left) => parts.into_iter().any(|part| part.is_deeper(all, left)),
            None => !self.parts().is_empty(),
        }
    }

    fn value(&self, known: &mut KnownFigures<'_>, depth: usize) -> Option<FigureValue> {
        let mut both = |[a, b]: &[String; 2]| Some((known.figure(a, depth)?, known.figure(b, depth)?));
        match self {
            Self::Of { of, r#in, finely } => of.value(known.cases.get(r#in.as_str())?, *finely),
            Self::Minus { minus } => both(minus).and_then(|(a, b)| a.less(&b)),
            Self::Plus { plus } => both(plus).and_then(|(a, b)| a.plus(&b)),
            Self::Share { share } => both(share).and_then(|(a, b)| a.share_of(&b)),
            Self::Times { times } => both(times).and_then(|(a, b)| a.times(&b)),
            Self::Quoted { quoted } => Some(FigureValue::Quoted(quoted.clone())),
        }
    }
}

/// The figures of a lesson, each computed once: some take a search.
pub(super) struct KnownFigures<'a> {
    sources: &'a BTreeMap<String, FigureSource>,
    cases: &'a BTreeMap<&'a str, Case>,
    pub(super) known: BTreeMap<String, FigureValue>,
}

impl<'a> KnownFigures<'a> {
    pub(super) const fn new(sources: &'a BTreeMap<String, FigureSource>, cases: &'a BTreeMap<&'a str, Case>) -> Self {
        Self { sources, cases, known: BTreeMap::new() }
    }

    /// Computes the figure `name`, unless a figure or case that it refers to is missing.
    pub(super) fn compute(&mut self, name: &str) {
        self.figure(name, MAX_DEPTH);
    }

    fn figure(&mut self, name: &str, depth: usize) -> Option<FigureValue> {
        if let Some(known) = self.known.get(name) {
            return Some(known.clone());
        }
        let depth = depth.checked_sub(1)?;
        let value = self.sources.get(name)?.value(self, depth)?;
        self.known.insert(name.to_owned(), value.clone());
        Some(value)
    }
}
