//! A comparison of machines for the same model.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::answer::Goal;
use crate::engine::PlanRequest;
use crate::machine::Machine;
use crate::page::palette::sign;
use crate::plan::{Headroom, Plan};
use crate::settings::knob::Knob;
use crate::tui::action::{Action, Command};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::query::{Each, Received};
use crate::tui::screen::{Response, Screen};
use crate::tui::theme::Hue;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, shortened, width, wrap};
use crate::units::{Bytes, Difference, Tokens};

/// Maximum number of machines side by side.
pub(super) const MAX_MACHINES: usize = 4;

/// Width of the names of the rows, and maximum width of a column.
const TITLES: u16 = 13;
const COLUMN: u16 = 26;

/// Rows above the table: a machine's name, two of its description, and a blank.
const HEAD: u16 = 4;

/// A plan, and the largest context with all in VRAM, in tokens; none if no context does.
#[derive(Clone, Debug)]
struct PlanWithLargest {
    plan: Plan,
    largest: Option<u64>,
}

impl PlanWithLargest {
    /// Plans `request`; one sentence if the engine refuses to.
    fn of(request: &PlanRequest) -> Result<Box<Self>, String> {
        let plan = request.plan().map_err(|error| error.to_string())?;
        let largest = request.largest_value(Knob::Context, Goal::Vram);
        Ok(Box::new(Self { plan, largest }))
    }
}

/// A row: its title, and text and colour for a machine.
type CompareRow = (&'static str, fn(&PlanWithLargest) -> (String, Hue));

const ROWS: [CompareRow; 8] = [
    ("verdict", |on| verdict(&on.plan)),
    ("on GPU", |on| (format!("{} of {}", on.plan.on_gpus(), on.plan.layers.len()), Hue::Text)),
    ("context", |on| (Tokens(on.plan.settings.ctx).to_string(), Hue::Text)),
    ("max context", |on| (on.largest.map_or_else(|| "–".to_owned(), |most| Tokens(most).to_string()), Hue::Focus)),
    ("GPU used", |on| (on.plan.totals.gpu.to_string(), Hue::Text)),
    ("GPU headroom", |on| left(gpus_left(&on.plan))),
    ("RAM used", |on| (on.plan.totals.cpu.to_string(), Hue::Text)),
    ("RAM headroom", |on| left(on.plan.headroom(on.plan.gpus().len()))),
];

fn verdict(plan: &Plan) -> (String, Hue) {
    let (mark, hue) = sign(plan.outcome());
    (format!("{mark} {}", plan.outcome().headline()), hue)
}

/// What GPUs have left above what must stay free; where one is short of that, what it lacks.
fn gpus_left(plan: &Plan) -> Difference {
    let above: Vec<Difference> = plan.headrooms().iter().take(plan.gpus().len()).map(Headroom::above_kept).collect();
    let all = above.iter().map(|above| above.left()).sum();
    above.into_iter().min().filter(|least| least.is_short()).unwrap_or_else(|| Difference::between(all, Bytes::ZERO))
}

fn left(left: Difference) -> (String, Hue) {
    (left.to_string(), if left.is_short() { Hue::Over } else { Hue::Text })
}

/// The state of the comparison.
#[derive(Debug)]
pub(super) struct MachineComparison {
    /// The machines by name, the present one first.
    machines: Vec<(String, Arc<Machine>)>,
    /// The plan on each machine, or why there is none; those that are known.
    planned: Vec<Result<Box<PlanWithLargest>, String>>,
    query: u64,
}

impl MachineComparison {
    /// Compares the machines `with` with the present one, in place of the list of them.
    pub(super) fn open(app: &mut App, with: Vec<(String, Arc<Machine>)>) -> Response {
        let present = ("current".to_owned(), Arc::clone(&app.request.machine));
        let machines = [present].into_iter().chain(with).collect();
        let mut page = Self { machines, planned: Vec::new(), query: 0 };
        let effects = page.ask(app);
        Response::Open(Box::new(page), effects)
    }

    /// Number of columns.
    fn count(&self) -> u16 {
        self.machines.len().max(1) as u16
    }
}

impl Screen for MachineComparison {
    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        self.planned.clear();
        let Some(of) = app.request.plan_request() else { return Vec::new() };
        let requests = self.machines.iter().map(|(_, machine)| of.on_machine(Arc::clone(machine))).collect();
        app.request.ask(Each { requests, answer: PlanWithLargest::of }, &mut self.query)
    }

    fn press(&mut self, _: &mut App, command: Command) -> Response {
        match command {
            Command::Back | Command::Enter => Response::CLOSE,
            _ => Response::Ignored,
        }
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        if let Some(Received::Part((_, planned))) = answer.part_of::<Each<_>>(self.query) {
            self.planned.push(planned);
        }
        Response::STAY
    }

    fn area(&self, app: &App) -> Rect {
        app.panels.regions.overlay((TITLES + self.count() * COLUMN + 6).max(58), ROWS.len() as u16 + HEAD + 4)
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        let theme = app.theme;
        let inner = panel::overlay(buffer, self.area(app), "Side by side", "Esc back", theme);
        let column = (inner.width.saturating_sub(TITLES) / self.count()).min(COLUMN);
        let cell = |at: u16| Rect { x: inner.x + TITLES + at * column, width: column.saturating_sub(1), ..inner };
        for (row, (title, _)) in ROWS.iter().enumerate() {
            RowWriter::new(buffer, inner, row as u16 + HEAD).put(title, theme.ink(Hue::Dim));
        }
        for (at, (name, machine)) in (0..self.count()).zip(&self.machines) {
            RowWriter::new(buffer, cell(at), 0).put(name, theme.bold(Hue::Focus));
            let is = wrap(&machine.to_string(), cell(at).width);
            for (row, from) in (1..HEAD - 1).zip(0..is.len()) {
                // the last row holds the rest, shortened
                let to = if row == HEAD - 2 { is.len() } else { from + 1 };
                let text = shortened(&is[from..to].join(" "), cell(at).width);
                RowWriter::new(buffer, cell(at), row).put(&text, theme.ink(Hue::Dim));
            }
            match self.planned.get(usize::from(at)) {
                Some(Ok(on)) => {
                    for (row, (_, text_of)) in ROWS.iter().enumerate() {
                        let (text, hue) = text_of(on);
                        let ink = if hue == Hue::Text { theme.ink(hue) } else { theme.bold(hue) };
                        RowWriter::new(buffer, cell(at), row as u16 + HEAD).put(&text, ink);
                    }
                }
                Some(Err(why)) => drop(RowWriter::new(buffer, cell(at), HEAD).put(why, theme.ink(Hue::Over))),
                None => drop(RowWriter::new(buffer, cell(at), HEAD).put("planning…", theme.ink(Hue::Dim))),
            }
        }
        let note = "max context: the largest with all in VRAM";
        if width(note) <= inner.width {
            RowWriter::new(buffer, inner, ROWS.len() as u16 + HEAD + 1).put(note, theme.ink(Hue::Dim));
        }
    }
}
