//! What is loaded beside the model: projectors in the browser, their device as a knob, and drafts chosen in the browser.

use plimsoll::catalogue;
use plimsoll::engine::{DraftFile, EngineId, PreparedModel};
use plimsoll::library::ModelOrigin;
use plimsoll::plan::{PartKind, Plan};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{MmprojDevice, MmprojOptions, Settings, SpecType};
use plimsoll::source::Package;
use plimsoll::source::store::Store;
use plimsoll::tui::action::Action;
use plimsoll::tui::app::Load;
use plimsoll::tui::screens::models::{BrowseLine, ModelBrowser};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::harness::{self, Harness, package};

const HERE: ModelOrigin = ModelOrigin::Store(Store::Ollama);

/// A model of the tests with the projector that the catalogue has for `entry`.
fn with_projector(name: &'static str, entry: &str) -> Package {
    let projector = catalogue::find(entry).unwrap().projector().cloned();
    assert!(projector.is_some(), "{entry}");
    Package { projector, ..package(name) }
}

fn harness(engine: EngineId, size: (u16, u16)) -> Harness {
    let model = harness::model("qwen2.5-32b");
    let mut harness = Harness::by(engine, model, harness::machine(1, "RTX 3090", 24, 64), size, Settings::default());
    harness.fakes.library = vec![
        ("gemma3:4b", HERE, Ok(with_projector("gemma3-4b", "gemma3-4b"))),
        ("gemma4:e2b", HERE, Ok(with_projector("gemma-4-e2b", "gemma4-e2b"))),
        ("qwen2.5:0.5b", HERE, Ok(package("qwen2.5-0.5b"))),
        ("llama3.2:1b", HERE, Ok(package("llama3.2-1b"))),
    ];
    harness
}

fn listed(harness: &Harness) -> Vec<&str> {
    let browse: &ModelBrowser = harness.showing();
    let models = browse.lines.iter().filter_map(|line| match *line {
        BrowseLine::Model(index) => Some(harness.host.app.library.rows[index].item.name.as_str()),
        _ => None,
    });
    models.collect()
}

fn plan(harness: &Harness) -> &Plan {
    harness.host.app.request.plan.as_deref().unwrap_or_else(|| panic!("{}", harness.text()))
}

#[test]
fn models_that_see_or_hear_are_marked_and_filtered() {
    let mut harness = harness(EngineId::LlamaCpp, (140, 45));
    harness.press("b");
    let text = harness.text();
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line("gemma3:4b").contains(" vision ") && line("gemma4:e2b").contains(" vision, audio "), "{text}");
    assert!(!line("llama3.2:1b").contains("vision"), "{text}");
    let all = listed(&harness).len();
    harness.press("^p");
    assert_eq!(listed(&harness), ["gemma3:4b", "gemma4:e2b"]);
    assert!(harness.text().contains("^P ● vision"), "{}", harness.text());
    harness.press("^p");
    assert_eq!(listed(&harness), ["gemma4:e2b"]);
    harness.press("^p");
    assert_eq!(listed(&harness).len(), all);
    harness.write("audio");
    assert_eq!(listed(&harness), ["gemma4:e2b"], "as a word, too");
}

#[test]
fn enter_opens_what_was_typed_also_before_it_is_drawn() {
    for (typed, opened) in [("llama3", "1B"), ("qwen2.50", "0.5B")] {
        let mut harness = harness(EngineId::LlamaCpp, (140, 45));
        harness.press("b");
        for letter in typed.chars() {
            let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE);
            assert!(harness.host.update(Action::Type(key)).is_empty());
        }
        harness.press("Enter");
        let name = &plan(&harness).model.name;
        assert!(name.contains(opened), "{typed}: {name}");
    }
}

#[test]
fn the_model_that_a_name_means_stands_first() {
    let mut harness = harness(EngineId::LlamaCpp, (140, 45));
    harness.fakes.library.push(("phi-4-mini", HERE, Ok(package("llama3.2-1b"))));
    harness.fakes.library.push(("phi4", HERE, Ok(package("qwen2.5-0.5b"))));
    harness.press("b");
    harness.write("phi4");
    assert_eq!(listed(&harness).first(), Some(&"phi4"), "{}", harness.text());
}

#[test]
fn a_narrow_list_has_letters_and_the_preview_says_what_the_projector_adds() {
    let mut harness = harness(EngineId::LlamaCpp, (80, 24));
    harness.press("b");
    let text = harness.text();
    assert!(text.contains("gemma4:e2b     VA ") && text.contains("gemma3:4b  vision "), "{text}");
    assert!(text.contains("With its vision projector: 812 MiB weights, 121 MiB compute on GPU0"), "{text}");
    harness.press("↓ ↓");
    assert!(!harness.text().contains("With its"), "{}", harness.text());
}

#[test]
fn the_projectors_device_is_a_knob_where_there_is_a_projector() {
    let mut harness = harness(EngineId::LlamaCpp, (140, 45));
    assert!(!harness.host.app.panels.knobs.offered.contains(&Knob::MmprojDevice));
    harness.press("b Enter");
    assert!(harness.host.app.panels.knobs.offered.contains(&Knob::MmprojDevice));
    let on_gpu = |harness: &Harness| {
        let vision = plan(harness).parts.iter().find(|part| part.kind == PartKind::Vision).unwrap();
        vision.devices[0].weights.0 > 0
    };
    assert!(on_gpu(&harness));
    while harness.host.app.panels.knobs.focus != Knob::MmprojDevice {
        harness.press("↓");
    }
    harness.press("→");
    assert_eq!(harness.host.app.request.settings.mmproj.device, MmprojDevice::Cpu);
    assert!(!on_gpu(&harness));
    harness.press("u");
    assert!(on_gpu(&harness));
    // the same as on the command line
    harness.press("r");
    let expected = Settings { mmproj: MmprojOptions::default(), ..harness.host.app.request.settings.clone() };
    assert_eq!(harness.host.app.request.settings, expected);
}

#[test]
fn a_number_of_a_device_says_what_the_projector_takes_and_why() {
    let mut harness = harness(EngineId::LlamaCpp, (140, 70));
    harness.press("b Enter Tab Tab i");
    let text = harness.text();
    assert!(text.contains("Of these, the vision projector") && text.contains("Why the vision projector"), "{text}");
    assert!(text.contains("--no-mmproj leaves it out"), "{text}");
}

#[test]
fn a_draft_is_chosen_in_the_browser_as_on_the_command_line() {
    let mut harness = harness(EngineId::LlamaCpp, (140, 45));
    harness.press("b ↓ ↓ ^d");
    assert!(harness.host.screens.is_empty(), "{}", harness.text());
    assert_eq!(harness.host.app.library.loading.state, Load::Ready);
    assert_eq!(harness.host.app.request.settings.draft.types, Some(vec![SpecType::DraftSimple]));
    assert!(harness.text().contains("drafts for Qwen2.5 32B"), "{}", harness.text());
    let draft = DraftFile { model: package("qwen2.5-0.5b").model, file: "qwen2.5:0.5b".to_owned() };
    let drafting = PreparedModel::from(harness::model("qwen2.5-32b")).with_draft(Some(draft));
    let same = plimsoll::engine::plan(
        EngineId::LlamaCpp,
        &drafting,
        &harness.host.app.request.machine,
        &harness.host.app.request.settings,
    );
    assert_eq!(plan(&harness).parts, same.unwrap().parts);
    assert!(plan(&harness).parts.iter().any(|part| part.kind == PartKind::Draft));
    harness.press("u");
    assert!(plan(&harness).parts.iter().all(|part| part.kind != PartKind::Draft));
    assert!(!harness.host.app.panels.knobs.offered.contains(&Knob::Draft));
}

#[test]
fn a_draft_that_does_not_fit_is_refused_in_one_sentence() {
    let mut harness = harness(EngineId::LlamaCpp, (140, 45));
    harness.press("b ↓ ↓ ↓ ^d");
    let why = "cannot draft for Qwen2.5 32B: its vocabulary has 128256 tokens, not 152064.";
    let said = |harness: &Harness| harness.showing::<ModelBrowser>().wrong.clone().unwrap_or_default();
    assert!(said(&harness).ends_with(why), "{}", said(&harness));
    assert_eq!(harness.host.app.library.loading.state, Load::Idle, "nothing is loaded");

    let mut other = self::harness(EngineId::Ollama, (140, 45));
    other.press("b ↓ ↓ ^d");
    assert!(said(&other).contains("choose llama.cpp with e"), "{}", said(&other));
}

/// Heads trained for one model do not fit another.
#[test]
fn drafts_are_matched_by_what_they_were_made_for() {
    let kind = |main: &str, draft: &str| {
        let [main, draft] = [main, draft].map(|name| PreparedModel::from(harness::model(name)));
        main.drafted_by(&draft)
    };
    assert_eq!(kind("llama3.1-8b", "llama3.1-8b-eagle3"), Ok(SpecType::DraftEagle3));
    assert_eq!(kind("qwen3-8b", "qwen3-8b-dflash"), Ok(SpecType::DraftDflash));
    assert_eq!(kind("qwen3-30b-a3b", "qwen3-30b-a3b-dspark"), Ok(SpecType::DraftDspark));
    assert_eq!(kind("qwen3.5-9b", "qwen3.5-9b-mtp"), Ok(SpecType::DraftMtp));
    assert_eq!(kind("gemma-4-31b", "gemma-4-31b-assistant"), Ok(SpecType::DraftMtp));
    assert_eq!(kind("llama3.1-70b", "llama3.2-1b"), Ok(SpecType::DraftSimple));
    for (main, draft) in [("llama3.1-8b", "llama3.1-70b-eagle3"), ("gemma-4-e2b", "gemma-4-31b-assistant")] {
        let why = kind(main, draft).unwrap_err();
        assert!(why.contains("it was made for a model with embeddings of"), "{why}");
    }
    let embeds = kind("llama3.1-8b", "mamba-2.8b").unwrap_err();
    assert!(embeds.contains("its vocabulary has 50280 tokens, not 128256"), "{embeds}");
}
