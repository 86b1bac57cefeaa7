//! The published files of a model are tried before a log's weights are called others.

use std::fmt::Write;

use plimsoll::answer::check::{Check, CheckRequest, CheckedTerm, check};
use plimsoll::catalogue;
use plimsoll::engine::{self, EngineId, PreparedModel};
use plimsoll::machine::Backend;
use plimsoll::machine::spec::MachineSpec;
use plimsoll::model::mixture::{self, Quantisation};
use plimsoll::observed::Observation;
use plimsoll::plan::Plan;
use plimsoll::settings::{Context, GpuLayers, Release, Settings};
use plimsoll::units::Bytes;
use rstest::rstest;

use crate::fixtures::{card, machine};

/// What a load of `model` prints of its weights over two cards, with so many MiB more on the first and fewer on the other.
fn log(model: &PreparedModel, moved: f64) -> String {
    let cards = machine(vec![card(Backend::Cuda, Bytes::gib(48)); 2]);
    let settings = Settings {
        ctx: Context::Tokens(16_384),
        parallel: Some(1),
        gpu_layers: GpuLayers::All,
        tensor_split: vec![1.0, 1.0],
        release: Some(Release::November2026),
        ..Settings::default()
    };
    let plan: Plan = engine::plan(EngineId::LlamaCpp, model, &cards, &settings).unwrap();
    let mut text = "llama-server -m model.gguf -c 16384 -np 1 -ngl 99 -ts 1,1\n".to_owned();
    for ((device, name), more) in plan.devices.iter().zip(["CUDA0", "CUDA1", "CPU"]).zip([moved, -moved, 0.0]) {
        let mib = device.weights.0 as f64 / f64::from(1 << 20) + more;
        writeln!(text, "load_tensors: {name} model buffer size = {mib:.2} MiB").unwrap();
    }
    text
}

/// Compared with the plain `Q4_K_M` of the catalogue.
fn checked(name: &str, text: &str) -> Check {
    let seen = Observation::of(text);
    let nothing = MachineSpec::default();
    let model = catalogue::find(name).unwrap().model(plimsoll::gguf::FileType::Q4KM).unwrap();
    let request = CheckRequest {
        model: model.into(),
        projector: None,
        is_same_file: false,
        machine: &nothing,
        engine: None,
        release: Some(Release::November2026),
        knobs: &|_| {},
    };
    check(seen.load().unwrap(), &request).unwrap()
}

#[rstest]
#[case("qwen3.5-9b", "UD-Q4_K_XL", 0.0)]
#[case("qwen3.5-35b-a3b", "UD-Q4_K_XL", 0.0)]
// other layers have more bits than the recipe says
#[case("qwen3.5-35b-a3b", "UD-Q4_K_XL", 60.0)]
#[case("mistral-small-4-119b", "UD-Q3_K_XL", 0.0)]
fn the_published_files_of_a_model_are_tried(#[case] name: &str, #[case] quant: &str, #[case] moved: f64) {
    let to: Quantisation = quant.parse().unwrap();
    let model = PreparedModel::from(catalogue::find(name).unwrap().model(to).unwrap());
    let check = checked(name, &log(&model, moved));
    assert_eq!(check.quantisation, Some(to));
    let weights = || check.rows.iter().filter(|row| row.term == CheckedTerm::Model);
    let off: f64 = weights().filter(|row| row.observed.is_some()).map(|row| row.difference().0).sum();
    assert!(off.abs() < 1.0, "{:?}", check.rows);
}

/// An older file under the same name is found too.
#[test]
fn older_editions_are_tried() {
    let entry = catalogue::find("qwen3.6-27b").unwrap();
    let editions: Vec<_> = mixture::of_name("qwen3.8-27b").filter_map(|edition| edition.file("UD-Q4_K_XL")).collect();
    assert_eq!(editions.iter().map(|file| file.bytes).collect::<Vec<_>>(), [17_559_178_144, 17_923_394_624]);
    let to: Quantisation = "UD-Q4_K_XL".parse().unwrap();
    let models: Vec<_> = editions.iter().map(|file| entry.published(to, file).unwrap()).collect();
    assert_eq!(models[1].published_files().filter(|file| file.name == to.name()).count(), 2);
    assert_eq!(models[1].bytes.0, editions[1].tensor_bytes());
}
