//! Lessons: every figure in them is computed, and what they say of the figures holds wherever they are told.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll::engine::{EngineId, PlanRequest, PreparedModel};
use plimsoll::machine::{Machine, Origin, Os, Ram};
use plimsoll::settings::{Context, Settings};
use plimsoll::source::catalogue::{self, CatalogueEntry};
use plimsoll::teach::lessons::{self, FigureValue, Lesson, LessonsPage, RenderedLesson, WhyNot};
use plimsoll::units::Bytes;

use crate::{fixtures, harness};

/// Names with digits in them; any other digit in a lesson would be a figure that nothing computes.
const NAMES: [&str; 3] = ["q8_0", "f16", "500 MiB"];

fn lesson(id: &str) -> (usize, &'static Lesson) {
    lessons::all().iter().enumerate().find(|(_, lesson)| lesson.id == id).unwrap()
}

/// A request with the catalogue's model open, with its projector.
fn open(name: &str, machine: Machine) -> PlanRequest {
    let (model, projector) = catalogue::model_and_projector(name).unwrap();
    request(model, projector, machine)
}

fn request(
    model: PreparedModel,
    projector: Option<std::sync::Arc<plimsoll::model::Projector>>,
    machine: Machine,
) -> PlanRequest {
    PlanRequest::new(EngineId::default(), model, machine, Settings { projector, ..Settings::default() })
}

fn told(at: usize, request: &PlanRequest) -> LessonsPage {
    let page = LessonsPage::of(at, request, &catalogue::model_and_projector);
    page.unwrap_or_else(|error| panic!("{}: {error}", lessons::all()[at].id))
}

/// The lesson on its own model and machine.
fn on_its_own(at: usize) -> RenderedLesson {
    let lesson = &lessons::all()[at];
    told(at, &open(&lesson.model, lesson.own_machine(&harness::one_gpu()).unwrap())).lesson
}

#[test]
fn every_figure_is_computed() {
    assert!(lessons::all().len() >= 20);
    for (at, lesson) in lessons::all().iter().enumerate() {
        let rendered = on_its_own(at);
        let texts = [&rendered.look, &rendered.question, &rendered.answer];
        for text in rendered.text.iter().chain(texts).chain(rendered.bars.iter().map(|bar| &bar.label)) {
            assert!(!text.contains(['{', '}']), "{}: {text}", lesson.id);
        }
        for written in lesson.texts() {
            let mut rest = NAMES.iter().fold(written.to_owned(), |text, name| text.replace(name, ""));
            while let Some((before, after)) = rest.split_once('{') {
                rest = [before, after.split_once('}').unwrap().1].concat();
            }
            assert!(!rest.contains(|c: char| c.is_ascii_digit()), "{}: {rest}", lesson.id);
        }
        // every computed figure is used
        for name in rendered.figures.keys() {
            let rendered = lesson.texts().iter().any(|text| text.contains(&format!("{{{name}}}")));
            assert!(rendered || lesson.rests_on(name), "{}: nothing says {name}", lesson.id);
        }
        assert!(!lesson.claims.is_empty(), "{}: nothing must hold", lesson.id);
    }
}

/// What was found of one lesson.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Tally {
    /// Told on the open model and the machine.
    here: usize,
    /// Told on another model or machine.
    elsewhere: usize,
}

/// Tells every lesson with every catalogue model open, on those machines of the benchmark that `picks` names for the
/// model and the lesson, and checks what is shown. A lesson that is told elsewhere is told there once per machine.
fn tell(picks: impl Fn(usize, usize, usize) -> bool + Sync) -> Vec<Tally> {
    let tallies = Mutex::new(vec![Tally::default(); lessons::all().len()]);
    let next = AtomicUsize::new(0);
    let own_models: BTreeMap<&str, _> =
        lessons::all().iter().map(|lesson| (&*lesson.model, catalogue::model_and_projector(&lesson.model))).collect();
    let lookup = |name: &str| own_models.get(name).cloned().flatten().or_else(|| catalogue::model_and_projector(name));
    let work = || {
        let entry = |at: usize| -> Option<&'static CatalogueEntry> { catalogue::all().get(at) };
        while let Some((number, entry)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, entry(at)?)))
        {
            let model: PreparedModel = entry.model(entry.quantisation).unwrap().into();
            for (place, machine) in fixtures::machines(&model).into_iter().enumerate() {
                let request = request(model.clone(), entry.projector().cloned(), machine);
                for (at, lesson) in lessons::all().iter().enumerate().filter(|(at, _)| picks(number, place, *at)) {
                    let page = LessonsPage::of(at, &request, &lookup);
                    let page = page.unwrap_or_else(|why| panic!("{} on {} at {place}: {why}", lesson.id, entry.name));
                    let broken = lesson.check(&page.lesson.figures);
                    assert_eq!(broken, Ok(()), "{} on {} at {place}: {}", lesson.id, entry.name, page.lesson.on);
                    for text in page.lesson.text.iter().chain(&page.why_not) {
                        assert!(!text.contains(['{', '}']), "{} on {}: {text}", lesson.id, entry.name);
                    }
                    let tally = &mut tallies.lock().unwrap()[at];
                    *(if page.lesson.setup.is_open { &mut tally.here } else { &mut tally.elsewhere }) += 1;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    tallies.into_inner().unwrap()
}

/// Every lesson on every catalogue model, each on one of the machines in turn, so that every lesson meets every machine.
#[test]
fn claims_hold_wherever_a_lesson_is_told() {
    let machines = fixtures::machines(&fixtures::model("llama3.1-8b")).len();
    let tallies = tell(|model, place, lesson| place == (model + 3 * lesson) % machines);
    for (lesson, tally) in lessons::all().iter().zip(&tallies) {
        assert_eq!(tally.here + tally.elsewhere, catalogue::all().len(), "{}", lesson.id);
    }
}

/// The same on all machines, which takes minutes.
#[test]
#[ignore = "some 40 000 lessons: cargo test --release -- --ignored claims_hold_on_every_machine --nocapture"]
fn claims_hold_on_every_machine() {
    for (lesson, tally) in lessons::all().iter().zip(tell(|_, _, _| true)) {
        println!("{:12} told here {:5}, elsewhere {:5}", lesson.id, tally.here, tally.elsewhere);
    }
}

#[test]
fn lessons_use_the_open_model_where_their_claims_hold() {
    let page = |id: &str, model: &str| told(lesson(id).0, &open(model, harness::one_gpu()));
    for id in ["parallel", "flash", "q8", "batch", "last-mib", "gqa", "free"] {
        let page = page(id, "llama3.1-8b");
        assert!(page.lesson.setup.is_open && page.why_not.is_empty(), "{id}: {:?}", page.why_not);
        assert!(page.lesson.on.starts_with("Llama 3.1 8B"), "{}", page.lesson.on);
    }
    for (id, model, why) in [
        ("experts", "llama3.1-8b", "it has no experts"),
        ("window", "llama3.1-8b", "none of its layers has a sliding window"),
        ("window", "gemma3-12b", "is not above"),
        ("one-layer", "mixtral-8x7b", "adds only 36 MiB"),
        ("mla", "llama3.1-8b", "its attention is not MLA"),
        ("gqa", "deepseek-v2-lite", "no group of its heads"),
        ("image", "llama3.1-8b", "it has no projector"),
        ("draft", "llama3.1-8b", "cannot draft for"),
        ("flash", "mamba-2.8b", "saves only 0 MiB"),
    ] {
        let page = page(id, model);
        assert!(!page.lesson.setup.is_open, "{id} on {model}");
        assert!(page.why_not.first().is_some_and(|sentence| sentence.contains(why)), "{id}: {:?}", page.why_not);
    }
    assert!(page("experts", "gpt-oss-20b").lesson.setup.is_open);
    assert!(page("verify", "llama3.1-8b").lesson.on.starts_with("Command R"));
}

/// A lesson's setup gives the figures in its text.
#[test]
fn the_setup_is_what_the_lesson_is_about() {
    let (at, lesson) = lesson("parallel");
    let rendered = on_its_own(at);
    let setup = &rendered.setup;
    let request = PlanRequest::new(
        setup.engine,
        std::sync::Arc::clone(&setup.model),
        setup.machine.clone(),
        setup.settings.clone(),
    );
    assert_eq!(rendered.figures["many_cache"], FigureValue::Bytes(request.plan().unwrap().totals.cache));
    let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO, bandwidth: None };
    let bare = Machine {
        disk: None,
        os: Os::Linux,
        cpu: plimsoll::machine::Cpu::default(),
        gpus: Vec::new(),
        ram,
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    };
    let page = told(at, &open(&lesson.model, bare.clone()));
    assert_eq!(page.lesson.setup.machine, lesson.own_machine(&bare).unwrap());
    assert!(page.why_not[0].contains("this machine has no GPU"), "{:?}", page.why_not);
    assert_eq!(
        lesson.render(at, &lessons::Attempt::on_open(&open("llama3.1-8b", bare)), &catalogue::model_and_projector),
        Err(WhyNot::Unsuited("this machine has no GPU".to_owned()))
    );
}

/// The guide's example means 32 000 tokens, and GiB where it writes GB; its figures then equal the engine's.
#[test]
fn the_guides_example_is_explained() {
    let rendered = on_its_own(lesson("verify").0);
    let said = |name: &str| rendered.figures[name].to_string().replace("GB", "GiB");
    assert_eq!(said("guide_cache"), said("short_cache"));
    assert_eq!(said("guide_graph"), said("short_graph"));
    assert_eq!(rendered.figures["card"], FigureValue::Bytes(Bytes::gib(24)));
    let setup = &rendered.setup;
    assert_eq!((setup.engine, setup.settings.ctx), (EngineId::Ollama024, Context::Tokens(32_768)));
    assert_eq!(setup.settings, Settings { ctx: Context::Tokens(32_768), ..Settings::default() });
    insta::assert_snapshot!(rendered.text.join("\n\n"));
}
