//! Sliders under the mouse.

use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context};
use plimsoll::tui::action::Gesture;
use plimsoll::tui::regions::Panel;
use plimsoll::tui::widget::slider;

use crate::stage::{self, Stage};

const SIZES: [(u16, u16); 5] = [(60, 20), (80, 24), (100, 30), (140, 45), (200, 60)];

fn llama(size: (u16, u16)) -> Stage {
    Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), size)
}

#[test]
fn every_slider_can_be_dragged_at_every_size() {
    for size in SIZES {
        for knob in Knob::ALL.into_iter().filter(|knob| knob.choices().is_none()) {
            let mut stage = llama(size);
            stage.no_limits = true;
            let stops = knob.stops(&stage.app.bounds);
            let track = stage.app.regions.knob(knob).track;
            let (left, right) = (track.left() + 1, track.right() - 2);
            stage.mouse(Gesture::Down, slider::column(track, stops.fraction(stage.app.value(knob))), track.y);
            let mut values = Vec::new();
            for x in (left..=right).rev() {
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
    }
}

/// The column where a handle is drawn on the screen.
fn slider_handle(stage: &Stage, knob: Knob) -> u16 {
    let track = stage.app.regions.knob(knob).track;
    (track.left()..track.right()).find(|&x| matches!(stage.buffer()[(x, track.y)].symbol(), "●" | "○")).unwrap()
}

fn x_of_value(stage: &Stage, knob: Knob) -> u16 {
    let track = stage.app.regions.knob(knob).track;
    slider::column(track, knob.stops(&stage.app.bounds).fraction(stage.app.value(knob)))
}

#[test]
fn a_press_on_the_handle_changes_nothing() {
    let mut stage = llama((120, 40));
    let x = slider_handle(&stage, Knob::Context);
    let y = stage.app.regions.knob(Knob::Context).row.y;
    stage.mouse(Gesture::Down, x, y);
    stage.mouse(Gesture::Up, x, y);
    assert_eq!(stage.app.settings.ctx, Context::Auto);
    stage.press("u");
    assert!(stage.text().contains("Nothing to undo"));
}

#[test]
fn words_are_clicked() {
    for size in SIZES {
        let mut stage = llama(size);
        let row = stage.app.regions.knob(Knob::CacheType);
        let place = row.words(&Knob::CacheType.choices().unwrap())[1];
        let word: String = (place.left()..place.right()).map(|x| stage.buffer()[(x, place.y)].symbol()).collect();
        assert_eq!(word.trim(), "q8_0");
        stage.mouse(Gesture::Down, place.x + 1, place.y);
        assert_eq!(stage.app.settings.cache_type_k, Some(CacheType::Q8_0), "{size:?}");
    }
}

#[test]
fn the_wheel_turns_the_knob_under_it_and_scrolls_lists() {
    let mut stage = llama((140, 45));
    let row = stage.app.regions.knob(Knob::Parallel).row;
    stage.mouse(Gesture::WheelUp, row.x + 5, row.y);
    assert_eq!((stage.app.settings.parallel, stage.app.knob), (Some(2), Knob::Parallel));
    let memory = stage.app.regions.memory;
    stage.mouse(Gesture::WheelDown, memory.x + 5, memory.y + 3);
    assert_eq!((stage.app.focus, stage.app.cursors.device), (Panel::Memory, 1));
}

#[test]
fn a_click_on_a_column_chooses_the_layer_drawn_there() {
    for size in SIZES {
        let mut stage = llama(size);
        let blocks = stage.app.plan.as_ref().unwrap().layers.len() - 1;
        let columns = plimsoll::tui::view::layers::columns(stage.app.regions.layers, blocks);
        for layer in [0, 7, 31, 32] {
            let (x, _) = columns.place(layer);
            stage.mouse(Gesture::Down, x, columns.area.y);
            assert_eq!(stage.app.cursors.layer, layer, "{size:?}");
            assert_eq!(stage.app.focus, Panel::Layers);
        }
    }
}

#[test]
fn on_the_smallest_screen_panels_are_chosen_by_their_names() {
    let mut stage = llama((60, 20));
    for (panel, place) in stage.app.regions.tabs() {
        stage.mouse(Gesture::Down, place.x + 1, place.y);
        assert_eq!((stage.app.focus, stage.app.lower), (panel, panel));
        assert!(stage.text().contains(&format!("▸{}", panel.title())), "{}", stage.text());
    }
}
