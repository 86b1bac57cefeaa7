//! From a key press to the drawn screen: `update`, the new plan, and drawing into a buffer of 200×60 cells.
//!
//! `cargo bench --bench redraw`. Target: 2 ms for Qwen3 235B (94 layers) on four GPUs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench that cannot go on fails")]

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "../harness.rs"]
mod harness;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "../support.rs"]
mod support;

use std::sync::Arc;

use divan::Bencher;
use plimsoll::engine::{DraftFile, EngineId, PreparedModel};
use plimsoll::model::{Model, Projector};
use plimsoll::settings::{DraftSettings, Settings, SpecType};
use plimsoll::teach::Tab;
use plimsoll::tui::action::Action;
use plimsoll::tui::effect::{Effect, TeachRequest};
use plimsoll::tui::event;
use plimsoll::tui::host::Host;
use plimsoll::tui::screens::teach::TeachScreen;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;

fn main() {
    divan::main();
}

/// Presses the left or right arrow, which changes the context.
fn redraw(host: &mut Host, buffer: &mut Buffer, right: bool) -> usize {
    let code = if right { KeyCode::Right } else { KeyCode::Left };
    let key = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    let action: Action = event::action(&key, host).expect("the arrows are in the key table");
    let effects = host.update(action).len() + host.refresh().len();
    buffer.reset();
    host.draw(buffer);
    effects
}

fn bench(bencher: Bencher, engine: EngineId, model: Model, gpus: usize) {
    bench_with(bencher, engine, model, gpus, Settings::default());
}

fn bench_with(
    bencher: Bencher,
    engine: EngineId,
    model: impl Into<Arc<PreparedModel>>,
    gpus: usize,
    settings: Settings,
) {
    let machine = harness::machine(gpus, "RTX 6000 Ada", 48, 256);
    let mut harness = harness::Harness::by(engine, model, machine, (200, 60), settings);
    harness.press("Home → → → → →");
    let mut buffer = Buffer::empty(Rect::new(0, 0, 200, 60));
    let mut right = false;
    bencher.bench_local(|| {
        right = !right;
        redraw(&mut harness.host, &mut buffer, right)
    });
}

/// `model` with a draft beside it.
fn with_draft(model: Model, draft: &str) -> PreparedModel {
    let file = format!("{draft}.gguf");
    PreparedModel::from(model).with_draft(Some(DraftFile { model: harness::model(draft).into(), file }))
}

fn drafting_by(kind: SpecType) -> Settings {
    Settings { draft: DraftSettings { types: Some(vec![kind]), ..DraftSettings::default() }, ..Settings::default() }
}

/// With a draft that reads hidden states, for which both contexts are measured twice. Target: 2 ms.
#[divan::bench]
fn llama3_1_8b_with_a_draft(bencher: Bencher) {
    let model = with_draft(harness::model("llama3.1-8b"), "llama3.1-8b-eagle3");
    bench_with(bencher, EngineId::LlamaCpp, model, 1, drafting_by(SpecType::DraftEagle3));
}

/// With the audio projector of Ultravox, which was made for this model. Target: 2 ms.
#[divan::bench]
fn llama3_1_8b_with_a_projector(bencher: Bencher) {
    let header = support::description::header(&support::projector_json("ultravox-v0.5-8b-f16")).unwrap();
    let projector = Some(Projector::new("mmproj.gguf".to_owned(), header));
    let settings = Settings { projector, ..Settings::default() };
    bench_with(bencher, EngineId::LlamaCpp, harness::model("llama3.1-8b"), 1, settings);
}

/// With a small model as draft. Target: 4 ms.
#[divan::bench]
fn qwen3_235b_on_four_gpus_with_a_draft(bencher: Bencher) {
    let model = with_draft(harness::qwen3_235b(), "qwen3-0.6b");
    bench_with(bencher, EngineId::LlamaCpp, model, 4, drafting_by(SpecType::DraftSimple));
}

#[divan::bench]
fn qwen3_235b_on_four_gpus(bencher: Bencher) {
    bench(bencher, EngineId::Ollama024, harness::qwen3_235b(), 4);
}

/// Every page of the teach screen, for an engine that estimates and for one that allocates.
fn pages() -> impl Iterator<Item = (EngineId, Tab)> {
    let engines = [EngineId::Ollama024, EngineId::LlamaCpp];
    engines.into_iter().flat_map(|engine| Tab::ALL.map(|page| (engine, page)))
}

fn four_gpus(engine: EngineId) -> harness::Harness {
    let machine = harness::machine(4, "RTX 6000 Ada", 48, 256);
    harness::Harness::by(engine, harness::qwen3_235b(), machine, (200, 60), Settings::default())
}

/// The request for a page, which is computed on a worker thread.
fn lesson(harness: &mut harness::Harness, page: Tab) -> Box<TeachRequest> {
    let mut effects = harness.host.show(Box::new(TeachScreen::on(page))).into_iter();
    let asked = effects.find_map(|effect| if let Effect::Teach(lesson) = effect { Some(lesson) } else { None });
    asked.expect("a page is asked for")
}

/// Stepping through a page of the teach screen for 94 layers, with the same target.
#[divan::bench(args = pages())]
fn stepping_through_a_page(bencher: Bencher, (engine, page): (EngineId, Tab)) {
    let mut harness = four_gpus(engine);
    let lesson = lesson(&mut harness, page);
    harness.act(lesson.answer());
    let mut buffer = Buffer::empty(Rect::new(0, 0, 200, 60));
    let mut right = false;
    bencher.bench_local(|| {
        right = !right;
        redraw(&mut harness.host, &mut buffer, right)
    });
}

/// Every overlay, by the keys that open it, on a wide and on a narrow screen.
fn overlays() -> impl Iterator<Item = (&'static str, (u16, u16))> {
    let keys = ["?", "n", "i", "b", "g", "e", "E", "w", "W", "s", "c → c", "c → L", "x", "Tab Enter"];
    keys.into_iter().flat_map(|keys| [(200, 60), (60, 20)].map(|size| (keys, size)))
}

/// Drawing an overlay, with the same target.
#[divan::bench(args = overlays())]
fn drawing_an_overlay(bencher: Bencher, (keys, (columns, rows)): (&str, (u16, u16))) {
    let machine = harness::machine(2, "RTX 3060", 12, 64);
    let model = harness::model("qwen3-30b-a3b");
    let mut harness = harness::Harness::by(EngineId::LlamaCpp, model, machine, (columns, rows), Settings::default());
    harness.press(keys);
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    bencher.bench_local(|| {
        buffer.reset();
        harness.host.draw(&mut buffer);
    });
}

/// Computing a page, which no frame waits for. Target: 50 ms.
#[divan::bench(args = pages())]
fn opening_a_page(bencher: Bencher, (engine, page): (EngineId, Tab)) {
    let lesson = lesson(&mut four_gpus(engine), page);
    bencher.bench_local(|| lesson.answer());
}

#[divan::bench]
fn llama3_1_8b_on_one_gpu(bencher: Bencher) {
    bench(bencher, EngineId::Ollama024, harness::model("llama3.1-8b"), 1);
}

#[divan::bench]
fn qwen3_235b_on_four_gpus_by_llama_cpp(bencher: Bencher) {
    bench(bencher, EngineId::LlamaCpp, harness::qwen3_235b(), 4);
}

#[divan::bench]
fn llama3_1_8b_on_one_gpu_by_llama_cpp(bencher: Bencher) {
    bench(bencher, EngineId::LlamaCpp, harness::model("llama3.1-8b"), 1);
}

/// Drawing alone, without the new plan.
#[divan::bench]
fn draw_qwen3_235b_on_four_gpus_by_llama_cpp(bencher: Bencher) {
    let machine = harness::machine(4, "RTX 6000 Ada", 48, 256);
    let harness =
        harness::Harness::by(EngineId::LlamaCpp, harness::qwen3_235b(), machine, (200, 60), Settings::default());
    let mut buffer = Buffer::empty(Rect::new(0, 0, 200, 60));
    bencher.bench_local(|| {
        buffer.reset();
        harness.host.draw(&mut buffer);
    });
}
