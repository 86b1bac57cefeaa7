//! The settings in effect, the variables that llama-server reads, and values of knobs that are laid aside.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::draft::{LlamaProgram, LoadMode, Pooling};
use super::fields::Settings;
use super::flag::{Flag, VariableMeaning};
use super::knob::Knob;
use super::release::{Build, NearestRelease, Release};
use super::turn::Turn;
use super::values::{CacheType, FlashAttn, one_type};
use crate::units::Bytes;

/// The knobs after the engine's rules.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct InEffect {
    /// Tokens of context as the engine's own option counts them: per sequence for Ollama, in total for llama.cpp.
    pub ctx: u64,
    /// Tokens of context per sequence.
    pub ctx_per_sequence: u64,
    /// Tokens of context over all sequences.
    pub ctx_total: u64,
    /// Sequences at once.
    pub parallel: u64,
    /// Logical batch, in tokens.
    pub batch: u64,
    /// Physical batch, in tokens.
    pub ubatch: u64,
    /// Type of the K cache.
    pub cache_type_k: CacheType,
    /// Type of the V cache.
    pub cache_type_v: CacheType,
    /// Flash attention; `auto` where the engine leaves it open until the model is loaded.
    pub flash_attn: FlashAttn,
    /// Requested layers on GPUs; -1 if the engine chose.
    pub gpu_layers: i64,
    /// Whether all sequences share one KV cache; none for engines without that choice.
    pub kv_unified: Option<bool>,
    /// Tokens whose logits one ubatch computes; none for engines without that choice.
    pub outputs: Option<u64>,
    /// How embeddings are pooled; none where none are asked for.
    pub embeddings: Option<Pooling>,
    /// The program of llama.cpp, where it is none that a server starts.
    pub program: Option<LlamaProgram>,
    /// Layers whose experts are kept in RAM by request; none for engines without that choice.
    pub n_cpu_moe: Option<u64>,
    /// Layers whose dense feed-forward weights stay in RAM; none if that was not asked for.
    pub n_cpu_ffn: Option<u64>,
    /// Tensors placed by their names, `PATTERN=DEVICE` each.
    pub override_tensor: Vec<String>,
    /// How the model is split over several GPUs, if not by layers.
    pub split_mode: Option<&'static str>,
    /// Most tokens of an image; none without a projector that reads images of many sizes.
    pub image_max_tokens: Option<u64>,
    /// Release of llama.cpp that was planned for; none for engines that do not run it.
    pub release: Option<Release>,
    /// Build of llama.cpp, where it is known more closely than by its release.
    pub build: Option<u64>,
    /// How tokens are drafted, as `--spec-type` has it; none if they are not.
    pub spec_type: Option<String>,
    /// Tokens drafted at most by a model; none if none drafts.
    pub spec_draft_n_max: Option<u64>,
    /// How weights are read into RAM; none for engines without that choice.
    pub load_mode: Option<LoadMode>,
    /// What llama-server's prompt cache may grow to in RAM; none for engines without one.
    pub cache_ram: Option<Bytes>,
    /// Checkpoints that llama-server keeps per sequence at most; none for engines without them.
    pub ctx_checkpoints: Option<u64>,
    /// The turn whose time is said.
    #[serde(skip)]
    pub turn: Option<Turn>,
    /// Weights in RAM are not copied to a GPU for prompts.
    #[serde(skip)]
    pub no_op_offload: bool,
    /// Who set a value, by its key, where it was not the request: `by VRAM, 24.0 GiB in all`.
    pub sources: BTreeMap<&'static str, String>,
}

/// What the prompt cache may grow to unless `--cache-ram` says otherwise (`common/common.h`, `cache_ram_mib`, 0.1.161).
pub const PROMPT_CACHE: Bytes = Bytes::mib(8192);

/// Checkpoints that it keeps per sequence unless `--ctx-checkpoints` says otherwise (`common/common.h`, `n_ctx_checkpoints`,
/// 0.1.161).
pub const CHECKPOINTS: u64 = 32;

/// The variables for what `settings` ask of llama-server and Ollama has no option for.
pub fn llama_server_variables(settings: &Settings) -> Vec<(&'static str, String)> {
    // a type of both is Ollama's own variable
    let has_own = |flag: &Flag| flag.row().ollama.is_some() && settings.cache_type_k == settings.cache_type_v;
    let variables = Flag::ALL.iter().filter(|flag| !has_own(flag)).flat_map(|&flag| {
        let written = flag.write(settings);
        flag.row().variables.iter().filter_map(move |variable| {
            let value = written.clone()?;
            let value = match variable.means {
                VariableMeaning::Value if value.is_empty() => "1".to_owned(),
                VariableMeaning::Value => value,
                VariableMeaning::Not => "0".to_owned(),
                _ => return None,
            };
            Some((variable.name, value))
        })
    });
    variables.collect()
}

/// Stashed knobs, each with the settings that hold its value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StashedKnobs {
    knobs: Vec<(Knob, Settings)>,
    /// The last types of K and V that were set separately.
    cache: Option<(Option<CacheType>, Option<CacheType>)>,
}

impl InEffect {
    /// The build of llama.cpp that was planned for; that of the default release for engines that run none.
    pub fn llama_cpp_build(&self) -> Build {
        NearestRelease { release: self.release.unwrap_or_default(), build: self.build }.llama_cpp()
    }
}

impl StashedKnobs {
    /// Converts `settings` from an engine with the knobs `from` to one with the knobs `to`. A knob in both keeps its
    /// value; one only in `from` is stashed and reset to auto; one only in `to` gets its stashed value back.
    pub fn switch_knobs(&mut self, settings: &mut Settings, from: &[Knob], to: &[Knob]) {
        let not_cache = |knob: &&Knob| !CACHE.contains(*knob);
        for &knob in from.iter().filter(not_cache).filter(|knob| !to.contains(knob)) {
            self.knobs.retain(|(kept, _)| *kept != knob);
            self.knobs.push((knob, settings.clone()));
            knob.reset(settings);
        }
        for &knob in to.iter().filter(not_cache).filter(|knob| !from.contains(knob)) {
            if let Some(at) = self.knobs.iter().position(|(kept, _)| *kept == knob) {
                let (knob, kept) = self.knobs.swap_remove(at);
                knob.copy(&kept, settings);
            }
        }
        self.switch_cache_knobs(settings, CacheKnobs::of(from), CacheKnobs::of(to));
    }

    /// The knob for both types and the knobs for each of them use the same settings, so they are converted together.
    fn switch_cache_knobs(&mut self, settings: &mut Settings, from: CacheKnobs, to: CacheKnobs) {
        let now = (settings.cache_type_k, settings.cache_type_v);
        let types = match from {
            CacheKnobs::Separate => now,
            CacheKnobs::Shared => self.cache.filter(|&(k, v)| one_type(k, v) == now.0).unwrap_or(now),
            CacheKnobs::None => self.cache.unwrap_or(now),
        };
        self.cache = Some(types);
        (settings.cache_type_k, settings.cache_type_v) = match to {
            CacheKnobs::Separate => types,
            CacheKnobs::Shared => {
                let one = one_type(types.0, types.1);
                (one, one)
            }
            CacheKnobs::None => (None, None),
        };
    }
}

/// The knobs that set cache types.
const CACHE: [Knob; 3] = [Knob::CacheType, Knob::CacheTypeK, Knob::CacheTypeV];

/// How the cache types can be set.
#[derive(Clone, Copy)]
enum CacheKnobs {
    Separate,
    Shared,
    None,
}

impl CacheKnobs {
    fn of(knobs: &[Knob]) -> Self {
        if knobs.contains(&Knob::CacheTypeK) {
            Self::Separate
        } else if knobs.contains(&Knob::CacheType) {
            Self::Shared
        } else {
            Self::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    const SHARED: [Knob; 2] = [Knob::Context, Knob::CacheType];
    const SEPARATE: [Knob; 4] = [Knob::Context, Knob::CacheTypeK, Knob::CacheTypeV, Knob::Ubatch];

    #[test]
    fn shared_knobs_keep_their_values_and_others_are_restored() {
        let mut settings = Settings { ubatch: Some(256), ..Settings::default() };
        settings.cache_type_k = Some(CacheType::Q5_1);
        Knob::Context.set(&mut settings, 4096);
        let first = settings.clone();
        let mut stashed = StashedKnobs::default();
        stashed.switch_knobs(&mut settings, &SEPARATE, &SHARED);
        assert_eq!((settings.ubatch, settings.cache_type_k, settings.ctx), (None, None, first.ctx));
        stashed.switch_knobs(&mut settings, &SHARED, &SEPARATE);
        assert_eq!(settings, first);
    }

    #[test]
    fn a_type_changed_in_between_applies_to_k_and_v() {
        let mut settings = Settings::default();
        (settings.cache_type_k, settings.cache_type_v) = (Some(CacheType::Q8_0), Some(CacheType::F16));
        let mut stashed = StashedKnobs::default();
        stashed.switch_knobs(&mut settings, &SEPARATE, &SHARED);
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q8_0), Some(CacheType::Q8_0)));
        Knob::CacheType.set(&mut settings, 2);
        stashed.switch_knobs(&mut settings, &SHARED, &SEPARATE);
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q4_0), Some(CacheType::Q4_0)));
    }

    proptest! {
        #[test]
        fn values_are_restored_with_their_knobs(
            values in prop::collection::vec(0u64..9, Knob::ALL.len()),
            mut stops in prop::collection::vec(subsequence(Knob::ALL.to_vec(), 0..=Knob::ALL.len()), 1..5),
            both in select(vec![true, false]),
        ) {
            // an engine has either one knob for the cache or two
            for knobs in &mut stops {
                knobs.retain(|knob| !CACHE.contains(knob));
                knobs.extend(if both { &CACHE[..1] } else { &CACHE[1..] });
            }
            let all: Vec<Knob> = Knob::ALL.into_iter().filter(|&knob| knob != Knob::CacheType).collect();
            let mut settings = Settings::default();
            for (knob, value) in all.iter().zip(values) {
                knob.set(&mut settings, value);
            }
            let first = settings.clone();
            let mut stashed = StashedKnobs::default();
            let mut before = all.clone();
            for knobs in stops {
                stashed.switch_knobs(&mut settings, &before, &knobs);
                for &knob in &knobs {
                    let mut here = settings.clone();
                    knob.copy(&first, &mut here);
                    prop_assert!(CACHE.contains(&knob) || here == settings, "{knob:?} lost its value");
                }
                before = knobs;
            }
            stashed.switch_knobs(&mut settings, &before, &all);
            prop_assert_eq!(settings, first);
        }
    }
}
