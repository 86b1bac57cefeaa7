//! Plans that are reopened: as a command, and from a file.

use plimsoll::budget::{Allowance, Budget};
use plimsoll::command::shell;
use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

const MACHINE: [&str; 4] = ["--gpu", "name=card,total=24GiB,free=23GiB,driver=13", "--ram", "total=64GiB,free=60GiB"];

/// A plan without what says where its settings come from.
fn figures(mut plan: Value) -> Value {
    let object = plan.as_object_mut().unwrap();
    object.remove("notes");
    object["settings"].as_object_mut().unwrap().remove("sources");
    plan
}

fn export(sandbox: &Sandbox, arguments: &[&str], form: &str) -> String {
    let mut command = sandbox.plimsoll();
    command.arg("export").args(MACHINE).args(arguments).args(["--as", form]);
    String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
}

#[rstest]
#[case(&["catalogue:qwen3-30b-a3b", "--engine", "llama.cpp", "--ctx", "65,536", "--n-cpu-moe", "12", "--override-tensor", "ffn_up=CPU", "-ub", "1k"])]
#[case(&["catalogue:gemma3-4b", "--ctx", "max", "--kv-type", "q8_0", "--option", "num_thread=4", "--server-env", "OLLAMA_NUM_PARALLEL=2"])]
#[case(&["catalogue:gemma3-4b", "--engine", "llama.cpp", "--no-mmproj", "--quant", "Q6_K", "--release", "b11100", "--embeddings=false"])]
#[case(&["catalogue:llama3.1-8b", "--engine", "ollama-0.24", "--gpu-overhead", "1GiB", "--gpu-layers", "20"])]
#[case(&["catalogue:qwen3-8b", "--engine", "llama.cpp", "--model-draft", "catalogue:qwen3-0.6b", "--fit", "off", "-ngl", "0"])]
fn a_plan_is_reopened_by_its_command_and_from_its_file(#[case] arguments: &[&str]) {
    let sandbox = Sandbox::new();
    let planned = figures(json(sandbox.plimsoll().arg("plan").args(MACHINE).args(arguments)));

    let command = export(&sandbox, arguments, "plimsoll");
    let words = shell::commands(&command, &mut shell::Variables::new(), &Budget::new(Allowance::COMMAND)).remove(0);
    let words: Vec<String> = words.into_iter().map(|word| word.text).collect();
    assert_eq!(words[0], "plimsoll");
    assert_eq!(figures(json(sandbox.plimsoll().args(&words[1..]))), planned, "{command}");

    let text = export(&sandbox, arguments, "scenario");
    let file = sandbox.file("a plan.TOML", text.as_bytes());
    // neither the environment nor the configuration says anything of it
    let mut again = sandbox.plimsoll();
    again.env("OLLAMA_NUM_PARALLEL", "7").env("PLIMSOLL_ENGINE", "ollama-0.11").arg("plan").arg(&file);
    assert_eq!(figures(json(&mut again)), planned, "{text}");
}

#[test]
fn options_stand_above_the_file() {
    let sandbox = Sandbox::new();
    let text = "note = \"for the talk\"\nmodel = \"catalogue:qwen3-8b\"\nengine = \"llama.cpp\"\n[machine]\ngpu = \"RTX 3090\"\n\
                ram = \"64GiB\"\n[knobs]\nctx = 8192\nkv-type = \"q8_0\"\n";
    let file = sandbox.file("plan.toml", text.as_bytes());
    let plan = |more: &[&str]| json(sandbox.plimsoll().arg("plan").arg(&file).args(more));
    let plain = plan(&[]);
    assert_eq!((&plain["settings"]["ctx"], &plain["settings"]["cache_type_k"]), (&8192.into(), &"q8_0".into()));
    assert!(plain["notes"].as_array().unwrap().iter().any(|note| note == "for the talk"), "{plain}");
    let other = plan(&["--ctx", "4k", "--cache-type-k", "f16", "--gpu", "12GiB", "--engine", "ollama"]);
    assert_eq!((&other["settings"]["ctx"], &other["settings"]["cache_type_k"]), (&4096.into(), &"f16".into()));
    assert_eq!((&other["engine"], &other["devices"][0]["total"]), (&"ollama".into(), &(12_u64 << 30).into()));
    // every question about a plan takes the file
    let largest = json(sandbox.plimsoll().arg("max").arg(&file));
    assert!(largest.is_object(), "{largest}");
}

#[test]
fn files_are_found_beside_the_scenario() {
    let sandbox = Sandbox::new();
    let folder = sandbox.folder.path().join("deep");
    std::fs::create_dir(&folder).unwrap();
    let model = sandbox.model("llama3.1-8b");
    std::fs::copy(&model, folder.join("m.gguf")).unwrap();
    std::fs::write(folder.join("plan.toml"), "model = \"m.gguf\"\n[machine]\ngpu = [\"RTX 3090\"]\nram = \"64GiB\"\n")
        .unwrap();
    assert_eq!(json(sandbox.plimsoll().args(["plan", "deep/plan.toml"]))["devices"][0]["name"], "RTX 3090");
}

#[rstest]
#[case("model = \"x\"\nfoo = 1\n", 2, "line 2, foo: there is no such key")]
#[case("model = \"catalogue:qwen3-8b\"\n[knobs]\n\nctx = \"lots\"\n", 2, "line 4, knobs.ctx: 'lots' is not a number")]
#[case("[knobs]\nctxx = 1\n", 2, "line 2, knobs.ctxx: no option of a plan has this name: did you mean 'ctx'?")]
#[case("[machine]\ngpu = [\"RTX 9999\"]\n", 2, "line 2, machine.gpu: 'RTX 9999' is neither a known card nor a size")]
#[case("[machine]\nram = \"lots\"\n", 2, "line 2, machine.ram:")]
#[case("[machine]\nos = \"beos\"\n", 2, "line 2, machine.os: 'beos' is not an operating system")]
#[case("[knobs]\nctx = { a = 1 }\n", 2, "line 2, ctx: this is neither text")]
#[case("model = \n", 2, "line 1:")]
#[case("pins = 3\n", 2, "line 1, pins: write each as a table")]
#[case("note = \"no model\"\n", 3, "")]
#[case("model = \"nothing.gguf\"\n", 3, "'nothing.gguf' does not exist")]
fn a_wrong_file_is_refused(#[case] text: &str, #[case] status: i32, #[case] part: &str) {
    let sandbox = Sandbox::new();
    sandbox.file("plan.toml", text.as_bytes());
    let said = refused(sandbox.plimsoll().args(["plan", "plan.toml"]), status);
    assert!(said.contains(part), "{said}");
}

#[test]
fn what_is_no_file_is_not_read() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.folder.path().join("folder.toml")).unwrap();
    sandbox.file("long.toml", &vec![b'#'; (1 << 20) + 1]);
    sandbox.file("bytes.toml", &[0xff, 0xfe]);
    let mut cases = vec![
        ("folder.toml", "it is a folder"),
        ("long.toml", "longer than 1 MiB"),
        ("bytes.toml", "not UTF-8"),
        ("none.toml", "does not exist"),
    ];
    if cfg!(unix) {
        std::os::unix::fs::symlink("/dev/zero", sandbox.folder.path().join("device.toml")).unwrap();
        cases.push(("device.toml", "a device or a pipe"));
    }
    for (name, part) in cases {
        let said = refused(sandbox.plimsoll().args(["plan", name]), 3);
        assert!(said.contains(part), "{said}");
    }
    let said = refused(sandbox.plimsoll().arg("--last"), 2);
    assert!(said.contains("no plan is kept yet"), "{said}");
}
