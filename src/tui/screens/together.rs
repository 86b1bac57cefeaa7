//! The page on several models: which stay loaded, and their share of each device.
//!
//! ```text
//! ✓ Together: every layer of each is on GPUs.
//!
//! A    Llama 3.1 8B · Q4_K_M · context 8 192
//!      Fits: 33 of 33 layers on GPUs; 5.4 GiB on GPU0
//! now  Qwen3 8B · Q4_K_M · context 8 192
//!      Fits: 37 of 37 layers on GPUs; 5.6 GiB on GPU0
//!
//! GPU0 ░░AAAAAAAAAAAAAnnnnnnnnnnnnn····························  12.6 GiB free
//! ```

use crate::answer::together::{LoadOutcome, LoadedModels, ServedModels};
use crate::command::Router;
use crate::command::router::{MODELS_MAX, RouterKind};
use crate::engine::{EngineId, PlanRequest};
use crate::export::AnswerSource;
use crate::export::several::NamedModel;
use crate::page::palette::sign;
use crate::page::{Bar, Block, Hue, Page, Span};
use crate::plan::DevicePlan;
use crate::question::together::{self, TogetherRequest};
use crate::tui::action::{Action, Command};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::query::Received;
use crate::tui::screen::{NO_PLAN, Response, Screen};
use crate::tui::screens::export::{self, ExportPage};
use crate::tui::widget::page::Overlay;
use crate::units::{Bytes, Tokens};

/// The state of the page.
#[derive(Debug)]
pub struct TogetherPage {
    /// The models, in the order of loading.
    models: Vec<PinnedModel>,
    /// The outcome, or why a model has no plan; none while it is computed.
    answer: Option<Result<Box<ServedModels>, String>>,
    /// What starts and ends servers of llama.cpp; none: they are started by hand.
    router: Option<RouterKind>,
    /// Models that llama-server's router keeps loaded.
    most: usize,
    /// Whether servers are started by llama.cpp's own rules.
    routed: bool,
    scroll: u16,
    query: u64,
}

/// A model that is loaded with others.
#[derive(Debug)]
struct PinnedModel {
    /// Its label: the letter of its pin, or "this".
    label: String,
    /// Its model and settings; machine and engine of the request are ignored.
    plan_request: PlanRequest,
}

impl PinnedModel {
    /// The pinned models in order, then the present one unless it is among them.
    fn all(app: &App) -> Vec<Self> {
        let pinned = |plan_request: &PlanRequest| {
            app.pins.iter().any(|pin| {
                std::sync::Arc::ptr_eq(&pin.plan_request.model, &plan_request.model)
                    && pin.plan_request.settings == plan_request.settings
            })
        };
        let pins = app.pins.iter().map(|pin| (pin.letter.to_string(), pin.plan_request.clone()));
        let now = app.request.plan_request().filter(|now| !pinned(now)).map(|now| ("this".to_owned(), now));
        pins.chain(now).map(|(label, plan_request)| Self { label, plan_request }).collect()
    }
}

impl Default for TogetherPage {
    fn default() -> Self {
        let (models, answer, router) = (Vec::new(), None, None);
        Self { models, answer, router, most: MODELS_MAX, routed: false, scroll: 0, query: 0 }
    }
}

impl TogetherPage {
    fn router(&self) -> Router {
        match Router::of(self.router.filter(|_| self.routed), self.models.len()) {
            Router::LlamaServer(_) => Router::LlamaServer(self.most),
            other => other,
        }
    }

    /// The page on the files that start the models.
    fn export(&self, app: &mut App) -> Response {
        let Some(Ok(served)) = &self.answer else { return Response::STAY };
        let model = |model: &PinnedModel| {
            let PlanRequest { settings, .. } = &model.plan_request;
            let engine = PlanRequest { engine: app.request.engine, ..model.plan_request.clone() };
            let request = engine.on_machine(app.request.machine.clone()).with(settings.clone());
            let location = export::location(app, &request);
            NamedModel { name: request.model.name.clone(), request, location }
        };
        let models = self.models.iter().map(model).collect();
        let mut page = ExportPage::of_several(app, models, (**served).clone());
        let effects = page.ask(app);
        Response::Open(Box::new(page), effects)
    }
}

impl Screen for TogetherPage {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Together, Scope::Page, Scope::Everywhere]
    }

    fn handles(&self, command: Command) -> bool {
        match command {
            Command::NextPanel => self.routed,
            Command::Less | Command::More => self.routed && self.router == Some(RouterKind::LlamaServer),
            Command::Export => self.models.len() > 1,
            _ => true,
        }
    }

    fn missing(&self, app: &App) -> Option<&'static str> {
        app.request.model.is_none().then_some(NO_PLAN)
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        let (router, most, routed) = (self.router, self.most, app.request.engine == EngineId::LlamaCpp);
        *self = Self { models: PinnedModel::all(app), router, most, routed, ..Self::default() };
        let models = self.models.iter().map(|model| model.plan_request.clone()).collect();
        app.request.ask(TogetherRequest { router: self.router(), models }, &mut self.query)
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        if let Some(Received::Part(answer)) = answer.part_of::<TogetherRequest>(self.query) {
            self.answer = Some(answer);
        }
        Response::STAY
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        match command {
            Command::Enter => return Response::CLOSE,
            Command::Export if self.handles(command) => return self.export(app),
            Command::NextPanel if self.handles(command) => {
                let after = RouterKind::ALL.iter().position(|kind| Some(*kind) == self.router).map_or(0, |at| at + 1);
                self.router = RouterKind::ALL.get(after).copied();
            }
            Command::Less if self.handles(command) && self.most > 1 => self.most -= 1,
            Command::More if self.handles(command) && self.most < self.models.len().max(MODELS_MAX) => self.most += 1,
            _ => return Response::Ignored,
        }
        Response::Stay(self.ask(app))
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn page(&self, app: &App) -> Option<Overlay> {
        Some(Overlay::new(page(app, self), "Load together", self.scroll))
    }
}

fn page(app: &App, shown: &TogetherPage) -> Page {
    let served = shown.answer.as_ref().and_then(|answer| answer.as_ref().ok());
    let loaded = served.map(|served| &served.loaded);
    let names: Vec<(String, String)> = shown
        .models
        .iter()
        .enumerate()
        .map(|(at, model)| {
            let of = &model.plan_request.model;
            let mut facts = vec![of.name.clone()];
            facts.extend(of.file_type.map(str::to_owned));
            if let Some(LoadOutcome::Loaded(plan)) = loaded.and_then(|loaded| loaded.outcomes.get(at)) {
                facts.push(format!("context {}", Tokens(plan.settings.ctx)));
            }
            (model.label.clone(), facts.join(" · "))
        })
        .collect();
    let mut page = Page::default();
    match &shown.answer {
        None => page.text("Loading the models in order…", Hue::Dim),
        Some(Err(why)) => page.text(why, Hue::Over),
        Some(Ok(served)) => {
            page =
                together::page(&names, &app.request.machine, served, &format!("{} ", sign(served.loaded.outcome()).0));
        }
    }
    if let Some((served, loaded)) = served.zip(loaded) {
        page.heading("Memory per model");
        page.push(Block::Bars(devices(app, shown, loaded), usize::MAX));
        let source = AnswerSource::of_engine(app.request.engine, &app.request.settings, loaded.confidence());
        together::source(&source.to_string(), served, app.request.engine, &[], &mut page);
        router(app, shown, &mut page);
    } else {
        page.blank();
        together::models(&names, None, &mut page);
    }
    if shown.models.len() == 1 {
        page.text("Only one model: pin it with c, open another with b, then press L again.", Hue::Text);
    }
    page
}

/// How another router is chosen, where servers are llama.cpp's own.
fn router(app: &App, shown: &TogetherPage, page: &mut Page) {
    let key =
        |command: Command| app.preferences.keys.key_for(command, shown.scopes()).filter(|_| shown.handles(command));
    if let Some(key) = key(Command::NextPanel) {
        let others = [None].into_iter().chain(RouterKind::ALL.map(Some)).filter(|other| *other != shown.router);
        let others: Vec<&str> = others.map(|kind| kind.map_or("servers by hand", RouterKind::name)).collect();
        page.text(&format!("{key} behind {} instead", others.join(", or ")), Hue::Dim);
    }
}

/// A bar for each device: memory in use before, each model by the letter of its pin, and free memory.
fn devices(app: &App, shown: &TogetherPage, loaded: &LoadedModels) -> Vec<Bar> {
    const HUES: [Hue; 2] = [Hue::EvenGpu, Hue::OddGpu];
    let ram = loaded.left.ram;
    let gpus = app.request.machine.gpus.iter().enumerate();
    let gpus = gpus.map(|(index, gpu)| {
        let (left, _) = loaded.left_on(index, &app.request.machine);
        (format!("GPU{index}"), gpu.total, gpu.free, left)
    });
    let all = gpus.chain(std::iter::once(("RAM".to_owned(), ram.total, app.request.machine.ram.free, ram.free)));
    let bar = |(index, (id, total, free, left)): (usize, (String, Bytes, Bytes, Bytes))| {
        let is_ram = index == loaded.left.gpus.len();
        let share = |bytes: Bytes| bytes.share_of(total).0;
        let mut parts = vec![(share(total - free), "░".to_owned(), Hue::InUse)];
        for (at, plan) in loaded.loaded() {
            let device = if is_ram { Some(plan.cpu()) } else { plan.gpus().get(index) };
            let letter = shown.models.get(at).and_then(|model| model.label.get(..1)).unwrap_or("?");
            let hue = HUES[at % HUES.len()];
            parts.push((share(device.map_or(Bytes::ZERO, DevicePlan::asked)), letter.to_owned(), hue));
        }
        parts.push((1.0, "·".to_owned(), Hue::Dim));
        Bar { label: Span::new(&id, Hue::Dim), parts, value: Span::from(format!("{:>16}", format!("{left} free"))) }
    };
    all.enumerate().map(bar).collect()
}
