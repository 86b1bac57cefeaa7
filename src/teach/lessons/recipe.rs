//! The knobs of a lesson and the sources of its figures, as in `assets/lessons.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error};

use super::measure::{FigureValue, PlanFigure};
use crate::engine::EngineId;
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};

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

impl KnobOverrides {
    /// Applies the knobs to `settings`.
    pub(super) fn apply(&self, settings: &mut Settings, model: &Model) {
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
            Self::Minus { minus: pair } | Self::Share { share: pair } | Self::Times { times: pair } => {
                pair.iter().any(|part| part == name)
            }
            Self::Of { .. } | Self::Quoted { .. } => false,
        }
    }

    /// Its value; `None` if it refers to a missing figure or case.
    pub(super) fn value(
        &self,
        figures: &BTreeMap<String, Self>,
        plans: &BTreeMap<&str, Plan>,
        model: &Model,
    ) -> Option<FigureValue> {
        self.value_at_depth(figures, plans, model, MAX_DEPTH)
    }

    fn value_at_depth(
        &self,
        figures: &BTreeMap<String, Self>,
        plans: &BTreeMap<&str, Plan>,
        model: &Model,
        depth: usize,
    ) -> Option<FigureValue> {
        let depth = depth.checked_sub(1)?;
        let both = |[a, b]: &[String; 2]| {
            let one = |name: &String| figures.get(name)?.value_at_depth(figures, plans, model, depth);
            Some((one(a)?, one(b)?))
        };
        match self {
            Self::Of { of, r#in, finely } => of.value(plans.get(r#in.as_str())?, model, *finely),
            Self::Minus { minus } => {
                let (a, b) = both(minus)?;
                a.less(&b)
            }
            Self::Share { share } => {
                let (a, b) = both(share)?;
                a.share_of(&b)
            }
            Self::Times { times } => {
                let (a, b) = both(times)?;
                a.times(&b)
            }
            Self::Quoted { quoted } => Some(FigureValue::Quoted(quoted.clone())),
        }
    }
}
