//! A load beside its plan, as text.

use super::super::error::one_line;
use super::super::style::Style;
use crate::answer::check::running::{PsAnswer, PsCandidate};
use crate::answer::check::{CPU, Check, Compared, Precision, Reason, ReleaseChoice, WhyRelease};
use crate::engine::PlanRequest;
use crate::export::check::{name, part_title, version};
use crate::library::check::FoundModel;
use crate::observed::{Load, Mib, Missing, Observation, Program};
use crate::page::{Hue, Page, Span};
use crate::units::{Bytes, Tokens};

/// Width of a figure's column.
const FIGURE: usize = 11;

/// The headline, the table with the reasons, the layers, and what else is worth knowing.
pub(super) fn text(seen: &Observation, chosen: usize, found: &FoundModel, check: &Check, style: &Style) -> String {
    let Some(load) = seen.loads.get(chosen) else { return String::new() };
    let mut page = Page::default();
    headline(check, &mut page);
    page.text(&about(load, found, check), Hue::Text);
    if let Some(sum) = fit_sum(load, check) {
        page.text(&sum, Hue::Text);
    }
    page.blank();
    table(check, style, &mut page);
    layers(check, &mut page);
    let notes = notes(seen, chosen, check);
    if !notes.is_empty() {
        page.blank();
    }
    for note in &notes {
        page.item(note);
    }
    style.report(&page)
}

/// What a load took, where there is no plan beside it.
pub(super) fn observed(load: &Load) -> String {
    let buffers = load.observed.iter().flat_map(|(device, terms)| {
        terms.iter().map(move |(term, mib)| (one_line(device), term.title(), format!("{:.2}", mib.0)))
    });
    // whole MiB, where no line tells more
    let untold = load.table.iter().filter(|(device, _)| !load.observed.contains_key(*device));
    let rows = untold.flat_map(|(device, row)| {
        let terms = [("weights", row.model), ("caches", row.context), ("compute", row.compute)];
        terms.map(|(term, mib)| (one_line(device), term, mib.to_string()))
    });
    let lines: Vec<(String, &str, String)> = buffers.chain(rows).collect();
    let width = |of: fn(&(String, &str, String)) -> usize| lines.iter().map(of).max().unwrap_or(0);
    let (first, second) = (width(|line| line.0.chars().count()), width(|line| line.1.len()));
    let line =
        |(device, term, mib): &(String, &str, String)| format!("{device:<first$} {term:<second$}{mib:>FIGURE$} MiB\n");
    lines.iter().map(line).chain(figures(load).map(|told| told + "\n")).collect()
}

/// The program's own figures, as read.
fn figures(load: &Load) -> Option<String> {
    let each = |(of, size): (&str, Mib)| format!("{} {size}", one_line(of));
    let all: Vec<String> = load.figures().into_iter().map(each).collect();
    let program = load.program.map_or("the program", Program::name);
    (!all.is_empty()).then(|| format!("{program} says of its own: {}", all.join(", ")))
}

/// Which settings would show a column PROCESSOR.
pub(super) fn ps(request: &PlanRequest, answer: &PsAnswer, notes: &[String], style: &Style) -> String {
    let row = |candidate: &PsCandidate| {
        let (on, all) = candidate.layers;
        let shows = candidate.shows;
        format!("{}, {}, {on} of {all} layers on GPU", shows.processor_column(), shows.size_column())
    };
    let (hue, word, shows) =
        if answer.agrees() { (Hue::Graph, "Agrees", "it") } else { (Hue::Over, "Differs", "another share") };
    let mut page = Page::default();
    page.line(vec![Span::new(word, hue.bold()), format!(": these settings show {shows}.").into()]);
    let model = &request.model;
    page.text(&format!("{}, {}, {}.", model.name, request.engine.title(), request.machine), Hue::Text);
    page.blank();
    page.spans("as given: ", vec![row(&answer.planned).into()]);
    let near = answer.candidates.iter().any(|candidate| candidate.is_near(answer.gpu_percent));
    if !answer.agrees() {
        page.blank();
        let likeliest = "What would show it, the likeliest first:";
        page.line(vec![if near { likeliest } else { "No usual setting would show it; nearest is:" }.into()]);
        for candidate in &answer.candidates {
            page.text_indented(&format!("{}: {}", candidate.changes.join(" "), row(candidate)), 2, Hue::Text);
        }
        if !near {
            page.item("the free memory was another when the model was loaded: try --gpu with free=");
        }
    }
    for note in notes {
        page.item(note);
    }
    style.report(&page)
}

fn headline(check: &Check, page: &mut Page) {
    let (compared, same) = (check.compared(), check.same());
    let (hue, word) = match (compared, check.agrees()) {
        (0, _) => (Hue::Cache, "Nothing to compare"),
        (_, true) => (Hue::Graph, "Agrees"),
        (_, false) => (Hue::Over, "Differs"),
    };
    let rows = if compared == 1 { "figure is" } else { "figures are" };
    let rest = match compared {
        0 => ": the log and the plan have no figure in common.".to_owned(),
        _ if check.rows.iter().all(|row| row.precision == Precision::Hundredths) => {
            format!(": {same} of {compared} {rows} exact.")
        }
        _ => format!(": {same} of {compared} {rows} the same, as far as the log's rounding tells."),
    };
    page.line(vec![Span::new(word, hue.bold()), rest.into()]);
}

/// What the fit expected to use in all, beside what the plan takes on GPUs, where the log has no figure of a device.
fn fit_sum(load: &Load, check: &Check) -> Option<String> {
    let projected = load.fit.projected.filter(|_| check.compared() == 0)?;
    let (projected, plan) = (Bytes::mib(projected), check.request.plan().ok()?);
    let planned = plan.totals.gpu;
    let difference = match (planned - projected, projected - planned) {
        (more, _) if more > Bytes::ZERO => format!("{more} more"),
        (_, less) if less > Bytes::ZERO => format!("{less} less"),
        _ => "the same".to_owned(),
    };
    let free = load.fit.free.map(Bytes::mib);
    let leaves = free.map_or_else(String::new, |free| match free - projected {
        Bytes::ZERO => format!(", more than the {free} that were free"),
        left => format!(", which leaves {left} of the {free} that were free"),
    });
    Some(format!(
        "The fit expected to use {projected} of all GPUs{leaves}. This plan takes {planned} of them, {difference}."
    ))
}

/// What was compared with what.
fn about(load: &Load, found: &FoundModel, check: &Check) -> String {
    let program = load.program.map_or("the program", Program::name);
    let version = version(load).map_or_else(String::new, |version| format!(" {version}"));
    let model = &check.request.model;
    let types = match (check.quantisation, model.file_type) {
        (Some(found), _) => format!(" with the weights of {found}"),
        (None, Some(own)) => format!(" {own}"),
        (None, None) => String::new(),
    };
    let plan = match &check.release {
        Some(ReleaseChoice { release, why }) => {
            let why = match why {
                WhyRelease::Given => String::new(),
                WhyRelease::Nearest(of) => format!(", the nearest to {of}"),
                WhyRelease::Agrees(None) => ", which agrees best, as the log names no build".to_owned(),
                WhyRelease::Agrees(Some(of)) => {
                    format!(", which agrees best, as the llama.cpp of {of}, is not known here")
                }
            };
            format!("planned for release {release}{why}")
        }
        None => format!("planned for {}", check.request.engine.title()),
    };
    let machine: Vec<&str> = check.request.machine.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    let machine = if machine.is_empty() { "no GPU".to_owned() } else { machine.join(", ") };
    format!("{}{types} ({}), {program}{version}, {machine}; {plan}.", model.name, found.how)
}

pub(in crate::cli) fn table(check: &Check, style: &Style, page: &mut Page) {
    let device = |row: &Compared| match row.device.as_str() {
        CPU => "RAM".to_owned(),
        name => one_line(name),
    };
    let width = |of: &dyn Fn(&Compared) -> String| check.rows.iter().map(|row| of(row).chars().count()).max();
    let (first, second) = (width(&device).unwrap_or(0), width(&part_title).unwrap_or(0));
    let figure = |mib: Option<Mib>| mib.map_or_else(|| "–".to_owned(), |mib| format!("{:.2}", mib.0));
    let indent = first + 1 + second;
    let is_wide = style.lines >= indent + 3 * FIGURE;
    if is_wide {
        let line = format!("{:indent$}{:>FIGURE$}{:>FIGURE$}{:>FIGURE$}", "MiB", "planned", "observed", "difference");
        page.line(vec![Span::new(&line, Hue::Dim)]);
    }
    let mut before = String::new();
    for (at, row) in check.rows.iter().enumerate() {
        let name = device(row);
        let shown = if name == before { String::new() } else { name.clone() };
        before = name;
        let (planned, observed) = (figure(row.planned), figure(row.observed));
        let (difference, part) = (row.difference_text(), part_title(row));
        let hue = match (row.is_same(), row.agrees()) {
            (true, _) => Hue::Text,
            (_, true) => Hue::Dim,
            _ => Hue::Over,
        };
        let (figures, difference) = if is_wide {
            let figures = format!("{shown:<first$} {part:<second$}{planned:>FIGURE$}{observed:>FIGURE$}");
            (figures, format!("{difference:>FIGURE$}"))
        } else {
            (format!("{} {part}: planned {planned}, observed {observed}, ", device(row)), difference)
        };
        let spans = vec![figures.into(), Span::new(&difference, hue)];
        if is_wide {
            page.line(spans);
        } else {
            page.spans("", spans);
        }
        // a reason that the next row has too stands once, below both
        let next = check.rows.get(at + 1);
        let same = next.is_some_and(|next| next.reason == row.reason && next.device == row.device);
        if let Some(reason) = row.reason.as_ref().filter(|_| !same) {
            page.text_indented(&format!("{reason}."), 6, Hue::Text);
        }
    }
}

pub(in crate::cli) fn layers(check: &Check, page: &mut Page) {
    let Some(split) = &check.split else { return };
    let against = match split.planned {
        Some(planned) if planned == split.observed => ", as planned.".to_owned(),
        Some(planned) => format!("; by the rules known here, {planned} would be."),
        None => "; what the program decided by is not in the log.".to_owned(),
    };
    page.blank();
    page.text(&format!("Layers on GPU: {} of {}{against}", split.observed, split.of), Hue::Text);
    if let Some(inequality) = &split.inequality {
        page.text_indented(inequality, 2, Hue::Text);
    }
}

fn notes(seen: &Observation, chosen: usize, check: &Check) -> Vec<String> {
    // settings that were assumed are named below
    let told = |missing: &&Missing| **missing != Missing::Settings || check.assumed.is_empty();
    let missing = seen.missing.iter().filter(|_| seen.chosen == Some(chosen)).filter(told);
    let mut notes: Vec<String> = missing.map(ToString::to_string).collect();
    notes.extend(check.request.model.refused());
    let own = seen.loads.get(chosen).and_then(figures);
    notes.extend(own.map(|own| format!("{own}; no plan has these, so they are not compared")));
    if !check.assumed.is_empty() {
        let assumed = check.assumed.join(", ");
        notes.push(format!("the log does not tell {assumed}: defaults are planned; --ctx, --parallel, … state others"));
    }
    if !check.inferred.is_empty() {
        let found: Vec<String> = check.inferred.iter().map(Reason::option).collect();
        let found = found.join(" ");
        notes.push(format!(
            "what the log does not tell is taken from its figures: {found}; --ctx, --parallel, … state others"
        ));
    }
    if let Some(tokens) = check.inferred_context {
        let tokens = Tokens(tokens);
        notes.push(format!(
            "the estimate's context of {tokens} is taken from the size of its cache; --ctx states another"
        ));
    }
    if seen.loads.len() > 1 {
        let others = seen.loads.iter().enumerate().filter(|&(at, _)| at != chosen);
        let list: Vec<String> = others
            .map(|(at, load)| {
                let tokens =
                    load.settings.n_ctx.map_or_else(String::new, |tokens| format!(", {} tokens", Tokens(tokens)));
                let model = name(load).unwrap_or_else(|| "a model".to_owned());
                let model = model.rsplit(['/', '\\']).next().unwrap_or(&model).to_owned();
                format!("{} ({model}{tokens}, line {})", at + 1, load.line)
            })
            .collect();
        notes.push(format!(
            "this is load {} of {}; --load N compares another: {}",
            chosen + 1,
            seen.loads.len(),
            list.join(", ")
        ));
    }
    notes
}
