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
use ratatui::text::{Line, Span};

use super::page::TextPage;
use crate::answer::together::{LoadOutcome, LoadedModels};
use crate::export::answers::AnswerSource;
use crate::page::palette::sign;
use crate::plan::{DevicePlan, Outcome};
use crate::tui::app::App;
use crate::tui::app::together::{PinnedModel, TogetherPage};
use crate::tui::theme::Hue;
use crate::units::{Bytes, Tokens};

/// Width of the names of models and devices.
const NAMES: u16 = 5;
/// Width of the free memory after a bar.
const FREE: usize = 16;

/// Draws the page.
pub fn draw(app: &App, together: &TogetherPage, buffer: &mut Buffer) {
    let mut page = TextPage::new(app);
    match &together.answer {
        None => page.text("Loading the models in order…", Hue::Dim),
        Some(Err(why)) => page.text(why, Hue::Over),
        Some(Ok(loaded_models)) => headline(app, loaded_models, &mut page),
    }
    page.blank();
    for (place, model) in together.models.iter().enumerate() {
        let outcome = together.answer.as_ref().and_then(|answer| answer.as_ref().ok()?.outcomes.get(place));
        one(app, model, outcome, &together.models, &mut page);
    }
    if let Some(Ok(loaded_models)) = &together.answer {
        page.heading("Memory per model");
        devices(app, together, loaded_models, &mut page);
        page.blank();
        let source = AnswerSource::of_engine(app.engine, &app.settings, loaded_models.confidence());
        page.text(&source.to_string(), Hue::Dim);
    }
    if together.models.len() == 1 {
        page.text("Only one model: pin it with c, open another with b, then press L again.", Hue::Text);
    }
    if app.engine.facts().evicts {
        let order = "All models are assumed idle. Ollama unloads the idle model whose file digest sorts first; \
                     where digests are not known, the one loaded first goes first.";
        page.text(order, Hue::Dim);
    }
    page.draw(app, "Load together", together.scroll, buffer);
}

fn headline(app: &App, loaded_models: &LoadedModels, page: &mut TextPage) {
    let (sign, hue) = sign(loaded_models.outcome());
    page.line(Line::from(vec![
        Span::styled(format!("{sign} {}", loaded_models.headline()), app.theme.bold(hue)),
        Span::styled(format!(" {}", loaded_models.sentence()), app.theme.ink(Hue::Text)),
    ]));
}

/// Adds a model and its outcome.
fn one(app: &App, model: &PinnedModel, outcome: Option<&LoadOutcome>, models: &[PinnedModel], page: &mut TextPage) {
    let of = &model.plan_request;
    let mut facts = vec![of.model.name.clone()];
    facts.extend(of.model.file_type.map(str::to_owned));
    if let Some(LoadOutcome::Loaded(plan)) = outcome {
        facts.push(format!("context {}", Tokens(plan.settings.ctx)));
    }
    page.pair(&model.label, NAMES, &facts.join(" · "), app.theme.bold(Hue::Text));
    let Some(outcome) = outcome else { return };
    let name = |index_of_model: usize| models.get(index_of_model).map_or_else(String::new, |model| model.label.clone());
    let hue = match outcome {
        LoadOutcome::Loaded(plan) if plan.outcome() >= Outcome::FromDisk => Hue::Over,
        LoadOutcome::Loaded(_) | LoadOutcome::Shares(_) => Hue::Dim,
        LoadOutcome::Evicted { .. } | LoadOutcome::Refused(_) => Hue::Over,
    };
    page.text_indented(&outcome.sentence(&name), NAMES + 1, hue);
}

/// Adds a bar for each device: memory in use before, each model by the letter of its pin, and free memory.
fn devices(app: &App, together: &TogetherPage, loaded_models: &LoadedModels, page: &mut TextPage) {
    const HUES: [Hue; 2] = [Hue::EvenGpu, Hue::OddGpu];
    let theme = app.theme;
    let room = usize::from(page.columns()).saturating_sub(usize::from(NAMES) + 1 + FREE).max(8);
    let ram = loaded_models.left.ram;
    let gpus = app.machine.gpus.iter().enumerate();
    let gpus = gpus.map(|(index, gpu)| {
        let (left, _) = loaded_models.left_on(index, &app.machine);
        (format!("GPU{index}"), gpu.total, gpu.free, left)
    });
    let all = gpus.chain(std::iter::once(("RAM".to_owned(), ram.total, app.machine.ram.free, ram.free)));
    for (index, (id, total, free, left)) in all.enumerate() {
        let is_ram = index == loaded_models.left.gpus.len();
        let mut spans = vec![Span::styled(format!("{id:<width$} ", width = usize::from(NAMES)), theme.ink(Hue::Dim))];
        let mut end = Bytes::ZERO;
        let mut filled = 0;
        let mut part = |bytes: Bytes, sign: &str, hue: Hue, spans: &mut Vec<Span<'static>>| {
            end += bytes;
            // each part is rounded by its cumulative end, so that errors do not add up
            let to = ((end.share_of(total).0 * room as f64).round() as usize).min(room);
            spans.push(Span::styled(sign.repeat(to.saturating_sub(filled)), theme.ink(hue)));
            filled = filled.max(to);
        };
        part(total - free, "░", Hue::InUse, &mut spans);
        for (index_of_model, plan) in loaded_models.loaded() {
            let device = if is_ram { Some(plan.cpu()) } else { plan.gpus().get(index) };
            let letter = together.models.get(index_of_model).and_then(|model| model.label.get(..1)).unwrap_or("?");
            let hue = HUES[index_of_model % HUES.len()];
            part(device.map_or(Bytes::ZERO, DevicePlan::asked), letter, hue, &mut spans);
        }
        part(total, "·", Hue::Dim, &mut spans);
        spans.push(Span::styled(format!("{:>FREE$}", format!("{left} free")), theme.ink(Hue::Text)));
        page.line(Line::from(spans));
    }
}
