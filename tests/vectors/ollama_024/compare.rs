//! Compares a plan with a line.

use std::collections::BTreeMap;

use plimsoll::engine::PreparedModel;
use plimsoll::engine::{self, EngineId, estimator};
use plimsoll::machine::Os;
use plimsoll::plan::{DevicePlan, Plan};
use plimsoll::settings::{CacheType, Context, FlashAttn, Settings};
use plimsoll::units::Bytes;
use serde_json::Value;

use super::super::line::{Line, flag, human, list};
use super::super::outcome::Differences;
use super::super::sizes::sizes;

pub fn differences(model: &PreparedModel, line: &Line) -> Differences {
    let mut all = Differences::default();
    let plan = match engine::plan(EngineId::Ollama024, model, &line.machine, &line.settings) {
        Ok(plan) => plan,
        Err(error) => {
            all.fields.push(format!("no plan: {error}"));
            return all;
        }
    };
    let out = &line.output;
    sizes(&mut all, out, &plan);
    layers(&mut all, out, &plan);
    traits(&mut all, out, model, line);
    effective(&mut all, &out["effective"], &plan, line);
    default_context(&mut all, &out["effective"], model, line);
    match out["error"].as_str().unwrap() {
        "" => layout(&mut all, out, &plan),
        error => refusal(&mut all, error, flag(&out["error_require_full"]), &plan, line),
    }
    all
}

/// The plan's layers equal those of the estimate.
fn layers(all: &mut Differences, out: &Value, plan: &Plan) {
    let column = |bytes: fn(&plimsoll::plan::LayerPlan) -> Bytes| -> Vec<u64> {
        plan.layers.iter().map(|layer| bytes(layer).0).collect()
    };
    all.field("layer_weights", list(&out["layer_weights"]), column(|layer| layer.weights));
    all.field("layer_cache", list(&out["layer_cache"]), column(|layer| layer.cache));
    all.field("total_layers", out["total_layers"].as_u64().unwrap(), plan.layers.len() as u64);
}

fn traits(all: &mut Differences, out: &Value, model: &PreparedModel, line: &Line) {
    let traits = estimator::OLLAMA_024.traits(model).unwrap();
    for (name, got) in [
        ("supports_flash_attention", traits.supports_flash),
        ("flash_attention_default", traits.flash_by_default),
        ("ollama_engine_required", traits.own_engine),
        ("is_embedding", traits.embedding),
        ("supports_kv_type", estimator::supports_cache_type(line.settings.cache_type_k.unwrap_or(CacheType::F16))),
    ] {
        all.field(name, flag(&out[name]), got);
    }
}

fn effective(all: &mut Differences, effective: &Value, plan: &Plan, line: &Line) {
    let effect = &plan.settings;
    for (name, got) in [
        ("num_ctx", effect.ctx),
        ("num_batch", effect.batch),
        ("num_parallel", effect.parallel),
        ("kv_size", effect.ctx_total),
        ("gpu_count", plan.gpus().len() as u64),
        ("total_vram", line.machine.gpus.iter().map(|gpu| gpu.total.0).sum::<u64>()),
    ] {
        let expected = effective[name].as_u64().unwrap();
        // the total there has the overhead subtracted
        let got = if name == "total_vram" {
            got.wrapping_sub(plan.gpus().len() as u64 * line.settings.gpu_overhead.0)
        } else {
            got
        };
        all.field(name, expected, got);
    }
    all.field("num_gpu", effective["num_gpu"].as_i64().unwrap(), effect.gpu_layers);
    let os = if line.machine.os == Os::MacOs { "darwin" } else { "linux" };
    all.field("os", effective["os"].as_str().unwrap(), os);
    let flash = if effect.flash_attn == FlashAttn::On { "Enabled" } else { "Disabled" };
    all.field("flash_attention", effective["flash_attention"].as_str().unwrap(), flash);
    let cache = match effective["kv_cache_type"].as_str().unwrap() {
        "" => "f16",
        name => name,
    };
    all.field("kv_cache_type", cache, effect.cache_type_v.name());
}

/// The context that is chosen by default.
fn default_context(all: &mut Differences, effective: &Value, model: &PreparedModel, line: &Line) {
    let settings = Settings { ctx: Context::Auto, ..line.settings.clone() };
    let plan = engine::plan(EngineId::Ollama024, model, &line.machine, &settings).unwrap();
    all.field("default_num_ctx", effective["default_num_ctx"].as_u64().unwrap(), plan.settings.ctx);
}

fn layout(all: &mut Differences, out: &Value, plan: &Plan) {
    all.field("refusal", None, plan.refusal.clone());
    all.total("offloaded", out["offloaded"].as_u64().unwrap(), plan.offloaded as u64);
    let expected: BTreeMap<String, Vec<u64>> = out["gpu_layers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| (id(entry), list(&entry["layers"])))
        .filter(|(_, layers)| !layers.is_empty())
        .collect();
    let got: BTreeMap<String, Vec<u64>> = plan
        .gpus()
        .iter()
        .filter(|gpu| !gpu.layers.is_empty())
        .map(|gpu| (gpu.id.replace("GPU", "GPU-"), gpu.layers.iter().map(|&layer| layer as u64).collect()))
        .collect();
    all.field("gpu_layers", expected, got);

    let gpus: Vec<Value> = out["gpus"].as_array().cloned().unwrap_or_default();
    all.field("gpus", gpus.len(), plan.gpus().len());
    for (expected, got) in gpus.iter().zip(plan.gpus()) {
        device(all, expected, got);
    }
    device(all, &out["cpu"], plan.cpu());
    all.total("memory_size_total", out["memory_size_total"].as_u64().unwrap(), plan.totals.all.0);
    all.total("memory_size_vram", out["memory_size_vram"].as_u64().unwrap(), plan.totals.gpu.0);
}

fn id(entry: &Value) -> String {
    entry["id"].as_str().unwrap().to_owned()
}

fn device(all: &mut Differences, expected: &Value, got: &DevicePlan) {
    for (name, got_bytes) in [("weights", got.weights), ("cache", got.cache), ("graph", got.graph)] {
        all.total(&format!("{} {name}", got.id), expected[name].as_u64().unwrap(), got_bytes.0);
    }
}

/// The real program's message, with our plan's numbers.
fn refusal(all: &mut Differences, expected: &str, require_full: bool, plan: &Plan, line: &Line) {
    let Some(refusal) = &plan.refusal else {
        all.fields.push(format!("refusal: expected {expected:?}, got a layout"));
        return;
    };
    let ram = line.machine.ram;
    let said = if refusal.contains("but only") {
        "unable to load full model on GPU".to_owned()
    } else if refusal.contains("left for RAM") {
        "model requires more system memory than is currently available unable to load full model on GPU".to_owned()
    } else {
        let (needed, available) = (human(plan.cpu().asked()), human(ram.free + ram.swap_free));
        format!("model requires more system memory ({needed}) than is available ({available})")
    };
    all.field("error", expected, said.as_str());
    all.field("error_require_full", require_full, refusal.contains("required on GPU"));
}
