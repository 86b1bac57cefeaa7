//! Containers that run a plan are read back as that plan, and their RAM is the sum that they state.

use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

/// A plan without what says where its settings come from.
fn figures(mut plan: Value) -> Value {
    plan.as_object_mut().unwrap().remove("notes");
    plan
}

fn run(sandbox: &Sandbox, words: &[&str]) -> String {
    let output = sandbox.plimsoll().args(words).assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

/// MiB behind `memory:`, in order.
fn memory(text: &str) -> Vec<u64> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("memory: "));
    lines.map(|line| line.trim_end_matches(['M', 'i']).parse().unwrap()).collect()
}

const MIB: u64 = 1 << 20;

/// The same without limits of memory, which would hold for the machine.
fn unlimited(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("memory:")).collect()
}

#[rstest]
fn a_container_of_llama_server_is_the_plan(
    #[values("compose", "k8s")] form: &str,
    #[values("llama3.1-8b", "gemma3-4b", "qwen3-30b-a3b")] name: &str,
    #[values(&["--gpu", "24GiB"], &["--gpu", "8GiB", "--gpu", "8GiB"], &["--gpu", "none"])] machine: &[&str],
    #[values(
        &["--ctx", "16384", "--cache-ram", "512"],
        &["--ctx", "8192", "--load-mode", "mlock", "--cache-ram", "0", "--parallel", "2"],
        &["--cache-ram", "-1", "--kv-type", "q8_0", "--override-tensor", "blk\\.[0-3]\\.ffn_.*weight$=CPU"]
    )]
    knobs: &[&str],
) {
    let sandbox = Sandbox::new();
    let model = sandbox.model(name);
    let model = model.to_str().unwrap();
    let machine = [machine, &["--ram", "64GiB"]].concat();
    let knobs: Vec<String> = knobs.chunks(2).map(|pair| format!("{}={}", pair[0], pair[1])).collect();
    let knobs: Vec<&str> = knobs.iter().map(String::as_str).collect();
    let asked = [&[model, "--engine", "llama.cpp", "--no-mmproj"], &knobs[..], &machine].concat();
    let text = run(&sandbox, &[&["export", "--as", form], &asked[..]].concat());
    let file = sandbox.folder.path().join("file.yaml");
    std::fs::write(&file, unlimited(&text)).unwrap();
    let plan = json(sandbox.plimsoll().arg("plan").args(&asked));
    let read = json(sandbox.plimsoll().args(["plan", "--command"]).arg(&file).args(&machine));
    let ram = plan["ram"].clone();
    assert_eq!(figures(read), figures(plan.clone()), "{text}");

    let of = |key: &str| ram[key].as_u64().unwrap_or(0);
    let needs = of("must") + of("warm") + of("idle_experts") + (1 << 30);
    let mut sums = vec![needs.div_ceil(MIB)];
    if !knobs[0].ends_with("=-1") {
        sums.push((needs + of("prompt_cache") + of("checkpoints")).div_ceil(MIB));
    }
    assert_eq!(memory(&text), sums, "{text}");
    for sum in &sums {
        assert!(text.lines().any(|line| line.starts_with("# = ") && line.contains(&format!(" {sum} "))), "{text}");
    }
    assert_eq!(text.contains("checkpoints at most"), of("checkpoints") > 0 && sums.len() > 1, "{text}");
    let gpus = plan["devices"].as_array().unwrap().len() - 1;
    let count = if form == "compose" { format!("count: {gpus}") } else { format!("nvidia.com/gpu: {gpus}") };
    assert_eq!(text.contains(&count), gpus > 0, "{text}");
    assert_eq!(text.contains("memlock"), form == "compose" && knobs.contains(&"--load-mode=mlock"), "{text}");
    let folder = std::path::Path::new(model).parent().unwrap().to_str().unwrap();
    assert!(text.contains(folder), "{text}");
}

#[rstest]
fn a_container_of_ollama_is_the_plan(
    #[values("compose", "k8s")] form: &str,
    #[values(&["--gpu", "24GiB"], &["--gpu", "total=16GiB,free=16GiB,backend=rocm"])] machine: &[&str],
) {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama3.1-8b");
    let model = model.to_str().unwrap();
    let machine = [machine, &["--ram", "64GiB"]].concat();
    let knobs = ["--ctx", "16384", "--parallel", "2", "--kv-type", "q8_0", "--flash-attn", "on"];
    let asked = [&[model, "--engine", "ollama"], &knobs[..], &machine].concat();
    let text = run(&sandbox, &[&["export", "--as", form], &asked[..]].concat());
    let plan = json(sandbox.plimsoll().arg("plan").args(&asked));
    let file = sandbox.folder.path().join("file.yaml");
    std::fs::write(&file, unlimited(&text)).unwrap();
    let read = json(sandbox.plimsoll().args(["plan", model, "--command"]).arg(&file).args(&machine));
    let same = |plan: &Value| (plan["devices"].clone(), plan["layers"].clone(), plan["settings"]["ctx"].clone());
    assert_eq!(same(&read), same(&plan), "{text}");
    assert_eq!(text.contains("ollama/ollama:rocm"), machine[1].contains("rocm"), "{text}");
}

#[test]
fn a_program_that_serves_nothing_is_in_no_container() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args([
        "export",
        "catalogue:qwen3-8b",
        "--engine",
        "llama.cpp",
        "--program",
        "llama-cli",
        "--as",
        "compose",
    ]);
    let said = refused(command.args(["--gpu", "24GiB", "--ram", "64GiB"]), 2);
    assert!(said.contains("llama-cli serves nothing"), "{said}");
}
