//! The best settings as text.

use super::super::style::Style;
use super::{sanitize, source};
use crate::answer::best::{BestRequest, Card, Objective};
use crate::plan::Plan;
use crate::settings::Settings;

/// The cards, with the options that turn `asked` into each.
pub(in super::super) fn text(
    plan: &Plan,
    asked: &Settings,
    question: &BestRequest,
    cards: &[Card],
    style: &Style,
) -> String {
    let plan = &sanitize(plan.clone());
    let names: Vec<&str> = question.held.iter().map(|knob| knob.title()).collect();
    let held = if names.is_empty() { String::new() } else { format!(" Fixed as given: {}.", names.join(", ")) };
    let mut out = style.wrap("", &format!("Each was planned. Safe leaves {} on every GPU.{held}", question.margin));
    for card in cards {
        out += &format!("\n{}\n", style.strong(&card.title()));
        let brings = format!("{}; {}. {}", card.headline(), card.room_and_speed(), card.gives_up_text());
        out += &style.wrap("- ", &brings);
        let options = card.options(asked);
        if !options.is_empty() {
            out += &format!("    {options}\n");
        }
    }
    if !cards.iter().any(|card| card.objectives.contains(&Objective::Safe)) {
        out += &format!("\n{}", style.wrap("", &question.nothing_is_safe()));
    }
    out.push('\n');
    out += &source(plan, style);
    out
}
