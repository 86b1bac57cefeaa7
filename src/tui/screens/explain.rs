//! Where a number comes from: formula, values, engine and confidence.

use crate::answer::ram::RamUse;
use crate::answer::{KnobLimits, parts};
use crate::gguf::Tensor;
use crate::machine::DeviceKind;
use crate::model::{Model, TensorGroup};
use crate::page::{Block, Column, Hue, Narrow, Page, Span, Table};
use crate::plan::{
    Branch, BufferUse, Confidence, DevicePlan, Estimate, GraphSize, GraphUse, Headroom, OwnCache, Plan, Term,
};
use crate::settings::knob::Knob;
use crate::speed::Speeds;
use crate::speed::turn::Reuse;
use crate::teach::alike;
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
use crate::tui::view::figure::exactly;
use crate::tui::view::layers::device_name;
use crate::tui::view::{graph, peaks};
use crate::tui::widget::page::Overlay;
use crate::tui::widget::row_writer::capitalised;
use crate::units::{Bytes, Tokens, grouped};

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
}

impl ExplainTarget {
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
            on_device(app, plan, device, &mut page);
            device_name(plan, device).to_owned()
        }
        ExplainTarget::Graph(line) => on_graph(app, plan, line, &mut page),
    };
    if let ExplainTarget::Knob(Knob::Context | Knob::CacheType | Knob::CacheTypeK | Knob::CacheTypeV) = subject {
        caches(plan, &mut page);
    }
    further(app, subject, &mut page);
    page.heading("Confidence");
    let sure = match plan.confidence {
        Confidence::Exact => "exact: reproduces the engine's own arithmetic",
        Confidence::Modelled => "modelled",
        Confidence::Assumed => "assumed",
    };
    page.pair(&app.request.choice().to_string(), NAMES + 6, sure, Hue::Text);
    plan.uncertainties.iter().for_each(|one| page.text(&capitalised(&one.reason), Hue::Text));
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
    page.pair("in effect", NAMES, &knob.show(knob.in_effect(plan)), text);
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
            let took = format!("{} of cache, {} of graph", cost.cache, cost.graph);
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
    page.pair("device", NAMES, &device_text(plan, layer.device), text);
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
    page.push(Block::Table(Table { columns, rows, gap: 1, narrow: Narrow::Cut(0) }));
}

fn tensors_of<'a>(model: &'a Model, plan: &Plan, index: usize) -> Vec<&'a Tensor> {
    if index + 1 == plan.layers.len() {
        model.output_tensors().collect()
    } else {
        model.tensors(TensorGroup::Block(index)).collect()
    }
}

fn device_text(plan: &Plan, device: usize) -> String {
    let name = plan.devices.get(device).map(|device| device.name.as_str()).unwrap_or_default();
    match device_name(plan, device) {
        "RAM" => "RAM".to_owned(),
        id => format!("{id}, {name}"),
    }
}

fn on_device(app: &App, plan: &Plan, index: usize, page: &mut Page) {
    let text = Hue::Text;
    let Some(device) = plan.devices.get(index) else { return };
    page.pair("device", NAMES, &device_text(plan, index), text);
    if let Some(backend) = device.backend {
        page.pair("backend", NAMES, backend.name(), text);
    }
    page.pair("layers", NAMES, &layers(device, plan), text);
    page.heading("Needed");
    for (name, bytes) in [("weights", device.weights), ("cache", device.cache), ("graph", device.graph)] {
        page.pair(name, NAMES, &exactly(bytes), text);
    }
    page.pair("total", NAMES, &exactly(device.asked()), Hue::Text.bold());
    if let Some(measured) = device.graph_measured {
        page.pair("graph in the fit", NAMES, &exactly(measured), text);
        page.text("The fit measures the model's graph without allocating it; a load takes what is above.", Hue::Dim);
    }
    if let Some(pipelined) = device.graph_pipelined {
        page.pair("in a pipeline", NAMES, &exactly(pipelined), text);
        page.text("That cannot be allocated, so llama.cpp reserves again without pipeline parallelism.", Hue::Dim);
    }
    if device.growth > Bytes::ZERO {
        page.pair("grows by", NAMES, &exactly(device.growth), text);
    }
    for part in plan.parts.iter().filter(|_| plan.parts.len() > 1) {
        let memory = part.devices.get(index).copied().unwrap_or_default();
        page.heading(&format!("Of these, the {}", part.kind.title()));
        for (name, bytes) in [("weights", memory.weights), ("cache", memory.cache), ("graph", memory.graph)] {
            page.pair(name, NAMES, &exactly(bytes), text);
        }
    }
    beside(app, plan, page);
    page.heading("Available");
    page.pair("total", NAMES, &exactly(device.total), text);
    page.pair("free", NAMES, &exactly(device.free), text);
    if device.swap_free > Bytes::ZERO {
        page.pair("free swap", NAMES, &exactly(device.swap_free), text);
    }
    if plan.is_over(index) {
        page.pair(
            "over by",
            NAMES,
            &exactly(device.needed() + device.growth + plan.lent_to_gpus(index) - device.free - device.swap_free),
            Hue::Over.bold(),
        );
    }
    if !device.reserves.is_empty() {
        page.heading("Reserved by the engine");
        for reserve in &device.reserves {
            page.pair(reserve.name, NAMES, &exactly(reserve.bytes), text);
        }
        let above = plan.headrooms().get(index).map(Headroom::above_kept);
        if let Some(short) = above.filter(|above| above.is_short() && !device.is_over()) {
            page.pair("short of that by", NAMES, &exactly(short.lacking()), Hue::Over.bold());
        }
    }
    on_speed(app, page);
    if let Some(request) = app.request.plan_request().filter(|_| device.kind == DeviceKind::Cpu) {
        let ram = RamUse::of(&request, plan);
        page.heading("Of that, in RAM");
        page.pair("must stay", NAMES, &exactly(ram.must), text);
        page.pair("should stay", NAMES, &exactly(ram.warm), text);
        page.pair("may be paged out", NAMES, &exactly(ram.may_page), text);
        if ram.idle_experts > Bytes::ZERO {
            page.pair("of these, experts", NAMES, &exactly(ram.idle_experts), text);
        }
        if device.repacked > Bytes::ZERO {
            page.pair("repacked weights", NAMES, &exactly(device.repacked), text);
        }
        page.pair("weights are read", NAMES, &format!("{} (--load-mode)", ram.load_mode), text);
        ram.in_use().into_iter().chain(ram.shortage(plan)).for_each(|sentence| page.text(&sentence, Hue::Text));
    }
    if let Some((largest, limit)) = device.largest_buffer.and_then(|largest| Some((largest, largest.limit?))) {
        page.heading("The largest single buffer, at most");
        page.pair(largest.holds.title(), NAMES, &exactly(largest.bytes), text);
        page.text(&limit.to_string(), Hue::Text);
    }
    if let Some(driver) = device.driver {
        page.heading("Besides, for the driver; not counted");
        page.pair("after the load", NAMES, &driver.loaded.to_string(), text);
        if driver.first_prompt.is_some() {
            let growth = driver.first_prompt(plan.model.experts.is_some());
            page.pair("at the first prompt", NAMES, &format!("up to {growth} more"), text);
        }
        if let Some(context) = driver.context {
            page.pair("while prompts are read", NAMES, &context.to_string(), text);
        }
        page.pair("how sure", NAMES, &driver.known_from(), text);
    }
    if let Some(own) = &plan.own_caches {
        page.heading("Caches of Ollama's own engine on this device");
        let here = device.layers.iter().filter_map(|&layer| own.layers.get(layer));
        page.pair("cache", NAMES, &exactly(here.map(OwnCache::bytes).sum()), text);
    }
    if let Some(estimate) = &plan.estimate {
        on_estimate(estimate, device, page);
    }
}

/// Why what is loaded beside the model takes what it takes.
fn beside(app: &App, plan: &Plan, page: &mut Page) {
    for part in app.request.plan_request().iter().flat_map(|request| parts::of(request, plan)) {
        page.heading(&format!("Why the {} takes that", part.part.title()));
        part.file.iter().for_each(|file| page.text(file, Hue::Dim));
        part.reasons.iter().for_each(|reason| page.text(reason, Hue::Text));
    }
}

/// What a token's time consists of, on all devices: they work one after the other.
fn on_speed(app: &App, page: &mut Page) {
    let Some(Speeds { start, full, prompt, turn }) = &app.request.speeds else { return };
    for (title, speed) in [("Time of a token at the start, modelled", start), ("With the context full", full)] {
        page.heading(title);
        for part in &speed.terms {
            page.pair(&part.name, 28, &format!("{:.2} ms", part.milliseconds), Hue::Text);
            page.pair("", 2, &part.formula, Hue::Dim);
        }
        let whole: f64 = speed.terms.iter().map(|part| part.milliseconds).sum();
        page.pair("together", 28, &format!("{whole:.2} ms: {speed}"), Hue::Text.bold());
    }
    if let Some(reason) = &start.reason {
        page.text(&capitalised(reason), Hue::Dim);
    }
    match prompt {
        Ok(prompt) => {
            page.heading(&format!("Time of a prompt of {} tokens, modelled", Tokens(prompt.tokens)));
            for part in &prompt.terms {
                page.pair(&part.name, 28, &format!("{:.0} ms", part.milliseconds), Hue::Text);
                page.pair("", 2, &part.formula, Hue::Dim);
            }
            let whole: f64 = prompt.terms.iter().map(|part| part.milliseconds).sum();
            page.pair("together", 28, &format!("{whole:.0} ms: {} tok/s", prompt.range()), Hue::Text.bold());
            prompt.reason.iter().for_each(|reason| page.text(&capitalised(reason), Hue::Dim));
        }
        Err(why) => page.text(&format!("How fast prompts are read is not said: {why}."), Hue::Dim),
    }
    match turn {
        Some(Ok(turn)) => page.text(&format!("{turn}."), Hue::Text),
        Some(Err(why)) => page.text(&format!("How long a turn takes is not said: {why}."), Hue::Dim),
        None => {}
    }
}

/// The estimator's figures, as in the engine's log.
fn on_estimate(estimate: &Estimate, device: &DevicePlan, page: &mut Page) {
    let text = Hue::Text;
    page.heading("As the engine logs it, including its reserves");
    let here = estimate.devices.iter().position(|id| *id == device.id);
    if let Some(size) = here.and_then(|at| estimate.gpu_sizes.get(at)) {
        page.pair("this device", NAMES, &exactly(*size), text);
    }
    page.pair("VRAM", NAMES, &exactly(estimate.vram_size), text);
    page.pair("total", NAMES, &exactly(estimate.total_size), text);
    for (name, bytes) in [("projector", estimate.projector_weights), ("projector graph", estimate.projector_graph)] {
        if bytes > Bytes::ZERO {
            page.pair(name, NAMES, &exactly(bytes), text);
        }
    }
}

/// `12 of 33: 0 to 11`
fn layers(device: &DevicePlan, plan: &Plan) -> String {
    let runs = alike::runs(device.layers.iter().copied());
    let runs: Vec<String> =
        runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a} to {b}") }).collect();
    match device.layers.len() {
        0 => "none".to_owned(),
        count => format!("{count} of {}: {}", plan.layers.len(), runs.join(", ")),
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
            page.pair("share", NAMES, &format!("{} of the graph", found.bytes.share_of(used.bytes)), Hue::Text);
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
                GraphUse::Full => "Graph, all layers on GPU".to_owned(),
                GraphUse::Partial => "Graph, some layers in RAM".to_owned(),
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
        page.pair(&format!("{:<6}{:>10}", symbol.letter, symbol.value), NAMES, symbol.meaning, Hue::Text);
    }
}
