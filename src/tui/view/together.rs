//! The page on several models: which stay loaded, and their share of each device.
//!
//! ```text
//! ✓ Together: every layer of each is on GPUs.
//!
//! A    Llama 3.1 8B · Q4_K_M · context 8 192
//!      Fits: 33 of 33 layers on GPUs; 5.4 GiB on GPU0
//! now  Qwen3 8B · Q4_K_M · context 8 192
//!      Fits: 37 of 37 layers on GPUs; 5.6 GiB on GPU0
//!
//! GPU0 ░░AAAAAAAAAAAAAnnnnnnnnnnnnn····························  12.6 GiB free
//! ```

use ratatui::buffer::Buffer;

use super::page;
use crate::answer::together::{LoadOutcome, LoadedModels};
use crate::export::answers::AnswerSource;
use crate::page::answers::{models, together, together_source};
use crate::page::palette::sign;
use crate::page::{Bar, Block, Hue, Page, Span};
use crate::plan::DevicePlan;
use crate::tui::app::App;
use crate::tui::app::together::TogetherPage;
use crate::units::{Bytes, Tokens};

/// Draws the page.
pub fn draw(app: &App, shown: &TogetherPage, buffer: &mut Buffer) {
    let loaded = shown.answer.as_ref().and_then(|answer| answer.as_ref().ok());
    let names: Vec<(String, String)> = shown
        .models
        .iter()
        .enumerate()
        .map(|(at, model)| {
            let of = &model.plan_request.model;
            let mut facts = vec![of.name.clone()];
            facts.extend(of.file_type.map(str::to_owned));
            if let Some(LoadOutcome::Loaded(plan)) = loaded.and_then(|loaded| loaded.outcomes.get(at)) {
                facts.push(format!("context {}", Tokens(plan.settings.ctx)));
            }
            (model.label.clone(), facts.join(" · "))
        })
        .collect();
    let mut page = Page::default();
    match &shown.answer {
        None => page.text("Loading the models in order…", Hue::Dim),
        Some(Err(why)) => page.text(why, Hue::Over),
        Some(Ok(loaded)) => page = together(&names, &app.machine, loaded, &format!("{} ", sign(loaded.outcome()).0)),
    }
    if let Some(loaded) = loaded {
        page.heading("Memory per model");
        page.push(Block::Bars(devices(app, shown, loaded), usize::MAX));
        let source = AnswerSource::of_engine(app.engine, &app.settings, loaded.confidence());
        together_source(&source.to_string(), app.engine.facts().evicts, &[], &mut page);
    } else {
        page.blank();
        models(&names, None, &mut page);
    }
    if shown.models.len() == 1 {
        page.text("Only one model: pin it with c, open another with b, then press L again.", Hue::Text);
    }
    page::draw(app, &page, "Load together", shown.scroll, None, buffer);
}

/// A bar for each device: memory in use before, each model by the letter of its pin, and free memory.
fn devices(app: &App, shown: &TogetherPage, loaded: &LoadedModels) -> Vec<Bar> {
    const HUES: [Hue; 2] = [Hue::EvenGpu, Hue::OddGpu];
    let ram = loaded.left.ram;
    let gpus = app.machine.gpus.iter().enumerate();
    let gpus = gpus.map(|(index, gpu)| {
        let (left, _) = loaded.left_on(index, &app.machine);
        (format!("GPU{index}"), gpu.total, gpu.free, left)
    });
    let all = gpus.chain(std::iter::once(("RAM".to_owned(), ram.total, app.machine.ram.free, ram.free)));
    let bar = |(index, (id, total, free, left)): (usize, (String, Bytes, Bytes, Bytes))| {
        let is_ram = index == loaded.left.gpus.len();
        let share = |bytes: Bytes| bytes.share_of(total).0;
        let mut parts = vec![(share(total - free), "░".to_owned(), Hue::InUse)];
        for (at, plan) in loaded.loaded() {
            let device = if is_ram { Some(plan.cpu()) } else { plan.gpus().get(index) };
            let letter = shown.models.get(at).and_then(|model| model.label.get(..1)).unwrap_or("?");
            let hue = HUES[at % HUES.len()];
            parts.push((share(device.map_or(Bytes::ZERO, DevicePlan::asked)), letter.to_owned(), hue));
        }
        parts.push((1.0, "·".to_owned(), Hue::Dim));
        Bar { label: Span::new(&id, Hue::Dim), parts, value: Span::from(format!("{:>16}", format!("{left} free"))) }
    };
    all.enumerate().map(bar).collect()
}
