//! What a process took besides its buffers.

use plimsoll::answer::check::running::driver_overhead;
use plimsoll::observed::Observation;

use crate::observed::samples::samples;

fn observation(id: &str) -> Observation {
    let samples = samples();
    let sample = samples.iter().find(|sample| sample["id"] == id).unwrap();
    Observation::of(sample["raw"].as_str().unwrap())
}

#[test]
fn the_same_model_at_several_contexts_leaves_the_same_to_the_driver() {
    for id in ["r26-038", "r26-039"] {
        let seen = observation(id);
        let found = driver_overhead(seen.load().unwrap(), &seen.processes).unwrap();
        let [only] = found.as_slice() else { panic!("{id}: {found:?}") };
        assert_eq!((only.device.as_str(), format!("{:.1}", only.mib().0)), ("CUDA0", "304.7".to_owned()), "{id}");
    }
}

#[test]
fn without_a_process_or_a_buffer_there_is_nothing_to_learn() {
    let seen = observation("r26-038");
    let load = seen.load().unwrap();
    assert!(driver_overhead(load, &[]).unwrap_err().contains("no process"));
    let twice: Vec<_> = seen.processes.iter().chain(&seen.processes).cloned().collect();
    assert!(driver_overhead(load, &twice).unwrap_err().contains("more than one"));
    let table = observation("r26-087");
    assert!(driver_overhead(table.load().unwrap(), &seen.processes).unwrap_err().contains("-lv 4"));
}
