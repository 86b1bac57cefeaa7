//! Several models on one machine.

use plimsoll::answer::together::{Eviction, Tenant, live_together};
use plimsoll::engine::EngineId;
use plimsoll::plan::Verdict;
use plimsoll::settings::{Context, GpuLayers, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;

use super::{any_engine, machine, model, one_gpu, settings};
use crate::laws;

#[test]
fn small_models_live_together_and_a_large_one_makes_the_first_go() {
    let (small, large) = (model("llama3.2-1b"), model("llama3.1-8b"));
    let settings = Settings { ctx: Context::Tokens(4096), ..Settings::default() };
    let tenant = |model| Tenant { model, settings: &settings };
    let machine = one_gpu(12);

    let two = live_together(EngineId::Ollama024, &machine, &[tenant(&large), tenant(&small)]).unwrap();
    assert!(two.all_live_together());
    let used: Bytes = two.residents.iter().map(|resident| resident.plan.totals.gpu).sum();
    assert_eq!(two.left.gpus[0].free, machine.gpus[0].free - used);
    assert!(two.residents.iter().all(|resident| resident.plan.verdict == Verdict::Gpu));

    let three =
        live_together(EngineId::Ollama024, &machine, &[tenant(&small), tenant(&large), tenant(&large)]).unwrap();
    assert_eq!(three.evictions, [Eviction { tenant: 0, by: 2 }]);
    let stay: Vec<_> = three.residents.iter().map(|resident| resident.tenant).collect();
    assert_eq!(stay, [1, 2]);
    assert!(!three.all_live_together());
}

#[test]
fn alone_a_model_may_be_split_but_not_beside_another() {
    let (small, large) = (model("llama3.2-1b"), model("llama3.1-8b"));
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let tenant = |model| Tenant { model, settings: &settings };
    let machine = one_gpu(8);
    let both = live_together(EngineId::Ollama024, &machine, &[tenant(&small), tenant(&large)]).unwrap();
    assert_eq!(both.evictions, [Eviction { tenant: 0, by: 1 }]);
    assert_eq!(both.residents[0].plan.verdict, Verdict::Split);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nobody_is_given_what_another_holds(
        engine in any_engine(128), tenants in proptest::collection::vec((laws::any_model(), settings()), 1..=4), machine in machine(),
    ) {
        let tenants: Vec<_> = tenants.iter().map(|(model, settings)| Tenant { model, settings }).collect();
        let Ok(household) = live_together(engine, &machine, &tenants) else { return Ok(()) };
        let accounted = household.residents.len() + household.evictions.len() + household.refused.len();
        prop_assert_eq!(accounted, tenants.len());
        for (index, gpu) in machine.gpus.iter().enumerate() {
            let asked: Bytes = household.residents.iter().map(|resident| resident.plan.devices[index].asked()).sum();
            prop_assert_eq!(household.left.gpus[index].free, gpu.free - asked);
        }
        for resident in household.residents.iter().skip(1) {
            // beside others a model is whole on the GPUs, unless fewer layers were asked for
            let whole = resident.plan.offloaded == resident.plan.layers.len();
            prop_assert!(whole || tenants[resident.tenant].settings.gpu_layers != GpuLayers::Auto);
        }
    }
}
