//! Snapshots of screens: text at three sizes, and SVG pictures.

use std::fs;
use std::path::PathBuf;

use plimsoll::engine::EngineId;
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::tui::picture::animation;
use plimsoll::tui::theme::{Appearance, Glyphs, Tone};

use plimsoll::hardware::{CollectorResult, Detected, DeviceFact, Process};
use plimsoll::library::ModelOrigin;
use plimsoll::machine::{Machine, Origin as Made};
use plimsoll::plan::Outcome;
use plimsoll::source::store::Store;
use plimsoll::tui::action::Action;
use plimsoll::units::Bytes;
use rstest::rstest;

use crate::harness::{self, Harness};

/// Compares a picture with the one in `screenshots/`, or writes it with `PLIMSOLL_REGENERATE=1 cargo test`.
pub fn picture(name: &str, harness: &mut Harness) {
    harness.answer_limits();
    harness.think();
    kept(name, &harness.svg());
}

/// The same for a picture that is drawn.
fn kept(name: &str, drawn: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("screenshots").join(format!("{name}.svg"));
    if std::env::var_os("PLIMSOLL_REGENERATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, drawn).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == drawn,
        "{} is not what the planner draws; PLIMSOLL_REGENERATE=1 cargo test writes it anew",
        path.display()
    );
}

fn settings(ctx: u64) -> Settings {
    Settings { ctx: Context::Tokens(ctx), ..Settings::default() }
}

#[test]
fn fits_on_one_gpu() {
    let mut harness = Harness::by(
        EngineId::default(),
        harness::model("llama3.1-8b"),
        harness::one_gpu(),
        (140, 45),
        settings(16_384),
    );
    picture("planner", &mut harness);
    harness.press("→");
    picture("planner-changed", &mut harness);
}

/// The screen as it is, as a frame of a recording.
fn frame(harness: &Harness, title: &str, millis: u32) -> animation::Frame {
    animation::Frame { buffer: harness.buffer().clone(), title: title.to_owned(), millis }
}

/// Ten seconds with the planner: slide the context until layers leave the GPU, go back to the most that fits, export.
#[test]
fn a_recording() {
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    let mut harness =
        Harness::by(EngineId::default(), harness::model("llama3.1-8b"), machine, (140, 34), settings(16_384));
    harness.no_limits = false;
    harness.think();
    let mut frames = vec![frame(&harness, "plimsoll", 1200)];
    let mut press = |harness: &mut Harness, keys: &str, what: &str, millis: u32| {
        harness.press(keys);
        harness.think();
        let key = keys.split(' ').next().unwrap_or_default();
        frames.push(frame(harness, &format!("plimsoll — {key} {what}"), millis));
    };
    // as if Shift and the arrow were held
    for _ in 0..15 {
        press(&mut harness, "⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→", "more context", 200);
    }
    press(&mut harness, "⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→ ⇧→", "more context", 1800);
    press(&mut harness, "m", "the most that stays in VRAM", 2000);
    press(&mut harness, "x", "export", 2500);
    assert_eq!(harness.host.app.request.plan.as_ref().unwrap().outcome(), Outcome::Vram, "m went back to the mark");
    let seconds = frames.iter().map(|frame| frame.millis).sum::<u32>() / 1000;
    assert!((9..=12).contains(&seconds), "{seconds} s in {} frames", frames.len());
    let drawn = animation::svg(&frames, frames.len() - 3, Tone::Dark, "plimsoll");
    assert!(drawn.len() <= 1_000_000, "{} bytes", drawn.len());
    kept("tour", &drawn);
}

#[test]
fn split_between_gpu_and_ram() {
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    let mut harness =
        Harness::by(EngineId::default(), harness::model("llama3.1-8b"), machine, (140, 40), settings(65_536));
    picture("split", &mut harness);
}

#[test]
fn four_gpus_with_a_big_model() {
    let machine = harness::machine(4, "RTX 6000 Ada", 48, 256);
    let settings = Settings { flash_attn: FlashAttn::On, ..settings(32_768) };
    let mut harness = Harness::by(EngineId::default(), harness::qwen3_235b(), machine, (200, 60), settings);
    picture("four-gpus", &mut harness);
}

#[test]
fn the_graph_explained() {
    let mut harness = Harness::with(
        Some(harness::model("llama3.1-8b")),
        harness::one_gpu(),
        (140, 45),
        settings(16_384),
        Appearance::BEST,
    );
    harness.press("Tab Tab Tab Enter");
    picture("graph", &mut harness);
}

#[test]
fn a_layer_explained() {
    let mut harness = Harness::by(
        EngineId::default(),
        harness::model("llama3.1-8b"),
        harness::machine(1, "RTX 3060", 12, 32),
        (140, 45),
        settings(65_536),
    );
    harness.press("Tab → → i");
    picture("layer", &mut harness);
    harness.press("Esc Enter");
    picture("why", &mut harness);
}

/// A machine with two detected cards and a third added by hand.
fn what_if() -> Harness {
    let machine = Machine { origin: Made::Detected, ..harness::machine(2, "RTX 3060", 12, 64) };
    let mut harness = Harness::with(
        Some(harness::model("llama3.1-8b")),
        machine.clone(),
        (140, 45),
        settings(65_536),
        Appearance::BEST,
    );
    let fact =
        |device: &str, what, value: &str| DeviceFact { device: device.to_owned(), what, value: value.to_owned() };
    let process =
        Process { device: "GPU0".to_owned(), pid: 4242, name: Some("Xorg".to_owned()), bytes: Some(Bytes::mib(410)) };
    harness.act(Action::Detected(Box::new(Detected {
        machine,
        facts: vec![
            fact("GPU0", "told by", "NVML (libnvidia-ml.so.1)"),
            fact("GPU0", "UUID", "GPU-8f2a"),
            fact("GPU0", "PCI", "00000000:01:00.0"),
            fact("GPU0", "driver", "580.95.05"),
        ],
        processes: vec![process],
        tried: vec![CollectorResult { collector: "nvml", outcome: "2 GPUs through libnvidia-ml.so.1".to_owned() }],
    })));
    harness.press("g ↓ Space a");
    harness.write("4060 ti 16");
    harness.press("Enter Home Enter ↓ ↓ ↓ →");
    harness.rest();
    harness
}

#[test]
fn the_machine() {
    let mut harness = what_if();
    picture("machine", &mut harness);
    harness.press("a");
    harness.write("rx 7");
    picture("card", &mut harness);
}

/// The machine screen as text.
#[rstest]
#[case::machine("machine", "")]
#[case::machine_card("machine-card", "a 5 0 8 0")]
#[case::machine_size("machine-size", "Enter 9 G i B")]
#[case::machine_wrong("machine-wrong", "Enter 9 9 G i B Enter")]
#[case::machine_ram("machine-ram", "Esc End ↑ Enter")]
#[case::machine_saved("machine-saved", "m")]
#[case::machine_versus("machine-versus", "m Space ↓ Space c")]
fn the_machine_at_three_sizes(#[case] state: &str, #[case] keys: &str) {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let mut harness = what_if();
        harness.resize(size.0, size.1);
        harness.fakes.machines.lock().unwrap().push(("dream".to_owned(), Ok(harness::machine(2, "RTX 5090", 32, 128))));
        harness.press(keys);
        harness.rest();
        insta::assert_snapshot!(format!("{state}-{}x{}", size.0, size.1), harness.text());
    }
}

#[test]
fn light_background() {
    let look = Appearance { tone: Tone::Light, ..Appearance::BEST };
    let settings = Settings { gpu_layers: GpuLayers::Count(33), ..settings(98_304) };
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    let mut harness = Harness::with(Some(harness::model("llama3.1-8b")), machine, (120, 36), settings, look);
    picture("light", &mut harness);
}

#[test]
fn help() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (140, 45));
    harness.press("?");
    picture("help", &mut harness);
}

/// A library with models from several sources.
fn with_library(harness: &mut Harness) {
    let given = |name: &'static str, origin, model: &'static str| (name, origin, Ok(harness::package(model)));
    let (ollama, face) = (ModelOrigin::Store(Store::Ollama), ModelOrigin::Store(Store::HuggingFace));
    harness.fakes.library = vec![
        given("hf://unsloth/gemma-3-27b-it-GGUF:Q4_K_M", ModelOrigin::Recent, "gemma3-27b"),
        given("gpt-oss:20b", ollama, "gpt-oss-20b"),
        given("llama3.1:8b", ollama, "llama3.1-8b"),
        ("mistral:7b", ollama, Err("its manifest names a blob that is missing".to_owned())),
        given("qwen3:30b-a3b", ollama, "qwen3-30b-a3b"),
        given("unsloth/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M", face, "qwen3-8b"),
        given("gemma3-4b", ModelOrigin::Catalogue, "gemma3-4b"),
        given("glm-4.5-air", ModelOrigin::Catalogue, "glm-4.5-air"),
        given("llama3.1-70b", ModelOrigin::Catalogue, "llama3.1-70b"),
        given("llama3.2-1b", ModelOrigin::Catalogue, "llama3.2-1b"),
        given("mamba-2.8b", ModelOrigin::Catalogue, "mamba-2.8b"),
        given("mixtral-8x7b", ModelOrigin::Catalogue, "mixtral-8x7b"),
        given("phi-4", ModelOrigin::Catalogue, "phi-4-14b"),
        given("qwen3-0.6b", ModelOrigin::Catalogue, "qwen3-0.6b"),
        given("qwen3-235b-a22b", ModelOrigin::Catalogue, "qwen3-235b-a22b"),
    ];
    harness.fakes.running = vec![("qwen2.5:32b", harness::package("qwen2.5-32b"))];
}

#[test]
fn choosing_a_model() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (140, 45));
    with_library(&mut harness);
    harness.press("b ↓ ↓ ↓ ↓ ↓ ↓");
    picture("models", &mut harness);
}

#[rstest]
#[case::all("models", "b ↓ ↓ ↓ ↓")]
#[case::here("models-here", "o ↓ ↓ ↓")]
#[case::searched("models-searched", "b ^S ^S ^F q w e n")]
#[case::typed("models-typed", "b h f : / / o / r")]
fn models_at_four_sizes(#[case] state: &str, #[case] keys: &str) {
    for size in [(60, 20), (80, 24), (140, 45), (200, 60)] {
        let machine = harness::machine(1, "RTX 3090", 24, 64);
        let mut harness =
            Harness::with(Some(harness::model("llama3.1-8b")), machine, size, settings(16_384), Appearance::BEST);
        with_library(&mut harness);
        harness.press(keys);
        insta::assert_snapshot!(format!("{state}-{}x{}", size.0, size.1), harness.text());
    }
}

/// Without local models the screen says so and lists the folders searched.
#[rstest]
fn no_local_models(#[values((60, 20), (80, 24), (140, 45))] size: (u16, u16)) {
    let mut harness = Harness::with(
        Some(harness::model("llama3.1-8b")),
        harness::one_gpu(),
        size,
        settings(16_384),
        Appearance::BEST,
    );
    with_library(&mut harness);
    harness.fakes.library.retain(|(_, origin, _)| *origin == ModelOrigin::Catalogue);
    harness.fakes.running.clear();
    harness.press("b");
    assert!(!harness.text().contains("No models found"), "who asks for all of them is shown all of them");
    harness.press("Esc o");
    insta::assert_snapshot!(format!("models-none-{}x{}", size.0, size.1), harness.text());
    harness.press("q w e n");
    assert!(!harness.text().contains("No models found"), "who searches has read it");
}

/// Three models, the first of which has to be unloaded.
fn crowded(size: (u16, u16), look: Appearance) -> Harness {
    let machine = harness::machine(1, "RTX 3090", 24, 64);
    let mut harness = Harness::with(Some(harness::model("llama3.1-8b")), machine, size, settings(65_536), look);
    with_library(&mut harness);
    for (keys, model) in [("c Esc b", "qwen3-0.6b"), ("c Esc b", "gemma3-4b")] {
        harness.press(keys);
        harness.write(model);
        harness.press("Enter");
    }
    harness
}

#[test]
fn models_loaded_together() {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let mut harness = crowded(size, Appearance::BEST);
        harness.press("L");
        insta::assert_snapshot!(format!("together-{}x{}", size.0, size.1), harness.text());
    }
    let mut harness = crowded((100, 30), Appearance { tone: Tone::Mono, glyphs: Glyphs::Ascii, ..Appearance::BEST });
    harness.press("Home 8 1 9 2 Enter L");
    let text = harness.text();
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!("together-ascii", text);
}

#[test]
fn four_plans_compared() {
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    let mut harness =
        Harness::with(Some(harness::model("llama3.1-8b")), machine, (140, 45), settings(24_576), Appearance::BEST);
    harness.press("c PgUp c Esc ↓ ↓ ↓ ↓ → ↑ → c Esc e ↑ ↑ ↑ Enter c");
    picture("compare", &mut harness);
}

#[test]
fn memory_against_context() {
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    let mut harness =
        Harness::with(Some(harness::model("llama3.1-8b")), machine, (140, 40), settings(16_384), Appearance::BEST);
    harness.press("w");
    harness.think();
    harness.press("]");
    picture("sweep", &mut harness);
}

#[test]
fn what_fits_where() {
    let machine = harness::machine(2, "RTX 3090", 24, 128);
    let settings = Settings { flash_attn: FlashAttn::On, ..settings(32_768) };
    let mut harness =
        Harness::with(Some(harness::model("llama3.1-70b")), machine, (140, 40), settings, Appearance::BEST);
    harness.press("W Tab Tab");
    picture("matrix", &mut harness);
}

#[test]
fn ranges_in_ascii_without_colour() {
    let look = Appearance { tone: Tone::Mono, glyphs: Glyphs::Ascii, ..Appearance::BEST };
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    let mut harness = Harness::with(Some(harness::model("llama3.1-8b")), machine, (100, 30), settings(49_152), look);
    for keys in ["w", "Esc W"] {
        harness.press(keys);
        harness.think();
        let text = harness.text();
        assert!(text.is_ascii(), "{text}");
        insta::assert_snapshot!(text);
    }
}

/// The main states as text.
#[rstest]
#[case::fits("fits", 24, "")]
#[case::split("split", 12, "PgUp")]
#[case::over("over", 12, "End ↓ ↓ ↓ ↓ ↓ ↓ → → → → → → → → → → → → → → → → → → → → → → → → → → → → → → → → →")]
#[case::memory("memory", 12, "PgUp Tab Tab")]
#[case::device("device", 12, "PgUp Tab Tab Enter")]
#[case::layer("layer", 12, "PgUp Tab i")]
#[case::because("because", 12, "PgUp Tab Enter ↓")]
#[case::best("best", 12, "PgUp l s ↓")]
#[case::graph("graph", 24, "⇧Tab Enter")]
#[case::knob("knob", 24, "i")]
#[case::typing("typing", 24, "1 2 3")]
#[case::weights("weights", 24, "↓ ↓ → → → →")]
#[case::not_taken("not-taken", 24, "↓ ↓ ↓ →")]
#[case::engines("engines", 24, "e")]
#[case::export("export", 24, "x")]
#[case::export_save("export-save", 24, "x → → s")]
#[case::help("help", 24, "?")]
#[case::sweep("sweep", 12, "w")]
#[case::matrix("matrix", 12, "W Tab")]
#[case::compare("compare", 12, "c → ↓ ↓ ↓ ↓ → ↑ → c")]
fn text_at_three_sizes(#[case] state: &str, #[case] gib: u64, #[case] keys: &str) {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let machine = harness::machine(1, if gib == 24 { "RTX 3090" } else { "RTX 3060" }, gib, 32);
        let model = Some(harness::model("llama3.1-8b"));
        let mut harness = Harness::with(model, machine, size, settings(24_576), Appearance::BEST);
        harness.press(keys);
        harness.rest();
        harness.think();
        insta::assert_snapshot!(format!("{state}-{}x{}", size.0, size.1), harness.text());
    }
}

/// Long card names are shortened; the figures are always shown.
#[rstest]
fn every_device_has_a_figure(#[values((60, 20), (80, 24), (100, 30), (140, 45), (200, 60))] size: (u16, u16)) {
    let machine = harness::machine(4, "NVIDIA GeForce RTX 4090 Laptop GPU", 16, 64);
    let mut harness = Harness::by(EngineId::Ollama, harness::model("llama3.1-8b"), machine, size, Settings::default());
    harness.press("Tab Tab");
    harness.rest();
    let text = harness.text();
    let figures = [" of 16.0 GiB", " of 64.0 GiB"].map(|figure| text.matches(figure).count());
    assert_eq!(figures, [4, 1], "{text}");
    if size == (80, 24) {
        insta::assert_snapshot!("many-devices-80x24", text);
    }
}

/// A verdict that is cut off refers to the notes.
#[rstest]
fn a_long_verdict_continues_on_the_notes_page(#[values((60, 20), (80, 24))] size: (u16, u16)) {
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    let model = Some(harness::model("qwen3-30b-a3b"));
    let mut harness = Harness::seen(EngineId::Ollama, model, machine, size, Settings::default(), Appearance::BEST);
    let end = "keeps all layers on GPU.";
    let text = harness.text();
    assert!(text.contains(" n for more") && !text.contains(end), "{text}");
    insta::assert_snapshot!(format!("long-verdict-{}x{}", size.0, size.1), text);
    harness.press("n");
    let text = harness.text().replace(['│', '\n'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(end), "{text}");
}

/// Screens of the engines that run llama.cpp.
#[rstest]
#[case::graph("peaks", EngineId::LlamaCpp, "⇧Tab ↓")]
#[case::graph_page("peaks-page", EngineId::LlamaCpp, "⇧Tab ↓ Enter")]
#[case::releases("releases", EngineId::LlamaCpp, "e ↓")]
#[case::notes("notes", EngineId::Ollama, "n")]
#[case::verdict("decided", EngineId::Ollama, "")]
#[case::beside("beside", EngineId::Ollama, "E")]
#[case::placement("placement", EngineId::LlamaCpp, "p → Space ↓ a")]
#[case::placement_of_ollama("placement-ollama", EngineId::Ollama, "p → Space")]
fn llama_server_at_three_sizes(#[case] state: &str, #[case] engine: EngineId, #[case] keys: &str) {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let machine = harness::machine(2, "RTX 3090", 24, 64);
        let mut harness = Harness::by(engine, harness::model("gpt-oss-20b"), machine, size, Settings::default());
        harness.press(keys);
        harness.rest();
        insta::assert_snapshot!(format!("{state}-{}x{}", size.0, size.1), harness.text());
    }
}

#[test]
fn llama_cpp_on_two_gpus() {
    let machine = harness::machine(2, "RTX 3060", 12, 64);
    let settings = Settings { cache_type_k: Some(CacheType::Q8_0), ..settings(32_768) };
    let mut harness = Harness::by(EngineId::LlamaCpp, harness::model("gpt-oss-20b"), machine, (140, 45), settings);
    harness.press("⇧Tab ↓");
    harness.rest();
    picture("llama-cpp", &mut harness);
}

/// A model with experts in llama.cpp on two GPUs: every knob is shown.
#[rstest]
fn more_knobs_than_rows(#[values((60, 20), (80, 24), (140, 45))] size: (u16, u16)) {
    let machine = harness::machine(2, "RTX 3060", 12, 64);
    let settings = Settings { cache_type_k: Some(CacheType::Q8_0), ..settings(32_768) };
    let mut harness = Harness::by(EngineId::LlamaCpp, harness::model("gpt-oss-20b"), machine, size, settings);
    harness.press("↓ ↓ ↓ ↓ ↓ ↓ ↓ ↓ →");
    harness.rest();
    insta::assert_snapshot!(format!("llama-cpp-{}x{}", size.0, size.1), harness.text());
}

#[test]
fn ascii_without_colour() {
    let look = Appearance { tone: Tone::Mono, glyphs: Glyphs::Ascii, ..Appearance::BEST };
    let machine = harness::machine(2, "RTX 3060", 12, 32);
    let mut harness = Harness::with(Some(harness::model("llama3.1-8b")), machine, (100, 30), settings(131_072), look);
    harness.press("Tab");
    let text = harness.text();
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
}

/// Experts that a fit left in RAM, taken apart by the user.
#[test]
fn which_tensors_are_where() {
    let machine = harness::machine(2, "RTX 3060", 12, 64);
    let model = harness::model("glm-4.5-air");
    let mut harness = Harness::by(EngineId::LlamaCpp, model, machine, (140, 45), Settings::default());
    harness.press("Tab p ↓ → → Space");
    picture("placement", &mut harness);
}

#[test]
fn placement_in_ascii_without_colour() {
    let look = Appearance { tone: Tone::Mono, glyphs: Glyphs::Ascii, ..Appearance::BEST };
    for size in [(60, 20), (80, 24), (140, 45)] {
        let machine = harness::machine(2, "RTX 3060", 12, 64);
        let model = harness::model("gpt-oss-20b");
        let mut harness = Harness::by(EngineId::LlamaCpp, model, machine, size, Settings::default());
        harness.host.app.theme = plimsoll::tui::theme::Theme::new(look);
        harness.press("p → Space");
        let text = harness.text();
        assert!(text.is_ascii(), "{text}");
        insta::assert_snapshot!(format!("placement-ascii-{}x{}", size.0, size.1), text);
    }
}
