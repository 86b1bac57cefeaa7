//! Random keys, mouse events, answers and sizes: nothing panics, and the screen shows the plan of the current knobs.

use std::time::Duration;

use plimsoll::library::ModelOrigin;
use plimsoll::settings::Settings;
use plimsoll::source::Progress;
use plimsoll::tui::action::{Action, Command, Gesture};
use plimsoll::tui::theme::{Appearance, Glyphs, Tone};
use proptest::prelude::*;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::harness::{self, Harness};

const COMMANDS: [Command; 61] = [
    Command::Up,
    Command::Down,
    Command::Less,
    Command::More,
    Command::FineLess,
    Command::FineMore,
    Command::PageUp,
    Command::PageDown,
    Command::First,
    Command::Last,
    Command::NextPanel,
    Command::PreviousPanel,
    Command::Enter,
    Command::Back,
    Command::Explain,
    Command::MaxInVram,
    Command::MaxAllLayers,
    Command::Reset,
    Command::Undo,
    Command::Engine,
    Command::CompareEngines,
    Command::Notes,
    Command::Open,
    Command::Models,
    Command::Sort,
    Command::Reverse,
    Command::OnlyFitting,
    Command::OnlyKind,
    Command::OnlyModality,
    Command::UseAsDraft,
    Command::JudgeBy,
    Command::Need,
    Command::OnlyHere,
    Command::OnlyFamily,
    Command::Complete,
    Command::Theme,
    Command::Freeze,
    Command::Compare,
    Command::Compare,
    Command::Unpin,
    Command::NextCliff,
    Command::PreviousCliff,
    Command::Lock,
    Command::Best,
    Command::Enter,
    Command::Sweep,
    Command::Matrix,
    Command::Rows,
    Command::Columns,
    Command::Machine,
    Command::Toggle,
    Command::Add,
    Command::Remove,
    Command::Save,
    Command::SavedMachines,
    Command::Join,
    Command::CompareMachines,
    Command::Export,
    Command::Together,
    Command::Placement,
    Command::MoveInAllBlocks,
];

/// Commands that change knobs, and those that lead back to the planner.
const MOVES: [Command; 7] =
    [Command::Up, Command::Down, Command::Less, Command::More, Command::Last, Command::Undo, Command::Back];

#[derive(Clone, Debug)]
enum Step {
    Do(Action),
    Key(char),
    Resize(u16, u16),
}

fn progress(id: u64) -> Action {
    let now = Progress { done: 1 << (id * 5), total: None, shard: 0, shards: 1 };
    Action::Progress { id, now, took: Duration::from_secs(id) }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gesture = prop::sample::select(vec![
        Gesture::Down,
        Gesture::Drag,
        Gesture::Drag,
        Gesture::Up,
        Gesture::WheelUp,
        Gesture::WheelDown,
    ]);
    let step = prop_oneof![
        8 => prop::sample::select(MOVES.to_vec()).prop_map(|command| Step::Do(Action::Press(command))),
        8 => prop::sample::select(COMMANDS.to_vec()).prop_map(|command| Step::Do(Action::Press(command))),
        1 => Just(Step::Do(Action::Press(Command::Help))),
        4 => (gesture, 0u16..150, 0u16..50).prop_map(|(gesture, x, y)| Step::Do(Action::Mouse(gesture, x, y))),
        3 => prop::char::any().prop_map(Step::Key),
        3 => prop::char::range('0', '9').prop_map(Step::Key),
        1 => ".{0,12}".prop_map(|text| Step::Do(Action::Paste(text))),
        1 => (0u16..150, 0u16..50).prop_map(|(columns, rows)| Step::Resize(columns, rows)),
        1 => any::<u64>().prop_map(|id| Step::Do(Action::Fade { id })),
        1 => (0u64..9).prop_map(|id| Step::Do(Action::Limits { id, limits: Box::default() })),
        1 => (0u64..9).prop_map(|id| Step::Do(Action::Loaded { id, result: Err("it is not there".to_owned()) })),
        1 => (0u64..9).prop_map(|id| Step::Do(progress(id))),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_input_leaves_the_plan_of_the_knobs_on_the_screen(
        steps in steps(),
        model in prop::sample::select(vec!["llama3.1-8b", "gemma3-4b", "mamba-2.8b", "gpt-oss-20b"]),
        gpus in 0usize..4,
        size in (0u16..150, 0u16..50),
        mono in any::<bool>(),
    ) {
        let look = if mono { Appearance { tone: Tone::Mono, glyphs: Glyphs::Ascii, ..Appearance::BEST } } else { Appearance::BEST };
        let machine = harness::machine(gpus, "RTX 3060", 12, 32);
        let mut harness = Harness::with(Some(harness::model(model)), machine, size, Settings::default(), look);
        harness.no_limits = true;
        harness.fakes.library = vec![
            ("mamba", ModelOrigin::Recent, Ok(harness::package("mamba-2.8b"))),
            ("broken", ModelOrigin::Recent, Err("it is broken".to_owned())),
            ("llama", ModelOrigin::Catalogue, Ok(harness::package("llama3.2-1b"))),
        ];
        for step in steps {
            match step {
                Step::Do(action) => harness.act(action),
                Step::Key(letter) => {
                    let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE);
                    harness.event(&ratatui::crossterm::event::Event::Key(key));
                }
                Step::Resize(columns, rows) => harness.resize(columns, rows),
            }
        }
        harness.assert_plan_is_current();
        if mono {
            prop_assert!(harness.text().is_ascii(), "{}", harness.text());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_terminal_of_another_size_shows_the_same_screen(
        told in (0u16..200, 0u16..70),
        real in (0u16..200, 0u16..70),
        keys in prop::sample::select(vec!["", "Tab", "Tab Tab", "Tab Tab Tab", "?", "i", "o", "b ↓ ^S", "e", "Enter", "Tab Tab i", "c → c → c", "Tab Enter", "s", "w", "W"]),
    ) {
        let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), told);
        harness.press(keys);
        harness.draw_at(real);
    }
}
