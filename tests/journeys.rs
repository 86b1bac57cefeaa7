//! End-to-end tests of the planner: keys and mouse, and what is then on the screen.

mod advice;
mod commands;
mod compare;
mod engines;
mod exports;
mod history;
mod knobs;
mod loads;
mod machine;
mod parts;
mod pending;
mod placement;
mod quantisation;
mod random_input;
mod ranges;
#[cfg(all(unix, feature = "net"))]
mod running;
mod sliders;
mod together;
mod verify;

use std::thread;

use crate::harness::{self, Harness};
use plimsoll::engine::EngineId;
use plimsoll::gguf::{FileType, Value};
use plimsoll::plan::{Verdict, Why};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::tui::action::{Action, Command, ExitReason};
use plimsoll::tui::app::Detection;
use plimsoll::tui::effect::Effect;
use plimsoll::tui::keymap::{KEYS, Scope};
use plimsoll::tui::regions::Panel;
use plimsoll::tui::screens::entry::ValueEntry;

fn llama() -> Harness {
    Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (140, 45))
}

#[test]
fn context_moves_in_coarse_and_fine_steps() {
    let mut harness = llama();
    let start = harness.host.app.request.value(Knob::Context);
    assert_eq!(harness.host.app.request.settings.ctx, Context::Auto, "until a key is pressed the engine decides");
    harness.press("→");
    assert!(matches!(harness.host.app.request.settings.ctx, Context::Tokens(n) if n > start));
    harness.press("← ←");
    assert!(harness.host.app.request.value(Knob::Context) < start);
    harness.press("Home");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(1024));
    harness.press("⇧→ .");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(1536));
    harness.press(",");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(1280));
    harness.press("End");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(131_072));
    harness.press("0");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(1024));
    harness.press("PgUp PgDn");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(1024));
    assert!(harness.text().contains("1\u{2009}024"), "{}", harness.text());
}

#[test]
fn the_plan_follows_each_key() {
    let mut harness = llama();
    let before = harness.host.app.request.plan.clone().unwrap();
    harness.press("→");
    let after = harness.host.app.request.plan.clone().unwrap();
    assert!(after.totals.cache > before.totals.cache);
    assert!(harness.text().contains('▲'), "what grew is marked\n{}", harness.text());
    harness.rest();
    assert!(!harness.text().contains('▲'), "the mark fades\n{}", harness.text());
}

#[test]
fn every_knob_turns_and_is_undone() {
    let mut harness = llama();
    let fresh = harness.host.app.request.settings.clone();
    harness.press("↓ → ↓ → ↓ → ↓ → ↓ → ↓ ←");
    assert_eq!(harness.host.app.request.settings.parallel, Some(2));
    assert_eq!(harness.host.app.request.settings.quant, Some(FileType::Q4_1.into()));
    assert_eq!(harness.host.app.request.settings.cache_type_k, Some(CacheType::Q8_0));
    assert_eq!(harness.host.app.request.settings.cache_type_v, Some(CacheType::Q8_0));
    assert_eq!(harness.host.app.request.settings.flash_attn, FlashAttn::On);
    assert_eq!(harness.host.app.request.settings.batch, Some(768));
    assert!(matches!(harness.host.app.request.settings.gpu_layers, GpuLayers::Count(_)));
    harness.press("u u u u u u");
    assert_eq!(harness.host.app.request.settings, fresh);
    harness.press("u");
    assert!(harness.text().contains("Nothing to undo"));
}

#[test]
fn reset_returns_a_knob_to_auto() {
    let mut harness = llama();
    harness.press("→ → r");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Auto);
    harness.press("u");
    assert!(matches!(harness.host.app.request.settings.ctx, Context::Tokens(_)), "a reset can be undone too");
}

#[test]
fn m_finds_the_largest_value_that_fits() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::machine(1, "RTX 3060", 12, 64), (120, 40));
    harness.press("End");
    assert_ne!(harness.host.app.request.plan.as_ref().unwrap().verdict, Verdict::Gpu);
    harness.press("m");
    assert_eq!(harness.host.app.request.plan.as_ref().unwrap().verdict, Verdict::Gpu);
    let Context::Tokens(most) = harness.host.app.request.settings.ctx else { panic!("m sets a value") };
    harness.press("Enter");
    harness.press("Back Back Back Back Back Back");
    harness.write(&(most + 1).to_string());
    harness.press("Enter");
    assert_ne!(harness.host.app.request.plan.as_ref().unwrap().verdict, Verdict::Gpu, "one token more does not fit");
}

/// The value acts as if it were selected: letters replace it, arrows keep it for editing.
#[test]
fn typing_replaces_the_value_in_a_field() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (80, 24));
    let after = |harness: &mut Harness, keys: &str, text: &str| {
        harness.press(keys);
        harness.write(text);
        harness.press("Enter");
        harness.host.app.request.settings.ctx
    };
    assert_eq!(after(&mut harness, "Enter", "8192"), Context::Tokens(8192));
    assert_eq!(after(&mut harness, "Enter End Back", "3"), Context::Tokens(8193));
    assert_eq!(after(&mut harness, "Enter Back", "1234"), Context::Tokens(1234));
    harness.press("Enter");
    harness.act(Action::Paste("4096".to_owned()));
    assert_eq!(after(&mut harness, "", "0"), Context::Tokens(40_960));
    harness.press("Enter");
    harness.write("99999999999999999999");
    harness.press("Enter");
    assert!(harness.text().contains("out of range for context"), "{}", harness.text());
}

#[test]
fn typed_values_are_taken_exactly_or_refused_with_a_reason() {
    let mut harness = llama();
    harness.press("1");
    assert!(harness.host.showing::<ValueEntry>().is_some());
    harness.write("2345");
    assert!(harness.text().contains("12345"));
    harness.press("Enter");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(12_345));

    harness.press("7");
    harness.write("x");
    harness.press("Enter");
    assert!(harness.text().contains("is not a number"), "{}", harness.text());
    harness.press("Esc");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(12_345), "Esc leaves it as it was");
    harness.press("9");
    harness.write("99999999999999");
    harness.press("Enter");
    assert!(harness.text().contains("out of range"), "{}", harness.text());
}

#[test]
fn tab_cycles_and_i_explains_the_focused_panel() {
    let mut harness = llama();
    for (panel, words) in [
        (Panel::Knobs, "Context size in tokens"),
        (Panel::Layers, "attn_q.weight"),
        (Panel::Memory, "Kept free by the engine"),
        (Panel::Graph, "Confidence"),
    ] {
        assert_eq!(harness.host.app.panels.focus, panel);
        harness.press("i");
        let begin = harness.text();
        harness.press("End");
        let text = begin + &harness.text();
        assert!(text.contains(words) && text.contains("exact"), "{panel:?}\n{text}");
        harness.press("Esc Tab");
    }
    assert_eq!(harness.host.app.panels.focus, Panel::Knobs);
    harness.press("⇧Tab");
    assert_eq!(harness.host.app.panels.focus, Panel::Graph);
}

#[test]
fn a_layer_explains_its_device() {
    let machine = harness::machine(1, "RTX 3060", 12, 64);
    let mut harness = Harness::new(harness::model("llama3.1-8b"), machine, (140, 45));
    harness.press("End Tab i");
    let plan = harness.host.app.request.plan.clone().unwrap();
    let Why::NoRoom { needed, room, .. } = plan.layers[0].why.clone() else { panic!("{:?}", plan.layers[0].why) };
    let text = harness.text();
    assert!(text.contains(&format!("needs {needed}")) && text.contains(&room.to_string()), "{text}");
    harness.press("→");
    assert!(harness.text().contains("Layer 1"), "the neighbour, without closing\n{}", harness.text());
    harness.press("Esc End i");
    assert!(harness.text().contains("Output layer"), "{}", harness.text());
}

#[test]
fn losing_branches_of_the_graph_can_be_reached() {
    let mut harness = llama();
    harness.press("Tab Tab Tab End Enter");
    let graph = &harness.host.app.request.plan.as_ref().unwrap().graph;
    let used = graph.in_force();
    let loser = used.branches.iter().enumerate().find(|(at, _)| *at != used.winner).unwrap().1;
    let text = harness.text();
    assert!(text.contains("The largest branch is used") && text.contains(&loser.terms[0].formula), "{text}");
}

#[test]
fn the_help_lists_every_key() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (140, 100));
    assert!(harness.text().contains("m max in VRAM"));
    harness.press("?");
    let mut text = harness.text();
    for _ in 0..8 {
        harness.press("PgDn");
        text += &harness.text();
    }
    for binding in KEYS {
        let description = binding.description.split(' ').take(3).collect::<Vec<_>>().join(" ");
        assert!(text.contains(&description), "'{description}' is missing\n{text}");
    }
    assert!(Scope::ALL.iter().all(|scope| text.contains(scope.heading())));
    harness.press("?");
    assert!(harness.host.screens.is_empty());
}

#[test]
fn q_and_ctrl_c_quit() {
    for keys in ["q", "^C", "? ^C", "o ^C", "Enter ^C"] {
        let mut harness = llama();
        harness.press(keys);
        assert_eq!(harness.host.app.leave, Some(ExitReason::Quit), "{keys}");
    }
    let mut harness = llama();
    harness.press("o q");
    assert_eq!(harness.host.app.leave, None, "a letter in a field is a letter");
    harness.press("Esc ^Z");
    assert_eq!(harness.suspended, 1);
}

#[test]
fn another_engine_keeps_the_knobs_and_is_undone() {
    let mut harness = llama();
    let first = harness.host.app.request.engine;
    harness.press("→ e ↓ Enter");
    let place = EngineId::ALL.iter().position(|&engine| engine == first).unwrap();
    let second = EngineId::ALL[place + 1];
    assert!(first.facts().releases.is_empty(), "the next line is the next engine");
    assert_eq!(harness.host.app.request.engine, second);
    assert_eq!(harness.host.app.request.plan.as_ref().unwrap().engine, second);
    assert!(matches!(harness.host.app.request.settings.ctx, Context::Tokens(_)));
    assert!(harness.text().contains(second.title()), "{}", harness.text());
    harness.press("Tab Tab i End");
    assert!(harness.text().contains("As the engine logs it"), "{}", harness.text());
    harness.press("Esc u");
    assert_eq!(harness.host.app.request.plan.as_ref().unwrap().engine, first);
    harness.press("e ↓ Esc");
    assert_eq!(harness.host.app.request.engine, first, "Esc takes nothing");
}

#[test]
fn a_machine_detected_late_fills_in() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::machine(0, "", 0, 64), (120, 40));
    harness.host.app.found_machine.detection = Detection::Running;
    harness.press("Tab Tab");
    assert!(harness.text().contains("detecting GPUs"), "{}", harness.text());
    harness.act(harness::detected(harness::one_gpu(), &[]));
    assert!(harness.text().contains("RTX 3090"), "{}", harness.text());
    assert_eq!(harness.host.app.request.plan.as_ref().unwrap().verdict, Verdict::Gpu);
}

#[test]
fn without_a_gpu_the_screen_lists_what_was_tried() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (120, 40));
    let tried = [("nvml", "libnvidia-ml.so.1 is not installed")];
    harness.act(harness::detected(harness::machine(0, "", 0, 64), &tried));
    let text = harness.text();
    assert!(text.contains("No GPU was found") && text.contains("libnvidia-ml.so.1 is not installed"), "{text}");
    assert!(text.contains("f16 KV: no GPU"), "{text}");
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
        let mut machine = harness::one_gpu();
        machine.gpus[0].name.clone_from(&evil);
        let harness = Harness::new(model.clone(), machine, size);
        let text = harness.text();
        assert!(text.contains("Evil"), "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
}

#[test]
fn sixty_four_gpus_scroll() {
    let mut harness = Harness::new(harness::qwen3_235b(), harness::machine(64, "RTX 3090", 24, 256), (100, 30));
    harness.press("Tab Tab");
    assert!(harness.text().contains("of 65"), "{}", harness.text());
    harness.press("End");
    assert!(harness.text().contains("▸ RAM"), "{}", harness.text());
}

#[test]
fn odd_machines_and_contexts_are_drawn() {
    let mut full = harness::one_gpu();
    full.gpus[0].free = plimsoll::units::Bytes::ZERO;
    for machine in [full, harness::machine(0, "", 0, 0), harness::machine(1, "tiny", 1, 1)] {
        let mut harness = Harness::new(harness::model("llama3.1-8b"), machine, (100, 30));
        for text in ["1", "1099511627776"] {
            harness.press("1 Back");
            harness.write(text);
            harness.press("Enter");
            assert!(harness.text().contains("Verdict"), "{}", harness.text());
        }
    }
}

#[test]
fn too_small_screens_ask_for_room() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (59, 20));
    assert!(harness.text().contains("plimsoll needs 60×20"), "{}", harness.text());
    harness.resize(60, 20);
    assert!(harness.text().contains("Knobs"));
    harness.press("Tab Tab");
    assert!(harness.text().contains("Memory"), "the panel below follows Tab\n{}", harness.text());
    for (columns, rows) in [(1, 1), (0, 0), (1, 30), (300, 1)] {
        harness.resize(columns, rows);
    }
    harness.press("q");
    assert_eq!(harness.host.app.leave, Some(ExitReason::Quit));
}

/// The program runs effects on threads of their own and sends the answers back.
#[test]
fn limits_computed_on_another_thread_are_shown() {
    let start = || {
        let machine = harness::machine(1, "RTX 3060", 12, 64);
        Harness::by(EngineId::Ollama024, harness::model("llama3.1-8b"), machine, (140, 45), Settings::default())
    };
    let mut harness = start();
    assert_eq!(harness.host.app.request.known_limits().found(), None);
    let mut effects = harness.host.update(Action::Press(Command::More));
    effects.extend(harness.host.refresh());
    let answer = |effect| match effect {
        Effect::Limits(question) => Some(question.answer()),
        _ => None,
    };
    let answers: Vec<Action> = thread::spawn(move || effects.into_iter().filter_map(answer).collect()).join().unwrap();
    for answer in answers {
        harness.act(answer);
    }

    let mut expected = start();
    expected.no_limits = false;
    expected.press("→");
    assert!(expected.host.app.request.limit(Knob::Context).is_some());
    assert_eq!(harness.host.app.request.known_limits().found(), expected.host.app.request.known_limits().found());
    assert!(harness.text().contains('┊'), "the limit is marked\n{}", harness.text());
}
