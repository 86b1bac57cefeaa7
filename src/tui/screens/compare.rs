//! Plans side by side: one column each, with the differences from the first marked.
//!
//! ```text
//!                  ▸A · now                  B
//!                   Llama 3.1 8B · Q4_K_M    Llama 3.1 8B · Q4_K_M
//!                   ✓ Fits                   ▲ Split
//!   GPU0            ████▓▓▒░······           ██████▓▓▓▓▒░·
//!   asked of free   11.2 of 24.0 GiB         22.8 of 24.0 GiB
//! ≠ cache           1.0 GiB                  4.0 GiB ▲ 3.0 GiB
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};

use crate::answer::compare::{self, ComparedValue, ComparisonGroup, ComparisonRow, Difference, compare};
use crate::model::ModelSummary;
use crate::page::palette::sign;
use crate::plan::{DevicePlan, Plan};
use crate::speed::Speeds;
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::app::{App, Pin};
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::query::{Each, PlanWithSpeeds, PlannedRequest, Received};
use crate::tui::screen::{Response, Screen};
use crate::tui::theme::{Hue, Theme};
use crate::tui::view::figure;
use crate::tui::view::memory::{self, Lent};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{self, RowWriter, named, shortened};
use crate::units::Bytes;

/// Width of the names of the rows.
const NAMES: u16 = 17;
/// Minimum and maximum width of a column, and of the gap after it.
const MIN_COLUMN: u16 = 19;
const MAX_COLUMN: u16 = 42;
const GAP: u16 = 2;
/// Rows of a column's head: title, model, verdict and a blank; one more if a quantisation does not fit next to the
/// model's name.
const HEAD: u16 = 4;

/// Maximum number of plans side by side.
pub const MAX_PLANS: usize = 4;

/// The state of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparePage {
    /// The selected column.
    chosen: usize,
    scroll: u16,
    query: u64,
    /// The letters of the pins whose plans are asked for.
    asked: Vec<char>,
}

impl ComparePage {
    /// Pins the present plan; the comparison, if there is anything to compare it with.
    pub fn pin(app: &mut App) -> Option<Self> {
        let Some(plan_request) = app.request.plan_request() else {
            app.notice = Some("There is no plan to pin yet: open a model with o.".to_owned());
            return None;
        };
        if app.request.is_current() && app.request.refused.is_some() {
            app.notice = Some("The engine refuses these settings: there is no plan to pin.".to_owned());
            return None;
        }
        let mut chosen = app.pins.iter().position(|pin| pin.plan_request == plan_request);
        if chosen.is_none() {
            if let Some(letter) = app.free_letter() {
                chosen = Some(app.pins.len());
                // the plan on the screen may be older than the last key
                let plan = app.request.plan.as_deref().filter(|_| app.request.is_current());
                let with_speeds =
                    |plan: &Plan| PlanWithSpeeds { plan: plan.clone(), speeds: app.request.speeds.clone() };
                let planned = plan.map(|plan| Ok(Box::new(with_speeds(plan))));
                app.pins.push(Pin { letter, plan_request, planned });
                if app.pins.len() == 1 {
                    app.notice = Some(format!("Pinned as {letter}. Change something, then press c to compare."));
                    return None;
                }
            } else {
                app.notice = Some("Four plans are pinned: unpin one with x first.".to_owned());
            }
        }
        Some(Self { chosen: chosen.unwrap_or(0), ..Self::default() })
    }

    /// The pinned plans, and the present one if it is not among them and has room.
    fn columns<'a>(&self, app: &'a App) -> PlanColumns<'a> {
        let now = app.request.plan_request();
        let is_now = |pin: &Pin| now.as_ref() == Some(&pin.plan_request);
        let title = |pin: &Pin| if is_now(pin) { format!("{} · now", pin.letter) } else { pin.letter.to_string() };
        let mut columns: Vec<_> = app.pins.iter().map(|pin| PlanColumn::of(title(pin), pin.planned.as_ref())).collect();
        if columns.len() < MAX_PLANS && !app.pins.iter().any(is_now) && app.request.refused.is_none() {
            columns.extend(PlanColumn::now("now".to_owned(), app));
        }
        PlanColumns { columns, chosen: self.chosen, scroll: self.scroll }
    }
}

impl Screen for ComparePage {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Compare, Scope::Page, Scope::Everywhere]
    }

    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        let unplanned = app.pins.iter().filter(|pin| pin.planned.is_none());
        let (letters, requests): (_, Vec<_>) = unplanned.map(|pin| (pin.letter, pin.plan_request.clone())).unzip();
        self.asked = letters;
        app.request.ask(Each { requests, answer: PlanWithSpeeds::of }, &mut self.query)
    }

    fn answer(&mut self, app: &mut App, answer: Action) -> Response {
        if let Some(Received::Part((at, planned))) = answer.part_of::<Each<_>>(self.query)
            && let Some(pin) = app.pins.iter_mut().find(|pin| self.asked.get(at) == Some(&pin.letter))
        {
            pin.planned = Some(planned);
        }
        Response::STAY
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        let last = self.columns(app).columns.len().saturating_sub(1);
        match command {
            Command::Less => self.chosen = self.chosen.saturating_sub(1),
            Command::More => self.chosen = (self.chosen + 1).min(last),
            Command::Enter => {
                if let Some(plan_request) = app.pins.get(self.chosen).map(|pin| pin.plan_request.clone()) {
                    app.apply_request(plan_request);
                }
                return Response::CLOSE;
            }
            Command::Unpin => {
                if self.chosen < app.pins.len() {
                    app.pins.remove(self.chosen);
                } else {
                    app.notice = Some("The current plan is not pinned.".to_owned());
                }
                if app.pins.is_empty() {
                    return Response::CLOSE;
                }
                self.chosen = self.chosen.min(self.columns(app).columns.len().saturating_sub(1));
            }
            _ => return Response::Ignored,
        }
        Response::STAY
    }

    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        let columns = self.columns(app);
        match columns.column_at(app, at).filter(|_| gesture == Gesture::Down) {
            Some(column) if column == self.chosen => self.press(app, Command::Enter),
            Some(column) => {
                self.chosen = column;
                Response::STAY
            }
            None => Response::Ignored,
        }
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn area(&self, app: &App) -> Rect {
        self.columns(app).area(app)
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        let columns = self.columns(app);
        let right_title = match columns.columns.as_slice() {
            [] | [_] => "change something, then press c to compare".to_owned(),
            [first, ..] => format!("≠ differs from {}", first.title),
        };
        columns.draw_overlay(app, "Compare", &right_title, buffer);
    }
}

/// A plan with a title.
#[derive(Clone, Debug)]
pub struct PlanColumn<'a> {
    /// Its title: `A`, `llama.cpp`.
    pub title: String,
    /// The plan, or the engine's error.
    pub plan: Result<&'a Plan, String>,
    /// Its speeds.
    pub speeds: Option<&'a Speeds>,
}

impl<'a> PlanColumn<'a> {
    /// A request's plan; none while it is being made.
    pub fn of(title: String, planned: Option<&'a PlannedRequest>) -> Self {
        let (plan, speeds) = match planned {
            Some(Ok(planned)) => (Ok(&planned.plan), planned.speeds.as_ref()),
            Some(Err(why)) => (Err(why.clone()), None),
            None => (Err("…".to_owned()), None),
        };
        Self { title, plan, speeds }
    }

    /// The plan on the screen, if there is one.
    pub fn now(title: String, app: &'a App) -> Option<Self> {
        Some(Self { title, plan: Ok(app.request.plan.as_deref()?), speeds: app.request.speeds.as_ref() })
    }
}

/// Plans side by side.
#[derive(Clone, Debug)]
pub struct PlanColumns<'a> {
    /// The plans.
    pub columns: Vec<PlanColumn<'a>>,
    /// The selected column.
    pub chosen: usize,
    /// Scrolled lines; clamped when drawn.
    pub scroll: u16,
}

impl PlanColumns<'_> {
    /// The area of the overlay.
    pub fn area(&self, app: &App) -> Rect {
        app.panels.regions.overlay(u16::MAX, height(&self.columns, app.panels.regions.screen.width).saturating_add(2))
    }

    /// The column at this position.
    fn column_at(&self, app: &App, at: Position) -> Option<usize> {
        // the frame and a blank on either side
        let area = self.area(app).inner(Margin::new(2, 1));
        let ColumnLayout { first, fit, wide, .. } = ColumnLayout::of(&self.columns, self.chosen, area.width);
        let column = first + usize::from(at.x.checked_sub(area.x + NAMES)?.checked_div(wide)?);
        (area.contains(at) && column < first + fit).then_some(column)
    }

    /// Draws them as an overlay.
    pub fn draw_overlay(&self, app: &App, title: &str, right_title: &str, buffer: &mut Buffer) {
        let inner = panel::overlay(buffer, self.area(app), title, right_title, app.theme);
        draw(self, inner, app.theme, buffer);
    }
}

/// A line of the scrolled part.
enum CompareLine<'a> {
    Title(&'a str),
    Figures(&'a ComparisonRow),
    /// The bar of a GPU by its index, or of RAM.
    Bar(Option<usize>),
    Figure(Option<usize>),
    Blank,
}

/// Rows needed to show all figures on a screen of this width.
fn height(columns: &[PlanColumn<'_>], screen: u16) -> u16 {
    let plans = plans(columns);
    // plus the frame and a blank on either side
    lines(&compare(&compared(columns)), &plans).len() as u16
        + ColumnLayout::of(columns, 0, screen.saturating_sub(4)).head
}

/// The visible columns, their width including the gap, and the rows of their heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ColumnLayout {
    first: usize,
    fit: usize,
    wide: u16,
    head: u16,
}

impl ColumnLayout {
    /// As many `columns` as fit into `width` cells, with the selected one among them.
    fn of(columns: &[PlanColumn<'_>], chosen: usize, width: u16) -> Self {
        let room = width.saturating_sub(NAMES);
        let fit = usize::from(room / MIN_COLUMN).clamp(1, columns.len().max(1));
        let first = chosen.saturating_sub(fit - 1).min(columns.len().saturating_sub(fit));
        let wide = (room / fit as u16).min(MAX_COLUMN);
        let models = columns.iter().filter_map(|column| column.plan.as_ref().ok()).map(|plan| &plan.model);
        let cells = |model: &ModelSummary| row_writer::width(&model.name) + row_writer::width(&quantisation(model));
        let apart = models.map(cells).any(|cells| cells > wide.saturating_sub(GAP));
        Self { first, fit, wide, head: HEAD + u16::from(apart) }
    }
}

/// ` · Q4_K_M`
fn quantisation(model: &ModelSummary) -> String {
    model.file_type.as_ref().map_or_else(String::new, |fact| format!(" · {fact}"))
}

fn compared<'a>(columns: &[PlanColumn<'a>]) -> Vec<Option<compare::ComparedPlan<'a>>> {
    let speeds = columns.iter().map(|column| column.speeds);
    let compared = |(plan, speeds): (Option<&'a Plan>, _)| plan.map(|plan| compare::ComparedPlan { plan, speeds });
    plans(columns).into_iter().zip(speeds).map(compared).collect()
}

fn plans<'a>(columns: &[PlanColumn<'a>]) -> Vec<Option<&'a Plan>> {
    columns.iter().map(|column| column.plan.as_ref().ok().copied()).collect()
}

/// Draws as many `columns` as fit into `area`, with the selected one among them.
fn draw(shown: &PlanColumns<'_>, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let columns = &shown.columns;
    let area = area.intersection(buffer.area);
    let plans = plans(columns);
    let groups = compare(&compared(columns));
    let lines = lines(&groups, &plans);

    let ColumnLayout { first, fit, wide, head: rows } = ColumnLayout::of(columns, shown.chosen, area.width);
    let place = |at: usize| {
        let x = area.x.saturating_add(NAMES).saturating_add(wide.saturating_mul((at - first) as u16));
        Rect { x, width: wide.saturating_sub(GAP), ..area }.intersection(area)
    };
    for (at, column) in columns.iter().enumerate().skip(first).take(fit) {
        head(column, rows, shown.chosen == at, place(at), theme, buffer);
    }
    if fit < columns.len() {
        let text = format!("{} to {} of {}", first + 1, first + fit, columns.len());
        RowWriter::new(buffer, Rect { width: NAMES, ..area }, 0).put(&text, theme.ink(Hue::Dim));
    }

    let body = area.height.saturating_sub(rows);
    // a row of its own shows how many lines follow
    let body = if lines.len() > usize::from(body) { body.saturating_sub(1) } else { body };
    let scroll = shown.scroll.min((lines.len() as u16).saturating_sub(body));
    for (row, line) in lines.iter().skip(usize::from(scroll)).take(usize::from(body)).enumerate() {
        let y = area.y + rows + row as u16;
        name(line, &plans, Rect { y, height: 1, width: NAMES.min(area.width), ..area }, theme, buffer);
        for at in first..first + fit {
            let place = Rect { y, height: 1, ..place(at) };
            match line {
                CompareLine::Figures(row) => figures(row, at, place, theme, buffer),
                CompareLine::Bar(gpu) => bar(&plans, at, *gpu, place, theme, buffer),
                CompareLine::Figure(gpu) => asked(&plans, at, *gpu, place, theme, buffer),
                CompareLine::Title(_) | CompareLine::Blank => {}
            }
        }
    }
    let below = lines.len().saturating_sub(usize::from(scroll + body));
    if below > 0 && body > 0 {
        let last = Rect { y: area.y + rows + body, height: 1, ..area };
        RowWriter::new(buffer, last, 0).right(&format!("{below} more ↓"), theme.ink(Hue::Dim));
    }
}

fn lines<'a>(groups: &'a [ComparisonGroup], plans: &[Option<&Plan>]) -> Vec<CompareLine<'a>> {
    let gpus = plans.iter().flatten().map(|plan| plan.gpus().len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for device in (0..gpus).map(Some).chain([None]) {
        lines.extend([CompareLine::Bar(device), CompareLine::Figure(device)]);
    }
    for group in groups {
        lines.extend([CompareLine::Blank, CompareLine::Title(group.title)]);
        lines.extend(group.rows.iter().map(CompareLine::Figures));
    }
    lines
}

/// Draws the head of a column, `rows` high including the blank row.
fn head(column: &PlanColumn<'_>, rows: u16, chosen: bool, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let ink = if chosen { theme.bold(Hue::Focus) } else { theme.bold(Hue::Text) };
    if chosen {
        buffer.set_style(Rect { height: 1, ..place }, theme.selected());
    }
    let before = Rect { x: place.x.saturating_sub(1), width: place.width + 1, ..place };
    // keep the release, which may be all that differs from the neighbour
    let (name, fact) = column.title.split_at(column.title.rfind(" · ").unwrap_or(column.title.len()));
    let title = named(name, fact, place.width);
    RowWriter::new(buffer, before, 0).put(if chosen { "▸" } else { " " }, ink).put(&title, ink);
    match &column.plan {
        Ok(plan) => {
            let (mark, hue) = sign(plan.outcome());
            let fact = quantisation(&plan.model);
            let mut writer = RowWriter::new(buffer, place, 1);
            if rows == HEAD {
                writer.put(&plan.model.name, theme.ink(Hue::Text)).put(&fact, theme.ink(Hue::Dim));
            } else {
                writer.put(&shortened(&plan.model.name, place.width), theme.ink(Hue::Text));
                RowWriter::new(buffer, place, 2).put(fact.trim_start_matches(" · "), theme.ink(Hue::Dim));
            }
            RowWriter::new(buffer, place, rows - 2)
                .put(&format!("{mark} {}", plan.outcome().headline()), theme.bold(hue));
        }
        Err(why) => {
            RowWriter::new(buffer, place, 1).put("✗ No plan", theme.bold(Hue::Over));
            RowWriter::new(buffer, place, 2).put(why, theme.ink(Hue::Over));
        }
    }
}

fn name(line: &CompareLine<'_>, plans: &[Option<&Plan>], place: Rect, theme: Theme, buffer: &mut Buffer) {
    let mut writer = RowWriter::new(buffer, place, 0);
    match line {
        CompareLine::Title(title) => drop(writer.put(title, theme.bold(Hue::Focus))),
        CompareLine::Figures(row) if row.differs() => {
            writer.put("≠ ", theme.bold(Hue::Focus)).put(&row.name, theme.bold(Hue::Text));
        }
        CompareLine::Figures(row) => drop(writer.skip(2).put(&row.name, theme.ink(Hue::Dim))),
        CompareLine::Bar(device) => {
            let gpu_count = plans.iter().flatten().map(|plan| plan.gpus().len()).max().unwrap_or(0);
            let ink = theme.device(device.unwrap_or(gpu_count), gpu_count + 1);
            let id = (0..plans.len()).find_map(|at| self::device(plans, at, *device)).map(|device| device.id.as_str());
            writer.skip(2).put(id.filter(|_| device.is_some()).unwrap_or("RAM"), ink);
        }
        CompareLine::Figure(_) => drop(writer.skip(2).put("used of free", theme.ink(Hue::Dim))),
        CompareLine::Blank => {}
    }
}

fn figures(row: &ComparisonRow, at: usize, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let (Some(figure), Some(first)) = (row.figures.get(at), row.figures.first()) else { return };
    let against = figure.against(first);
    let ink = match against {
        _ if !row.differs() => theme.ink(Hue::Dim),
        Difference::Same => theme.ink(Hue::Text),
        _ => theme.bold(Hue::Focus),
    };
    let mut writer = RowWriter::new(buffer, place, 0);
    writer.put(&figure.to_string(), ink);
    if *figure == ComparedValue::Nothing {
        return;
    }
    let (direction, by) = match against {
        Difference::More(by) => (" ▲", format!(" {by}")),
        Difference::Less(by) => (" ▼", format!(" {by}")),
        Difference::Times(times) => (if times.helps() { " ▲" } else { " ▼" }, format!(" × {:.2}", times.0)),
        Difference::Higher => (" ▲", String::new()),
        Difference::Lower => (" ▼", String::new()),
        Difference::Same | Difference::Other => return,
    };
    writer.put(direction, theme.ink(Hue::Cache));
    // never truncated
    if row_writer::width(&by) <= writer.room() {
        writer.put(&by, theme.ink(Hue::Cache));
    }
}

/// The GPU with this index, or RAM, of the plan in column `at`.
fn device<'a>(plans: &[Option<&'a Plan>], at: usize, gpu: Option<usize>) -> Option<&'a DevicePlan> {
    let plan = plans.get(at).copied().flatten()?;
    gpu.map_or_else(|| Some(plan.cpu()), |gpu| plan.gpus().get(gpu))
}

/// Draws the bar of a device; its length compares its memory with that of the other plans.
fn bar(plans: &[Option<&Plan>], at: usize, gpu: Option<usize>, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let Some(own) = device(plans, at, gpu) else { return };
    let largest = (0..plans.len()).filter_map(|at| device(plans, at, gpu)).map(|device| device.total).max();
    let share = own.total.share_of(largest.unwrap_or(Bytes::ZERO)).0;
    let cells = (share * f64::from(place.width)).round().clamp(1.0, f64::from(place.width).max(1.0)) as u16;
    let Some(plan) = plans.get(at).copied().flatten() else { return };
    let index = gpu.unwrap_or(plan.gpus().len());
    let (of_model, lent) = (memory::of_model(plan, index), Lent::of(plan, index));
    memory::draw_bar(own, &of_model, lent, Rect { width: cells, ..place }, theme, buffer);
}

fn asked(plans: &[Option<&Plan>], at: usize, gpu: Option<usize>, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let Some(own) = device(plans, at, gpu) else { return };
    let Some(plan) = plans.get(at).copied().flatten() else { return };
    let lent = Lent::of(plan, gpu.unwrap_or(plan.gpus().len()));
    let ink = if lent.is_over { theme.bold(Hue::Over) } else { theme.ink(Hue::Dim) };
    let over = if lent.is_over { " ✗ over" } else { "" };
    let asked = own.asked() + lent.bytes;
    let [long, short] = [figure::of, figure::of_in_short].map(|of| format!("{}{over}", of(asked, own.free)));
    RowWriter::new(buffer, place, 0).put(if row_writer::width(&long) <= place.width { &long } else { &short }, ink);
}
