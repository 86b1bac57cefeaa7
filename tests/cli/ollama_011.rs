//! Engine `ollama-0.11` on the command line.

use serde_json::{Value, json as value};

use super::{Sandbox, json, refused};

fn plan(sandbox: &Sandbox, model: &str, arguments: &[&str]) -> Value {
    json(sandbox.plan_by("ollama-0.11", model).args(arguments))
}

fn sum(values: &Value) -> u64 {
    values.as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).sum()
}

#[test]
fn the_estimate_is_printed_with_the_plan() {
    let sandbox = Sandbox::new();
    let gpus = ["--gpu", "12GiB", "--gpu", "24GiB", "--gpu", "16GiB"];
    let plan = plan(&sandbox, "llama3.1-70b", &gpus);
    let estimate = &plan["estimate"];
    assert_eq!(plan["engine"], "ollama-0.11");
    // all GPUs are needed, the one with most free memory first
    assert_eq!(estimate["devices"], value!(["GPU1", "GPU2", "GPU0"]));
    assert_eq!(estimate["layers"], plan["offloaded"]);
    assert_eq!(sum(&estimate["tensor_split"]), 81);
    assert_eq!(sum(&estimate["gpu_sizes"]), estimate["vram_size"].as_u64().unwrap());
    assert_eq!(estimate["vram_size"], estimate["total_size"]);
    // blocks are assigned round robin
    assert_eq!((&plan["layers"][0]["device"], &plan["layers"][79]["device"]), (&value!("GPU1"), &value!("GPU2")));
    let notes = plan["notes"].to_string();
    assert!(notes.contains("the runner loads contiguous layers"), "{notes}");
}

#[test]
fn images_take_memory_where_the_output_layer_is() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox, "gemma3", &["--gpu", "24GiB"]);
    let reserves = plan["devices"][0]["reserves"].to_string();
    assert!(reserves.contains("projector weights") && reserves.contains("projector graph"), "{reserves}");
    assert!(plan["estimate"]["projector_graph"].as_u64().unwrap() > 1 << 30);
}

#[test]
fn a_separate_projector_is_counted_where_llama_cpp_loads_it() {
    let sandbox = Sandbox::new();
    let projector = sandbox.model("llama3.2-1b");
    let projector = ["--gpu", "24GiB", "--mmproj", projector.to_str().unwrap()];
    let bytes = plan(&sandbox, "llama3.2-1b", &["--gpu", "24GiB"])["model"]["bytes"].as_u64().unwrap();
    let counted = |model: &str| plan(&sandbox, model, &projector)["estimate"]["projector_weights"].as_u64().unwrap();
    assert_eq!(counted("llama3.1-8b"), bytes);
    // gemma3 has its own projector, which Ollama's engine runs
    assert!(counted("gemma3") < bytes);
}

#[test]
fn requested_layers_are_loaded_even_if_fewer_fit() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox, "llama3.1-8b", &["--gpu", "4GiB", "--gpu-layers", "20"]);
    let notes = plan["notes"].to_string();
    let fit = plan["offloaded"].as_u64().unwrap();
    assert!((1..20).contains(&fit) && notes.contains(&format!("although only {fit} fit by the estimate")), "{notes}");
}

#[test]
fn require_full_is_met_or_refused() {
    let sandbox = Sandbox::new();
    let small = plan(&sandbox, "llama3.1-8b", &["--gpu", "4GiB", "--require-full"]);
    assert_eq!(small["verdict"], "does-not-fit");
    assert!(small["refused"].as_str().unwrap().starts_with("all layers are required on GPU"));
    let large = plan(&sandbox, "llama3.1-8b", &["--gpu", "24GiB", "--require-full"]);
    assert_eq!((&large["verdict"], &large["refused"]), (&value!("gpu"), &Value::Null));
    refused(&mut sandbox.plan_by("ollama-0.12", "llama3.1-8b"), 2);
}

#[test]
fn remedies_are_for_the_first_layer_without_room() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.arg("why").arg(sandbox.model("llama3.1-8b")).args(["--engine", "ollama-0.11", "--ctx", "40000"]);
    let why = json(command.args(["--gpu", "8GiB", "--ram", "32GiB"]));
    // the output layer is placed last, so no change brings it alone
    let had_no_room = |layer: &&Value| layer["device"] == "CPU" && !layer["inequality"].is_null();
    let first = why["layers"].as_array().unwrap().iter().rfind(had_no_room).unwrap();
    let brings = format!("layer {}", first["index"]);
    assert!(why["changes"].as_array().unwrap().iter().any(|change| change["brings"] == brings.as_str()), "{brings}");
}
