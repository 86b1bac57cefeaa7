//! Lessons: every figure in them is computed, at least on the model they name, and none is unused.

use plimsoll::engine::EngineId;
use plimsoll::engine::PlanRequest;
use plimsoll::engine::PreparedModel;
use plimsoll::gguf::FileType;
use plimsoll::machine::{Machine, Origin, Os, Ram};
use plimsoll::settings::{Context, Settings};
use plimsoll::source::catalogue;
use plimsoll::teach::lessons::{self, FigureValue, Lesson, LessonError, RenderedLesson};
use plimsoll::units::Bytes;

use crate::harness;

/// Names with digits in them; any other digit in a lesson would be a figure that nothing computes.
const NAMES: [&str; 3] = ["q8_0", "f16", "500 MiB"];

fn its_model(lesson: &Lesson) -> PreparedModel {
    catalogue::find(&lesson.model).unwrap().model(FileType::Q4KM).unwrap().into()
}

fn rendered(lesson: &'static Lesson) -> RenderedLesson {
    lesson
        .render_on_own_model(0, &its_model(lesson), &harness::one_gpu())
        .unwrap_or_else(|why| panic!("{}: {why:?}", lesson.id))
}

#[test]
fn every_figure_is_computed() {
    assert!(lessons::all().len() >= 8);
    for lesson in lessons::all() {
        let rendered = rendered(lesson);
        let texts = [&rendered.look, &rendered.question, &rendered.answer];
        for text in rendered.text.iter().chain(texts) {
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
    }
}

#[test]
fn lessons_use_the_open_model_where_it_shows_something() {
    let rendered = |id: &str, model: &str| {
        let lesson = lessons::all().iter().find(|lesson| lesson.id == id).unwrap();
        lesson.render(0, &harness::model(model).into(), &harness::one_gpu())
    };
    for id in ["parallel", "flash", "q8", "batch", "last-mib", "one-layer"] {
        assert!(rendered(id, "llama3.1-8b").is_ok(), "{id}");
    }
    assert_eq!(rendered("experts", "llama3.1-8b").unwrap_err(), LessonError::Unsuited);
    assert!(rendered("experts", "gpt-oss-20b").is_ok());
    assert_eq!(rendered("verify", "llama3.1-8b").unwrap_err(), LessonError::Unsuited);
    assert_eq!(rendered("flash", "mamba-2.8b").unwrap_err(), LessonError::Unsuited);
}

/// A lesson's setup gives the figures in its text.
#[test]
fn the_setup_is_what_the_lesson_is_about() {
    let lesson = lessons::all().iter().find(|lesson| lesson.id == "parallel").unwrap();
    let model = its_model(lesson);
    let rendered = rendered(lesson);
    let setup = &rendered.setup;
    let request = PlanRequest::new(setup.engine, model.clone(), setup.machine.clone(), setup.settings.clone());
    assert_eq!(rendered.figures["many_cache"], FigureValue::Bytes(request.plan().unwrap().totals.cache));
    let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO, bandwidth: None };
    let bare = Machine {
        os: Os::Linux,
        gpus: Vec::new(),
        ram,
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    };
    assert_eq!(lesson.render(0, &model, &bare).unwrap().setup.machine.gpus.len(), 1);
}

/// The guide's example means 32 000 tokens, and GiB where it writes GB; its figures then equal the engine's.
#[test]
fn the_guides_example_is_explained() {
    let lesson = lessons::all().iter().find(|lesson| lesson.id == "verify").unwrap();
    let rendered = rendered(lesson);
    let said = |name: &str| rendered.figures[name].to_string().replace("GB", "GiB");
    assert_eq!(said("guide_cache"), said("short_cache"));
    assert_eq!(said("guide_graph"), said("short_graph"));
    assert_eq!(rendered.figures["card"], FigureValue::Bytes(Bytes::gib(24)));
    let setup = &rendered.setup;
    assert_eq!((setup.engine, setup.settings.ctx), (EngineId::Ollama024, Context::Tokens(32_768)));
    assert_eq!(setup.settings, Settings { ctx: Context::Tokens(32_768), ..Settings::default() });
    insta::assert_snapshot!(rendered.text.join("\n\n"));
}
