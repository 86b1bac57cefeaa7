//! `plimsoll explain`: the pages of teaching as text, Markdown, SVG or JSON, and a handout of all of them.

use std::fs;
use std::path::Path;

use super::args::{ExplainArgs, PageChoice};
use super::error::{self, CliError};
use super::questions;
use super::style::{BarGlyphs, Style};
use crate::engine::{EngineVersion, PlanRequest};
use crate::export::Caption;
use crate::page::palette::Tone;
use crate::page::{Breaks, Hue, Page, glyphs, svg, terminal};
use crate::plan::Plan;
use crate::source::catalogue;
use crate::teach::{self, PageContent, Paper, Topic, lessons};
use crate::text;

/// Cells of a picture, and the least and most of a printed page.
const CELLS: usize = 116;
const PRINTED: std::ops::RangeInclusive<usize> = 60..=120;

/// The page in the requested format, or what was written into a folder.
pub(super) fn explain(args: &ExplainArgs) -> Result<String, CliError> {
    let topics = topics(args)?;
    let (ready, opened) = questions::ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = request.plan()?;
    if let Some(folder) = &args.output {
        return handout(folder, &request, &plan, &topics, args.answers);
    }
    let pages = topics.iter().map(|topic| topic.content(&request, &plan, &catalogue::model_and_projector));
    if args.json || args.markdown {
        let pages = pages.collect::<Result<Vec<PageContent>, _>>()?;
        if args.markdown {
            let captioned = pages.iter().map(|page| captioned(page, &request, &plan, args.answers));
            return Ok(captioned.collect::<Vec<_>>().join("\n"));
        }
        let object = match pages.as_slice() {
            [one] => one.json(),
            all => all.iter().map(PageContent::json).collect(),
        };
        return error::json("page", text::json(&object));
    }
    let PageChoice::One(_) = args.page else {
        return Err(CliError::Arguments("--page all is for --markdown and --json: choose one page".to_owned()));
    };
    let Some(content) = pages.take(1).next().transpose()? else { return Ok(String::new()) };
    if args.svg {
        let tone = if args.light { Tone::Light } else { Tone::Dark };
        return Ok(picture(&content, &request, &plan, tone, args.answers));
    }
    let style = Style::of_stdout();
    let cells = if style.bars == BarGlyphs::None { *PRINTED.end() } else { style.lines.max(*PRINTED.start()) };
    let paper = Paper { cells, captioned: true, textured: style.colours.is_none(), answered: args.answers };
    let printed = terminal::text(&below_caption(&content, paper, &request, &plan), cells, Breaks::Words, style.colours);
    Ok(if style.bars == BarGlyphs::Ascii { glyphs::to_ascii(&printed) } else { printed })
}

fn caption(page: &PageContent, request: &PlanRequest, plan: &Plan) -> Caption {
    match page {
        PageContent::Lessons(lesson) => lesson.lesson.caption.clone(),
        _ => Caption::of(request, plan),
    }
}

/// The page as Markdown, and below it what its figures are for.
fn captioned(page: &PageContent, request: &PlanRequest, plan: &Plan, answered: bool) -> String {
    format!("{}\n*{}*\n", page.markdown(answered), caption(page, request, plan))
}

/// What the figures of a page are for, and the page.
fn below_caption(content: &PageContent, paper: Paper, request: &PlanRequest, plan: &Plan) -> Page {
    let Caption { subject, knobs, source } = caption(content, request, plan);
    let mut page = Page::default();
    page.text(&subject, Hue::Text.bold());
    page.text(&knobs, Hue::Dim);
    page.text(&source, Hue::Dim);
    page.append(content.printed(paper));
    page
}

/// The page as an SVG picture.
fn picture(content: &PageContent, request: &PlanRequest, plan: &Plan, tone: Tone, answered: bool) -> String {
    let title = match content {
        PageContent::Lessons(lesson) => lesson.lesson.title,
        content => content.page().title(),
    };
    let paper = Paper { cells: CELLS, captioned: true, textured: false, answered };
    svg::page(&below_caption(content, paper, request, plan), CELLS, tone, title)
}

/// The pages to print: one, every lesson if none is chosen, or all.
fn topics(args: &ExplainArgs) -> Result<Vec<Topic>, CliError> {
    let versus = args.versus.map(|engine| EngineVersion { engine, release: engine.facts().releases.first().copied() });
    if args.versus.is_some() && !matches!(args.page, PageChoice::One(teach::Page::Formulas) | PageChoice::All) {
        return Err(CliError::Arguments("--versus belongs to --page formulas".to_owned()));
    }
    let topics = |page: teach::Page| match page {
        teach::Page::Lessons => (0..lessons::all().len()).map(Topic::Lessons).collect(),
        teach::Page::Formulas => vec![Topic::Formulas(versus)],
        page => vec![page.topic()],
    };
    match (args.page, args.lesson) {
        (PageChoice::All, None) => Ok(teach::Page::ALL.into_iter().flat_map(topics).collect()),
        (PageChoice::One(page), None) => Ok(topics(page)),
        (PageChoice::One(teach::Page::Lessons), Some(number @ 1..)) if number <= lessons::all().len() => {
            Ok(vec![Topic::Lessons(number - 1)])
        }
        (PageChoice::One(teach::Page::Lessons), Some(number)) => {
            Err(CliError::Arguments(format!("--lesson {number}: use a number from 1 to {}", lessons::all().len())))
        }
        (_, Some(_)) => Err(CliError::Arguments("--lesson belongs to --page lessons".to_owned())),
    }
}

/// Writes `handout.md` and a picture for each of `topics` into `folder`, which is made if there is none; returns what
/// was written. A page that does not exist for the model is named with the reason. The last page has the answers of
/// lessons with what tells them; if `answered`, the lessons have them too.
fn handout(
    folder: &Path,
    request: &PlanRequest,
    plan: &Plan,
    topics: &[Topic],
    answered: bool,
) -> Result<String, CliError> {
    let failed = |path: &Path, error: std::io::Error| {
        CliError::Terminal(format!("'{}' cannot be written: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let save = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, error))
    };
    let (mut pages, mut pictures, mut answers) = (Vec::new(), 0, Vec::new());
    for &topic in topics {
        let page = match topic.content(request, plan, &catalogue::model_and_projector) {
            Ok(page) => page,
            Err(error) => {
                pages.push(format!("# {}\n\nNot for this model: {error}.\n", topic.page().title()));
                continue;
            }
        };
        let name = match topic {
            Topic::Lessons(at) => format!("lesson-{:02}.svg", at + 1),
            topic => format!("{}.svg", topic.page().name()),
        };
        if let PageContent::Lessons(lesson) = &page {
            let lesson = &lesson.lesson;
            let told = [std::slice::from_ref(&lesson.answer), &lesson.telling()].concat().join("\n\n");
            answers.push(format!("## {}\n\n{told}\n", lesson.title));
        }
        save(&name, &picture(&page, request, plan, Tone::Light, answered))?;
        pictures += 1;
        // the picture stands below the heading
        let text = captioned(&page, request, plan, answered);
        let (heading, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let title = heading.trim_start_matches('#').trim();
        pages.push(format!("{heading}\n\n![{title}]({name})\n{rest}"));
    }
    if !answers.is_empty() {
        pages.push(format!("# Answers\n\n{}", answers.join("\n")));
    }
    save("handout.md", &pages.join("\n"))?;
    Ok(format!("{} and {pictures} pictures\n", folder.join("handout.md").display()))
}
