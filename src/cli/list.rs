//! The models of the catalogue and those on this machine, and how each would fit.

use std::num::NonZero;
use std::thread;

use serde::Serialize;

use super::fault::one_line;
use super::start::Ready;
use super::style::{Ink, Style};
use crate::answer::{Glance, verdict};
use crate::gguf::FileType;
use crate::model::Model;
use crate::plan::Verdict;
use crate::source::catalogue::{self, Entry};
use crate::source::store::{self, State};
use crate::source::{self, Roots};
use crate::units::Bytes;

/// A model of the list.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// What to write to open it.
    name: String,
    /// Who has it: a store of this machine, or the catalogue.
    source: &'static str,
    #[serde(flatten)]
    known: Option<Known>,
    /// Why nothing can be said of it.
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct Known {
    title: String,
    architecture: String,
    parameters: u64,
    file_type: Option<&'static str>,
    bytes: Bytes,
    context_train: Option<u64>,
    #[serde(flatten)]
    glance: Glance,
}

/// What a row is made of.
enum Item {
    Stored(store::Entry),
    BuiltIn(&'static Entry),
}

/// Every model, those on this machine first: as quantised as they are or, in the catalogue, mostly run, or all as `quant`.
/// `fits`: without those that do not fit.
pub(super) fn rows(ready: &Ready, quant: Option<FileType>, fits: bool) -> Vec<Row> {
    let stored = store::list(&Roots::of_this_machine()).into_iter().map(Item::Stored);
    let items: Vec<_> = stored.chain(catalogue::all().iter().map(Item::BuiltIn)).collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut rows = Vec::with_capacity(items.len());
    thread::scope(|scope| {
        let share = items.len().div_ceil(threads).max(1);
        let parts: Vec<_> = items
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(|item| row(item, ready, quant)).collect::<Vec<_>>()))
            .collect();
        for part in parts {
            match part.join() {
                Ok(mut part) => rows.append(&mut part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let stays = |row: &Row| row.known.as_ref().is_some_and(|known| known.glance.verdict != Verdict::DoesNotFit);
    rows.retain(|row| !fits || stays(row));
    rows
}

fn row(item: &Item, ready: &Ready, quant: Option<FileType>) -> Row {
    let (name, source) = match item {
        Item::Stored(entry) => (entry.name.clone(), entry.store.name()),
        Item::BuiltIn(entry) => (entry.name.clone(), "catalogue"),
    };
    let known = match item {
        Item::Stored(entry) => stored(entry, quant),
        Item::BuiltIn(entry) => entry
            .model(quant.unwrap_or(entry.quantisation))
            .map(|model| (model, Bytes::ZERO))
            .map_err(|error| error.to_string()),
    }
    .and_then(|(model, adapters)| known(&model, ready, adapters));
    match known {
        Ok(known) => Row { name, source, known: Some(known), error: None },
        Err(reason) => Row { name, source, known: None, error: Some(reason) },
    }
}

/// The model of a store, and the bytes of its adapters.
fn stored(entry: &store::Entry, quant: Option<FileType>) -> Result<(Model, Bytes), String> {
    let State::Whole { adapters, .. } = &entry.state else {
        let State::Broken(reason) = &entry.state else { return Err("nothing is known of it".to_owned()) };
        return Err(reason.clone());
    };
    let opened = source::open(&entry.path, &mut source::unwatched).map_err(|error| error.to_string())?;
    let opened = source::Opened { adapters: adapters.clone(), ..opened };
    let adapters = opened.adapter_bytes(&mut source::unwatched).map_err(|error| error.to_string())?;
    let model = Model::from_header(opened.header, &opened.name).map_err(|error| error.to_string())?;
    match quant {
        Some(quant) => model.quantised(quant).map(|model| (model, adapters)).map_err(|error| error.to_string()),
        None => Ok((model, adapters)),
    }
}

fn known(model: &Model, ready: &Ready, adapters: Bytes) -> Result<Known, String> {
    Ok(Known {
        title: model.name.clone(),
        architecture: model.architecture.clone(),
        parameters: model.parameters,
        file_type: model.file_type,
        bytes: model.bytes,
        context_train: model.hyper.context_train,
        glance: ready.glance(model, adapters).map_err(|error| error.to_string())?,
    })
}

#[derive(Serialize)]
struct Object<'a> {
    plimsoll: &'static str,
    engine: &'static str,
    models: &'a [Row],
    notes: &'a [String],
}

/// The list as one object.
pub(super) fn json(ready: &Ready, rows: &[Row]) -> serde_json::Result<String> {
    let (plimsoll, engine) = (env!("CARGO_PKG_VERSION"), ready.engine.name());
    serde_json::to_string_pretty(&Object { plimsoll, engine, models: rows, notes: &ready.notes })
}

/// Columns of everything but the name.
const FIGURES: usize = 50;

/// The list as a table.
pub(super) fn text(ready: &Ready, rows: &[Row], style: &Style) -> String {
    let width = style.width - FIGURES;
    let head = format!(
        "{:<width$}{:>6} {:<8}{:>9}{:>6} {:<12}{:>7}",
        "Models", "params", "", "size", "ctx", "verdict", "fits"
    );
    let mut out = format!("{}\n", style.paint(Ink::Strong, head.trim_end()));
    let mut of = "";
    for row in rows {
        if row.source != of {
            of = row.source;
            out += &format!("{}\n", style.paint(Ink::Faint, of));
        }
        out += &line(row, width, style);
    }
    let gpus: Vec<_> = ready.machine.gpus.iter().map(|gpu| one_line(&gpu.name)).collect();
    let machine = if gpus.is_empty() { "no GPU".to_owned() } else { gpus.join(", ") };
    let (count, engine, ram) = (rows.len(), ready.engine.title(), ready.machine.ram.total);
    out.push('\n');
    out += &style.wrap("", &format!("{count} models for {engine} on {machine} with {ram} of RAM."));
    out += &style.wrap(
        "",
        "ctx: the context that the model was trained for. fits: the largest context with every layer on GPUs, or in \
         brackets the largest with layers in RAM.",
    );
    out.extend(ready.notes.iter().map(|note| style.wrap("- ", &one_line(note))));
    out
}

fn line(row: &Row, width: usize, style: &Style) -> String {
    let name = one_line(&row.name);
    let Some(known) = &row.known else {
        let reason = one_line(row.error.as_deref().unwrap_or_default());
        return style.wrap(&format!("{name:<width$} "), &reason);
    };
    let Known { glance, .. } = known;
    let fits = match (glance.context_on_gpu, glance.context_fits) {
        (Some(tokens), _) => short(tokens),
        (None, Some(tokens)) => format!("({})", short(tokens)),
        (None, None) => "–".to_owned(),
    };
    let (ink, word) = match glance.verdict {
        Verdict::Gpu => (Ink::Graph, verdict::headline(Verdict::Gpu).to_owned()),
        Verdict::Split => (Ink::Cache, format!("{} {}", verdict::headline(Verdict::Split), glance.on_gpu)),
        other @ Verdict::Cpu => (Ink::Cache, verdict::headline(other).to_owned()),
        other @ Verdict::DoesNotFit => (Ink::Over, verdict::headline(other).to_owned()),
    };
    let size = known.bytes.to_string();
    format!(
        "{name:<width$}{:>6} {:<8}{size:>9}{:>6} {}{fits:>7}\n",
        weights(known.parameters),
        known.file_type.unwrap_or("?"),
        known.context_train.map_or_else(|| "?".to_owned(), short),
        style.paint(ink, &format!("{word:<12}")),
    )
}

/// A number of weights in three digits or so: `8.0 B`.
fn weights(parameters: u64) -> String {
    match parameters as f64 {
        small @ ..999.5e6 => format!("{:.0} M", small / 1e6),
        middle @ ..99.95e9 => format!("{:.1} B", middle / 1e9),
        large => format!("{:.0} B", large / 1e9),
    }
}

/// A number of tokens, cut off: `128k`.
fn short(tokens: u64) -> String {
    match tokens {
        0..1024 => tokens.to_string(),
        1024..0x0010_0000 => format!("{}k", tokens / 1024),
        _ => format!("{}M", tokens >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([22_000_000, 8_030_000_000, 671_000_000_000].map(weights), ["22 M", "8.0 B", "671 B"]);
        assert_eq!([512, 8192, 131_072, 1_048_576].map(short), ["512", "8k", "128k", "1M"]);
    }
}
