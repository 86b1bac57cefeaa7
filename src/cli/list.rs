//! `plimsoll list`: the models on this machine and in the catalogue, and how each would fit.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, mpsc};
use std::thread;
use std::thread::Scope;
use std::time::{Duration, Instant};

use serde::Serialize;
use textwrap::core::display_width;

use super::error::one_line;
use super::resolve::ResolvedArgs;
use super::style::Style;
use crate::answer::FitSummary;
use crate::answer::best::Floors;
use crate::engine::EngineVersion;
use crate::library;
use crate::library::{Item, ModelFilter, ModelStatus, SurveyRequest};
use crate::model::Modalities;
use crate::model::mixture::Quantisation;
use crate::page::{Hue, Page, Span};
use crate::plan::{Confidence, Outcome, Plan};
use crate::settings::{Context, Release};
use crate::source::{Progress, Roots};
use crate::units::{Bytes, Tokens, parameters, short};

/// Timeout for listing the models of a running Ollama.
const OLLAMA_TIMEOUT: Duration = Duration::from_secs(3);

/// A model of the list.
#[derive(Debug, Serialize)]
pub(super) struct ListRow {
    /// Name of the model.
    name: String,
    /// The reference that opens it.
    reference: String,
    /// Where it comes from: a store on this machine, a running Ollama, or the catalogue.
    source: &'static str,
    /// Which conversion it is, of a model of the catalogue that is listed in two.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversion: Option<String>,
    /// Whether that is the older one.
    #[serde(skip)]
    older: bool,
    #[serde(flatten)]
    known: Option<ListedModel>,
    /// Why it has no plan.
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct ListedModel {
    title: String,
    architecture: String,
    parameters: u64,
    active_parameters: u64,
    experts: Option<u64>,
    file_type: Option<String>,
    bytes: Bytes,
    context_train: Option<u64>,
    #[serde(flatten)]
    modalities: Modalities,
    /// The context that it is judged by, in tokens per sequence.
    ctx: u64,
    confidence: Confidence,
    #[serde(skip)]
    plan: Arc<Plan>,
    #[serde(flatten)]
    fit: FitSummary,
    /// Whether the model was trained for the context that is needed; none if no context was named.
    trained_for_need: Option<bool>,
}

impl ListedModel {
    fn is_trained_for_less(&self) -> bool {
        self.trained_for_need == Some(false)
    }
}

/// Which models to list.
pub(super) struct Wanted<'a> {
    /// All of these are part of a model's name.
    pub words: &'a [String],
    /// Limits; a model that cannot be planned is listed without any.
    pub filter: ModelFilter,
    /// The quantisation to plan in, instead of each model's best.
    pub quant: Option<Quantisation>,
    /// The narrowest types that are chosen.
    pub floors: Floors,
}

/// The models that are `wanted`, those on this machine first. Calls `report` with each row in order, as soon as it is
/// planned, and stops when that returns false.
pub(super) fn rows(
    ready: &mut ResolvedArgs,
    wanted: &Wanted<'_>,
    report: &mut dyn FnMut(&ListRow) -> bool,
) -> Vec<ListRow> {
    let roots = Roots::of_this_machine();
    let (quant, filter) = (wanted.quant, &wanted.filter);
    let (request, need) = (ready.survey_request(quant, wanted.floors), needed(ready));
    let items = library::local_models(&roots, quant).into_iter().filter(|item| item.is_named(wanted.words));
    let items: Vec<_> = items.map(Arc::new).collect();
    let (here, built_in): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| item.origin.is_here());
    let mut rows = Vec::new();
    let mut take = |mut row: ListRow| {
        if let Some(known) = &mut row.known {
            known.trained_for_need = need.map(|tokens| known.plan.model.is_trained_for(tokens));
        }
        let kept = match &row.known {
            Some(known) => filter.keeps(&known.plan.model, known.modalities, known.plan.mainly(), need),
            None => !filter.any(),
        };
        let go_on = !kept || report(&row);
        rows.extend(kept.then_some(row));
        go_on
    };
    thread::scope(|scope| {
        let ollama = scope.spawn(|| running(&roots, &here));
        let mut local_rows = Ordered::start(scope, [here.as_slice(), &built_in].concat(), &request, &roots);
        if !local_rows.by_ref().take(here.len()).all(&mut take) {
            return;
        }
        let from_ollama = ollama.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if here.is_empty() && from_ollama.as_ref().map_or(true, Vec::is_empty) {
            ready.notes.push(no_local_models(&roots));
        }
        match from_ollama {
            Ok(mut items) => {
                items.retain(|item| item.is_named(wanted.words));
                if !Ordered::start(scope, items, &request, &roots).all(&mut take) {
                    return;
                }
            }
            Err(why) => ready.notes.push(why),
        }
        local_rows.all(take);
    });
    rows
}

/// The context that every model must have, in tokens.
pub(super) const fn needed(ready: &ResolvedArgs) -> Option<u64> {
    match ready.settings.ctx {
        Context::Tokens(tokens) => Some(tokens),
        Context::Auto | Context::Max => None,
    }
}

/// A note that no model was found on this machine, with the folders searched.
fn no_local_models(roots: &Roots) -> String {
    let folders = [&roots.ollama, &roots.hugging_face, &roots.lm_studio, &roots.llama_cpp];
    let folders: Vec<String> = folders.into_iter().flatten().map(|folder| folder.display().to_string()).collect();
    format!(
        "no models found on this machine in {}; OLLAMA_MODELS, HF_HOME and LLAMA_CACHE name other folders, and \
         'plimsoll plan PATH' opens any file",
        folders.join(", ")
    )
}

fn running(roots: &Roots, known: &[Arc<Item>]) -> Result<Vec<Arc<Item>>, String> {
    let names: Vec<String> = known.iter().map(|item| item.name.clone()).collect();
    let since = Instant::now();
    let mut watch = |_: Progress| {
        if since.elapsed() < OLLAMA_TIMEOUT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    library::running(roots, &names, &mut watch).map(|items| items.into_iter().map(Arc::new).collect())
}

fn row(item: &Item, status: ModelStatus) -> ListRow {
    let mut reference = item.reference.clone();
    let (known, error) = match status {
        ModelStatus::Complete(plan, fit) => {
            let model = plan.model.clone();
            reference = item.reference_in(Some(&plan));
            let known = ListedModel {
                title: model.name,
                architecture: model.architecture,
                parameters: model.parameters,
                active_parameters: model.active_parameters,
                experts: model.experts,
                file_type: model.file_type,
                bytes: model.bytes,
                context_train: model.context_train,
                modalities: item.modalities(),
                ctx: plan.settings.ctx,
                confidence: plan.confidence,
                plan,
                fit,
                trained_for_need: None,
            };
            (Some(known), None)
        }
        ModelStatus::Failed(reason) => (None, Some(reason)),
        ModelStatus::Pending | ModelStatus::Planned(_) => (None, Some("it was not planned".to_owned())),
    };
    let (conversion, older) = (item.conversion(), item.is_older_conversion());
    ListRow { name: item.name.clone(), reference, source: item.origin.name(), conversion, older, known, error }
}

#[derive(Serialize)]
struct Object<'a> {
    plimsoll: &'static str,
    engine: &'static str,
    release: Option<Release>,
    models: &'a [ListRow],
    notes: &'a [String],
}

/// The list as one JSON object.
pub(super) fn json(ready: &ResolvedArgs, rows: &[ListRow]) -> serde_json::Result<String> {
    let EngineVersion { engine, release } = EngineVersion::of(ready.engine, &ready.settings);
    crate::text::json(&Object {
        plimsoll: env!("CARGO_PKG_VERSION"),
        engine: engine.name(),
        release,
        models: rows,
        notes: &ready.notes,
    })
}

/// Width of all columns but the name and the parameters.
const FIGURES: usize = 53;

/// Width of the column of parameters; where there is room, with the active ones.
fn parameters_width(style: &Style) -> usize {
    if style.width >= 96 { 15 } else { 7 }
}

/// Width of the name column; on a narrow terminal the name is on a line of its own.
fn name_width(style: &Style) -> usize {
    if style.is_narrow() { 4 } else { style.width - FIGURES - parameters_width(style) }
}

/// The first line of the table; `judged` is the context that the user wants models judged by.
pub(super) fn header(judged: Option<u64>, turn: bool, style: &Style) -> String {
    let (width, parameters) = (name_width(style), parameters_width(style));
    let verdict = judged.map_or_else(|| "verdict".to_owned(), |tokens| format!("at {}", short(tokens)));
    let params = if parameters < 15 { "params" } else { "params (active)" };
    let speed = if turn { "turn" } else { "tok/s" };
    let (best, size, context) = ("best", "size", "VRAM ctx");
    let head =
        format!("{:<width$}{params:>parameters$}  {best:<8}{size:>9}{context:>9}{speed:>10}  {verdict}", "Models");
    let mut page = Page::default();
    page.heading(head.trim_end());
    style.report(&page)
}

/// A row of the table, preceded by a heading if its source differs from `last_source`.
pub(super) fn text(row: &ListRow, last_source: &mut &'static str, style: &Style) -> String {
    let mut page = Page::default();
    if row.source != std::mem::replace(last_source, row.source) {
        page.line(vec![Span::new(row.source, Hue::Dim)]);
    }
    line(row, name_width(style), style, &mut page);
    style.report(&page)
}

/// Explanations below the table.
pub(super) fn footer(ready: &ResolvedArgs, wanted: &Wanted<'_>, rows: &[ListRow], style: &Style) -> String {
    let gpus: Vec<_> = ready.machine.gpus.iter().map(|gpu| one_line(&gpu.name)).collect();
    let machine = if gpus.is_empty() { "no GPU".to_owned() } else { gpus.join(", ") };
    let (count, engine, ram) = (rows.len(), EngineVersion::of(ready.engine, &ready.settings), ready.machine.ram.total);
    let mut page = Page::default();
    page.blank();
    let judged = judged_by(ready, rows);
    page.text(format!("{count} models for {engine} on {machine} with {ram} of RAM. {judged}").trim_end(), Hue::Text);
    page.text(&confidence_sentence(rows), Hue::Text);
    let best = match wanted.quant {
        Some(_) => "",
        None => {
            "best: of the catalogue's models, the quantisation that best calls balanced, with the other knobs as they are. "
        }
    };
    let marked = rows.iter().any(|row| row.known.as_ref().is_some_and(|known| known.modalities.words().is_some()));
    let modalities = if marked {
        " vision, audio (V, A): the model reads images or sounds, and its projector is planned with it."
    } else {
        ""
    };
    page.text(
        &format!(
            "{best}VRAM ctx: the largest context with all in VRAM, or in brackets with layers in RAM. experts, parts: all \
             layers are assigned to GPU, but experts or other parts of them run from RAM; the share is of all memory on \
             GPU. tok/s: modelled, with an empty cache.{modalities}"
        ),
        Hue::Text,
    );
    let older = rows.iter().filter(|row| row.older);
    let older = older.filter_map(|row| Some(format!("{}: {}", row.name, row.conversion.as_ref()?)));
    older.chain(ready.notes.iter().cloned()).for_each(|note| page.item(&note));
    style.report(&page)
}

/// A sentence on the context that the models are judged by.
fn judged_by(ready: &ResolvedArgs, rows: &[ListRow]) -> String {
    let contexts = || rows.iter().filter_map(|row| row.known.as_ref()).map(|known| known.ctx);
    let (Some(least), Some(most)) = (contexts().min(), contexts().max()) else { return String::new() };
    let range = if least == most { Tokens(most).to_string() } else { format!("{} to {}", Tokens(least), Tokens(most)) };
    match ready.settings.ctx {
        Context::Tokens(need) => {
            let short =
                rows.iter().filter(|row| row.known.as_ref().is_some_and(ListedModel::is_trained_for_less)).count();
            let short = match short {
                0 => String::new(),
                1 => " One was trained for less and does not count as fitting.".to_owned(),
                many => format!(" {many} were trained for less and do not count as fitting."),
            };
            format!("Judged at {} tokens.{short}", Tokens(need))
        }
        Context::Auto | Context::Max => {
            format!("Judged at the context that each would get, {range} tokens; --need 16k judges by another.")
        }
    }
}

/// A sentence on the confidence of the figures.
fn confidence_sentence(rows: &[ListRow]) -> String {
    let of = |confidence: Confidence| {
        let known = |row: &&ListRow| row.known.as_ref().is_some_and(|known| known.confidence == confidence);
        rows.iter().filter(known).map(|row| one_line(&row.name)).collect::<Vec<_>>()
    };
    let mut sentence = format!("Figures are exact for {} of them.", of(Confidence::Exact).len());
    for confidence in [Confidence::Modelled, Confidence::Assumed] {
        let names = of(confidence);
        if !names.is_empty() {
            sentence += &format!(" They are {confidence} for {}.", names.join(", "));
        }
    }
    sentence
}

fn line(row: &ListRow, width: usize, style: &Style, page: &mut Page) {
    let mut name = one_line(&row.name);
    let Some(known) = &row.known else {
        let first = beside(&name, width, style, page) + " ";
        page.spans(&first, vec![row.error.as_deref().unwrap_or_default().into()]);
        return;
    };
    if let Some((words, letters)) = known.modalities.words() {
        let room = if style.is_narrow() { style.width } else { width }.saturating_sub(display_width(&name) + 1);
        name = format!("{name} {}", if words.len() < room { words } else { letters });
    }
    let ListedModel { fit, .. } = known;
    let fits = match (fit.context_in_vram, fit.context_fits) {
        (Some(tokens), _) => short(tokens),
        (None, Some(tokens)) => format!("({})", short(tokens)),
        (None, None) => "–".to_owned(),
    };
    let outcome = fit.outcome;
    let (word, hue) = match outcome {
        _ if known.is_trained_for_less() => {
            (format!("trained {}", known.context_train.map_or_else(String::new, short)), Hue::Over)
        }
        Outcome::LayersInRam | Outcome::ExpertsInRam | Outcome::PartsInRam => {
            (format!("{} {}", known.plan.in_ram_short(), fit.on_gpu), Hue::of(outcome))
        }
        _ => (outcome.short().to_owned(), Hue::of(outcome)),
    };
    let parameters_width = parameters_width(style);
    let model = &known.plan.model;
    let count = if parameters_width < 15 { parameters(model.parameters) } else { model.parameters_text() };
    let speed = match (&fit.turn, &fit.speed) {
        (Some(turn), _) => turn.last.to_string(),
        (None, Some(speed)) if !fit.turn_asked => speed.range().to_string(),
        (None, _) => "–".to_owned(),
    };
    let (size, quantisation) = (known.bytes.to_string(), known.file_type.as_deref().unwrap_or("?"));
    // a space before each figure that no width takes away
    let figures = format!("{quantisation:<8} {size:>8} {fits:>8} {speed:>9}  ");
    let count = format!("{count:>parameters_width$}");
    let indent = count.len() - count.trim_start().len();
    let name = beside(&name, width + indent, style, page);
    page.line(vec![format!("{name}{}  {figures}", &count[indent..]).into(), Span::new(&word, hue)]);
}

/// `name` in a column of `width`; if that leaves no space behind it, on a line of its own and the column is blank.
fn beside(name: &str, width: usize, style: &Style, page: &mut Page) -> String {
    let cells = display_width(name);
    if style.is_narrow() || cells >= width {
        page.line(vec![name.into()]);
        return " ".repeat(width);
    }
    format!("{name}{}", " ".repeat(width - cells))
}

/// Iterator over rows planned on other threads, in the order of the models.
struct Ordered {
    items: std::vec::IntoIter<Arc<Item>>,
    results: Receiver<(usize, ModelStatus)>,
    /// Results received before their turn.
    early: BTreeMap<usize, ModelStatus>,
    turn: usize,
}

impl Ordered {
    /// Starts to plan `items`; stops when the iterator is dropped.
    fn start<'s>(
        scope: &'s Scope<'s, '_>,
        items: Vec<Arc<Item>>,
        request: &'s SurveyRequest,
        roots: &'s Roots,
    ) -> Self {
        let (sender, results) = mpsc::channel();
        let to_plan = items.clone();
        scope.spawn(move || {
            library::inspect(&to_plan, request, roots, &|index, status| sender.send((index, status)).is_ok());
        });
        Self { items: items.into_iter(), results, early: BTreeMap::new(), turn: 0 }
    }
}

impl Iterator for Ordered {
    type Item = ListRow;

    fn next(&mut self) -> Option<ListRow> {
        let item = self.items.next()?;
        let status = loop {
            if let Some(status) = self.early.remove(&self.turn) {
                break status;
            }
            // threads may finish out of order
            match self.results.recv() {
                Ok((index, status)) => drop(self.early.insert(index, status)),
                Err(_) => break ModelStatus::Pending,
            }
        };
        self.turn += 1;
        Some(row(&item, status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_figures_never_touch() {
        let at = |name: &str, width: usize| {
            let mut page = Page::default();
            let row = beside(name, width, &Style::PLAIN, &mut page) + "7.6 B";
            page.line(vec![row.into()]);
            Style::PLAIN.report(&page)
        };
        assert_eq!(at("qwen", 6), "qwen  7.6 B\n");
        assert_eq!(at("qwen2", 6), "qwen2 7.6 B\n");
        assert_eq!(at("qwen25", 6), "qwen25\n      7.6 B\n", "a name that fills the column");
        assert_eq!(at("六四五", 7), "六四五 7.6 B\n", "by cells, not by letters");
    }
}

#[cfg(test)]
mod ordered_tests {
    use std::thread;

    use super::*;
    use crate::engine::EngineId;
    use crate::machine::{Machine, Origin, Os, Ram};
    use crate::settings::Settings;
    use crate::source::{ExplicitKnobs, catalogue};
    use crate::units::Bytes;

    #[test]
    fn rows_are_in_order_even_if_later_models_are_planned_first() {
        // the first, with 405 billion weights, takes longer to plan than the two after it
        let entries = catalogue::all().iter().skip(2).take(3);
        let items: Vec<_> = entries.map(|entry| Arc::new(Item::built_in(entry, None))).collect();
        let names: Vec<_> = items.iter().map(|item| item.name.clone()).collect();
        let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO, bandwidth: None };
        let machine = Machine {
            disk: None,
            os: Os::Linux,
            cpu: crate::machine::Cpu::default(),
            gpus: Vec::new(),
            ram,
            origin: Origin::Described,
            drivers: crate::machine::Drivers::default(),
        };
        let request = SurveyRequest {
            engine: EngineId::Ollama024,
            machine: Arc::new(machine),
            settings: Settings::default(),
            held: ExplicitKnobs::default(),
            quant: None,
            floors: Floors::default(),
        };
        let roots = Roots::default();
        let rows: Vec<_> = thread::scope(|scope| Ordered::start(scope, items, &request, &roots).collect());
        assert_eq!(rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>(), names);
        assert!(rows.iter().all(|row| row.known.is_some()), "{rows:?}");
    }
}
