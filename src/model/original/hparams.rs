//! The keys of config.json as the converter reads them: those of the language model beside the others, and what is said of
//! rotation in one place, however it is spelt.

use serde_json::{Map, Value};

use super::family::Family;
use crate::model::config::ModelConfig;
use crate::model::config::words::LayerWords;

/// Keys of other models inside of one whose language model has another name there. Source: `ModelBase.load_hparams`.
const INNER: [&str; 5] = ["text_config", "llm_config", "lm_config", "language_config", "lfm"];
/// Rotation's base of layers with full attention, and of those with a window. Source: `TextModel.__init__`.
const BASE: [&str; 5] =
    ["global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"];
const LOCAL_BASE: [&str; 5] =
    ["local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"];
/// The share of a head that is rotated.
const SHARE: [&str; 3] = ["partial_rotary_factor", "rope_pct", "rope_percent"];
/// Layers with full attention, and with a window.
const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// The keys.
#[derive(Clone, Debug)]
pub(super) struct Hparams {
    config: ModelConfig,
}

impl Hparams {
    /// Those of `config`, beside tensors of these names.
    pub(super) fn of<'n>(config: &ModelConfig, names: impl Iterator<Item = &'n str>) -> Self {
        let mut all = config.outer().clone();
        let inner = |all: &Map<String, Value>| INNER.iter().find_map(|key| all.get(*key)?.as_object().cloned());
        let thinker =
            all.get("thinker_config").and_then(|thinker| thinker.get("text_config")).and_then(Value::as_object);
        if let Some(text) = thinker.cloned().or_else(|| inner(&all)) {
            for key in INNER {
                all.remove(key);
            }
            all.extend(text);
        }
        let rotation = Self::rotation(&all);
        let (full, sliding) = (rotation.get(FULL), rotation.get(SLIDING));
        all.insert("rope_swa".to_owned(), sliding.cloned().unwrap_or_default());
        let full = full.cloned().unwrap_or(Value::Object(rotation));
        all.insert("rope".to_owned(), full);
        let further =
            |name: &str| name.trim_start_matches("model.").strip_prefix("mtp.layers.")?.split('.').next()?.parse().ok();
        let layers: u64 = names.filter_map(further).map(|layer: u64| layer.saturating_add(1)).max().unwrap_or(0);
        all.insert("mtp_layers".to_owned(), layers.into());
        // the type stays what names the family; that of the language model is a word
        let config = ModelConfig::of(all).unwrap_or_else(|_| config.clone());
        Self { config }
    }

    /// What is said of rotation.
    fn rotation(all: &Map<String, Value>) -> Map<String, Value> {
        let written =
            ["rope_parameters", "rope_scaling"].into_iter().find_map(|key| all.get(key)?.as_object().cloned());
        let mut rotation = written.unwrap_or_default();
        if rotation.contains_key(FULL) || rotation.contains_key(SLIDING) {
            return rotation;
        }
        let first =
            |names: &[&str]| names.iter().find_map(|name| all.get(*name).filter(|value| !value.is_null()).cloned());
        let same = |key| (key, rotation.get("type").cloned());
        let beside = [
            ("rope_theta", first(&BASE)),
            same("rope_type"),
            ("partial_rotary_factor", first(&SHARE)),
            ("original_max_position_embeddings", first(&["original_max_position_embeddings"])),
            (SLIDING, first(&LOCAL_BASE).map(|base| Value::Object(Map::from_iter([("rope_theta".to_owned(), base)])))),
        ];
        for (key, value) in beside {
            if let Some(value) = value {
                rotation.entry(key).or_insert(value);
            }
        }
        rotation
    }

    /// The words of a block, or outside of blocks.
    pub(super) fn words<'a>(&'a self, family: &'a Family, block: Option<u64>) -> LayerWords<'a> {
        LayerWords::new(&family.definitions, &self.config, block, 0)
    }
}
