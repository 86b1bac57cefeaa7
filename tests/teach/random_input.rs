//! Random keys and mouse events on the teach screen: it stays open, shows the current plan and, where asked to, only ASCII.

use plimsoll::engine::EngineId;
use plimsoll::settings::Settings;
use plimsoll::teach::Tab;
use plimsoll::tui::action::{Action, Command, Gesture};
use plimsoll::tui::keymap::{Keymap, Scope};
use plimsoll::tui::screens::help::HelpPage;
use plimsoll::tui::screens::teach::TeachScreen;
use plimsoll::tui::theme::{Appearance, Glyphs, Tone};
use proptest::prelude::*;
use proptest::sample::select;

use crate::harness::{self, Harness};

fn action() -> impl Strategy<Value = Action> {
    // those that leave the screen would end the test early
    let keymap = Keymap::default();
    let commands = keymap.bindings(Scope::Teach).map(|binding| binding.command);
    let commands: Vec<Command> = commands.filter(|command| *command != Command::Back).collect();
    let gestures = vec![Gesture::Down, Gesture::Drag, Gesture::Up, Gesture::WheelUp, Gesture::WheelDown];
    prop_oneof![
        8 => select(commands).prop_map(Action::Press),
        3 => (select(gestures), 0u16..150, 0u16..50).prop_map(|(gesture, x, y)| Action::Mouse(gesture, x, y)),
        1 => (0u16..150, 0u16..50).prop_map(|(columns, rows)| Action::Resize(columns, rows)),
        1 => (0u64..9).prop_map(|id| Action::Tick { id }),
    ]
}

/// Mostly sizes on which the screen has room.
fn size() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![1 => (0u16..150, 0u16..50), 4 => (60u16..150, 20u16..50)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    // MLX, the last engine, has no plan of a GGUF file to teach by
    #[test]
    fn any_input_leaves_the_teach_screen_in_order(
        engine in select(&EngineId::ALL[..4]), page in select(&Tab::ALL[..]),
        model in select(vec!["llama3.1-8b", "gemma3-4b", "mamba-2.8b", "gpt-oss-20b"]), gpus in 0usize..3,
        actions in prop::collection::vec(action(), 0..16), size in size(), mono in any::<bool>(), real in size(),
    ) {
        let look = if mono { Appearance { tone: Tone::Mono, glyphs: Glyphs::Ascii, ..Appearance::BEST } } else { Appearance::BEST };
        let machine = harness::machine(gpus, "RTX 3060", 12, 32);
        let mut harness = Harness::seen(engine, Some(harness::model(model)), machine, size, Settings::default(), look);
        harness.no_limits = true;
        harness.press("t");
        for _ in Tab::ALL.into_iter().take_while(|other| *other != page) {
            harness.press("Tab");
        }
        for action in actions {
            harness.act(action);
        }
        harness.assert_plan_is_current();
        // help is in front of the screen
        if harness.host.showing::<HelpPage>().is_some() {
            harness.press("Esc");
        }
        prop_assert!(harness.host.showing::<TeachScreen>().is_some(), "{:?}", harness.host.screens);
        if mono {
            prop_assert!(harness.text().is_ascii(), "{}", harness.text());
        }
        harness.draw_at(real);
    }
}
