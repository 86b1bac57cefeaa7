//! End-to-end tests of the planner: keys and mouse, and what is then on the screen.

mod advice;
mod compare;
mod engines;
mod exports;
mod knobs;
mod loads;
mod machine;
mod quantisation;
mod random_input;
mod ranges;
mod sliders;
mod together;

use std::thread;

use crate::stage::{self, Stage};
use plimsoll::engine::EngineId;
use plimsoll::gguf::{FileType, Value};
use plimsoll::plan::{Verdict, Why};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::tui::action::{Action, Command, Leave};
use plimsoll::tui::app::{Known, Mode};
use plimsoll::tui::effect::Effect;
use plimsoll::tui::keymap::{KEYS, Scope};
use plimsoll::tui::regions::Panel;

fn llama() -> Stage {
    Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (140, 45))
}

#[test]
fn context_moves_in_coarse_and_fine_steps() {
    let mut stage = llama();
    let start = stage.app.value(Knob::Context);
    assert_eq!(stage.app.settings.ctx, Context::Auto, "until a key is pressed the engine decides");
    stage.press("→");
    assert!(matches!(stage.app.settings.ctx, Context::Tokens(n) if n > start));
    stage.press("← ←");
    assert!(stage.app.value(Knob::Context) < start);
    stage.press("Home");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(1024));
    stage.press("⇧→ .");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(1536));
    stage.press(",");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(1280));
    stage.press("End");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(131_072));
    stage.press("0");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(1024));
    stage.press("PgUp PgDn");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(1024));
    assert!(stage.text().contains("1\u{2009}024"), "{}", stage.text());
}

#[test]
fn the_plan_follows_each_key() {
    let mut stage = llama();
    let before = stage.app.plan.clone().unwrap();
    stage.press("→");
    let after = stage.app.plan.clone().unwrap();
    assert!(after.totals.cache > before.totals.cache);
    assert!(stage.text().contains('▲'), "what grew is marked\n{}", stage.text());
    stage.rest();
    assert!(!stage.text().contains('▲'), "the mark fades\n{}", stage.text());
}

#[test]
fn every_knob_turns_and_is_undone() {
    let mut stage = llama();
    let fresh = stage.app.settings.clone();
    stage.press("↓ → ↓ → ↓ → ↓ → ↓ → ↓ ←");
    assert_eq!(stage.app.settings.parallel, Some(2));
    assert_eq!(stage.app.settings.quant, Some(FileType::Q4_1));
    assert_eq!(stage.app.settings.cache_type_k, Some(CacheType::Q8_0));
    assert_eq!(stage.app.settings.cache_type_v, Some(CacheType::Q8_0));
    assert_eq!(stage.app.settings.flash_attn, FlashAttn::On);
    assert_eq!(stage.app.settings.batch, Some(768));
    assert!(matches!(stage.app.settings.gpu_layers, GpuLayers::Count(_)));
    stage.press("u u u u u u");
    assert_eq!(stage.app.settings, fresh);
    stage.press("u");
    assert!(stage.text().contains("Nothing to undo"));
}

#[test]
fn reset_returns_a_knob_to_auto() {
    let mut stage = llama();
    stage.press("→ → r");
    assert_eq!(stage.app.settings.ctx, Context::Auto);
    stage.press("u");
    assert!(matches!(stage.app.settings.ctx, Context::Tokens(_)), "a reset can be undone too");
}

#[test]
fn m_finds_the_largest_value_that_fits() {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::machine(1, "RTX 3060", 12, 64), (120, 40));
    stage.press("End");
    assert_ne!(stage.app.plan.as_ref().unwrap().verdict, Verdict::Gpu);
    stage.press("m");
    assert_eq!(stage.app.plan.as_ref().unwrap().verdict, Verdict::Gpu);
    let Context::Tokens(most) = stage.app.settings.ctx else { panic!("m sets a value") };
    stage.press("Enter");
    stage.press("Back Back Back Back Back Back");
    stage.write(&(most + 1).to_string());
    stage.press("Enter");
    assert_ne!(stage.app.plan.as_ref().unwrap().verdict, Verdict::Gpu, "one token more does not fit");
}

/// The value acts as if it were selected: letters replace it, arrows keep it for editing.
#[test]
fn typing_replaces_the_value_in_a_field() {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (80, 24));
    let after = |stage: &mut Stage, keys: &str, text: &str| {
        stage.press(keys);
        stage.write(text);
        stage.press("Enter");
        stage.app.settings.ctx
    };
    assert_eq!(after(&mut stage, "Enter", "8192"), Context::Tokens(8192));
    assert_eq!(after(&mut stage, "Enter End Back", "3"), Context::Tokens(8193));
    assert_eq!(after(&mut stage, "Enter Back", "1234"), Context::Tokens(1234));
    stage.press("Enter");
    stage.act(Action::Paste("4096".to_owned()));
    assert_eq!(after(&mut stage, "", "0"), Context::Tokens(40_960));
    stage.press("Enter");
    stage.write("99999999999999999999");
    stage.press("Enter");
    assert!(stage.text().contains("out of range for context"), "{}", stage.text());
}

#[test]
fn typed_values_are_taken_exactly_or_refused_with_a_reason() {
    let mut stage = llama();
    stage.press("1");
    assert!(matches!(stage.app.mode, Mode::Entry(_)));
    stage.write("2345");
    assert!(stage.text().contains("12345"));
    stage.press("Enter");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(12_345));

    stage.press("7");
    stage.write("x");
    stage.press("Enter");
    assert!(stage.text().contains("is not a number"), "{}", stage.text());
    stage.press("Esc");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(12_345), "Esc leaves it as it was");
    stage.press("9");
    stage.write("99999999999999");
    stage.press("Enter");
    assert!(stage.text().contains("out of range"), "{}", stage.text());
}

#[test]
fn tab_cycles_and_i_explains_the_focused_panel() {
    let mut stage = llama();
    for (panel, words) in [
        (Panel::Knobs, "Context size in tokens"),
        (Panel::Layers, "attn_q.weight"),
        (Panel::Memory, "Reserved by the engine"),
        (Panel::Graph, "Confidence"),
    ] {
        assert_eq!(stage.app.panels.focus, panel);
        stage.press("i");
        let text = stage.text();
        assert!(text.contains(words) && text.contains("exact"), "{panel:?}\n{text}");
        stage.press("Esc Tab");
    }
    assert_eq!(stage.app.panels.focus, Panel::Knobs);
    stage.press("⇧Tab");
    assert_eq!(stage.app.panels.focus, Panel::Graph);
}

#[test]
fn a_layer_explains_its_device() {
    let machine = stage::machine(1, "RTX 3060", 12, 64);
    let mut stage = Stage::new(stage::model("llama3.1-8b"), machine, (140, 45));
    stage.press("End Tab i");
    let plan = stage.app.plan.clone().unwrap();
    let Why::NoRoom { needed, room, .. } = plan.layers[0].why.clone() else { panic!("{:?}", plan.layers[0].why) };
    let text = stage.text();
    assert!(text.contains(&format!("needs {needed}")) && text.contains(&room.to_string()), "{text}");
    stage.press("→");
    assert!(stage.text().contains("Layer 1"), "the neighbour, without closing\n{}", stage.text());
    stage.press("Esc End i");
    assert!(stage.text().contains("Output layer"), "{}", stage.text());
}

#[test]
fn losing_branches_of_the_graph_can_be_reached() {
    let mut stage = llama();
    stage.press("Tab Tab Tab End Enter");
    let graph = &stage.app.plan.as_ref().unwrap().graph;
    let used = graph.in_force();
    let loser = used.branches.iter().enumerate().find(|(at, _)| *at != used.winner).unwrap().1;
    let text = stage.text();
    assert!(text.contains("The largest branch is used") && text.contains(&loser.terms[0].formula), "{text}");
}

#[test]
fn the_help_lists_every_key() {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (140, 100));
    assert!(stage.text().contains("m max that fits"));
    stage.press("?");
    let mut text = stage.text();
    for _ in 0..4 {
        stage.press("PgDn PgDn");
        text += &stage.text();
    }
    for binding in KEYS {
        let says = binding.says.split(' ').take(3).collect::<Vec<_>>().join(" ");
        assert!(text.contains(&says), "'{says}' is missing\n{text}");
    }
    assert!(Scope::ALL.iter().all(|scope| text.contains(scope.heading())));
    stage.press("?");
    assert!(matches!(stage.app.mode, Mode::Plan));
}

#[test]
fn q_and_ctrl_c_quit() {
    for keys in ["q", "^C", "? ^C", "o ^C", "Enter ^C"] {
        let mut stage = llama();
        stage.press(keys);
        assert_eq!(stage.app.leave, Some(Leave::Quit), "{keys}");
    }
    let mut stage = llama();
    stage.press("o q");
    assert_eq!(stage.app.leave, None, "a letter in a field is a letter");
    stage.press("Esc ^Z");
    assert_eq!(stage.suspended, 1);
}

#[test]
fn another_engine_keeps_the_knobs_and_is_undone() {
    let mut stage = llama();
    let first = stage.app.engine;
    stage.press("→ e ↓ Enter");
    let place = EngineId::ALL.iter().position(|&engine| engine == first).unwrap();
    let second = EngineId::ALL[place + 1];
    assert!(first.facts().releases.is_empty(), "the next line is the next engine");
    assert_eq!(stage.app.engine, second);
    assert_eq!(stage.app.plan.as_ref().unwrap().engine, second);
    assert!(matches!(stage.app.settings.ctx, Context::Tokens(_)));
    assert!(stage.text().contains(second.title()), "{}", stage.text());
    stage.press("Tab Tab i");
    assert!(stage.text().contains("As the engine logs it"), "{}", stage.text());
    stage.press("Esc u");
    assert_eq!(stage.app.plan.as_ref().unwrap().engine, first);
    stage.press("e ↓ Esc");
    assert_eq!(stage.app.engine, first, "Esc takes nothing");
}

#[test]
fn a_machine_detected_late_fills_in() {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::machine(0, "", 0, 64), (120, 40));
    stage.app.found_machine.known = Known::Asking;
    stage.press("Tab Tab");
    assert!(stage.text().contains("detecting GPUs"), "{}", stage.text());
    stage.act(stage::detected(stage::one_gpu(), &[]));
    assert!(stage.text().contains("RTX 3090"), "{}", stage.text());
    assert_eq!(stage.app.plan.as_ref().unwrap().verdict, Verdict::Gpu);
}

#[test]
fn without_a_gpu_the_screen_lists_what_was_tried() {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (120, 40));
    let tried = [("nvml", "libnvidia-ml.so.1 is not installed")];
    stage.act(stage::detected(stage::machine(0, "", 0, 64), &tried));
    let text = stage.text();
    assert!(text.contains("No GPU was found") && text.contains("libnvidia-ml.so.1 is not installed"), "{text}");
    assert!(text.contains("In RAM: no GPU"), "{text}");
}

#[test]
fn names_cannot_control_the_terminal() {
    let mut header = crate::support::model("llama3.1-8b");
    let evil = "\u{1b}[2J\u{7}Evil\nmodel \u{202e}漢字".to_owned();
    let renamed = |(key, value): (&str, &Value)| {
        let value = if key == "general.name" { Value::String(evil.clone().into()) } else { value.clone() };
        (Box::from(key), value)
    };
    header.metadata = header.metadata.iter().map(renamed).collect();
    let model = plimsoll::model::Model::from_header(header, "").unwrap();
    for size in [(60, 20), (140, 45)] {
        let mut machine = stage::one_gpu();
        machine.gpus[0].name.clone_from(&evil);
        let stage = Stage::new(model.clone(), machine, size);
        let text = stage.text();
        assert!(text.contains("Evil"), "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
}

#[test]
fn sixty_four_gpus_scroll() {
    let mut stage = Stage::new(stage::qwen3_235b(), stage::machine(64, "RTX 3090", 24, 256), (100, 30));
    stage.press("Tab Tab");
    assert!(stage.text().contains("of 65"), "{}", stage.text());
    stage.press("End");
    assert!(stage.text().contains("▸ RAM"), "{}", stage.text());
}

#[test]
fn odd_machines_and_contexts_are_drawn() {
    let mut full = stage::one_gpu();
    full.gpus[0].free = plimsoll::units::Bytes::ZERO;
    for machine in [full, stage::machine(0, "", 0, 0), stage::machine(1, "tiny", 1, 1)] {
        let mut stage = Stage::new(stage::model("llama3.1-8b"), machine, (100, 30));
        for text in ["1", "1099511627776"] {
            stage.press("1 Back");
            stage.write(text);
            stage.press("Enter");
            assert!(stage.text().contains("Verdict"), "{}", stage.text());
        }
    }
}

#[test]
fn too_small_screens_ask_for_room() {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (59, 20));
    assert!(stage.text().contains("plimsoll needs 60×20"), "{}", stage.text());
    stage.resize(60, 20);
    assert!(stage.text().contains("Knobs"));
    stage.press("Tab Tab");
    assert!(stage.text().contains("Memory"), "the panel below follows Tab\n{}", stage.text());
    for (columns, rows) in [(1, 1), (0, 0), (1, 30), (300, 1)] {
        stage.resize(columns, rows);
    }
    stage.press("q");
    assert_eq!(stage.app.leave, Some(Leave::Quit));
}

/// The program runs effects on threads of their own and sends the answers back.
#[test]
fn limits_computed_on_another_thread_are_shown() {
    let start = || {
        let machine = stage::machine(1, "RTX 3060", 12, 64);
        Stage::by(EngineId::Ollama024, stage::model("llama3.1-8b"), machine, (140, 45), Settings::default())
    };
    let mut stage = start();
    assert_eq!(stage.app.limits.found, None);
    let mut effects = stage.app.update(Action::Press(Command::More));
    effects.extend(stage.app.settle());
    let answer = |effect| match effect {
        Effect::Limits(question) => Some(question.answer()),
        _ => None,
    };
    let answers: Vec<Action> = thread::spawn(move || effects.into_iter().filter_map(answer).collect()).join().unwrap();
    answers.into_iter().for_each(|answer| stage.act(answer));

    let mut expected = start();
    expected.no_limits = false;
    expected.press("→");
    assert!(expected.app.limit(Knob::Context).is_some());
    assert_eq!(stage.app.limits.found, expected.app.limits.found);
    assert!(stage.text().contains('┊'), "the limit is marked\n{}", stage.text());
}
