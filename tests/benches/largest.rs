//! The largest value of a knob, for every model of the tests and the catalogue on machines that just hold it or just do
//! not: first the distribution of times (targets: median 25 ms, 99 % 150 ms, maximum 300 ms), then the slowest model
//! per knob, the quantisation, and the matrix. `cargo bench --bench largest`
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot start should say so")]

#[path = "../support.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;

#[path = "../fixtures.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod fixtures;

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use divan::Bencher;
use fixtures::{card, machines, server};
use plimsoll::answer::Goal;
use plimsoll::answer::sweep::Axis;
use plimsoll::catalogue::{self, CatalogueEntry};
use plimsoll::engine::EngineId;
use plimsoll::engine::PlanRequest;
use plimsoll::engine::PreparedModel;
use plimsoll::gguf::FileType;
use plimsoll::machine::{Backend, Machine};
use plimsoll::model::Model;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{Context, FlashAttn, Settings};
use plimsoll::units::Bytes;

fn main() {
    // skipped by `cargo test` and with a filter
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        spread();
    }
    divan::main();
}

/// Times every question once, and prints the distribution.
fn spread() {
    let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
    let mut all = Vec::new();
    for question in questions() {
        let Question(engine, knob) = question;
        let mut times = Vec::new();
        for (_, model) in models() {
            for machine in machines(model) {
                let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
                let began = Instant::now();
                std::hint::black_box(request.largest(knob, Goal::Vram));
                times.push(began.elapsed());
            }
        }
        all.extend_from_slice(&times);
        print_spread(&question.to_string(), times);
    }
    print_spread("all of them", all);
}

fn print_spread(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    let (median, p99, slowest) = (at(50), at(99), at(100));
    println!(
        "{what:24} {:6} answers  median {median:6.1} ms  99 % {p99:6.1} ms  slowest {slowest:6.1} ms",
        times.len()
    );
}

/// An engine, and the knob whose largest value is searched.
#[derive(Clone, Copy)]
struct Question(EngineId, Knob);

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1.name())
    }
}

fn questions() -> impl Iterator<Item = Question> {
    let knobs = [Knob::Context, Knob::Parallel, Knob::Batch, Knob::GpuLayers];
    EngineId::ALL.into_iter().flat_map(move |engine| knobs.map(|knob| Question(engine, knob)))
}

fn models() -> &'static [(String, PreparedModel)] {
    static READ: OnceLock<Vec<(String, PreparedModel)>> = OnceLock::new();
    READ.get_or_init(|| {
        let read = |name: String| Some((name.clone(), Model::from_header(support::model(&name), &name).ok()?.into()));
        let known =
            |entry: &CatalogueEntry| Some((entry.names().next()?.to_owned(), entry.model(FileType::Q4KM).ok()?.into()));
        let catalogue = catalogue::all().iter().filter_map(known);
        support::model_names().into_iter().filter_map(read).chain(catalogue).collect()
    })
}

#[divan::bench(args = questions(), sample_count = 10, sample_size = 1)]
fn largest_for_the_slowest_model(bencher: Bencher<'_, '_>, Question(engine, knob): Question) {
    let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
    let mut slowest = (Duration::ZERO, "", None);
    for (name, model) in models() {
        for machine in machines(model) {
            let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
            let began = Instant::now();
            std::hint::black_box(request.largest(knob, Goal::Vram));
            let took = began.elapsed();
            if took > slowest.0 {
                slowest = (took, name, Some((model, machine)));
            }
        }
    }
    let (_, name, worst) = slowest;
    let (model, machine) = worst.unwrap();
    print!("[{name} on {}] ", machine.gpus.len());
    let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
    bencher.bench(|| request.largest(knob, Goal::Vram));
}

/// Searches the largest context with at least this many layers on GPUs of different sizes.
#[derive(Clone, Copy)]
struct Uneven {
    engine: EngineId,
    model: &'static str,
    layers: usize,
    backend: Backend,
    /// MiB of each card.
    cards: [u64; 5],
}

impl fmt::Display for Uneven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.engine, self.model, self.layers)
    }
}

/// The slowest of tens of thousands of random cases.
const UNEVEN: [Uneven; 4] = {
    use Backend::{Cuda, Rocm};
    use EngineId::{LlamaCpp, Ollama};
    let falling = [48_854, 38_614, 98_012, 14_727, 9672];
    let one_large = [21_745, 98_005, 15_168, 32_436, 19_897];
    let steep = [79_751, 80_939, 38_531, 8008, 3400];
    let two_large = [6706, 7988, 80_095, 96_122, 24_338];
    [
        Uneven { engine: Ollama, model: "glm-4.5", layers: 10, backend: Cuda, cards: falling },
        Uneven { engine: Ollama, model: "glm-4.6", layers: 10, backend: Cuda, cards: one_large },
        Uneven { engine: Ollama, model: "glm-4.6", layers: 0, backend: Rocm, cards: steep },
        Uneven { engine: LlamaCpp, model: "llama4-scout", layers: 0, backend: Rocm, cards: two_large },
    ]
};

#[divan::bench(args = UNEVEN, sample_count = 20, sample_size = 1)]
fn max_context_on_uneven_cards(bencher: Bencher<'_, '_>, question: Uneven) {
    let Uneven { engine, model, layers, backend, cards } = question;
    let (_, model) = models().iter().find(|(name, _)| name == model).unwrap();
    let gpus = cards.iter().map(|&mebibytes| card(backend, Bytes::mib(mebibytes))).collect();
    let machine = Machine { ram: server(0, Bytes::ZERO).ram, ..fixtures::machine(gpus) };
    let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
    let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
    bencher.bench(|| request.largest(Knob::Context, Goal::AtLeast(layers)));
}

/// The largest of 30 quantisations of an 80-layer model that fits on 2 GPUs.
#[divan::bench]
fn max_quantisation_70b(bencher: Bencher<'_, '_>) {
    let (model, machine) = (fixtures::model("llama3.1-70b"), server(2, Bytes::gib(24)));
    let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
    let request = PlanRequest::new(EngineId::Ollama024, model.clone(), machine.clone(), settings.clone());
    assert!(request.largest_quantisation(Goal::Vram).found.is_some());
    bencher.bench(|| request.largest_quantisation(Goal::Vram));
}

fn pairs() -> impl Iterator<Item = Question> {
    EngineId::ALL.into_iter().flat_map(|engine| [Knob::Parallel, Knob::CacheType].map(|knob| Question(engine, knob)))
}

/// 12 contexts by 6 numbers of sequences or 6 cache types. Target: 250 ms.
#[divan::bench(args = pairs(), sample_count = 10, sample_size = 1)]
fn matrix_12_by_6_llama_70b(bencher: Bencher<'_, '_>, Question(engine, columns): Question) {
    let (model, machine) = (fixtures::model("llama3.1-70b"), server(2, Bytes::gib(24)));
    let settings = Settings { flash_attn: FlashAttn::On, ..Settings::default() };
    let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
    let axes = || (Axis::spread(Knob::Context, &request, 12), Axis::spread(columns, &request, 6));
    bencher.bench(|| request.matrix(axes().0, axes().1));
}
