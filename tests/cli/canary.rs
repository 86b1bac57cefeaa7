//! A canary as the value of every option of llama-server and of every variable of it and of Ollama's server: nothing that is
//! printed or written has it.

use std::fs;

use plimsoll::export::check::json as check_json;
use plimsoll::observed::sample::{ProgramSample, Sample};
use plimsoll::observed::{Observation, ShownCommand, share};
use plimsoll::running::record;
use plimsoll::settings::{ListedKind, ServerOption, seen};

use super::Sandbox;

const CANARY: &str = "QQcanaryQQ";

/// Values that are of no option's kind: a word, a path with blanks, a person, a share, an address.
const VALUES: [&str; 5] = [
    "QQcanaryQQ",
    "/home/QQcanaryQQ lovelace/QQcanaryQQ.x",
    "ada@QQcanaryQQ",
    r"\\QQcanaryQQ\share\x",
    "http://ada:QQcanaryQQ@box.lan/QQcanaryQQ?sig=QQcanaryQQ",
];

/// Variables with what a shell, a container and Ollama's log write of them.
fn variables() -> Vec<&'static str> {
    let secret = ["HF_TOKEN", "OLLAMA_API_KEY", "OLLAMA_HOST", "OLLAMA_MODELS", "OLLAMA_ORIGINS", "ANY_OTHER"];
    ServerOption::variables().chain(seen::variables()).chain(secret).collect()
}

/// An option with `value` in every form.
fn forms(option: &str, value: &str) -> Vec<String> {
    let mut forms =
        vec![format!("{option} \"{value}\""), format!("{option} '{value}'"), format!("{option}=\"{value}\"")];
    if !value.contains(' ') {
        forms.extend([format!("{option} {value}"), format!("{option}={value}")]);
    }
    forms
}

/// A variable with `value` in every form.
fn assignments(name: &str, value: &str) -> Vec<String> {
    let is_set = |form: &String| form.starts_with(&format!("{name}="));
    forms(name, value).into_iter().filter(is_set).collect()
}

/// Commands that have the canary in them once, with what each is about.
fn commands() -> Vec<String> {
    let mut all = Vec::new();
    for value in VALUES {
        for (option, _) in ServerOption::all().into_iter().chain([("--not-known", ServerOption::named("-c").unwrap())])
        {
            let lines = forms(option, value);
            all.extend(lines.iter().map(|form| format!("llama-server -m /m/x.gguf {form} -c 4096")));
        }
        for name in variables() {
            for form in assignments(name, value) {
                all.push(format!("{form} llama-server -m /m/x.gguf -c 4096"));
                all.push(format!("docker run -e {form} ghcr.io/ggml-org/llama.cpp:server -m /m/x.gguf -c 4096"));
            }
        }
    }
    all.push("ada@QQcanaryQQ:~/QQcanaryQQ$ ./llama-server -m /m/x.gguf -c 4096".to_owned());
    all.push(r#"llama-server -m "/home/QQcanaryQQ lovelace/x.gguf" -c 4096"#.to_owned());
    all.push(r"llama-server -m \\QQcanaryQQ\share\x.gguf -c 4096 > /home/QQcanaryQQ/log".to_owned());
    all
}

fn assert_hidden(what: &str, shown: &str) {
    assert!(!shown.contains(CANARY), "{what}\n{shown}");
}

#[test]
fn no_value_of_an_option_is_shown_that_no_row_allows() {
    let commands = commands();
    assert!(commands.len() > 5_000, "{}", commands.len());
    for command in &commands {
        let shown = ShownCommand::read(command);
        assert_hidden(command, shown.as_str());
        assert!(shown.as_str().contains("-m x.gguf "), "{command}\n{shown}");
        assert!(shown.as_str().contains(" -c 4096"), "{command}\n{shown}");
        assert_hidden(command, &share::anonymous(std::slice::from_ref(command), &[]).join("\n"));
        let program =
            ProgramSample { command: Some(shown), whole_command: Some(command.clone()), ..ProgramSample::default() };
        let sample = Sample { programs: vec![program], ..Sample::default() };
        assert_hidden(command, &record::line(&sample).unwrap());
    }
}

#[test]
fn no_command_in_a_log_is_shown_with_what_no_row_allows() {
    for command in commands() {
        let seen = Observation::of(&command);
        assert_hidden(&command, &check_json(&seen, 0, None).unwrap());
    }
}

#[test]
fn a_message_of_a_log_is_shared_without_values() {
    for value in VALUES {
        for (option, _) in ServerOption::all().into_iter().filter(|(_, option)| option.takes_value()) {
            for form in forms(option, value) {
                let line = format!("error: started with {form} and more");
                assert_hidden(&line, &share::anonymous(std::slice::from_ref(&line), &[]).join("\n"));
            }
        }
        for name in variables() {
            for form in assignments(name, value) {
                let line = format!("server config env=\"map[{form} OLLAMA_NUM_PARALLEL:4]\"");
                assert_hidden(&line, &share::anonymous(std::slice::from_ref(&line), &[]).join("\n"));
            }
        }
    }
}

const LOADED: &str = "\nload_tensors: offloaded 25/25 layers to GPU\nload_tensors:        CUDA0 model buffer size =   330.17 MiB\n\
    load_tensors:   CPU_Mapped model buffer size =   137.94 MiB\nllama_context: n_ctx         = 4096\n\
    llama_context:  CUDA_Host  output buffer size =     0.58 MiB\nllama_kv_cache:      CUDA0 KV buffer size =    48.00 MiB\n\
    sched_reserve:      CUDA0 compute buffer size =   298.50 MiB\nsched_reserve:  CUDA_Host compute buffer size =    12.02 MiB\n";

/// What a run of the program printed, and the files that it wrote.
fn printed(command: &mut assert_cmd::Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn no_command_prints_or_writes_it() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("qwen2.5-0.5b");
    let model = model.to_str().unwrap();
    // all options that set nothing, at once
    let no_effect =
        |option: &ServerOption| matches!(option, ServerOption::Listed(listed) if listed.kind == ListedKind::NoEffect);
    let options = ServerOption::all().into_iter().filter(|(_, option)| no_effect(option) && option.takes_value());
    // two values, and an option of this program too
    let others = ["--control-vector-layer-range", "--timeout"];
    let options: Vec<&str> = options.map(|(name, _)| name).filter(|name| !others.contains(name)).collect();
    let quoted: Vec<String> = options.iter().map(|option| format!("{option} '{CANARY} {CANARY}'")).collect();
    let command = format!("HF_TOKEN={CANARY} llama-server -m /home/{CANARY}/x.gguf {} -c 4096", quoted.join(" "));
    let log = sandbox.file("server.log", (command.clone() + LOADED).as_bytes());
    let log = log.to_str().unwrap();
    for form in [&[][..], &["--json"], &["--csv"], &["--markdown"], &["--share", "-"]] {
        let run = [&["check", log, "--model", model], form].concat();
        let text = printed(sandbox.plimsoll().args(&run));
        assert!(text.contains("330.17"), "{run:?}\n{text}");
        assert_hidden(&format!("{run:?}"), &text);
    }
    assert_hidden("check without the model", &printed(sandbox.plimsoll().args(["check", log])));

    // a recording of an older version has whole commands
    let program = serde_json::json!({"pid": 7, "name": "llama-server", "command": command});
    let sample = serde_json::json!({"time": 1.0, "devices": [], "programs": [program]});
    let recording = sandbox.file("old.jsonl", (sample.to_string() + "\n").as_bytes());
    for form in [&[][..], &["--json"]] {
        let text = printed(sandbox.plimsoll().args(["watch", "--once", "--replay"]).arg(&recording).args(form));
        assert!(text.contains("llama-server"), "{text}");
        assert_hidden("watch --replay", &text);
    }

    // the program's own arguments and its environment
    let machine = ["--gpu", "24GiB", "--ram", "64GiB", "--engine", "ollama"];
    let kept = sandbox.folder.path().join("plimsoll.log");
    let given: Vec<String> = options.iter().flat_map(|option| [(*option).to_owned(), CANARY.to_owned()]).collect();
    let mut report = sandbox.plimsoll();
    report.args(["report", model]).args(machine).args(&given).arg("--log").arg(&kept);
    // this program refuses wrong values of its own
    for name in variables().into_iter().filter(|name| !name.starts_with("PLIMSOLL_")) {
        report.env(name, CANARY);
    }
    let text = printed(&mut report);
    assert!(text.contains("### Plan") && text.contains("LLAMA_ARG_ALIAS=…"), "{text}");
    assert_hidden("report", &text);
    let written = fs::read_to_string(&kept).unwrap();
    assert!(written.contains("arguments: ") && written.contains("HF_TOKEN=…"), "{written}");
    assert_hidden("--log", &written);
    let text = printed(sandbox.plimsoll().args(["plan", model, "--command", &command, "--log"]).arg(&kept));
    assert_hidden("plan --command", &text);
    let written = fs::read_to_string(&kept).unwrap();
    assert_hidden("--log", &written);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    }

    // exports: what a server inherits and no plan needs is in none
    // an unknown device is refused by its name, which was typed
    let variables = variables().into_iter().filter(|name| *name != "LLAMA_ARG_DEVICE");
    let variables: Vec<String> = variables.map(|name| format!("--server-env={name}={CANARY}")).collect();
    for form in
        ["modelfile", "options", "env", "systemd", "compose", "k8s", "plimsoll", "scenario", "json", "markdown", "svg"]
    {
        let text = printed(sandbox.plimsoll().args(["export", model, "--as", form]).args(machine).args(&variables));
        assert!(!text.is_empty() && !text.contains("error: "), "{form}\n{text}");
        assert_hidden(form, &text);
    }
    let address = format!("https://me:{CANARY}@127.0.0.1:9/x.gguf?sig={CANARY}");
    assert_hidden("an address", &printed(sandbox.plimsoll().args(["plan", &address]).args(machine)));
}
