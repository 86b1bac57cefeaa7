//! Opening models: the list, references, progress, and errors.

use std::time::Duration;

use plimsoll::library::ModelOrigin;
use plimsoll::model::Projector;
use plimsoll::settings::{Context, Flag, GpuLayers, Settings, Source};
use plimsoll::source::store::Store;
use plimsoll::source::{Package, Progress, TagParameters};
use plimsoll::tui::action::{Action, Gesture};
use plimsoll::tui::app::Load;
use plimsoll::tui::screens::models::{BrowseLine, ModelBrowser};
use plimsoll::units::Bytes;

use crate::harness::{self, Harness, package};

const HERE: ModelOrigin = ModelOrigin::Store(Store::Ollama);

fn harness() -> Harness {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (120, 40));
    let fakes = &mut harness.fakes;
    fakes.models.insert("/models/qwen.gguf".to_owned(), Ok(package("qwen3-8b")));
    fakes.models.insert("hf://o/r:Q4_K_M".to_owned(), Ok(package("gemma3-4b")));
    let bad = "bad.gguf is not a GGUF file: it begins with 50 4B 03 04.";
    fakes.models.insert("/models/bad.gguf".to_owned(), Err(bad.to_owned()));
    fakes.library = vec![
        ("hf://owner/mamba", ModelOrigin::Recent, Ok(package("mamba-2.8b"))),
        ("qwen3:8b", HERE, Ok(package("qwen3-8b"))),
        ("broken:1b", HERE, Err("its blob sha256-abc is missing".to_owned())),
        ("llama3.2-1b", ModelOrigin::Catalogue, Ok(package("llama3.2-1b"))),
        ("qwen3-235b-a22b", ModelOrigin::Catalogue, Ok(package("qwen3-235b-a22b"))),
    ];
    fakes.running = vec![("gemma3:27b", package("gemma3-27b"))];
    fakes.paths = vec!["/models/bad.gguf".to_owned(), "/models/qwen.gguf".to_owned()];
    harness
}

fn model_name(harness: &Harness) -> &str {
    &harness.host.app.request.plan.as_ref().unwrap().model.name
}

/// The names in the list, from the top.
fn listed(harness: &Harness) -> Vec<&str> {
    let browse: &ModelBrowser = harness.showing();
    let name = |line: &BrowseLine| match *line {
        BrowseLine::Model(index) => harness.host.app.library.rows[index].item.name.as_str(),
        BrowseLine::Path(index) => browse.paths[index].as_str(),
        BrowseLine::Typed => "›",
    };
    browse.lines.iter().map(name).collect()
}

#[test]
fn every_model_is_listed_with_its_verdict() {
    let mut harness = harness();
    harness.press("b");
    let all = ["hf://owner/mamba", "qwen3:8b", "broken:1b", "gemma3:27b", "llama3.2-1b", "qwen3-235b-a22b"];
    assert_eq!(listed(&harness), all);
    let text = harness.text();
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line("qwen3:8b").contains("✓ VRAM") && line("qwen3:8b").contains("40k"), "{text}");
    // what runs in no other type is listed in a last resort
    assert!(line("qwen3-235b").contains("IQ2_XXS") && line("qwen3-235b").contains("▲ layers"), "{text}");
    assert!(line("broken:1b").contains("its blob sha256-abc is missing"), "{text}");
    assert!(line("gemma3:27b").contains("running Ollama"), "{text}");
    // the row agrees with the plan of the opened model
    harness.press("↓ ↓ ↓ Enter");
    assert_eq!(model_name(&harness), "Gemma 3 27B");
    let plan = harness.host.app.request.plan.clone().unwrap();
    assert!(line("gemma3:27b").contains(&plan.model.bytes.to_string()), "{text}");
}

#[test]
fn a_local_model_is_chosen_from_the_list() {
    let mut harness = harness();
    harness.press("o");
    assert_eq!(
        listed(&harness),
        ["hf://owner/mamba", "qwen3:8b", "broken:1b", "gemma3:27b"],
        "the catalogue is left out"
    );
    harness.press("↓ ↓ Enter");
    assert!(harness.text().contains("broken:1b could not be opened: its blob"), "{}", harness.text());
    harness.press("o ↓ Enter");
    assert_eq!(model_name(&harness), "Qwen3 8B");
    assert_eq!(harness.host.app.library.loading.state, Load::Ready);
    assert_eq!(*harness.fakes.recent.lock().unwrap(), ["qwen3:8b"], "what could not be opened is not kept");
}

#[test]
fn letters_search_the_list_fuzzily() {
    let mut harness = harness();
    harness.press("b");
    harness.write("qw8");
    assert_eq!(listed(&harness), ["qwen3:8b", "›"]);
    harness.press("Enter");
    assert_eq!(model_name(&harness), "Qwen3 8B");
    // text that matches nothing is loaded as a reference
    harness.press("b");
    harness.write("zephyrus");
    assert_eq!(listed(&harness), ["›"]);
    harness.press("Enter");
    assert!(harness.text().contains("zephyrus is not there"), "{}", harness.text());
}

#[test]
fn the_list_is_filtered_and_sorted() {
    let mut harness = harness();
    harness.press("b ^F");
    assert!(harness.text().contains("● fits"), "{}", harness.text());
    harness.press("^F");
    assert!(!listed(&harness).contains(&"qwen3-235b-a22b"));
    harness.press("^F ^F ^L");
    assert!(!listed(&harness).contains(&"llama3.2-1b") && listed(&harness).contains(&"gemma3:27b"));
    assert!(harness.text().contains("2 hidden"), "{}", harness.text());
    harness.press("^L ↓ ^G");
    assert_eq!(listed(&harness), ["qwen3:8b", "qwen3-235b-a22b"]);
    harness.press("^G");
    assert_eq!(listed(&harness).len(), 6);

    harness.press("^S");
    let mut names = listed(&harness).into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert!(names.is_sorted(), "{names:?}");
    harness.press("^R");
    names.reverse();
    assert_eq!(listed(&harness), names);
    harness.press("^R ^S");
    let parameters = |harness: &Harness| -> Vec<Option<u64>> {
        let of = |name: &&str| {
            let row = harness.host.app.library.rows.iter().find(|row| row.item.name == **name).unwrap();
            row.status.plan().map(|plan| plan.model.parameters)
        };
        listed(harness).iter().map(of).collect()
    };
    let order = parameters(&harness);
    assert!(order.is_sorted_by(|a, b| a >= b), "what is unknown comes last: {order:?}");
    harness.press("^R");
    let (order, last) = (parameters(&harness), parameters(&harness).len() - 1);
    assert!(order[..last].is_sorted() && order[last].is_none(), "{order:?}");
}

#[test]
fn the_cursor_stays_on_its_model_while_the_list_fills() {
    let mut harness = harness();
    harness.no_surveys = true;
    harness.press("b ^S ^S ^S ^S ↓ ↓");
    let browse: &ModelBrowser = harness.showing();
    let chosen = browse.chosen(&harness.host.app.library).unwrap().item.name.clone();
    assert!(harness.text().contains("planning"), "{}", harness.text());
    harness.no_surveys = false;
    harness.press("^R ^R");
    let browse: &ModelBrowser = harness.showing();
    assert_eq!(browse.chosen(&harness.host.app.library).unwrap().item.name, chosen);
    assert!(!harness.text().contains("planning"), "{}", harness.text());
}

#[test]
fn verdicts_are_kept_while_the_page_is_closed() {
    let mut harness = harness();
    harness.press("b Esc");
    harness.no_surveys = true;
    harness.press("b");
    assert!(harness.text().contains("✓ VRAM"), "{}", harness.text());
    assert!(harness.text().contains("planning 1"), "what failed may have been put right\n{}", harness.text());
    harness.press("Esc → b");
    assert!(harness.text().contains("planning 6"), "with other knobs all is asked anew\n{}", harness.text());
}

#[test]
fn filters_and_the_verdicts_of_other_contexts_are_kept_too() {
    let mut harness = harness();
    harness.press("b ^N ^F ^S Esc");
    harness.no_surveys = true;
    harness.press("b");
    let text = harness.text();
    for set in ["● fits", "context: 32k", "order: name"] {
        assert!(text.contains(set), "{set}\n{text}");
    }
    assert!(text.contains("planning 1"), "what failed\n{text}");
    // through the longer contexts, of which nothing is known, back to the planner's
    harness.press("^N");
    assert!(harness.text().contains("planning 6"), "{}", harness.text());
    harness.press("^N ^N ^N");
    assert!(harness.text().contains("as planned") && harness.text().contains("planning 1"), "{}", harness.text());
}

#[test]
fn what_is_set_is_never_hidden() {
    let mut harness = harness();
    harness.resize(80, 24);
    harness.press("b ↓ ^F ^F ^X ^X ^N ^P ^G ^S ^R");
    let text = harness.text();
    let line = text.lines().find(|line| line.contains("^F")).unwrap();
    for set in ["layers", "dense", "32k", "vision", "broken", "name"] {
        assert!(line.contains(set), "{set}: {line}");
    }
}

#[test]
fn what_runs_a_model_is_said_over_the_list() {
    let mut harness = harness();
    harness.press("b ↓ ^O");
    let text = harness.text();
    assert!(text.contains("What runs Qwen3 8B") && text.contains("One card"), "{text}");
    harness.press("Esc");
    assert_eq!(listed(&harness).len(), 6, "back to the list");
    harness.press("↓ ^O");
    assert!(harness.text().contains("It has no plan yet."), "{}", harness.text());
}

#[test]
fn the_keys_are_shown_while_text_is_typed() {
    let mut harness = harness();
    harness.press("b");
    harness.write("?");
    assert!(harness.text().contains("Keys"), "nothing was typed before\n{}", harness.text());
    harness.press("Esc");
    harness.write("qw?");
    assert!(!harness.text().contains("Keys"), "{}", harness.text());
    harness.press("F1");
    assert!(harness.text().contains("Keys") && harness.text().contains("open this model"), "{}", harness.text());
    harness.press("Esc");
    assert!(harness.text().contains("qw?"), "{}", harness.text());
}

#[test]
fn a_path_is_completed_and_opened() {
    let mut harness = harness();
    harness.press("o");
    harness.write("/mo");
    harness.press("Tab");
    let browse: &ModelBrowser = harness.showing();
    assert_eq!(browse.input.value(), "/models/", "as far as all agree");
    assert_eq!(listed(&harness)[..2], ["/models/bad.gguf", "/models/qwen.gguf"]);
    harness.press("Enter");
    assert!(harness.text().contains("bad.gguf could not be opened"), "{}", harness.text());
    harness.press("o");
    harness.write("/models/q");
    harness.press("Tab Enter");
    assert_eq!(model_name(&harness), "Qwen3 8B");
}

#[test]
fn a_repository_is_listed_and_one_of_its_models_opened() {
    let mut harness = harness();
    let files = ["Q4_K_M", "Q8_0"].map(|quant| (format!("hf://o/r:{quant}"), package("gemma3-4b")));
    harness.fakes.repositories.insert("hf://o/r".to_owned(), files.to_vec());
    harness.press("b");
    harness.write("hf://o/none");
    assert!(harness.text().contains("list its files"), "{}", harness.text());
    harness.press("Tab");
    assert!(harness.text().contains("hf://o/none is not there"), "{}", harness.text());
    harness.press("^U");
    harness.write("hf://o/r");
    harness.press("Tab");
    assert_eq!(listed(&harness), ["›", "hf://o/r:Q4_K_M", "hf://o/r:Q8_0"]);
    let browse: &ModelBrowser = harness.showing();
    assert_eq!((browse.at, browse.input.value()), (1, "hf://o/r"));
    let text = harness.text();
    assert!(text.contains("The header of one was read."), "{text}");
    assert!(text.lines().any(|line| line.contains("hf://o/r:Q8_0") && line.contains("VRAM")), "{text}");

    // they stay as long as the list does, and are not on this computer
    harness.press("Esc b");
    assert_eq!(listed(&harness).iter().filter(|name| name.starts_with("hf://o/r:")).count(), 2);
    harness.press("^L");
    assert!(!listed(&harness).contains(&"hf://o/r:Q8_0"));
    harness.press("^L");
    harness.write("hf://o/r");
    harness.press("↓ Enter");
    assert_eq!(model_name(&harness), "Gemma 3 4B");
    assert_eq!(*harness.fakes.recent.lock().unwrap(), ["hf://o/r:Q4_K_M"]);
}

#[test]
fn a_reference_is_pasted_onto_the_planner_and_opened() {
    let mut harness = harness();
    harness.act(Action::Paste("hf://o/r:Q4_K_M\n".to_owned()));
    assert_eq!(listed(&harness)[0], "›", "{}", harness.text());
    harness.press("Enter");
    assert_eq!(model_name(&harness), "Gemma 3 4B");
    assert_eq!(*harness.fakes.recent.lock().unwrap(), ["hf://o/r:Q4_K_M"]);
}

#[test]
fn opened_models_are_kept_among_the_recent_ones() {
    let mut harness = harness();
    let reference = Some("catalogue:gemma3-4b".to_owned());
    harness.fakes.models.insert("gemma3:4b".to_owned(), Ok(Package { reference, ..package("gemma3-4b") }));
    harness.press("b");
    harness.write("gemma3:4b");
    harness.press("Enter");
    assert_eq!(*harness.fakes.recent.lock().unwrap(), ["catalogue:gemma3-4b"]);
}

#[test]
fn a_tags_knobs_adapters_and_projector_are_used_and_reported() {
    let mut harness = harness();
    let knobs = TagParameters { num_ctx: Some(12_288), num_gpu: Some(5), ..TagParameters::default() };
    let (adapters, projector) = (Bytes::mib(40), Projector::sized(Bytes::mib(800)));
    harness.fakes.models.insert(
        "m:1b".to_owned(),
        Ok(Package { adapters, projector: projector.clone(), knobs, ..package("qwen3-8b") }),
    );
    let before = harness.host.app.request.settings.clone();
    let open = |harness: &mut Harness, name: &str| {
        harness.press("b");
        harness.write(name);
        harness.press("Enter");
    };
    open(&mut harness, "m:1b");
    let came = Settings { adapters, projector, ..before.clone() };
    let with_tag = Settings { ctx: Context::Tokens(12_288), gpu_layers: GpuLayers::Count(5), ..came.clone() };
    assert_eq!(harness.host.app.request.settings, with_tag);
    let text = harness.text();
    assert!(text.contains("Context set to 12288 tokens by the model's tag"), "{text}");
    assert!(harness.host.app.request.plan.as_ref().unwrap().notes.iter().any(|note| note.contains("num_gpu")));
    harness.press("u");
    assert_eq!(harness.host.app.request.settings, came, "the tag's knobs are one step that can be undone");

    // a tag's knobs are dropped with its model, except those changed since
    open(&mut harness, "m:1b");
    open(&mut harness, "/models/qwen.gguf");
    assert_eq!(harness.host.app.request.settings, before);
    open(&mut harness, "m:1b");
    harness.press("→");
    let Context::Tokens(turned) = harness.host.app.request.settings.ctx else { panic!("a value was set") };
    open(&mut harness, "/models/qwen.gguf");
    assert_eq!(harness.host.app.request.settings, Settings { ctx: Context::Tokens(turned), ..before });
}

/// As `plan --command` has it: the tag stands over the server's variables, and another model is planned without it.
#[test]
fn a_tag_stands_over_the_variables_of_a_pasted_command() {
    let mut harness = harness();
    let knobs = TagParameters { num_ctx: Some(12_288), ..TagParameters::default() };
    harness.fakes.models.insert("m:1b".to_owned(), Ok(Package { knobs, ..package("qwen3-8b") }));
    let source = |harness: &Harness| harness.host.app.request.settings.source_of(Flag::Context);
    harness.act(Action::Paste("OLLAMA_CONTEXT_LENGTH=8192 ollama run m:1b".to_owned()));
    assert_eq!((harness.host.app.request.settings.ctx, source(&harness)), (Context::Tokens(12_288), Some(Source::Tag)));
    harness.press("b");
    harness.write("/models/qwen.gguf");
    harness.press("Enter");
    let by_variable = Some(Source::Variable("OLLAMA_CONTEXT_LENGTH"));
    assert_eq!((harness.host.app.request.settings.ctx, source(&harness)), (Context::Tokens(8192), by_variable));
}

#[test]
fn a_bad_file_keeps_the_plan_and_shows_the_error() {
    let mut harness = harness();
    harness.press("o");
    harness.write("/models/bad.gguf");
    harness.press("Enter");
    assert_eq!(model_name(&harness), "Llama 3.1 8B");
    let text = harness.text();
    assert!(text.contains("bad.gguf could not be opened") && text.contains("not a GGUF file"), "{text}");
    harness.press("Esc");
    assert!(!harness.text().contains("could not be opened"));
}

#[test]
fn a_newer_load_replaces_an_older_one() {
    for backwards in [false, true] {
        let mut harness = harness();
        harness.slow_loads = true;
        for path in ["/models/bad.gguf", "/models/qwen.gguf"] {
            harness.press("o");
            harness.write(path);
            harness.press("Enter");
        }
        assert!(harness.text().contains("reading qwen.gguf"), "{}", harness.text());
        harness.press("→");
        assert_eq!(model_name(&harness), "Llama 3.1 8B", "the planner is live meanwhile");
        harness.finish_loads(backwards);
        assert_eq!(model_name(&harness), "Qwen3 8B", "whichever ends first");
        assert_eq!(harness.host.app.library.loading.state, Load::Ready);
    }
}

#[test]
fn progress_is_shown_in_bytes_and_speed_and_esc_stops_it() {
    let mut harness = harness();
    harness.slow_loads = true;
    harness.press("o");
    harness.write("hf://o/r:Q4_K_M");
    harness.press("Enter");
    for id in 0..4 {
        let now = Progress { done: 6 << 20, total: None, shard: 1, shards: 4 };
        harness.act(Action::Progress { id, now, took: Duration::from_secs(3) });
    }
    let text = harness.text();
    assert!(text.contains("r:Q4_K_M: 6.0 MiB of its header, 2.0 MiB/s, shard 2 of 4"), "{text}");
    harness.press("Esc");
    assert_eq!(harness.host.app.library.loading.state, Load::Idle);
    harness.finish_loads(false);
    assert_eq!(model_name(&harness), "Llama 3.1 8B", "its answer is of no interest any more");
}

#[test]
fn without_local_models_the_catalogue_is_shown() {
    let mut harness = harness();
    harness.fakes.running.clear();
    harness.fakes.library.retain(|(_, origin, _)| *origin == ModelOrigin::Catalogue);
    harness.press("o");
    assert_eq!(listed(&harness), ["llama3.2-1b", "qwen3-235b-a22b"]);
    let y = harness.text().lines().position(|line| line.contains("qwen3-235b-a22b")).unwrap();
    harness.mouse(Gesture::Down, 8, y as u16);
    assert_eq!(harness.showing::<ModelBrowser>().at, 1, "what is said above it moves no row");
    harness.fakes.library.clear();
    harness.press("Esc o");
    assert!(harness.text().contains("type a name, a path or a URL"), "{}", harness.text());
}

#[test]
fn the_mouse_chooses_sorts_and_opens() {
    let mut harness = harness();
    harness.press("b");
    let place = |harness: &Harness, wanted: &str| -> (u16, u16) {
        let text = harness.text();
        let (y, line) = text.lines().enumerate().find(|(_, line)| line.contains(wanted)).unwrap();
        (line[..line.find(wanted).unwrap()].chars().count() as u16, y as u16)
    };
    let (x, y) = place(&harness, "params");
    harness.mouse(Gesture::Down, x, y);
    assert_eq!(listed(&harness)[0], "qwen3-235b-a22b");
    let (x, y) = place(&harness, "qwen3:8b");
    harness.mouse(Gesture::Down, x, y);
    assert!(harness.host.showing::<ModelBrowser>().is_some(), "once chooses");
    harness.mouse(Gesture::Down, x, y);
    assert_eq!(model_name(&harness), "Qwen3 8B", "twice opens");
}

#[test]
fn a_planner_without_a_model_names_the_keys() {
    let look = plimsoll::tui::theme::Appearance::BEST;
    let mut harness = Harness::with(None, harness::one_gpu(), (100, 30), Settings::default(), look);
    assert!(harness.text().contains("Press b to choose a model"), "{}", harness.text());
    harness.press("→ ↓ → Tab → Enter Tab ↓ i m u e Esc ?");
}

#[test]
fn verdicts_are_renewed_when_the_machine_is_detected() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::machine(0, "", 0, 64), (120, 40));
    harness.fakes.library = vec![("qwen3:8b", HERE, Ok(package("qwen3-8b")))];
    harness.press("b");
    assert!(harness.text().contains("▲ RAM") && !harness.text().contains("✓ VRAM"), "{}", harness.text());
    let detected = plimsoll::hardware::Detected {
        machine: harness::one_gpu(),
        facts: Vec::new(),
        processes: Vec::new(),
        tried: Vec::new(),
    };
    harness.act(Action::Detected(Box::new(detected)));
    assert!(harness.text().contains("✓ VRAM"), "{}", harness.text());
}

/// The context that models are judged by is the one that the chosen one is opened with.
#[test]
fn a_model_is_opened_with_the_context_that_it_was_judged_by() {
    let mut harness = harness();
    harness.press("b ^N ↓ ↓ ↓ Enter");
    assert!(harness.host.screens.is_empty(), "{}", harness.text());
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(32_768), "{}", harness.text());
}
