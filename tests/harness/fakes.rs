//! Fake models, folders and machines.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll::library::check::{Checked, check, example};
use plimsoll::library::{self, Item, ModelOrigin, ModelStatus, RepositoryList, SurveyRequest};
use plimsoll::machine::Machine;
use plimsoll::observed::Observation;
use plimsoll::running::apply::{Failure, Report, Target};
use plimsoll::source::{Package, Progress, ProgressCallback, Roots};
use plimsoll::tui::effect::{ApplyPreview, CheckRequest, Followed, LogSource, Services};

/// What the fake services return, and what was asked of them.
#[derive(Default)]
pub struct Fakes {
    pub models: HashMap<String, Result<Package, String>>,
    /// The library's models, each with the result of opening it.
    pub library: Vec<(&'static str, library::ModelOrigin, Result<Package, String>)>,
    /// Models of a running Ollama.
    pub running: Vec<(&'static str, Package)>,
    pub paths: Vec<String>,
    /// The models of repositories, by reference.
    pub repositories: HashMap<String, Vec<(String, Package)>>,
    /// References that were opened.
    pub recent: Mutex<Vec<String>>,
    pub machines: Mutex<Vec<(String, Result<Machine, String>)>>,
    /// What applying a plan does, and what comes of it; none: it cannot be applied.
    pub applies: Option<(ApplyPreview, Result<Checked, Failure>)>,
    /// Whether the server that was started was kept, each time it was asked.
    pub kept: Mutex<Vec<bool>>,
    /// What runs, sample after sample.
    pub follows: Vec<Followed>,
    /// Files written, by name.
    pub files: Mutex<HashMap<String, String>>,
}

impl Services for Fakes {
    fn load(&self, reference: &str, watch: &mut ProgressCallback<'_>) -> Result<Package, String> {
        if watch(Progress { done: 1, total: Some(2), shard: 0, shards: 1 }).is_break() {
            return Err("stopped".to_owned());
        }
        let on_shelf = self.library.iter().find(|(name, ..)| *name == reference).map(|(.., package)| package);
        let running = self.running.iter().find(|(name, _)| *name == reference).map(|(_, package)| Ok(package.clone()));
        let package = self.models.get(reference).or(on_shelf).cloned().or(running);
        package.unwrap_or_else(|| Err(format!("{reference} is not there")))
    }

    fn namesake(&self, reference: &str) -> Option<Package> {
        plimsoll::library::check::namesake(reference, &Roots::default())
    }

    fn check(&self, request: &CheckRequest) -> Result<Checked, String> {
        let text = match &request.log {
            LogSource::Text(text) => text.to_string(),
            LogSource::File(path) => {
                let written = self.files.lock().unwrap().get(path).cloned();
                written.or(example(path).map(str::to_owned)).ok_or(format!("'{path}' is not there"))?
            }
            LogSource::Running => return Err("nothing runs here".to_owned()),
        };
        check(&Observation::of(&text), &Roots::default(), request.open.as_ref())
    }

    fn prepare(&self, _: &Target) -> Result<ApplyPreview, String> {
        let (preview, _) = self.applies.clone().ok_or("no server is here: start one")?;
        Ok(preview)
    }

    fn apply(&self, _: &Target, report: &mut Report<'_>) -> Result<Checked, Failure> {
        if report(Duration::from_secs(3), "load_tensors: loading model tensors").is_break() {
            return Err(Failure { sentence: "stopped".to_owned(), advice: Vec::new() });
        }
        self.applies.clone().unwrap().1
    }

    fn leave_server(&self, keep: bool) {
        self.kept.lock().unwrap().push(keep);
    }

    fn follow(&self, tell: &mut dyn FnMut(Followed) -> bool) {
        let _all = self.follows.iter().all(|followed| tell(followed.clone()));
    }

    fn add_recent(&self, reference: &str) -> Result<(), String> {
        self.recent.lock().unwrap().push(reference.to_owned());
        Ok(())
    }

    fn list_models(&self) -> Vec<Item> {
        self.library.iter().map(|(name, origin, package)| Item::given(name, *origin, package.clone())).collect()
    }

    fn running(&self, known: &[String]) -> Result<Vec<Item>, String> {
        let new = self.running.iter().filter(|(name, _)| !known.contains(&(*name).to_owned()));
        Ok(new.map(|(name, package)| Item::given(name, library::ModelOrigin::Running, Ok(package.clone()))).collect())
    }

    fn repository(&self, reference: &str) -> Result<RepositoryList, String> {
        let files = self.repositories.get(reference).ok_or_else(|| format!("{reference} is not there"))?;
        let item = |(name, package): &(String, Package)| {
            Arc::new(Item::given(name, ModelOrigin::Repository, Ok(package.clone())))
        };
        let notes = vec!["the header of one was read".to_owned()];
        Ok(RepositoryList { items: files.iter().map(item).collect(), search: reference.to_owned(), notes })
    }

    fn survey(
        &self,
        items: &[Arc<Item>],
        question: &SurveyRequest,
        tell: &(dyn Fn(usize, ModelStatus) -> bool + Sync),
    ) {
        library::survey(items, question, &Roots::default(), tell);
    }

    fn machines(&self) -> Result<Vec<(String, Result<Machine, String>)>, String> {
        Ok(self.machines.lock().unwrap().clone())
    }

    fn save_machine(&self, name: &str, machine: &Machine) -> Result<String, String> {
        if name.is_empty() {
            return Err("'' is not a valid machine name".to_owned());
        }
        self.machines.lock().unwrap().push((name.to_owned(), Ok(machine.clone())));
        Ok(format!("Saved as {name}."))
    }

    fn save(&self, path: &str, text: &str) -> Result<PathBuf, String> {
        let mut files = self.files.lock().unwrap();
        if files.contains_key(path) {
            return Err(format!("'{path}' already exists: choose another name."));
        }
        files.insert(path.to_owned(), text.to_owned());
        Ok(PathBuf::from("/here").join(path))
    }

    fn complete(&self, typed: &str) -> Vec<String> {
        self.paths.iter().filter(|path| path.starts_with(typed)).cloned().collect()
    }
}
