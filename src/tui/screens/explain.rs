//! Where a number comes from: formula, values, engine and confidence.

use crate::answer::KnobLimits;
use crate::answer::verdict::capitalised;
use crate::gguf::Tensor;
use crate::model::{Model, TensorGroup};
use crate::page::{Block, Column, Hue, Narrow, Page, Span, Table, exactly};
use crate::plan::{Branch, BufferUse, GraphSize, GraphUse, Plan, Term};
use crate::question::why::device;
use crate::settings::knob::Knob;
use crate::speed::turn::Reuse;
use crate::teach::glossary::Term as GlossaryTerm;
use crate::teach::lessons;
use crate::tui::action::Command;
use crate::tui::app::{App, KnownLimits};
use crate::tui::keymap::Scope;
use crate::tui::planner::{self, knobs};
use crate::tui::regions::Panel;
use crate::tui::screen::{Response, Screen};
use crate::tui::screens::placement::{PlacementScreen, PlacementSubject};
use crate::tui::screens::teach::TeachScreen;
use crate::tui::view::{graph, peaks};
use crate::tui::widget::page::Overlay;
use crate::units::{Bytes, grouped};

/// Width of names.
const NAMES: usize = 18;

/// What is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainTarget {
    /// A knob: its range, the user's choice, the value in effect.
    Knob(Knob),
    /// A layer, by its index in the plan: its tensors, its cache, its device and why.
    Layer(usize),
    /// A device, by its index in the plan: its memory.
    Device(usize),
    /// A line of the graph panel.
    Graph(usize),
}

impl ExplainTarget {
    /// The focused item.
    pub fn of(app: &App) -> Self {
        match app.panels.focus {
            Panel::Knobs => Self::Knob(app.panels.knobs.focus),
            Panel::Layers => Self::Layer(app.panels.cursors.layer),
            Panel::Memory => Self::Device(app.panels.cursors.device),
            Panel::Graph => Self::Graph(app.panels.cursors.term),
        }
    }

    /// What the glossary has on it.
    pub fn term(self, app: &App) -> Option<GlossaryTerm> {
        match self {
            Self::Knob(knob) => Some(GlossaryTerm::Knob(knob)),
            Self::Graph(line) => {
                let kind = app.request.plan.as_deref().and_then(|plan| peaks::kind(plan, &app.panels.cursors, line));
                Some(kind.map_or(GlossaryTerm::Memory(BufferUse::Graph), GlossaryTerm::Buffer))
            }
            Self::Layer(_) | Self::Device(_) => None,
        }
    }

    /// The index of the lesson on it.
    pub fn lesson(self, app: &App) -> Option<usize> {
        let knob = match self {
            Self::Layer(_) | Self::Device(_) => Some(Knob::GpuLayers),
            Self::Knob(_) | Self::Graph(_) => self.term(app).and_then(GlossaryTerm::knob),
        };
        knob.and_then(lessons::on_knob)
    }
}

/// The state of the page.
#[derive(Debug)]
pub struct ExplainPage {
    subject: ExplainTarget,
    scroll: u16,
}

impl ExplainPage {
    /// The page on the focused item.
    pub fn of(app: &App) -> Self {
        Self { subject: ExplainTarget::of(app), scroll: 0 }
    }
}

impl Screen for ExplainPage {
    fn scopes(&self) -> &'static [Scope] {
        match self.subject {
            ExplainTarget::Layer(_) | ExplainTarget::Device(_) => {
                &[Scope::Details, Scope::Explain, Scope::Page, Scope::Everywhere]
            }
            ExplainTarget::Knob(_) | ExplainTarget::Graph(_) => &[Scope::Explain, Scope::Page, Scope::Everywhere],
        }
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        match (command, self.subject) {
            (Command::Enter, _) => return Response::CLOSE,
            (Command::Teach, subject) => {
                let mut screen = TeachScreen::about(app, subject);
                let effects = screen.ask(app);
                return Response::Open(Box::new(screen), effects);
            }
            (Command::Placement, ExplainTarget::Layer(layer)) => {
                return PlacementScreen::open(app, PlacementSubject::Layer(layer));
            }
            (Command::Placement, ExplainTarget::Device(device)) => {
                return PlacementScreen::open(app, PlacementSubject::Device(device));
            }
            // the neighbour
            (Command::Less, ExplainTarget::Knob(_)) => knobs::turn(app, Command::Up),
            (Command::More, ExplainTarget::Knob(_)) => knobs::turn(app, Command::Down),
            (Command::Less | Command::More, _) => planner::move_cursor(app, command),
            _ => return Response::Ignored,
        }
        *self = Self::of(app);
        Response::STAY
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn page(&self, app: &App) -> Option<Overlay> {
        let plan = app.request.plan.as_ref()?;
        let (page, title) = page(app, plan, self.subject);
        Some(Overlay::new(page, &capitalised(&title), self.scroll))
    }
}

/// The page on `subject`, and its title.
fn page(app: &App, plan: &Plan, subject: ExplainTarget) -> (Page, String) {
    let mut page = Page::default();
    let title = match subject {
        ExplainTarget::Knob(knob) => {
            on_knob(app, plan, knob, &mut page);
            knob.title().to_owned()
        }
        ExplainTarget::Layer(layer) => {
            on_layer(app, plan, layer, &mut page);
            plan.layer_name(layer)
        }
        ExplainTarget::Device(device) => {
            device::add(app.request.plan_request().as_ref(), plan, app.request.speeds.as_ref(), device, &mut page);
            plan.device_name(device).to_owned()
        }
        ExplainTarget::Graph(line) => on_graph(app, plan, line, &mut page),
    };
    if let ExplainTarget::Knob(Knob::Context | Knob::CacheType | Knob::CacheTypeK | Knob::CacheTypeV) = subject {
        caches(plan, &mut page);
    }
    further(app, subject, &mut page);
    device::confidence(app.request.choice(), plan, &mut page);
    (page, title)
}

/// The formulas of all caches, and what a token takes of them.
fn caches(plan: &Plan, page: &mut Page) {
    let formulas = plan.cache_formulas();
    // an estimator has letters of its own
    if formulas.is_empty() || !plan.graph.legend.is_empty() {
        return;
    }
    page.heading("KV cache of all layers");
    for (count, term) in formulas {
        let bytes = Bytes(term.bytes.0.saturating_mul(count as u64));
        let several = |text: &str| if text.contains(" + ") { format!("({text})") } else { text.to_owned() };
        let layers = if count == 1 { "layer" } else { "layers" };
        page.text(&format!("{layers} × {} = {bytes}", several(&term.formula)), Hue::Text);
        page.text(&format!("= {count} × {}", several(&term.numbers)), Hue::Dim);
    }
    per_token(plan, page);
}

fn per_token(plan: &Plan, page: &mut Page) {
    if let Some(all) = plan.cache_per_token() {
        page.pair("per token", NAMES, &format!("{all} in all layers together"), Hue::Text);
    }
}

/// Where teach pages say more of it.
fn further(app: &App, subject: ExplainTarget, page: &mut Page) {
    let lesson = subject.lesson(app).and_then(|at| Some((at + 1, lessons::all().get(at)?)));
    let lesson = lesson.map(|(number, lesson)| format!("lesson {number}, {}", lesson.title));
    let place = match subject {
        ExplainTarget::Layer(_) | ExplainTarget::Device(_) => Some("its place among the layers".to_owned()),
        ExplainTarget::Knob(_) | ExplainTarget::Graph(_) => {
            lesson.clone().or_else(|| Some("its place in the glossary".to_owned()))
        }
    };
    page.heading("More on it");
    page.pair("t", NAMES, &place.unwrap_or_default(), Hue::Text);
    if let (ExplainTarget::Layer(_) | ExplainTarget::Device(_), Some(lesson)) = (subject, lesson) {
        page.pair("then Lessons", NAMES, &lesson, Hue::Text);
    }
}

/// Why a cache type may cost memory.
const COPIES: &str = "On CUDA and ROCm cards, flash attention reads f16: of any other type it takes an f16 copy of one \
                      layer's cache while it computes. Vulkan reads all types as they are.";

fn on_knob(app: &App, plan: &Plan, knob: Knob, page: &mut Page) {
    let text = Hue::Text;
    page.text(knob.description(), Hue::Text);
    page.blank();
    let chosen = knob.chosen(&app.request.settings, &app.request.bounds);
    page.pair("set to", NAMES, &chosen.map_or_else(|| on_auto(knob).to_owned(), |value| knob.show(value)), text);
    if let (Knob::TensorSplit, Some(first)) = (knob, chosen) {
        page.pair("shares", NAMES, &knob.typed(&app.request.settings, first), text);
    }
    page.pair("in effect", NAMES, &knob.shown_in(plan), text);
    if let Some(request) = app.request.plan_request().filter(|_| knob.is_of_a_turn()) {
        let reuse = Reuse::of(&request.model, plan, app.request.settings.swa_full);
        page.text(&capitalised(&format!("{}.", reuse.reason)), text);
    }
    if let Some(words) = knob.choices() {
        page.pair("choices", NAMES, &words.join(", "), text);
    } else {
        let stops = knob.stops(&app.request.bounds);
        page.pair("range", NAMES, &format!("{} to {}", knob.show(stops.first()), knob.show(stops.last())), text);
    }
    let name = if knob == Knob::CpuMoe { "min that fits" } else { "max that fits" };
    if KnobLimits::ASKED.contains(&knob) && app.request.known_along(knob) == KnownLimits::Pending {
        page.pair(name, NAMES, "…", text);
    }
    if let Some(most) = app.request.limit(knob) {
        let what = format!("{} with all in VRAM, other knobs unchanged", knob.show(most));
        page.pair(name, NAMES, &what, text);
    }
    if matches!(knob, Knob::CacheType | Knob::CacheTypeK | Knob::CacheTypeV) {
        if app.request.known_limits() == KnownLimits::Pending {
            page.pair("types", NAMES, "…", text);
        }
        for cost in app.request.known_limits().found().map_or(&[][..], |limits| &limits.cache_types) {
            let took = format!("{} of cache, {} of compute buffers", cost.cache, cost.graph);
            let against = cost.against_in_force().map_or(took.clone(), |against| format!("{took}: {against}"));
            page.pair(&cost.cache_type.to_string(), NAMES, &against, text);
        }
        page.text(COPIES, Hue::Text);
    }
    if !plan.notes.is_empty() {
        page.heading("Engine notes");
        plan.notes.iter().for_each(|note| page.text(note, Hue::Text));
    }
}

/// The text for a knob without a value set by the user.
const fn on_auto(knob: Knob) -> &'static str {
    match knob {
        Knob::Quant => "auto: as opened",
        _ => "auto: chosen by the engine",
    }
}

fn on_layer(app: &App, plan: &Plan, index: usize, page: &mut Page) {
    let text = Hue::Text;
    let Some(layer) = plan.layers.get(index) else { return };
    page.pair("device", NAMES, &device::device_text(plan, layer.device), text);
    page.pair("reason", NAMES, &layer.reason(&plan.devices), text);
    page.pair("weights", NAMES, &exactly(layer.weights), text);
    page.pair("cache", NAMES, &exactly(layer.cache), text);
    if layer.cache > Bytes::ZERO {
        term(&layer.cache_term, page);
        legend(plan, &[&layer.cache_term.formula], page);
        per_token(plan, page);
    }
    if let Some(own) = plan.own_caches.as_ref().and_then(|own| own.layers.get(index)) {
        page.heading("Allocated by Ollama's own engine");
        page.pair("cache", NAMES, &exactly(own.bytes()), text);
        page.pair("holds", NAMES, &own.description(), text);
        if own.checkpoints > Bytes::ZERO {
            page.pair("checkpoints", NAMES, &format!("up to {}", exactly(own.checkpoints)), text);
        }
    }
    let Some(model) = &app.request.model else { return };
    page.heading("Tensors");
    let mut tensors = tensors_of(model, plan, index);
    tensors.sort_by_key(|tensor| std::cmp::Reverse(tensor.bytes));
    let row = |tensor: &&Tensor| {
        let dims: Vec<String> = tensor.dims.iter().map(ToString::to_string).collect();
        let name = tensor.name.strip_prefix(&format!("blk.{index}.")).unwrap_or(&tensor.name);
        let [ty, shape] = [tensor.ty.to_string(), dims.join(" × ")].map(|text| Span::new(&text, Hue::Dim));
        vec![name.into(), ty, shape, Span::new(&tensor.bytes.to_string(), Hue::Weights)]
    };
    let columns = vec![Column::left("", 30), Column::left("", 7), Column::left("", 19), Column::right("", 9)];
    let rows = tensors.iter().map(row).collect();
    page.push(Block::Table(Table { columns, rows, gap: 1, head: true, narrow: Narrow::Cut(0) }));
}

fn tensors_of<'a>(model: &'a Model, plan: &Plan, index: usize) -> Vec<&'a Tensor> {
    if index + 1 == plan.layers.len() {
        model.output_tensors().collect()
    } else {
        model.tensors(TensorGroup::Block(index)).collect()
    }
}

fn on_graph(app: &App, plan: &Plan, line: usize, page: &mut Page) -> String {
    if !plan.graph.peaks.is_empty() {
        return peaks::explain(app, plan, line, page);
    }
    let graph = &plan.graph;
    let used = graph.in_force();
    match graph::lines(plan).get(line) {
        Some(graph::GraphLine::Term(index)) => {
            let Some(found) = used.terms().get(*index) else { return String::new() };
            page.pair("size", NAMES, &exactly(found.bytes), Hue::Text);
            page.pair(
                "share",
                NAMES,
                &format!("{} of the compute buffer", found.bytes.share_of(used.bytes)),
                Hue::Text,
            );
            term(found, page);
            legend(plan, &[&found.formula], page);
            found.name.clone()
        }
        Some(graph::GraphLine::Branch(index)) => {
            let Some(branch) = used.branches.get(*index) else { return String::new() };
            let won = used.branches.get(used.winner).map(|winner| format!("{}, {}", winner.name, winner.bytes));
            page.text(&format!("The largest branch is used: {}.", won.unwrap_or_default()), Hue::Text);
            on_branch(branch, "", page);
            branch.name.clone()
        }
        found => {
            let which = if let Some(graph::GraphLine::Size(which)) = found { *which } else { graph.used };
            page.text(&format!("{}.", capitalised(graph.why.trim_end_matches('.'))), Hue::Text);
            on_size(graph::size(graph, which), page);
            let formulas: Vec<&str> =
                graph::size(graph, which).branches.iter().flat_map(|b| &b.terms).map(|t| t.formula.as_str()).collect();
            legend(plan, &formulas, page);
            match which {
                GraphUse::Full => "Compute buffer, all layers on GPU".to_owned(),
                GraphUse::Partial => "Compute buffer, some layers in RAM".to_owned(),
            }
        }
    }
}

fn on_size(size: &GraphSize, page: &mut Page) {
    page.blank();
    page.pair("size", NAMES, &exactly(size.bytes), Hue::Text.bold());
    if size.branches.len() > 1 {
        page.text("The largest of these branches is used.", Hue::Dim);
    }
    let winner = size.branches.get(size.winner);
    let losing = size.branches.iter().enumerate().filter(|(at, _)| *at != size.winner).map(|(_, branch)| branch);
    let several = size.branches.len() > 1;
    if let Some(branch) = winner {
        on_branch(branch, if several { "● " } else { "" }, page);
    }
    for branch in losing {
        on_branch(branch, "○ ", page);
    }
}

fn on_branch(branch: &Branch, sign: &str, page: &mut Page) {
    page.heading(&format!("{sign}{}   {}", branch.name, branch.bytes));
    for found in &branch.terms {
        page.pair(&found.name, 28, &found.bytes.to_string(), Hue::Graph);
        page.pair("", 2, &format!("{} = {}", found.formula, found.numbers), Hue::Dim);
    }
}

fn term(found: &Term, page: &mut Page) {
    page.heading("Formula");
    page.text(&found.formula, Hue::Text);
    // for values taken from an allocation, the numbers are the result
    if found.numbers != found.bytes.0.to_string() {
        page.text(&format!("= {}", found.numbers), Hue::Dim);
    }
    page.text(&format!("= {} bytes", grouped(found.bytes.0, '\u{2009}')), Hue::Dim);
}

/// The letters in `formulas`.
fn legend<'a>(plan: &'a Plan, formulas: &[&'a str], page: &mut Page) {
    let used = graph::letters(plan, formulas);
    if used.is_empty() {
        return;
    }
    page.heading("Variables");
    for symbol in used {
        page.pair(&format!("{:<6}{:>10}", symbol.letter, symbol.shown()), NAMES, symbol.meaning, Hue::Text);
    }
}
