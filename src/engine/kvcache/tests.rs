use proptest::prelude::*;

use super::*;
use crate::engine::fixtures;
use crate::engine::id::EngineId;
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
        of(OllamaRelease::May2026, &model, &effect).unwrap()
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
    assert_eq!(of(OllamaRelease::May2026, &model, &effect).unwrap().layers.len(), 4);
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
