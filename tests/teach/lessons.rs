//! Lessons: every figure in them is computed, at least on the model they name, and none is unused.

use plimsoll::engine::EngineId;
use plimsoll::engine::PlanRequest;
use plimsoll::engine::PreparedModel;
use plimsoll::gguf::FileType;
use plimsoll::machine::{Machine, Origin, Os, Ram};
use plimsoll::settings::{Context, Settings};
use plimsoll::source::catalogue;
use plimsoll::teach::lessons::{self, Lesson, Told, Untold, Value};
use plimsoll::units::Bytes;

use crate::stage;

/// Names with digits in them; any other digit in a lesson would be a figure that nothing computes.
const NAMES: [&str; 3] = ["q8_0", "f16", "500 MiB"];

fn its_model(lesson: &Lesson) -> PreparedModel {
    catalogue::find(&lesson.model).unwrap().model(FileType::Q4KM).unwrap().into()
}

fn told(lesson: &'static Lesson) -> Told {
    lesson
        .tell_on_its_own(0, &its_model(lesson), &stage::one_gpu())
        .unwrap_or_else(|why| panic!("{}: {why:?}", lesson.id))
}

#[test]
fn every_figure_is_computed() {
    assert!(lessons::all().len() >= 8);
    for lesson in lessons::all() {
        let told = told(lesson);
        let texts = [&told.look, &told.question, &told.answer];
        for text in told.text.iter().chain(texts) {
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
        for name in told.figures.keys() {
            let told = lesson.texts().iter().any(|text| text.contains(&format!("{{{name}}}")));
            assert!(told || lesson.rests_on(name), "{}: nothing says {name}", lesson.id);
        }
    }
}

#[test]
fn lessons_use_the_open_model_where_it_shows_something() {
    let told = |id: &str, model: &str| {
        let lesson = lessons::all().iter().find(|lesson| lesson.id == id).unwrap();
        lesson.tell(0, &stage::model(model).into(), &stage::one_gpu())
    };
    for id in ["parallel", "flash", "q8", "batch", "last-mib", "one-layer"] {
        assert!(told(id, "llama3.1-8b").is_ok(), "{id}");
    }
    assert_eq!(told("experts", "llama3.1-8b").unwrap_err(), Untold::Unsuited);
    assert!(told("experts", "gpt-oss-20b").is_ok());
    assert_eq!(told("verify", "llama3.1-8b").unwrap_err(), Untold::Unsuited);
    assert_eq!(told("flash", "mamba-2.8b").unwrap_err(), Untold::Unsuited);
}

/// A lesson's setup gives the figures in its text.
#[test]
fn the_setup_is_what_the_lesson_is_about() {
    let lesson = lessons::all().iter().find(|lesson| lesson.id == "parallel").unwrap();
    let model = its_model(lesson);
    let told = told(lesson);
    let stage = &told.stage;
    let request = PlanRequest::new(stage.engine, model.clone(), stage.machine.clone(), stage.settings.clone());
    assert_eq!(told.figures["many_cache"], Value::Bytes(request.plan().unwrap().totals.cache));
    let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO };
    let bare = Machine { os: Os::Linux, gpus: Vec::new(), ram, origin: Origin::Described };
    assert_eq!(lesson.tell(0, &model, &bare).unwrap().stage.machine.gpus.len(), 1);
}

/// The guide's example means 32 000 tokens, and GiB where it writes GB; its figures then equal the engine's.
#[test]
fn the_guides_example_is_explained() {
    let lesson = lessons::all().iter().find(|lesson| lesson.id == "verify").unwrap();
    let told = told(lesson);
    let said = |name: &str| told.figures[name].to_string().replace("GB", "GiB");
    assert_eq!(said("guide_cache"), said("short_cache"));
    assert_eq!(said("guide_graph"), said("short_graph"));
    assert_eq!(told.figures["card"], Value::Bytes(Bytes::gib(24)));
    let stage = &told.stage;
    assert_eq!((stage.engine, stage.settings.ctx), (EngineId::Ollama024, Context::Tokens(32_768)));
    assert_eq!(stage.settings, Settings { ctx: Context::Tokens(32_768), ..Settings::default() });
    insta::assert_snapshot!(told.text.join("\n\n"));
}
