//! Lessons: every figure in them is computed, and what they say of the figures holds wherever they are told.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll::catalogue::{self, CatalogueEntry};
use plimsoll::engine::{EngineId, PlanRequest, PreparedModel};
use plimsoll::machine::{Machine, Origin, Os, Ram};
use plimsoll::settings::{Context, Settings};
use plimsoll::teach::lessons::{self, FigureValue, Lesson, LessonsPage, RenderedLesson, WhyNot};
use plimsoll::units::Bytes;

use crate::{fixtures, harness};

/// Names with digits in them; any other digit in a lesson would be a figure that nothing computes.
const NAMES: [&str; 3] = ["q8_0", "f16", "version 0.24"];

fn lesson(id: &str) -> (usize, &'static Lesson) {
    lessons::all().iter().enumerate().find(|(_, lesson)| lesson.id == id).unwrap()
}

/// A request with the catalogue's model open, with its projector.
fn open(name: &str, machine: Machine) -> PlanRequest {
    let (model, projector) = catalogue::model_and_projector(name).unwrap();
    request(model.into(), projector, machine)
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
    assert!(lessons::all().len() >= 34);
    for (at, lesson) in lessons::all().iter().enumerate() {
        let rendered = on_its_own(at);
        let texts = [&rendered.look, &rendered.question, &rendered.answer];
        let paragraphs = rendered.paragraphs();
        for text in paragraphs.iter().chain(texts).chain(rendered.bars.iter().map(|bar| &bar.label)) {
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

/// Every sentence is shown by figures, or says where it is from; what is guessed is not given away by the question; and a
/// lesson on an older engine says so in its title.
#[test]
fn every_sentence_is_a_claim() {
    for lesson in lessons::all() {
        for sentence in lesson.sentences() {
            let founded = !sentence.shows.is_empty() || sentence.from.is_some();
            assert!(founded, "{}: nothing shows «{}»", lesson.id, sentence.say);
        }
        for figure in lesson.guessed() {
            assert!(lesson.tells(figure), "{}: the question gives {figure}", lesson.id);
        }
        let older = [EngineId::Ollama024, EngineId::Ollama011].contains(&lesson.engine);
        assert_eq!(older, lesson.title.starts_with("Ollama up to 0.24: "), "{}", lesson.title);
    }
}

/// What tells the answer is not on the page before it, and the answer is not under the question.
#[test]
fn answers_are_not_under_questions() {
    let text = |page: &plimsoll::page::Page| -> String {
        let line = |line: plimsoll::page::Line| line.spans.into_iter().map(|span| span.text + " ").collect::<String>();
        page.lines(4000).into_iter().map(line).collect::<Vec<_>>().join("\n")
    };
    for (at, lesson) in lessons::all().iter().enumerate() {
        let page = told(at, &open(&lesson.model, lesson.own_machine(&harness::one_gpu()).unwrap()));
        let (before, after) = (text(&page.page(false, true)), text(&page.page(true, true)));
        assert!(!before.contains(&*page.lesson.answer), "{}: {before}", lesson.id);
        assert!(after.contains(&*page.lesson.answer), "{}: {after}", lesson.id);
        let telling = page.lesson.text.iter().flatten().filter(|sentence| sentence.telling);
        for sentence in telling {
            assert!(!before.contains(&sentence.text) && after.contains(&sentence.text), "{}", sentence.text);
        }
        assert!(before.contains(&page.lesson.question) && !before.contains("Answer:"), "{before}");
    }
}

/// Each idea of the documents that plimsoll began from is taught by a lesson or a page that exists.
#[test]
fn every_idea_is_taught() {
    let readme = include_str!("../../assets/README.md");
    let (_, table) = readme.split_once("<!-- ideas:begin -->").unwrap();
    let (table, _) = table.split_once("<!-- ideas:end -->").unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")).collect();
    assert!(rows.len() > 40, "{} ideas", rows.len());
    for row in &rows[1..] {
        let places = row.trim_matches(['|', ' ']).rsplit(" | ").next().unwrap();
        for place in places.split(", ") {
            let (kind, name) = place.split_once(' ').unwrap();
            let name = name.trim_matches('`');
            let exists = match kind {
                "lesson" => lessons::all().iter().any(|lesson| lesson.id == name),
                "page" => plimsoll::teach::Tab::ALL.iter().any(|page| page.name() == name),
                _ => false,
            };
            assert!(exists, "{row}: there is no {place}");
        }
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
                    for text in page.lesson.paragraphs().iter().chain(&page.why_not) {
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

/// Every lesson on a quarter of the catalogue's models, each on one of the machines in turn, so that every lesson meets
/// every machine.
#[test]
fn claims_hold_wherever_a_lesson_is_told() {
    const SHARE: usize = 4;
    let machines = fixtures::machines(&fixtures::model("llama3.1-8b")).len();
    let is_told = |model: usize, lesson: usize| (model + lesson).is_multiple_of(SHARE);
    let tallies =
        tell(|model, place, lesson| is_told(model, lesson) && place == (model / SHARE + 3 * lesson) % machines);
    for ((at, lesson), tally) in lessons::all().iter().enumerate().zip(&tallies) {
        let times = (0..catalogue::all().len()).filter(|model| is_told(*model, at)).count();
        assert_eq!(tally.here + tally.elsewhere, times, "{}", lesson.id);
    }
}

/// All of them on all machines, which takes an hour.
#[test]
#[ignore = "some 130 000 lessons: cargo test --release -- --ignored claims_hold_on_every_machine --nocapture"]
fn claims_hold_on_every_machine() {
    let asked = AtomicUsize::new(0);
    let all = |_, _, _| {
        let before = asked.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(5000) {
            println!("{before} lessons so far");
        }
        true
    };
    for (lesson, tally) in lessons::all().iter().zip(tell(all)) {
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
    insta::assert_snapshot!(rendered.paragraphs().join("\n\n"));
}
