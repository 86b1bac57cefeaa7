//! Recordings, and what they tell beside a plan: `first-prompt.jsonl.gz` is a real llama-server on a CPU, from its load over
//! its first prompt and a second one.

use plimsoll::answer::live::{LiveDevice, RunningPlan, What, beside};
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::Machine;
use plimsoll::observed::sample::{OnGpu, ProgramSample, Sample, Served, Timeline};
use plimsoll::running::{plans, record};
use plimsoll::settings::{Context, Release, Settings};
use plimsoll::units::Bytes;

use crate::{fixtures, support};

pub(crate) fn recording() -> Vec<Sample> {
    record::read(&support::tests().join("running/first-prompt.jsonl.gz")).unwrap()
}

/// The plan of the recorded command.
fn plan(first: &Sample) -> RunningPlan {
    let settings =
        Settings { ctx: Context::Tokens(4096), release: Some(Release::September2026), ..Settings::default() };
    let machine = plans::machine(first);
    RunningPlan::of(PlanRequest::new(EngineId::LlamaCpp, fixtures::model("qwen3-0.6b"), machine, settings)).unwrap()
}

fn in_ram(timeline: &Timeline, plan: &RunningPlan) -> LiveDevice {
    beside(&timeline.courses()[0], plan).pop().unwrap()
}

fn named(device: &LiveDevice, what: What) -> Bytes {
    device.besides.iter().filter(|besides| besides.what == what).map(|besides| besides.bytes).sum()
}

#[test]
fn the_first_prompt_has_a_name_where_the_time_before_it_was_seen() {
    let samples = recording();
    let plan = plan(&samples[0]);
    let mut whole = Timeline::default();
    let mut late = Timeline::default();
    let is_prompted = |sample: &Sample| sample.programs[0].served.unwrap().prompted == Some(true);
    assert!(!is_prompted(&samples[0]) && is_prompted(samples.last().unwrap()));
    for sample in samples {
        if is_prompted(&sample) {
            late.push(sample.clone());
        }
        whole.push(sample);
    }
    let seen = in_ram(&whole, &plan);
    assert!(named(&seen, What::FirstPrompt) > Bytes::ZERO, "{seen:?}");
    // what is named adds up to what the program has of its own besides its planned buffers
    let own = whole.now().unwrap().programs[0].ram.unwrap().own.unwrap();
    let sum: Bytes = seen.besides.iter().map(|besides| besides.bytes).sum();
    assert!((own - plan.ram.must).0.abs_diff(sum.0) < 3 << 20, "{own} {sum} {}", plan.ram.must);
    // without it, nothing is told apart
    let seen = in_ram(&late, &plan);
    assert_eq!(named(&seen, What::FirstPrompt), Bytes::ZERO);
    assert_eq!(seen.besides.iter().map(|besides| besides.what).collect::<Vec<_>>(), [What::ProgramAndPrompts]);
}

#[test]
fn before_its_first_prompt_a_server_holds_what_is_planned() {
    let samples = recording();
    let plan = plan(&samples[0]);
    let mut timeline = Timeline::default();
    timeline.push(samples[0].clone());
    let seen = in_ram(&timeline, &plan);
    let own = samples[0].programs[0].ram.unwrap().own.unwrap();
    assert!(own.0.abs_diff(plan.ram.must.0) < 40 << 20, "{own} {seen:?}");
}

/// A program on one GPU.
fn on_gpu(bytes: Bytes, ready: bool, prompted: bool) -> Sample {
    let served = Served { ready, busy: Some(0), prompted: Some(prompted), ..Served::default() };
    let gpus = vec![OnGpu { device: "GPU0".to_owned(), bytes }];
    let program = ProgramSample { pid: Some(7), gpus, served: Some(served), ..ProgramSample::default() };
    Sample { programs: vec![program], ..Sample::default() }
}

#[test]
fn what_a_gpu_holds_besides_the_plan_is_named_as_far_as_it_can_be_told_apart() {
    let machine = Machine::described(&["RTX 3060"], "64GiB").unwrap();
    let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
    let request = PlanRequest::new(EngineId::LlamaCpp, fixtures::model("llama3.1-8b"), machine, settings);
    let plan = RunningPlan::of(request).unwrap();
    let asked = plan.plan.gpus()[0].asked();
    let seen = |samples: &[Sample]| {
        let mut timeline = Timeline::default();
        for sample in samples {
            timeline.push(sample.clone());
        }
        beside(&timeline.courses()[0], &plan).remove(0)
    };
    let fresh = on_gpu(asked + Bytes::mib(300), true, false);
    let prompted = on_gpu(asked + Bytes::mib(460), true, true);
    let both = seen(&[fresh.clone(), prompted.clone()]);
    assert_eq!(named(&both, What::DriverContext), Bytes::mib(300));
    assert_eq!(named(&both, What::FirstPrompt), Bytes::mib(160));
    assert_eq!(both.difference(), Some(460 << 20));
    let late = seen(&[prompted]);
    assert_eq!(late.besides.iter().map(|besides| besides.what).collect::<Vec<_>>(), [What::DriverAndFirstPrompt]);
    let loads = seen(&[on_gpu(asked - Bytes::gib(1), false, false)]);
    let less = loads.less.unwrap();
    assert_eq!((less.what, less.bytes), (What::Loading, Bytes::gib(1)));
}

#[test]
fn a_recording_comes_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let samples = recording();
    for name in ["a.jsonl", "b.jsonl.gz"] {
        let path = folder.path().join(name);
        let mut recorder = record::Recorder::create(&path).unwrap();
        for sample in &samples {
            recorder.add(sample).unwrap();
        }
        recorder.finish().unwrap();
        assert_eq!(record::read(&path).unwrap(), samples);
        assert!(record::Recorder::create(&path).map(|_| ()).unwrap_err().contains("already exists"));
    }
}

#[test]
fn what_is_no_recording_is_one_sentence_and_a_cut_one_is_read_as_far_as_it_goes() {
    let samples = recording();
    let text: String = samples.iter().map(|sample| record::line(sample).unwrap()).collect();
    let cut = &text[..text.len() - 20];
    assert_eq!(record::samples(cut.as_bytes()).unwrap().len(), samples.len() - 1);
    for rubbish in ["", "\n\n", "{}", "llama-server: hello", "[1,2", "\u{0}\u{1}"] {
        let why = record::samples(rubbish.as_bytes()).unwrap_err();
        assert!(!why.contains('\n'), "{why}");
    }
}

#[test]
fn an_hour_is_kept() {
    let sample = recording().remove(0);
    let mut timeline = Timeline::default();
    for second in 0..9000 {
        timeline.push(Sample { time: f64::from(second), ..sample.clone() });
    }
    assert!(timeline.samples().count() <= 3600);
    assert!(timeline.samples().all(|sample| sample.time >= 8999.0 - 3600.0));
    assert!(timeline.courses()[0].fresh.is_some());
}
