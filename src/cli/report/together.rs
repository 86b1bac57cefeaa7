//! Several models on one machine, as text.

use super::super::style::{Hue, Style};
use super::one_line;
use crate::answer::together::{LoadOutcome, LoadedModels};
use crate::export::answers::AnswerSource;
use crate::machine::Machine;
use crate::units::Bytes;

/// The outcome of each model, and the memory that remains free.
pub(in super::super) fn text(
    source: &AnswerSource,
    names: &[String],
    machine: &Machine,
    loaded_models: &LoadedModels,
    notes: &[String],
    style: &Style,
) -> String {
    let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
    let mut out = headline(loaded_models, style);
    out.push('\n');
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(style.width / 2);
    for (number, (name, outcome)) in names.iter().zip(&loaded_models.outcomes).enumerate() {
        let first = format!("{} {name:<width$}  ", number + 1);
        out += &style.wrap(&first, &one_line(&outcome.sentence(&|request| (request + 1).to_string())));
    }
    out += &format!("\n{}\n", style.strong("Remaining free memory"));
    for (index, gpu) in machine.gpus.iter().enumerate() {
        let (free, in_ram) = loaded_models.left_on(index, machine);
        out += &left(&format!("GPU{index}"), &one_line(&gpu.name), gpu.free, free, in_ram, style);
    }
    out += &left("RAM", "", machine.ram.free, loaded_models.left.ram.free, Bytes::ZERO, style);
    out.push('\n');
    out += &style.wrap("", &source.to_string());
    if loaded_models.outcomes.iter().any(|outcome| matches!(outcome, LoadOutcome::Evicted { .. })) {
        let order = "all models are assumed idle. Ollama unloads the idle model whose file digest sorts first; \
                     where digests are not known, the one loaded first goes first";
        out += &style.wrap("- ", order);
    }
    out.extend(notes.iter().map(|note| style.wrap("- ", &one_line(note))));
    out
}

fn headline(loaded_models: &LoadedModels, style: &Style) -> String {
    let word = style.paint(Hue::of(loaded_models.outcome()), loaded_models.headline());
    format!("{} {}\n", style.strong(&word), loaded_models.sentence())
}

fn left(id: &str, name: &str, before: Bytes, after: Bytes, in_ram: Bytes, style: &Style) -> String {
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let shared = match in_ram {
        Bytes::ZERO => String::new(),
        all if all == after => ", the same bytes as RAM's".to_owned(),
        part => format!(", {part} of it the same bytes as RAM's"),
    };
    style.wrap(&format!("{id:<5} "), &format!("{name}{after} of {before} remain free{shared}"))
}
