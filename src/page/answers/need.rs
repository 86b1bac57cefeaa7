//! The machines that run a model, as a page.

use super::source_line;
use crate::answer::need::{NeedRequest, NeededMachine};
use crate::page::{Column, Hue, Narrow, Page, Span};
use crate::plan::{Outcome, Plan};
use crate::units::Bytes;

/// Most machines of a kind on the page.
const SHOWN: usize = 12;

/// The machines that do what is asked, by kind; those with the least memory first.
pub fn need(question: &NeedRequest, found: &[NeededMachine]) -> Page {
    let mut page = Page::default();
    let NeedRequest { ram, speed } = question;
    let asked = format!("{speed} tokens a second or more with the context full, {} of RAM free beside cards", ram.free);
    if found.is_empty() {
        page.text(&format!("No known card or system runs it: asked for were {asked}."), Hue::Text);
        return page;
    }
    page.text(&format!("Asked for: {asked}. Those with the least memory come first."), Hue::Text);
    for title in ["One card", "Two cards", "Cards with RAM", "Systems"] {
        let of_kind: Vec<&NeededMachine> = found.iter().filter(|one| kind(one) == title).collect();
        if of_kind.is_empty() {
            continue;
        }
        page.heading(title);
        let columns = vec![
            Column::left("", 24),
            Column::right("memory", 8),
            Column::right("tok/s, full", 11),
            Column::left("where", 8),
        ];
        let rows = of_kind.iter().take(SHOWN).map(|one| {
            let outcome = one.plan.outcome();
            let speed = one.speed.range().to_string();
            let cells = [one.name(), one.memory.to_string(), speed];
            let cells = cells.iter().map(|cell| Span::from(cell.as_str()));
            cells.chain([Span::new(&place(&one.plan), Hue::of(outcome))]).collect()
        });
        page.table(columns, rows.collect(), Narrow::Cut(0));
        if of_kind.len() > SHOWN {
            page.text(
                &format!(
                    "{} more, with more memory: plimsoll need with --csv or --json lists them.",
                    of_kind.len() - SHOWN
                ),
                Hue::Dim,
            );
        }
    }
    if let Some(first) = found.first() {
        source_line(&first.plan, &mut page);
    }
    page
}

/// The title under which it is listed.
fn kind(one: &NeededMachine) -> &'static str {
    match one.count {
        _ if !one.is_card() => "Systems",
        _ if !one.is_in_vram() => "Cards with RAM",
        1 => "One card",
        _ => "Two cards",
    }
}

/// `all in VRAM`, `experts of 12.4 GiB in RAM`
fn place(plan: &Plan) -> String {
    match plan.outcome() {
        Outcome::Vram => "all in VRAM".to_owned(),
        Outcome::Cpu => "RAM".to_owned(),
        _ => {
            let in_ram: Bytes = plan.cpu().asked();
            format!("{}, {in_ram} of RAM", plan.in_ram_short())
        }
    }
}
