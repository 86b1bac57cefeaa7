//! The models to choose from, and their status.

use std::sync::Arc;

use super::model::{Loading, ModelLocations};
use super::request::CurrentRequest;
use crate::answer::best::Minimums;
use crate::engine::PlanRequest;
use crate::export::Scenario;
use crate::library::{Item, ModelOrigin, ModelStatus, SurveyRequest};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::settings::{Context, Flag, Source};
use crate::tui::effect::{Effect, SurveyJob};

/// A model and its status.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ModelRow {
    pub item: Arc<Item>,
    /// Its status; an earlier request's until the present one is answered.
    pub status: ModelStatus,
    /// The survey that it answers.
    asked: u64,
    /// What other surveys on this machine found.
    earlier: Vec<(u64, ModelStatus)>,
}

impl ModelRow {
    const fn new(item: Arc<Item>) -> Self {
        Self { item, status: ModelStatus::Pending, asked: 0, earlier: Vec::new() }
    }

    /// Shows what the survey `id` found, if it was asked before.
    fn turn_to(&mut self, id: u64) {
        if let Some(at) = self.earlier.iter().position(|(asked, _)| *asked == id) {
            let (_, status) = self.earlier.swap_remove(at);
            self.answer(id, status);
        }
    }

    /// Takes what the survey `id` found, and keeps what another one had.
    fn answer(&mut self, id: u64, status: ModelStatus) {
        let (before, asked) = (std::mem::replace(&mut self.status, status), std::mem::replace(&mut self.asked, id));
        if asked != id && !before.is_open() {
            self.earlier.push((asked, before));
        }
    }
}

/// Which sources of models have answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gathering {
    /// None: folders are being read.
    #[default]
    Nothing,
    /// The folders; a running Ollama is being asked.
    Here,
    /// All.
    All,
    /// The folders; the Ollama that the user named does not list its models.
    Refused(String),
}

/// What is to be done to the list before the next drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pending {
    #[default]
    Nothing,
    /// The status of a model changed: sort again.
    Order,
    /// Other models are listed, or in another order; a survey starts with those in view.
    List,
}

/// The models. Their status is kept while the page is closed.
#[derive(Debug, Default)]
pub struct Library {
    /// All models, in the library's default order.
    pub rows: Vec<ModelRow>,
    /// Which sources have answered.
    pub gathered: Gathering,
    request: Option<SurveyRequest>,
    id: u64,
    /// Earlier requests for the same machine and engine, with their ids.
    earlier: Vec<(u64, SurveyRequest)>,
    /// The last id.
    last: u64,
    /// Whether models are to be judged by the machine as it is now.
    renew: bool,
    due: Pending,
    /// The model that is being loaded.
    pub loading: Loading,
    /// Where the opened models were found.
    pub(crate) locations: ModelLocations,
}

/// Requests whose answers are kept besides: for the contexts that models are judged by.
const MOST_EARLIER: usize = 6;

/// By how much of a device's memory what is free must change before an open list judges by it: models that are loaded
/// or unloaded do, what the system and this program do besides does not.
const MARGIN_PERCENT: u64 = 10;

impl Library {
    /// Sets the models known without a server; the status of those listed before is kept.
    pub(crate) fn models_listed(&mut self, items: Vec<Arc<Item>>) {
        let old = std::mem::take(&mut self.rows);
        let (running, old): (Vec<ModelRow>, Vec<ModelRow>) =
            old.into_iter().partition(|row| row.item.origin == ModelOrigin::Running);
        let (of_repository, old): (Vec<ModelRow>, Vec<ModelRow>) =
            old.into_iter().partition(|row| row.item.origin == ModelOrigin::Repository);
        let listed = items.into_iter().map(|item| with_old_status(item, &old));
        self.rows = of_repository.into_iter().chain(listed).collect();
        self.gathered = Gathering::Here;
        self.due = Pending::List;
        // until the server answers again
        self.insert_running(running);
    }

    /// Sets the models of a repository, in place of those of the one before. Files on this machine are listed anyway.
    pub(crate) fn repository_listed(&mut self, items: Vec<Arc<Item>>) {
        self.rows.retain(|row| row.item.origin != ModelOrigin::Repository);
        let items = items.into_iter().filter(|item| item.origin == ModelOrigin::Repository);
        let rows = items.map(ModelRow::new);
        self.rows.splice(0..0, rows);
        self.due = Pending::List;
    }

    /// Sets the models of the running Ollama.
    pub(crate) fn running(&mut self, answer: Result<Vec<Arc<Item>>, String>) {
        let old = std::mem::take(&mut self.rows);
        let (old, others): (Vec<ModelRow>, Vec<ModelRow>) =
            old.into_iter().partition(|row| row.item.origin == ModelOrigin::Running);
        self.rows = others;
        self.due = Pending::List;
        match answer {
            Ok(items) => {
                self.insert_running(items.into_iter().map(|item| with_old_status(item, &old)).collect());
                self.gathered = Gathering::All;
            }
            Err(why) => self.gathered = Gathering::Refused(why),
        }
    }

    /// Inserts the models of a running Ollama before the catalogue.
    fn insert_running(&mut self, running: Vec<ModelRow>) {
        let at = self.rows.iter().position(|row| row.item.origin == ModelOrigin::Catalogue).unwrap_or(self.rows.len());
        self.rows.splice(at..at, running);
    }

    /// Updates a model's status, if `id` is the present survey.
    pub(crate) fn model_planned(&mut self, id: u64, item: &Arc<Item>, status: ModelStatus) {
        self.due = self.due.max(Pending::Order);
        let row = self.rows.iter_mut().find(|row| Arc::ptr_eq(&row.item, item));
        let Some(row) = row.filter(|_| id == self.id) else { return };
        row.answer(id, status);
    }

    /// Sets the survey request; the status of models under another one is out of date, and kept as long as machine and
    /// engine stay. Returns the id for its answers.
    fn ask(&mut self, request: SurveyRequest) -> u64 {
        // tags stand over what is not given
        let asks = |other: &SurveyRequest| {
            *other == request && other.settings.given_options().eq(request.settings.given_options())
        };
        if self.request.as_ref().is_some_and(asks) {
            return self.id;
        }
        let before = self.request.take().map(|before| (self.id, before));
        self.earlier.extend(before);
        let same = |other: &SurveyRequest| (other.engine, &other.machine) == (request.engine, &request.machine);
        self.earlier.retain(|(_, other)| same(other));
        if self.earlier.len() > MOST_EARLIER {
            self.earlier.remove(0);
        }
        let known = self.earlier.iter().position(|(_, other)| asks(other));
        self.id = known.map_or(self.last + 1, |at| self.earlier.swap_remove(at).0);
        self.last = self.last.max(self.id);
        self.request = Some(request);
        let (id, kept) = (self.id, &self.earlier);
        for row in &mut self.rows {
            row.turn_to(id);
            row.earlier.retain(|(asked, _)| kept.iter().any(|(id, _)| id == asked));
        }
        self.id
    }

    /// The request that `plan`, the plan of `item`, answers.
    pub(crate) fn request_of(&self, item: &Item, plan: &Plan) -> Option<PlanRequest> {
        self.request.as_ref()?.request_of(item, plan)
    }

    /// Has the models judged again, as the settings or the machine have changed.
    pub(crate) const fn touch(&mut self) {
        self.due = Pending::List;
    }

    /// What is to be done to an open list.
    pub(crate) fn take_due(&mut self) -> Pending {
        std::mem::take(&mut self.due)
    }

    /// Judges by the machine as it is now, however little has changed.
    pub(crate) const fn renew(&mut self) {
        self.renew = true;
    }

    /// At opening: judges by the machine as it is `now`, unless nearly that was asked before.
    pub(crate) fn open_on(&mut self, now: &Machine) {
        self.renew |= self.request.as_ref().is_none_or(|request| !request.machine.is_nearly(now));
    }

    /// Whether the machine has changed so much that models must be judged by what it is `now`.
    pub(crate) fn must_renew(&self, now: &Machine) -> bool {
        let within = |request: &SurveyRequest| request.machine.is_within(MARGIN_PERCENT, now);
        self.renew || !self.request.as_ref().is_some_and(within)
    }

    /// The machine to survey with when the present one is `now`: the last one, unless [`Self::must_renew`].
    fn machine(&mut self, now: &Arc<Machine>) -> Arc<Machine> {
        let asked = self.request.as_ref().map(|request| &request.machine).filter(|_| !self.must_renew(now));
        let machine = Arc::clone(asked.unwrap_or(now));
        self.renew = false;
        machine
    }

    /// Whether models are judged by less or more free memory than there is `now`.
    pub fn is_judged_by_earlier(&self, now: &Machine) -> bool {
        self.request.as_ref().is_some_and(|request| !request.machine.is_nearly(now))
    }

    /// The models whose status is incomplete, ordered by their `distances` from the cursor, those without one last.
    fn wanted(&self, distances: impl Iterator<Item = (usize, usize)>) -> Vec<Arc<Item>> {
        let mut near: Vec<(usize, usize)> = (0..self.rows.len()).map(|index| (usize::MAX, index)).collect();
        for (distance, index) in distances {
            near.get_mut(index).into_iter().for_each(|near| near.0 = distance);
        }
        near.sort_unstable();
        let rows = near.into_iter().filter_map(|(_, index)| self.rows.get(index));
        rows.filter(|row| self.is_open(row)).map(|row| Arc::clone(&row.item)).collect()
    }

    /// Number of models whose status is incomplete.
    pub fn open(&self) -> usize {
        self.rows.iter().filter(|row| self.is_open(row)).count()
    }

    /// Whether the status of `row` belongs to an earlier survey.
    pub const fn is_old(&self, row: &ModelRow) -> bool {
        row.asked != self.id
    }

    /// Tokens in the cache for which speeds are said.
    pub fn depth(&self) -> u64 {
        self.request.as_ref().map_or(0, SurveyRequest::depth)
    }

    fn is_open(&self, row: &ModelRow) -> bool {
        self.is_old(row) || row.status.is_open()
    }

    /// Has the models judged by the settings of `now` and the context `need`, those nearest to the cursor first:
    /// `distances` are the distance from it and the index of each that is listed.
    pub(crate) fn survey(
        &mut self,
        now: &CurrentRequest,
        minimums: Minimums,
        need: Option<u64>,
        distances: impl Iterator<Item = (usize, usize)>,
    ) -> Vec<Effect> {
        let mut settings = now.settings_without_tag();
        if let Some(tokens) = need {
            settings.ctx = Context::Tokens(tokens);
            settings.remember(Flag::Context, Source::Request);
        }
        let request =
            SurveyRequest { engine: now.engine, machine: self.machine(&now.machine), settings, quant: None, minimums };
        let id = self.ask(request.clone());
        let items = self.wanted(distances);
        if items.is_empty() { Vec::new() } else { vec![Effect::Survey(Box::new(SurveyJob { id, items, request }))] }
    }

    /// A plan as it is asked for, with the reference by which its model is opened again.
    pub(crate) fn scenario_of(&self, request: &PlanRequest) -> Scenario {
        Scenario::of(request, self.locations.reference(&request.opened).as_deref())
    }
}

/// `item` with its earlier status, unless that is a failure, which may be temporary.
fn with_old_status(item: Arc<Item>, old: &[ModelRow]) -> ModelRow {
    let same = old.iter().find(|row| row.item.is(&item) && !matches!(row.status, ModelStatus::Failed(_)));
    same.cloned().unwrap_or_else(|| ModelRow::new(item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineId;
    use crate::machine::{Drivers, Origin, Os, Ram};
    use crate::settings::Settings;
    use crate::units::Bytes;

    fn with_free(mib: u64) -> Arc<Machine> {
        let ram = Ram { total: Bytes::gib(64), free: Bytes::mib(mib), swap_free: Bytes::ZERO, bandwidth: None };
        let (gpus, drivers) = (Vec::new(), Drivers::default());
        Arc::new(Machine {
            disk: None,
            cpu: crate::machine::Cpu::default(),
            os: Os::Linux,
            gpus,
            ram,
            origin: Origin::Detected,
            drivers,
        })
    }

    #[test]
    fn an_open_list_is_judged_by_the_memory_that_was_free_at_opening() {
        let mut library = Library::default();
        let ask = |library: &mut Library, now: &Arc<Machine>| {
            let machine = library.machine(now);
            let settings = Settings::default();
            library.ask(SurveyRequest {
                engine: EngineId::Ollama,
                machine,
                settings,
                quant: None,
                minimums: Minimums::default(),
            })
        };
        let first = ask(&mut library, &with_free(32_000));
        for mib in [31_990, 30_000, 33_500, 26_000, 38_000] {
            assert!(!library.must_renew(&with_free(mib)));
            assert_eq!(ask(&mut library, &with_free(mib)), first, "{mib} MiB are within the margin");
        }
        assert!(library.is_judged_by_earlier(&with_free(30_000)) && !library.is_judged_by_earlier(&with_free(31_990)));
        let second = ask(&mut library, &with_free(20_000));
        assert!(second > first, "a model was loaded");
        library.renew();
        let third = ask(&mut library, &with_free(20_100));
        assert!(third > second, "by key");
        library.open_on(&with_free(20_200));
        assert_eq!(ask(&mut library, &with_free(20_200)), third, "opened again, with nearly the same");
        library.open_on(&with_free(22_000));
        assert!(ask(&mut library, &with_free(22_000)) > third, "opened again, with more");
    }
}
