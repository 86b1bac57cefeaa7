//! The verdict panel: whether the plan fits.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::answer::{Figures, ram, verdict};
use crate::engine::EngineError;
use crate::page::palette::sign;
use crate::page::{Block, Page, Span};
use crate::plan::{Outcome, Plan};
use crate::question::glance;
use crate::settings::knob::Knob;
use crate::source::Progress;
use crate::tui::action::Command;
use crate::tui::app::{App, Detection, KnownLimits, Load};
use crate::tui::keymap::Scope;
use crate::tui::planner;
use crate::tui::regions::ScreenLayout;
use crate::tui::theme::{Hue, Theme, backdrop};
use crate::tui::view::header;
use crate::tui::widget::row_writer::RowWriter;
use crate::tui::widget::{page, panel};
use crate::units::{Bytes, Ratio};

/// Text after the key that shows all notes.
const MORE_HINT: &str = " for more";

/// What the panel is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The planner's, below the figures, between lines of its own.
    Rule,
    /// In a frame.
    Frame,
    /// A few rows, which begin with the figures.
    Bare,
}

impl Form {
    /// That of the planner's panel.
    pub const fn of(shape: ScreenLayout) -> Self {
        if matches!(shape, ScreenLayout::Columns) { Self::Rule } else { Self::Bare }
    }
}

/// The commands that make the changes that would help, in their order.
pub const WAYS: [Command; 3] = [Command::FirstWay, Command::SecondWay, Command::ThirdWay];

/// The line of figures with its titles.
pub fn draw_figures(app: &App, area: Rect, buffer: &mut Buffer) {
    let Some(plan) = &app.request.plan else { return };
    let inner = Rect { x: area.x.saturating_add(1), width: area.width.saturating_sub(2), ..area };
    let mut page = Page::default();
    page.push(figures(app, plan, inner.width.into(), true));
    page::within(&page, 0, inner, app.theme, buffer);
    // what they say is of the plan before, or of no machine yet
    if app.request.is_planning() || app.request.refused.is_some() || app.found_machine.detection == Detection::Running {
        backdrop::dim(buffer, area, app.theme);
    }
}

fn figures(app: &App, plan: &Plan, cells: usize, titles: bool) -> Block {
    let figures = Figures::of(plan, limits(app, plan).found(), app.request.speeds.as_ref());
    glance::figures(&figures, !plan.gpus().is_empty(), cells, titles)
}

/// Draws the panel in `area`; `scopes` are those of the active keys.
pub fn draw_in(app: &App, area: Rect, form: Form, scopes: &[Scope], buffer: &mut Buffer) {
    let theme = app.theme;
    // the engine stands here if the header has no room for it
    let engine = if header::of(app).shows_engine() { String::new() } else { header::engine_label(app) };
    match form {
        Form::Rule => drop(panel::rule(buffer, area, "Verdict", &engine, theme)),
        Form::Frame => drop(panel::frame(buffer, area, "Verdict", &engine, false, theme)),
        Form::Bare => {}
    }
    let inner = inside(area, form);
    if let Load::Running { name, now, took } = &app.library.loading.state {
        draw_loading(name, *now, *took, inner, theme, buffer);
        return;
    }
    let page = page(app, form, scopes, inner.width.into());
    let (lines, room) = (page::within(&page, 0, inner, theme, buffer), inner.height);
    if let Some(key) = app.preferences.keys.key_for(Command::Notes, scopes).filter(|_| lines > room && room > 0) {
        // on the line above, where there is one, it covers nothing
        let row = if form == Form::Bare {
            Rect { y: inner.bottom() - 1, ..inner }
        } else {
            Rect { x: inner.x, width: inner.width, ..area }
        };
        let mut writer = RowWriter::new(buffer, row, 0);
        writer.right(" ", theme.ink(Hue::Dim)).right(MORE_HINT, theme.ink(Hue::Dim));
        writer.right(&key, theme.bold(Hue::Text)).right(" ", theme.ink(Hue::Dim));
        if form != Form::Bare {
            go_on(Rect { y: inner.bottom() - 1, height: 1, ..inner }, theme, buffer);
        }
    }
}

/// Marks a row whose sentence goes on below it, where there is no room.
fn go_on(row: Rect, theme: Theme, buffer: &mut Buffer) {
    let cells = row.intersection(buffer.area);
    let end = end_of_text(row, buffer);
    if !cells.is_empty() && end > cells.left() && buffer[(end - 1, cells.y)].symbol() != "." {
        let x = (end + 1).min(cells.right() - 1);
        RowWriter::new(buffer, Rect { x, width: 1, ..cells }, 0).put("…", theme.ink(Hue::Dim));
    }
}

/// The column after the last letter of a row; its first where it is blank.
fn end_of_text(row: Rect, buffer: &Buffer) -> u16 {
    let cells = row.intersection(buffer.area);
    let columns = if cells.is_empty() { 0..0 } else { cells.left()..cells.right() };
    let is_blank = |x: &u16| buffer[(*x, cells.y)].symbol().trim().is_empty();
    columns.rev().find(|x| !is_blank(x)).map_or(cells.left(), |last| last + 1)
}

/// Where the text of the panel is.
fn inside(area: Rect, form: Form) -> Rect {
    let (above, below) = match form {
        Form::Rule => (1, 0),
        Form::Frame => (1, 1),
        Form::Bare => (0, 0),
    };
    let margin = if form == Form::Frame { 2 } else { 1 };
    Rect {
        x: area.x.saturating_add(margin),
        y: area.y.saturating_add(above),
        width: area.width.saturating_sub(2 * margin),
        height: area.height.saturating_sub(above + below),
    }
}

/// The change that would help whose row is at this position of the planner's panel.
pub fn way_at(app: &App, at: Position) -> Option<Command> {
    let (area, form) = (app.panels.regions.verdict, Form::of(app.panels.regions.shape));
    let inner = inside(area, form);
    let page = page(app, form, planner::scopes(app), inner.width.into());
    let (way, _) = page::choice_within(&page, 0, inner, app.theme, at)?;
    WAYS.get(way).copied()
}

/// The sentence with its figures, the changes that would help, reports of failing devices, decisions that the user did not
/// ask for, and all other notes.
fn page(app: &App, form: Form, scopes: &[Scope], cells: usize) -> Page {
    let mut page = Page::default();
    let said = Said::of(app);
    let Said::Plan(plan) = said else {
        let (headline, hue, text) = said.words(app);
        page.spans("", vec![Span::new(&headline, hue.bold()), Span::from(format!(" {text}"))]);
        return page;
    };
    if form != Form::Rule {
        page.push(figures(app, plan, cells, form == Form::Frame));
    }
    page.text(&glance::state(plan), Hue::Text);
    let limits = limits(app, plan);
    if let Some(limits) = limits.found() {
        let keys = WAYS.map(|way| app.preferences.keys.key_for(way, scopes).unwrap_or_default());
        for way in glance::ways(plan, limits, &keys) {
            page.choice(way);
        }
    }
    app.found_machine.reports.iter().for_each(|report| page.text(report, Hue::Over));
    let besides = glance::besides(plan, limits.found(), app.request.speeds.as_ref());
    let besides = std::iter::once(besides).filter(|besides| !besides.is_empty());
    let besides: Vec<String> = besides.chain(ram::spills(&app.request.machine, plan)).collect();
    if !besides.is_empty() {
        page.text(&besides.join(" "), Hue::Text);
    }
    let surprise = plan.decided.first();
    if let Some(note) = surprise {
        page.text_indented(note, 2, Hue::Cache);
    }
    let notes = plan.notes.iter().filter(|note| surprise != Some(note));
    notes.for_each(|note| page.text_indented(note, 2, Hue::Dim));
    page
}

/// What the panel speaks of.
enum Said<'a> {
    Failed { name: &'a str, why: &'a str },
    Planning,
    Refused(&'a EngineError),
    Nothing,
    Detecting(&'a Plan),
    Plan(&'a Plan),
}

impl<'a> Said<'a> {
    fn of(app: &'a App) -> Self {
        if let Load::Failed { name, why } = &app.library.loading.state {
            return Self::Failed { name, why };
        }
        if app.request.is_planning() {
            return Self::Planning;
        }
        if let Some(error) = &app.request.refused {
            return Self::Refused(error);
        }
        match &app.request.plan {
            None => Self::Nothing,
            Some(plan) if app.found_machine.detection == Detection::Running => Self::Detecting(plan),
            Some(plan) => Self::Plan(plan),
        }
    }

    /// The headline with its sign, its colour, and the text after it.
    fn words(&self, app: &App) -> (String, Hue, String) {
        match self {
            Self::Failed { name, why } => (
                format!("✗ {name} could not be opened:"),
                Hue::Over,
                format!("{}. Esc dismisses this.", why.trim_end_matches('.')),
            ),
            Self::Planning => {
                ("… Planning:".to_owned(), Hue::Cache, "this takes a moment. Keys are answered meanwhile.".to_owned())
            }
            Self::Refused(error) => (
                "✗ No plan:".to_owned(),
                Hue::Over,
                format!("{error}. The previous plan is shown; u undoes the change."),
            ),
            Self::Nothing => (
                "·".to_owned(),
                Hue::Dim,
                "Press b to choose a model: local, from a server, or from the catalogue.".to_owned(),
            ),
            Self::Detecting(plan) => {
                let text = "Still detecting GPUs; until then everything is planned in RAM.";
                (format!("… {}:", plan.outcome().headline()), Hue::Cache, text.to_owned())
            }
            Self::Plan(plan) => {
                let (sign, hue) = sign(plan.outcome());
                let sentence = sentence(app, plan);
                let spills = ram::spills(&app.request.machine, plan);
                let sentences: Vec<String> = std::iter::once(sentence).chain(spills).collect();
                (format!("{sign} {}:", verdict::headline(plan)), hue, sentences.join(" "))
            }
        }
    }
}

/// The headline with its sign, its colour, and the text after it: the verdict as prose.
pub(crate) fn words(app: &App) -> (String, Hue, String) {
    Said::of(app).words(app)
}

/// The same in short: where all is, and how fast it is.
pub(crate) fn short_words(app: &App) -> (String, Hue, String) {
    let Said::Plan(plan) = Said::of(app) else { return words(app) };
    let (sign, hue) = sign(plan.outcome());
    let speed = app.request.speeds.as_ref().map_or_else(String::new, |speeds| {
        let (start, full) = (speeds.start.range(), speeds.full.range().short());
        format!("; {start}, {full} when full")
    });
    (format!("{sign} {}:", plan.outcome().headline()), hue, format!("{}{speed}.", verdict::state(plan)))
}

/// Adds what the panel says of the plan, all of it but the notes.
pub(crate) fn add(app: &App, page: &mut Page) {
    let said = Said::of(app);
    let Said::Plan(plan) = said else {
        let (headline, hue, text) = said.words(app);
        page.spans("", vec![Span::new(&headline, hue.bold()), Span::from(format!(" {text}"))]);
        return;
    };
    let (sign, hue) = sign(plan.outcome());
    page.text(&format!("{sign} {}", plan.outcome().headline()), hue.bold());
    page.text(&glance::state(plan), Hue::Text);
    let limits = limits(app, plan);
    for way in limits.found().map(|limits| glance::ways(plan, limits, &[])).unwrap_or_default() {
        page.push(way);
    }
    let growth = limits.found().map(|limits| verdict::growth(plan, limits)).unwrap_or_default();
    let besides = glance::besides(plan, limits.found(), app.request.speeds.as_ref());
    let besides = format!("{} {besides}", growth.trim()).trim().to_owned();
    let spills = ram::spills(&app.request.machine, plan);
    for sentences in std::iter::once(besides).chain(spills).filter(|sentences| !sentences.is_empty()) {
        page.text(&sentences, Hue::Text);
    }
}

/// The limits that the verdict names.
fn limits<'a>(app: &'a App, plan: &Plan) -> KnownLimits<'a> {
    // in VRAM it names no limit but the context's, which holds for any context
    match plan.outcome() {
        Outcome::Vram => app.request.known_along(Knob::Context),
        _ => app.request.known_limits(),
    }
}

/// The verdict's sentence; what depends on limits that are still being computed is `…`.
pub(crate) fn sentence(app: &App, plan: &Plan) -> String {
    let limits = limits(app, plan);
    let sentence = verdict::sentence(plan, limits.found(), app.request.speeds.as_ref());
    if limits == KnownLimits::Pending { format!("{sentence} …") } else { sentence }
}

/// Bytes per sweep of the progress mark, if the length is unknown.
const ROUND: u64 = 8 << 20;
/// Width of that mark.
const MARK: u16 = 6;
/// No speed is shown earlier.
const MIN_ELAPSED: Duration = Duration::from_millis(200);

/// Draws it into `place`: a line of text and a bar.
fn draw_loading(name: &str, now: Progress, took: Duration, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let speed = if took > MIN_ELAPSED {
        format!(", {}/s", Bytes((now.done as f64 / took.as_secs_f64()) as u64))
    } else {
        String::new()
    };
    let shard = if now.shards > 1 { format!(", shard {} of {}", now.shard + 1, now.shards) } else { String::new() };
    let mut writer = RowWriter::new(buffer, place, 0);
    writer.put("Reading ", theme.ink(Hue::Text)).put(name, theme.bold(Hue::Text));
    writer.put(&format!(": {} of its header{speed}{shard}", Bytes(now.done)), theme.ink(Hue::Text));
    let bar = Rect { y: place.y.saturating_add(1), height: place.height.saturating_sub(1).min(1), ..place };
    let mut writer = RowWriter::new(buffer, bar, 0);
    writer.right("  Esc stops", theme.ink(Hue::Dim));
    let cells = writer.room();
    let (from, to) = filled(now, cells);
    writer.put(&"─".repeat(from.into()), theme.ink(Hue::Border));
    writer.put(&"━".repeat((to - from).into()), theme.bold(Hue::Focus));
    writer.put(&"─".repeat((cells - to).into()), theme.ink(Hue::Border));
}

/// The filled cells. The length of a header is unknown in advance: with a single file a mark moves with the bytes read;
/// with several shards, the finished ones fill their share.
fn filled(now: Progress, cells: u16) -> (u16, u16) {
    let part = |ratio: Ratio| (ratio.0.clamp(0.0, 1.0) * f64::from(cells)).round() as u16;
    match now.total {
        Some(total) => (0, part(Bytes(now.done).share_of(Bytes(total)))),
        None if now.shards > 1 => (0, part(Bytes(now.shard).share_of(Bytes(now.shards)))),
        None => {
            let mark = MARK.min(cells);
            let at = Bytes(now.done % ROUND).share_of(Bytes(ROUND)).0 * f64::from(cells - mark);
            (at as u16, at as u16 + mark)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::theme::glyphs::ascii;

    #[test]
    fn partial_fits_have_their_own_sign_and_colour() {
        let part = Outcome::ExpertsInRam;
        for other in [Outcome::Vram, Outcome::LayersInRam, Outcome::Cpu, Outcome::DoesNotFit] {
            let ((mark, hue), (own, own_hue)) = (sign(other), sign(part));
            assert!(mark != own && ascii(mark) != ascii(own) && hue != own_hue, "{other:?}");
            assert_ne!(other.headline(), part.headline());
        }
    }

    proptest! {
        #[test]
        fn the_bar_stays_in_its_place(
            done in any::<u64>(), total in any::<Option<u64>>(), shard in any::<u64>(), shards in any::<u64>(), cells in 0u16..300,
        ) {
            let (from, to) = filled(Progress { done, total, shard, shards }, cells);
            prop_assert!(from <= to && to <= cells);
        }
    }

    #[test]
    fn a_mark_moves_with_the_bytes() {
        let at = |done| filled(Progress { done, total: None, shard: 0, shards: 1 }, 60).0;
        assert!(at(0) == 0 && at(ROUND / 2) == 27 && at(ROUND) == 0);
        assert_eq!(filled(Progress { done: 0, total: None, shard: 1, shards: 4 }, 60), (0, 15));
    }
}
