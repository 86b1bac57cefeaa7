//! The machine screen, and live memory: detected late, followed, frozen.

use plimsoll::hardware::watch::Moved;
use plimsoll::machine::{Machine, Origin};
use plimsoll::plan::Verdict;
use plimsoll::settings::Context;
use plimsoll::shelf;
use plimsoll::tui::action::Action;
use plimsoll::tui::app::Live;
use plimsoll::units::Bytes;

use crate::stage::{self, Stage};

/// The planner on a machine with one GPU and live memory.
fn live() -> (Stage, Machine) {
    let machine = Machine { origin: Origin::Detected, ..stage::one_gpu() };
    let mut stage = Stage::new(stage::model("llama3.1-8b"), machine.clone(), (140, 45));
    stage.app.found_machine.live = Live::On;
    stage.rest();
    (stage, machine)
}

fn with_free(machine: &Machine, gib: u64) -> Machine {
    let mut machine = machine.clone();
    machine.gpus[0].free = Bytes::gib(gib);
    machine
}

fn moved(machine: Machine, notes: &[&str]) -> Action {
    Action::Moved(Moved { machine, notes: notes.iter().map(|&note| note.to_owned()).collect() })
}

#[test]
fn the_plan_follows_free_memory_without_highlights() {
    let (mut stage, machine) = live();
    let limit = stage.app.limits.found.clone().unwrap().context;
    stage.act(moved(with_free(&machine, 9), &[]));
    let plan = stage.app.plan.clone().unwrap();
    assert_eq!(plan.devices[0].free, Bytes::gib(9));
    assert!(stage.app.limits.found.clone().unwrap().context < limit, "what fits is worked out anew");
    assert!(!stage.text().contains(['▲', '▼']) || stage.text().contains("▲ Split"), "{}", stage.text());
    assert!(stage.app.before().is_none());

    // highlights of the last key stay when live memory changes
    stage.press("→");
    assert!(stage.app.before().is_some());
    stage.act(moved(with_free(&machine, 10), &[]));
    assert!(stage.app.before().is_some());
    stage.rest();
    assert!(stage.app.before().is_none());
}

#[test]
fn small_changes_of_memory_keep_the_limits_and_m_uses_the_current_ones() {
    let (mut stage, machine) = live();
    stage.think();
    let (limits, asked) = (stage.app.limits.found.clone(), stage.questions);
    let mut other = machine.clone();
    other.gpus[0].free = other.gpus[0].free - Bytes::mib(100);
    stage.act(moved(other.clone(), &[]));
    assert_eq!((stage.questions, &stage.app.limits.found), (asked, &limits));
    // known thresholds are kept
    stage.press("]");
    assert!(stage.text().contains("→ 32 layers on GPU"), "{}", stage.text());
    stage.press("u");
    stage.act(moved(machine.clone(), &[]));
    stage.act(moved(other.clone(), &[]));

    stage.press("m");
    let Context::Tokens(most) = stage.app.settings.ctx else { panic!("m sets a value") };
    assert!(Some(most) < limits.unwrap().context, "there is less room than before");
    assert_eq!(stage.app.plan.as_ref().unwrap().verdict, Verdict::Gpu);
    assert_eq!(stage.app.limits.found.clone().unwrap().context, Some(most));
}

#[test]
fn the_model_list_follows_large_changes_of_free_memory() {
    let (mut stage, machine) = live();
    stage.props.shelf = vec![("llama", shelf::Origin::Catalogue, Ok(stage::package("llama3.1-8b")))];
    stage.press("b");
    let fits = |stage: &Stage| stage.app.shelf.rows[0].look.glance().unwrap().context_on_gpu;
    let before = fits(&stage);
    stage.act(moved(with_free(&machine, 9), &[]));
    let after = fits(&stage);
    assert!(after < before, "{after:?} {before:?}");
    // a change of 100 MiB is ignored
    let mut other = with_free(&machine, 9);
    other.gpus[0].free += Bytes::mib(100);
    stage.no_surveys = true;
    stage.act(moved(other, &[]));
    assert_eq!((stage.app.shelf.open(), fits(&stage)), (0, after));
    stage.act(moved(with_free(&machine, 10), &[]));
    assert_eq!(stage.app.shelf.open(), 1);
}

#[test]
fn f_freezes_and_resumes_free_memory() {
    let (mut stage, machine) = live();
    assert!(stage.text().contains("· live"), "{}", stage.text());
    stage.press("f");
    assert!(stage.text().contains("· frozen"), "{}", stage.text());
    stage.act(moved(with_free(&machine, 1), &["too late"]));
    assert_eq!(stage.app.machine.gpus[0].free, machine.gpus[0].free);
    assert!(!stage.text().contains("too late"));
    stage.press("f");
    assert_eq!(stage.frozen, [true, false]);
    stage.act(moved(with_free(&machine, 1), &[]));
    assert_eq!(stage.app.machine.gpus[0].free, Bytes::gib(1));
}

#[test]
fn a_described_machine_has_nothing_to_freeze() {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (140, 45));
    assert!(stage.text().contains("· simulated"), "{}", stage.text());
    stage.press("f");
    assert!(stage.frozen.is_empty() && stage.text().contains("not available here"), "{}", stage.text());
}

#[test]
fn device_reports_are_notes_while_they_last() {
    for size in [(140, 45), (60, 20)] {
        let (mut stage, machine) = live();
        stage.resize(size.0, size.1);
        let lost = "GPU0 RTX 3090 no longer responds (lost): its last values are shown";
        stage.act(moved(machine.clone(), &[lost]));
        assert!(stage.text().contains("no longer responds"), "{}", stage.text());
        stage.press("Home");
        stage.act(moved(machine, &[]));
        assert!(!stage.text().contains("no longer responds"), "{}", stage.text());
    }
}

/// The machine screen with two detected cards.
fn bench() -> Stage {
    let machine = Machine { origin: Origin::Detected, ..stage::machine(2, "RTX 3060", 12, 64) };
    let mut stage = Stage::new(stage::model("llama3.1-8b"), machine.clone(), (140, 45));
    let tried = [("nvml", "2 GPUs through libnvidia-ml.so.1"), ("ram", "56.0 GiB available of 64.0 GiB")];
    stage.act(stage::detected(machine, &tried));
    stage.press("g");
    stage
}

#[test]
fn switching_a_gpu_off_shows_on_every_screen() {
    let mut stage = bench();
    assert!(!stage.text().contains("simulated"), "{}", stage.text());
    stage.press("Space");
    assert_eq!(stage.app.machine.gpus.len(), 1);
    assert_eq!(stage.app.plan.as_ref().unwrap().origin, Origin::Described);
    let text = stage.text();
    assert!(text.contains("simulated") && text.contains("1 of 2 GPUs on") && text.contains("off"), "{text}");
    stage.press("Esc");
    assert!(stage.text().contains("RTX 3060 · 64.0 GiB · simulated"), "{}", stage.text());
    stage.press("g Space");
    assert_eq!((stage.app.machine.gpus.len(), stage.app.machine.origin), (2, Origin::Detected));
    stage.press("u");
    assert_eq!(stage.app.machine.gpus.len(), 1, "each step can be undone");
    stage.press("u u");
    assert!(stage.text().contains("Nothing to undo"), "{}", stage.text());
}

#[test]
fn free_memory_is_typed_stepped_and_reserved() {
    let mut stage = bench();
    let free = |stage: &Stage| stage.app.machine.gpus[0].free;
    stage.press("Enter ↓ ↓ Enter");
    stage.write("8GiB");
    stage.press("Enter");
    assert_eq!(free(&stage), Bytes::gib(8));
    assert!(stage.text().contains("set here"), "{}", stage.text());
    stage.press("→");
    assert_eq!(free(&stage), Bytes::gib(9));
    stage.press("⇧← ,");
    assert_eq!(free(&stage), Bytes::mib(9 * 1024 - 256));
    stage.press("↓ → ↓ → →");
    assert_eq!(free(&stage), Bytes::mib(9 * 1024 - 256 - 3 * 1024), "the desktop and another model");
    assert_eq!(stage.app.plan.as_ref().unwrap().devices[0].free, free(&stage));
    stage.press("r");
    assert_eq!(stage.app.machine.origin, Origin::Detected);
}

#[test]
fn absurd_sizes_are_refused_with_a_reason() {
    let mut stage = bench();
    for (text, part) in
        [("-1GiB", "-1GiB"), ("13GiB", "more than the total"), ("4096TiB", "1 PiB"), ("much", "not a size")]
    {
        stage.press("Esc Esc g Enter ↓ ↓ Enter");
        stage.write(text);
        stage.press("Enter");
        assert!(stage.text().contains(part), "{text}\n{}", stage.text());
        stage.press("Esc");
        assert_eq!(stage.app.machine.origin, Origin::Detected, "Esc leaves it as it was");
    }
}

#[test]
fn cards_are_added_replaced_and_removed() {
    let mut stage = bench();
    stage.press("a");
    stage.write("5090");
    assert!(stage.text().contains("RTX 5090") && stage.text().contains("1792 GB/s"), "{}", stage.text());
    stage.press("Enter");
    let names = |stage: &Stage| stage.app.machine.gpus.iter().map(|gpu| gpu.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&stage), ["RTX 3060", "RTX 3060", "RTX 5090"]);
    assert!(stage.text().contains("assumed free"), "{}", stage.text());
    // the first card is replaced
    stage.press("Home Enter ↓ Enter");
    stage.write("48GiB");
    stage.press("Enter");
    assert_eq!(names(&stage), ["48.0 GiB GPU", "RTX 3060", "RTX 5090"]);
    stage.press("Esc d End ↑ ↑ ↑ d");
    assert_eq!(names(&stage), ["RTX 3060"]);
    stage.press("u u u u");
    assert_eq!(names(&stage), ["RTX 3060", "RTX 3060"]);
    assert_eq!(stage.app.machine.origin, Origin::Detected);
}

#[test]
fn unknown_cards_are_answered_with_similar_ones() {
    let mut stage = bench();
    for (text, part) in [("RTX 4091", "RTX 4090"), ("total=24GiB,free=25GiB", "more than"), ("none", "not a GPU")] {
        stage.press("a");
        stage.write(text);
        stage.press("Enter");
        assert!(stage.text().contains(part), "{text}\n{}", stage.text());
        stage.press("Esc");
    }
    assert_eq!(stage.app.machine.gpus.len(), 2);
    stage.press("a");
    stage.write("name=A,total=24GiB,free=22GiB,backend=ROCm");
    stage.press("Enter");
    assert_eq!(stage.app.machine.gpus[2].free, Bytes::gib(22));
}

#[test]
fn a_system_sets_its_ram_and_ram_can_be_typed() {
    let mut stage = bench();
    stage.press("a");
    stage.write("M4 Max 128");
    stage.press("Enter");
    assert_eq!(stage.app.machine.ram.total, Bytes::gib(128));
    assert!(stage.text().contains("· in RAM"), "{}", stage.text());
    stage.press("End ↑ Enter Enter");
    stage.write("256GiB");
    stage.press("Enter ↓ ↓ Enter");
    stage.write("8GiB");
    stage.press("Enter");
    let ram = stage.app.machine.ram;
    assert_eq!((ram.total, ram.swap_free), (Bytes::gib(256), Bytes::gib(8)));
    stage.press("r");
    assert_eq!(stage.app.machine.ram.total, Bytes::gib(64));
}

#[test]
fn memory_kept_free_on_every_gpu_is_an_engine_setting() {
    let mut stage = bench();
    stage.press("End Enter →");
    assert_eq!(stage.app.settings.gpu_overhead, Bytes::gib(1));
    assert!(stage.text().contains("OLLAMA_GPU_OVERHEAD"), "{}", stage.text());
    stage.press("Esc Esc e ↑ Enter g End Enter →");
    assert_eq!(stage.app.settings.fit_target, Some(Bytes::gib(2)));
    assert!(stage.text().contains("--fit-target"), "{}", stage.text());
    stage.press("r");
    assert_eq!(stage.app.settings.fit_target, None);
}

#[test]
fn machines_are_saved_listed_and_opened() {
    let mut stage = bench();
    stage.press("Space s Enter");
    assert!(stage.text().contains("is not a valid machine name"), "{}", stage.text());
    stage.write("one card");
    stage.press("Enter");
    assert!(stage.text().contains("Saved as one card"), "{}", stage.text());
    stage.press("u m");
    let text = stage.text();
    assert!(text.contains("one card") && text.contains("RTX 3060, 64.0 GiB of RAM"), "{text}");
    stage.press("↓ Enter");
    assert_eq!(stage.app.machine.gpus.len(), 1);
    assert!(stage.text().contains("saved as 'one card'"), "{}", stage.text());
    // live memory of this machine does not change another one
    stage.app.found_machine.live = Live::On;
    let mut elsewhere = (*stage.app.found_machine.machine).clone();
    elsewhere.gpus[0].free = Bytes::gib(1);
    stage.act(moved(elsewhere, &[]));
    assert_ne!(stage.app.machine.gpus[0].free, Bytes::gib(1));
    stage.press("m Home Enter");
    assert_eq!((stage.app.machine.gpus.len(), stage.app.machine.origin), (2, Origin::Detected));
    stage.press("u");
    assert_eq!(stage.app.machine.gpus.len(), 1);
}

#[test]
fn devices_explain_their_backend_and_how_they_were_detected() {
    let stage = bench();
    let text = stage.text();
    for part in ["CUDA context, assumed 350 MiB", "alignment", "128 B", "flash attention", "get_alignment"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn no_gpu_and_sixty_four_gpus_are_drawn_and_edited() {
    for (count, size) in [(0, (60, 20)), (64, (60, 20)), (0, (140, 45)), (64, (140, 45))] {
        let machine = stage::machine(count, "RTX 3060", 12, 64);
        let mut stage = Stage::new(stage::model("llama3.1-8b"), machine, size);
        stage.press("g End");
        assert!(stage.text().contains("kept free on each"), "{}", stage.text());
        stage.press("Home a");
        stage.write("4090");
        stage.press("Enter");
        assert_eq!(stage.app.machine.gpus.len(), count + 1);
        stage.press("PgDn PgDn PgUp d");
        assert_eq!(stage.app.machine.gpus.len(), count);
    }
}

#[test]
fn the_mouse_chooses_a_device_and_a_line() {
    use plimsoll::tui::action::Gesture;
    use plimsoll::tui::app::Mode;
    use plimsoll::tui::app::machine::Pane;
    let mut stage = bench();
    let find = |stage: &Stage, text: &str| {
        let screen = stage.text();
        let (y, line) = screen.lines().enumerate().find(|(_, line)| line.contains(text)).unwrap();
        let x = line.split(text).next().unwrap().chars().count();
        (x as u16, y as u16)
    };
    let (x, y) = find(&stage, "system RAM");
    stage.mouse(Gesture::Down, x, y);
    let (x, y) = find(&stage, "free swap");
    stage.mouse(Gesture::Down, x, y);
    let Mode::Machine(bench) = &stage.app.mode else { panic!("the screen stays") };
    assert_eq!((bench.pane, bench.row, bench.line), (Pane::Details, 3, 2));
}

#[test]
fn a_saved_machine_joins_for_llama_cpp() {
    let mut stage = bench();
    let saved = stage::machine(2, "RTX 3090", 24, 128);
    stage.props.machines.lock().unwrap().push(("garage".to_owned(), Ok(saved)));
    stage.press("m j");
    assert!(stage.text().contains("cannot join itself"), "{}", stage.text());
    stage.press("↓ j");
    assert_eq!(stage.app.machine.gpus.len(), 4);
    let text = stage.text();
    assert!(
        text.contains("RTX 3090 @garage") && text.contains("joined") && text.contains("press e to choose it"),
        "{text}"
    );
    // Ollama ignores it and says so
    assert_eq!(stage.app.plan.as_ref().unwrap().gpus().len(), 2);
    assert!(stage.app.plan.as_ref().unwrap().notes.iter().any(|note| note.contains("garage")));
    stage.press("m ↓ j");
    assert!(stage.text().contains("already joined"), "{}", stage.text());
    stage.press("Esc Esc e ↑ Enter");
    let plan = stage.app.plan.clone().unwrap();
    assert_eq!(plan.gpus().len(), 4);
    assert!(stage.text().contains("modelled"), "{}", stage.text());
    stage.press("g End ↑ ↑ ↑ d");
    assert_eq!(stage.app.machine.gpus.len(), 3);
    stage.press("u u u");
    assert_eq!(stage.app.machine.origin, Origin::Detected);
}

#[test]
fn machines_are_compared_by_verdict_and_largest_context() {
    use plimsoll::engine::PlanRequest;
    use plimsoll::settings::knob::Knob;
    use plimsoll::units::Tokens;
    let mut stage = bench();
    let save = |name: &str, machine: Machine| {
        stage.props.machines.lock().unwrap().push((name.to_owned(), Ok(machine)));
    };
    save("small", stage::machine(1, "RTX 3050", 4, 16));
    save("large", stage::machine(1, "H100", 80, 256));
    save("bare", stage::machine(0, "", 0, 32));
    save("fifth", stage::machine(1, "RTX 3060", 12, 32));
    stage.press("m ↓ Space ↓ Space ↓ Space ↓ Space");
    assert!(stage.text().contains("can be compared"), "{}", stage.text());
    stage.press("c");
    let text = stage.text();
    for part in ["Side by side", "current", "small", "large", "bare", "Fits", "Split", "In RAM"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // the largest context is that of a plan on the machine itself
    let (app, machine) = (&stage.app, stage::machine(1, "H100", 80, 256));
    let model = app.model.clone().unwrap();
    let request = PlanRequest::new(app.engine, model.clone(), machine.clone(), app.settings.clone());
    let largest = request.largest(Knob::Context, plimsoll::answer::Goal::All).unwrap().value;
    assert!(text.contains(&Tokens(largest).to_string()), "{text}");
    stage.press("Esc m c");
    assert!(stage.text().contains("at start"), "{}", stage.text());
    for size in [(60, 20), (0, 0), (80, 24)] {
        stage.resize(size.0, size.1);
    }
}
