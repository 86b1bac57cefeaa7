//! No plan takes more memory than the machine has, unless its outcome says so: memory that a GPU and the CPU share counts
//! once.

use plimsoll::catalogue;
use plimsoll::engine::{self, EngineId, PreparedModel};
use plimsoll::gguf::FileType;
use plimsoll::machine::presets::{self, Preset};
use plimsoll::machine::{Backend, Machine, Ram};
use plimsoll::plan::{Outcome, Plan};
use plimsoll::settings::{Context, LoadMode, Settings};
use plimsoll::speed::Speed;
use plimsoll::units::{Bandwidth, Bytes, Difference};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::fixtures;

const ENGINES: [EngineId; 2] = [EngineId::LlamaCpp, EngineId::Ollama];

/// The machine of a preset: a system with its own RAM, or a card with 32 GiB.
fn machine(preset: &Preset) -> Machine {
    let ram = Ram { total: Bytes::gib(32), free: Bytes::gib(28), swap_free: Bytes::ZERO, bandwidth: None };
    Machine { ram: preset.ram().unwrap_or(ram), ..fixtures::machine(vec![preset.gpu()]) }
}

fn model(entry: &catalogue::CatalogueEntry) -> PreparedModel {
    entry.model(entry.quantisation).unwrap().into()
}

/// Memory of the machine that is not counted twice: RAM, and what GPUs have that is not RAM.
fn all_memory(machine: &Machine) -> Bytes {
    let own: Bytes = machine
        .gpus
        .iter()
        .map(|gpu| match (gpu.integrated, gpu.dedicated) {
            (false, _) => gpu.total,
            (true, set_aside) => set_aside.unwrap_or(Bytes::ZERO),
        })
        .sum();
    machine.ram.total + machine.ram.swap_free + own
}

fn holds(machine: &Machine, plan: &Plan) -> Result<(), TestCaseError> {
    let says_so = plan.outcome() >= Outcome::FromDisk;
    let growth: Bytes = plan.devices.iter().map(|device| device.growth).sum();
    let (all, has) = (plan.totals.all + growth, all_memory(machine));
    let what = || format!("{} on {}, {}: {all} of {has}", plan.model.name, machine, plan.engine);
    prop_assert!(says_so || all <= has, "{}", what());
    let cpu = plan.cpu();
    let shared: Bytes =
        plan.gpus().iter().filter(|gpu| gpu.own == Bytes::ZERO).map(|gpu| gpu.asked() + gpu.growth).sum();
    let taken = cpu.asked() + cpu.growth + shared;
    prop_assert!(says_so || taken <= cpu.free + cpu.ram.swap_free, "{}: {taken} of {} free", what(), cpu.free);
    prop_assert!(plan.headrooms().last().unwrap().left <= Difference::between(cpu.free, taken), "{}", what());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_plan_takes_more_than_the_machine_has(
        preset in any::<Index>(), entry in any::<Index>(), engine in select(&ENGINES[..]), ctx in 1024..=1u64 << 17,
    ) {
        let (machine, model) = (machine(preset.get(presets::all())), model(entry.get(catalogue::all())));
        let settings = Settings { ctx: Context::Tokens(ctx), ..Settings::default() };
        if let Ok(plan) = engine::plan(engine, &model, &machine, &settings) {
            holds(&machine, &plan)?;
        }
    }
}

#[test]
#[ignore = "takes minutes; the test above asks of a part of it"]
fn no_plan_of_any_model_on_any_preset_takes_more_than_the_machine_has() {
    for entry in catalogue::all() {
        let model = model(entry);
        for (preset, engine) in presets::all().iter().flat_map(|preset| ENGINES.map(|engine| (preset, engine))) {
            let machine = machine(preset);
            if let Ok(plan) = engine::plan(engine, &model, &machine, &Settings::default()) {
                holds(&machine, &plan).unwrap();
            }
        }
    }
}

fn plan_of(
    preset: &str,
    name: &str,
    quant: &str,
    change: impl FnOnce(&mut Settings),
) -> (Machine, PreparedModel, Plan) {
    let machine = machine(presets::find(preset).unwrap());
    let model: PreparedModel = catalogue::find(name).unwrap().model(quant.parse::<FileType>().unwrap()).unwrap().into();
    let mut settings = Settings { ctx: Context::Tokens(4096), parallel: Some(1), ..Settings::default() };
    change(&mut settings);
    let plan = engine::plan(EngineId::LlamaCpp, &model, &machine, &settings).unwrap();
    (machine, model, plan)
}

#[test]
fn what_exceeds_ram_is_read_from_disk_if_it_is_mapped_and_does_not_fit_otherwise() {
    let (machine, model, mapped) = plan_of("M2 8GB", "qwen3-14b", "q4_k_m", |_| {});
    assert_eq!(mapped.outcome(), Outcome::FromDisk);
    let beyond = mapped.ram().from_disk().unwrap();
    assert_eq!(beyond, mapped.ram().left().lacking());
    let (.., read) = plan_of("M2 8GB", "qwen3-14b", "q4_k_m", |settings| settings.load_mode = Some(LoadMode::Read));
    assert_eq!((read.outcome(), read.ram().from_disk()), (Outcome::DoesNotFit, None));

    // the disk's speed bounds that of generation (token embeddings are mapped too, but hardly read), and a faster disk is
    // faster
    let speed = |disk: Option<u32>| {
        let machine = Machine { disk: disk.map(Bandwidth::gbps), ..machine.clone() };
        Speed::of(&model, &machine, &mapped, 0).unwrap()
    };
    let (slow, fast, assumed) = (speed(Some(1)), speed(Some(6)), speed(None));
    assert!(slow.tokens_per_second < fast.tokens_per_second && slow.high < 1e9 / (0.85 * beyond.0 as f64), "{slow:?}");
    assert!(assumed.low < slow.tokens_per_second && fast.tokens_per_second < assumed.high, "{assumed:?}");
}

#[test]
fn memory_set_aside_is_not_ram() {
    let halo = presets::find("Strix Halo 128GB").unwrap();
    let (_, _, plan) = plan_of(halo.name, "llama3.1-70b", "q8_0", |_| {});
    assert!(plan.gpus_in_ram().is_empty() && plan.ram().by_gpus == Bytes::ZERO, "{:?}", plan.ram());
    let (_, _, plan) = plan_of("Ryzen AI Max+ 395", "llama3.1-70b", "q8_0", |_| {});
    let gpu = &plan.gpus()[0];
    assert_eq!((gpu.backend, plan.ram().by_gpus), (Some(Backend::Rocm), gpu.asked() - Bytes::mib(512)));
}
