//! Engine `ollama-0.11` on the command line.

use rstest::rstest;
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
fn a_separate_projector_is_counted_for_every_architecture() {
    let sandbox = Sandbox::new();
    let projector = sandbox.model("llama3.2-1b");
    let projector = ["--gpu", "24GiB", "--mmproj", projector.to_str().unwrap()];
    let bytes = plan(&sandbox, "llama3.2-1b", &["--gpu", "24GiB"])["model"]["bytes"].as_u64().unwrap();
    for model in ["llama3.1-8b", "gemma3"] {
        let estimate = &plan(&sandbox, model, &projector)["estimate"];
        // in place of what a file has inside, which gemma3's has
        assert_eq!(
            (estimate["projector_weights"].as_u64(), estimate["projector_graph"].as_u64()),
            (Some(bytes), Some(0))
        );
    }
}

/// gemma3:27b-it-fp16 on two RTX 5090, <https://github.com/ollama/ollama/issues/11162>: `layers.offload=62
/// layers.split=31,31 memory.required.full="58.6 GiB"`.
#[test]
fn the_vision_part_inside_a_library_file_may_keep_the_output_layer_in_ram() {
    let sandbox = Sandbox::new();
    let card = |free: &str| format!("name=RTX 5090,total=31.4GiB,free={free}GiB,backend=CUDA,compute=12.0");
    let planned = |more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.args([
            "plan",
            "catalogue:gemma3-27b@f16",
            "--engine",
            "ollama-0.11",
            "--ram",
            "128GiB",
            "--ctx",
            "4096",
        ]);
        json(command.args(["--gpu", &card("30.9"), "--gpu", &card("30.8")]).args(more))
    };
    let plan = planned(&[]);
    assert_eq!((&plan["offloaded"], &plan["estimate"]["tensor_split"]), (&value!(62), &value!([31, 31])));
    let total = plan["estimate"]["total_size"].as_u64().unwrap();
    assert_eq!(format!("{:.1}", total as f64 / (1u64 << 30) as f64), "58.6");
    assert_eq!(plan["layers"][62]["device"], "CPU");
    // without it all layers fit
    assert_eq!(planned(&["--no-mmproj"])["offloaded"], 63);
}

/// What the files of Ollama's library have inside: the architecture of its own converter, the weights that 0.11 logged
/// of gemma3, and the graph of images: 4 · (896² · 3 + 1152 · 14 + 4096² · 16), 4 · (1540² · 3 + 1024 · 14 + 12100² · 16),
/// and that of 5,120 patches, as `VisionGraphSize` of `fs/ggml/ggml.go` has it.
#[rstest]
#[case("gemma3-4b", "gemma3", 834_531_264, 1_083_440_128)]
#[case("mistral-small3.2-24b", "mistral3", 0, 9_398_756_544)]
#[case("qwen2.5vl-7b", "qwen25vl", 0, 1_740_062_720)]
#[case("llama4-scout", "llama4", 0, 0)]
fn library_files_hold_what_reads_images(
    #[case] model: &str,
    #[case] architecture: &str,
    #[case] weights: u64,
    #[case] graph: u64,
    #[values("ollama-0.11", "ollama-0.24")] engine: &str,
) {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args(["plan", &format!("catalogue:{model}"), "--engine", engine, "--ctx", "4096", "--gpu", "192GiB"]);
    let plan = json(&mut command);
    assert_eq!(plan["model"]["architecture"], architecture);
    assert!(plan["notes"].to_string().contains(&format!("runs {architecture} in its own engine")));
    if engine == "ollama-0.11" {
        let of_images = plan["estimate"]["projector_weights"].as_u64().unwrap();
        assert!(if weights > 0 { of_images == weights } else { of_images > 700 << 20 }, "{of_images}");
        assert_eq!(plan["estimate"]["projector_graph"], graph);
    }
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
