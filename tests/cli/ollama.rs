//! Engine `ollama` on the command line.

use serde_json::Value;

use super::{Sandbox, json};

fn notes(plan: &Value) -> String {
    plan["notes"].to_string()
}

#[test]
fn the_plan_shows_what_ollama_ps_prints() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plan_by("ollama", "llama3.1-8b");
    let plan = json(command.args(["--gpu", "24GiB", "--ctx", "8192"]));
    assert_eq!((&plan["engine"], &plan["settings"]["batch"]), (&"ollama".into(), &1024.into()));
    assert!(notes(&plan).contains("batch 1024: Ollama raises it"), "{}", notes(&plan));
    let listed = &plan["ollama_ps"];
    assert_eq!((&listed["processor_column"], &listed["size"]), (&"100% GPU".into(), &listed["vram"]));
    assert!(listed["size_column"].as_str().unwrap().ends_with(" GB"));

    let text = sandbox.plan_by("ollama", "llama3.1-8b").args(["--gpu", "24GiB"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap().replace('\u{a0}', " ");
    assert!(text.contains("ollama ps shows: "), "{text}");
}

#[test]
fn a_projector_file_is_measured() {
    let sandbox = Sandbox::new();
    let projector = sandbox.projector("gemma3-4b-f16");
    let plan = |more: &[&str]| json(sandbox.plan_by("ollama", "gemma3-4b").args(["--gpu", "24GiB"]).args(more));
    let without = plan(&["--no-mmproj"]);
    let with = plan(&["--mmproj", projector.to_str().unwrap()]);
    let asked = |plan: &Value| plan["devices"][0]["fit_margin"]["target"].as_u64().unwrap();
    assert!(asked(&with) > asked(&without));
    assert!(notes(&with).contains("for the projector"), "{}", notes(&with));
    assert!(!notes(&without).contains("projector"), "{}", notes(&without));
}

#[test]
fn ollama_variables_are_used() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plan_by("ollama", "llama3.1-8b");
    command.args(["--gpu", "24GiB"]).env("OLLAMA_CONTEXT_LENGTH", "16384").env("OLLAMA_NUM_PARALLEL", "2");
    let plan = json(command.env("OLLAMA_FLASH_ATTENTION", "0"));
    let settings = &plan["settings"];
    assert_eq!((&settings["ctx"], &settings["ctx_total"]), (&16_384.into(), &32_768.into()));
    assert_eq!((&settings["flash_attn"], &settings["batch"]), (&"off".into(), &512.into()));
}

/// The arguments in the log of an Ollama 0.33 without a GPU; the names of files and the port are replaced.
#[test]
fn llama_server_is_started_as_a_real_log_shows() {
    let log = "--model MODEL --port PORT --host 127.0.0.1 --no-webui --offline -c 8192 -np 2 --log-verbosity 4 \
               --no-log-prefix --no-log-timestamps --mmproj PROJECTOR --load-mode none --flash-attn auto -b 1024 \
               -ub 1024 --context-shift --keep 4";
    let sandbox = Sandbox::new();
    let projector = sandbox.projector("ministral-3-3b-bf16");
    let mut command = sandbox.plan_by("ollama", "ministral-3-3b");
    command.arg("--mmproj").arg(projector).args(["--gpu", "none"]);
    let plan = json(command.args(["--ctx", "4096", "--parallel", "2"]));
    let arguments: Vec<&str> =
        plan["launch"]["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(arguments.join(" "), log);
}

/// Ollama asks for 802.5 MiB besides the usual 1,024; llama-server adds what the projector takes of RAM, as Ollama's CUDA
/// backend is registered after the CPU.
#[test]
fn a_projector_is_kept_free_once() {
    const MIB: u64 = 1 << 20;
    let sandbox = Sandbox::new();
    let projector = sandbox.projector("ministral-3-3b-bf16");
    let plan = |free: &str| {
        let mut command = sandbox.plan_by("ollama", "ministral-3-3b");
        command.arg("--mmproj").arg(&projector).args(["--gpu", &format!("name=card,total=24GiB,free={free}")]);
        json(command.args(["--ctx", "4096", "--parallel", "2"]))
    };
    let roomy = plan("20GiB");
    let model = &roomy["parts"][0]["devices"][0];
    let used: u64 = ["weights", "cache", "graph"].iter().map(|term| model[term].as_u64().unwrap()).sum();
    let all_layers_with = |margin: u64| {
        let plan = plan(&(used + margin).to_string());
        plan["offloaded"] == plan["layer_count"]
    };
    let of_ram =
        &roomy["parts"].as_array().unwrap().iter().find(|part| part["name"] == "vision").unwrap()["devices"][1];
    let margin = 1827 * MIB + of_ram["graph"].as_u64().unwrap();
    assert_eq!((all_layers_with(margin - 1), all_layers_with(margin)), (false, true));
}

#[test]
fn requests_modelfiles_and_the_server_choose_settings() {
    let sandbox = Sandbox::new();
    let modelfile = sandbox.file("Modelfile", b"FROM llama3.1:8b\nPARAMETER num_ctx 12288\nPARAMETER num_batch 256\n");
    let modelfile = modelfile.to_str().unwrap();
    let settings = |more: &[&str]| {
        let mut command = sandbox.plan_by("ollama", "llama3.1-8b");
        let plan = json(command.args(["--gpu", "24GiB"]).args(more));
        ["ctx", "batch"].map(|setting| plan["settings"][setting].as_u64().unwrap())
    };
    let server = ["--server-env", "OLLAMA_CONTEXT_LENGTH=16384"];
    assert_eq!(settings(&server), [16_384, 1024]);
    let with_modelfile = [&server[..], &["--modelfile", modelfile]].concat();
    assert_eq!(settings(&with_modelfile), [12_288, 256]);
    let with_request = [&with_modelfile[..], &["--option", "num_ctx=8192", "--option", "num_batch=null"]].concat();
    assert_eq!(settings(&with_request), [8192, 512], "null is the default");
}

#[test]
fn what_ollama_does_not_take_is_refused_in_its_words() {
    let sandbox = Sandbox::new();
    let said = |arguments: &[&str]| {
        let mut command = sandbox.plan_by("ollama", "llama3.1-8b");
        let output = command.args(["--gpu", "24GiB"]).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (arguments, text) in [
        (["--option", "num_ctx=long"], "option \"num_ctx\" must be of type integer"),
        (["--ollama", "0.12"], "Ollama 0.12 has its own estimator: use --engine ollama-0.24"),
        (["--server-env", "LLAMA_ARG_FIT_TARGET"], "'LLAMA_ARG_FIT_TARGET' is not NAME=VALUE"),
        (["--modelfile", "/none/Modelfile"], "'/none/Modelfile' does not exist"),
    ] {
        let (status, message) = said(&arguments);
        assert_eq!(status, Some(2), "{message}");
        assert!(message.contains(text), "{message}");
    }
}

/// GPUs that today's Ollama leaves out are named with the reason and get no layers.
#[test]
fn gpus_that_ollama_drops_get_nothing() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plan_by("ollama", "llama3.1-8b");
    command.args(["--gpu", "RTX 3090", "--gpu", "name=igpu,total=16GiB,backend=vulkan,integrated=true"]);
    let plan = json(command.args(["--ctx", "8192", "--os", "linux"]));
    assert_eq!(plan["launch"]["gpus"], serde_json::json!([0]));
    assert!(notes(&plan).contains("igpu"), "{}", notes(&plan));
}
