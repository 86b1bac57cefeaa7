//! llama-server's two contexts, the model's and the draft's, against what llama.cpp itself measured.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::GzDecoder;
use plimsoll::engine::ggml::backend::{Cuda, Plain};
use plimsoll::engine::ggml::{BackendRef, Type};
use plimsoll::engine::llama_cpp::context::ContextParams;
use plimsoll::engine::llama_cpp::draft::{DraftRequest, MainContext};
use plimsoll::engine::llama_cpp::error::LoadError;
use plimsoll::engine::llama_cpp::fit::{FitLimits, fit_with_draft};
use plimsoll::engine::llama_cpp::overrides::UserOverrides;
use plimsoll::engine::llama_cpp::release::ReleaseTraits;
use plimsoll::engine::llama_cpp::speculation::Speculation;
use plimsoll::engine::llama_cpp::{Device, LayerSplit, LoadedModel, Reservation};
use plimsoll::engine::{self, DraftFile, EngineId, PreparedModel};
use plimsoll::machine::Backend;
use plimsoll::plan::{Part, PartMemory, Verdict};
use plimsoll::settings::{
    CacheType, Context, DeviceName, DraftSettings, FlashAttn, GpuLayers, Release, Settings, SpecType,
};
use plimsoll::units::Bytes;
use rstest::rstest;
use serde_json::{Value, json};

use crate::llama_cpp::pattern;
use crate::{fixtures, support};

/// A line's request, as llama-server makes it.
struct Request {
    main: LoadedModel,
    draft: Option<LoadedModel>,
    devices: Vec<Device>,
    devices_draft: Vec<usize>,
    spread: LayerSplit,
    gpu_layers_draft: Option<u64>,
    options: ContextParams,
    types_draft: [Type; 2],
    speculation: Speculation,
}

fn loaded(name: &str) -> Result<LoadedModel, LoadError> {
    LoadedModel::new(&support::model(name.strip_prefix("spec/").unwrap_or(name)), Release::default())
}

impl Request {
    fn of(asked: &Value, backend: &BackendRef) -> Result<Self, LoadError> {
        let number = |key: &str, default: u64| asked[key].as_u64().unwrap_or(default);
        let flag = |key: &str, default: bool| asked[key].as_bool().unwrap_or(default);
        let ty = |key: &str| {
            let name = asked[key].as_str().unwrap_or("f16");
            Type::ALL.iter().copied().find(|ty| ty.name() == name).unwrap()
        };
        let shares = asked["tensor_split"].as_array();
        let shares = shares.map(|list| list.iter().map(|x| x.as_f64().unwrap() as f32).collect());
        let types: Vec<SpecType> =
            asked["spec"].as_str().unwrap_or("none").split(',').map(|kind| kind.parse().unwrap()).collect();
        let speculation = Speculation {
            types,
            n_max: number("n_max", 3),
            backend_sampling: flag("backend_sampling_draft", true),
            ..Speculation::default()
        };
        let n_seq_max = number("n_parallel", 4);
        let n_batch = number("n_batch", 2048);
        let options = ContextParams {
            n_ctx: number("n_ctx", 0),
            n_batch,
            n_ubatch: number("n_ubatch", 512),
            n_seq_max,
            n_outputs_max: speculation.outputs(n_seq_max, n_batch),
            type_k: ty("type_k"),
            type_v: ty("type_v"),
            flash_attn: match asked["flash_attn"].as_str() {
                Some("on") => FlashAttn::On,
                Some("off") => FlashAttn::Off,
                _ => FlashAttn::Auto,
            },
            kv_unified: flag("kv_unified", asked["n_parallel"].is_null()),
            offload_kqv: flag("offload_kqv", true),
            op_offload: flag("op_offload", true),
            swa_full: flag("swa_full", false),
            ..ContextParams::default()
        };
        let list = asked["devices"].as_array().unwrap();
        let devices: Vec<Device> = list
            .iter()
            .map(|device| Device { backend: backend.clone(), free: device["free"].as_u64().unwrap() })
            .collect();
        let of_draft = asked["devices_draft"].as_array();
        let devices_draft = of_draft
            .map_or((0..devices.len()).collect(), |list| list.iter().map(|at| at.as_u64().unwrap() as usize).collect());
        let layers = |key: &str| asked[key].as_i64().and_then(|layers| u64::try_from(layers).ok());
        let draft = asked["draft"].as_str().map(loaded).transpose()?;
        Ok(Self {
            main: loaded(asked["model"].as_str().unwrap())?,
            devices,
            devices_draft,
            spread: LayerSplit {
                gpu_layers: layers("ngl"),
                tensor_split: shares.unwrap_or_default(),
                overrides: Vec::new(),
                load_mtp: speculation.is_mtp(),
                ..LayerSplit::default()
            },
            gpu_layers_draft: layers(if draft.is_some() { "ngl_draft" } else { "ngl" }),
            draft,
            options: speculation.main(options, ReleaseTraits::of(Release::default())),
            types_draft: [ty("type_k_draft"), ty("type_v_draft")],
            speculation,
        })
    }

    fn draft(&self) -> Option<DraftRequest<'_>> {
        let [type_k, type_v] = self.types_draft;
        (self.draft.is_some() || self.speculation.is_mtp()).then(|| DraftRequest {
            model: self.draft.as_ref(),
            devices: self.devices_draft.clone(),
            gpu_layers: self.gpu_layers_draft,
            overrides: UserOverrides::default(),
            options: self.speculation.draft(&self.options, type_k, type_v),
            speculation: self.speculation.clone(),
        })
    }

    /// The figures as the vectors have them.
    fn measure(&self, reservation: Reservation) -> Result<Value, LoadError> {
        let Self { main, devices, spread, options, .. } = self;
        let (measured, details) = main.measure_traced(devices, spread, options, reservation, None)?;
        drop(details);
        let c = &measured.parameters;
        let mut of_main = json!({
            "model": measured.model, "context": measured.context, "compute": measured.compute,
            "n_ctx": c.n_ctx, "n_ctx_seq": c.n_ctx_seq, "n_ubatch": c.n_ubatch,
            "n_rs_seq": c.n_rs_seq, "n_outputs_max": c.n_outputs_max,
        });
        let Some(draft) = self.draft() else { return Ok(json!({ "main": of_main })) };
        let beside =
            MainContext { model: main, devices, spread, options, measured: &measured, later: &[], reservation };
        let memory = draft.measure(&beside)?;
        of_main["compute_ready"] = json!(memory.main_ready.unwrap_or(measured.compute));
        let of_draft = json!({
            "model": memory.draft.model, "context": memory.draft.context, "compute": memory.draft.compute,
            "n_outputs_max": memory.n_outputs_max, "compute_ready": memory.draft_ready,
        });
        Ok(json!({ "main": of_main, "draft": of_draft }))
    }
}

/// The lines of a gzipped file.
fn lines(path: &Path) -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn backend(path: &Path) -> BackendRef {
    let folder = path.parent().and_then(Path::parent).unwrap().file_name().unwrap();
    if *folder == *"cuda" { Arc::new(Cuda::default()) } else { Arc::new(Plain) }
}

/// What the vectors hold besides: buffers for logits, which are not counted.
fn counted(mut expected: Value) -> Value {
    for part in ["main", "draft"] {
        if let Some(part) = expected.get_mut(part).and_then(Value::as_object_mut) {
            part.remove("output");
        }
    }
    expected
}

fn measures_like(backend: &BackendRef, reservation: Reservation, line: &Value) -> Result<(), String> {
    let (asked, expected) = (&line["in"], counted(line["out"].clone()));
    let got = Request::of(asked, backend).and_then(|request| request.measure(reservation));
    match got {
        Ok(got) if got == expected => Ok(()),
        Err(_) if expected.get("error").is_some() => Ok(()),
        Ok(got) => Err(format!("{asked}\n  llama.cpp {expected}\n  here      {got}")),
        Err(why) => Err(format!("{asked}\n  llama.cpp {expected}\n  here      {why}")),
    }
}

fn all_agree(results: &[Result<(), String>]) {
    let wrong: Vec<_> = results.iter().filter_map(|result| result.clone().err()).collect();
    assert!(!results.is_empty(), "the file has no lines");
    let first = wrong.first().map_or("", String::as_str);
    assert!(wrong.is_empty(), "{} of {} lines differ, first\n{first}", wrong.len(), results.len());
}

#[rstest]
fn both_contexts_agree_to_the_byte(#[files("tests/server/*/memory/*.jsonl.gz")] path: PathBuf) {
    let backend = backend(&path);
    let measured = Reservation::Measured;
    all_agree(&lines(&path).iter().map(|line| measures_like(&backend, measured, line)).collect::<Vec<_>>());
}

/// Loads as a server makes them, on two and three cards.
#[rstest]
fn loads_of_both_contexts_agree_to_the_byte(#[files("tests/server/*/load/*.jsonl.gz")] path: PathBuf) {
    let backend = backend(&path);
    let loaded = Reservation::Loaded;
    all_agree(&lines(&path).iter().map(|line| measures_like(&backend, loaded, line)).collect::<Vec<_>>());
}

fn fits_like(backend: &BackendRef, line: &Value) -> Result<(), String> {
    let (asked, expected) = (&line["in"], &line["out"]);
    let request = Request::of(asked, backend).map_err(|why| why.to_string())?;
    let more = asked["margin_add"].as_array();
    let margin = |at: usize| (1024 << 20) + more.and_then(|list| list.get(at)?.as_u64()).unwrap_or(0);
    let margins = (0..request.devices.len().max(1)).map(margin).collect();
    let limits = FitLimits { margins, min_ctx: 4096, ram: 1 << 40 };
    let draft = request.draft();
    let Request { main, devices, spread, options, .. } = &request;
    let fitted =
        fit_with_draft(main, devices, draft.as_ref(), spread, options, &limits).map_err(|why| why.to_string())?;
    let mut split: Vec<f64> = fitted.spread.tensor_split.iter().map(|share| f64::from(*share)).collect();
    split.resize(devices.len(), 0.0);
    let overrides = fitted.spread.overrides.iter().map(pattern);
    let got = json!({
        "status": u64::from(fitted.failure.is_some()),
        "n_ctx": fitted.n_ctx,
        "ngl": fitted.spread.gpu_layers.map_or(-1, |layers| i64::try_from(layers).unwrap()),
        "tensor_split": split,
        "overrides": overrides.map(|(pattern, buft)| json!({ "pattern": pattern, "buft": buft })).collect::<Vec<_>>(),
    });
    if got == *expected { Ok(()) } else { Err(format!("{asked}\n  want {expected}\n  got  {got}")) }
}

#[rstest]
fn a_fit_counts_the_draft(#[files("tests/server/*/fit/*.jsonl.gz")] path: PathBuf) {
    let backend = backend(&path);
    all_agree(&lines(&path).iter().map(|line| fits_like(&backend, line)).collect::<Vec<_>>());
}

/// A line as settings of the planner; none if it has options that the planner lacks.
fn settings(asked: &Value) -> Option<Settings> {
    if !asked["backend_sampling_draft"].is_null() {
        return None;
    }
    let number = |key: &str| asked[key].as_u64();
    let flag = |key: &str| asked[key].as_bool().unwrap_or(false);
    let ty = |key: &str| asked[key].as_str().map(|name| name.parse::<CacheType>().unwrap());
    let layers = |key: &str| number(key).map_or(GpuLayers::All, GpuLayers::Count);
    let shares = asked["tensor_split"].as_array();
    let spec = asked["spec"].as_str().unwrap_or("none");
    let of_draft = asked["devices_draft"].as_array();
    Some(Settings {
        ctx: Context::Tokens(number("n_ctx")?),
        parallel: number("n_parallel"),
        batch: number("n_batch"),
        ubatch: number("n_ubatch"),
        cache_type_k: ty("type_k"),
        cache_type_v: ty("type_v"),
        flash_attn: match asked["flash_attn"].as_str() {
            Some("on") => FlashAttn::On,
            Some("off") => FlashAttn::Off,
            _ => FlashAttn::Auto,
        },
        gpu_layers: layers("ngl"),
        kv_unified: flag("kv_unified"),
        no_kv_offload: asked["offload_kqv"] == json!(false),
        swa_full: flag("swa_full"),
        tensor_split: shares.map(|list| list.iter().map(|x| x.as_f64().unwrap()).collect()).unwrap_or_default(),
        draft: DraftSettings {
            types: Some(spec.split(',').map(|kind| kind.parse().unwrap()).collect()),
            n_max: number("n_max"),
            gpu_layers: layers("ngl_draft"),
            cache_type_k: ty("type_k_draft"),
            cache_type_v: ty("type_v_draft"),
            devices: of_draft
                .map(|list| list.iter().map(|at| DeviceName::gpu(at.as_u64().unwrap() as usize)).collect()),
            ..DraftSettings::default()
        },
        ..Settings::default()
    })
}

/// The figures of a plan's part as the vectors have them.
fn figures(part: &Part) -> Value {
    let of = |bytes: fn(&PartMemory) -> u64| part.devices.iter().map(bytes).collect::<Vec<_>>();
    json!({
        "model": of(|memory| memory.weights.0), "context": of(|memory| memory.cache.0),
        "compute": of(|memory| memory.graph.0), "compute_ready": of(|memory| memory.graph_ready.0),
    })
}

fn plans_like(line: &Value) -> Result<(), String> {
    let (asked, expected) = (&line["in"], &line["out"]);
    let Some(settings) = settings(asked) else { return Ok(()) };
    let prepared = |name: &str| -> PreparedModel { fixtures::model(name.strip_prefix("spec/").unwrap_or(name)) };
    let draft = asked["draft"].as_str();
    let draft = draft.map(|name| DraftFile { model: Arc::new(prepared(name)), file: name.to_owned() });
    let model = prepared(asked["model"].as_str().unwrap()).with_draft(draft);
    let list = asked["devices"].as_array().unwrap();
    let gpus = list.iter().map(|gpu| fixtures::card(Backend::Cuda, Bytes(gpu["free"].as_u64().unwrap()))).collect();
    let plan = engine::plan(EngineId::LlamaCpp, &model, &fixtures::machine(gpus), &settings)
        .map_err(|why| format!("{asked}\n  here {why}"))?;
    if expected.get("error").is_some() {
        let runs = plan.verdict != Verdict::DoesNotFit;
        return if runs { Err(format!("{asked}\n  {expected}, here it fits")) } else { Ok(()) };
    }
    for (part, key) in plan.parts.iter().zip(["main", "draft"]) {
        let got = figures(part);
        for (name, got) in got.as_object().unwrap() {
            let wanted = expected[key].get(name).or_else(|| expected[key].get("compute")).unwrap();
            if wanted != got {
                return Err(format!("{asked}\n  {key} {name}: llama.cpp {wanted}, here {got}"));
            }
        }
    }
    let parts = if expected.get("draft").is_some() { 2 } else { 1 };
    if plan.parts.len() == parts { Ok(()) } else { Err(format!("{asked}: {} parts", plan.parts.len())) }
}

#[rstest]
fn a_plan_has_the_parts_of_both_contexts(#[files("tests/server/cuda/load/*.jsonl.gz")] path: PathBuf) {
    let lines = lines(&path);
    // a plan fits by itself what a limit lets fail there
    let asked: Vec<_> =
        lines.iter().filter(|line| line["in"].get("limit").is_none() && settings(&line["in"]).is_some()).collect();
    all_agree(&asked.into_iter().map(plans_like).collect::<Vec<_>>());
}
