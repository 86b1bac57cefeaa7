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

/// Names of folders and files that some format means otherwise.
const NAMES: [&str; 7] = [
    "a$HOME $(HOME) ${HOME} $$.gguf",
    "b c: d #e.gguf",
    "f'g\"h.gguf",
    "i\\j.gguf",
    "k%s {l}.gguf",
    "-m.gguf",
    "名前 é.gguf",
];

/// Every text in a document of YAML.
fn texts(tree: &Value, all: &mut Vec<String>) {
    match tree {
        Value::String(text) => all.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|one| texts(one, all)),
        Value::Object(map) => map.values().for_each(|one| texts(one, all)),
        _ => {}
    }
}

#[test]
fn an_export_read_back_has_the_same_path() {
    let sandbox = Sandbox::new();
    let bytes = std::fs::read(sandbox.model("qwen2.5-0.5b")).unwrap();
    let folder = sandbox.folder.path().join("x$HOME y");
    std::fs::create_dir(&folder).unwrap();
    for name in NAMES {
        let file = folder.join(name);
        std::fs::write(&file, &bytes).unwrap();
        let path = file.to_str().unwrap();
        let export = |form: &str| {
            run(&sandbox, &["export", "--as", form, path, "--engine", "llama.cpp", "--gpu", "24GiB", "--ram", "64GiB"])
        };
        for form in ["compose", "k8s"] {
            let text = export(form);
            let tree: Value = serde_saphyr::from_str(&text).unwrap();
            let (mut all, folder) = (Vec::new(), folder.to_str().unwrap());
            texts(&tree, &mut all);
            // two dollar signs are one to both, but Kubernetes mounts what it is told
            let doubled = |path: &str| path.replace('$', "$$");
            assert!(all.contains(&doubled(path)), "{form}: {text}");
            let mounted = if form == "compose" { doubled(folder) } else { folder.to_owned() };
            assert_eq!(all.iter().filter(|text| **text == mounted).count(), 2, "{form}: {text}");
            let file = sandbox.file("file.yaml", unlimited(&text).as_bytes());
            let read =
                run(&sandbox, &["plan", "--command", file.to_str().unwrap(), "--gpu", "24GiB", "--ram", "64GiB"]);
            assert!(read.contains("All in VRAM"), "{form}: {name}\n{text}\n{read}");
        }
        let text = export("scenario");
        let scenario: toml::Table = text.parse().unwrap();
        assert_eq!(scenario["model"].as_str(), Some(path), "{text}");
        let text = export("llama-server");
        assert_eq!(words_of_a_shell(&text)[2], path, "{text}");
    }
}

/// The words of the last line, by a real shell.
fn words_of_a_shell(text: &str) -> Vec<String> {
    let line = text.lines().last().unwrap();
    let script = format!("set -- {line}\nprintf '%s\\n' \"$@\"");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_name_that_would_be_another_one_is_refused() {
    let sandbox = Sandbox::new();
    let bytes = std::fs::read(sandbox.model("qwen2.5-0.5b")).unwrap();
    let machine = ["--gpu", "24GiB", "--ram", "64GiB"];
    for name in ["a\tb.gguf", "c\nd.gguf", "e\u{202e}f.gguf"] {
        let path = sandbox.file(name, &bytes);
        for (engine, forms) in [
            ("llama.cpp", &["llama-server", "compose", "k8s", "plimsoll"][..]),
            ("ollama-0.24", &["modelfile", "plimsoll"][..]),
        ] {
            for form in forms {
                let mut command = sandbox.plimsoll();
                command.args(["export", "--as", form, "--engine", engine]).arg(&path).args(machine);
                let said = refused(&mut command, 2);
                assert!(said.contains("another name: rename"), "{form}: {said}");
            }
        }
        let mut apply = sandbox.plimsoll();
        apply.args(["apply", "--yes", "--engine", "llama.cpp", "--server", "true"]).arg(&path).args(machine);
        let said = refused(&mut apply, 2);
        assert!(said.contains("another name: rename"), "{said}");
        // a scenario has all of them written out
        let mut export = sandbox.plimsoll();
        export.args(["export", "--as", "scenario"]).arg(&path).args(machine);
        let text = String::from_utf8(export.assert().success().get_output().stdout.clone()).unwrap();
        let scenario: toml::Table = text.parse().unwrap();
        assert_eq!(scenario["model"].as_str(), path.to_str(), "{text}");
    }
    let folder = sandbox.folder.path().join("a:b");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("x.gguf"), &bytes).unwrap();
    let export = |form: &str| {
        let mut command = sandbox.plimsoll();
        command.args(["export", "--as", form, "--engine", "llama.cpp"]).arg(folder.join("x.gguf")).args(machine);
        command
    };
    assert!(refused(&mut export("k8s"), 2).contains("with a colon"));
    let compose = String::from_utf8(export("compose").assert().success().get_output().stdout.clone()).unwrap();
    assert!(compose.contains(&format!("source: \"{}\"", folder.display())), "{compose}");
}

#[test]
fn macros_of_llama_swap_are_no_names() {
    let sandbox = Sandbox::new();
    let bytes = std::fs::read(sandbox.model("qwen2.5-0.5b")).unwrap();
    for (name, is_held) in [("a${PORT}.gguf", false), ("b $PORT.gguf", true)] {
        let path = sandbox.file(name, &bytes);
        let mut command = sandbox.plimsoll();
        command.args(["together", "--as", "llama-swap", "--engine", "llama.cpp", "--gpu", "24GiB", "--ram", "64GiB"]);
        let output = command.arg(&path).output().unwrap();
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.success(), is_held, "{text}{said}");
        assert!(is_held || said.contains("llama-swap cannot hold"), "{said}");
        if is_held {
            let tree: Value = serde_saphyr::from_str(&text).unwrap();
            let command =
                tree["models"].as_object().unwrap().values().next().unwrap()["cmd"].as_str().unwrap().to_owned();
            assert!(words_of_a_shell(&command.replace('\n', " ")).contains(&path.display().to_string()), "{command}");
        }
    }
}
