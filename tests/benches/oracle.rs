//! Compares times and results with llama.cpp itself. `PLIMSOLL_ORACLE` names a measuring program:
//! `PROGRAM measure MODEL.gguf JOBS.jsonl` prints one line per job as soon as it is done; both are in the format of
//! `tests/llama_cpp`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll::engine::llama_cpp::context::ContextParams;
use plimsoll::engine::llama_cpp::{Device, LayerSplit, LoadedModel, Reservation};
use plimsoll::gguf::write::Encoding;
use plimsoll::settings::Release;
use plimsoll::source::{no_progress, open};
use serde_json::{Value, json};

use crate::support::{self, description};

/// Questions per model, with distinct contexts to defeat caching.
const QUESTIONS: u64 = 24;

/// Prints the median time of both per question, without the start of the process.
pub fn compare(models: &[(&str, usize)], devices: impl Fn(usize) -> Vec<Device>) {
    let Some(oracle) = std::env::var_os("PLIMSOLL_ORACLE") else {
        println!("PLIMSOLL_ORACLE names no measuring program: llama.cpp itself is not timed");
        return;
    };
    println!("one question, median of {QUESTIONS}:");
    for &(name, gpus) in models {
        let file = Sparse::of(name);
        let devices = devices(gpus);
        let theirs = file.ask(Path::new(&oracle), &devices);
        let (loaded, opened) = (file.loaded(), Instant::now());
        let reading = {
            drop(file.loaded());
            opened.elapsed()
        };
        let mut times = (Vec::new(), Vec::new());
        for ((n_ctx, answer), took) in contexts().zip(&theirs.0).zip(&theirs.1) {
            let options = ContextParams { n_ctx, ..ContextParams::default() };
            let begun = Instant::now();
            let ours = loaded
                .measure(&devices, &LayerSplit::default(), &options, Reservation::Measured)
                .expect("llama.cpp takes these settings");
            times.0.push(begun.elapsed());
            times.1.push(*took);
            for (key, figures) in [("model", &ours.model), ("context", &ours.context), ("compute", &ours.compute)] {
                assert_eq!(answer[key], json!(figures), "{name} with {n_ctx} tokens: {key}");
            }
        }
        let (ours, theirs) = (median(times.0), median(times.1));
        let ratio = |ours: Duration| theirs.as_secs_f64() / ours.as_secs_f64();
        println!(
            "{name} on {gpus}: here {ours:.1?}, llama.cpp {theirs:.1?}, {:.0} times as long ({:.1} times where the header is \
             read anew here too, in {reading:.1?}); all figures agree",
            ratio(ours),
            ratio(ours + reading),
        );
    }
}

fn contexts() -> impl Iterator<Item = u64> {
    (0..QUESTIONS).map(|n| 32_768 + 256 * n)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// A model as a sparse file, with a hole instead of its weights.
struct Sparse {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Sparse {
    fn of(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder for a model");
        let path = folder.path().join(format!("{name}.gguf"));
        let mut model: Value = serde_json::from_str(&support::model_json(name)).expect("a model of the tests");
        // llama.cpp refuses some tokenizers without a list of merges, even an empty one
        model["kv"]["tokenizer.ggml.merges"] = json!(["array:string", []]);
        let bytes = description::bytes(&model.to_string(), Encoding::default()).expect("a model of the tests");
        fs::write(&path, bytes).expect("the folder can be written to");
        let header = description::header(&model.to_string()).expect("a model of the tests");
        let data: u64 = header.tensors.iter().map(|tensor| tensor.bytes.0.next_multiple_of(32)).sum();
        let file = File::options().write(true).open(&path).expect("it was written just now");
        file.set_len(header.data_start + data).expect("a file may have a hole");
        Self { folder, path }
    }

    fn loaded(&self) -> LoadedModel {
        let opened = open(&self.path, &mut no_progress).expect("the file was written by this program");
        LoadedModel::new(&opened.header, Release::default()).expect("a model of the tests")
    }

    /// The measuring program's results, and the time from each to the next.
    fn ask(&self, oracle: &Path, devices: &[Device]) -> (Vec<Value>, Vec<Duration>) {
        let devices: Vec<_> = devices.iter().map(|device| json!({ "free": device.free })).collect();
        // the first job is not timed
        let asked = |n_ctx: u64| json!({ "n_ctx": n_ctx, "devices": devices }).to_string() + "\n";
        let jobs: String = std::iter::once(4096).chain(contexts()).map(asked).collect();
        let path = self.folder.path().join("jobs.jsonl");
        fs::write(&path, jobs).expect("the folder can be written to");
        let mut child = Command::new(oracle)
            .arg("measure")
            .args([&self.path, &path])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("PLIMSOLL_ORACLE names a program");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let (mut answers, mut times, mut last) = (Vec::new(), Vec::new(), None);
        for line in lines {
            let now = Instant::now();
            let answer: Value = serde_json::from_str(&line.expect("text")).expect("an object on every line");
            if let Some(last) = last.replace(now) {
                times.push(now - last);
                answers.push(answer["out"].clone());
            }
        }
        let status = child.wait().expect("it ends");
        assert!(status.success() && answers.len() == QUESTIONS as usize, "the measuring program ends with {status}");
        (answers, times)
    }
}
