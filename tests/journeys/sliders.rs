//! Sliders and the mouse.

use plimsoll::engine::EngineId;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, Settings};
use plimsoll::tui::action::Gesture;
use plimsoll::tui::host::Host;
use plimsoll::tui::regions::Panel;
use plimsoll::tui::screens::engines::EnginesPage;
use plimsoll::tui::screens::help::HelpPage;
use plimsoll::tui::screens::machine::MachineScreen;
use plimsoll::tui::screens::models::ModelBrowser;
use plimsoll::tui::widget::slider;
use ratatui::layout::Rect;

use crate::harness::{self, Harness};

const SIZES: [(u16, u16); 5] = [(60, 20), (80, 24), (100, 30), (140, 45), (200, 60)];

fn llama(size: (u16, u16)) -> Harness {
    Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), size)
}

/// A model with experts on two GPUs in llama.cpp, which has every slider.
fn llama_cpp(size: (u16, u16)) -> Harness {
    let machine = harness::machine(2, "RTX 3090", 24, 64);
    Harness::by(EngineId::LlamaCpp, harness::model("gpt-oss-20b"), machine, size, Settings::default())
}

#[test]
fn every_slider_can_be_dragged_at_every_size() {
    for size in SIZES {
        for knob in llama(size).host.app.panels.knobs.offered.into_iter().filter(|knob| knob.words().is_none()) {
            drag_to_both_ends(llama(size), knob, 1);
        }
    }
    let size = (60, 20);
    let usual = llama(size).host.app.panels.knobs.offered;
    for knob in llama_cpp(size)
        .host
        .app
        .panels
        .knobs
        .offered
        .into_iter()
        .filter(|knob| knob.words().is_none() && !usual.contains(knob))
    {
        drag_to_both_ends(llama_cpp(size), knob, 10);
    }
}

/// Drags the handle of `knob` from right to left in steps of `every` columns.
fn drag_to_both_ends(mut harness: Harness, knob: Knob, every: usize) {
    let size = harness.host.app.panels.regions.screen;
    harness.no_limits = true;
    while harness.host.app.panels.knob_row(knob).is_none() {
        harness.press("↓");
    }
    let stops = knob.stops(&harness.host.app.request.bounds);
    let track = track(&harness, knob);
    let (left, right) = (track.left() + 1, track.right() - 2);
    harness.mouse(Gesture::Down, slider::column(track, stops.fraction(harness.host.app.request.value(knob))), track.y);
    let mut values = Vec::new();
    for x in (left..=right).rev().step_by(every).chain([left]) {
        harness.mouse(Gesture::Drag, x, track.y + 3);
        values.push(harness.host.app.request.value(knob));
        assert_eq!(slider_handle(&harness, knob), x_of_value(&harness, knob), "{knob:?} at {size:?}");
    }
    assert!(values.is_sorted_by(|a, b| a >= b), "{knob:?} {values:?}");
    assert_eq!((values[0], values[values.len() - 1]), (stops.last(), stops.first()), "{knob:?} at {size:?}");
    harness.mouse(Gesture::Up, left, track.y);
    harness.press("u");
    assert_eq!(
        knob.chosen(&harness.host.app.request.settings, &harness.host.app.request.bounds),
        None,
        "a drag is undone at once"
    );
}

fn track(harness: &Harness, knob: Knob) -> Rect {
    harness.host.app.panels.knob_row(knob).unwrap().track
}

/// The column in which the handle is drawn.
fn slider_handle(harness: &Harness, knob: Knob) -> u16 {
    let track = track(harness, knob);
    (track.left()..track.right()).find(|&x| matches!(harness.buffer()[(x, track.y)].symbol(), "●" | "○")).unwrap()
}

fn x_of_value(harness: &Harness, knob: Knob) -> u16 {
    let track = track(harness, knob);
    slider::column(track, knob.stops(&harness.host.app.request.bounds).fraction(harness.host.app.request.value(knob)))
}

#[test]
fn pressing_the_handle_changes_nothing() {
    let mut harness = llama((120, 40));
    let x = slider_handle(&harness, Knob::Context);
    let y = track(&harness, Knob::Context).y;
    harness.mouse(Gesture::Down, x, y);
    harness.mouse(Gesture::Up, x, y);
    assert_eq!(harness.host.app.request.settings.ctx, Context::Auto);
    harness.press("u");
    assert!(harness.text().contains("Nothing to undo"));
}

/// A click on a name in the header opens its page.
#[test]
fn the_header_can_be_clicked() {
    for size in SIZES {
        let harness = llama(size);
        let line: String = (0..size.0).map(|x| harness.buffer()[(x, 0)].symbol().chars().next().unwrap()).collect();
        let mut opened = 0;
        for (word, opens) in [
            ("Llama", (|host| host.showing::<ModelBrowser>().is_some()) as fn(&Host) -> bool),
            ("Ollama", |host| host.showing::<EnginesPage>().is_some()),
            ("simulated", |host| host.showing::<MachineScreen>().is_some()),
            ("help", |host| host.showing::<HelpPage>().is_some()),
        ] {
            let Some(at) = line.find(word) else { continue };
            let x = line[..at].chars().count() as u16;
            for x in [x, x + word.len() as u16 - 1] {
                let mut harness = llama(size);
                harness.mouse(Gesture::Down, x, 0);
                assert!(opens(&harness.host), "{word} at {x} of {line}");
                opened += 1;
            }
        }
        assert!(opened >= 6, "{line}");
    }
}

#[test]
fn choices_can_be_clicked() {
    for size in SIZES {
        let mut harness = llama(size);
        let row = harness.host.app.panels.knob_row(Knob::CacheType).unwrap();
        let place = row.words(&Knob::CacheType.words().unwrap())[1];
        let word: String = (place.left()..place.right()).map(|x| harness.buffer()[(x, place.y)].symbol()).collect();
        assert_eq!(word.trim(), "q8_0");
        harness.mouse(Gesture::Down, place.x + 1, place.y);
        assert_eq!(harness.host.app.request.settings.cache_type_k, Some(CacheType::Q8_0), "{size:?}");
    }
}

#[test]
fn the_wheel_changes_knobs_and_scrolls_lists() {
    let mut harness = llama((140, 45));
    let row = harness.host.app.panels.knob_row(Knob::Parallel).unwrap().row;
    harness.mouse(Gesture::WheelUp, row.x + 5, row.y);
    assert_eq!(
        (harness.host.app.request.settings.parallel, harness.host.app.panels.knobs.focus),
        (Some(2), Knob::Parallel)
    );
    let memory = harness.host.app.panels.regions.memory;
    harness.mouse(Gesture::WheelDown, memory.x + 5, memory.y + 3);
    assert_eq!((harness.host.app.panels.focus, harness.host.app.panels.cursors.device), (Panel::Memory, 1));
}

#[test]
fn clicking_a_column_selects_its_layer() {
    for size in SIZES {
        let mut harness = llama(size);
        let blocks = harness.host.app.request.plan.as_ref().unwrap().layers.len() - 1;
        let columns = plimsoll::tui::view::layers::columns(harness.host.app.panels.regions.layers, blocks);
        for layer in [0, 7, 31, 32] {
            let (x, _) = columns.place(layer);
            harness.mouse(Gesture::Down, x, columns.area.y);
            assert_eq!(harness.host.app.panels.cursors.layer, layer, "{size:?}");
            assert_eq!(harness.host.app.panels.focus, Panel::Layers);
        }
    }
}

#[test]
fn on_small_screens_panels_are_chosen_by_their_tabs() {
    let mut harness = llama((60, 20));
    for (panel, place) in harness.host.app.panels.regions.tabs() {
        harness.mouse(Gesture::Down, place.x + 1, place.y);
        assert_eq!((harness.host.app.panels.focus, harness.host.app.panels.lower), (panel, panel));
        assert!(harness.text().contains(&format!("▸{}", panel.title())), "{}", harness.text());
    }
}
