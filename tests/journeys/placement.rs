//! The placement screen: which tensors are where, and moving them.

use plimsoll::engine::EngineId;
use plimsoll::machine::Machine;
use plimsoll::plan::Outcome;
use plimsoll::settings::{Flag, GpuLayers, Settings};
use plimsoll::tui::action::{Action, Command, Gesture};
use plimsoll::tui::screens::placement::PlacementScreen;
use plimsoll::units::Bytes;
use proptest::prelude::*;

use crate::harness::{self, Harness};

fn on(machine: Machine, model: &str, settings: Settings) -> Harness {
    Harness::by(EngineId::LlamaCpp, harness::model(model), machine, (140, 45), settings)
}

fn overrides(harness: &Harness) -> Vec<String> {
    harness.host.app.request.settings.override_tensor.iter().map(ToString::to_string).collect()
}

/// The names of the rows.
fn rows(harness: &Harness) -> Vec<String> {
    let table = harness.showing::<PlacementScreen>().table.as_ref().unwrap();
    table.rows.iter().map(plimsoll::answer::tensors::TensorRow::name).collect()
}

fn elsewhere(harness: &Harness) -> Bytes {
    harness.host.app.request.plan.as_ref().unwrap().layers.iter().map(plimsoll::plan::LayerPlan::elsewhere).sum()
}

#[test]
fn a_part_is_moved_around_the_devices_and_the_plan_follows() {
    let mut harness = on(harness::machine(2, "RTX 3090", 24, 64), "gpt-oss-20b", Settings::default());
    harness.press("p");
    assert!(harness.text().contains("No tensors are placed by their names."), "{}", harness.text());
    assert_eq!(rows(&harness), ["embeddings", "blocks 0–12", "blocks 13–23", "output"]);
    harness.press("→");
    assert!(harness.text().contains("Blocks 0–12, experts up: "), "{}", harness.text());
    harness.press("Space");
    assert_eq!(overrides(&harness), [r"blk\.(\d|1[0-2])\.ffn_up_exps=GPU1"]);
    assert!(harness.text().contains(r"-ot blk\.(\d|1[0-2])\.ffn_up_exps=CUDA1"), "{}", harness.text());
    harness.press("Space");
    assert_eq!(overrides(&harness), [r"blk\.(\d|1[0-2])\.ffn_up_exps=CPU"]);
    assert_eq!(harness.host.app.request.plan.as_ref().unwrap().outcome(), Outcome::ExpertsInRam);
    assert!(harness.text().contains("Experts in RAM") && harness.text().contains("RAM* "), "{}", harness.text());
    harness.press("Space");
    assert_eq!(overrides(&harness), Vec::<String>::new(), "back where they are by themselves");
    harness.press("a a");
    assert_eq!(overrides(&harness), [r"\.ffn_up_exps=CPU"], "those of the other GPU too");
    harness.press("→ a a");
    assert_eq!(overrides(&harness), [r"\.ffn_(up|gate)_exps=CPU"]);
    harness.press("u u");
    assert_eq!(overrides(&harness), [r"\.ffn_up_exps=CPU"], "a move is one step");
    harness.press("U U");
    assert_eq!(overrides(&harness), [r"\.ffn_(up|gate)_exps=CPU"]);
    harness.press("Esc");
    assert!(harness.host.screens.is_empty());
    harness.assert_plan_is_current();
}

#[test]
fn single_blocks_are_moved_and_taken_back() {
    let mut harness = on(harness::one_gpu(), "qwen3-30b-a3b", Settings::default());
    harness.press("Tab p");
    assert_eq!(rows(&harness), ["embeddings", "blocks 0–47", "output"]);
    harness.press("Enter ↓ ↓ ↓ → Space ↓ Space");
    assert!(rows(&harness).len() > 48 && rows(&harness)[4] == "block 3", "{:?}", rows(&harness));
    assert_eq!(overrides(&harness), [r"blk\.[34]\.ffn_up_exps=CPU"]);
    harness.press("→ Space");
    assert_eq!(overrides(&harness), [r"blk\.3\.ffn_up_exps=CPU", r"blk\.4\.ffn_(up|gate)_exps=CPU"]);
    harness.press("Enter");
    assert_eq!(rows(&harness), ["embeddings", "blocks 0–2", "block 3", "block 4", "blocks 5–47", "output"]);
    harness.press("Back");
    assert_eq!(overrides(&harness), [r"blk\.[34]\.ffn_up_exps=CPU"]);
    assert_eq!(rows(&harness)[2], "blocks 3–4");
    harness.press("Back");
    assert!(harness.text().contains("Nothing places these tensors by their names."), "{}", harness.text());
    harness.press("← Back");
    assert_eq!(overrides(&harness), Vec::<String>::new());
    harness.press("Home Space");
    assert_eq!(overrides(&harness), [r"^token_embd\.=GPU0"]);
    harness.press("End Space");
    assert_eq!(overrides(&harness), ["^output=CPU", r"^token_embd\.=GPU0"]);
    harness.assert_plan_is_current();
}

#[test]
fn what_a_fit_placed_stays_where_it_is() {
    let machine = harness::machine(1, "RTX 3060", 12, 64);
    let mut harness = on(machine, "qwen3-30b-a3b", Settings::default());
    let before = harness.host.app.request.plan.as_ref().unwrap().clone();
    assert!(elsewhere(&harness) > Bytes::ZERO && before.outcome() == Outcome::ExpertsInRam);
    harness.press("p Home");
    let fitted = rows(&harness);
    assert!(fitted.len() > 3, "{fitted:?}");
    harness.press("Space");
    assert!(harness.text().contains("What the fit decided is set now"), "{}", harness.text());
    assert_eq!(rows(&harness), fitted);
    let now = harness.host.app.request.plan.as_ref().unwrap();
    assert_eq!(now.layers.len(), before.layers.len());
    for (a, b) in now.layers.iter().zip(&before.layers) {
        assert_eq!((a.device, a.elsewhere()), (b.device, b.elsewhere()));
    }
    assert_eq!(now.settings.ctx, before.settings.ctx);
    assert!(matches!(harness.host.app.request.settings.gpu_layers, GpuLayers::Count(_)));
    harness.press("u");
    assert_eq!(harness.host.app.request.settings, Settings::default(), "one step");
}

#[test]
fn taking_back_what_nothing_places_leaves_a_fit_alone() {
    let mut harness = on(harness::machine(1, "RTX 3060", 12, 64), "qwen3-30b-a3b", Settings::default());
    harness.press("p Home Back");
    assert!(harness.text().contains("Nothing places these tensors by their names."), "{}", harness.text());
    assert_eq!(harness.host.app.request.settings, Settings::default());
}

#[test]
fn undoing_the_engine_says_that_there_is_nothing_to_show() {
    let machine = harness::machine(1, "RTX 3060", 12, 64);
    let model = harness::model("gpt-oss-20b");
    let mut harness = Harness::by(EngineId::Ollama024, model, machine, (80, 24), Settings::default());
    while harness.host.app.request.engine != EngineId::LlamaCpp {
        harness.press("e ↑ Enter");
    }
    harness.press("p");
    assert!(harness.text().contains("Placement"), "{}", harness.text());
    while harness.host.app.request.engine != EngineId::Ollama024 {
        harness.press("u");
    }
    assert!(harness.text().contains("This engine places whole layers"), "{}", harness.text());
    harness.press("Esc");
    assert!(harness.host.screens.is_empty());
}

#[test]
fn what_was_written_by_hand_stays() {
    let mut settings = Settings::default();
    Flag::OverrideTensor.read(&mut settings, "attn_q=CPU,ffn_down_exps=CUDA1,nothing=CPU").unwrap();
    let mut harness = on(harness::machine(2, "RTX 3090", 24, 64), "qwen3-30b-a3b", settings);
    let before = elsewhere(&harness);
    harness.press("p");
    assert!(harness.text().contains("-ot attn_q=CPU,ffn_down_exps=CUDA1,nothing=CPU"), "{}", harness.text());
    harness.press("End Space");
    let written = overrides(&harness);
    let expected = ["^output=CPU", r"\.ffn_down_exps=CUDA1", r"\.attn_q\.weight=CPU", r"\.attn_q_norm\.weight=CPU"];
    assert_eq!(written, expected);
    assert_eq!(elsewhere(&harness), before);
}

#[test]
fn it_is_opened_from_a_layer_and_from_a_device() {
    let machine = harness::machine(2, "RTX 3060", 12, 64);
    let mut harness = on(machine, "gpt-oss-20b", Settings::default());
    for keys in ["Tab → → → Enter p", "i p", "p"] {
        harness.press(keys);
        assert!(harness.text().contains("Blocks 0–"), "{}", harness.text());
        harness.press("Enter");
        assert!(harness.text().contains("Block 3, attention"), "{}", harness.text());
        harness.press("Esc");
    }
    harness.press("Tab ↓ Enter");
    assert!(harness.text().contains("p placement"), "{}", harness.text());
    harness.press("p");
    assert!(harness.text().contains("on GPU1, "), "the first tensors of that GPU\n{}", harness.text());
    harness.press("Esc");
    assert!(harness.host.screens.is_empty());
}

#[test]
fn a_press_of_the_mouse_selects_a_cell_and_another_moves_it() {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let machine = harness::machine(2, "RTX 3090", 24, 64);
        let model = harness::model("gpt-oss-20b");
        let mut harness = Harness::by(EngineId::LlamaCpp, model, machine, size, Settings::default());
        harness.press("p");
        let text = harness.text();
        let name = if size.0 < 140 { "13–23" } else { "blocks 13–23" };
        let (y, line) = text.lines().enumerate().find(|(_, line)| line.contains(name)).unwrap();
        let at = line.find("GPU1").unwrap();
        let x = line[..at].chars().count() as u16;
        harness.mouse(Gesture::Down, x + 1, y as u16);
        assert_eq!(harness.showing::<PlacementScreen>().chosen(), (2, 0), "{}", harness.text());
        assert_eq!(overrides(&harness), Vec::<String>::new());
        harness.mouse(Gesture::Down, x + 1, y as u16);
        assert_eq!(overrides(&harness), [r"blk\.(1[3-9]|2[0-3])\.attn_=CPU"], "{}", harness.text());
        harness.mouse(Gesture::Down, 0, 0);
        assert_eq!(
            harness.host.screens.is_empty(),
            size.0 == 140,
            "beside it, if it leaves anything\n{}",
            harness.text()
        );
    }
}

#[test]
fn other_engines_say_what_they_lack() {
    let model = || harness::model("gpt-oss-20b");
    let machine = || harness::machine(1, "RTX 3090", 24, 64);
    let mut harness = Harness::by(EngineId::Ollama024, model(), machine(), (140, 45), Settings::default());
    harness.press("p");
    assert!(harness.host.screens.is_empty() && harness.text().contains("This engine places whole layers"));
    let mut harness = Harness::by(EngineId::Ollama, model(), machine(), (140, 45), Settings::default());
    harness.press("p → Space");
    let text = harness.text();
    assert!(text.contains(r"LLAMA_ARG_OVERRIDE_TENSOR=\.ffn_up_exps=CPU"), "{text}");
    let says = "Ollama has no option for it: llama-server reads LLAMA_ARG_OVERRIDE_TENSOR of the server's environment.";
    assert!(text.contains(says) && elsewhere(&harness) > Bytes::ZERO, "{text}");
}

#[test]
fn settings_that_are_refused_keep_the_table() {
    let mut settings = Settings::default();
    Flag::SplitMode.read(&mut settings, "tensor").unwrap();
    let mut harness = on(harness::machine(2, "RTX 3090", 24, 64), "llama3.1-8b", settings);
    harness.press("p");
    assert!(harness.text().contains("A model that is split by tensors is on all GPUs at once."), "{}", harness.text());
    Flag::SplitMode.read(&mut harness.host.app.request.settings, "layer").unwrap();
    Flag::OverrideTensor.read(&mut harness.host.app.request.settings, "attn_q=GPU7").unwrap();
    harness.press("1 0 0 0 Enter");
    assert!(harness.host.app.request.refused.is_some());
    harness.press("p");
    assert!(harness.text().contains("The engine refuses these settings: nothing is placed."), "{}", harness.text());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_keys_leave_a_plan_of_what_is_set(
        commands in prop::collection::vec(prop::sample::select(vec![
            Command::Up, Command::Down, Command::Less, Command::More, Command::First, Command::Last, Command::PageDown,
            Command::Toggle, Command::Toggle, Command::MoveInAllBlocks, Command::Remove, Command::Enter, Command::Undo,
            Command::Redo, Command::Theme, Command::Help, Command::Placement,
        ]), 1..25),
        model in prop::sample::select(vec!["gpt-oss-20b", "deepseek-v2-lite", "gemma3-4b", "mamba-2.8b"]),
        presses in prop::collection::vec((0u16..80, 0u16..24), 0..6),
        gib in prop::sample::select(vec![2u64, 6, 24]),
    ) {
        let machine = harness::machine(2, "RTX 3090", gib, 64);
        let mut harness = Harness::by(EngineId::LlamaCpp, harness::model(model), machine, (80, 24), Settings::default());
        harness.press("p");
        for (at, command) in commands.into_iter().enumerate() {
            harness.act(Action::Press(command));
            if let Some((x, y)) = presses.get(at) {
                harness.mouse(Gesture::Down, *x, *y);
            }
            harness.assert_plan_is_current();
        }
        for size in [(1, 1), (60, 20), (200, 60)] {
            harness.resize(size.0, size.1);
            harness.draw_at((70, 22));
        }
    }
}
