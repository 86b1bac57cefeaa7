//! Why a layer is on its device: the deciding inequality, the changes that would move it, and the memory users by
//! device.

use ratatui::buffer::Buffer;
use ratatui::text::Span;

use super::layers::device_name;
use super::page::TextPage;
use crate::answer::parts;
use crate::answer::why::{self, Inequality, LayerAnswer};
use crate::answer::{Goal, Remedy};
use crate::plan::{Outcome, Plan, Why};
use crate::tui::app::App;
use crate::tui::app::advice::{AnswerState, WhyPage};
use crate::tui::theme::Hue;
use crate::tui::widget::row_writer::capitalised;

/// Minimum rows of the screen to show the inequality line by line.
const ROOMY: u16 = 32;
/// Width of a name, and of an amount.
const NAMES: usize = 36;
const AMOUNT: usize = 10;

/// Draws the page.
pub fn draw(app: &App, why_page: &WhyPage, buffer: &mut Buffer) {
    let Some(plan) = &app.plan else { return };
    let Some(answer) = why::layer(plan, why_page.layer) else { return };
    let mut page = TextPage::new(app);
    reason(app, plan, &answer, &mut page);
    remedies(app, plan, why_page, &mut page);
    memory_users(app, plan, &mut page);
    beside(app, plan, &mut page);
    page.blank();
    page.text(&plan.source(), Hue::Dim);
    let title = format!("{} is {}", capitalised(&plan.layer_name(why_page.layer)), location(plan, why_page.layer));
    page.draw(app, &title, why_page.scroll, buffer);
}

/// `on GPU0`, `in RAM`
fn location(plan: &Plan, layer: usize) -> String {
    match plan.layers.get(layer).map_or("RAM", |layer| device_name(plan, layer.device)) {
        "RAM" => "in RAM".to_owned(),
        gpu => format!("on {gpu}"),
    }
}

fn reason(app: &App, plan: &Plan, answer: &LayerAnswer, page: &mut TextPage) {
    match answer.inequality.as_ref().filter(|_| app.regions.screen.height >= ROOMY) {
        Some(inequality) => ledger(app, plan, answer, inequality, page),
        None => page.text(&answer.reason, Hue::Text),
    }
    if let Some(refusal) = &plan.refusal {
        page.text(refusal, Hue::Over);
    }
}

/// Adds the inequality line by line.
fn ledger(app: &App, plan: &Plan, answer: &LayerAnswer, inequality: &Inequality, page: &mut TextPage) {
    let theme = app.theme;
    let mut line = |sign: &str, name: &str, bytes: crate::units::Bytes, strong: bool| {
        let ink = if strong { theme.bold(Hue::Text) } else { theme.ink(Hue::Text) };
        page.line(ratatui::text::Line::from(vec![
            Span::styled(format!("{sign} {name:<NAMES$}"), theme.ink(if strong { Hue::Text } else { Hue::Dim })),
            Span::styled(format!("{:>AMOUNT$}", bytes.to_string()), ink),
        ]));
    };
    line(" ", &format!("free on {}", inequality.device), inequality.free, false);
    for part in &inequality.kept {
        line("−", &part.name, part.bytes, false);
    }
    match inequality.placed {
        0 => {}
        1 => line("−", "1 layer already placed", inequality.placed_bytes, false),
        n => line("−", &format!("{n} layers already placed"), inequality.placed_bytes, false),
    }
    line("=", "left for this layer", inequality.room, true);
    line(" ", "needed by this layer", answer.needed, true);
    let (text, hue) = if inequality.enough {
        ("✓ The layer fits.", Hue::Fine)
    } else if inequality.room < answer.needed {
        ("✗ The layer does not fit.", Hue::Over)
    } else {
        ("✗ There is no space left for the layer.", Hue::Over)
    };
    page.text(text, hue);
    // the inequality was not decisive
    if plan.layers.get(answer.index).is_some_and(|layer| layer.why == Why::OutputDropped) {
        page.text(&answer.reason, Hue::Text);
    }
}

fn remedies(app: &App, plan: &Plan, why_page: &WhyPage, page: &mut TextPage) {
    let theme = app.theme;
    let nothing_to_move = why::nothing_to_move(plan);
    let in_ram = plan.layers.get(why_page.layer).is_some_and(|layer| device_name(plan, layer.device) == "RAM");
    page.heading(if in_ram { "Changes that move it to GPU" } else { "Changes that move all layers to GPU" });
    for (at, remedy) in why_page.remedies.iter().enumerate() {
        let chosen = at == why_page.chosen;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        let speed = remedy.speed.map_or_else(String::new, |speed| format!(" · {speed} tok/s"));
        let brings = brings(plan, remedy) + &speed;
        let room = usize::from(page.columns()).saturating_sub(2 + brings.chars().count() + 2);
        let mut text = remedy.change.to_string();
        if text.chars().count() > room {
            text = text.chars().take(room.saturating_sub(1)).collect::<String>() + "…";
        }
        page.choice(
            chosen,
            vec![Span::styled(format!("{text:<room$}  "), ink), Span::styled(brings, theme.ink(Hue::Fine))],
        );
    }
    let text = match (why_page.progress, why_page.remedies.is_empty()) {
        (AnswerState::Working, _) => "Testing changes…",
        (AnswerState::Done, true) => nothing_to_move.unwrap_or(if plan.gpus().is_empty() {
            "There is no GPU to move it to."
        } else {
            "No single change moves it to GPU."
        }),
        (AnswerState::Done, false) => "Each was tested. Enter applies the selected one, u undoes it.",
    };
    page.text(text, Hue::Dim);
}

/// `all 33 layers`, or `this layer, 28 of 33`.
fn brings(plan: &Plan, remedy: &Remedy) -> String {
    let all = plan.layers.len();
    match remedy.goal {
        Goal::Vram | Goal::VramWith(_) if plan.outcome() <= Outcome::Tight => "the margin is free".to_owned(),
        Goal::Vram | Goal::VramWith(_) => "all in VRAM".to_owned(),
        Goal::AllLayers => format!("all {all} layers"),
        Goal::Layer(_) => format!("this layer, {} of {all}", remedy.on_gpus),
        Goal::AtLeast(_) => format!("{} of {all} layers", remedy.on_gpus),
    }
}

fn memory_users(app: &App, plan: &Plan, page: &mut TextPage) {
    let memory_users = why::memory_users(plan);
    if memory_users.is_empty() {
        return;
    }
    page.heading("What uses the GPU memory");
    for user in memory_users {
        let device = format!("{:<6}", user.device);
        page.line(ratatui::text::Line::from(vec![
            Span::styled(device, app.theme.ink(Hue::Dim)),
            Span::styled(format!("{:<width$}", user.name, width = NAMES - 4), app.theme.ink(Hue::Text)),
            Span::styled(format!("{:>AMOUNT$}", user.bytes.to_string()), app.theme.ink(Hue::Text)),
        ]));
    }
}

/// The projector and the draft, with what they take everywhere and why.
fn beside(app: &App, plan: &Plan, page: &mut TextPage) {
    for part in app.plan_request().iter().flat_map(|request| parts::of(request, plan)) {
        page.heading(&format!("The {}: {}", part.part.title(), part.amounts()));
        part.reasons.iter().for_each(|reason| page.text(reason, Hue::Text));
    }
}
