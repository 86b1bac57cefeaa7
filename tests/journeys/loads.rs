//! Opening models: lists, paths, progress, and what happens when a file cannot be read.

use std::path::PathBuf;
use std::sync::Arc;

use plimsoll::tui::action::Listing;
use plimsoll::tui::app::{Load, Mode};
use plimsoll::units::Bytes;

use crate::stage::{self, Stage};

fn stage() -> Stage {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (120, 40));
    let qwen = Arc::new(stage::model("qwen3-8b"));
    let props = &mut stage.props;
    props.models.insert(PathBuf::from("/models/qwen.gguf"), Ok(qwen));
    props.models.insert(
        PathBuf::from("/models/bad.gguf"),
        Err("bad.gguf is no GGUF file: it begins with 50 4B 03 04.".to_owned()),
    );
    props.listings = vec![
        Listing {
            name: "qwen3:8b".to_owned(),
            store: "Ollama".to_owned(),
            file: Ok((PathBuf::from("/models/qwen.gguf"), Bytes::gib(5))),
        },
        Listing {
            name: "broken:1b".to_owned(),
            store: "Ollama".to_owned(),
            file: Err("its blob sha256-abc is missing".to_owned()),
        },
    ];
    props.paths = vec!["/models/bad.gguf".to_owned(), "/models/qwen.gguf".to_owned()];
    stage
}

fn model_name(stage: &Stage) -> &str {
    &stage.app.plan.as_ref().unwrap().model.name
}

#[test]
fn a_model_of_this_computer_is_chosen_from_the_list() {
    let mut stage = stage();
    stage.press("o");
    let text = stage.text();
    assert!(text.contains("qwen3:8b") && text.contains("its blob sha256-abc is missing"), "{text}");
    stage.press("↓ Enter");
    assert!(stage.text().contains("cannot be opened: its blob"), "{}", stage.text());
    stage.press("↑ Enter");
    assert_eq!(model_name(&stage), "Qwen3 8B");
    assert_eq!(stage.app.load, Load::Ready);
}

#[test]
fn letters_search_the_list() {
    let mut stage = stage();
    stage.press("o");
    stage.write("qw");
    assert!(!stage.text().contains("broken:1b"));
    stage.press("Enter");
    assert_eq!(model_name(&stage), "Qwen3 8B");
}

#[test]
fn a_path_is_completed_and_opened() {
    let mut stage = stage();
    stage.press("o");
    stage.write("/mo");
    stage.press("Tab");
    let Mode::Open(open) = &stage.app.mode else { panic!("still choosing") };
    assert_eq!(open.input.value(), "/models/", "as far as all agree");
    assert_eq!(open.paths.len(), 2);
    stage.write("q");
    stage.press("Tab Enter");
    assert_eq!(model_name(&stage), "Qwen3 8B");
}

#[test]
fn a_bad_file_leaves_the_plan_and_says_why() {
    let mut stage = stage();
    stage.press("o");
    stage.write("/models/bad.gguf");
    stage.press("Enter");
    assert_eq!(model_name(&stage), "Llama 3.1 8B");
    let text = stage.text();
    assert!(text.contains("bad.gguf was not opened") && text.contains("no GGUF file"), "{text}");
    stage.press("Esc");
    assert!(!stage.text().contains("was not opened"));
}

#[test]
fn a_newer_load_replaces_an_older_one() {
    for backwards in [false, true] {
        let mut stage = stage();
        stage.slow_loads = true;
        for path in ["/models/bad.gguf", "/models/qwen.gguf"] {
            stage.press("o");
            stage.write(path);
            stage.press("Enter");
        }
        assert!(stage.text().contains("reading qwen.gguf"), "{}", stage.text());
        stage.press("→");
        assert_eq!(model_name(&stage), "Llama 3.1 8B", "the planner is live meanwhile");
        stage.finish_loads(backwards);
        assert_eq!(model_name(&stage), "Qwen3 8B", "whichever ends first");
        assert_eq!(stage.app.load, Load::Ready);
    }
}

#[test]
fn esc_stops_a_load() {
    let mut stage = stage();
    stage.slow_loads = true;
    stage.press("o");
    stage.write("/models/qwen.gguf");
    stage.press("Enter Esc");
    assert_eq!(stage.app.load, Load::Idle);
    stage.finish_loads(false);
    assert_eq!(model_name(&stage), "Llama 3.1 8B", "its answer is of no interest any more");
}

#[test]
fn an_empty_computer_says_how_to_name_a_model() {
    let mut stage = stage();
    stage.props.listings.clear();
    stage.press("o");
    let text = stage.text();
    assert!(text.contains("No model was found") && text.contains("OLLAMA_MODELS"), "{text}");
}

#[test]
fn a_planner_without_a_model_says_what_to_press() {
    let settings = plimsoll::settings::Settings::default();
    let look = plimsoll::tui::theme::Look::BEST;
    let mut stage = Stage::with(None, stage::one_gpu(), (100, 30), settings, look);
    assert!(stage.text().contains("Press o to open a model"), "{}", stage.text());
    stage.press("→ ↓ → Tab → Enter Tab ↓ i m u e Esc ?");
}
