//! Several models on one machine, as text for people.

use super::super::style::{Ink, Style};
use super::one_line;
use crate::answer::together::{Fate, Household};
use crate::export::answers::Source;
use crate::machine::Machine;
use crate::units::Bytes;

/// What becomes of each model, and what remains of the machine.
pub(in super::super) fn text(
    source: &Source,
    names: &[String],
    machine: &Machine,
    household: &Household,
    notes: &[String],
    style: &Style,
) -> String {
    let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
    let mut out = headline(household, style);
    out.push('\n');
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(style.width / 2);
    for (number, (name, fate)) in names.iter().zip(&household.fates).enumerate() {
        let first = format!("{} {name:<width$}  ", number + 1);
        out += &style.wrap(&first, &one_line(&fate.sentence(&|tenant| (tenant + 1).to_string())));
    }
    out += &format!("\n{}\n", style.paint(Ink::Strong, "Remaining free memory"));
    for (index, (before, after)) in machine.gpus.iter().zip(&household.left.gpus).enumerate() {
        out += &left(&format!("GPU{index}"), &one_line(&before.name), before.free, after.free, style);
    }
    out += &left("RAM", "", machine.ram.free, household.left.ram.free, style);
    out.push('\n');
    out += &style.wrap("", &source.to_string());
    if household.fates.iter().any(|fate| matches!(fate, Fate::Evicted { .. })) {
        let order = "all models are assumed idle. Ollama unloads the idle model whose file digest sorts first; \
                     digests are not known here, so the one loaded first is unloaded first";
        out += &style.wrap("- ", order);
    }
    out.extend(notes.iter().map(|note| style.wrap("- ", &one_line(note))));
    out
}

fn headline(household: &Household, style: &Style) -> String {
    let word = style.paint(Ink::of(household.standing()), household.headline());
    format!("{} {}\n", style.paint(Ink::Strong, &word), household.sentence())
}

fn left(id: &str, name: &str, before: Bytes, after: Bytes, style: &Style) -> String {
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    style.wrap(&format!("{id:<5} "), &format!("{name}{after} of {before} remain free"))
}
