//! The machine in front of the planner: found late, followed, held still.

use plimsoll::hardware::watch::Moved;
use plimsoll::machine::{Machine, Origin};
use plimsoll::tui::action::Action;
use plimsoll::tui::app::Live;
use plimsoll::units::Bytes;

use crate::stage::{self, Stage};

/// The planner on a machine with one GPU that is followed.
fn live() -> (Stage, Machine) {
    let machine = Machine { origin: Origin::Detected, ..stage::one_gpu() };
    let mut stage = Stage::new(stage::model("llama3.1-8b"), machine.clone(), (140, 45));
    stage.app.live = Live::On;
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
fn the_plan_follows_free_memory_without_marks() {
    let (mut stage, machine) = live();
    let limit = stage.app.limits.clone().unwrap().context;
    stage.act(moved(with_free(&machine, 9), &[]));
    let plan = stage.app.plan.clone().unwrap();
    assert_eq!(plan.devices[0].free, Bytes::gib(9));
    assert!(stage.app.limits.clone().unwrap().context < limit, "what fits is worked out anew");
    assert!(!stage.text().contains(['▲', '▼']) || stage.text().contains("▲ Split"), "{}", stage.text());
    assert!(stage.app.before().is_none());

    // the marks of a key stay what they were, whatever moves by itself
    stage.press("→");
    assert!(stage.app.before().is_some());
    stage.act(moved(with_free(&machine, 10), &[]));
    assert!(stage.app.before().is_some());
    stage.rest();
    assert!(stage.app.before().is_none());
}

#[test]
fn f_holds_free_memory_still_and_follows_it_again() {
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
    assert!(stage.frozen.is_empty() && stage.text().contains("not followed here"), "{}", stage.text());
}

#[test]
fn what_a_device_reports_is_a_note_while_it_lasts() {
    for size in [(140, 45), (60, 20)] {
        let (mut stage, machine) = live();
        stage.resize(size.0, size.1);
        let lost = "GPU0 RTX 3090 answers no longer (lost): it is shown as it was";
        stage.act(moved(machine.clone(), &[lost]));
        assert!(stage.text().contains("answers no longer"), "{}", stage.text());
        stage.press("Home");
        stage.act(moved(machine, &[]));
        assert!(!stage.text().contains("answers no longer"), "{}", stage.text());
    }
}
