//! The caches of Ollama's own engine. For models that require it, the estimator decides the layout, but the allocation
//! follows these rules.
//! Source: packages `kvcache` and `model/models`, Ollama, August 2025 and May 2026.

use super::formulas::Letter;
use super::header::{ModelFacts, OllamaKeys, OllamaRelease};
use super::table::GEMMA3_GLOBAL_EVERY;
use crate::model::Model;
use crate::plan::{OwnCache, OwnCacheKind, OwnCaches};
use crate::settings::{CacheType, FlashAttn, InEffect};
use crate::units::Bytes;

/// The number of cells is a multiple of this.
const PADDING: u64 = 256;
/// The same in August 2025 without flash attention.
const PADDING_2025: u64 = 32;
/// In August 2025, the rows of a mask for flash attention are a multiple of this.
const MASK_ROWS_2025: u64 = 64;
/// Maximum number of checkpoints of a recurrent state per sequence.
const CHECKPOINTS: u64 = 24;

/// The parameters of a cache's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Capacity {
    /// Tokens of context per sequence.
    context: u64,
    /// Sequences.
    sequences: u64,
    /// Tokens of the largest batch.
    batch: u64,
    /// The number of cells is a multiple of this.
    padding: u64,
}

impl Capacity {
    /// Cells of a cache of all tokens.
    fn causal(&self) -> u64 {
        self.padded(self.context.saturating_mul(self.sequences))
    }

    /// Tokens kept per sequence, and cells, for attention over `window` tokens in a model that asks for `memory`
    /// tokens. A context that is no longer is kept entirely.
    fn window(&self, window: u64, memory: Option<u64>) -> (u64, u64) {
        let mut remembered = memory.unwrap_or(0).max(window);
        if self.sequences > 1 {
            remembered = remembered.max(window.saturating_add(1));
        }
        if remembered >= self.context {
            return (self.context, self.causal());
        }
        // one batch, shared by all sequences, needs cells in addition to the remembered tokens
        (remembered, self.padded(self.sequences.saturating_mul(remembered).saturating_add(self.batch)))
    }

    fn padded(&self, cells: u64) -> u64 {
        cells.checked_next_multiple_of(self.padding).unwrap_or(u64::MAX)
    }
}

/// Tokens that gemma4 and gpt-oss keep beyond their windows, so that a conversation can be resumed from further back.
const LONG_MEMORY: u64 = 4096;
/// mllama: tokens per image tile times tiles.
const IMAGE_TOKENS: u64 = 1601 * 4;
/// Interval of attention layers if the header has none.
const ATTENTION_EVERY: u64 = 4;

/// The caches that the engine of the release that read `facts` allocates for `model` with the settings in effect,
/// whether the model requires that engine or not.
pub(super) fn caches(model: &Model, facts: &ModelFacts, effect: &InEffect) -> OwnCaches {
    let flash = effect.flash_attn == FlashAttn::On;
    let older = facts.release == OllamaRelease::August2025;
    let capacity = Capacity {
        context: effect.ctx,
        sequences: effect.parallel,
        batch: effect.batch,
        padding: if older && !flash { PADDING_2025 } else { PADDING },
    };
    let blocks = Blocks { model, facts, keys: OllamaKeys { model, release: facts.release } };
    let layers: Vec<OwnCache> =
        (0..model.block_count()).map(|index| blocks.cache(index, &capacity, effect.cache_type_k)).collect();
    let rows = if older && flash {
        effect.batch.checked_next_multiple_of(MASK_ROWS_2025).unwrap_or(u64::MAX)
    } else {
        effect.batch
    };
    let mut own = OwnCaches {
        bytes: layers.iter().map(OwnCache::bytes).sum(),
        checkpoints: layers.iter().map(|layer| layer.checkpoints).sum(),
        masks: Bytes::ZERO,
        layers,
    };
    let attends =
        |kind: OwnCacheKind| matches!(kind, OwnCacheKind::Causal | OwnCacheKind::Window { .. } | OwnCacheKind::Chunked);
    let mask = if flash { CacheType::F16 } else { CacheType::F32 };
    let masks = own.kinds().into_iter().filter(|(_, cache)| attends(cache.kind));
    own.masks = masks.map(|(_, cache)| size(mask, cache.cells.saturating_mul(rows))).sum();
    own
}

/// Bytes of `elements` in format `ty`.
fn size(ty: CacheType, elements: u64) -> Bytes {
    let format = ty.format();
    Bytes(elements.div_ceil(format.block()).saturating_mul(format.block_bytes()))
}

/// What a block keeps.
enum Keeps {
    Nothing,
    Everything,
    Chunks,
    /// The tokens of a window, and those beyond it if the model asks for a longer memory.
    Window {
        window: u64,
        memory: Option<u64>,
    },
    Image,
    /// A state of so many elements per sequence.
    State(u64),
}

struct Blocks<'m> {
    model: &'m Model,
    facts: &'m ModelFacts,
    keys: OllamaKeys<'m>,
}

impl Blocks<'_> {
    fn cache(&self, index: usize, capacity: &Capacity, ty: CacheType) -> OwnCache {
        let shared = usize::try_from(self.keys.number("attention.shared_kv_layers")).unwrap_or(usize::MAX);
        let owners = self.model.block_count().saturating_sub(shared);
        let keeps = if index < owners { self.keeps(index) } else { Keeps::Nothing };
        let heads = self.facts.kv_heads.get(index).copied().unwrap_or(0);
        let (k, v) = self.head_lengths(matches!(keeps, Keeps::Window { .. }));
        let of = |kind, ty, cells: u64| {
            let half = |length: u64| size(ty, length.saturating_mul(heads).saturating_mul(cells));
            OwnCache { kind, cells, k: half(k), v: half(v), ..OwnCache::default() }
        };
        let is_empty = k.saturating_add(v).saturating_mul(heads) == 0;
        match keeps {
            Keeps::Nothing | Keeps::State(0) => OwnCache::default(),
            Keeps::Everything | Keeps::Chunks | Keeps::Window { .. } if is_empty => OwnCache::default(),
            Keeps::Everything => of(OwnCacheKind::Causal, ty, capacity.causal()),
            Keeps::Chunks => of(OwnCacheKind::Chunked, ty, capacity.causal()),
            Keeps::Window { window, memory } => match capacity.window(window, memory) {
                (memory, cells) if memory == capacity.context => of(OwnCacheKind::Causal, ty, cells),
                (memory, cells) => of(OwnCacheKind::Window { window, memory }, ty, cells),
            },
            Keeps::Image => of(OwnCacheKind::Encoder, CacheType::F32, IMAGE_TOKENS),
            Keeps::State(elements) => {
                let state = size(CacheType::F32, elements.saturating_mul(capacity.sequences));
                let checkpoints = Bytes(state.0.saturating_mul(CHECKPOINTS));
                OwnCache { kind: OwnCacheKind::Recurrent, state, checkpoints, ..OwnCache::default() }
            }
        }
    }

    fn keeps(&self, index: usize) -> Keeps {
        let kv_heads = self.facts.kv_heads.get(index).copied().unwrap_or(0);
        match self.model.architecture.as_str() {
            "bert" | "nomic-bert" => Keeps::Nothing,
            "gemma2" => self.window(index.is_multiple_of(2), None),
            "gemma3" => self.window(!(index + 1).is_multiple_of(GEMMA3_GLOBAL_EVERY), None),
            "gemma3n" | "olmo3" => self.window(self.slides(index), None),
            "gemma4" => self.window(self.slides(index), Some(LONG_MEMORY)),
            "gptoss" | "gpt-oss" => self.window(index.is_multiple_of(2), Some(LONG_MEMORY)),
            "llama4" if self.slides(index) => Keeps::Chunks,
            "mllama" if self.sees_images(index) => Keeps::Image,
            "qwen35" | "qwen35moe" | "qwen3next" if self.is_recurrent(index) => self.state(),
            "lfm2" | "lfm2moe" if kv_heads == 0 => {
                let tail = self.keys.number("shortconv.l_cache").saturating_sub(1);
                Keeps::State(self.facts.values.get(Letter::E).saturating_mul(tail))
            }
            "nemotron_h" | "nemotron_h_moe" | "nemotron_h_omni" if kv_heads == 0 => {
                let feeds_forward = self.model.hyper.feed_forward.get(index).is_some_and(|&width| width > 0);
                if feeds_forward { Keeps::Nothing } else { self.state() }
            }
            // without attention there is only the state, of which architectures without ssm keys say nothing
            _ if kv_heads == 0 => self.state(),
            _ => Keeps::Everything,
        }
    }

    /// A sliding window if `slides` and the header has its width.
    fn window(&self, slides: bool, memory: Option<u64>) -> Keeps {
        let window = self.facts.values.get(Letter::Window);
        if slides && window > 0 { Keeps::Window { window, memory } } else { Keeps::Everything }
    }

    /// By the header's pattern; llama4 without one: three of four.
    fn slides(&self, index: usize) -> bool {
        let by_default = self.model.architecture == "llama4" && !(index + 1).is_multiple_of(4);
        self.model.hyper.sliding.get(index).copied().unwrap_or(by_default)
    }

    fn sees_images(&self, index: usize) -> bool {
        let layers = self.keys.signed("attention.cross_attention_layers");
        layers.iter().any(|&layer| usize::try_from(layer) == Ok(index))
    }

    /// By the block's number of KV heads if some blocks have none, else by the interval of attention layers.
    fn is_recurrent(&self, index: usize) -> bool {
        let heads = &self.facts.kv_heads;
        if heads.contains(&0) {
            return heads.get(index) == Some(&0);
        }
        let every = self.keys.number_or("full_attention_interval", 0);
        let every = if every == 0 { ATTENTION_EVERY } else { every };
        !(index as u64 + 1).is_multiple_of(every)
    }

    /// The convolution state and the recurrent state.
    fn state(&self) -> Keeps {
        let of = |letter| self.facts.values.get(letter);
        let (inner, state) = (of(Letter::Dinner), of(Letter::Dstate));
        let groups = of(Letter::Ngroups).saturating_mul(state).saturating_mul(2);
        let tail = of(Letter::Dconv).saturating_sub(1).saturating_mul(inner.saturating_add(groups));
        Keeps::State(tail.saturating_add(state.saturating_mul(inner)))
    }

    /// Lengths of a key and a value head; blocks with a sliding window may have their own.
    fn head_lengths(&self, slides: bool) -> (u64, u64) {
        let (k, v) = (self.facts.values.get(Letter::Dk), self.facts.values.get(Letter::Dv));
        if !slides {
            return (k, v);
        }
        (self.keys.number_or("attention.key_length_swa", k), self.keys.number_or("attention.value_length_swa", v))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::{EngineId, fixtures};
    use crate::gguf::{Array, Elements, Value};
    use crate::machine::Machine;
    use crate::plan::Plan;
    use crate::settings::{Context, Settings};

    fn plan(engine: EngineId, model: &Model, settings: &Settings) -> Plan {
        let machine: Machine = fixtures::card();
        crate::engine::plan(engine, &model.clone().into(), &machine, settings).unwrap()
    }

    fn own(engine: EngineId, model: &Model, settings: &Settings) -> OwnCaches {
        plan(engine, model, settings).own_caches.unwrap()
    }

    fn settings(ctx: u64) -> Settings {
        Settings { ctx: Context::Tokens(ctx), ..Settings::default() }
    }

    fn list(numbers: &[u32]) -> Value {
        let elements = Elements::U32(numbers.to_vec());
        Value::Array(Array { len: numbers.len() as u64, range: 0..0, elements })
    }

    const HEADS: (&str, Value) = ("attention.head_count_kv", Value::U32(4));

    #[test]
    fn gemma2_has_a_window_in_every_second_layer() {
        let window = ("attention.sliding_window", Value::U32(1024));
        let model = fixtures::model("gemma2", &[HEADS, window]);
        let found = |settings: &Settings| {
            let effect = plan(EngineId::Ollama024, &model, settings).settings;
            crate::engine::estimator::OLLAMA_024.own_caches(&model, &effect).unwrap()
        };
        let one = found(&settings(8192));
        let kinds = one.kinds();
        assert_eq!(kinds.len(), 2);
        // 1024 tokens and one batch of 512
        assert_eq!((kinds[0].0, kinds[0].1.cells), (2, 1536));
        assert_eq!((kinds[1].0, kinds[1].1.cells, kinds[1].1.kind), (2, 8192, OwnCacheKind::Causal));
        // 4 heads of 64, in f16
        assert_eq!(kinds[1].1.k, Bytes(4 * 64 * 8192 * 2));
        assert_eq!(one.bytes, Bytes(2 * 4 * 64 * 2 * 2 * (1536 + 8192)));
        // masks are f32 without flash attention
        assert_eq!(one.masks, Bytes((1536 + 8192) * 512 * 4));
        // several sequences share one batch, and each keeps one token more
        let several = found(&Settings { parallel: Some(3), ..settings(8192) });
        assert_eq!(several.layers[0].cells, (3 * 1025 + 512_u64).next_multiple_of(256));
        // a context within the window is kept whole
        assert_eq!(found(&settings(1024)).kinds().len(), 1);
    }

    #[test]
    fn gemma3_has_a_window_in_five_layers_of_six() {
        let model = fixtures::model("gemma3", &[HEADS, ("attention.sliding_window", Value::U32(1024))]);
        let found = own(EngineId::Ollama024, &model, &settings(8192));
        let window = OwnCacheKind::Window { window: 1024, memory: 1024 };
        assert!(found.layers.iter().all(|layer| layer.kind == window && layer.cells == 1536));
        // flash attention is on automatically, with f16 masks
        assert_eq!(found.masks, Bytes(1536 * 512 * 2));
    }

    #[test]
    fn gpt_oss_remembers_more_than_its_window() {
        let window = ("attention.sliding_window", Value::U32(128));
        let model = fixtures::model("gpt-oss", &[HEADS, window]);
        let found = own(EngineId::Ollama024, &model, &settings(16_384));
        assert_eq!(found.layers[0].kind, OwnCacheKind::Window { window: 128, memory: 4096 });
        assert_eq!((found.layers[0].cells, found.layers[1].cells), (4096 + 512, 16_384));
    }

    #[test]
    fn the_older_release_pads_less_without_flash_attention() {
        let model = fixtures::model("llama4", &[HEADS]);
        let padded = |engine, ctx| own(engine, &model, &settings(ctx)).layers[0].cells;
        assert_eq!((padded(EngineId::Ollama024, 1000), padded(EngineId::Ollama011, 1000)), (1024, 1024));
        assert_eq!((padded(EngineId::Ollama024, 1025), padded(EngineId::Ollama011, 1025)), (1280, 1056));
    }

    #[test]
    fn quantised_caches_have_whole_blocks() {
        let model = fixtures::model("qwen3", &[HEADS]);
        let asked = Settings {
            cache_type_k: Some(CacheType::Q8_0),
            cache_type_v: Some(CacheType::Q8_0),
            flash_attn: FlashAttn::On,
            ..settings(4096)
        };
        let found = plan(EngineId::Ollama024, &model, &asked);
        // the estimate counts a byte an element, the engine 34 for 32
        assert_eq!(found.layers[0].cache_term.bytes, Bytes(2 * 4 * 64 * 4096));
        assert_eq!(found.own_caches.unwrap().layers[0].bytes(), Bytes(2 * 4 * 64 * 4096 / 32 * 34));
    }

    #[test]
    fn recurrent_layers_keep_a_state_and_checkpoints_of_it() {
        let keys = [
            ("attention.head_count_kv", list(&[0, 0, 0, 2])),
            ("ssm.conv_kernel", Value::U32(4)),
            ("ssm.inner_size", Value::U32(256)),
            ("ssm.state_size", Value::U32(128)),
            ("ssm.group_count", Value::U32(2)),
        ];
        let found = own(EngineId::Ollama024, &fixtures::model("qwen3next", &keys), &settings(4096));
        let state = Bytes((3 * (256 + 2 * 2 * 128) + 128 * 256) * 4);
        assert_eq!((found.layers[0].kind, found.layers[0].state), (OwnCacheKind::Recurrent, state));
        assert_eq!(found.layers[0].checkpoints, Bytes(24 * state.0));
        assert_eq!((found.layers[3].kind, found.layers[3].cells), (OwnCacheKind::Causal, 4096));
        let more = own(EngineId::Ollama024, &fixtures::model("qwen3next", &keys), &settings(65_536));
        assert_eq!(more.layers[0].state, state);
    }

    #[test]
    fn layers_that_share_a_cache_have_none() {
        let flags = Elements::Bool(vec![true, true, false, true]);
        let pattern = Value::Array(Array { len: 4, range: 0..0, elements: flags });
        let keys = [
            HEADS,
            ("attention.sliding_window", Value::U32(512)),
            ("attention.sliding_window_pattern", pattern),
            ("attention.shared_kv_layers", Value::U32(1)),
            ("attention.key_length", Value::U32(512)),
            ("attention.key_length_swa", Value::U32(256)),
        ];
        let found = own(EngineId::Ollama024, &fixtures::model("gemma4", &keys), &settings(8192));
        assert_eq!(found.layers[3], OwnCache::default());
        assert_eq!(found.layers[0].k, Bytes(256 * 4 * (4096 + 512) * 2));
        assert_eq!(found.layers[2].k, Bytes(512 * 4 * 8192 * 2));
    }

    #[test]
    fn models_run_by_llama_cpp_have_no_caches_of_ollamas_engine() {
        let model = fixtures::model("llama", &[HEADS]);
        assert_eq!(plan(EngineId::Ollama024, &model, &settings(4096)).own_caches, None);
        let effect = plan(EngineId::Ollama024, &model, &settings(4096)).settings;
        assert_eq!(crate::engine::estimator::OLLAMA_024.own_caches(&model, &effect).unwrap().layers.len(), 4);
        assert!(
            plan(EngineId::Ollama024, &fixtures::model("gemma3", &[]), &settings(4096))
                .notes
                .iter()
                .any(|note| note.contains("Ollama's own engine allocates"))
        );
    }

    fn capacity() -> impl Strategy<Value = Capacity> {
        let tokens = prop_oneof![1..100_000_u64, any::<u64>()];
        (tokens, 1..64_u64, 1..8192_u64, prop_oneof![Just(PADDING), Just(PADDING_2025)])
            .prop_map(|(context, sequences, batch, padding)| Capacity { context, sequences, batch, padding })
    }

    proptest! {
        #[test]
        fn a_window_remembers_no_more_than_the_context(
            capacity in capacity(), window in 1..50_000_u64, memory in proptest::option::of(1..50_000_u64),
        ) {
            let (remembered, cells) = capacity.window(window, memory);
            prop_assert!(remembered <= capacity.context);
            prop_assert!(remembered == capacity.context || remembered >= window);
            let whole = capacity.causal();
            prop_assert!(cells <= whole.saturating_add(capacity.batch).saturating_add(capacity.padding));
            if remembered == capacity.context {
                prop_assert_eq!(cells, whole);
            }
        }

        #[test]
        fn a_window_cache_has_cells_for_one_batch_whatever_the_sequences(capacity in capacity(), window in 1..50_000_u64) {
            let (remembered, cells) = capacity.window(window, None);
            prop_assume!(remembered < capacity.context);
            let extra = cells - capacity.sequences * remembered;
            prop_assert!(extra >= capacity.batch && extra < capacity.batch + capacity.padding);
        }

        #[test]
        fn cells_are_rounded_up_to_the_next_multiple(capacity in capacity()) {
            let (cells, tokens) = (capacity.causal(), capacity.context.saturating_mul(capacity.sequences));
            prop_assert!(cells >= tokens);
            prop_assert!(cells == u64::MAX || cells.is_multiple_of(capacity.padding) && cells - tokens < capacity.padding);
        }
    }
}
