//! The machine screen, and live memory: detected late, followed, frozen.

use plimsoll::hardware::watch::MemoryUpdate;
use plimsoll::library;
use plimsoll::machine::{Machine, Origin};
use plimsoll::plan::Verdict;
use plimsoll::settings::Context;
use plimsoll::tui::action::{Action, Command, Gesture};
use plimsoll::tui::app::LiveMemory;
use plimsoll::tui::effect::Effect;
use plimsoll::tui::screens::machine::{MachineScreen, Pane};
use plimsoll::units::Bytes;

use crate::harness::{self, Harness};

/// The planner on a machine with one GPU and live memory.
fn live() -> (Harness, Machine) {
    let machine = Machine { origin: Origin::Detected, ..harness::one_gpu() };
    let mut harness = Harness::new(harness::model("llama3.1-8b"), machine.clone(), (140, 45));
    harness.host.app.found_machine.live = LiveMemory::On;
    harness.rest();
    (harness, machine)
}

fn with_free(machine: &Machine, gib: u64) -> Machine {
    let mut machine = machine.clone();
    machine.gpus[0].free = Bytes::gib(gib);
    machine
}

fn moved(machine: Machine, notes: &[&str]) -> Action {
    let notes = notes.iter().map(|&note| note.to_owned()).collect();
    Action::MemoryChanged(Box::new(MemoryUpdate { machine, notes }))
}

#[test]
fn the_plan_follows_free_memory_without_highlights() {
    let (mut harness, machine) = live();
    let limit = harness.host.app.request.known_limits().found().cloned().unwrap().vram.context;
    harness.act(moved(with_free(&machine, 9), &[]));
    let plan = harness.host.app.request.plan.clone().unwrap();
    assert_eq!(plan.devices[0].free, Bytes::gib(9));
    assert!(
        harness.host.app.request.known_limits().found().cloned().unwrap().vram.context < limit,
        "what fits is worked out anew"
    );
    assert!(!harness.text().contains(['▲', '▼']) || harness.text().contains("▲ Layers in RAM"), "{}", harness.text());
    assert!(harness.host.app.request.before().is_none());

    // highlights of the last key stay when live memory changes
    harness.press("→");
    assert!(harness.host.app.request.before().is_some());
    harness.act(moved(with_free(&machine, 10), &[]));
    assert!(harness.host.app.request.before().is_some());
    harness.rest();
    assert!(harness.host.app.request.before().is_none());
}

#[test]
fn small_changes_of_memory_keep_the_limits_and_m_uses_the_current_ones() {
    let (mut harness, machine) = live();
    harness.think();
    let (limits, asked) = (harness.host.app.request.known_limits().found().cloned(), harness.questions);
    let mut other = machine.clone();
    other.gpus[0].free = other.gpus[0].free - Bytes::mib(100);
    harness.act(moved(other.clone(), &[]));
    assert_eq!((harness.questions, &harness.host.app.request.known_limits().found().cloned()), (asked, &limits));
    // known thresholds are kept
    harness.press("]");
    assert!(harness.text().contains("→ 32 layers on GPU"), "{}", harness.text());
    harness.press("u");
    harness.act(moved(machine.clone(), &[]));
    harness.act(moved(other.clone(), &[]));

    harness.press("m");
    let Context::Tokens(most) = harness.host.app.request.settings.ctx else { panic!("m sets a value") };
    assert!(Some(most) < limits.unwrap().vram.context, "there is less room than before");
    assert_eq!(harness.host.app.request.plan.as_ref().unwrap().verdict, Verdict::Gpu);
    assert_eq!(harness.host.app.request.known_limits().found().cloned().unwrap().vram.context, Some(most));
}

#[test]
fn the_model_list_follows_large_changes_of_free_memory() {
    let (mut harness, machine) = live();
    harness.fakes.library = vec![("llama", library::ModelOrigin::Catalogue, Ok(harness::package("llama3.1-8b")))];
    harness.press("b");
    let fits = |harness: &Harness| harness.host.app.library.rows[0].status.fit_summary().unwrap().context_in_vram;
    let before = fits(&harness);
    harness.act(moved(with_free(&machine, 9), &[]));
    let after = fits(&harness);
    assert!(after < before, "{after:?} {before:?}");
    // a change of 100 MiB is ignored
    let mut other = with_free(&machine, 9);
    other.gpus[0].free += Bytes::mib(100);
    harness.no_surveys = true;
    harness.act(moved(other, &[]));
    assert_eq!((harness.host.app.library.open(), fits(&harness)), (0, after));
    // so is what the system does besides, until the key asks for it
    harness.act(moved(with_free(&machine, 10), &[]));
    assert_eq!((harness.host.app.library.open(), fits(&harness)), (0, after));
    harness.act(Action::Press(Command::Renew));
    assert_eq!(harness.host.app.library.open(), 1);
}

#[test]
fn f_freezes_and_resumes_free_memory() {
    let (mut harness, machine) = live();
    assert!(harness.text().contains("· live"), "{}", harness.text());
    harness.press("f");
    assert!(harness.text().contains("· frozen"), "{}", harness.text());
    harness.act(moved(with_free(&machine, 1), &["too late"]));
    assert_eq!(harness.host.app.request.machine.gpus[0].free, machine.gpus[0].free);
    assert!(!harness.text().contains("too late"));
    harness.press("f");
    assert_eq!(harness.frozen, [true, false]);
    harness.act(moved(with_free(&machine, 1), &[]));
    assert_eq!(harness.host.app.request.machine.gpus[0].free, Bytes::gib(1));
}

#[test]
fn a_described_machine_has_nothing_to_freeze() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (140, 45));
    assert!(harness.text().contains("· simulated"), "{}", harness.text());
    harness.press("f");
    assert!(harness.frozen.is_empty() && harness.text().contains("not available here"), "{}", harness.text());
}

#[test]
fn device_reports_are_notes_while_they_last() {
    for size in [(140, 45), (60, 20)] {
        let (mut harness, machine) = live();
        harness.resize(size.0, size.1);
        let lost = "GPU0 RTX 3090 no longer responds (lost): its last values are shown";
        harness.act(moved(machine.clone(), &[lost]));
        assert!(harness.text().contains("no longer responds"), "{}", harness.text());
        harness.press("Home");
        harness.act(moved(machine, &[]));
        assert!(!harness.text().contains("no longer responds"), "{}", harness.text());
    }
}

/// The machine screen with two detected cards.
fn bench() -> Harness {
    let machine = Machine { origin: Origin::Detected, ..harness::machine(2, "RTX 3060", 12, 64) };
    let mut harness = Harness::new(harness::model("llama3.1-8b"), machine.clone(), (140, 45));
    let tried = [("nvml", "2 GPUs through libnvidia-ml.so.1"), ("ram", "56.0 GiB available of 64.0 GiB")];
    harness.act(harness::detected(machine, &tried));
    harness.press("g");
    harness
}

#[test]
fn switching_a_gpu_off_shows_on_every_screen() {
    let mut harness = bench();
    assert!(!harness.text().contains("simulated"), "{}", harness.text());
    harness.press("Space");
    assert_eq!(harness.host.app.request.machine.gpus.len(), 1);
    assert_eq!(harness.host.app.request.plan.as_ref().unwrap().origin, Origin::Described);
    let text = harness.text();
    assert!(text.contains("simulated") && text.contains("1 of 2 GPUs on") && text.contains("off"), "{text}");
    harness.press("Esc");
    assert!(harness.text().contains("RTX 3060 · 64.0 GiB · simulated"), "{}", harness.text());
    harness.press("g Space");
    assert_eq!(
        (harness.host.app.request.machine.gpus.len(), harness.host.app.request.machine.origin),
        (2, Origin::Detected)
    );
    harness.press("u");
    assert_eq!(harness.host.app.request.machine.gpus.len(), 1, "each step can be undone");
    harness.press("u u");
    assert!(harness.text().contains("Nothing to undo"), "{}", harness.text());
}

#[test]
fn free_memory_is_typed_stepped_and_reserved() {
    let mut harness = bench();
    let free = |harness: &Harness| harness.host.app.request.machine.gpus[0].free;
    harness.press("Enter ↓ ↓ Enter");
    harness.write("8GiB");
    harness.press("Enter");
    assert_eq!(free(&harness), Bytes::gib(8));
    assert!(harness.text().contains("set here"), "{}", harness.text());
    harness.press("→");
    assert_eq!(free(&harness), Bytes::gib(9));
    harness.press("⇧← ,");
    assert_eq!(free(&harness), Bytes::mib(9 * 1024 - 256));
    harness.press("↓ → ↓ → →");
    assert_eq!(free(&harness), Bytes::mib(9 * 1024 - 256 - 3 * 1024), "the desktop and another model");
    assert_eq!(harness.host.app.request.plan.as_ref().unwrap().devices[0].free, free(&harness));
    harness.press("r");
    assert_eq!(harness.host.app.request.machine.origin, Origin::Detected);
}

#[test]
fn absurd_sizes_are_refused_with_a_reason() {
    let mut harness = bench();
    for (text, part) in
        [("-1GiB", "-1GiB"), ("13GiB", "more than the total"), ("4096TiB", "1 PiB"), ("much", "not a size")]
    {
        harness.press("Esc Esc g Enter ↓ ↓ Enter");
        harness.write(text);
        harness.press("Enter");
        assert!(harness.text().contains(part), "{text}\n{}", harness.text());
        harness.press("Esc");
        assert_eq!(harness.host.app.request.machine.origin, Origin::Detected, "Esc leaves it as it was");
    }
}

#[test]
fn cards_are_added_replaced_and_removed() {
    let mut harness = bench();
    harness.press("a");
    harness.write("5090");
    assert!(harness.text().contains("RTX 5090") && harness.text().contains("1792 GB/s"), "{}", harness.text());
    harness.press("Enter");
    let names = |harness: &Harness| {
        harness.host.app.request.machine.gpus.iter().map(|gpu| gpu.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&harness), ["RTX 3060", "RTX 3060", "RTX 5090"]);
    assert!(harness.text().contains("assumed free"), "{}", harness.text());
    // the first card is replaced
    harness.press("Home Enter ↓ Enter");
    harness.write("48GiB");
    harness.press("Enter");
    assert_eq!(names(&harness), ["48.0 GiB GPU", "RTX 3060", "RTX 5090"]);
    harness.press("Esc d End ↑ ↑ ↑ d");
    assert_eq!(names(&harness), ["RTX 3060"]);
    harness.press("u u u u");
    assert_eq!(names(&harness), ["RTX 3060", "RTX 3060"]);
    assert_eq!(harness.host.app.request.machine.origin, Origin::Detected);
}

#[test]
fn unknown_cards_are_answered_with_similar_ones() {
    let mut harness = bench();
    for (text, part) in [("RTX 4091", "RTX 4090"), ("total=24GiB,free=25GiB", "more than"), ("none", "not a GPU")] {
        harness.press("a");
        harness.write(text);
        harness.press("Enter");
        assert!(harness.text().contains(part), "{text}\n{}", harness.text());
        harness.press("Esc");
    }
    assert_eq!(harness.host.app.request.machine.gpus.len(), 2);
    harness.press("a");
    harness.write("name=A,total=24GiB,free=22GiB,backend=ROCm");
    harness.press("Enter");
    assert_eq!(harness.host.app.request.machine.gpus[2].free, Bytes::gib(22));
}

#[test]
fn a_system_sets_its_ram_and_ram_can_be_typed() {
    let mut harness = bench();
    harness.press("a");
    harness.write("M4 Max 128");
    harness.press("Enter");
    assert_eq!(harness.host.app.request.machine.ram.total, Bytes::gib(128));
    assert!(harness.text().contains("· in RAM"), "{}", harness.text());
    harness.press("End ↑ Enter Enter");
    harness.write("256GiB");
    harness.press("Enter ↓ ↓ Enter");
    harness.write("8GiB");
    harness.press("Enter");
    let ram = harness.host.app.request.machine.ram;
    assert_eq!((ram.total, ram.swap_free), (Bytes::gib(256), Bytes::gib(8)));
    harness.press("r");
    assert_eq!(harness.host.app.request.machine.ram.total, Bytes::gib(64));
}

#[test]
fn memory_kept_free_on_every_gpu_is_an_engine_setting() {
    let mut harness = bench();
    harness.press("End Enter →");
    assert_eq!(harness.host.app.request.settings.gpu_overhead, Bytes::gib(1));
    assert!(harness.text().contains("OLLAMA_GPU_OVERHEAD"), "{}", harness.text());
    harness.press("Esc Esc e ↑ Enter g End Enter →");
    assert_eq!(harness.host.app.request.settings.fit_target, Some(Bytes::gib(2)));
    assert!(harness.text().contains("--fit-target"), "{}", harness.text());
    harness.press("r");
    assert_eq!(harness.host.app.request.settings.fit_target, None);
}

#[test]
fn machines_are_saved_listed_and_opened() {
    let mut harness = bench();
    harness.press("Space s Enter");
    assert!(harness.text().contains("is not a valid machine name"), "{}", harness.text());
    harness.write("one card");
    harness.press("Enter");
    assert!(harness.text().contains("Saved as one card"), "{}", harness.text());
    harness.press("u m");
    let text = harness.text();
    assert!(text.contains("one card") && text.contains("RTX 3060, 64.0 GiB of RAM"), "{text}");
    harness.press("↓ Enter");
    assert_eq!(harness.host.app.request.machine.gpus.len(), 1);
    assert!(harness.text().contains("saved as 'one card'"), "{}", harness.text());
    // live memory of this machine does not change another one
    harness.host.app.found_machine.live = LiveMemory::On;
    let mut elsewhere = (*harness.host.app.found_machine.machine).clone();
    elsewhere.gpus[0].free = Bytes::gib(1);
    harness.act(moved(elsewhere, &[]));
    assert_ne!(harness.host.app.request.machine.gpus[0].free, Bytes::gib(1));
    harness.press("m Home Enter");
    assert_eq!(
        (harness.host.app.request.machine.gpus.len(), harness.host.app.request.machine.origin),
        (2, Origin::Detected)
    );
    harness.press("u");
    assert_eq!(harness.host.app.request.machine.gpus.len(), 1);
}

#[test]
fn devices_explain_their_backend_and_how_they_were_detected() {
    let harness = bench();
    let text = harness.text();
    for part in ["CUDA context, assumed 350 MiB", "alignment", "128 B", "flash attention", "get_alignment"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn no_gpu_and_sixty_four_gpus_are_drawn_and_edited() {
    for (count, size) in [(0, (60, 20)), (64, (60, 20)), (0, (140, 45)), (64, (140, 45))] {
        let machine = harness::machine(count, "RTX 3060", 12, 64);
        let mut harness = Harness::new(harness::model("llama3.1-8b"), machine, size);
        harness.press("g End");
        assert!(harness.text().contains("kept free on each"), "{}", harness.text());
        harness.press("Home a");
        harness.write("4090");
        harness.press("Enter");
        assert_eq!(harness.host.app.request.machine.gpus.len(), count + 1);
        harness.press("PgDn PgDn PgUp d");
        assert_eq!(harness.host.app.request.machine.gpus.len(), count);
    }
}

#[test]
fn the_mouse_chooses_a_device_and_a_line() {
    let mut harness = bench();
    press_on(&mut harness, "system RAM");
    press_on(&mut harness, "free swap");
    let bench: &MachineScreen = harness.showing();
    assert_eq!((bench.pane, bench.row, bench.line), (Pane::Details, 3, 2));
    // below the first of the scrolled lines
    harness.resize(80, 24);
    harness.press("Home Esc Home PgDn");
    press_on(&mut harness, "for other model");
    let bench: &MachineScreen = harness.showing();
    assert_eq!((bench.pane, bench.row, bench.line), (Pane::Details, 0, 4), "{}", harness.text());
}

/// Presses the mouse on the first `text` of the screen.
fn press_on(harness: &mut Harness, text: &str) {
    let screen = harness.text();
    let (y, line) = screen.lines().enumerate().find(|(_, line)| line.contains(text)).unwrap();
    let x = line.split(text).next().unwrap().chars().count();
    harness.mouse(Gesture::Down, x as u16, y as u16);
}

#[test]
fn the_mouse_works_on_what_is_over_the_machine() {
    let mut harness = bench();
    let on_machine = |harness: &Harness| harness.host.showing::<MachineScreen>().is_some();
    let chosen = |harness: &Harness, text: &str| harness.text().contains(&format!("▸ {text}"));
    let names = |harness: &Harness| {
        harness.host.app.request.machine.gpus.iter().map(|gpu| gpu.name.clone()).collect::<Vec<_>>()
    };
    // cards: the first press selects, the second applies
    harness.press("a");
    harness.write("50");
    assert!(!chosen(&harness, "RTX 5080 "), "{}", harness.text());
    press_on(&mut harness, "RTX 5080 ");
    assert!(chosen(&harness, "RTX 5080 ") && names(&harness).len() == 2, "{}", harness.text());
    harness.mouse(Gesture::WheelUp, 70, 20);
    assert!(!chosen(&harness, "RTX 5080 "), "{}", harness.text());
    harness.mouse(Gesture::WheelDown, 70, 20);
    press_on(&mut harness, "RTX 5080 ");
    assert_eq!(names(&harness), ["RTX 3060", "RTX 3060", "RTX 5080"]);
    assert!(on_machine(&harness));
    // a message stands where the list was
    harness.press("a");
    harness.write("none");
    harness.press("Enter");
    press_on(&mut harness, "not a GPU");
    assert!(!on_machine(&harness) && harness.text().contains("not a GPU"), "{}", harness.text());
    harness.mouse(Gesture::Down, 1, 5);
    assert!(on_machine(&harness), "beside it");
    // saved machines, and their comparison
    harness.fakes.machines.lock().unwrap().push(("garage".to_owned(), Ok(harness::machine(1, "RTX 3090", 24, 128))));
    harness.press("m");
    harness.mouse(Gesture::WheelDown, 70, 20);
    assert!(chosen(&harness, "  garage"), "{}", harness.text());
    press_on(&mut harness, "machine at start");
    assert!(chosen(&harness, "  machine at start") && !on_machine(&harness), "{}", harness.text());
    harness.press("c");
    press_on(&mut harness, "max context");
    assert!(harness.text().contains("Side by side"), "{}", harness.text());
    harness.mouse(Gesture::Down, 1, 5);
    assert!(on_machine(&harness));
    harness.press("m");
    press_on(&mut harness, "garage");
    press_on(&mut harness, "garage");
    assert_eq!(names(&harness), ["RTX 3090"]);
    assert!(on_machine(&harness));
    // the name
    harness.press("s");
    harness.mouse(Gesture::Down, 1, 5);
    assert!(on_machine(&harness));
}

#[test]
fn a_saved_machine_joins_for_llama_cpp() {
    let mut harness = bench();
    let saved = harness::machine(2, "RTX 3090", 24, 128);
    harness.fakes.machines.lock().unwrap().push(("garage".to_owned(), Ok(saved)));
    harness.press("m j");
    assert!(harness.text().contains("cannot join itself"), "{}", harness.text());
    harness.press("↓ j");
    assert_eq!(harness.host.app.request.machine.gpus.len(), 4);
    let text = harness.text();
    assert!(
        text.contains("RTX 3090 @garage") && text.contains("joined") && text.contains("press e to choose it"),
        "{text}"
    );
    // Ollama ignores it and says so
    assert_eq!(harness.host.app.request.plan.as_ref().unwrap().gpus().len(), 2);
    assert!(harness.host.app.request.plan.as_ref().unwrap().notes.iter().any(|note| note.contains("garage")));
    harness.press("m ↓ j");
    assert!(harness.text().contains("already joined"), "{}", harness.text());
    harness.press("Esc Esc e ↑ Enter");
    let plan = harness.host.app.request.plan.clone().unwrap();
    assert_eq!(plan.gpus().len(), 4);
    assert!(harness.text().contains("modelled"), "{}", harness.text());
    harness.press("g End ↑ ↑ ↑ d");
    assert_eq!(harness.host.app.request.machine.gpus.len(), 3);
    harness.press("u u u");
    assert_eq!(harness.host.app.request.machine.origin, Origin::Detected);
}

/// Searching for the largest context takes a while on each machine.
#[test]
fn a_compared_machine_is_shown_as_soon_as_it_is_planned() {
    let mut harness = bench();
    harness.fakes.machines.lock().unwrap().push(("large".to_owned(), Ok(harness::machine(1, "H100", 80, 256))));
    harness.press("m ↓");
    let effects = harness.host.update(Action::Press(Command::CompareMachines));
    let [Effect::Ask(query)] = effects.as_slice() else { panic!("{effects:?}") };
    let left: Vec<usize> = query
        .parts()
        .flatten()
        .map(|part| {
            harness.act(Action::QueryAnswered { id: query.id - 1, part: part.clone() });
            let before = harness.text().matches("planning…").count();
            harness.act(Action::QueryAnswered { id: query.id, part });
            before - harness.text().matches("planning…").count()
        })
        .collect();
    assert_eq!(left, [1, 1, 0], "the end, and answers to another question, show nothing\n{}", harness.text());
}

#[test]
fn machines_are_compared_by_verdict_and_largest_context() {
    use plimsoll::engine::PlanRequest;
    use plimsoll::settings::knob::Knob;
    use plimsoll::units::Tokens;
    let mut harness = bench();
    let save = |name: &str, machine: Machine| {
        harness.fakes.machines.lock().unwrap().push((name.to_owned(), Ok(machine)));
    };
    save("small", harness::machine(1, "RTX 3050", 4, 16));
    save("large", harness::machine(1, "H100", 80, 256));
    save("bare", harness::machine(0, "", 0, 32));
    save("fifth", harness::machine(1, "RTX 3060", 12, 32));
    harness.press("m ↓ Space ↓ Space ↓ Space ↓ Space");
    assert!(harness.text().contains("can be compared"), "{}", harness.text());
    harness.press("c");
    let text = harness.text();
    for part in ["Side by side", "current", "small", "large", "bare", "All in VRAM", "Layers in RAM", "In RAM"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // the largest context is that of a plan on the machine itself
    let (app, machine) = (&harness.host.app, harness::machine(1, "H100", 80, 256));
    let model = app.request.model.clone().unwrap();
    let request = PlanRequest::new(app.request.engine, model.clone(), machine.clone(), app.request.settings.clone());
    let largest = request.largest(Knob::Context, plimsoll::answer::Goal::Vram).unwrap().value;
    assert!(text.contains(&Tokens(largest).to_string()), "{text}");
    harness.press("Esc m c");
    assert!(harness.text().contains("at start"), "{}", harness.text());
    for size in [(60, 20), (0, 0), (80, 24)] {
        harness.resize(size.0, size.1);
    }
}
