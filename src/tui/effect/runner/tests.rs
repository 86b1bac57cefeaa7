use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::engine::EngineId;
use crate::hardware::remembered::SavedMachine;
use crate::library::check::Checked;
use crate::library::{self, Item, RepositoryList};
use crate::machine::{Machine, Origin, Os, Ram};
use crate::observed::sample::Sample;
use crate::running::apply::{Failure, Report, Target};
use crate::settings::Settings;
use crate::source::{self, Package, Progress};
use crate::tui::effect::{ApplyPreview, CheckRequest};
use crate::units::Bytes;

/// Services whose loads end only when stopped.
struct Slow;

impl Services for Slow {
    fn load(&self, reference: &str, watch: &mut source::ProgressCallback<'_>) -> Result<Package, String> {
        let mut turns = if reference == "slow" { 0..u64::MAX } else { 0..0 };
        while turns.next().is_some() {
            if watch(Progress { done: 1, total: None, shard: 0, shards: 1 }).is_break() {
                return Err("stopped".to_owned());
            }
            thread::yield_now();
        }
        Err("there is nothing".to_owned())
    }

    fn namesake(&self, _: &str) -> Option<Package> {
        None
    }

    fn check(&self, _: &CheckRequest) -> Result<Checked, String> {
        Err("there is no log".to_owned())
    }

    fn prepare(&self, _: &Target) -> Result<ApplyPreview, String> {
        Err("there is no server".to_owned())
    }

    fn apply(&self, _: &Target, report: &mut Report<'_>) -> Result<Checked, Failure> {
        while report(Duration::ZERO, "loading").is_continue() {
            thread::yield_now();
        }
        Err(Failure { sentence: "stopped".to_owned(), advice: Vec::new() })
    }

    fn leave_server(&self, _: bool) {}

    fn follow(&self, tell: &mut dyn FnMut(Followed) -> bool) {
        while tell(Followed { sample: Sample::default(), plans: Vec::new() }) {
            thread::yield_now();
        }
    }

    fn add_recent(&self, reference: &str) -> Result<(), String> {
        Err(format!("{reference} is soon forgotten"))
    }

    fn list_models(&self) -> Vec<Item> {
        panic!("the shelves fell over")
    }

    fn running(&self, _: &[String]) -> Result<Vec<Item>, String> {
        Ok(Vec::new())
    }

    fn repository(&self, _: &str) -> Result<RepositoryList, String> {
        Err(String::new())
    }

    fn survey(
        &self,
        items: &[Arc<Item>],
        _: &library::SurveyRequest,
        tell: &(dyn Fn(usize, ModelStatus) -> bool + Sync),
    ) {
        // a single item is reported without end, until the survey is replaced
        while items.len() == 1 && tell(0, ModelStatus::Pending) {
            thread::yield_now();
        }
        (1..items.len()).all(|index| tell(index, ModelStatus::Failed("seen".to_owned())));
    }

    fn machines(&self) -> Result<Vec<SavedMachine>, String> {
        Ok(Vec::new())
    }

    fn save_machine(&self, name: &str, _: &Machine) -> Result<String, String> {
        Err(format!("{name} is not saved"))
    }

    fn save(&self, path: &str, _: &str) -> Result<PathBuf, String> {
        Err(format!("'{path}' is not saved"))
    }

    fn complete(&self, typed: &str) -> Vec<String> {
        vec![format!("{typed}/")]
    }
}

fn ends(answers: &Receiver<Action>, wanted: u64) -> String {
    loop {
        match answers.recv().unwrap() {
            Action::Loaded { id, result } if id == wanted => return result.unwrap_err(),
            _ => {}
        }
    }
}

#[test]
fn a_newer_load_stops_an_older_one() {
    let (send, answers) = channel();
    let runner = Runner::new(Arc::new(Slow), send);
    runner.start(Effect::Load { id: 1, reference: "slow".to_owned(), or_namesake: false });
    runner.start(Effect::Load { id: 2, reference: "quick".to_owned(), or_namesake: false });
    assert_eq!(ends(&answers, 1), "stopped");

    runner.start(Effect::Load { id: 3, reference: "slow".to_owned(), or_namesake: false });
    runner.start(Effect::CancelLoad);
    assert_eq!(ends(&answers, 3), "stopped");
}

#[test]
fn a_newer_survey_stops_an_older_one() {
    let (send, answers) = channel();
    let runner = Runner::new(Arc::new(Slow), send);
    let question = library::SurveyRequest {
        engine: EngineId::default(),
        machine: Arc::new(Machine {
            disk: None,
            os: Os::Linux,
            cpu: crate::machine::Cpu::default(),
            gpus: Vec::new(),
            ram: Ram { total: Bytes::gib(1), free: Bytes::gib(1), swap_free: Bytes::ZERO, bandwidth: None },
            origin: Origin::Described,
            drivers: crate::machine::Drivers::default(),
        }),
        settings: Settings::default(),
        minimums: crate::answer::best::Minimums::default(),
        quant: None,
    };
    let survey = |id, count: u64| {
        let items = (0..count).map(|n| Arc::new(Item::recent(n.to_string()))).collect();
        Effect::Survey(Box::new(SurveyJob { id, items, request: question.clone() }))
    };
    runner.start(survey(1, 1));
    assert!(matches!(answers.recv().unwrap(), Action::ModelPlanned { id: 1, status: ModelStatus::Pending, .. }));
    runner.start(survey(2, 2));
    let mut seen = Vec::new();
    // ends once nothing is sent any more
    while let Ok(action) = answers.recv_timeout(Duration::from_secs(2)) {
        if let Action::ModelPlanned { id: 2, item, status: ModelStatus::Failed(why) } = action {
            seen.push((item.name.clone(), why));
        }
    }
    assert_eq!(seen, [("1".to_owned(), "seen".to_owned())]);
}

#[test]
fn a_failed_recent_entry_is_reported() {
    let (send, answers) = channel();
    Runner::new(Arc::new(Slow), send).start(Effect::AddRecent("m:1b".to_owned()));
    assert!(matches!(answers.recv().unwrap(), Action::TaskPanicked(why) if why == "m:1b is soon forgotten"));
}

#[test]
fn a_panic_is_reported_and_other_jobs_continue() {
    let (send, answers) = channel();
    let runner = Runner::new(Arc::new(Slow), send);
    runner.start(Effect::ListModels);
    let Action::TaskPanicked(text) = answers.recv().unwrap() else { panic!("it is told") };
    assert!(text.contains("the shelves fell over"), "{text}");
    runner.start(Effect::Complete { typed: "a".to_owned() });
    assert!(matches!(answers.recv().unwrap(), Action::Completed { paths, .. } if paths == ["a/"]));
}

#[test]
fn marks_fade_once_for_the_newest_change() {
    let (send, answers) = channel();
    let runner = Runner::new(Arc::new(Slow), send);
    for id in 1..=3 {
        runner.start(Effect::Fade { id });
    }
    assert!(matches!(answers.recv().unwrap(), Action::Fade { id: 3 }));
    assert!(answers.try_recv().is_err());
}
