//! Whatever is pressed on the teach screen, on whatever page and terminal: nothing panics, and in ASCII all is ASCII.

use plimsoll::engine::EngineId;
use plimsoll::settings::Settings;
use plimsoll::teach::Page;
use plimsoll::tui::action::{Action, Command, Gesture};
use plimsoll::tui::keymap::Scope;
use plimsoll::tui::theme::{Glyphs, Look, Tone};
use proptest::prelude::*;
use proptest::sample::select;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::stage::{self, Stage};

fn action() -> impl Strategy<Value = Action> {
    // those that lead elsewhere would end the walk
    let commands = Scope::Teach.bindings().map(|binding| binding.command);
    let commands: Vec<Command> = commands.filter(|command| *command != Command::Back).collect();
    let gestures = vec![Gesture::Down, Gesture::Drag, Gesture::Up, Gesture::WheelUp, Gesture::WheelDown];
    prop_oneof![
        8 => select(commands).prop_map(Action::Press),
        3 => (select(gestures), 0u16..150, 0u16..50).prop_map(|(gesture, x, y)| Action::Mouse(gesture, x, y)),
        1 => (0u16..150, 0u16..50).prop_map(|(columns, rows)| Action::Resize(columns, rows)),
        1 => (0u64..9).prop_map(|id| Action::Tick { id }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_teach_screen_never_panics(
        engine in select(&EngineId::ALL[..]), page in select(&Page::ALL[..]),
        model in select(vec!["llama3.1-8b", "gemma3-4b", "mamba-2.8b", "gpt-oss-20b"]), gpus in 0usize..3,
        actions in prop::collection::vec(action(), 0..16), size in (0u16..150, 0u16..50), mono in any::<bool>(),
        real in (0u16..150, 0u16..50),
    ) {
        let look = if mono { Look { tone: Tone::Mono, glyphs: Glyphs::Ascii, ..Look::BEST } } else { Look::BEST };
        let machine = stage::machine(gpus, "RTX 3060", 12, 32);
        let mut stage = Stage::seen(engine, Some(stage::model(model)), machine, size, Settings::default(), look);
        stage.no_limits = true;
        stage.press("t");
        for _ in Page::ALL.into_iter().take_while(|other| *other != page) {
            stage.press("Tab");
        }
        for action in actions {
            stage.act(action);
        }
        prop_assert!(!stage.app.is_stale(), "what is on the screen is the plan of the knobs");
        if mono {
            prop_assert!(stage.text().is_ascii(), "{}", stage.text());
        }
        // the terminal may have another size than the planner was told last
        let mut buffer = Buffer::empty(Rect::new(0, 0, real.0, real.1));
        plimsoll::tui::view::draw(&stage.app, &mut buffer);
    }
}
