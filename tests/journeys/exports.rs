//! Exporting a plan.

use plimsoll::engine::EngineId;
use plimsoll::gguf::FileType;
use plimsoll::settings::Settings;
use plimsoll::tui::app::Mode;
use plimsoll::tui::theme::Look;

use crate::stage::{self, Stage};

fn stage() -> Stage {
    Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (120, 40))
}

#[test]
fn the_shown_text_is_copied() {
    let mut stage = stage();
    stage.press("3 0 0 0 Enter x");
    assert!(stage.text().contains("PARAMETER num_ctx 3000"), "{}", stage.text());
    stage.press("Enter");
    assert!(stage.copied[0].contains("PARAMETER num_ctx 3000\n"), "{:?}", stage.copied);
    assert!(stage.text().contains("Modelfile copied."), "{}", stage.text());
    stage.press("→ y");
    assert_eq!(stage.copied[1], "{\n  \"num_ctx\": 3000\n}\n");
    stage.press("Esc");
    assert!(matches!(stage.app.mode, Mode::Plan));
    assert_eq!(stage.copied.len(), 2);
}

#[test]
fn an_export_is_saved_under_the_typed_name_and_never_overwrites() {
    let mut stage = stage();
    stage.press("x → → → s");
    assert!(stage.text().contains("Save as ─ Enter saves"), "{}", stage.text());
    assert!(stage.text().contains("› plimsoll.conf"), "its usual name is there\n{}", stage.text());
    stage.press("Enter");
    assert!(stage.text().contains("Saved as /here/plimsoll.conf."), "{}", stage.text());
    assert!(stage.props.files.lock().unwrap()["plimsoll.conf"].starts_with("[Service]\n"));

    stage.press("s Enter");
    assert!(stage.text().contains("'plimsoll.conf' already exists: choose another name."), "{}", stage.text());
    stage.press("Back Back Back Back Back");
    stage.write(".two");
    stage.press("Enter");
    assert!(stage.text().contains("Saved as /here/plimsoll.two."), "{}", stage.text());
    assert_eq!(stage.props.files.lock().unwrap().len(), 2);

    stage.press("s Esc");
    assert!(matches!(&stage.app.mode, Mode::Export(page) if page.naming.is_none()), "Esc leaves the name first");
    stage.press("Esc");
    assert!(matches!(stage.app.mode, Mode::Plan));
}

#[test]
fn the_formats_are_those_of_the_engine() {
    let machine = stage::one_gpu();
    let model = stage::model("llama3.1-8b");
    let mut stage = Stage::by(EngineId::LlamaCpp, model, machine, (120, 40), Settings::default());
    stage.press("3 0 0 0 Enter x");
    assert!(stage.text().contains("llama-server -m model.gguf -c 3000"), "{}", stage.text());
    assert!(!stage.text().contains("Modelfile"), "{}", stage.text());
}

#[test]
fn exports_name_the_source_of_an_unchanged_model() {
    let mut stage = stage();
    stage.props.models.insert("hf://a/b:Q8_0".to_owned(), Ok(stage::package("llama3.1-8b")));
    stage.press("b");
    stage.write("hf://a/b:Q8_0");
    stage.press("Enter x");
    assert!(stage.text().contains("FROM hf.co/a/b:Q8_0"), "{}", stage.text());
    stage.press("Esc u x");
    assert!(stage.text().contains("FROM ./model.gguf"), "the model before came from nowhere\n{}", stage.text());

    // in another quantisation the model is not a file that exists
    stage.press("Esc b");
    stage.write("hf://a/b:Q8_0");
    stage.press("Enter");
    let as_q4 = stage.app.situation().unwrap().quantised("Q4_0".parse::<FileType>().unwrap()).unwrap();
    assert_eq!(as_q4.model.file_type, Some("Q4_0"));
    stage.press("W Tab Tab Enter x");
    assert!(stage.text().contains("FROM ./model.gguf"), "{}", stage.text());
}

#[test]
fn without_a_plan_there_is_nothing_to_export() {
    let mut stage = Stage::with(None, stage::one_gpu(), (120, 40), Settings::default(), Look::BEST);
    stage.press("x");
    assert!(stage.text().contains("There is no plan to export."), "{}", stage.text());
}
