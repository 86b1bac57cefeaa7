//! Sweep and matrix: they show the figures of single plans, and Enter applies a choice.

use plimsoll::answer::sweep::Outcome;
use plimsoll::engine::EngineId;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, FlashAttn, Settings};
use plimsoll::tui::action::{Action, Command};
use plimsoll::tui::app::Mode;
use plimsoll::tui::app::advice::Progress;
use plimsoll::tui::app::sweep::Sweeping;
use plimsoll::tui::effect::Effect;
use plimsoll::tui::theme::Look;

use crate::stage::{self, Stage};

fn spilled() -> Stage {
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let machine = stage::machine(1, "RTX 3060", 12, 64);
    Stage::with(Some(stage::model("llama3.1-8b")), machine, (140, 45), settings, Look::BEST)
}

fn sweeping(stage: &Stage) -> Sweeping {
    let Mode::Sweep(page) = &stage.app.mode else { panic!("the sweep is in front") };
    Sweeping::clone(page)
}

/// The plan with `knob` at `value` and the other knobs unchanged.
fn single(stage: &Stage, knob: Knob, value: u64) -> Outcome {
    let situation = stage.app.situation().unwrap();
    let mut settings = situation.settings.clone();
    knob.set(&mut settings, value);
    Outcome::of(&situation.with(settings).plan().unwrap())
}

#[test]
fn every_point_of_a_sweep_is_a_plan() {
    let mut stage = spilled();
    for keys in ["w", "Tab", "Tab"] {
        stage.press(keys);
        let page = sweeping(&stage);
        assert!(page.points.len() > 20, "{:?}: {}", page.knob, page.points.len());
        for (&value, outcome) in page.points.iter().step_by(9) {
            assert_eq!(outcome.as_ref().unwrap(), &single(&stage, page.knob, value), "{:?} {value}", page.knob);
        }
    }
}

#[test]
fn the_cursor_starts_at_the_knob_and_reads_the_plan() {
    let mut stage = spilled();
    let plan = stage.app.plan.clone().unwrap();
    stage.press("w");
    assert_eq!(sweeping(&stage).cursor, 32_768);
    let text = stage.text();
    for bytes in [plan.totals.weights, plan.totals.cache, plan.totals.graph] {
        assert!(text.contains(&bytes.to_string()), "{bytes}\n{text}");
    }
    assert!(text.contains(&plan.source()) && text.contains("33 of 33 layers"), "{text}");
}

#[test]
fn a_value_is_read_applied_and_undone() {
    let mut stage = spilled();
    stage.press("w → → →");
    let cursor = sweeping(&stage).cursor;
    assert!(cursor > 32_768);
    stage.press("Enter");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(cursor));
    stage.press("u");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(32_768));
    stage.press("w Home ← Enter");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(1024));
    stage.press("w End → Enter w ⇧← ⇧→ Esc");
    assert_eq!(stage.app.settings.ctx, Context::Tokens(131_072), "Esc takes nothing");
}

#[test]
fn brackets_go_to_the_exact_threshold() {
    let mut stage = spilled();
    stage.press("w ]");
    assert!(stage.text().contains("Still computing"), "{}", stage.text());
    stage.think();
    stage.press("]");
    let edge = sweeping(&stage).cursor;
    let (here, beyond) = (single(&stage, Knob::Context, edge), single(&stage, Knob::Context, edge + 1));
    assert!(here.offloaded == 33 && beyond.offloaded < 33, "the last value with all layers");
    assert_eq!(sweeping(&stage).points[&edge], Ok(here));
    stage.press("] [");
    assert_eq!(sweeping(&stage).cursor, edge);
}

#[test]
fn a_wider_screen_asks_only_for_missing_points() {
    let mut stage = spilled();
    stage.resize(80, 24);
    stage.press("w");
    let few = sweeping(&stage).points.len();
    stage.resize(200, 60);
    let page = sweeping(&stage);
    assert!(page.points.len() > few);
    let effects = stage.app.update(Action::Press(Command::More));
    assert!(effects.is_empty(), "nothing is missing: {}", effects.len());
}

#[test]
fn refusals_of_the_engine_are_shown() {
    // a quantised V cache needs flash attention
    let settings = Settings {
        cache_type_k: Some(CacheType::Q8_0),
        cache_type_v: Some(CacheType::Q8_0),
        flash_attn: FlashAttn::Off,
        ..Settings::default()
    };
    let model = stage::model("llama3.2-1b");
    let mut stage = Stage::by(EngineId::LlamaCpp, model, stage::one_gpu(), (60, 24), Settings::default());
    stage.app.settings = settings;
    stage.press("w");
    let page = sweeping(&stage);
    let why = page.points.values().find_map(|outcome| outcome.as_ref().err()).expect("it is refused");
    let start: String = why.chars().take(20).collect();
    assert!(stage.text().contains(&start), "{why}\n{}", stage.text());
}

#[test]
fn every_matrix_cell_is_a_plan_and_enter_applies_it() {
    let mut stage = spilled();
    stage.press("W");
    for pair in 0..3 {
        let Mode::Matrix(page) = stage.app.mode.clone() else { panic!("the matrix is in front") };
        let (rows, columns) = page.axes.clone().unwrap();
        assert_eq!(page.progress, Progress::Done);
        assert_eq!(page.cells.len(), rows.len() * columns.len());
        let situation = stage.app.situation().unwrap();
        let matrix = situation.matrix(rows, columns);
        for (cell, other) in page.cells.iter().zip(&matrix.cells) {
            assert_eq!(&cell.outcome, other, "pair {pair}");
            let then = cell.then.as_ref().unwrap().plan().unwrap();
            assert_eq!(&Outcome::of(&then), other.as_ref().unwrap(), "what Enter takes is what the cell says");
        }
        stage.press("Tab");
    }
    let before = stage.app.situation().unwrap();
    stage.press("Esc W Tab Tab Home → → Enter");
    let after = stage.app.situation().unwrap();
    assert!(after.settings.ctx != before.settings.ctx);
    assert_ne!(after.model.file_type, before.model.file_type, "a quantisation is taken too");
    assert_eq!(stage.app.plan.as_deref(), Some(&after.plan().unwrap()));
    stage.press("u");
    assert!(stage.app.situation() == Some(before));
}

#[test]
fn the_axes_of_the_matrix_can_be_chosen() {
    let mut stage = spilled();
    stage.press("W r");
    assert!(stage.text().contains("What fits: parallel by KV cache"), "{}", stage.text());
    stage.press("c c");
    assert!(stage.text().contains("What fits: parallel by batch"), "{}", stage.text());
    stage.press("r");
    assert!(stage.text().contains("What fits: KV cache by batch"), "{}", stage.text());
    let text = stage.text();
    assert!(text.contains("fits") && text.contains("layers on GPU; GPU"), "{text}");
}

#[test]
fn a_cell_shows_the_settings_in_effect() {
    let mut stage = spilled();
    stage.press("W → ");
    assert!(stage.text().contains("Note: the KV cache is f16"), "{}", stage.text());
}

/// A new request cancels the running one, and parts of the old answer are dropped.
#[test]
fn a_new_request_discards_the_old_answer() {
    let mut stage = spilled();
    let effects = stage.app.update(Action::Press(Command::Matrix));
    let Some(Effect::Ask(old)) = effects.into_iter().next() else { panic!("the matrix is asked for") };
    stage.press("Tab");
    let known = |stage: &Stage| match &stage.app.mode {
        Mode::Matrix(page) => page.cells.len(),
        _ => 0,
    };
    let before = known(&stage);
    for part in old.parts().flatten() {
        stage.act(Action::Answered { id: old.id, part });
    }
    assert_eq!(known(&stage), before);
}
