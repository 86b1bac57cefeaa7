//! Projectors against what llama.cpp's own clip code took: on a simulated card that supports everything (`plain`), and
//! with the CUDA backend's decisions (`cuda`).

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use flate2::read::GzDecoder;
use plimsoll::engine::ggml::backend::{Cuda, Plain};
use plimsoll::engine::ggml::{BackendRef, Graph, Tensor};
use plimsoll::engine::llama_cpp::projector::kind::ProjectorType;
use plimsoll::engine::llama_cpp::projector::{
    EncoderMemory, Input, LoadedProjector, Modality, ProjectorOptions, TokenOptions,
};
use plimsoll::engine::llama_cpp::release::ReleaseTraits;
use plimsoll::gguf::{Array, Elements, Header, Value as GgufValue};
use plimsoll::settings::{FlashAttn, ImageSize, Release};
use proptest::prelude::*;
use proptest::sample::select;
use rstest::rstest;
use serde_json::{Map, Value, json};

use crate::support;

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

fn header(name: &str) -> Header {
    support::description::header(&support::projector_json(name)).unwrap()
}

/// The options and the later input that a line asks for, and the name of its device.
fn question(asked: &Value, backend: &BackendRef) -> (ProjectorOptions, Option<Input>, Option<String>) {
    let device = asked["device"].as_i64().unwrap_or(0);
    let options = ProjectorOptions {
        device: (device >= 0).then(|| Arc::clone(backend)),
        flash_attn: match asked["flash_attn"].as_str() {
            Some("on") => FlashAttn::On,
            Some("off") => FlashAttn::Off,
            _ => FlashAttn::Auto,
        },
        tokens: TokenOptions { least: asked["image_min_tokens"].as_u64(), most: asked["image_max_tokens"].as_u64() },
        warmup: asked["warmup"].as_bool().unwrap_or(true),
    };
    let batch = asked["batch"].as_u64().unwrap_or(1);
    let then = asked["then"].as_array().map(|size| Input::Image {
        width: size[0].as_u64().unwrap(),
        height: size[1].as_u64().unwrap(),
        batch,
    });
    let then = then.or_else(|| asked["frames"].as_u64().map(|frames| Input::Audio { frames }));
    (options, then, (device >= 0).then(|| format!("SIM{device}")))
}

/// Bytes by name of the device, the host last; devices without any are left out.
fn named(bytes: &[u64], device: Option<&str>) -> Value {
    let names = device.into_iter().chain(["host"]);
    let pairs = names.zip(bytes).filter(|(_, bytes)| **bytes > 0);
    Value::Object(pairs.map(|(name, bytes)| (name.to_owned(), json!(bytes))).collect())
}

fn answer(projector: &LoadedProjector, memory: &[EncoderMemory], then: Option<Input>, device: Option<&str>) -> Value {
    let mut out = Map::new();
    let mut fit = vec![0; usize::from(device.is_some()) + 1];
    for (encoder, memory) in projector.encoders.iter().zip(memory) {
        // the lines say what the fit would count after the later input
        let grown = memory.grown.clone().unwrap_or_default();
        let later =
            EncoderMemory { compute: if grown.is_empty() { memory.compute.clone() } else { grown }, ..memory.clone() };
        for (all, bytes) in fit.iter_mut().zip(later.fit_bytes()) {
            *all += bytes;
        }
        let mut part = json!({
            "projector": encoder.kind.name(),
            "weights": named(&[memory.weights], device),
            "tensor_bytes": memory.tensor_bytes,
            "compute": named(&memory.compute, device),
            "n_tokens": memory.n_tokens,
            "n_embd": memory.n_embd,
            "flash_attn": memory.flash_attn,
            "support_batch": encoder.encodes_batches(),
        });
        match memory.dummy {
            Input::Image { width, height, .. } => {
                part["image"] = json!([width, height]);
                part["n_tokens_max"] = memory.n_tokens_max.map_or(json!(-1), |most| json!(most));
            }
            Input::Audio { frames } => part["audio"] = json!([frames, encoder.hparams.n_mel_bins]),
        }
        if let (Some(grown), Some(then)) = (&memory.grown, then) {
            part["then_compute"] = named(grown, device);
            part["then_tokens"] = json!(encoder.tokens(then));
        }
        out.insert(encoder.modality.name().to_owned(), part);
    }
    out.insert("fit".to_owned(), named(&fit, device));
    Value::Object(out)
}

/// `got` without the most tokens of an image where clip was not asked for them: only the newest release tells them.
fn asked_of(mut got: Value, wanted: &Value) -> Value {
    if wanted["vision"].get("n_tokens_max").is_none()
        && let Some(vision) = got.get_mut("vision").and_then(Value::as_object_mut)
    {
        vision.remove("n_tokens_max");
    }
    got
}

/// The newest release in `folder` itself, others in a folder of their name.
#[rstest]
#[case("plain", Release::November2026)]
#[case("plain/2026-09", Release::September2026)]
#[case("cuda", Release::November2026)]
#[case("cuda/2026-09", Release::September2026)]
fn projectors_take_what_clip_takes(#[case] folder: &str, #[case] release: Release) {
    let release = ReleaseTraits::of(release);
    let backend: BackendRef = if folder.starts_with("cuda") {
        Arc::new(Cuda { rules: release.cuda, ..Cuda::default() })
    } else {
        Arc::new(Plain)
    };
    let (mut lines, mut exact, mut first) = (0, 0, Vec::new());
    for name in support::names_in(&["projectors/models"]) {
        let projector = LoadedProjector::new(&header(&name));
        let path = support::tests().join(format!("projectors/{folder}/{name}.jsonl.gz"));
        let (mut of_file, mut exact_of_file) = (0, 0);
        for line in unpacked(&path).lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let (options, then, device) = question(&line["in"], &backend);
            let got = projector
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|projector| {
                    let memory = projector.measure(release, &options, then)?;
                    Ok(answer(projector, &memory, then, device.as_deref()))
                })
                .unwrap_or_else(|error| json!({ "error": error.to_string() }));
            of_file += 1;
            let got = asked_of(got, &line["out"]);
            if got == line["out"] {
                exact_of_file += 1;
            } else if exact_of_file + 1 == of_file || of_file == 1 {
                first.push(format!("{}\n  clip {}\n  here {got}", line["in"], line["out"]));
            }
        }
        println!("{folder} {name}: {exact_of_file} of {of_file}");
        (lines, exact) = (lines + of_file, exact + exact_of_file);
    }
    println!("{folder}: {exact} of {lines}");
    assert!(
        first.is_empty(),
        "{exact} of {lines} lines of {folder} agree; the first of each file:\n{}",
        first.join("\n")
    );
    assert_eq!(lines, 251);
}

#[test]
fn every_type_with_a_graph_has_figures_or_says_that_it_has_none() {
    let loaded = support::names_in(&["projectors/models"]).into_iter().map(|name| LoadedProjector::new(&header(&name)));
    let measured: Vec<ProjectorType> =
        loaded.flat_map(|file| file.unwrap().encoders).map(|encoder| encoder.kind).collect();
    let wrong: Vec<&ProjectorType> = ProjectorType::ALL
        .iter()
        .filter(|kind| kind.is_exact() && kind.is_unchecked() == measured.contains(kind))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// `op type [ne]` of a graph's nodes, then `type [ne]` of its leafs.
fn listed(graph: &Graph) -> (Vec<String>, Vec<String>) {
    let shape = |tensor: &Tensor| format!("{} {:?}", tensor.ty, tensor.ne).replace(", ", ",");
    let nodes = graph.nodes.iter().map(|id| format!("{} {}", graph[*id].op.name(), shape(&graph[*id])));
    let leafs = graph.leafs.iter().map(|id| shape(&graph[*id]));
    (nodes.collect(), leafs.collect())
}

/// The same of a graph that clip built, from its listing.
fn clips(listing: &str) -> (Vec<String>, Vec<String>) {
    let (mut nodes, mut leafs) = (Vec::new(), Vec::new());
    for line in listing.lines().filter(|line| !line.starts_with('#')) {
        // names may have spaces: what follows them is found from the shape
        let (before, after) = line.split_once(" [").unwrap();
        let shape = after.split(']').next().unwrap();
        let ty = before.rsplit(' ').next().unwrap();
        match before.strip_prefix("leaf ") {
            Some(_) => leafs.push(format!("{ty} [{shape}]")),
            None => nodes.push(format!("{} {ty} [{shape}]", before.split(' ').nth(1).unwrap())),
        }
    }
    (nodes, leafs)
}

#[test]
fn graphs_agree_node_by_node() {
    let release = ReleaseTraits::of(Release::default());
    let names: Vec<String> = fs::read_dir(support::tests().join("projectors/graphs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 41);
    for file in names {
        let text = unpacked(&support::tests().join("projectors/graphs").join(&file));
        let (name, rest) = file.split_once(".fa-").unwrap();
        // the listed graphs were cut to two blocks
        let mut cut = header(name);
        for modality in ["vision", "audio"] {
            let key = format!("clip.{modality}.block_count");
            let entries = cut.metadata.iter().map(|(other, value)| match value {
                GgufValue::U32(blocks) if *other == *key => (other.into(), GgufValue::U32((*blocks).min(2))),
                GgufValue::U32(_) if other.ends_with("n_wa_pattern") => (other.into(), GgufValue::U32(2)),
                GgufValue::Array(list) if other.ends_with("feature_layer") => {
                    let elements = Elements::I32(vec![1, 2]);
                    (other.into(), GgufValue::Array(Array { len: 2, elements, ..list.clone() }))
                }
                _ => (other.into(), value.clone()),
            });
            cut.metadata = entries.collect();
        }
        // with the first of its deepstack levels
        let of_level = |name: &str| name.strip_prefix("v.deepstack.")?.split('.').next()?.parse::<u32>().ok();
        let first = cut.tensors.iter().filter_map(|tensor| of_level(&tensor.name)).min();
        for tensor in cut.tensors.iter_mut().filter(|tensor| first.is_some() && of_level(&tensor.name) == first) {
            tensor.name = tensor.name.replacen(&format!("deepstack.{}.", first.unwrap()), "deepstack.1.", 1).into();
        }
        // and the outputs of two blocks
        for tensor in
            cut.tensors.iter_mut().filter(|tensor| name.starts_with("granite") && *tensor.name == *"mm.0.weight")
        {
            tensor.dims[0] /= 2;
        }
        let projector = LoadedProjector::new(&cut).unwrap();
        for (encoder, listing) in projector.encoders.iter().zip(text.split(": measured").skip(1)) {
            let options = TokenOptions::default();
            let input = match encoder.limits(options, &release.clip) {
                Ok(limits) if encoder.modality == Modality::Vision => {
                    Input::Image { width: limits.dummy_side, height: limits.dummy_side, batch: 1 }
                }
                _ => Input::Audio { frames: 3000 },
            };
            let graph = encoder.graph(release, input, rest.starts_with("on")).unwrap();
            let listing = listing.split_once('\n').map_or("", |(_, rest)| rest);
            let ((nodes, leafs), (clips_nodes, clips_leafs)) = (listed(&graph), clips(listing));
            let differs = nodes.iter().zip(&clips_nodes).position(|(here, there)| here != there);
            let at = |list: &[String]| differs.and_then(|at| list.get(at).cloned());
            assert_eq!(differs, None, "{file}: {:?} is {:?} in clip", at(&nodes), at(&clips_nodes));
            assert_eq!((nodes.len(), leafs), (clips_nodes.len(), clips_leafs), "{file}");
        }
    }
}

/// Numbers that a header should not have.
const ODD: [u32; 12] = [0, 1, 2, 3, 5, 7, 512, 4096, 65_535, 65_536, i32::MAX as u32, u32::MAX];

/// A header with one of its `clip` numbers replaced.
fn with_number(header: &Header, at: usize, number: u32) -> Header {
    let is_number = |(key, value): &(&str, &GgufValue)| key.starts_with("clip.") && matches!(value, GgufValue::U32(_));
    let numbers: Vec<String> = header.metadata.iter().filter(is_number).map(|(key, _)| key.to_owned()).collect();
    let Some(replaced) = numbers.get(at % numbers.len().max(1)) else { return header.clone() };
    let entries = header.metadata.iter().map(|(key, value)| {
        let value = if key == replaced { GgufValue::U32(number) } else { value.clone() };
        (key.into(), value)
    });
    Header { metadata: entries.collect(), ..header.clone() }
}

proptest! {
    #[test]
    fn odd_headers_are_measured_or_refused_without_harm(
        name in select(support::names_in(&["projectors/models"])),
        numbers in proptest::collection::vec((any::<usize>(), select(ODD.to_vec())), 0..3),
        dims in proptest::collection::vec((any::<usize>(), 0..4usize, select(ODD.to_vec())), 0..2),
        lost in proptest::option::of(any::<usize>()),
        (width, height) in (0..5000u64, 0..5000u64),
        most in select(vec![None, Some(1), Some(2), Some(77), Some(4096), Some(1 << 20), Some(u64::MAX)]),
    ) {
        let mut header = header(&name);
        for (at, number) in numbers {
            header = with_number(&header, at, number);
        }
        let count = header.tensors.len();
        for (at, dimension, number) in dims {
            if let Some(elements) = header.tensors[at % count].dims.get_mut(dimension) {
                *elements = number.into();
            }
        }
        if let Some(at) = lost {
            header.tensors.remove(at % count);
        }
        if let Ok(projector) = LoadedProjector::new(&header) {
            let tokens = TokenOptions { least: None, most };
            let options = ProjectorOptions { device: Some(Arc::new(Plain)), tokens, ..ProjectorOptions::default() };
            let image = Input::Image { width, height, batch: 1 };
            let release = ReleaseTraits::of(Release::default());
            let result = projector.measure(release, &options, Some(image));
            if let Err(error) = result {
                prop_assert!(!error.to_string().contains('\n'));
            }
            for encoder in &projector.encoders {
                if let Ok(limits) = encoder.limits(tokens, &release.clip) {
                    let size = ImageSize { width: width + 1, height: height + 1 };
                    let _ = encoder.largest_image(&limits, &release.clip);
                    let _ = encoder.resized(&limits, size, &release.clip);
                }
            }
        }
    }
}
