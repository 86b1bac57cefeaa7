//! Engines, their releases and notes, and what fills their graphs.

use plimsoll::engine::EngineId;
use plimsoll::plan::{BufferKind, Plan};
use plimsoll::settings::{Context, FlashAttn, GpuLayers, Release, Settings};
use plimsoll::tui::regions::Panel;

use crate::harness::{self, Harness};

fn ctx(tokens: u64) -> Settings {
    Settings { ctx: Context::Tokens(tokens), ..Settings::default() }
}

fn plan(harness: &Harness) -> &Plan {
    harness.host.app.request.plan.as_ref().unwrap()
}

#[test]
fn an_engine_is_chosen_with_its_release() {
    let mut harness =
        Harness::by(EngineId::LlamaCpp, harness::model("llama3.1-8b"), harness::one_gpu(), (140, 45), ctx(16_384));
    assert!(harness.text().contains("llama.cpp · 2026-11 · exact"), "{}", harness.text());
    let newest = plan(&harness).totals;
    harness.press("e");
    assert!(harness.text().contains("plimsoll --engine llama.cpp --release 2026-11"), "{}", harness.text());
    harness.press("↓ ↓ ↓ Enter");
    assert_eq!(
        (harness.host.app.request.engine, harness.host.app.request.settings.release),
        (EngineId::LlamaCpp, Some(Release::August2026))
    );
    assert!(harness.text().contains("llama.cpp · 2026-08 · exact"), "{}", harness.text());
    assert_eq!(plan(&harness).settings.release, Some(Release::August2026));
    assert_eq!((plan(&harness).totals.weights, plan(&harness).totals.cache), (newest.weights, newest.cache));
    assert_ne!(plan(&harness).totals.graph, newest.graph, "releases differ in what they compute with");
    harness.press("Tab Tab i End");
    assert!(harness.text().contains("llama.cpp · 2026-08"), "a figure names its release\n{}", harness.text());
    harness.press("Esc e End ↑ Enter");
    assert_eq!(
        (harness.host.app.request.engine, harness.host.app.request.settings.release),
        (EngineId::Ollama011, None)
    );
    assert!(harness.text().contains("Ollama ≤ 0.11 · exact"), "{}", harness.text());
    harness.press("u u");
    assert_eq!(plan(&harness).settings.release, Some(Release::November2026));
}

/// The other releases of the engine in use say what they would take, as the command line does.
#[test]
fn the_list_says_what_other_releases_would_take() {
    let (model, machine) = (harness::model("llama3.1-8b"), harness::one_gpu());
    let mut harness = Harness::by(EngineId::LlamaCpp, model, machine, (140, 45), ctx(16_384));
    harness.press("e");
    let others = harness.host.app.request.plan_request().unwrap().other_releases(plan(&harness));
    let neighbours = harness.host.app.request.plan_request().unwrap().neighbouring_releases(plan(&harness));
    assert_eq!(others.iter().map(|other| other.release).collect::<Vec<_>>(), Release::ALL[1..]);
    assert_eq!(neighbours, others[..1]);
    // the name of the engine in use is in other panels too
    let says = |harness: &Harness, engine: &str, words: &str| {
        harness.text().lines().any(|line| line.contains(engine) && line.contains(words))
    };
    for other in &others {
        assert!(says(&harness, &format!("llama.cpp · {}", other.release), &other.in_short()), "{}", harness.text());
        assert!(!says(&harness, &format!("Ollama ≥ 0.30 · {}", other.release), "would"), "{}", harness.text());
        harness.press("↓");
        assert!(harness.text().contains(&other.to_string()), "{other}\n{}", harness.text());
    }
    assert!(says(&harness, "llama.cpp · 2026-11", "in use"), "{}", harness.text());

    harness.press("Enter e");
    let back = harness.host.app.request.plan_request().unwrap().other_releases(plan(&harness)).remove(0);
    assert!(says(&harness, "llama.cpp · 2026-11", &back.in_short()), "{}", harness.text());
    assert_ne!(back.in_short(), others[1].in_short(), "what was less is more");
    // older programs have no releases
    harness.press("End Enter e");
    assert!(!harness.text().contains("would take"), "{}", harness.text());
}

#[test]
fn the_notes_list_ollamas_decisions_and_ollama_ps() {
    let machine = harness::machine(2, "RTX 3090", 24, 64);
    for size in [(60, 20), (80, 24), (140, 45)] {
        let mut harness =
            Harness::by(EngineId::Ollama, harness::model("llama3.1-8b"), machine.clone(), size, ctx(32_768));
        let plan = plan(&harness).clone();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let surprise = plan.decided.first().unwrap().clone();
        assert!(surprise.starts_with("1 of 2 GPUs"), "{:?}", plan.decided);
        let verdict = words(&harness.text().replace('│', ""));
        assert!(
            verdict.contains("1 of 2 GPUs") || size.0 < 140 && verdict.contains("n for more"),
            "the verdict names it, or refers to the notes\n{}",
            harness.text()
        );
        harness.press("n");
        let ollama_ps = plan.ollama_ps.unwrap();
        let mut seen = harness.text();
        for _ in 0..8 {
            harness.press("↓ ↓ ↓ ↓");
            seen += &harness.text();
        }
        assert!(seen.contains(&ollama_ps.size_column()) && seen.contains(&ollama_ps.processor_column()), "{seen}");
        for note in &plan.notes {
            let last = note.split_whitespace().last().unwrap();
            assert!(words(&seen).contains(last), "'{note}' is cut off\n{seen}");
        }
        assert!(seen.contains("Chosen by the engine") && seen.contains("Other notes"), "{seen}");
        harness.press("Esc");
        assert!(harness.host.screens.is_empty());
    }
}

#[test]
fn an_engine_without_notes_says_so() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (140, 45));
    harness.press("n");
    assert!(plan(&harness).notes.is_empty() == harness.text().contains("No notes: the engine"), "{}", harness.text());
    harness.press("? Esc");
    assert!(harness.text().contains("Engine notes"), "help goes back to what it was opened over");
    harness.press("Esc");
    assert!(harness.host.screens.is_empty());
}

/// The live tensors fill each device's buffer.
fn is_whole(plan: &Plan) {
    assert!(!plan.graph.peaks.is_empty());
    for peak in &plan.graph.peaks {
        assert_eq!(peak.bytes, plan.devices[peak.device].graph, "{peak:?}");
        assert_eq!(peak.bytes, peak.alive.iter().map(|alive| alive.bytes).sum());
        for alive in peak.alive.iter().filter(|alive| alive.kind != BufferKind::Fragmentation) {
            assert_eq!(alive.bytes, alive.tensors.iter().map(|held| held.bytes).sum());
        }
        assert!(peak.step >= 1 && peak.step <= peak.steps && !peak.node.is_empty());
    }
}

fn has(plan: &Plan, device: usize, kind: BufferKind) -> bool {
    plan.graph.peaks.iter().any(|peak| peak.device == device && peak.alive.iter().any(|alive| alive.kind == kind))
}

#[test]
fn the_peak_names_what_is_alive() {
    let by = |engine, model: &str, gpus, settings: Settings| {
        let machine = harness::machine(gpus, "RTX 3090", 24, 64);
        let harness = Harness::by(engine, harness::model(model), machine, (140, 45), settings);
        let plan = plan(&harness).clone();
        is_whole(&plan);
        plan
    };
    let whole = by(EngineId::LlamaCpp, "llama3.1-8b", 1, ctx(16_384));
    assert!(has(&whole, 0, BufferKind::Masks), "{:?}", whole.graph.peaks);
    let scores = by(EngineId::LlamaCpp, "llama3.1-8b", 1, Settings { flash_attn: FlashAttn::Off, ..ctx(16_384) });
    assert!(has(&scores, 0, BufferKind::Scores), "{:?}", scores.graph.peaks);
    let half = Settings { gpu_layers: GpuLayers::Count(12), ..ctx(4096) };
    let streamed = by(EngineId::LlamaCpp, "llama3.1-8b", 1, half);
    assert!(has(&streamed, 0, BufferKind::CopiedWeights), "{:?}", streamed.graph.peaks);
    let experts = by(EngineId::LlamaCpp, "gpt-oss-20b", 2, ctx(4096));
    assert!(
        has(&experts, 0, BufferKind::Experts) || has(&experts, 1, BufferKind::Experts),
        "{:?}",
        experts.graph.peaks
    );
    // Ollama chooses the GPU with more free memory, so the peak is on that one
    let mut machine = harness::machine(2, "RTX 3090", 24, 64);
    machine.gpus[0].free = plimsoll::units::Bytes::gib(10);
    let harness = Harness::by(EngineId::Ollama, harness::model("llama3.1-8b"), machine, (140, 45), ctx(8192));
    is_whole(plan(&harness));
    assert!(plan(&harness).graph.peaks.iter().any(|peak| peak.device == 1));
}

#[test]
fn each_device_shows_its_own_peak() {
    let machine = harness::machine(2, "RTX 3060", 12, 64);
    for size in [(60, 20), (80, 24), (140, 45)] {
        let mut harness =
            Harness::by(EngineId::LlamaCpp, harness::model("gpt-oss-20b"), machine.clone(), size, ctx(32_768));
        harness.press("⇧Tab");
        assert_eq!(harness.host.app.panels.focus, Panel::Graph);
        for (at, name) in ["GPU0", "GPU1", "RAM"].into_iter().enumerate() {
            let peak = plan(&harness).graph.peaks[at].clone();
            let line = format!("{} on {name}", peak.bytes);
            if at == 0 {
                harness.press("↓ ↑");
            } else {
                harness.press("↓");
            }
            assert!(harness.text().contains(&line), "'{line}' at {size:?}\n{}", harness.text());
            harness.press("Enter");
            let text = harness.text();
            assert!(text.contains(&format!("Compute buffer on {name}")) && text.contains(&peak.node), "{text}");
            harness.press("Esc");
        }
        harness.press("↓ Enter");
        let kind = plan(&harness).graph.peaks[2].alive[0].kind;
        assert!(harness.text().contains(kind.description().split(' ').next().unwrap()), "{}", harness.text());
        harness.press("Esc");
        // a click selects what is drawn there
        let graph = harness.host.app.panels.regions.graph;
        harness.mouse(plimsoll::tui::action::Gesture::Down, graph.x + 4, graph.y + 2);
        assert_eq!((harness.host.app.panels.cursors.term, harness.host.app.panels.cursors.peak), (1, Some(1)));
    }
}

#[test]
fn another_engine_is_compared_with_differences_marked() {
    let settings = Settings { ubatch: Some(256), ..ctx(16_384) };
    let mut harness =
        Harness::by(EngineId::LlamaCpp, harness::model("llama3.1-8b"), harness::one_gpu(), (140, 45), settings);
    harness.press("E");
    let text = harness.text();
    // the knobs behind the page have the same labels
    let line = |name: &str| text.lines().rev().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(text.contains("llama.cpp · 2026-11") && text.contains("▸Ollama ≤ 0.24"), "{text}");
    assert!(line("ubatch").contains("≠ ubatch") && text.contains("≠ compute"), "{text}");
    assert!(!text.contains("≠ cache"), "both have the same cache\n{text}");
    harness.press("→");
    assert!(harness.text().contains("▸Ollama ≤ 0.11"), "{}", harness.text());
    harness.press("← ←");
    let oldest = format!("▸llama.cpp · {}", Release::ALL[Release::ALL.len() - 1]);
    assert!(harness.text().contains(&oldest), "{}", harness.text());
    let before = harness.host.app.request.settings.clone();
    harness.press("Esc");
    assert_eq!(
        (harness.host.app.request.engine, &harness.host.app.request.settings),
        (EngineId::LlamaCpp, &before),
        "Esc takes nothing"
    );
    harness.press("E Enter");
    assert_eq!(
        (harness.host.app.request.engine, harness.host.app.request.settings.ubatch),
        (EngineId::Ollama024, None)
    );
    harness.press("u");
    assert_eq!((harness.host.app.request.engine, &harness.host.app.request.settings), (EngineId::LlamaCpp, &before));
    for size in [(60, 20), (80, 24)] {
        harness.resize(size.0, size.1);
        harness.press("E");
        assert!(harness.text().contains("Compare engines"), "{}", harness.text());
        harness.press("End");
        assert!(harness.text().contains("Planned for"), "{}", harness.text());
        harness.press("Esc");
    }
}
