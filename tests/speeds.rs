//! The model of speed: its arithmetic, its laws, and its errors on measurements of public threads.

mod cases;
mod fit;
mod folds;
mod laws;
mod mlx;
mod prompts;

use std::fmt::Write;
use std::sync::LazyLock;

use plimsoll::catalogue;
use plimsoll::engine::{self, EngineId, PlanRequest, PreparedModel};
use plimsoll::gguf::FileType;
use plimsoll::machine::{Backend, Gpu, Machine, Os, presets};
use plimsoll::model::TensorGroup;
use plimsoll::plan::{Confidence, Plan};
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::speed::family::Family;
use plimsoll::speed::prompt::constants as prompt_constants;
use plimsoll::speed::prompt::work::PromptWork;
use plimsoll::speed::prompt::{PromptSpeed, link_bandwidth};
use plimsoll::speed::range::Class;
use plimsoll::speed::terms::ram_bandwidth;
use plimsoll::speed::terms::{FITTED, spread};
use plimsoll::speed::turn::Reuse;
use plimsoll::speed::work::AssumedRam;
use plimsoll::speed::work::Work;
use plimsoll::speed::{Speed, Speeds};
use plimsoll::units::{Bandwidth, Bytes, Tokens};
use proptest::prelude::*;

use crate::fixtures;
use cases::{Case, Cases, Prompt};
use folds::Judged;
use prompts::CopiedPrompt;

static CASES: LazyLock<Cases> = LazyLock::new(Cases::read);

/// Those that constants are fitted on: with RAM in play, its bandwidth is stated.
fn known() -> Vec<&'static Case> {
    CASES.generation.iter().filter(|case| case.work.assumed.is_none()).collect()
}

static HELD_OUT: LazyLock<Vec<Judged>> = LazyLock::new(|| folds::held_out(&known()));

/// Those with RAM of a bandwidth that is not stated, judged by the constants in use, of which they are no part.
fn unstated() -> (Vec<&'static Case>, Vec<Judged>) {
    let cases: Vec<&Case> = CASES.generation.iter().filter(|case| case.work.assumed.is_some()).collect();
    let judged = cases.iter().map(|case| Judged::by(case, &FITTED)).collect();
    (cases, judged)
}

pub use self::mlx::table as mlx_table;

/// The table of errors in `tests/speeds/README.md`.
pub fn table() -> String {
    let cases = known();
    let mut table = "| measurements | number | median error | nine of ten | in the range shown |\n".to_owned();
    table.push_str("| --- | --- | --- | --- | --- |\n");
    for (name, group) in folds::GROUPS {
        let errors = folds::errors(&cases, &HELD_OUT, group);
        writeln!(
            table,
            "| {name} | {} | {:.0} % | {:.0} % | {:.0} % |",
            errors.count,
            errors.median * 100.0,
            errors.nine_of_ten * 100.0,
            errors.covered * 100.0
        )
        .unwrap();
    }
    let (unstated, judged) = unstated();
    let errors = folds::errors(&unstated, &judged, |_| true);
    writeln!(
        table,
        "| RAM of a bandwidth that is not stated | {} | {:.0} % | {:.0} % | {:.0} % |",
        errors.count,
        errors.median * 100.0,
        errors.nine_of_ten * 100.0,
        errors.covered * 100.0
    )
    .unwrap();
    let total = CASES.generation.len() + CASES.left_out.values().sum::<usize>();
    write!(
        table,
        "\nOf {total} lines, {} are not fitted because RAM takes part and its bandwidth is not stated (the last row)",
        unstated.len()
    )
    .unwrap();
    let left_out: Vec<String> = CASES.left_out.iter().map(|(reason, lines)| format!("{reason} ({lines})")).collect();
    writeln!(table, ", and others are left out: {}.", left_out.join(", ")).unwrap();
    table
}

/// Prompts for which nothing is copied: constants are fitted on them.
fn on_cards() -> Vec<&'static Prompt> {
    CASES.prompts.iter().filter(|prompt| !prompt.work.copies()).collect()
}

static PROMPTS_HELD_OUT: LazyLock<Vec<f64>> = LazyLock::new(|| prompts::held_out(&on_cards()));

/// Prompts for which weights are copied, by the constants in use.
struct Copied {
    assumed: Vec<CopiedPrompt<'static>>,
    of_machine: Vec<CopiedPrompt<'static>>,
    of_model: Vec<CopiedPrompt<'static>>,
}

impl Copied {
    fn read() -> Self {
        let all: Vec<&Prompt> = CASES.prompts.iter().collect();
        let copied = |machine| prompts::copied(&all, &prompt_constants::FITTED, machine);
        let told = |machine| copied(machine).into_iter().filter_map(|(_, told)| told).collect();
        Self {
            assumed: copied(|prompt| prompt.machine.clone()).into_iter().map(|(assumed, _)| assumed).collect(),
            of_machine: told(|prompt| prompt.machine.clone()),
            of_model: told(|prompt| format!("{} {}", prompt.machine, prompt.model)),
        }
    }
}

/// Median, nine of ten, and the share in the range shown: log errors, and whether each is covered.
fn judged(of: &[(f64, bool)]) -> (f64, f64, f64) {
    let mut sizes: Vec<f64> = of.iter().map(|(error, _)| ((-error).exp() - 1.0).abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let at = |share: f64| sizes[((sizes.len() - 1) as f64 * share).round() as usize];
    let covered = of.iter().filter(|(_, is_covered)| *is_covered).count();
    (at(0.5), at(0.9), covered as f64 / of.len() as f64)
}

/// Of prompts for which nothing is copied, by constants that a fit on others gave.
fn of_cards(of: &[(&Prompt, f64)]) -> Vec<(f64, bool)> {
    let is_covered = |prompt: &Prompt, error: f64| {
        let (low, high) = prompt_constants::spread(prompt.work.class());
        (low..=high).contains(&error.exp())
    };
    of.iter().map(|(prompt, error)| (*error, is_covered(prompt, *error))).collect()
}

fn of_copied(of: &[CopiedPrompt<'_>]) -> Vec<(f64, bool)> {
    of.iter().map(|one| (one.error, one.is_covered(&prompt_constants::FITTED))).collect()
}

fn prompts_of(group: prompts::Group) -> Vec<(&'static Prompt, f64)> {
    let with = on_cards().into_iter().zip(PROMPTS_HELD_OUT.iter().copied());
    with.filter(|(prompt, _)| group(prompt)).collect()
}

/// The table of errors of prompts in `tests/speeds/README.md`.
pub fn prompt_table() -> String {
    let mut table =
        "| measured prompts | number | threads | median error | nine of ten | in the range shown |\n".to_owned();
    table.push_str("| --- | --- | --- | --- | --- | --- |\n");
    let mut line = |name: &str, prompts: Vec<&Prompt>, of: &[(f64, bool)]| {
        let (median, nine, covered) = judged(of);
        let threads: std::collections::BTreeSet<&str> = prompts.iter().map(|prompt| prompt.thread.as_str()).collect();
        writeln!(
            table,
            "| {name} | {} | {} | {:.0} % | {:.0} % | {:.0} % |",
            of.len(),
            threads.len(),
            median * 100.0,
            nine * 100.0,
            covered * 100.0
        )
        .unwrap();
    };
    for (name, group) in prompts::GROUPS {
        let of = prompts_of(group);
        line(name, of.iter().map(|(prompt, _)| *prompt).collect(), &of_cards(&of));
    }
    let Copied { assumed, of_machine, of_model } = Copied::read();
    for (name, of) in [
        ("weights copied from RAM, the link assumed", assumed),
        ("the same, the link by one measurement of the machine", of_machine),
        ("the same, by one of the machine with the model", of_model),
    ] {
        line(name, of.iter().map(|one| one.prompt).collect(), &of_copied(&of));
    }
    let left_out: Vec<String> =
        CASES.prompts_left_out.iter().map(|(reason, lines)| format!("{reason} ({lines})")).collect();
    write!(table, "\nLeft out are: {}.\n", left_out.join(", ")).unwrap();
    table
}

#[test]
fn the_constants_are_those_of_the_fit() {
    let cases = known();
    let best = fit::cost(&cases, &fit::fit(&cases));
    let cost = fit::cost(&cases, &FITTED);
    assert!(cost <= best * 1.01, "{cost} and {best}: run cargo bench --bench speeds");
    let prompts = on_cards();
    let best = prompts::cost(&prompts, &prompts::fit(&prompts));
    let cost = prompts::cost(&prompts, &prompt_constants::FITTED);
    assert!(cost <= best * 1.01, "{cost} and {best} for prompts: run cargo bench --bench speeds");
}

#[test]
fn ranges_cover_four_fifths_of_measurements_that_a_fit_has_not_seen() {
    let cases = known();
    let (unstated, unstated_judged) = unstated();
    assert!(folds::errors(&unstated, &unstated_judged, |_| true).covered >= 0.8);
    let (assumed, cpu) = (spread(Class::RamAssumed).0, spread(Class::Cpu).0);
    assert!((assumed - cpu).abs() < f64::EPSILON, "what is assumed may be as much slower: {assumed} and {cpu}");
    let mut wrong = Vec::new();
    // plans with RAM have the width of their parts, and MLX has measurements of its own
    for class in Class::ALL.into_iter().filter(|class| !matches!(class, Class::Ram | Class::RamAssumed | Class::Mlx)) {
        let (low, high) = folds::spread(&cases, &HELD_OUT, class);
        let (shown_low, shown_high) = spread(class);
        if (low - shown_low).abs() >= 0.03 || (high - shown_high).abs() >= 0.03 {
            wrong.push(format!("{class:?} => ({low:.2}, {high:.2})"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (name, group) in folds::GROUPS {
        let errors = folds::errors(&cases, &HELD_OUT, group);
        assert!(errors.covered >= 0.8 || errors.count < 10, "{name}: {}", errors.covered);
    }
    let errors = |at: usize| folds::errors(&cases, &HELD_OUT, folds::GROUPS[at].1);
    assert!(errors(1).median <= 0.13 && errors(1).nine_of_ten <= 0.35, "one GPU");
}

#[test]
fn ranges_of_prompts_cover_what_a_fit_has_not_seen() {
    let copied = Copied::read();
    let mut wrong = Vec::new();
    for class in Class::ALL.into_iter().filter(|class| !matches!(class, Class::Cpu | Class::Mlx)) {
        let copies = |of: &[CopiedPrompt<'_>]| prompts::spread_of_copies(of, &prompt_constants::FITTED);
        let (low, high) = match class {
            Class::Ram => copies(&copied.of_machine),
            Class::RamAssumed => copies(&copied.assumed),
            _ => {
                let with = on_cards().into_iter().zip(PROMPTS_HELD_OUT.iter().copied());
                prompts::spread(&with.filter(|(prompt, _)| prompt.work.class() == class).collect::<Vec<_>>())
            }
        };
        let (shown_low, shown_high) = prompt_constants::spread(class);
        if (low - shown_low).abs() >= 0.03 || (high - shown_high).abs() >= 0.03 {
            wrong.push(format!("{class:?} => ({low:.2}, {high:.2})"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let (median, nine, covered) = judged(&of_cards(&prompts_of(prompts::GROUPS[0].1)));
    assert!(median <= 0.2 && nine <= 0.55 && covered >= 0.8, "{median} {nine} {covered}");
    for (name, group) in prompts::GROUPS {
        let (.., covered) = judged(&of_cards(&prompts_of(group)));
        assert!(covered >= 0.75, "{name}: {covered}");
    }
    let (median, ..) = judged(&of_copied(&copied.of_model));
    assert!(median <= 0.1, "{median}");
}

fn prompt(model: &PreparedModel, machine: &Machine, settings: &Settings, tokens: u64) -> Result<PromptSpeed, String> {
    PromptSpeed::of(model, machine, &plan(model, machine, settings), 0, tokens)
}

#[test]
fn a_prompt_of_one_ubatch_is_hand_arithmetic() {
    let llama = model("llama3.1-8b", FileType::Q4KM);
    let machine = machine(vec![card("RTX 4090")], None);
    let speed = prompt(&llama, &machine, &settings(GpuLayers::All, None), 512).unwrap();
    // 32 layers: Q and output 4096 × 4096, K and V 4096 × 1024, three matrices 4096 × 14336, two norms
    let layer = 2.0 * 4096.0 * 4096.0 + 2.0 * 4096.0 * 1024.0 + 3.0 * 4096.0 * 14336.0 + 2.0 * 4096.0;
    let ada = prompt_constants::FITTED.of(Family::Ada);
    let flops = 330.3e12;
    let dense = 2.0 * 32.0 * layer * 512.0 / (ada.dense * flops);
    let attention = 512.0 * 32.0 * 2.0 * 32.0 * 256.0 * 256.0 / (ada.attention * flops);
    let seconds = dense + attention + 32.0 * ada.layer;
    assert!((speed.tokens_per_second * seconds / 512.0 - 1.0).abs() < 1e-6, "{speed:?} {seconds}");
    let milliseconds: f64 = speed.terms.iter().map(|term| term.milliseconds).sum();
    assert!((milliseconds / 1e3 / seconds - 1.0).abs() < 1e-6);
    let names: Vec<_> = speed.terms.iter().map(|term| term.name.as_str()).collect();
    assert_eq!(names, ["GPU0 dense weights", "GPU0 attention", "GPU0 layers"]);
    assert!(speed.low < speed.tokens_per_second && speed.tokens_per_second < speed.high);
}

#[test]
fn larger_ubatches_copy_experts_less_often_and_a_measured_prompt_tells_the_link() {
    let moe = model("gpt-oss-120b", FileType::Mxfp4);
    let machine = machine(vec![card("RTX 3090")], Some(80));
    let with = |ubatch| Settings { batch: Some(4096), ubatch: Some(ubatch), ..settings(GpuLayers::All, Some(99)) };
    let at = |ubatch| prompt(&moe, &machine, &with(ubatch), 8192).unwrap();
    let (small, large) = (at(512), at(2048));
    let ratio = large.tokens_per_second / small.tokens_per_second;
    assert!((2.0..4.0).contains(&ratio), "{ratio}");
    assert_eq!(small.confidence, Confidence::Assumed);
    assert!(small.reason.unwrap().contains("the link"));
    let work = PromptWork::of(&moe, &machine, &plan(&moe, &machine, &with(512))).unwrap();
    let slow = PromptSpeed::of_work(&work.clone().with_link(0.5), 0, 8192).unwrap();
    let told = link_bandwidth(&work, 0, 8192, slow.tokens_per_second).unwrap();
    assert!((told.per_second() / work.devices[0].link().per_second() - 0.5).abs() < 1e-3, "{told}");
    assert!(link_bandwidth(&work, 0, 8192, 1e7).unwrap_err().contains("cannot be"));
}

#[test]
fn where_no_figure_is_honest_there_is_a_reason() {
    let llama = model("llama3.1-8b", FileType::Q4KM);
    let all = settings(GpuLayers::All, None);
    let none = settings(GpuLayers::Count(0), None);
    for (machine, settings, reason) in [
        (machine(vec![card("V100 32GB")], None), &all, "too few"),
        (machine(vec![card("RX 6800")], None), &all, "too few"),
        (machine(vec![fixtures::card(Backend::Cuda, Bytes::gib(24))], None), &all, "not known"),
        (machine(Vec::new(), None), &none, "a CPU"),
    ] {
        let why = prompt(&llama, &machine, settings, 512).unwrap_err();
        assert!(why.contains(reason), "{why}");
    }
    let sparse = model("deepseek-v4-flash", FileType::Q2K);
    let why = prompt(&sparse, &machine(vec![card("H200")], None), &all, 512).unwrap_err();
    assert!(why.contains("sparse"), "{why}");
}

#[test]
fn a_turn_takes_its_prompt_and_its_answer() {
    const LONG: (u64, u64) = (32_768, 1024);
    let llama = model("llama3.1-8b", FileType::Q4KM);
    let machine = machine(vec![card("RTX 4090")], None);
    let with = |turn: (u64, u64), cached| Settings {
        ctx: Context::Tokens(65_536),
        prompt_tokens: Some(turn.0),
        answer_tokens: Some(turn.1),
        cached: Some(cached),
        ..settings(GpuLayers::All, None)
    };
    let time = |turn, cached| {
        let plan = plan(&llama, &machine, &with(turn, cached));
        Speeds::of(&llama, &machine, &plan, 0).unwrap().turn.unwrap()
    };
    let whole = time(LONG, 0.0).unwrap();
    let read = prompt(&llama, &machine, &with(LONG, 0.0), 32_768).unwrap();
    let written = speed(&llama, &machine, &with(LONG, 0.0), 32_768 + 512);
    let first = 32_768.0 / read.tokens_per_second;
    assert!((whole.first.seconds / first - 1.0).abs() < 1e-9);
    assert!((whole.last.seconds - first - 1024.0 / written.tokens_per_second).abs() < 1e-6);
    assert!(whole.first.low < whole.first.seconds && whole.last.seconds < whole.last.high);
    let most_kept = time(LONG, 0.9).unwrap();
    assert!(most_kept.first.seconds < whole.first.seconds / 3.0, "{most_kept}");
    assert!(most_kept.to_string().contains(&format!("{} of them still in the cache", Tokens(29_491))), "{most_kept}");
    assert!(time((65_536, 1024), 0.0).unwrap_err().contains("does not hold it"));
}

#[test]
fn what_a_server_keeps_of_a_prompt_is_said_with_its_reason() {
    let reuse = |name: &str, settings: &Settings| {
        let model = model(name, FileType::Q4KM);
        let plan = plan(&model, &machine(vec![card("RTX 4090")], None), settings);
        Reuse::of(&model, &plan, settings.swa_full)
    };
    let plain = settings(GpuLayers::All, None);
    assert!(reuse("llama3.1-8b", &plain).goes_back);
    let windows = reuse("gemma3-4b", &plain);
    assert!(windows.goes_back && windows.reason.contains("windows of") && windows.reason.contains("checkpoints"));
    let full = Settings { swa_full: true, ..plain.clone() };
    assert!(!reuse("gemma3-4b", &full).reason.contains("windows"));
    let without = Settings { ctx_checkpoints: Some(0), ..plain };
    let recurrent = reuse("qwen3.6-27b", &without);
    assert!(!recurrent.goes_back && recurrent.reason.contains("recurrent"), "{}", recurrent.reason);
}

#[test]
fn ram_that_is_not_known_is_assumed_by_the_machine() {
    let of = |gpus: Vec<Gpu>, gib| {
        let mut machine = fixtures::machine(gpus);
        machine.ram.total = Bytes::gib(gib);
        AssumedRam::of(&machine).bandwidth
    };
    let gbps = |number| Bandwidth::gbps(number);
    assert_eq!(of(vec![card("GTX 1080")], 32), gbps(51));
    assert_eq!(of(vec![card("RTX 5070")], 64), gbps(90));
    assert_eq!(of(vec![card("RX 9070")], 64), gbps(90));
    assert_eq!(of(vec![card("RTX 3090"); 8], 256), gbps(205));
    assert_eq!(of(vec![card("H100 80GB")], 1024), gbps(307));
    assert_eq!(of(Vec::new(), 32), gbps(60));
    assert_eq!(plimsoll::machine::spec::ram_bandwidth("2x5600"), Ok(Bandwidth::checked(89_600_000_000).unwrap()));
    assert_eq!(plimsoll::machine::spec::ram_bandwidth("80GB/s"), Ok(gbps(80)));
    assert!(plimsoll::machine::spec::ram_bandwidth("fast").unwrap_err().contains("channels x speed"));
}

#[test]
fn a_larger_ubatch_is_a_card_where_prompts_gain() {
    let request = |name: &str, quant, settings: Settings| {
        let machine = machine(vec![presets::find("RTX 3090").unwrap().gpu()], Some(80));
        PlanRequest::new(EngineId::LlamaCpp, model(name, quant), machine, settings)
    };
    let moe =
        request("gpt-oss-120b", FileType::Mxfp4, Settings { ctx: Context::Tokens(16_384), ..Settings::default() });
    let larger = moe.larger_ubatch(&moe.plan().unwrap()).unwrap();
    assert!(larger.ubatch >= 2048 && larger.times > 2.0, "{larger}");
    assert!(larger.to_string().starts_with(&format!("ubatch {}: prompts ", larger.ubatch)), "{larger}");
    let dense = request("llama3.1-8b", FileType::Q4KM, Settings::default());
    assert!(dense.larger_ubatch(&dense.plan().unwrap()).is_none_or(|larger| larger.times >= 1.25));
}

fn model(name: &str, quant: FileType) -> PreparedModel {
    catalogue::find(name).unwrap().model(quant).unwrap().into()
}

fn card(name: &str) -> Gpu {
    let gpu = presets::find(name).unwrap().gpu();
    // large enough for everything
    Gpu { total: Bytes::gib(1024), free: Bytes::gib(1024), ..gpu }
}

fn machine(gpus: Vec<Gpu>, ram: Option<u32>) -> Machine {
    let mut machine = fixtures::machine(gpus);
    (machine.ram.total, machine.ram.free) = (Bytes::gib(256), Bytes::gib(256));
    machine.ram.bandwidth = ram.map(Bandwidth::gbps);
    machine
}

fn settings(gpu_layers: GpuLayers, n_cpu_moe: Option<u64>) -> Settings {
    Settings { gpu_layers, n_cpu_moe, flash_attn: FlashAttn::On, ..Settings::default() }
}

fn plan(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Plan {
    engine::plan(EngineId::LlamaCpp, model, machine, settings).unwrap()
}

fn speed(model: &PreparedModel, machine: &Machine, settings: &Settings, depth: u64) -> Speed {
    Speed::of(model, machine, &plan(model, machine, settings), depth).unwrap()
}

#[test]
fn a_dense_model_on_one_gpu_is_hand_arithmetic() {
    let llama = model("llama3.1-8b", FileType::Q4KM);
    let machine = machine(vec![card("RTX 4090")], None);
    let speed = speed(&llama, &machine, &settings(GpuLayers::All, None), 1000);
    let embeddings = llama.tensor("token_embd.weight").unwrap().bytes;
    let other = llama.tensors(TensorGroup::Input).map(|tensor| tensor.bytes).sum::<Bytes>() - embeddings;
    let weights = (llama.bytes - embeddings - other).0 as f64;
    // K and V of 32 layers with 8 KV heads of length 128, f16
    let cache = 1000.0 * 32.0 * 2.0 * 8.0 * 128.0 * 2.0;
    let ada = FITTED.of(Family::Ada);
    let seconds = weights / (ada.weights * 1008e9) + cache / (ada.cache_flash * 1008e9) + 32.0 * ada.layer;
    assert!((speed.tokens_per_second * seconds - 1.0).abs() < 1e-9, "{speed:?}");
    assert_eq!(speed.confidence, Confidence::Modelled);
    assert!(speed.low < speed.tokens_per_second && speed.tokens_per_second < speed.high);
    let milliseconds: f64 = speed.terms.iter().map(|term| term.milliseconds).sum();
    assert!((milliseconds - seconds * 1e3).abs() < 1e-9);
    let names: Vec<_> = speed.terms.iter().map(|term| term.name.as_str()).collect();
    assert_eq!(names, ["GPU0 weights", "GPU0 cache", "GPU0 layers"]);
    assert!(speed.terms[0].formula.ends_with("× 1008 GB/s)"), "{}", speed.terms[0].formula);
    assert!(speed.to_string().starts_with("≈ ") && speed.to_string().contains(" tok/s ("), "{speed}");
}

#[test]
fn the_cache_is_read_as_it_is_kept() {
    let machine = machine(vec![card("RTX 4090")], None);
    let cache = |name: &str, more: Settings, depth| {
        let model = model(name, FileType::Q4KM);
        let speed = speed(&model, &machine, &Settings { gpu_layers: GpuLayers::All, ..more }, depth);
        speed.terms.into_iter().find(|term| term.name == "GPU0 cache").map_or(0.0, |term| term.milliseconds)
    };
    let f16 = || settings(GpuLayers::All, None);
    let q8_0 = || Settings { cache_type_k: Some(CacheType::Q8_0), cache_type_v: Some(CacheType::Q8_0), ..f16() };
    let ratio = cache("llama3.1-8b", q8_0(), 8192) / cache("llama3.1-8b", f16(), 8192);
    assert!((ratio - 34.0 / 64.0).abs() < 1e-9, "{ratio}");
    // windows of 512 tokens in 22 of 26 blocks
    let windows = cache("gemma3-1b", f16(), 16_384) / cache("gemma3-1b", f16(), 512);
    assert!((5.0..6.0).contains(&windows), "{windows}");
    // a recurrent state is read at the start too, a latent vector is short
    assert!(cache("qwen3.6-27b", f16(), 0) > 0.0 && cache("llama3.1-8b", f16(), 0) == 0.0);
    let per_parameter = cache("deepseek-v2-lite", f16(), 8192) / cache("qwen3-30b-a3b", f16(), 8192);
    assert!(per_parameter < 0.5, "{per_parameter}");
}

#[test]
fn experts_in_ram_are_slower_and_layers_in_ram_slower_still() {
    let moe = model("qwen3-30b-a3b", FileType::Q4KM);
    let machine = machine(vec![card("RTX 4090")], Some(80));
    let of = |layers, n_cpu_moe| speed(&moe, &machine, &settings(layers, n_cpu_moe), 4096).tokens_per_second;
    let (vram, some, experts) = (of(GpuLayers::All, None), of(GpuLayers::All, Some(10)), of(GpuLayers::All, Some(48)));
    let none = of(GpuLayers::Count(0), None);
    assert!(vram > some && some > experts && experts > none, "{vram} {some} {experts} {none}");
    let few = speed(&moe, &machine, &settings(GpuLayers::All, Some(10)), 0);
    let names: Vec<_> = few.terms.iter().map(|term| term.name.as_str()).collect();
    assert!(names.contains(&"CPU weights") && names.contains(&"waiting for RAM"), "{names:?}");
}

#[test]
fn a_measured_speed_tells_the_bandwidth_of_ram() {
    let moe = model("qwen3-30b-a3b", FileType::Q4KM);
    let work = |layers, n_cpu_moe, ram| {
        let (machine, settings) = (machine(vec![card("RTX 4090")], ram), settings(layers, n_cpu_moe));
        Work::of(&moe, &machine, &plan(&moe, &machine, &settings), 4096).unwrap()
    };
    for (layers, n_cpu_moe) in [(GpuLayers::All, Some(10)), (GpuLayers::Count(20), None), (GpuLayers::Count(0), None)] {
        let made = Speed::of_work(&work(layers, n_cpu_moe, Some(83)), 4096).unwrap().tokens_per_second;
        let found = ram_bandwidth(&work(layers, n_cpu_moe, None), made).unwrap();
        assert!((found.per_second() / 83e9 - 1.0).abs() < 1e-3, "{found}");
    }
    let split = work(GpuLayers::All, Some(10), None);
    assert!(ram_bandwidth(&split, 1e6).unwrap_err().contains("1000000 tokens per second cannot be"));
    assert!(ram_bandwidth(&split, 0.001).unwrap_err().contains("not plausible"));
    let vram = work(GpuLayers::All, None, None);
    assert!(ram_bandwidth(&vram, 50.0).unwrap_err().contains("nothing of this plan is read from RAM"));
}

#[test]
fn an_unknown_bandwidth_is_no_speed_and_that_of_ram_is_assumed() {
    let llama = model("llama3.1-8b", FileType::Q4KM);
    let all = settings(GpuLayers::All, None);
    let unknown = machine(vec![fixtures::card(Backend::Cuda, Bytes::gib(24))], None);
    assert_eq!(Speed::of(&llama, &unknown, &plan(&llama, &unknown, &all), 0), None);
    let small = machine(vec![Gpu { total: Bytes::gib(4), free: Bytes::gib(4), ..card("RTX 4090") }], None);
    assert_eq!(Speed::of(&llama, &small, &plan(&llama, &small, &all), 0), None, "it does not fit");
    let half = settings(GpuLayers::Count(16), None);
    let assumed = speed(&llama, &machine(vec![card("RTX 4090")], None), &half, 0);
    assert_eq!(assumed.confidence, Confidence::Assumed);
    assert!(assumed.high / assumed.low >= 1.5 && assumed.reason.unwrap().contains("90 GB/s"));
    let stated = speed(&llama, &machine(vec![card("RTX 4090")], Some(90)), &half, 0);
    assert_eq!((stated.confidence, stated.reason), (Confidence::Modelled, None));
    assert!((stated.tokens_per_second - assumed.tokens_per_second).abs() < 1e-9);
    let halo = Machine { os: Os::Linux, ..machine(vec![card("Strix Halo 128GB")], None) };
    assert_eq!(speed(&llama, &halo, &half, 0).confidence, Confidence::Modelled, "the GPU's memory is RAM");
    // the card that is not known does nothing
    let in_ram = speed(
        &llama,
        &machine(vec![fixtures::card(Backend::Cuda, Bytes::gib(24))], Some(80)),
        &settings(GpuLayers::Count(0), None),
        0,
    );
    assert_eq!(in_ram.confidence, Confidence::Modelled);
}

#[test]
fn a_processor_may_be_slower_than_its_memory_for_i_quants() {
    let machine = machine(Vec::new(), Some(100));
    let of = |quant| speed(&model("llama3.1-8b", quant), &machine, &settings(GpuLayers::Auto, None), 0);
    let (k, i) = (of(FileType::Q4KM), of(FileType::Iq3S));
    assert!(k.reason.is_none() && i.reason.is_some());
    assert!(i.low / i.tokens_per_second < k.low / k.tokens_per_second);
}

#[test]
fn every_engine_has_a_speed() {
    let llama = model("llama3.1-8b", FileType::Q4KM);
    let machine = machine(vec![card("RTX 4090")], Some(80));
    // MLX runs no GGUF file
    let speeds: Vec<f64> = EngineId::ALL
        .into_iter()
        .filter(|engine| *engine != EngineId::Mlx)
        .map(|engine| {
            let plan = engine::plan(engine, &llama, &machine, &Settings::default()).unwrap();
            Speed::of(&llama, &machine, &plan, 0).unwrap().tokens_per_second
        })
        .collect();
    assert!(speeds.iter().all(|speed| (speed / speeds[0] - 1.0).abs() < 1e-9), "{speeds:?}");
}

static MODELS: LazyLock<Vec<PreparedModel>> = LazyLock::new(|| {
    let names = ["llama3.2-3b", "gemma3-4b", "qwen3-30b-a3b", "deepseek-v2-lite", "qwen3.6-35b-a3b", "gemma4-12b"];
    names.map(|name| model(name, FileType::Q4KM)).into()
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn deeper_is_never_faster_and_more_bandwidth_never_slower(
        model in 0..6_usize,
        cards in 0..3_usize,
        layers in 0..60_u64,
        n_cpu_moe in 0..50_u64,
        depth in 0..100_000_u64,
        further in 0..100_000_u64,
        ram in 10..400_u32,
        more in 0..400_u32,
    ) {
        let model = &MODELS[model];
        let settings = settings(GpuLayers::Count(layers), Some(n_cpu_moe));
        let slow = machine(vec![card("RTX 4090"); cards], Some(ram));
        let made = plan(model, &slow, &settings);
        let at = |machine: &Machine, depth| Speed::of(model, machine, &made, depth).unwrap();
        let (first, deeper) = (at(&slow, depth), at(&slow, depth + further));
        prop_assert!(deeper.tokens_per_second <= first.tokens_per_second);
        prop_assert!(deeper.low <= first.low && deeper.high <= first.high);
        let fast = at(&machine(vec![card("RTX 4090"); cards], Some(ram + more)), depth);
        prop_assert!(fast.tokens_per_second >= first.tokens_per_second);
        prop_assert!(first.low > 0.0 && first.low <= first.tokens_per_second && first.tokens_per_second <= first.high);
        let milliseconds: f64 = first.terms.iter().map(|term| term.milliseconds).sum();
        prop_assert!((milliseconds * first.tokens_per_second / 1e3 - 1.0).abs() < 1e-9);
    }
}
