//! The best settings while some knobs are held.

use plimsoll::answer::Goal;
use plimsoll::answer::best::{Cost, Gain, Objective};
use plimsoll::engine::{self, EngineId};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::{any_engine, machine, model, one_gpu, request, settings};
use crate::laws;

const WISHES: [Objective; 3] = [Objective::Context, Objective::Parallel, Objective::CacheType];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn suggestions_are_whole_plans_on_gpus_and_leave_held_knobs_alone(
        engine in any_engine(), model in laws::any_model(), machine in machine(), settings in settings(),
        objective in select(&WISHES[..]), held in subsequence(Knob::ALL.to_vec(), 0..=3),
    ) {
        let request = request(engine, model, &machine, &settings);
        let Ok(plan) = request.plan() else { return Ok(()) };
        let found = request.best(&plan, objective, &held);
        prop_assert!(found.len() <= 3);
        for one in &found {
            let again = engine::plan(request.engine, model, &machine, &one.settings).unwrap();
            prop_assert!(Goal::Vram.is_met_by(&again));
            prop_assert_eq!(&again, &one.plan);
            for knob in &held {
                let value = |settings: &Settings| knob.chosen(settings, &request.bounds());
                prop_assert_eq!(value(&one.settings), value(&settings), "{:?} was held", knob);
            }
            match one.gain {
                // llama.cpp rounds the context of each sequence up
                Gain::Context(tokens) if engine == EngineId::LlamaCpp => {
                    prop_assert!((tokens..tokens + 256 * again.settings.parallel).contains(&again.settings.ctx));
                }
                Gain::Context(tokens) => prop_assert_eq!(again.settings.ctx, tokens),
                Gain::Parallel(sequences) => prop_assert_eq!(again.settings.parallel, sequences),
                Gain::CacheType(ty) => prop_assert_eq!(again.settings.cache_type_k, ty),
            }
        }
        prop_assert!(found.windows(2).all(|pair| pair[0].costs.len() <= pair[1].costs.len()));
    }
}

#[test]
fn more_context_is_bought_with_sequences_and_a_narrower_cache() {
    let (model, machine) = (model("llama3.1-8b"), one_gpu(12));
    let settings = Settings { ctx: Context::Tokens(8192), parallel: Some(4), ..Settings::default() };
    let request = request(EngineId::Ollama024, &model, &machine, &settings);
    let found = request.best(&request.plan().unwrap(), Objective::Context, &[]);
    let tokens: Vec<u64> = found
        .iter()
        .map(|one| match one.gain {
            Gain::Context(tokens) => tokens,
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(tokens.len(), 3);
    assert!(tokens.is_sorted() && tokens[0] < tokens[2]);
    assert_eq!(found[0].costs, []);
    assert_eq!(found[1].costs, [Cost::Parallel { from: 4, to: 1 }]);
    assert!(found[2].costs.contains(&Cost::CacheType { from: CacheType::F16, to: CacheType::Q4_0 }));
    // with the cache and the sequences held, there is one way left
    let held = [Knob::CacheType, Knob::FlashAttn, Knob::Parallel, Knob::Batch];
    let found = request.best(&request.plan().unwrap(), Objective::Context, &held);
    assert_eq!(found.len(), 1);
    assert!(request.best(&request.plan().unwrap(), Objective::Context, &[Knob::Context]).is_empty());
}

#[test]
fn a_context_below_the_batch_is_suggested_as_it_was_found() {
    let model = model("qwen2.5-0.5b");
    let settings =
        Settings { ctx: Context::Tokens(8192), batch: Some(4096), ubatch: Some(4096), ..Settings::default() };
    let mut machine = one_gpu(4);
    let mut shortened = 0;
    // where llama.cpp's batch, which no context rounds up, is what has to be smaller
    for free in (1450..1650).step_by(40) {
        machine.gpus[0].free = Bytes::mib(free);
        let request = request(EngineId::LlamaCpp, &model, &machine, &settings);
        for one in request.best(&request.plan().unwrap(), Objective::CacheType, &[Knob::Batch, Knob::Ubatch]) {
            let again = engine::plan(request.engine, &model, &machine, &one.settings).unwrap();
            assert_eq!(again, one.plan, "{free} MiB: {} at {:?}", one.gain, one.settings.ctx);
            shortened += u32::from(matches!(one.settings.ctx, Context::Tokens(tokens) if !tokens.is_multiple_of(256)));
        }
    }
    assert!(shortened > 0, "no such context was found");
}
