//! Opening models: the list, references, progress, and errors.

use std::time::Duration;

use plimsoll::settings::{Context, GpuLayers, Settings};
use plimsoll::shelf::Origin;
use plimsoll::source::store::Store;
use plimsoll::source::{Package, Progress, TagKnobs};
use plimsoll::tui::action::{Action, Gesture};
use plimsoll::tui::app::browse::Line;
use plimsoll::tui::app::{Load, Mode};
use plimsoll::units::Bytes;

use crate::stage::{self, Stage, package};

const HERE: Origin = Origin::Store(Store::Ollama);

fn stage() -> Stage {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (120, 40));
    let props = &mut stage.props;
    props.models.insert("/models/qwen.gguf".to_owned(), Ok(package("qwen3-8b")));
    props.models.insert("hf://o/r:Q4_K_M".to_owned(), Ok(package("gemma3-4b")));
    let bad = "bad.gguf is not a GGUF file: it begins with 50 4B 03 04.";
    props.models.insert("/models/bad.gguf".to_owned(), Err(bad.to_owned()));
    props.shelf = vec![
        ("hf://owner/mamba", Origin::Recent, Ok(package("mamba-2.8b"))),
        ("qwen3:8b", HERE, Ok(package("qwen3-8b"))),
        ("broken:1b", HERE, Err("its blob sha256-abc is missing".to_owned())),
        ("llama3.2-1b", Origin::Catalogue, Ok(package("llama3.2-1b"))),
        ("qwen3-235b-a22b", Origin::Catalogue, Ok(package("qwen3-235b-a22b"))),
    ];
    props.running = vec![("gemma3:27b", package("gemma3-27b"))];
    props.paths = vec!["/models/bad.gguf".to_owned(), "/models/qwen.gguf".to_owned()];
    stage
}

fn model_name(stage: &Stage) -> &str {
    &stage.app.plan.as_ref().unwrap().model.name
}

/// The names in the list, from the top.
fn listed(stage: &Stage) -> Vec<&str> {
    let Mode::Browse(browse) = &stage.app.mode else { panic!("still choosing") };
    let name = |line: &Line| match *line {
        Line::Model(index) => stage.app.shelf.rows[index].item.name.as_str(),
        Line::Path(index) => browse.paths[index].as_str(),
        Line::Typed => "›",
    };
    browse.lines.iter().map(name).collect()
}

#[test]
fn every_model_is_listed_with_its_verdict() {
    let mut stage = stage();
    stage.press("b");
    let all = ["hf://owner/mamba", "qwen3:8b", "broken:1b", "gemma3:27b", "llama3.2-1b", "qwen3-235b-a22b"];
    assert_eq!(listed(&stage), all);
    let text = stage.text();
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line("qwen3:8b").contains("✓ Fits") && line("qwen3:8b").contains("40k"), "{text}");
    assert!(line("qwen3-235b").contains("✗ Does not fit"), "{text}");
    assert!(line("broken:1b").contains("its blob sha256-abc is missing"), "{text}");
    assert!(line("gemma3:27b").contains("running Ollama"), "{text}");
    // the row agrees with the plan of the opened model
    stage.press("↓ ↓ ↓ Enter");
    assert_eq!(model_name(&stage), "Gemma 3 27B");
    let plan = stage.app.plan.clone().unwrap();
    assert!(line("gemma3:27b").contains(&plan.model.bytes.to_string()), "{text}");
}

#[test]
fn a_local_model_is_chosen_from_the_list() {
    let mut stage = stage();
    stage.press("o");
    assert_eq!(
        listed(&stage),
        ["hf://owner/mamba", "qwen3:8b", "broken:1b", "gemma3:27b"],
        "the catalogue is left out"
    );
    stage.press("↓ ↓ Enter");
    assert!(stage.text().contains("broken:1b could not be opened: its blob"), "{}", stage.text());
    stage.press("o ↓ Enter");
    assert_eq!(model_name(&stage), "Qwen3 8B");
    assert_eq!(stage.app.loading.state, Load::Ready);
    assert_eq!(*stage.props.remembered.lock().unwrap(), ["qwen3:8b"], "what could not be opened is not kept");
}

#[test]
fn letters_search_the_list_fuzzily() {
    let mut stage = stage();
    stage.press("b");
    stage.write("qw8");
    assert_eq!(listed(&stage), ["qwen3:8b", "›"]);
    stage.press("Enter");
    assert_eq!(model_name(&stage), "Qwen3 8B");
    // text that matches nothing is loaded as a reference
    stage.press("b");
    stage.write("zephyrus");
    assert_eq!(listed(&stage), ["›"]);
    stage.press("Enter");
    assert!(stage.text().contains("zephyrus is not there"), "{}", stage.text());
}

#[test]
fn the_list_is_filtered_and_sorted() {
    let mut stage = stage();
    stage.press("b ^F");
    assert!(!listed(&stage).contains(&"qwen3-235b-a22b"));
    assert!(stage.text().contains("● fits"), "{}", stage.text());
    stage.press("^F ^L");
    assert!(!listed(&stage).contains(&"llama3.2-1b") && listed(&stage).contains(&"gemma3:27b"));
    assert!(stage.text().contains("2 hidden"), "{}", stage.text());
    stage.press("^L ↓ ^G");
    assert_eq!(listed(&stage), ["qwen3:8b", "qwen3-235b-a22b"]);
    stage.press("^G");
    assert_eq!(listed(&stage).len(), 6);

    stage.press("^S");
    let mut names = listed(&stage).into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert!(names.is_sorted(), "{names:?}");
    stage.press("^R");
    names.reverse();
    assert_eq!(listed(&stage), names);
    stage.press("^R ^S");
    let parameters = |stage: &Stage| -> Vec<Option<u64>> {
        let of = |name: &&str| {
            let row = stage.app.shelf.rows.iter().find(|row| row.item.name == **name).unwrap();
            row.look.plan().map(|plan| plan.model.parameters)
        };
        listed(stage).iter().map(of).collect()
    };
    let order = parameters(&stage);
    assert!(order.is_sorted_by(|a, b| a >= b), "what is unknown comes last: {order:?}");
    stage.press("^R");
    let (order, last) = (parameters(&stage), parameters(&stage).len() - 1);
    assert!(order[..last].is_sorted() && order[last].is_none(), "{order:?}");
}

#[test]
fn the_cursor_stays_on_its_model_while_the_list_fills() {
    let mut stage = stage();
    stage.no_surveys = true;
    stage.press("b ^S ^S ^S ^S ↓ ↓");
    let Mode::Browse(browse) = &stage.app.mode else { panic!("still choosing") };
    let chosen = browse.chosen(&stage.app.shelf).unwrap().item.name.clone();
    assert!(stage.text().contains("planning"), "{}", stage.text());
    stage.no_surveys = false;
    stage.press("^R ^R");
    let Mode::Browse(browse) = &stage.app.mode else { panic!("still choosing") };
    assert_eq!(browse.chosen(&stage.app.shelf).unwrap().item.name, chosen);
    assert!(!stage.text().contains("planning"), "{}", stage.text());
}

#[test]
fn verdicts_are_kept_while_the_page_is_closed() {
    let mut stage = stage();
    stage.press("b Esc");
    stage.no_surveys = true;
    stage.press("b");
    assert!(stage.text().contains("✓ Fits"), "{}", stage.text());
    assert!(stage.text().contains("planning 1"), "what failed may have been put right\n{}", stage.text());
    stage.press("Esc → b");
    assert!(stage.text().contains("planning 6"), "with other knobs all is asked anew\n{}", stage.text());
}

#[test]
fn a_path_is_completed_and_opened() {
    let mut stage = stage();
    stage.press("o");
    stage.write("/mo");
    stage.press("Tab");
    let Mode::Browse(browse) = &stage.app.mode else { panic!("still choosing") };
    assert_eq!(browse.input.value(), "/models/", "as far as all agree");
    assert_eq!(listed(&stage)[..2], ["/models/bad.gguf", "/models/qwen.gguf"]);
    stage.press("Enter");
    assert!(stage.text().contains("bad.gguf could not be opened"), "{}", stage.text());
    stage.press("o");
    stage.write("/models/q");
    stage.press("Tab Enter");
    assert_eq!(model_name(&stage), "Qwen3 8B");
}

#[test]
fn a_reference_is_pasted_onto_the_planner_and_opened() {
    let mut stage = stage();
    stage.act(Action::Paste("hf://o/r:Q4_K_M\n".to_owned()));
    assert_eq!(listed(&stage)[0], "›", "{}", stage.text());
    stage.press("Enter");
    assert_eq!(model_name(&stage), "Gemma 3 4B");
    assert_eq!(*stage.props.remembered.lock().unwrap(), ["hf://o/r:Q4_K_M"]);
}

#[test]
fn opened_models_are_kept_among_the_recent_ones() {
    let mut stage = stage();
    let reference = Some("catalogue:gemma3-4b".to_owned());
    stage.props.models.insert("gemma3:4b".to_owned(), Ok(Package { reference, ..package("gemma3-4b") }));
    stage.press("b");
    stage.write("gemma3:4b");
    stage.press("Enter");
    assert_eq!(*stage.props.remembered.lock().unwrap(), ["catalogue:gemma3-4b"]);
}

#[test]
fn a_tags_knobs_adapters_and_projector_are_used_and_reported() {
    let mut stage = stage();
    let knobs = TagKnobs { num_ctx: Some(12_288), num_gpu: Some(5) };
    let (adapters, projector) = (Bytes::mib(40), Bytes::mib(800));
    stage.props.models.insert("m:1b".to_owned(), Ok(Package { adapters, projector, knobs, ..package("qwen3-8b") }));
    let before = stage.app.settings.clone();
    let open = |stage: &mut Stage, name: &str| {
        stage.press("b");
        stage.write(name);
        stage.press("Enter");
    };
    open(&mut stage, "m:1b");
    let came = Settings { adapters, projector, ..before.clone() };
    let with_tag = Settings { ctx: Context::Tokens(12_288), gpu_layers: GpuLayers::Count(5), ..came.clone() };
    assert_eq!(stage.app.settings, with_tag);
    let text = stage.text();
    assert!(text.contains("Context set to 12288 tokens by the model's tag"), "{text}");
    assert!(stage.app.plan.as_ref().unwrap().notes.iter().any(|note| note.contains("num_gpu")));
    stage.press("u");
    assert_eq!(stage.app.settings, came, "the tag's knobs are one step that can be undone");

    // a tag's knobs are dropped with its model, except those changed since
    open(&mut stage, "m:1b");
    open(&mut stage, "/models/qwen.gguf");
    assert_eq!(stage.app.settings, before);
    open(&mut stage, "m:1b");
    stage.press("→");
    let Context::Tokens(turned) = stage.app.settings.ctx else { panic!("a value was set") };
    open(&mut stage, "/models/qwen.gguf");
    assert_eq!(stage.app.settings, Settings { ctx: Context::Tokens(turned), ..before });
}

#[test]
fn a_bad_file_keeps_the_plan_and_shows_the_error() {
    let mut stage = stage();
    stage.press("o");
    stage.write("/models/bad.gguf");
    stage.press("Enter");
    assert_eq!(model_name(&stage), "Llama 3.1 8B");
    let text = stage.text();
    assert!(text.contains("bad.gguf could not be opened") && text.contains("not a GGUF file"), "{text}");
    stage.press("Esc");
    assert!(!stage.text().contains("could not be opened"));
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
        assert_eq!(stage.app.loading.state, Load::Ready);
    }
}

#[test]
fn progress_is_shown_in_bytes_and_speed_and_esc_stops_it() {
    let mut stage = stage();
    stage.slow_loads = true;
    stage.press("o");
    stage.write("hf://o/r:Q4_K_M");
    stage.press("Enter");
    for id in 0..4 {
        let now = Progress { done: 6 << 20, total: None, shard: 1, shards: 4 };
        stage.act(Action::Progress { id, now, took: Duration::from_secs(3) });
    }
    let text = stage.text();
    assert!(text.contains("r:Q4_K_M: 6.0 MiB of its header, 2.0 MiB/s, shard 2 of 4"), "{text}");
    stage.press("Esc");
    assert_eq!(stage.app.loading.state, Load::Idle);
    stage.finish_loads(false);
    assert_eq!(model_name(&stage), "Llama 3.1 8B", "its answer is of no interest any more");
}

#[test]
fn without_local_models_the_catalogue_is_shown() {
    let mut stage = stage();
    stage.props.running.clear();
    stage.props.shelf.retain(|(_, origin, _)| *origin == Origin::Catalogue);
    stage.press("o");
    assert_eq!(listed(&stage), ["llama3.2-1b", "qwen3-235b-a22b"]);
    let y = stage.text().lines().position(|line| line.contains("qwen3-235b-a22b")).unwrap();
    stage.mouse(Gesture::Down, 8, y as u16);
    assert!(matches!(&stage.app.mode, Mode::Browse(page) if page.at == 1), "what is said above it moves no row");
    stage.props.shelf.clear();
    stage.press("Esc o");
    assert!(stage.text().contains("type a name, a path or a URL"), "{}", stage.text());
}

#[test]
fn the_mouse_chooses_sorts_and_opens() {
    let mut stage = stage();
    stage.press("b");
    let place = |stage: &Stage, wanted: &str| -> (u16, u16) {
        let text = stage.text();
        let (y, line) = text.lines().enumerate().find(|(_, line)| line.contains(wanted)).unwrap();
        (line[..line.find(wanted).unwrap()].chars().count() as u16, y as u16)
    };
    let (x, y) = place(&stage, "params");
    stage.mouse(Gesture::Down, x, y);
    assert_eq!(listed(&stage)[0], "qwen3-235b-a22b");
    let (x, y) = place(&stage, "qwen3:8b");
    stage.mouse(Gesture::Down, x, y);
    assert!(matches!(stage.app.mode, Mode::Browse(_)), "once chooses");
    stage.mouse(Gesture::Down, x, y);
    assert_eq!(model_name(&stage), "Qwen3 8B", "twice opens");
}

#[test]
fn a_planner_without_a_model_names_the_keys() {
    let look = plimsoll::tui::theme::Look::BEST;
    let mut stage = Stage::with(None, stage::one_gpu(), (100, 30), Settings::default(), look);
    assert!(stage.text().contains("Press b to choose a model"), "{}", stage.text());
    stage.press("→ ↓ → Tab → Enter Tab ↓ i m u e Esc ?");
}

#[test]
fn verdicts_are_renewed_when_the_machine_is_detected() {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::machine(0, "", 0, 64), (120, 40));
    stage.props.shelf = vec![("qwen3:8b", HERE, Ok(package("qwen3-8b")))];
    stage.press("b");
    assert!(stage.text().contains("▲ In RAM") && !stage.text().contains("✓ Fits"), "{}", stage.text());
    let detected = plimsoll::hardware::Detected {
        machine: stage::one_gpu(),
        facts: Vec::new(),
        processes: Vec::new(),
        tried: Vec::new(),
    };
    stage.act(Action::Detected(Box::new(detected)));
    assert!(stage.text().contains("✓ Fits"), "{}", stage.text());
}
