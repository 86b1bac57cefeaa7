//! `plimsoll explain`: the pages of teaching as text, Markdown, pictures that stand or move, or JSON, and a handout of all
//! of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::args::{AboutPlan, ExplainArgs, QueryArgs};
use super::error::{self, CliError};
use super::out::print;
use super::style::{BarGlyphs, Style};
use super::value::PageChoice;
use super::{questions, resolve};
use crate::engine::{EngineVersion, PlanRequest};
use crate::export::{Caption, PlanSource};
use crate::page::markdown::Escaped;
use crate::page::palette::Tone;
use crate::page::{Breaks, Hue, Page, glyphs, svg, terminal};
use crate::plan::Plan;
use crate::teach::lessons::{self, LessonsPage};
use crate::teach::{Paper, Tab, TeachPage, Topic};
use crate::text;
use crate::tui;
use crate::tui::picture::animation;
use crate::tui::screens::teach::{DrawnTeach, TeachStart};
use crate::tui::theme::Appearance;
use crate::tui::theme::glyphs::to_ascii as ascii;

/// Cells of a picture, and the least and most of a printed page.
const CELLS: usize = 116;
const PRINTED: std::ops::RangeInclusive<usize> = 60..=120;

impl AboutPlan for ExplainArgs {
    fn asked(&mut self) -> &mut QueryArgs {
        &mut self.asked
    }

    fn run(&mut self) -> Result<(), CliError> {
        print(&explain(self)?)
    }
}

/// The page in the requested format, or what was written into a folder.
fn explain(args: &ExplainArgs) -> Result<String, CliError> {
    super::lessons::append(args.lessons.as_deref())?;
    let topics = topics(args)?;
    let (ready, opened) = questions::ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = request.plan()?;
    if args.animate || args.step.is_some() {
        return drawn(args, request);
    }
    if let Some(folder) = &args.output {
        return handout(folder, &request, &plan, &topics, args);
    }
    let pages = topics.iter().map(|topic| topic.content(&request, &plan));
    if args.json || args.markdown {
        let pages = pages.collect::<Result<Vec<_>, _>>()?;
        if args.markdown {
            let captioned = pages.iter().map(|page| captioned(&**page, &request, &plan, args.answers));
            return Ok(captioned.collect::<Vec<_>>().join("\n"));
        }
        let pages = pages.iter().map(|page| PageRecord::of(&**page)).collect();
        let source = resolve::source(&opened, &args.asked.model);
        return error::json("page", text::json(&ExplainAnswer { head: PlanSource::of(&plan, &source), pages }));
    }
    let PageChoice::One(_) = args.page() else {
        return Err(CliError::Arguments("--page all is for --markdown and --json: choose one page".to_owned()));
    };
    let Some(content) = pages.take(1).next().transpose()? else { return Ok(String::new()) };
    if args.svg {
        return Ok(picture(&*content, &request, &plan, tone(args), args.answers));
    }
    if args.light {
        return Err(CliError::Arguments("--light is for a picture: add --svg or --animate".to_owned()));
    }
    let style = Style::of_stdout();
    let cells = if style.bars == BarGlyphs::None { *PRINTED.end() } else { style.lines.max(*PRINTED.start()) };
    let paper = Paper { cells, captioned: true, textured: style.colours.is_none(), answered: args.answers };
    let printed =
        terminal::text(&below_caption(&*content, paper, &request, &plan), cells, Breaks::Words, style.colours);
    Ok(if style.bars == BarGlyphs::Ascii { glyphs::to_ascii(&printed) } else { printed })
}

const fn tone(args: &ExplainArgs) -> Tone {
    if args.light { Tone::Light } else { Tone::Dark }
}

/// The page as the planner draws it: at one step, or as an animation of all.
fn drawn(args: &ExplainArgs, request: PlanRequest) -> Result<String, CliError> {
    let PageChoice::One(page) = args.page() else {
        return Err(CliError::Arguments("a walk has one page: choose one instead of --page all".to_owned()));
    };
    if page == Tab::Lessons && args.lesson.is_none() {
        return Err(CliError::Arguments("choose a lesson with --lesson N".to_owned()));
    }
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let start = TeachStart { page, lesson: args.lesson, step: args.step.map(number) };
    let look = Appearance { tone: tone(args), ..Appearance::BEST };
    let mut drawn = DrawnTeach::open(request, &start, look).map_err(CliError::Arguments)?;
    let title = drawn.title().to_owned();
    let Some(step) = args.step else {
        let frames = drawn.frames();
        if frames.is_empty() {
            return Err(no_walk(page));
        }
        return Ok(animation::svg(&frames, frames.len() - 1, look.tone, &title));
    };
    let steps = drawn.last_step().ok_or_else(|| no_walk(page))? + 1;
    if step > steps {
        return Err(CliError::flag("--step", &format!("use a number from 1 to {steps}")));
    }
    let mut buffer = drawn.drawn();
    if args.svg {
        return Ok(tui::picture::svg(&buffer, look.tone, &title));
    }
    if Style::of_stdout().bars == BarGlyphs::Ascii {
        ascii(&mut buffer);
    }
    Ok(tui::picture::text(&buffer))
}

fn no_walk(page: Tab) -> CliError {
    CliError::Arguments(format!(
        "the page of {} has no steps: take layers, schedule, allocation, cache, or a lesson for --animate",
        page.name()
    ))
}

/// Pages of the teach screen.
#[derive(JsonSchema, Serialize)]
pub(super) struct ExplainAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// The page that was asked for, or several in order.
    pages: Vec<PageRecord>,
}

/// A page. Each kind has further keys of its own, which this schema leaves open: figures, sentences and tables of the
/// page as `--markdown` prints it.
#[derive(JsonSchema, Serialize)]
struct PageRecord {
    /// Its name, as `--page` takes it.
    page: &'static str,
    #[serde(flatten)]
    #[schemars(with = "BTreeMap<String, Value>")]
    content: Value,
}

impl PageRecord {
    fn of(content: &dyn TeachPage) -> Self {
        Self { page: content.tab().name(), content: content.json() }
    }
}

/// The page as Markdown, and below it what its figures are for.
fn captioned(page: &dyn TeachPage, request: &PlanRequest, plan: &Plan, answered: bool) -> String {
    format!("{}\n*{}*\n", page.markdown(answered), Escaped::of(&page.caption(request, plan).to_string()))
}

/// What the figures of a page are for, and the page.
fn below_caption(content: &dyn TeachPage, paper: Paper, request: &PlanRequest, plan: &Plan) -> Page {
    let Caption { subject, knobs, source } = content.caption(request, plan);
    let mut page = Page::default();
    page.text(&subject, Hue::Text.bold());
    page.text(&knobs, Hue::Dim);
    page.text(&source, Hue::Dim);
    page.append(content.printed(paper));
    page
}

/// The page as an SVG picture.
fn picture(content: &dyn TeachPage, request: &PlanRequest, plan: &Plan, tone: Tone, answered: bool) -> String {
    let paper = Paper { cells: CELLS, captioned: true, textured: false, answered };
    svg::page(&below_caption(content, paper, request, plan), CELLS, tone, content.title())
}

/// The pages to print: one, every lesson if none is chosen, or all.
fn topics(args: &ExplainArgs) -> Result<Vec<Topic>, CliError> {
    let versus = args.versus.map(|engine| EngineVersion { engine, release: engine.facts().releases.first().copied() });
    if args.versus.is_some() && !matches!(args.page(), PageChoice::One(Tab::Formulas) | PageChoice::All) {
        return Err(CliError::Arguments("--versus belongs to --page formulas".to_owned()));
    }
    let topics = |page: Tab| match page {
        Tab::Lessons => (0..lessons::all().len()).map(Topic::Lessons).collect(),
        Tab::Formulas => vec![Topic::Formulas(versus)],
        page => vec![page.topic()],
    };
    match (args.page(), args.lesson) {
        (PageChoice::All, None) => Ok(Tab::ALL.into_iter().flat_map(topics).collect()),
        (PageChoice::One(page), None) => Ok(topics(page)),
        (PageChoice::One(Tab::Lessons), Some(number @ 1..)) if number <= lessons::all().len() => {
            Ok(vec![Topic::Lessons(number - 1)])
        }
        (PageChoice::One(Tab::Lessons), Some(number)) => {
            Err(CliError::Arguments(format!("--lesson {number}: use a number from 1 to {}", lessons::all().len())))
        }
        (_, Some(_)) => Err(CliError::Arguments("--lesson belongs to --page lessons".to_owned())),
    }
}

/// Writes `handout.md` and a picture for each of `topics` into `folder`, which is made if there is none; returns what
/// was written. Contents come first; a page that does not exist for the model is named with the reason. After the pages come
/// the glossary and the answers of lessons with what tells them; if the answers are asked for, the lessons have them too.
fn handout(
    folder: &Path,
    request: &PlanRequest,
    plan: &Plan,
    topics: &[Topic],
    args: &ExplainArgs,
) -> Result<String, CliError> {
    let (mut contents, mut pages, mut pictures) = (Vec::new(), Vec::new(), Vec::new());
    let mut answers = String::new();
    let pages_first = topics.iter().copied().filter(|topic| *topic != Topic::Glossary);
    for topic in pages_first.chain([Topic::Glossary]) {
        let name = match topic {
            Topic::Lessons(at) => format!("lesson-{:02}", at + 1),
            topic => topic.tab().name().to_owned(),
        };
        let (title, rest) = match topic.content(request, plan) {
            Ok(page) => {
                if let Some(lesson) = page.as_a::<LessonsPage>() {
                    let lesson = &lesson.lesson;
                    let told = [std::slice::from_ref(&lesson.answer), &lesson.telling()].concat();
                    let told: Vec<String> = told.iter().map(|told| Escaped::of(told).to_string()).collect();
                    answers += &format!("\n## {}\n\n{}\n", Escaped::of(lesson.title), told.join("\n\n"));
                }
                pictures.push((format!("{name}.svg"), picture(&*page, request, plan, Tone::Light, args.answers)));
                // the picture stands below the heading
                let text = captioned(&*page, request, plan, args.answers);
                let (heading, rest) = text.split_once('\n').unwrap_or((&text, ""));
                let title = heading.trim_start_matches('#').trim().to_owned();
                let picture = format!("![{title}]({name}.svg)\n{rest}");
                (title, picture)
            }
            Err(error) => {
                (topic.tab().title().to_owned(), format!("Not for this model: {}.\n", Escaped::of(&error.to_string())))
            }
        };
        contents.push(format!("- [{title}](#{name})\n"));
        pages.push(format!("<a id=\"{name}\"></a>\n\n# {title}\n\n{rest}"));
    }
    if !answers.is_empty() {
        contents.push("- [Answers](#answers)\n".to_owned());
        pages.push(format!("<a id=\"answers\"></a>\n\n# Answers\n{answers}"));
    }
    let text = format!("# Contents\n\n{}\n{}", contents.concat(), pages.join("\n"));
    let count = pictures.len();
    let files = pictures.into_iter().chain([("handout.md".to_owned(), text)]);
    let files: Vec<_> = files.map(|(name, text)| (folder.join(name), text)).collect();
    // all or none
    if let Some((path, _)) = files.iter().find(|(path, _)| !args.force && path.symlink_metadata().is_ok()) {
        let why = format!("'{}' exists: choose another folder, or use --force to overwrite its files", path.display());
        return Err(CliError::Terminal(why));
    }
    fs::create_dir_all(folder)
        .map_err(|error| CliError::Terminal(format!("'{}' cannot be written: {error}", folder.display())))?;
    for (path, text) in &files {
        questions::save(path, text, args.force)?;
    }
    Ok(format!("{} and {count} pictures\n", folder.join("handout.md").display()))
}
