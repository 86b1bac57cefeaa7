//! What `assets/lessons.toml` holds of a lesson: its knobs, the sources of its figures, and what they must show.

use super::measure::{Case, FigureValue, PlanFigure};
use crate::engine::{EngineId, PreparedModel};
use crate::machine::{Machine, Origin};
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, ImageSize, Settings, SpecType};
use crate::units::Bytes;
use serde::{Deserialize, Deserializer, de::Error};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Maximum depth of figures computed from figures.
const MAX_DEPTH: usize = 8;

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
            Some(Layers::All) => settings.gpu_layers = GpuLayers::All,
            // all blocks and the output layer, minus one
            Some(Layers::AllButOne) => settings.gpu_layers = GpuLayers::Count(model.block_count() as u64),
            None => {}
        }
        if let Some(in_ram) = self.experts_in_ram {
            settings.n_cpu_moe = in_ram.then_some(model.block_count() as u64);
        }
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
#[serde(untagged, deny_unknown_fields)]
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
    /// Whether it is computed from the figure `name`.
    pub(super) fn rests_on(&self, name: &str) -> bool {
        match self {
            Self::Minus { minus: pair }
            | Self::Plus { plus: pair }
            | Self::Share { share: pair }
            | Self::Times { times: pair } => pair.iter().any(|part| part == name),
            Self::Of { .. } | Self::Quoted { .. } => false,
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

/// A comparison that must hold wherever the lesson is told, and what to say where it does not.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The comparison.
    pub holds: Comparison,
    /// Why the lesson is not told where it does not hold, as part of a sentence on the model.
    pub(super) otherwise: String,
}

/// A figure compared with another one or with a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    figure: String,
    relation: Relation,
    with: Operand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    AtMost,
    Equal,
    AtLeast,
    More,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Figure(String),
    /// Bytes, a count, a factor, or a share of one.
    Constant(f64),
}

impl Claim {
    /// Whether its sentence has the figure `name` in it.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.otherwise.contains(&format!("{{{name}}}"))
    }

    /// The figures in its sentence.
    pub(super) fn mentioned<'a, V>(&'a self, figures: &'a BTreeMap<String, V>) -> impl Iterator<Item = &'a str> {
        figures.keys().map(String::as_str).filter(|name| self.mentions(name))
    }
}

impl Comparison {
    /// Whether it holds for `figures`; it does not if one of them is missing or has no size.
    pub fn is_met_by(&self, figures: &BTreeMap<String, FigureValue>) -> bool {
        let size = |name: &String| figures.get(name)?.size();
        let with = match &self.with {
            Operand::Figure(name) => size(name),
            Operand::Constant(constant) => Some(*constant),
        };
        let (Some(figure), Some(with)) = (size(&self.figure), with) else { return false };
        match self.relation {
            Relation::Less => figure < with,
            Relation::AtMost => figure <= with,
            // sizes are whole numbers of bytes or tokens, which a float of this size holds exactly
            Relation::Equal => (figure - with).abs() < f64::EPSILON,
            Relation::AtLeast => figure >= with,
            Relation::More => figure > with,
        }
    }

    /// The figures that it compares.
    pub fn figures(&self) -> impl Iterator<Item = &str> {
        let with = if let Operand::Figure(name) = &self.with { Some(name.as_str()) } else { None };
        std::iter::once(self.figure.as_str()).chain(with)
    }
}

impl FromStr for Comparison {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no comparison of figures, such as 'more >= 1 GiB'");
        let mut words = text.split_whitespace();
        let (Some(figure), Some(relation)) = (words.next(), words.next()) else { return Err(wrong()) };
        let relation = match relation {
            "<" => Relation::Less,
            "<=" => Relation::AtMost,
            "=" => Relation::Equal,
            ">=" => Relation::AtLeast,
            ">" => Relation::More,
            _ => return Err(wrong()),
        };
        let with = words.collect::<Vec<_>>().join(" ");
        let percent = with.strip_suffix('%').and_then(|share| share.trim().parse::<f64>().ok());
        let bytes = || with.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64);
        let with = match percent.map(|share| share / 100.0).or_else(bytes).or_else(|| with.parse().ok()) {
            Some(constant) => Operand::Constant(constant),
            None if with.starts_with(char::is_alphabetic) && !with.contains(' ') => Operand::Figure(with),
            None => return Err(wrong()),
        };
        Ok(Self { figure: figure.to_owned(), relation, with })
    }
}

impl<'de> Deserialize<'de> for Comparison {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Ratio;

    #[test]
    fn figures_are_compared_with_figures_and_constants() {
        let figures = BTreeMap::from([
            ("planned".to_owned(), FigureValue::Bytes(Bytes::mib(1500))),
            ("own".to_owned(), FigureValue::Bytes(Bytes::mib(700))),
            ("share".to_owned(), FigureValue::Share(Ratio(0.53))),
            ("said".to_owned(), FigureValue::Quoted("5 GB".to_owned())),
        ]);
        let holds = |text: &str| text.parse::<Comparison>().unwrap().is_met_by(&figures);
        for text in
            ["planned > own", "own < planned", "planned >= 1 GiB", "own <= 700 MiB", "own = own", "share > 50 %"]
        {
            assert!(holds(text), "{text}");
        }
        for text in ["own > planned", "planned >= 1.5 GiB", "own > 700 MiB", "share <= 0.5", "none > 0", "said > 0"] {
            assert!(!holds(text), "{text}");
        }
        for text in ["", "planned", "planned >", "planned ! own", "planned > 1 parsec", "planned > own more"] {
            assert!(text.parse::<Comparison>().is_err(), "{text}");
        }
    }
}
