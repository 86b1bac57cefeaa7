//! Engines, their releases and notes, and what fills their graphs.

use plimsoll::engine::EngineId;
use plimsoll::plan::{Kind, Plan};
use plimsoll::settings::{Context, FlashAttn, GpuLayers, Release, Settings};
use plimsoll::tui::app::Mode;
use plimsoll::tui::regions::Panel;

use crate::stage::{self, Stage};

fn ctx(tokens: u64) -> Settings {
    Settings { ctx: Context::Tokens(tokens), ..Settings::default() }
}

fn plan(stage: &Stage) -> &Plan {
    stage.app.plan.as_ref().unwrap()
}

#[test]
fn an_engine_is_chosen_with_its_release() {
    let mut stage =
        Stage::by(EngineId::LlamaCpp, stage::model("llama3.1-8b"), stage::one_gpu(), (140, 45), ctx(16_384));
    assert!(stage.text().contains("llama.cpp · 2026-11 · exact"), "{}", stage.text());
    let newest = plan(&stage).totals;
    stage.press("e");
    assert!(stage.text().contains("plimsoll --engine llama.cpp --release 2026-11"), "{}", stage.text());
    stage.press("↓ Enter");
    assert_eq!((stage.app.engine, stage.app.settings.release), (EngineId::LlamaCpp, Some(Release::August2026)));
    assert!(stage.text().contains("llama.cpp · 2026-08 · exact"), "{}", stage.text());
    assert_eq!(plan(&stage).settings.release, Some(Release::August2026));
    assert_eq!((plan(&stage).totals.weights, plan(&stage).totals.cache), (newest.weights, newest.cache));
    assert_ne!(plan(&stage).totals.graph, newest.graph, "releases differ in what they compute with");
    stage.press("Tab Tab i");
    assert!(stage.text().contains("llama.cpp · 2026-08"), "a figure names its release\n{}", stage.text());
    stage.press("Esc e End Enter");
    assert_eq!((stage.app.engine, stage.app.settings.release), (EngineId::Ollama011, None));
    assert!(stage.text().contains("Ollama ≤ 0.11 · exact"), "{}", stage.text());
    stage.press("u u");
    assert_eq!(plan(&stage).settings.release, Some(Release::November2026));
}

#[test]
fn the_notes_list_ollamas_decisions_and_ollama_ps() {
    let machine = stage::machine(2, "RTX 3090", 24, 64);
    for size in [(60, 20), (80, 24), (140, 45)] {
        let mut stage = Stage::by(EngineId::Ollama, stage::model("llama3.1-8b"), machine.clone(), size, ctx(32_768));
        let plan = plan(&stage).clone();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let surprise = plan.decided.first().unwrap().clone();
        assert!(surprise.starts_with("1 of 2 GPUs"), "{:?}", plan.decided);
        assert!(stage.text().contains("1 of 2 GPUs"), "the verdict begins with it\n{}", stage.text());
        stage.press("n");
        let listing = plan.listing.unwrap();
        let mut seen = stage.text();
        for _ in 0..8 {
            stage.press("↓ ↓ ↓ ↓");
            seen += &stage.text();
        }
        assert!(seen.contains(&listing.size_column()) && seen.contains(&listing.processor_column()), "{seen}");
        for note in &plan.notes {
            let last = note.split_whitespace().last().unwrap();
            assert!(words(&seen).contains(last), "'{note}' is cut off\n{seen}");
        }
        assert!(seen.contains("Chosen by the engine") && seen.contains("Other notes"), "{seen}");
        stage.press("Esc");
        assert!(matches!(stage.app.mode, Mode::Plan));
    }
}

#[test]
fn an_engine_without_notes_says_so() {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (140, 45));
    stage.press("n");
    assert!(plan(&stage).notes.is_empty() == stage.text().contains("No notes: the engine"), "{}", stage.text());
    stage.press("? Esc");
    assert!(matches!(stage.app.mode, Mode::Plan));
}

/// The live tensors fill each device's buffer.
fn is_whole(plan: &Plan) {
    assert!(!plan.graph.peaks.is_empty());
    for peak in &plan.graph.peaks {
        assert_eq!(peak.bytes, plan.devices[peak.device].graph, "{peak:?}");
        assert_eq!(peak.bytes, peak.alive.iter().map(|alive| alive.bytes).sum());
        for alive in peak.alive.iter().filter(|alive| alive.kind != Kind::Gaps) {
            assert_eq!(alive.bytes, alive.tensors.iter().map(|held| held.bytes).sum());
        }
        assert!(peak.step >= 1 && peak.step <= peak.steps && !peak.node.is_empty());
    }
}

fn has(plan: &Plan, device: usize, kind: Kind) -> bool {
    plan.graph.peaks.iter().any(|peak| peak.device == device && peak.alive.iter().any(|alive| alive.kind == kind))
}

#[test]
fn the_peak_names_what_is_alive() {
    let by = |engine, model: &str, gpus, settings: Settings| {
        let machine = stage::machine(gpus, "RTX 3090", 24, 64);
        let stage = Stage::by(engine, stage::model(model), machine, (140, 45), settings);
        let plan = plan(&stage).clone();
        is_whole(&plan);
        plan
    };
    let whole = by(EngineId::LlamaCpp, "llama3.1-8b", 1, ctx(16_384));
    assert!(has(&whole, 0, Kind::Masks), "{:?}", whole.graph.peaks);
    let scores = by(EngineId::LlamaCpp, "llama3.1-8b", 1, Settings { flash_attn: FlashAttn::Off, ..ctx(16_384) });
    assert!(has(&scores, 0, Kind::Scores), "{:?}", scores.graph.peaks);
    let half = Settings { gpu_layers: GpuLayers::Count(12), ..ctx(4096) };
    let streamed = by(EngineId::LlamaCpp, "llama3.1-8b", 1, half);
    assert!(has(&streamed, 0, Kind::StreamedWeights), "{:?}", streamed.graph.peaks);
    let experts = by(EngineId::LlamaCpp, "gpt-oss-20b", 2, ctx(4096));
    assert!(has(&experts, 0, Kind::Experts) || has(&experts, 1, Kind::Experts), "{:?}", experts.graph.peaks);
    // Ollama chooses the GPU with more free memory, so the peak is on that one
    let mut machine = stage::machine(2, "RTX 3090", 24, 64);
    machine.gpus[0].free = plimsoll::units::Bytes::gib(10);
    let stage = Stage::by(EngineId::Ollama, stage::model("llama3.1-8b"), machine, (140, 45), ctx(8192));
    is_whole(plan(&stage));
    assert!(plan(&stage).graph.peaks.iter().any(|peak| peak.device == 1));
}

#[test]
fn each_device_shows_its_own_peak() {
    let machine = stage::machine(2, "RTX 3060", 12, 64);
    for size in [(60, 20), (80, 24), (140, 45)] {
        let mut stage = Stage::by(EngineId::LlamaCpp, stage::model("gpt-oss-20b"), machine.clone(), size, ctx(32_768));
        stage.press("⇧Tab");
        assert_eq!(stage.app.panels.focus, Panel::Graph);
        for (at, name) in ["GPU0", "GPU1", "RAM"].into_iter().enumerate() {
            let peak = plan(&stage).graph.peaks[at].clone();
            let line = format!("{} on {name}", peak.bytes);
            if at == 0 {
                stage.press("↓ ↑");
            } else {
                stage.press("↓");
            }
            assert!(stage.text().contains(&line), "'{line}' at {size:?}\n{}", stage.text());
            stage.press("Enter");
            let text = stage.text();
            assert!(text.contains(&format!("Graph on {name}")) && text.contains(&peak.node), "{text}");
            stage.press("Esc");
        }
        stage.press("↓ Enter");
        let kind = plan(&stage).graph.peaks[2].alive[0].kind;
        assert!(stage.text().contains(kind.says().split(' ').next().unwrap()), "{}", stage.text());
        stage.press("Esc");
        // a click selects what is drawn there
        let graph = stage.app.regions.graph;
        stage.mouse(plimsoll::tui::action::Gesture::Down, graph.x + 4, graph.y + 2);
        assert_eq!((stage.app.panels.cursors.term, stage.app.panels.cursors.peak), (1, Some(1)));
    }
}

#[test]
fn another_engine_is_compared_with_differences_marked() {
    let settings = Settings { ubatch: Some(256), ..ctx(16_384) };
    let mut stage = Stage::by(EngineId::LlamaCpp, stage::model("llama3.1-8b"), stage::one_gpu(), (140, 45), settings);
    stage.press("E");
    let text = stage.text();
    // the knobs behind the page have the same labels
    let line = |name: &str| text.lines().rev().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(text.contains("llama.cpp · 2026-11") && text.contains("▸Ollama ≤ 0.24"), "{text}");
    assert!(line("ubatch").contains("≠ ubatch") && text.contains("≠ graph"), "{text}");
    assert!(!text.contains("≠ cache"), "both have the same cache\n{text}");
    stage.press("→");
    assert!(stage.text().contains("▸Ollama ≤ 0.11"), "{}", stage.text());
    stage.press("← ←");
    assert!(stage.text().contains("▸llama.cpp · 2026-08"), "{}", stage.text());
    let before = stage.app.settings.clone();
    stage.press("Esc");
    assert_eq!((stage.app.engine, &stage.app.settings), (EngineId::LlamaCpp, &before), "Esc takes nothing");
    stage.press("E Enter");
    assert_eq!((stage.app.engine, stage.app.settings.ubatch), (EngineId::Ollama024, None));
    stage.press("u");
    assert_eq!((stage.app.engine, &stage.app.settings), (EngineId::LlamaCpp, &before));
    for size in [(60, 20), (80, 24)] {
        stage.resize(size.0, size.1);
        stage.press("E");
        assert!(stage.text().contains("Compare engines"), "{}", stage.text());
        stage.press("End");
        assert!(stage.text().contains("Planned for"), "{}", stage.text());
        stage.press("Esc");
    }
}
