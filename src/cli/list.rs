//! `plimsoll list`: the models on this machine and in the catalogue, and how each would fit.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use textwrap::core::display_width;

use super::args::ListArgs;
use super::error::{self, CliError, one_line};
use super::out::print;
use super::resolve::{ParsedArgs, ResolvedArgs};
use super::status_line::{ProgressLine, Working};
use super::style::Style;
use crate::answer::FitSummary;
use crate::answer::best::Minimums;
use crate::catalogue::{Place, Use};
use crate::engine::{EngineId, EngineVersion};
use crate::export::{AnswerSource, csv};
use crate::library;
use crate::library::{Item, ModelFilter, ModelOrigin, ModelStatus, SortBy, Standing, SurveyRequest};
use crate::model::mixture::Quantisation;
use crate::model::{MissingProjector, Modalities};
use crate::page::{Hue, Page, Span};
use crate::plan::{Confidence, Outcome, Plan, Verdict};
use crate::settings::{Context, Flag, Turn};
use crate::source::{self, Progress, Roots, SourceError};
use crate::speed::turn::TurnTime;
use crate::speed::{Speed, SpeedRange};
use crate::units::{Bytes, Ratio, Tokens, parameters, short};

/// Prints the list.
pub(super) fn run(args: &ListArgs) -> Result<(), CliError> {
    let mut parsed = ParsedArgs::read(&args.knobs, &args.machine)?;
    // --ctx is such a context too
    let preferred =
        parsed.config.preferences.need.filter(|_| !args.knobs.settings.is_given(Flag::Context)).map(Context::Tokens);
    parsed.judge_by(args.need.or(preferred));
    let mut ready = parsed.complete();
    let roots = Roots::of_this_machine();
    let (repositories, words): (Vec<String>, Vec<String>) =
        args.words.iter().cloned().partition(|word| source::can_be_listed(word, &roots));
    let (typed, words) = ModelFilter::typed(&words.join(" "));
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let filter = ModelFilter {
        experts: args.moe.then_some(true).or(args.dense.then_some(false)).or(typed.experts),
        min: args.min.or(typed.min),
        max: args.max.or(typed.max),
        fits: args.fits,
        reads: Modalities { vision: args.vision || typed.reads.vision, audio: args.audio || typed.reads.audio },
        uses: typed.uses,
        min_speed: args.min_tps,
    };
    let wanted = Wanted {
        repositories: &repositories,
        words: &words,
        filter,
        quant: args.knobs.settings.quant,
        minimums: args.minimums.over(ready.config.preferences.minimums),
        sort: args.sort,
        limit: args.limit,
    };
    let rows = rows(&mut ready, &wanted)?;
    if args.json {
        return print(&error::json("models", json(&ready, &rows))?);
    }
    if args.csv {
        return print(&csv(&rows));
    }
    if rows.is_empty() {
        return print(&format!("{}\n", nothing_listed(&wanted)));
    }
    let (style, mut last_source) = (Style::of_stdout(), "");
    let mut listed = header(needed(&ready), Turn::asked(&ready.settings).is_some(), &style);
    for row in &rows {
        listed += &text(row, &mut last_source, &style);
    }
    listed += &footer(&ready, &rows, &style);
    print(&listed)
}

/// Why nothing is listed, and what may have been meant.
fn nothing_listed(wanted: &Wanted<'_>) -> String {
    let words = wanted.words.join(" ");
    let named = if words.is_empty() { String::new() } else { format!(" named '{}'", one_line(&words)) };
    let limited = if wanted.filter.any() { " within these limits" } else { "" };
    let meant: Vec<&str> = wanted.words.iter().filter_map(|word| library::meant(word)).collect();
    let meant = if meant.is_empty() { String::new() } else { format!(" Did you mean {}?", meant.join(" ")) };
    format!("There is no model{named}{limited}.{meant}")
}

/// Timeout for listing the models of a running Ollama.
const OLLAMA_TIMEOUT: Duration = Duration::from_secs(3);

/// A model of the list.
#[derive(Debug)]
pub(super) struct ListRow {
    item: Arc<Item>,
    /// The reference that opens it.
    reference: String,
    /// What to type to have it or to run it.
    pull: Option<String>,
    /// Of a model of the catalogue, where it can be had so.
    place: Option<Place>,
    /// Its plan, or why it has none.
    planned: Result<ListedModel, String>,
}

#[derive(Debug)]
struct ListedModel {
    plan: Arc<Plan>,
    fit: FitSummary,
    /// Whether the model was trained for the context that is needed; none if no context was named.
    /// Whether it was trained for the context that is needed; null if none was named.
    trained_for_need: Option<bool>,
}

impl ListedModel {
    /// What it writes, or reads where it writes nothing, in a second; or how long the turn takes that was asked for.
    fn speed(&self, cells: usize) -> String {
        match &self.fit {
            FitSummary { turn: Some(turn), .. } => turn.last.to_string(),
            FitSummary { turn_asked: true, .. } => "–".to_owned(),
            fit => fit.pace(cells).unwrap_or_else(|| "–".to_owned()),
        }
    }

    fn is_trained_for_less(&self) -> bool {
        self.trained_for_need == Some(false)
    }
}

/// Which models to list, and how.
pub(super) struct Wanted<'a> {
    /// List these repositories on Hugging Face and folders of original weights, instead of all models that are known.
    pub repositories: &'a [String],
    /// All of these are part of a model's name.
    pub words: &'a [String],
    /// Limits; a model that cannot be planned is listed without any.
    pub filter: ModelFilter,
    /// The quantisation to plan in, instead of each model's best.
    pub quant: Option<Quantisation>,
    /// The narrowest types that are chosen.
    pub minimums: Minimums,
    /// The order, among those of one source.
    pub sort: SortBy,
    /// The most that are listed.
    pub limit: Option<usize>,
}

/// The models that are `wanted`: those of the repositories, or those on this machine and then all others.
///
/// # Errors
/// If a repository cannot be listed.
pub(super) fn rows(ready: &mut ResolvedArgs, wanted: &Wanted<'_>) -> Result<Vec<ListRow>, SourceError> {
    let roots = Roots::of_this_machine();
    let request = ready.survey_request(wanted.quant, wanted.minimums);
    let rows = if wanted.repositories.is_empty() {
        everywhere(ready, wanted, &request, &roots)
    } else {
        let mut items = Vec::new();
        for repository in wanted.repositories {
            let mut line = ProgressLine::on_stderr();
            let listed =
                library::repository(repository, &roots, (ready.engine, wanted.quant), &mut |progress: Progress| {
                    line.show(progress)
                })?;
            ready.notes.extend(listed.notes);
            items.extend(listed.items.into_iter().filter(|item| item.is_named(wanted.words)));
        }
        planned(&items, &request, &roots)
    };
    Ok(kept(rows, needed(ready), wanted))
}

/// The models that are known, without limits.
fn everywhere(ready: &mut ResolvedArgs, wanted: &Wanted<'_>, request: &SurveyRequest, roots: &Roots) -> Vec<ListRow> {
    let items = library::local_models(roots, wanted.quant).into_iter().filter(|item| item.is_named(wanted.words));
    let items: Vec<_> = items.map(Arc::new).collect();
    let here: Vec<_> = items.iter().filter(|item| item.origin.is_here()).cloned().collect();
    let (mut rows, from_ollama) = thread::scope(|scope| {
        let ollama = scope.spawn(|| running(roots, &here));
        let rows = planned(&items, request, roots);
        (rows, ollama.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    if here.is_empty() && from_ollama.as_ref().map_or(true, Vec::is_empty) {
        ready.notes.push(no_local_models(roots));
    }
    match from_ollama {
        Ok(mut items) => {
            items.retain(|item| item.is_named(wanted.words));
            rows.extend(planned(&items, request, roots));
        }
        Err(why) => ready.notes.push(why),
    }
    rows
}

/// Those of `rows` that are wanted, in order.
fn kept(mut rows: Vec<ListRow>, need: Option<u64>, wanted: &Wanted<'_>) -> Vec<ListRow> {
    rows.retain_mut(|row| match &mut row.planned {
        Ok(known) => {
            known.trained_for_need = need.map(|tokens| known.plan.model.is_trained_for(tokens));
            wanted.filter.keeps(&row.item, &known.plan, Some(&known.fit), need)
        }
        Err(_) => !wanted.filter.any(),
    });
    sorted(rows, wanted)
}

/// `rows` by source, and of one source in the order that is wanted.
fn sorted(rows: Vec<ListRow>, wanted: &Wanted<'_>) -> Vec<ListRow> {
    let place = |row: &ListRow| match row.item.origin {
        ModelOrigin::Catalogue => 2,
        ModelOrigin::Running => 1,
        ModelOrigin::Recent | ModelOrigin::Store(_) | ModelOrigin::Repository | ModelOrigin::Folder => 0,
    };
    let mut rows: Vec<(Standing, ListRow)> = rows.into_iter().map(|row| (row.standing(), row)).collect();
    let known = |row: &ListRow, of: &dyn Fn(&ListedModel) -> u64| row.planned.as_ref().map_or(0, of);
    rows.sort_by(|(a_stands, a), (b_stands, b)| {
        let most = |of: &dyn Fn(&ListedModel) -> u64| known(b, of).cmp(&known(a, of));
        let order = match wanted.sort {
            SortBy::Best => Ordering::Equal,
            SortBy::Name => a.item.name.to_lowercase().cmp(&b.item.name.to_lowercase()),
            SortBy::Released => b.released().cmp(&a.released()),
            SortBy::Parameters => most(&|known| known.plan.model.parameters),
            SortBy::Size => most(&|known| known.plan.model.bytes.0),
            SortBy::Context => most(&|known| known.fit.context().unwrap_or(0)),
            SortBy::Speed => b_stands.speed().total_cmp(&a_stands.speed()),
        };
        place(a).cmp(&place(b)).then(order).then_with(|| a_stands.compare(b_stands))
    });
    rows.into_iter().map(|(_, row)| row).take(wanted.limit.unwrap_or(usize::MAX)).collect()
}

/// Plans `items` on all cores.
fn planned(items: &[Arc<Item>], request: &SurveyRequest, roots: &Roots) -> Vec<ListRow> {
    let statuses: Vec<OnceLock<ModelStatus>> = items.iter().map(|_| OnceLock::new()).collect();
    let working = Working::on_stderr("planning models", Some(items.len()));
    library::survey(items, request, roots, &|index, status| {
        working.count();
        statuses.get(index).is_some_and(|slot| slot.set(status).is_ok())
    });
    let status = |slot: OnceLock<ModelStatus>| slot.into_inner().unwrap_or(ModelStatus::Pending);
    items.iter().zip(statuses).map(|(item, slot)| ListRow::of(item, status(slot))).collect()
}

impl ListRow {
    /// That llama.cpp would refuse the file, and why.
    fn refused(&self) -> Option<&str> {
        let mut reasons = self.planned.as_ref().ok()?.plan.uncertainties.iter();
        reasons.find(|reason| reason.is_refusal()).map(|reason| reason.reason.as_str())
    }

    fn of(item: &Arc<Item>, status: ModelStatus) -> Self {
        let planned = match status {
            ModelStatus::Complete(plan, fit) => Ok(ListedModel { plan, fit, trained_for_need: None }),
            ModelStatus::Failed(reason) => Err(reason),
            ModelStatus::Pending => Err("it was not planned".to_owned()),
        };
        let plan = planned.as_ref().ok().map(|known| &*known.plan);
        let (reference, pull, place) = (item.reference_in(plan), item.pull(plan), item.place(plan));
        Self { item: Arc::clone(item), reference, pull, place, planned }
    }

    fn standing(&self) -> Standing {
        let known = self.planned.as_ref().ok();
        Standing::of(&self.item, known.map(|known| &*known.plan), known.map(|known| &known.fit))
    }

    /// Whether no place is known that has it so.
    fn is_to_be_made(&self) -> bool {
        self.item.is_to_be_made(self.planned.as_ref().ok().map(|known| &*known.plan))
    }

    /// Whether it is planned for another engine than the list, as that does not run its files.
    fn is_of_another_engine(&self, engine: EngineId) -> bool {
        self.planned.as_ref().is_ok_and(|known| known.plan.engine != engine)
    }

    fn released(&self) -> Option<&'static str> {
        self.item.entry()?.released.as_deref()
    }
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

/// A model.
#[derive(JsonSchema, Serialize)]
struct Record<'a> {
    name: &'a str,
    /// The reference that opens it.
    reference: &'a str,
    /// Where it comes from: a store on this machine, a running Ollama, huggingface.co, a folder, or the catalogue.
    source: &'static str,
    /// What to type to have it, or to run it where it is here; null if no place is known that has it so.
    pull: Option<&'a str>,
    /// Of a model of the catalogue, the tag in Ollama's library, or the repository on Hugging Face with the file's quantisation
    /// there, that has it so; null if none is known, and of other models.
    place: Option<&'a Place>,
    /// Whether it is of the catalogue and no place is known that has it so, or of original weights: it is converted and
    /// quantised first.
    to_be_made: bool,
    /// When it was published.
    released: Option<&'static str>,
    /// What it is for; null outside the catalogue.
    #[serde(rename = "for")]
    uses: Option<&'static [Use]>,
    /// Of a model that is listed in two conversions, which one this is; null of others.
    conversion: Option<String>,
    /// Its own name, by its header.
    title: Option<&'a str>,
    architecture: Option<&'a str>,
    parameters: Option<u64>,
    /// Those that a token reads: of the experts, as many as are used; no tables of which it looks up a row, unless they are
    /// the output layer too; no blocks that predict further tokens.
    active_parameters: Option<u64>,
    experts: Option<u64>,
    file_type: Option<&'a str>,
    bytes: Option<Bytes>,
    context_train: Option<u64>,
    vision: Option<bool>,
    audio: Option<bool>,
    /// The projector that it lacks to read more than text.
    missing_projector: Option<MissingProjector>,
    /// The context that it is judged by.
    ctx: Option<u64>,
    /// The engine that it is planned for: the list's, or MLX where only that runs its files.
    engine: Option<&'static str>,
    confidence: Option<Confidence>,
    /// That llama.cpp would refuse the file, and why; null where nothing is known of that.
    refused: Option<&'a str>,
    verdict: Option<Verdict>,
    outcome: Option<Outcome>,
    on_gpu: Option<Ratio>,
    parts_in_ram: Option<Bytes>,
    /// The largest context with all in VRAM.
    context_in_vram: Option<u64>,
    /// The largest context in RAM, on a machine without GPUs.
    context_in_ram: Option<u64>,
    speed: Option<&'a Speed>,
    /// Tokens that it reads per second, of a model that writes none.
    reading: Option<&'a SpeedRange>,
    turn: Option<&'a TurnTime>,
    trained_for_need: Option<bool>,
    /// Why it cannot be planned; then its figures are null.
    error: Option<&'a str>,
}

impl<'a> From<&'a ListRow> for Record<'a> {
    fn from(row: &'a ListRow) -> Self {
        let ListRow { item, reference, pull, place, planned } = row;
        let known = planned.as_ref().ok();
        let (model, fit) = (known.map(|known| &known.plan.model), known.map(|known| &known.fit));
        let reads = known.map(|_| item.modalities());
        Self {
            name: &item.name,
            reference,
            source: item.origin.name(),
            pull: pull.as_deref(),
            place: place.as_ref(),
            to_be_made: row.is_to_be_made(),
            released: row.released(),
            uses: item.entry().map(|entry| entry.uses.as_slice()),
            conversion: item.conversion(),
            title: model.map(|model| &*model.name),
            architecture: model.map(|model| &*model.architecture),
            parameters: model.map(|model| model.parameters),
            active_parameters: model.map(|model| model.active_parameters),
            experts: model.and_then(|model| model.experts),
            file_type: model.and_then(|model| model.file_type.as_deref()),
            bytes: model.map(|model| model.bytes),
            context_train: model.and_then(|model| model.context_train),
            vision: reads.map(|reads| reads.vision),
            audio: reads.map(|reads| reads.audio),
            missing_projector: item.missing_projector(),
            ctx: known.map(|known| known.plan.settings.ctx),
            engine: known.map(|known| known.plan.engine.name()),
            confidence: known.map(|known| known.plan.confidence),
            refused: row.refused(),
            verdict: fit.map(|fit| fit.verdict),
            outcome: fit.map(|fit| fit.outcome),
            on_gpu: fit.map(|fit| fit.on_gpu),
            parts_in_ram: fit.map(|fit| fit.parts_in_ram),
            context_in_vram: fit.and_then(|fit| fit.context_in_vram),
            context_in_ram: fit.and_then(|fit| fit.context_in_ram),
            speed: fit.and_then(|fit| fit.speed.as_deref()),
            reading: fit.and_then(|fit| fit.reading.as_deref()),
            turn: fit.and_then(|fit| fit.turn.as_deref()),
            trained_for_need: known.and_then(|known| known.trained_for_need),
            error: planned.as_ref().err().map(String::as_str),
        }
    }
}

/// Models, and how each would fit.
#[derive(JsonSchema, Serialize)]
pub(super) struct ListAnswer<'a> {
    #[serde(flatten)]
    head: AnswerSource,
    models: Vec<Record<'a>>,
    /// What else there is to say, one sentence each.
    notes: &'a [String],
}

/// The list as one JSON object.
pub(super) fn json(ready: &ResolvedArgs, rows: &[ListRow]) -> serde_json::Result<String> {
    crate::text::json(&ListAnswer {
        head: AnswerSource::of_engine(ready.engine, &ready.settings, None),
        models: rows.iter().map(Record::from).collect(),
        notes: &ready.notes,
    })
}

/// The list as comma-separated values; what is not known is empty.
pub(super) fn csv(rows: &[ListRow]) -> String {
    let columns = [
        "name",
        "reference",
        "source",
        "released",
        "parameters",
        "active_parameters",
        "file_type",
        "bytes",
        "context_train",
        "ctx",
        "outcome",
        "context_in_vram",
        "tokens_per_second",
        "pull",
        "tag",
        "repository",
        "file",
        "to_be_made",
    ];
    let row = |row: &ListRow| {
        let record = Record::from(row);
        let (tag, repository, file) = match record.place {
            Some(Place::Ollama { tag }) => (Some(tag), None, None),
            Some(Place::HuggingFace { repository, file }) => (None, Some(repository), Some(file)),
            None => (None, None, None),
        };
        [
            record.name.to_owned(),
            record.reference.to_owned(),
            record.source.to_owned(),
            csv::cell(record.released),
            csv::cell(record.parameters),
            csv::cell(record.active_parameters),
            csv::cell(record.file_type),
            csv::cell(record.bytes.map(|bytes| bytes.0)),
            csv::cell(record.context_train),
            csv::cell(record.ctx),
            csv::cell(record.outcome.map(Outcome::name)),
            csv::cell(record.context_in_vram),
            csv::cell(record.speed.map(|speed| format!("{:.2}", speed.tokens_per_second))),
            csv::cell(record.pull),
            csv::cell(tag),
            csv::cell(repository),
            csv::cell(file),
            record.to_be_made.to_string(),
        ]
    };
    csv::table(columns, rows.iter().map(row))
}

/// Width of all columns but the name, the parameters and the speed.
const FIGURES: usize = 44;

/// Width of the column of speeds; where there is room, with the ends of the range.
fn speed_width(style: &Style) -> usize {
    if style.width >= 96 { 14 } else { 9 }
}

/// Width of the column of parameters; where there is room, with the active ones.
fn parameters_width(style: &Style) -> usize {
    if style.width >= 96 { 15 } else { 7 }
}

/// Width of the name column; on a narrow terminal the name is on a line of its own.
fn name_width(style: &Style) -> usize {
    if style.is_narrow() {
        return 4;
    }
    style.width.min(WIDEST) - FIGURES - parameters_width(style) - speed_width(style)
}

/// The widest table without what to type.
const WIDEST: usize = 109;

/// Whether there is room for what to type at the end of a row.
const fn shows_pull(style: &Style) -> bool {
    style.width >= WIDEST + 32
}

/// The first line of the table; `judged` is the context that the user wants models judged by.
pub(super) fn header(judged: Option<u64>, turn: bool, style: &Style) -> String {
    let (width, parameters) = (name_width(style), parameters_width(style));
    let verdict = judged.map_or_else(|| "verdict".to_owned(), |tokens| format!("at {}", short(tokens)));
    let params = if parameters < 15 { "params" } else { "params (active)" };
    let at = |tokens: u64| {
        if speed_width(style) > 9 {
            format!("≈ tok/s at {}", short(tokens))
        } else {
            format!("≈ at {}", short(tokens))
        }
    };
    let speed = match judged {
        _ if turn => "turn".to_owned(),
        Some(tokens) => at(tokens),
        None if speed_width(style) > 9 => "≈ tok/s, empty".to_owned(),
        None => "≈ tok/s".to_owned(),
    };
    let (best, size, context, speeds) = ("best", "size", "VRAM ctx", speed_width(style) + 1);
    let pull = if shows_pull(style) { "to have it" } else { "" };
    let head = format!(
        "{:<width$}{params:>parameters$}  {best:<8}{size:>9}{context:>9}{speed:>speeds$}  {verdict:<14}{pull}",
        "Models"
    );
    let mut page = Page::default();
    page.text(&speeds_sentence(judged, turn), Hue::Dim);
    page.heading(head.trim_end());
    style.report(&page)
}

/// What speeds of the table are for.
fn speeds_sentence(judged: Option<u64>, turn: bool) -> String {
    match judged {
        _ if turn => "Turn: until the last token of the turn that was asked for.".to_owned(),
        Some(tokens) => {
            format!("Speeds are modelled, in tokens per second with {} tokens in the cache.", Tokens(tokens))
        }
        None => {
            "Speeds are modelled, in tokens per second with an empty cache; --need 16k says them for so many tokens \
                 in it."
                .to_owned()
        }
    }
}

/// A row of the table, preceded by a heading if its source differs from `last_source`.
pub(super) fn text(row: &ListRow, last_source: &mut &'static str, style: &Style) -> String {
    let mut page = Page::default();
    let source = row.item.origin.name();
    if source != std::mem::replace(last_source, source) {
        page.line(vec![Span::new(source, Hue::Dim)]);
    }
    line(row, name_width(style), style, &mut page);
    style.report(&page)
}

/// Explanations below the table.
pub(super) fn footer(ready: &ResolvedArgs, rows: &[ListRow], style: &Style) -> String {
    let gpus: Vec<_> = ready.machine.gpus.iter().map(|gpu| one_line(&gpu.name)).collect();
    let machine = if gpus.is_empty() { "no GPU".to_owned() } else { gpus.join(", ") };
    let (count, engine, ram) = (rows.len(), EngineVersion::of(ready.engine, &ready.settings), ready.machine.ram.total);
    let mut page = Page::default();
    page.blank();
    let judged = judged_by(ready, rows);
    let models = if count == 1 { "model" } else { "models" };
    page.text(format!("{count} {models} for {engine} on {machine} with {ram} of RAM. {judged}").trim_end(), Hue::Text);
    page.text(&confidence_sentence(rows), Hue::Text);
    let marked = |what: &dyn Fn(&ListRow) -> bool| rows.iter().any(what);
    let legend = [
        (marked(&|row| row.is_to_be_made() && row.item.is_of_original()), OF_ORIGINAL_LEGEND),
        (marked(&|row| row.is_to_be_made() && !row.item.is_of_original()), TO_BE_MADE_LEGEND),
        (
            marked(&|row| row.item.missing_projector().is_some()),
            "text only (T): its projector is not in the catalogue.",
        ),
    ];
    let legend = legend.into_iter().filter_map(|(applies, text)| applies.then_some(text));
    let legend: Vec<&str> = legend.chain(["What the columns are: plimsoll list --help."]).collect();
    page.text(&legend.join(" "), Hue::Dim);
    let place = rows.iter().find_map(|row| Some((&row.item.name, row.pull.as_ref()?)));
    if let Some((name, pull)) = place.filter(|_| !shows_pull(style)) {
        page.text(&format!("To have {}: {}", one_line(name), one_line(pull)), Hue::Text);
    }
    let older = rows.iter().filter(|row| row.item.is_older_conversion());
    let older = older.filter_map(|row| Some(format!("{}: {}", row.item.name, row.item.conversion()?)));
    let refused = rows.iter().filter_map(|row| Some(format!("{}: {}", one_line(&row.item.name), row.refused()?)));
    let others = rows.iter().filter(|row| row.is_of_another_engine(ready.engine));
    let others: Vec<_> = others.map(|row| one_line(&row.item.name)).collect();
    let others =
        (!others.is_empty()).then(|| format!("planned for MLX, which alone runs their files: {}", others.join(", ")));
    refused.chain(older).chain(others).chain(ready.notes.iter().cloned()).for_each(|note| page.item(&note));
    style.report(&page)
}

/// A sentence on the context that the models are judged by.
fn judged_by(ready: &ResolvedArgs, rows: &[ListRow]) -> String {
    let contexts = || rows.iter().filter_map(|row| row.planned.as_ref().ok()).map(|known| known.plan.settings.ctx);
    let (Some(least), Some(most)) = (contexts().min(), contexts().max()) else { return String::new() };
    let range = if least == most { Tokens(most).to_string() } else { format!("{} to {}", Tokens(least), Tokens(most)) };
    match ready.settings.ctx {
        Context::Tokens(need) => {
            let short =
                rows.iter().filter(|row| row.planned.as_ref().is_ok_and(ListedModel::is_trained_for_less)).count();
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
    /// More names than these say less than their number.
    const MOST_NAMES: usize = 6;
    let of = |confidence: Confidence| {
        let known = |row: &&ListRow| row.planned.as_ref().is_ok_and(|known| known.plan.confidence == confidence);
        rows.iter().filter(known).map(|row| one_line(&row.item.name)).collect::<Vec<_>>()
    };
    let mut sentence = format!("Figures are exact for {} of them.", of(Confidence::Exact).len());
    for confidence in [Confidence::Modelled, Confidence::Assumed] {
        match of(confidence).as_slice() {
            [] => {}
            few if few.len() <= MOST_NAMES => sentence += &format!(" They are {confidence} for {}.", few.join(", ")),
            many => sentence += &format!(" They are {confidence} for {}.", many.len()),
        }
    }
    sentence
}

/// Marks the quantisation of a model that no place is known to have so.
const TO_BE_MADE: char = '*';
const OF_ORIGINAL_LEGEND: &str = "* to be made: convert the original weights and quantise them.";
const TO_BE_MADE_LEGEND: &str =
    "* no file in that quantisation is known here: look on Hugging Face, or convert the model and quantise it.";

/// Width of the verdict where something follows.
const VERDICT: usize = 14;

/// A row; what to type stands at its end where there is room.
fn line(row: &ListRow, width: usize, style: &Style, page: &mut Page) {
    let mut name = one_line(&row.item.name);
    let known = match &row.planned {
        Ok(known) => known,
        Err(why) => {
            let first = beside(&name, width, style, page) + " ";
            page.spans(&first, vec![why.as_str().into()]);
            return;
        }
    };
    if let Some((words, letters)) = row.item.mark() {
        let room = if style.is_narrow() { style.width } else { width }.saturating_sub(display_width(&name) + 1);
        name = format!("{name} {}", if words.len() < room { words } else { letters });
    }
    let ListedModel { fit, plan, .. } = known;
    let fits = fit.context().map_or_else(|| "–".to_owned(), short);
    let outcome = fit.outcome;
    let (word, hue) = match outcome {
        _ if known.is_trained_for_less() => {
            (format!("trained {}", plan.model.context_train.map_or_else(String::new, short)), Hue::Over)
        }
        Outcome::LayersInRam | Outcome::ExpertsInRam | Outcome::PartsInRam => {
            (format!("{} {}", plan.in_ram_short(), fit.on_gpu), Hue::of(outcome))
        }
        _ => (outcome.short().to_owned(), Hue::of(outcome)),
    };
    let parameters_width = parameters_width(style);
    let model = &plan.model;
    let count = if parameters_width < 15 { parameters(model.parameters) } else { model.parameters_text() };
    let cells = speed_width(style);
    let speed = known.speed(cells);
    let size = model.bytes.to_string();
    let mut quantisation = model.file_type.clone().unwrap_or_else(|| "?".to_owned());
    if row.is_to_be_made() {
        quantisation.push(TO_BE_MADE);
    }
    // a space before each figure that no width takes away
    let figures = format!("{quantisation:<8} {size:>8} {fits:>8} {speed:>cells$}  ");
    let count = format!("{count:>parameters_width$}");
    let indent = count.len() - count.trim_start().len();
    let name = beside(&name, width + indent, style, page);
    let mut spans = vec![format!("{name}{}  {figures}", &count[indent..]).into(), Span::new(&word, hue)];
    if let Some(pull) = row.pull.as_deref().filter(|_| shows_pull(style)) {
        let gap = " ".repeat(VERDICT.saturating_sub(display_width(&word)).max(2));
        spans.push(Span::new(&format!("{gap}{}", one_line(pull)), Hue::Dim));
    }
    page.line(spans);
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
