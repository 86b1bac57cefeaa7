//! The page of caches: its figures are the plan's, for llama.cpp and for Ollama's engine.

use plimsoll::engine::EngineId;
use plimsoll::engine::PlanRequest;
use plimsoll::settings::{CacheType, Context, Settings};
use plimsoll::teach::TeachPage;
use plimsoll::teach::caches::{BlockMemory, CacheOwner, CachesPage, CellCache, CellFill};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use rstest::rstest;

use crate::harness;
use crate::laws::{any_model, machine};

fn settings() -> impl Strategy<Value = Settings> {
    let kv = select(vec![CacheType::F16, CacheType::Q8_0]);
    (256..200_000_u64, 1..5_u64, kv, any::<bool>()).prop_map(|(ctx, parallel, kv, swa_full)| Settings {
        ctx: Context::Tokens(ctx),
        parallel: Some(parallel),
        cache_type_k: Some(kv),
        cache_type_v: Some(kv),
        swa_full,
        ..Settings::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Every block has one kind, and the kinds add up to the plan.
    #[test]
    fn cache_kinds_add_up_to_the_plan(
        engine in select(EngineId::ALL.to_vec()), model in any_model(), machine in machine(), settings in settings(),
    ) {
        let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
        let Ok(plan) = request.plan() else { return Ok(()) };
        let page = CachesPage::of(&request, &plan).unwrap();
        let mut blocks: Vec<usize> = page.kinds.iter().flat_map(|kind| kind.blocks.clone()).collect();
        blocks.sort_unstable();
        prop_assert!(blocks.iter().copied().eq(0..model.block_count()));
        let sum = |bytes: &dyn Fn(usize) -> Bytes| (0..page.kinds.len()).map(bytes).sum::<Bytes>();
        let times = |bytes: Bytes, at: usize| Bytes(bytes.0 * page.kinds[at].blocks.len() as u64);
        let planned = plan.layers.iter().take(model.block_count()).map(|layer| layer.cache).sum::<Bytes>();
        prop_assert_eq!(sum(&|at| times(page.kinds[at].planned, at)), planned);
        if let Some(own) = page.ollama_engine {
            let of = |at: usize| times(page.kinds[at].ollama_engine.unwrap().bytes(), at);
            prop_assert_eq!(sum(&of), own);
            if let Some(plans) = &plan.own_caches {
                prop_assert_eq!(own, plans.bytes);
            }
        }
        if let Some(all) = page.llama_cpp {
            prop_assert_eq!(sum(&|at| times(page.kinds[at].llama_cpp.unwrap(), at)), all);
            if plan.own_caches.is_none() && matches!(engine, EngineId::LlamaCpp | EngineId::Ollama) {
                // the plan's sizes are aligned
                prop_assert_eq!(all, planned);
            }
            let cells: Bytes = page.stores.iter().filter(|s| s.whose == CacheOwner::LlamaCpp).map(|s| s.bytes).sum();
            let states: Bytes = page.states.iter().filter(|s| s.whose == CacheOwner::LlamaCpp).map(|s| s.bytes).sum();
            prop_assert_eq!(cells + states, all);
        }
        // cells hold something, and what an engine caches is in its cells and states
        prop_assert!(page.stores.iter().all(|store| store.bytes > Bytes::ZERO), "{:?}", page.stores);
        if let Some(own) = page.ollama_engine {
            let cells: Bytes = page.stores.iter().filter(|s| s.whose == CacheOwner::OllamaEngine).map(|s| s.bytes).sum();
            let states = page.states.iter().filter(|s| s.whose == CacheOwner::OllamaEngine).map(|s| s.bytes);
            prop_assert_eq!(cells + states.sum(), own);
        }
        for kind in &page.kinds {
            if let (BlockMemory::Tokens { per_token, cells, .. }, Some(bytes)) = (kind.keeps, kind.llama_cpp) {
                prop_assert_eq!(Bytes(per_token.0 * cells), bytes);
            }
        }
    }
}

#[rstest]
#[case("llama3.1-8b", "GQA")]
#[case("phi-2", "MHA")]
#[case("gemma-4-e2b", "MQA")]
#[case("deepseek-v2-lite", "MLA")]
fn attention_kinds_are_named(#[case] model: &str, #[case] name: &str) {
    let page = page(model, EngineId::LlamaCpp, 8192);
    assert!(page.kinds.iter().any(|kind| kind.description().starts_with(name)), "{:?}", page.kinds);
    assert!(plimsoll::page::markdown::text(&page.page(100)).contains(name));
}

fn page(model: &str, engine: EngineId, ctx: u64) -> CachesPage {
    let settings = Settings { ctx: Context::Tokens(ctx), parallel: Some(1), ..Settings::default() };
    let (model, machine) = (harness::model(model), harness::one_gpu());
    let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
    let plan = request.plan().unwrap();
    CachesPage::of(&request, &plan).unwrap()
}

#[test]
fn a_window_has_cells_for_itself_and_a_batch() {
    let page = page("gemma3-4b", EngineId::LlamaCpp, 32_768);
    let windows: Vec<&CellCache> = page.stores.iter().filter(|store| store.window == Some(1024)).collect();
    let sizes: Vec<(CacheOwner, u64)> = windows.iter().map(|store| (store.whose, store.size)).collect();
    assert_eq!(sizes, [(CacheOwner::LlamaCpp, 1536), (CacheOwner::OllamaEngine, 1024 + 2048)]);
    assert_eq!(CellFill::new(windows[0], 64).squares, 24);
}

#[rstest]
#[case::shared(None, "4 sequences sharing 32 768 tokens")]
#[case::apart(Some(4), "4 sequences of 8 192 tokens each")]
#[case::one(Some(1), "One sequence of 32 768 tokens")]
fn engines_are_compared_at_the_same_token_count(#[case] parallel: Option<u64>, #[case] said: &str) {
    let settings = Settings { ctx: Context::Tokens(32_768), parallel, ..Settings::default() };
    let (model, machine) = (harness::model("llama3.1-8b"), harness::one_gpu());
    let request = PlanRequest::new(EngineId::LlamaCpp, model.clone(), machine.clone(), settings.clone());
    let page = CachesPage::of(&request, &request.plan().unwrap()).unwrap();
    let cells: Vec<u64> = page.stores.iter().map(|store| store.size * store.streams).collect();
    assert_eq!(cells, [32_768, 32_768]);
    let markdown = plimsoll::page::markdown::text(&page.page(100)).replace('\u{2009}', " ");
    assert!(markdown.contains(said), "{markdown}");
}

#[test]
fn a_state_does_not_grow_with_the_context() {
    let state = |ctx| page("mamba-2.8b", EngineId::LlamaCpp, ctx).planned;
    assert_eq!(state(1024), state(65_536));
}

/// A model without attention has no cells under any engine; one with both has the cells of its attention only.
#[rstest]
fn recurrent_models_have_a_state_for_each_sequence(
    #[values("mamba-2.8b", "qwen3-coder-next", "nemotron-3-nano-30b-a3b")] model: &str,
    #[values(EngineId::LlamaCpp, EngineId::Ollama, EngineId::Ollama024, EngineId::Ollama011)] engine: EngineId,
) {
    let of = |ctx| page(model, engine, ctx);
    let (short, long) = (of(2048), of(32_768));
    assert_eq!(short.states, long.states, "whatever the context");
    assert!(!long.states.is_empty());
    for state in &long.states {
        assert!(state.bytes > Bytes::ZERO && state.of_sequence() == state.bytes, "{state:?}");
        let cells = long.stores.iter().filter(|store| store.whose == state.whose).map(|store| store.blocks);
        assert!(cells.sum::<u64>() + state.blocks <= long.kinds.iter().map(|kind| kind.blocks.len() as u64).sum());
    }
    if model == "mamba-2.8b" {
        assert!(long.stores.is_empty(), "{:?}", long.stores);
        assert!(!plimsoll::page::markdown::text(&long.page(100)).contains("cells of"));
    }
    assert!(plimsoll::page::markdown::text(&long.page(100)).contains("| states of | blocks | sequences |"));
    assert_eq!(long.json()["states"].as_array().unwrap().len(), long.states.len());
}

#[test]
fn json_lists_every_kind() {
    let page = page("gemma3-4b", EngineId::Ollama024, 8192);
    let json = page.json();
    assert_eq!(json["kinds"].as_array().unwrap().len(), page.kinds.len());
    assert_eq!(json["planned"], page.planned.0);
}
