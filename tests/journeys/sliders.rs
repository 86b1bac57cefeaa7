//! Sliders and the mouse.

use plimsoll::engine::EngineId;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, Settings};
use plimsoll::tui::action::Gesture;
use plimsoll::tui::app::Mode;
use plimsoll::tui::regions::Panel;
use plimsoll::tui::widget::slider;
use ratatui::layout::Rect;

use crate::stage::{self, Stage};

const SIZES: [(u16, u16); 5] = [(60, 20), (80, 24), (100, 30), (140, 45), (200, 60)];

fn llama(size: (u16, u16)) -> Stage {
    Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), size)
}

/// A model with experts on two GPUs in llama.cpp, which has every slider.
fn llama_cpp(size: (u16, u16)) -> Stage {
    let machine = stage::machine(2, "RTX 3090", 24, 64);
    Stage::by(EngineId::LlamaCpp, stage::model("gpt-oss-20b"), machine, size, Settings::default())
}

#[test]
fn every_slider_can_be_dragged_at_every_size() {
    for size in SIZES {
        for knob in llama(size).app.knobs.offered.into_iter().filter(|knob| knob.words().is_none()) {
            drag_to_both_ends(llama(size), knob, 1);
        }
    }
    let size = (60, 20);
    let usual = llama(size).app.knobs.offered;
    for knob in
        llama_cpp(size).app.knobs.offered.into_iter().filter(|knob| knob.words().is_none() && !usual.contains(knob))
    {
        drag_to_both_ends(llama_cpp(size), knob, 10);
    }
}

/// Drags the handle of `knob` from right to left in steps of `every` columns.
fn drag_to_both_ends(mut stage: Stage, knob: Knob, every: usize) {
    let size = stage.app.regions.screen;
    stage.no_limits = true;
    while stage.app.knob_row(knob).is_none() {
        stage.press("↓");
    }
    let stops = knob.stops(&stage.app.bounds);
    let track = track(&stage, knob);
    let (left, right) = (track.left() + 1, track.right() - 2);
    stage.mouse(Gesture::Down, slider::column(track, stops.fraction(stage.app.value(knob))), track.y);
    let mut values = Vec::new();
    for x in (left..=right).rev().step_by(every).chain([left]) {
        stage.mouse(Gesture::Drag, x, track.y + 3);
        values.push(stage.app.value(knob));
        assert_eq!(slider_handle(&stage, knob), x_of_value(&stage, knob), "{knob:?} at {size:?}");
    }
    assert!(values.is_sorted_by(|a, b| a >= b), "{knob:?} {values:?}");
    assert_eq!((values[0], values[values.len() - 1]), (stops.last(), stops.first()), "{knob:?} at {size:?}");
    stage.mouse(Gesture::Up, left, track.y);
    stage.press("u");
    assert_eq!(knob.chosen(&stage.app.settings, &stage.app.bounds), None, "a drag is undone at once");
}

fn track(stage: &Stage, knob: Knob) -> Rect {
    stage.app.knob_row(knob).unwrap().track
}

/// The column in which the handle is drawn.
fn slider_handle(stage: &Stage, knob: Knob) -> u16 {
    let track = track(stage, knob);
    (track.left()..track.right()).find(|&x| matches!(stage.buffer()[(x, track.y)].symbol(), "●" | "○")).unwrap()
}

fn x_of_value(stage: &Stage, knob: Knob) -> u16 {
    let track = track(stage, knob);
    slider::column(track, knob.stops(&stage.app.bounds).fraction(stage.app.value(knob)))
}

#[test]
fn pressing_the_handle_changes_nothing() {
    let mut stage = llama((120, 40));
    let x = slider_handle(&stage, Knob::Context);
    let y = track(&stage, Knob::Context).y;
    stage.mouse(Gesture::Down, x, y);
    stage.mouse(Gesture::Up, x, y);
    assert_eq!(stage.app.settings.ctx, Context::Auto);
    stage.press("u");
    assert!(stage.text().contains("Nothing to undo"));
}

/// A click on a name in the header opens its page.
#[test]
fn the_header_can_be_clicked() {
    for size in SIZES {
        let stage = llama(size);
        let line: String = (0..size.0).map(|x| stage.buffer()[(x, 0)].symbol().chars().next().unwrap()).collect();
        let mut opened = 0;
        for (word, opens) in [
            ("Llama", (|mode| matches!(mode, Mode::Browse(_))) as fn(&Mode) -> bool),
            ("Ollama", |mode| matches!(mode, Mode::Engines(_))),
            ("simulated", |mode| matches!(mode, Mode::Machine(_))),
            ("help", |mode| matches!(mode, Mode::Help(_))),
        ] {
            let Some(at) = line.find(word) else { continue };
            let x = line[..at].chars().count() as u16;
            for x in [x, x + word.len() as u16 - 1] {
                let mut stage = llama(size);
                stage.mouse(Gesture::Down, x, 0);
                assert!(opens(&stage.app.mode), "{word} at {x} of {line}");
                opened += 1;
            }
        }
        assert!(opened >= 6, "{line}");
    }
}

#[test]
fn choices_can_be_clicked() {
    for size in SIZES {
        let mut stage = llama(size);
        let row = stage.app.knob_row(Knob::CacheType).unwrap();
        let place = row.words(&Knob::CacheType.words().unwrap())[1];
        let word: String = (place.left()..place.right()).map(|x| stage.buffer()[(x, place.y)].symbol()).collect();
        assert_eq!(word.trim(), "q8_0");
        stage.mouse(Gesture::Down, place.x + 1, place.y);
        assert_eq!(stage.app.settings.cache_type_k, Some(CacheType::Q8_0), "{size:?}");
    }
}

#[test]
fn the_wheel_changes_knobs_and_scrolls_lists() {
    let mut stage = llama((140, 45));
    let row = stage.app.knob_row(Knob::Parallel).unwrap().row;
    stage.mouse(Gesture::WheelUp, row.x + 5, row.y);
    assert_eq!((stage.app.settings.parallel, stage.app.knobs.focus), (Some(2), Knob::Parallel));
    let memory = stage.app.regions.memory;
    stage.mouse(Gesture::WheelDown, memory.x + 5, memory.y + 3);
    assert_eq!((stage.app.panels.focus, stage.app.panels.cursors.device), (Panel::Memory, 1));
}

#[test]
fn clicking_a_column_selects_its_layer() {
    for size in SIZES {
        let mut stage = llama(size);
        let blocks = stage.app.plan.as_ref().unwrap().layers.len() - 1;
        let columns = plimsoll::tui::regions::layers::columns(stage.app.regions.layers, blocks);
        for layer in [0, 7, 31, 32] {
            let (x, _) = columns.place(layer);
            stage.mouse(Gesture::Down, x, columns.area.y);
            assert_eq!(stage.app.panels.cursors.layer, layer, "{size:?}");
            assert_eq!(stage.app.panels.focus, Panel::Layers);
        }
    }
}

#[test]
fn on_small_screens_panels_are_chosen_by_their_tabs() {
    let mut stage = llama((60, 20));
    for (panel, place) in stage.app.regions.tabs() {
        stage.mouse(Gesture::Down, place.x + 1, place.y);
        assert_eq!((stage.app.panels.focus, stage.app.panels.lower), (panel, panel));
        assert!(stage.text().contains(&format!("▸{}", panel.title())), "{}", stage.text());
    }
}
