//! llama-server's command line: its options among plimsoll's own, and commands that were pasted.

use std::collections::VecDeque;
use std::ffi::OsString;

use plimsoll::settings::{GivenOption, ServerOption};
use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

const MACHINE: [&str; 4] = ["--gpu", "name=card,total=24GiB,free=23GiB", "--ram", "total=64GiB,free=60GiB"];

fn plan(arguments: &[&str]) -> Value {
    json(Sandbox::new().plimsoll().arg("plan").args(MACHINE).args(arguments))
}

/// The notes of a plan on one line.
fn notes(arguments: &[&str]) -> String {
    let plan = plan(arguments);
    plan["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

/// A plan without what says where its settings come from.
fn figures(mut plan: Value) -> Value {
    plan.as_object_mut().unwrap().remove("notes");
    plan
}

#[test]
fn every_option_of_llama_server_is_known() {
    for line in include_str!("llama-server-names.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split(' ');
        let (values, name) = (columns.next().unwrap(), columns.next().unwrap());
        let option = ServerOption::named(name);
        assert!(option.is_some(), "{name}");
        if let (Some(variable), Some(ServerOption::Sets(_))) = (columns.next(), option) {
            assert!(matches!(ServerOption::of_variable(variable, "1"), Some((ServerOption::Sets(_), _))), "{variable}");
        }
        let mut words: VecDeque<OsString> = [name, "1", "1"].map(OsString::from).into();
        GivenOption::take(&mut words).unwrap();
        let stands_for_others = words.len() > 2;
        assert!(stands_for_others || words.len() + values.parse::<usize>().unwrap() == 2, "{name}");
    }
}

#[test]
fn commands_of_public_threads_are_read() {
    let texts = include_str!("commands.txt")
        .split("\n\n")
        .map(|text| text.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n"));
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    assert!(texts.len() >= 40);
    for text in texts {
        let sandbox = Sandbox::new();
        let mut command = sandbox.plimsoll();
        command.args(["plan", "catalogue:qwen3-8b", "--command", &text]).args(MACHINE);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        // projectors, drafts and adapters are not there
        assert!(!said.contains("--command:") && output.status.code() != Some(1), "{said}{text}");
    }
}

#[test]
fn options_without_an_effect_are_named() {
    let model = "catalogue:qwen3-8b";
    let given = ["--engine", "llama.cpp", "-t", "8", "--host=0.0.0.0", "--cache-reuse", "256", "--jinja"];
    let said = notes(&[&[model], &given[..]].concat());
    assert!(said.contains("-t, --host, --cache-reuse and --jinja have no effect on memory"), "{said}");
    let said = notes(&[model, "--engine", "llama.cpp", "--no-warmup", "--rpc", "10.0.0.1:50052", "-cd", "512"]);
    for part in ["--no-warmup has no effect", "--rpc is not planned", "-cd is no longer known to llama.cpp"] {
        assert!(said.contains(part), "{said}");
    }
    // the fit takes the context that the model was trained for, scaled
    let scaled = [model, "--engine", "llama.cpp", "--rope-scaling", "yarn", "--rope-scale", "4"];
    assert!(notes(&scaled).contains("--rope-scaling and --rope-scale may raise the context"));
    let said = notes(&[&scaled[..], &["-c", "8192"]].concat());
    assert!(said.contains("--rope-scaling and --rope-scale have no effect on memory"), "{said}");
}

#[rstest]
#[case(&["-m", "catalogue:qwen3-8b", "-fa"], &["catalogue:qwen3-8b", "--flash-attn", "on"])]
#[case(&["-fa", "-m=catalogue:qwen3-8b", "-ngl=99"], &["catalogue:qwen3-8b", "--flash-attn", "on", "--gpu-layers", "99"])]
#[case(&["catalogue:qwen3-8b", "-fa", "0", "-ub=256"], &["catalogue:qwen3-8b", "--flash-attn", "off", "--ubatch", "256"])]
#[case(&["catalogue:qwen3-8b", "-nkvo", "-kvo"], &["catalogue:qwen3-8b"])]
#[case(&["catalogue:qwen3-8b", "--swa-full", "--kv-unified=false", "--ctx_size", "8192"],
    &["catalogue:qwen3-8b", "--swa-full", "--ctx", "8192"])]
fn names_of_llama_cpp_mean_the_same(#[case] given: &[&str], #[case] same: &[&str]) {
    let engine = &["--engine", "llama.cpp"][..];
    assert_eq!(plan(&[given, engine].concat()), plan(&[same, engine].concat()));
}

#[test]
fn a_prompt_cache_may_have_no_limit() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args(["plan", "catalogue:qwen3-8b", "--command", "llama-server --cache-ram -1"]).args(MACHINE);
    let output = command.assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("prompt cache grows without a limit"), "{text}");
}

#[test]
fn the_size_of_ngram_drafts_counts() {
    let of = |size: &str| {
        let given = ["catalogue:qwen3-8b", "--engine", "llama.cpp", "-c", "8192", "--spec-type", "ngram-mod"];
        plan(&[&given[..], &["--spec-ngram-mod-n-max", size]].concat())["settings"]["outputs"].as_u64()
    };
    // four slots, each with its draft and a token of its own
    assert_eq!((of("64"), of("15")), (Some(4 * 65), Some(4 * 16)));
}

#[test]
fn a_model_may_be_named_as_llama_cpp_does() {
    let said = |arguments: &[&str]| refused(Sandbox::new().plimsoll().arg("plan").args(arguments), 3);
    assert!(said(&["-hf", "o/r:Q8_0", "-hff", "dir/m.gguf", "-t", "8"]).contains("127.0.0.1"));
    assert!(said(&["--model-url", "http://127.0.0.1:9/m.gguf"]).contains("127.0.0.1"));
    assert!(said(&["-dr", "ai/gemma3"]).contains("'docker://' is not a supported kind of address"));
    // a file of this name would be a log
    assert!(said(&["-m", "nothing.gguf"]).contains("nothing.gguf"));
}

#[rstest]
#[case::options("llama-server -m x.gguf -ngl 99 -c 8192 -ctk q8_0 -ctv q8_0 -fa on --jinja",
    &["--gpu-layers", "99", "--ctx", "8192", "--kv-type", "q8_0", "--flash-attn", "on"])]
#[case::lines("$ LLAMA_ARG_CTX_SIZE=8192 LLAMA_ARG_THREADS=4 ./build/bin/llama-server.exe \\\n  -m \"a b.gguf\" -np 2 \\\n",
    &["--ctx", "8192", "--parallel", "2"])]
#[case::option_over_variable("LLAMA_ARG_CTX_SIZE=8192 llama-server -c 4096 | tee log", &["--ctx", "4096"])]
#[case::the_last_counts("llama-server -ngl 30 -ngl -1 -c 1024 -c 4096 -np -1", &["--ctx", "4096"])]
#[case::all_layers("llama-server -ngl -2", &["--gpu-layers", "all"])]
#[case::program("llama-cli -p 'Hi' -c 4096", &["--program", "llama-cli", "--ctx", "4096"])]
#[case::container(
    "docker run --gpus all --name llama-server -e LLAMA_ARG_N_PARALLEL=2 ghcr.io/ggml-org/llama.cpp:server-cuda -c 4096",
    &["--ctx", "4096", "--parallel", "2"])]
#[case::arguments("-c 4096 --host 0.0.0.0", &["--ctx", "4096"])]
fn a_pasted_command_is_its_settings(#[case] command: &str, #[case] same: &[&str]) {
    let model = &["catalogue:qwen3-8b"][..];
    let pasted = plan(&[model, &["--command", command]].concat());
    let typed = plan(&[model, &["--engine", "llama.cpp", "--no-mmproj"], same].concat());
    assert_eq!(figures(pasted), figures(typed));
}

#[test]
fn what_is_given_besides_stands_over_the_command() {
    let command = "llama-server -m x.gguf -c 8192 -ctk q8_0 -ctv q8_0 --mmproj nothing.gguf";
    let besides = ["catalogue:qwen3-8b", "--ctx", "4096", "--kv-type", "f16", "--no-mmproj"];
    let pasted = plan(&[&besides[..], &["--command", command]].concat());
    assert_eq!(figures(pasted), figures(plan(&[&besides[..], &["--engine", "llama.cpp"]].concat())));
}

#[test]
fn only_a_repository_has_a_projector_of_its_own() {
    let parts = |command: &str| plan(&["catalogue:gemma3-4b", "--command", command])["parts"].as_array().unwrap().len();
    assert_eq!((parts("llama-server -hf o/r"), parts("llama-server -m x.gguf")), (2, 1));
}

#[test]
fn a_command_is_read_from_standard_input() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args(["plan", "catalogue:qwen3-8b", "--command", "-"]).args(MACHINE);
    command.write_stdin("llama-server \\\n -c 4096\n");
    assert_eq!(json(&mut command)["settings"]["ctx"], 4096);
}

/// A plan on three cards of 24, 12 and 8 GiB.
fn on_three(command: &str, more: &[&str]) -> Value {
    let sandbox = Sandbox::new();
    let mut asked = sandbox.plimsoll();
    asked.args(["plan", "catalogue:qwen3-8b", "--command", command, "--ram", "total=64GiB,free=60GiB"]);
    for (name, size) in [("A", "24GiB"), ("B", "12GiB"), ("C", "8GiB")] {
        asked.args(["--gpu", &format!("name={name},total={size},backend=CUDA")]);
    }
    json(asked.args(more))
}

fn names_of_gpus(plan: &Value) -> String {
    let devices = plan["devices"].as_array().unwrap().iter().filter(|device| device["kind"] == "gpu");
    devices.map(|device| device["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[rstest]
#[case::command("CUDA_VISIBLE_DEVICES=1 llama-server -c 4096", "B", "CUDA_VISIBLE_DEVICES=1 leaves 1 of 3: B")]
#[case::order("CUDA_VISIBLE_DEVICES=2,0 llama-server -c 4096", "C A", "CUDA_VISIBLE_DEVICES=2,0 leaves 2 of 3: C, A")]
#[case::none("CUDA_VISIBLE_DEVICES= llama-server -c 4096", "", "CUDA_VISIBLE_DEVICES is empty, which hides all GPUs")]
#[case::unit(
    "[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=0,2\nExecStart=/usr/bin/llama-server -c 4096\n",
    "A C",
    "CUDA_VISIBLE_DEVICES=0,2 leaves 2 of 3: A, C"
)]
#[case::compose(
    "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-cuda\n    environment: [CUDA_VISIBLE_DEVICES=2]\n    command: -c 4096\n",
    "C",
    "CUDA_VISIBLE_DEVICES=2 leaves 1 of 3: C"
)]
#[case::compose_devices(
    "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-cuda\n    command: -c 4096\n    deploy:\n      resources:\n        \
     reservations:\n          devices:\n            - driver: nvidia\n              device_ids: ['1', '2']\n              capabilities: [gpu]\n",
    "B C",
    "NVIDIA_VISIBLE_DEVICES=1,2 leaves 2 of 3: B, C"
)]
#[case::llama_swap(
    "models:\n  a:\n    cmd: llama-server -m /m/Qwen3-8B-Q4_K_M.gguf -c 4096\n    env:\n      - CUDA_VISIBLE_DEVICES=1\n",
    "B",
    "CUDA_VISIBLE_DEVICES=1 leaves 1 of 3: B"
)]
#[case::by_uuid(
    "CUDA_VISIBLE_DEVICES=GPU-1234 llama-server -c 4096",
    "A B C",
    "CUDA_VISIBLE_DEVICES=GPU-1234 is ignored"
)]
#[case::others("GGML_CUDA_NO_VMM=1 llama-server -c 4096", "A B C", "GGML_CUDA_NO_VMM=1 is ignored")]
fn variables_that_hide_gpus_hide_described_ones(#[case] command: &str, #[case] left: &str, #[case] note: &str) {
    let plan = on_three(command, &[]);
    assert_eq!(names_of_gpus(&plan), left, "{plan:#}");
    let notes = plan["notes"].to_string();
    assert!(notes.contains(note), "{notes}");
}

/// Ollama reads the variables by itself: they hide nothing twice.
#[test]
fn ollama_is_told_of_hidden_gpus_once() {
    let plan = on_three("CUDA_VISIBLE_DEVICES=1 ollama serve", &[]);
    assert_eq!(plan["devices"][1]["layers"].as_array().unwrap().len(), 37, "{plan:#}");
}

#[rstest]
#[case::unit("[Service]\nMemoryMax=16G\nExecStart=/usr/bin/llama-server -c 4096\n", 16 << 30, "MemoryMax=16G: at most 16.0 GiB")]
#[case::share("[Service]\nMemoryMax=25%\nExecStart=/usr/bin/llama-server -c 4096\n", 16 << 30, "MemoryMax=25%: at most 25 %")]
#[case::compose(
    "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server\n    command: -c 4096\n    mem_limit: 8g\n",
    8 << 30,
    "mem_limit: 8g: at most 8.0 GiB"
)]
#[case::compose_deploy(
    "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server\n    command: -c 4096\n    deploy:\n      resources:\n        limits:\n          \
     memory: 12G\n",
    12 << 30,
    "limits of memory: 12G: at most 12.0 GiB"
)]
#[case::kubernetes(
    "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: ghcr.io/ggml-org/llama.cpp:server\n    args: [-c, \"4096\"]\n    \
     resources:\n      limits:\n        memory: 10Gi\n",
    10 << 30,
    "limits of memory: 10Gi: at most 10.0 GiB"
)]
#[case::docker("docker run -m 9g --gpus all ghcr.io/ggml-org/llama.cpp:server -c 4096", 9 << 30, "-m 9g: at most 9.0 GiB")]
#[case::systemd_run("systemd-run --user -p MemoryMax=20G llama-server -c 4096", 20 << 30, "MemoryMax=20G: at most 20.0 GiB")]
#[case::more_than_there_is("[Service]\nMemoryMax=1T\nExecStart=/usr/bin/llama-server -c 4096\n", 64 << 30, "MemoryMax=1T")]
#[case::none("[Service]\nMemoryMax=infinity\nExecStart=/usr/bin/llama-server -c 4096\n", 64 << 30, "")]
fn limits_of_memory_hold_for_the_machine(#[case] text: &str, #[case] total: u64, #[case] note: &str) {
    let plan = on_three(text, &[]);
    let ram = plan["devices"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (ram["total"].as_u64().unwrap(), ram["free"].as_u64().unwrap()),
        (total, total.min(60 << 30)),
        "{ram:#}"
    );
    let notes = plan["notes"].to_string();
    assert!(notes.contains(note), "{notes}");
}

#[rstest]
#[case("max")]
#[case("why")]
#[case("best")]
#[case("place")]
#[case("sweep")]
#[case("matrix")]
fn questions_take_a_command_too(#[case] question: &str) {
    let ask = |arguments: &[&str]| json(Sandbox::new().plimsoll().arg(question).args(MACHINE).args(arguments));
    let typed = ["catalogue:qwen3-8b", "--engine", "llama.cpp", "--no-mmproj", "--ctx", "8192", "--parallel", "2"];
    let command = "llama-server -m catalogue:qwen3-8b -c 8192 -np 2";
    let mut answers = [ask(&["--command", command]), ask(&typed)];
    for answer in &mut answers {
        answer.as_object_mut().unwrap().remove("notes");
        if let Some(placed) = answer.get_mut("placed").and_then(Value::as_object_mut) {
            placed.remove("notes");
        }
        if let Some(plan) = answer.get_mut("plan").and_then(Value::as_object_mut) {
            plan.remove("notes");
        }
    }
    let [pasted, typed] = answers;
    assert_eq!(pasted, typed);
}

#[test]
fn need_and_check_take_a_command() {
    let sandbox = Sandbox::new();
    let command = "llama-server -m catalogue:qwen3-0.6b -c 4096";
    let found = json(sandbox.plimsoll().args(["need", "--command", command]));
    let typed = ["need", "catalogue:qwen3-0.6b", "--engine", "llama.cpp", "--no-mmproj", "--ctx", "4096"];
    assert_eq!(found, json(sandbox.plimsoll().args(typed)));
    // a load that differs has a status of its own
    let checked = |more: &[&str]| {
        let output = sandbox.plimsoll().args(["check", "example", "--json"]).args(more).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let (alone, told) = (checked(&[]), checked(&["--command", "llama-server -m x.gguf -c 4096 -ctk q8_0 -ctv q8_0"]));
    assert_ne!(alone, told, "the command stands over what the log shows");
}

#[test]
fn a_command_that_starts_several_is_no_question() {
    let (_, text) = FILES[2];
    let said = refused(Sandbox::new().plimsoll().args(["why", "--command", text]).args(MACHINE), 2);
    assert!(said.contains("it starts several servers: choose one with --pick, of 'small', 'large'"), "{said}");
    let picked = json(Sandbox::new().plimsoll().args(["why", "--command", text, "--pick", "small"]).args(MACHINE));
    assert!(picked["model"]["name"].as_str().is_some_and(|name| name.contains("0.6B")), "{picked:#}");
    let said = refused(Sandbox::new().plimsoll().arg("why").args(MACHINE), 2);
    assert!(said.contains("MODEL"), "{said}");
}

/// Two servers on one host, each with a card, and one of another host.
fn with_servers(pattern: &str) -> std::process::Output {
    let sandbox = Sandbox::new();
    let mut asked = sandbox.plimsoll();
    asked.args([
        "plan",
        "catalogue:qwen3-30b-a3b",
        "--engine",
        "llama.cpp",
        "--ctx",
        "4096",
        "--gpu-layers",
        "99",
        "--json",
    ]);
    asked.args(["--fit", "off", "--no-mmproj", "--gpu", "name=own,total=24GiB,backend=CUDA", "--ram", "64GiB"]);
    for (name, computer) in [("a", "10.0.0.2:50054"), ("b", "10.0.0.2:50055"), ("c", "10.0.0.3")] {
        asked.args(["--gpu", &format!("name={name},total=32GiB,backend=CUDA,computer={computer}")]);
    }
    asked.args(["-ot", pattern]).output().unwrap()
}

#[rstest]
#[case("exps=RPC0[10.0.0.2:50054]", "a")]
#[case("exps=RPC0[10.0.0.2:50055]", "b")]
#[case("exps=RPC0[10.0.0.3:50052]", "c")]
#[case("exps=RPC1", "b")]
#[case("exps=CUDA0", "own")]
fn servers_of_one_host_are_told_apart_by_their_ports(#[case] pattern: &str, #[case] name: &str) {
    let output = with_servers(pattern);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let most = plan["devices"].as_array().unwrap().iter().max_by_key(|device| device["weights"].as_u64());
    assert_eq!(most.unwrap()["name"], name, "{plan:#}");
}

#[rstest]
#[case("exps=RPC0[10.0.0.2:50052]", "computer=10.0.0.2:50052 describes a card of that server")]
#[case("exps=RPC1[10.0.0.2:50054]", "it has CUDA0, RPC0[10.0.0.2:50054], RPC0[10.0.0.2:50055], RPC0[10.0.0.3:50052]")]
#[case("exps=RPC0[elsewhere:50052]", "the machine has no device 'RPC0[elsewhere:50052]'")]
fn an_unknown_server_is_refused(#[case] pattern: &str, #[case] part: &str) {
    let output = with_servers(pattern);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(part), "{said}");
}

#[rstest]
#[case("llama-server -m x.gguf -c 32k", "-c '32k' without its last letter")]
#[case("llama-server -m x.gguf -c", "no value follows '-c'")]
#[case("llama-server -m Qwen3-8B-Q4_K_M.gguf -ctk q3_0", "--cache-type-k: 'q3_0'")]
#[case("llama-server -m $MODEL -c 4096", "its model is in the variable MODEL, which it does not set")]
#[case("OLLAMA_NUM_PARALLEL=2 ollama serve", "it names no model by 'ollama run'")]
#[case("llama-server -t 8", "it names no model")]
#[case("llama-bench -m x.gguf -p 512", "llama-bench has options of its own")]
#[case("vllm serve x", "begin with llama-server")]
#[case("", "begin with llama-server")]
fn a_wrong_command_is_refused(#[case] command: &str, #[case] part: &str) {
    let said = refused(Sandbox::new().plimsoll().args(["plan", "--command", command]).args(MACHINE), 2);
    assert!(said.contains(part), "{said}");
}

#[rstest]
#[case("--ctx-sizes 9 -c 4096", "--ctx-sizes (did you mean '--ctx-size'?) is not known here, and not planned")]
#[case("-c 4096 --no-such-thing 3 4 --host :: -np $NP", "--no-such-thing is not known here, and not planned")]
#[case("-c 4096 -np $NP", "-np is not planned: its value $NP is not set in it")]
#[case("-c 4096 y.gguf", "'y.gguf' is no option and no value of one, and not read")]
#[case("-c 4096 --host :: --port 80 --jinja", "--host, --port and --jinja have no effect on memory")]
fn what_is_not_planned_of_a_command_is_named(#[case] options: &str, #[case] part: &str) {
    let command = format!("llama-server {options}");
    let said = notes(&["catalogue:qwen3-8b", "--command", &command]);
    assert!(said.contains(part), "{said}");
    assert_eq!(plan(&["catalogue:qwen3-8b", "--command", &command])["settings"]["ctx"], 4096);
}

/// Sizes of K as forks printed them: `size = 4000.00 MiB (1048576 cells, 10 layers, 1/1 seqs), K (turbo3): 2000.00 MiB` of
/// Qwen3.5 35B A3B, and `size = 28.12 MiB (2304 cells, 16 layers …), K (turbo3): 14.06 MiB` of a model with rows of 1,024, as
/// those of Qwen3.6 27B are.
#[rstest]
#[case("qwen3.5-35b-a3b", "-c 1048576 -ctk turbo3 -ctv turbo3", 4000.0)]
#[case("qwen3.6-27b", "-c 2304 -ctk turbo3 -ctv turbo3_0", 28.125)]
#[case("qwen3.6-27b", "-c 2304 -ctk q8_0 -ctv TURBO4", 38.25 + 19.125)]
#[case("qwen3.6-27b", "-c 2304 -ctk q6_0 -ctv nvfp4", 29.25 + 20.25)]
// heads of 64 are filled up to blocks of 128
#[case("llama3.2-1b", "-c 4096 -ctk turbo2 -ctv turbo2", 2.0 * 4096.0 * 16.0 * 8.0 * 34.0 / 1_048_576.0)]
fn cache_types_of_forks_are_planned_by_their_bits(#[case] model: &str, #[case] options: &str, #[case] mib: f64) {
    let command = format!("llama-server -m x.gguf -np 1 -fa on -ngl 99 {options}");
    let plan = plan(&[&format!("catalogue:{model}"), "--command", &command]);
    let of_states = if model.starts_with("qwen") { plan_of_states(model, &command) } else { 0.0 };
    let cache = plan["totals"]["cache"].as_f64().unwrap() / 1_048_576.0 - of_states;
    // a row for the token that comes next
    assert!((cache - mib).abs() < 0.001 * mib, "{cache} MiB, not {mib}");
    assert_eq!(plan["confidence"], "assumed");
    assert!(plan["notes"].to_string().contains("is no cache type of llama.cpp"), "{}", plan["notes"]);
}

/// MiB of a model's recurrent states and outputs: what is left of its caches where each K and V row has a byte less or more.
fn plan_of_states(model: &str, command: &str) -> f64 {
    let cache = |cells: u64| {
        let plan = plan(&[&format!("catalogue:{model}"), "--command", command, "--ctx", &cells.to_string()]);
        plan["totals"]["cache"].as_f64().unwrap() / 1_048_576.0
    };
    2.0 * cache(1024) - cache(2048)
}

#[test]
fn types_that_nobody_has_are_refused_with_those_that_are() {
    let said = refused(Sandbox::new().plimsoll().args(["plan", "catalogue:qwen3-8b", "--cache-type-k", "q9_0"]), 2);
    assert!(said.contains("use one of f32") && said.contains("or a fork's: turbo2"), "{said}");
    let said =
        notes(&["catalogue:qwen3-8b", "--cache-type-k", "tq3_0", "--cache-type-v", "tq3_0", "--engine", "llama.cpp"]);
    assert!(said.contains("of Lucebox: it is planned as 14 bytes for 32 values"), "{said}");
    let command = "OLLAMA_KV_CACHE_TYPE=turbo3 ollama run qwen3:8b";
    let said = notes(&["--command", command]);
    assert!(said.contains("turbo3"), "{said}");
}

#[test]
fn a_file_that_is_not_here_is_planned_as_its_namesake() {
    let command = "llama-server -m /models/Qwen3-8B-Q4_K_M.gguf -c 8192 -ngl 99";
    let said = notes(&["--command", command]);
    assert!(said.contains("'/models/Qwen3-8B-Q4_K_M.gguf' is not here: planned by its name"), "{said}");
    let typed = plan(&["catalogue:qwen3-8b@q4_K_M", "--engine", "llama.cpp", "--ctx", "8192", "--gpu-layers", "99"]);
    assert_eq!(plan(&["--command", command])["parts"], typed["parts"]);
}

#[rstest]
#[case("OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_KV_CACHE_TYPE=q8_0 ollama run qwen3:8b --verbose")]
#[case(
    "docker run -d --gpus=all -e OLLAMA_CONTEXT_LENGTH=8192 -e OLLAMA_KV_CACHE_TYPE=q8_0 -v ollama:/root/.ollama --name ollama ollama/ollama"
)]
#[case("[Service]\nEnvironment=\"OLLAMA_CONTEXT_LENGTH=8192\" OLLAMA_KV_CACHE_TYPE=q8_0\n")]
#[case("export OLLAMA_CONTEXT_LENGTH=8192\nexport OLLAMA_KV_CACHE_TYPE=q8_0\n")]
fn ollama_is_its_variables(#[case] command: &str) {
    let pasted = plan(&["catalogue:qwen3-8b", "--command", command]);
    let typed = [
        "catalogue:qwen3-8b",
        "--server-env",
        "OLLAMA_CONTEXT_LENGTH=8192",
        "--server-env",
        "OLLAMA_KV_CACHE_TYPE=q8_0",
    ];
    assert_eq!(figures(pasted), figures(plan(&typed)));
}

#[rstest]
#[case(
    "podman run -p 8080:8080 ghcr.io/ggml-org/llama.cpp:full-cuda --server -m x.gguf -c 8192 -ngl 99 -fa -ctk q8_0 -ctv q8_0"
)]
#[case(
    "sudo -E nohup C:\\llama\\llama-server.exe ^\r\n -m x.gguf ^\r\n -c 8192 -ngl 99 -fa on `\n -ctk q8_0 -ctv q8_0 > log.txt 2>&1 &"
)]
#[case(
    "#!/bin/bash\nset -e\nMODEL=${1:-x.gguf}\nexport LLAMA_ARG_CTX_SIZE=8192\nfor i in 1; do\n  exec ./llama-server -m \"$MODEL\" -ngl ${NGL:-99} -fa on \\\n    -ctk q8_0 \\\n    -ctv q8_0 \"$@\"\ndone\n"
)]
fn other_ways_to_start_a_server_are_read(#[case] command: &str) {
    let pasted = plan(&["catalogue:qwen3-8b", "--command", command]);
    let typed = ["--ctx", "8192", "--gpu-layers", "99", "--flash-attn", "on", "--kv-type", "q8_0"];
    let typed = plan(&[&["catalogue:qwen3-8b", "--engine", "llama.cpp", "--no-mmproj"], &typed[..]].concat());
    assert_eq!(figures(pasted), figures(typed), "{command}");
}

/// What a library is told by programs that embed it.
const EMBEDDED: [&str; 10] =
    ["--batch", "512", "--parallel", "1", "--outputs", "ubatch", "--cache-ram", "0", "--ctx-checkpoints", "0"];

#[rstest]
#[case(
    "koboldcpp.exe --model x.gguf --contextsize 8192 --gpulayers 99 --flashattention --quantkv 1 --usecublas normal 0 mmq --threads 8"
)]
#[case(
    "python3 -m llama_cpp.server --model x.gguf --n_ctx 8192 --n_gpu_layers 99 --flash_attn True --type_k 8 --type_v 8 --host 0.0.0.0"
)]
fn programs_that_embed_the_library_have_its_defaults(#[case] command: &str) {
    let pasted = plan(&["catalogue:qwen3-8b", "--command", command]);
    let typed = ["--ctx", "8192", "--gpu-layers", "99", "--flash-attn", "on", "--kv-type", "q8_0"];
    let model = &["catalogue:qwen3-8b", "--engine", "llama.cpp", "--no-mmproj"][..];
    // the library keeps full windows unless told
    let windows: &[&str] = if command.starts_with("python3") { &["--swa-full"] } else { &[] };
    assert_eq!(figures(pasted), figures(plan(&[model, &typed[..], &EMBEDDED[..], windows].concat())), "{command}");
}

#[test]
fn a_release_of_a_program_has_its_defaults() {
    let model = ["catalogue:gemma3-27b", "--engine", "llama.cpp", "--no-mmproj", "--ctx", "65536"];
    let cache = |more: &[&str]| plan(&[&model[..], more].concat())["totals"]["cache"].as_u64().unwrap();
    let release = ["--release", "koboldcpp 1.113.2"];
    let (of_program, of_server) = (cache(&release), cache(&["--release", "2026-05-17", "--parallel", "1"]));
    assert!(of_program > 4 * of_server, "{of_program} {of_server}");
    assert_eq!(of_program, cache(&["--release", "2026-05-17", "--parallel", "1", "--swa-full"]));
    // what is given stands over it
    assert_eq!(cache(&[&release[..], &["--swa-full=false"]].concat()), of_server);
    let said = notes(&[&model[..], &release[..]].concat());
    let says = "what is not given is as KoboldCpp sets it: --batch 512 --ubatch 512 --parallel 1 --swa-full";
    assert!(said.contains(says), "{said}");
    assert!(said.contains("LostRuins/koboldcpp 2235"), "{said}");
}

#[rstest]
#[case("llama-cpp-python 0.3.36", 512, 0)]
#[case("koboldcpp 1.113.2", 8320, 37)]
#[case("lm studio 2.41.0", 4096, 37)]
fn contexts_and_layers_of_programs_are_their_own(#[case] release: &str, #[case] ctx: u64, #[case] layers: u64) {
    let plan = plan(&["catalogue:qwen3-8b", "--engine", "llama.cpp", "--release", release]);
    let found = (plan["settings"]["ctx"].as_u64(), plan["offloaded"].as_u64());
    assert_eq!(found, (Some(ctx.next_multiple_of(256)), Some(layers)), "{plan:#}");
}

#[rstest]
#[case("koboldcpp --model x.gguf --contextsize 8192 --lowvram --usemlock --moecpu --quiet",
    &["--no-kv-offload", "--load-mode", "mlock", "--n-cpu-moe", "999"])]
#[case("koboldcpp --model x.gguf --contextsize 8192 --usemmap --moecpu 7", &["--load-mode", "mmap", "--n-cpu-moe", "7"])]
#[case("python3 -m llama_cpp.server --model x.gguf --n_ctx 8192 --split_mode 0 --use_mlock True --embedding False",
    &["--split-mode", "none", "--load-mode", "mmap+mlock", "--embeddings=false"])]
#[case("python3 -m llama_cpp.server --model x.gguf --n_ctx 8192 --use_mmap False", &["--load-mode", "none"])]
fn options_of_other_programs_are_those_of_llama_server(#[case] command: &str, #[case] same: &[&str]) {
    let pasted = plan(&["catalogue:qwen3-30b-a3b", "--command", command]);
    let typed = ["catalogue:qwen3-30b-a3b", "--engine", "llama.cpp", "--no-mmproj", "--ctx", "8192"];
    // the server of llama-cpp-python has no layers on a GPU and no flash attention unless told
    let alone: &[&str] =
        if command.starts_with("python3") { &["--gpu-layers", "0", "--flash-attn", "off", "--swa-full"] } else { &[] };
    assert_eq!(figures(pasted), figures(plan(&[&typed[..], &EMBEDDED[..], alone, same].concat())), "{command}");
}

#[rstest]
#[case("services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server\n    env_file: .env\n    command: -c 4096\n")]
#[case("[Service]\nEnvironmentFile=-/etc/llama.env\nExecStart=/usr/bin/llama-server -c 4096\n")]
fn variables_in_another_file_are_said_to_be_unread(#[case] text: &str) {
    let said = notes(&["catalogue:qwen3-8b", "--command", text]);
    assert!(said.contains("it names a file of variables, which is not read"), "{said}");
    let without = text.replace("    env_file: .env\n", "").replace("EnvironmentFile=-/etc/llama.env\n", "");
    assert!(!notes(&["catalogue:qwen3-8b", "--command", &without]).contains("a file of variables"));
}

/// Files that start two servers, `small` with 4096 tokens of context and `large` with 8192.
const FILES: [(&str, &str); 4] = [
    (
        "compose.yaml",
        "x-common: &common\n  image: ghcr.io/ggml-org/llama.cpp:server-cuda\n  environment:\n    LLAMA_ARG_N_GPU_LAYERS: 99\n\
         services:\n  web:\n    image: nginx:latest\n    command: [\"nginx\", \"-g\", \"daemon off;\"]\n  small:\n    <<: *common\n    \
         command: -m /models/Qwen3-0.6B-Q8_0.gguf -c 4096\n  large:\n    <<: *common\n    command:\n      - -m\n      - \
         /models/Qwen3-8B-Q4_K_M.gguf\n      - --ctx-size\n      - ${CTX:-8192}\n",
    ),
    (
        "config.yaml",
        "healthCheckTimeout: 60\nmacros:\n  server: |\n    /app/llama-server --port ${PORT}\n    -ngl 99\nmodels:\n  \"small\":\n    \
         cmd: |\n      ${server}\n      -m /models/Qwen3-0.6B-Q8_0.gguf\n      -c 4096\n    ttl: 300\n  \"large\":\n    cmd: ${server} \
         --model /models/Qwen3-8B-Q4_K_M.gguf --ctx-size ${ctx}\n    macros:\n      ctx: 8192\n",
    ),
    (
        "presets.ini",
        "version = 1\n[*]\nn-gpu-layers = 99\n; a comment\n[small]\nmodel = /models/Qwen3-0.6B-Q8_0.gguf\nc = 4096\nload-on-startup = \
         true\n[large]\nmodel = /models/Qwen3-8B-Q4_K_M.gguf\nctx-size = 8192\n",
    ),
    (
        "deployment.yml",
        "apiVersion: v1\nkind: List\nitems:\n- spec:\n    containers:\n    - name: small\n      image: \
         ghcr.io/ggml-org/llama.cpp:server\n      args: [-m, /models/Qwen3-0.6B-Q8_0.gguf, -c, \"4096\", -ngl, \"99\"]\n    - name: \
         large\n      image: ghcr.io/ggml-org/llama.cpp:server\n      env:\n      - name: LLAMA_ARG_CTX_SIZE\n        value: \
         \"8192\"\n      args:\n      - -m\n      - /models/Qwen3-8B-Q4_K_M.gguf\n      - -ngl\n      - \"99\"\n",
    ),
];

#[test]
fn files_that_start_several_servers_are_planned_together_or_one_is_picked() {
    let sandbox = Sandbox::new();
    for (file, text) in FILES {
        let path = sandbox.folder.path().join(file);
        std::fs::write(&path, text).unwrap();
        let run = |more: &[&str]| {
            let mut command = sandbox.plimsoll();
            command.arg("plan").args(MACHINE).arg("--command").arg(&path).args(more);
            command
        };
        let together = json(&mut run(&[]));
        let names: Vec<_> = together["models"].as_array().unwrap().iter().map(|one| one["model"].clone()).collect();
        assert_eq!(names, ["small", "large"], "{file}: {together}");
        for (name, ctx) in [("small", 4096), ("large", 8192)] {
            let one = json(&mut run(&["--pick", name]));
            assert_eq!(
                (&one["settings"]["ctx"], &one["settings"]["gpu_layers"]),
                (&ctx.into(), &99.into()),
                "{file}: {one}"
            );
        }
        let said = refused(&mut run(&["--pick", "none"]), 2);
        assert!(said.contains("'none' is none of 'small', 'large'"), "{said}");
    }
}

#[test]
fn a_unit_of_systemd_is_read() {
    let unit = "[Unit]\nDescription=my server\n[Service]\nEnvironment=\"LLAMA_ARG_CTX_SIZE=8192\"\nExecStart=/usr/bin/llama-server \\\n  \
                -m /models/Qwen3-8B-Q4_K_M.gguf \\\n  -ngl 99\nRestart=always\n";
    assert_eq!(plan(&["--command", unit])["settings"]["ctx"], 8192);
}

#[test]
fn keys_in_a_command_stay_out_of_the_log() {
    let sandbox = Sandbox::new();
    let log = sandbox.folder.path().join("log");
    let text = "HF_TOKEN=hush llama-server -c 4096 --api-key hush -hft=hush";
    let mut command = sandbox.plimsoll();
    command.args(["plan", "catalogue:qwen3-8b", "--api-key", "hush", "--command", text]).args(MACHINE);
    command.arg("--log").arg(&log).assert().success();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("llama-server -c 4096") && !text.contains("hush"), "{text}");
}
