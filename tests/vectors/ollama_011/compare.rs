//! Compares a plan with a line.

use plimsoll::engine::PreparedModel;
use plimsoll::engine::{self, EngineId, estimator};
use plimsoll::plan::{Estimate, GraphUse, Plan};
use plimsoll::units::Bytes;
use serde_json::Value;

use super::super::line::{Line, bytes, flag, human, list};
use super::super::outcome::Differences;
use super::super::sizes::sizes;

pub fn differences(model: &PreparedModel, line: &Line) -> Differences {
    let mut all = Differences::default();
    let plan = match engine::plan(EngineId::Ollama011, model, &line.machine, &line.settings) {
        Ok(plan) => plan,
        Err(error) => {
            all.fields.push(format!("no plan: {error}"));
            return all;
        }
    };
    let out = &line.output;
    sizes(&mut all, out, &plan);
    traits(&mut all, out, model);
    let predicted = estimator::predict(model, &line.machine, &line.settings).unwrap();
    let expected = &out["predict_server_fit"];
    all.field("predicted fit", (flag(&expected["ok"]), bytes(&expected["estimated_vram"])), predicted);
    let found = plan.estimate.as_ref().unwrap();
    all.total("vision_weights", number(&out["vision_weights"]), found.projector_weights.0);
    all.total("vision_graph", number(&out["vision_graph"]), found.projector_graph.0);
    // the real program makes no estimate if all layers are required on GPU and do not fit
    if !out["estimate"].is_null() {
        estimate(&mut all, &out["estimate"], found, &plan);
        parts(&mut all, found, &plan, line.settings.gpu_overhead);
    }
    refusal(&mut all, out, found, &plan, line);
    all
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn traits(all: &mut Differences, out: &Value, model: &PreparedModel) {
    let traits = estimator::OLLAMA_011.traits(model).unwrap();
    for (name, got) in [
        ("supports_flash_attention", traits.supports_flash),
        ("ollama_engine_required", traits.own_engine),
        ("is_embedding", traits.embedding),
    ] {
        all.field(name, flag(&out[name]), got);
    }
}

fn estimate(all: &mut Differences, expected: &Value, found: &Estimate, plan: &Plan) {
    let (last, blocks) = plan.layers.split_last().unwrap();
    let repeating: Bytes = blocks.iter().map(|layer| layer.weights).sum();
    for (name, got) in [
        ("layers", found.layers as u64),
        ("graph", found.graph.0),
        ("vram_size", found.vram_size.0),
        ("total_size", found.total_size.0),
        ("weights_repeating", repeating.0),
        ("weights_output", last.weights.0),
        ("graph_full", plan.graph.full.bytes.0),
        ("graph_partial", plan.graph.partial.bytes.0),
        ("projector_weights", found.projector_weights.0),
        ("projector_graph", found.projector_graph.0),
    ] {
        all.total(name, number(&expected[name]), got);
    }
    let split: Vec<u64> = found.tensor_split.iter().map(|&layers| layers as u64).collect();
    all.field("tensor_split", list(&expected["tensor_split"]), split);
    all.field("gpu_sizes", list(&expected["gpu_sizes"]), found.gpu_sizes.iter().map(|size| size.0).collect());
    // no ids if the load was refused, and the CPU's if no layer is on a GPU
    if let Some(ids) = expected["gpu_ids"].as_array() {
        let ids: Vec<_> = ids.iter().map(|id| id.as_str().unwrap().replace("GPU-", "GPU")).collect();
        let in_ram = plan.offloaded == 0 && ids == ["0"];
        if !in_ram {
            all.field("gpu_ids", ids, found.devices.clone());
        }
    }
    let first = plan.devices.iter().find(|device| found.devices.first() == Some(&device.id)).unwrap();
    let library = first.backend.map_or("cpu".to_owned(), |backend| backend.name().to_lowercase());
    all.field("library", expected["library"].as_str().unwrap(), &library);
    all.field("offloaded", found.layers, plan.offloaded);
}

/// The plan's devices add up to the estimate.
fn parts(all: &mut Differences, found: &Estimate, plan: &Plan, overhead: Bytes) {
    if found.layers > 0 {
        let full = plan.graph.used == GraphUse::Full;
        all.field("graph in force", found.graph, if full { plan.graph.full.bytes } else { plan.graph.partial.bytes });
    }
    let device = |id: &String| plan.devices.iter().find(|device| &device.id == id).unwrap();
    let mut sum = plan.cpu().asked() + plan.cpu().reserved();
    for (at, (id, &size)) in found.devices.iter().zip(&found.gpu_sizes).enumerate() {
        let device = device(id);
        all.field("parts of a GPU", size, device.asked() + device.reserved() - overhead);
        all.field("layers of a GPU", found.tensor_split.get(at), Some(&device.layers.len()));
        sum += size;
    }
    all.field("parts of the total", found.total_size, sum);
}

/// The real program's message, with our plan's numbers.
fn refusal(all: &mut Differences, out: &Value, found: &Estimate, plan: &Plan, line: &Line) {
    let ram = line.machine.ram;
    let said = match &plan.refusal {
        None => String::new(),
        Some(refusal) if refusal.contains("but only") => "unable to load full model on GPU".to_owned(),
        Some(_) => {
            let (needed, available) = (human(found.total_size - found.vram_size), human(ram.free + ram.swap_free));
            format!("model requires more system memory ({needed}) than is available ({available})")
        }
    };
    all.field("error", out["error"].as_str().unwrap(), said.as_str());
}
