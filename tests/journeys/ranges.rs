//! Sweep and matrix: they show the figures of single plans, and Enter applies a choice.

use plimsoll::answer::sweep::PlanFigures;
use plimsoll::engine::EngineId;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, FlashAttn, Settings};
use plimsoll::tui::action::{Action, Command};
use plimsoll::tui::app::AnswerState;
use plimsoll::tui::effect::Effect;
use plimsoll::tui::screens::matrix::MatrixPage;
use plimsoll::tui::screens::sweep::SweepPage;
use plimsoll::tui::theme::Appearance;

use crate::harness::{self, Harness};

fn spilled() -> Harness {
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let machine = harness::machine(1, "RTX 3060", 12, 64);
    Harness::with(Some(harness::model("llama3.1-8b")), machine, (140, 45), settings, Appearance::BEST)
}

fn sweeping(harness: &Harness) -> SweepPage {
    harness.showing::<SweepPage>().clone()
}

/// The plan with `knob` at `value` and the other knobs unchanged.
fn single(harness: &Harness, knob: Knob, value: u64) -> PlanFigures {
    let plan_request = harness.host.app.request.plan_request().unwrap();
    let mut settings = plan_request.settings.clone();
    knob.set(&mut settings, value);
    PlanFigures::of_request(&plan_request.with(settings)).unwrap()
}

#[test]
fn every_point_of_a_sweep_is_a_plan() {
    let mut harness = spilled();
    for keys in ["w", "Tab", "Tab"] {
        harness.press(keys);
        let page = sweeping(&harness);
        assert!(page.points.len() > 20, "{:?}: {}", page.knob, page.points.len());
        for (&value, figures) in page.points.iter().step_by(9) {
            assert_eq!(figures.as_ref().unwrap(), &single(&harness, page.knob, value), "{:?} {value}", page.knob);
        }
    }
}

#[test]
fn the_cursor_starts_at_the_knob_and_reads_the_plan() {
    let mut harness = spilled();
    let plan = harness.host.app.request.plan.clone().unwrap();
    harness.press("w");
    assert_eq!(sweeping(&harness).cursor, 32_768);
    let text = harness.text();
    for bytes in [plan.totals.weights, plan.totals.cache, plan.totals.graph] {
        assert!(text.contains(&bytes.to_string()), "{bytes}\n{text}");
    }
    assert!(text.contains(&plan.source()) && text.contains("33 of 33 layers"), "{text}");
}

#[test]
fn a_value_is_read_applied_and_undone() {
    let mut harness = spilled();
    harness.press("w → → →");
    let cursor = sweeping(&harness).cursor;
    assert!(cursor > 32_768);
    harness.press("Enter");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(cursor));
    harness.press("u");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(32_768));
    harness.press("w Home ← Enter");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(1024));
    harness.press("w End → Enter w ⇧← ⇧→ Esc");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(131_072), "Esc takes nothing");
}

#[test]
fn brackets_go_to_the_exact_threshold() {
    let mut harness = spilled();
    harness.press("w ]");
    assert!(harness.text().contains("Still computing"), "{}", harness.text());
    harness.think();
    harness.press("]");
    let edge = sweeping(&harness).cursor;
    let (here, beyond) = (single(&harness, Knob::Context, edge), single(&harness, Knob::Context, edge + 1));
    assert!(here.offloaded == 33 && beyond.offloaded < 33, "the last value with all layers");
    assert_eq!(sweeping(&harness).points[&edge], Ok(here));
    harness.press("] [");
    assert_eq!(sweeping(&harness).cursor, edge);
}

#[test]
fn a_wider_screen_asks_only_for_missing_points() {
    let mut harness = spilled();
    harness.resize(80, 24);
    harness.press("w");
    let few = sweeping(&harness).points.len();
    harness.resize(200, 60);
    let page = sweeping(&harness);
    assert!(page.points.len() > few);
    let effects = harness.host.update(Action::Press(Command::More));
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
    let model = harness::model("llama3.2-1b");
    let mut harness = Harness::by(EngineId::LlamaCpp, model, harness::one_gpu(), (60, 24), Settings::default());
    harness.host.app.request.settings = settings;
    harness.press("w");
    let page = sweeping(&harness);
    let why = page.points.values().find_map(|figures| figures.as_ref().err()).expect("it is refused");
    let start: String = why.chars().take(20).collect();
    assert!(harness.text().contains(&start), "{why}\n{}", harness.text());
}

#[test]
fn every_matrix_cell_is_a_plan_and_enter_applies_it() {
    let mut harness = spilled();
    harness.press("W");
    for pair in 0..3 {
        let page = harness.showing::<MatrixPage>().clone();
        let (rows, columns) = page.axes.clone().unwrap();
        assert_eq!(page.progress, AnswerState::Done);
        assert_eq!(page.cells.len(), rows.len() * columns.len());
        let plan_request = harness.host.app.request.plan_request().unwrap();
        let matrix = plan_request.matrix(rows, columns);
        for (cell, other) in page.cells.iter().zip(&matrix.cells) {
            assert_eq!(&cell.figures, other, "pair {pair}");
            let then = PlanFigures::of_request(cell.then.as_ref().unwrap()).unwrap();
            assert_eq!(&then, other.as_ref().unwrap(), "what Enter takes is what the cell says");
        }
        harness.press("Tab");
    }
    let before = harness.host.app.request.plan_request().unwrap();
    harness.press("Esc W Tab Tab Home → → Enter");
    let after = harness.host.app.request.plan_request().unwrap();
    assert!(after.settings.ctx != before.settings.ctx);
    assert_ne!(after.model.file_type, before.model.file_type, "a quantisation is taken too");
    assert_eq!(harness.host.app.request.plan.as_deref(), Some(&after.plan().unwrap()));
    harness.press("u");
    assert!(harness.host.app.request.plan_request() == Some(before));
}

#[test]
fn the_axes_of_the_matrix_can_be_chosen() {
    let mut harness = spilled();
    harness.press("W r");
    assert!(harness.text().contains("≈ tok/s with the context full: parallel by KV cache"), "{}", harness.text());
    harness.press("c c");
    assert!(harness.text().contains("≈ tok/s with the context full: parallel by batch"), "{}", harness.text());
    harness.press("r");
    assert!(harness.text().contains("≈ tok/s with the context full: KV cache by batch"), "{}", harness.text());
    let text = harness.text();
    assert!(text.contains("layers on GPU; GPU"), "{text}");
}

#[test]
fn a_cell_shows_the_settings_in_effect() {
    let mut harness = spilled();
    harness.press("W → ");
    assert!(harness.text().contains("the KV cache is f16: q8_0 needs"), "{}", harness.text());
}

/// A new request cancels the running one, and parts of the old answer are dropped.
#[test]
fn a_new_request_discards_the_old_answer() {
    let mut harness = spilled();
    let effects = harness.host.update(Action::Press(Command::Matrix));
    let Some(Effect::Ask(old)) = effects.into_iter().next() else { panic!("the matrix is asked for") };
    harness.press("Tab");
    let known = |harness: &Harness| harness.showing::<MatrixPage>().cells.len();
    let before = known(&harness);
    for part in old.parts().flatten() {
        harness.act(Action::QueryAnswered { id: old.id, part });
    }
    assert_eq!(known(&harness), before);
}
