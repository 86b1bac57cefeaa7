//! What scripts and agents use: the examples of `SKILL.md`, the tools of `plimsoll mcp`, and the steps and hooks in `packaging`.

use std::fs;

use serde_json::{Value, json};

use super::{Sandbox, described};
use crate::support::root;

/// The examples of `SKILL.md`: a command, and the keys and values that it states.
fn examples() -> Vec<(String, Vec<(String, Value)>)> {
    let text = fs::read_to_string(root().join("SKILL.md")).unwrap();
    let parts = text.split("```sh\n").skip(1);
    let example = |part: &str| {
        let (command, rest) = part.split_once("\n```\n").unwrap();
        let rows = rest.lines().take_while(|line| !line.starts_with('#'));
        let stated = rows.filter_map(|row| {
            let (key, value) = row.strip_prefix("| `/")?.strip_suffix("` |")?.split_once("` | `")?;
            Some((format!("/{key}"), serde_json::from_str(value).unwrap()))
        });
        (command.to_owned(), stated.collect())
    };
    parts.map(example).collect()
}

/// The words of a command as a shell reads them.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('"').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn examples_of_the_skill_are_true() {
    let sandbox = Sandbox::new();
    let examples = examples();
    assert!(examples.len() >= 5);
    for (command, stated) in examples {
        let output = sandbox.plimsoll().args(&words(&command)[1..]).assert().success().get_output().clone();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(stated.len() >= 2, "{command}");
        for (key, value) in stated {
            assert_eq!(answer.pointer(&key), Some(&value), "{command}\n{key}");
        }
    }
}

/// What `plimsoll mcp` answers to these messages.
fn conversation(sandbox: &Sandbox, messages: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = messages.iter().map(|message| format!("{message}\n")).collect();
    let lines = lines.concat();
    let output = sandbox.plimsoll().arg("mcp").write_stdin(lines).assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

const MACHINE: [&str; 2] = ["RTX 4070", "64GiB"];

#[test]
fn tools_answer_by_their_schemas_what_commands_print() {
    let sandbox = Sandbox::new();
    let [gpu, ram] = MACHINE;
    let about = |model: &str| json!({ "model": model, "gpu": [gpu], "ram": ram, "ctx": 16384 });
    let asked = [
        ("plan", about("catalogue:qwen3-14b")),
        ("max", json!({ "model": "catalogue:qwen3-14b", "gpu": [gpu], "ram": ram, "options": ["--for", "parallel"] })),
        ("why", about("catalogue:qwen3-14b")),
        ("best", about("catalogue:qwen3-8b")),
        ("need", json!({ "model": "catalogue:qwen3-8b", "options": ["--speed", "20"] })),
        ("list", json!({ "search": "qwen3 coding", "gpu": [gpu], "ram": ram, "options": ["--limit", "2"] })),
        ("check", json!({ "log": "example" })),
    ];
    let mut messages = vec![
        request(0, "initialize", &json!({ "protocolVersion": "2025-06-18", "capabilities": {} })),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        request(1, "tools/list", &json!({})),
    ];
    messages.extend((2..).zip(&asked).map(|(id, (tool, arguments))| call(id, tool, arguments)));
    let answers = conversation(&sandbox, &messages);
    assert_eq!(answers.len(), messages.len() - 1);
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers[0]["result"]["capabilities"]["tools"], json!({}));
    let tools = answers[1]["result"]["tools"].as_array().unwrap();
    for ((tool, arguments), answer) in asked.iter().zip(&answers[2..]) {
        let offered = tools.iter().find(|offered| offered["name"] == *tool).unwrap();
        assert!(offered["description"].as_str().is_some_and(|what| what.len() > 20), "{offered}");
        let input = &offered["inputSchema"];
        let unknown = arguments.as_object().unwrap().keys().find(|name| input["properties"].get(*name).is_none());
        assert_eq!(unknown, None);
        let result = &answer["result"];
        assert!(result.get("isError").is_none(), "{tool}: {result}");
        described::check(&offered["outputSchema"], &result["structuredContent"]).unwrap();
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"]);
    }
    let plan = &answers[2]["result"]["structuredContent"];
    let command = ["plan", "--gpu", gpu, "--ram", ram, "--ctx", "16384", "--json", "--", "catalogue:qwen3-14b"];
    let printed = sandbox.plimsoll().args(command).output().unwrap().stdout;
    assert_eq!(*plan, serde_json::from_slice::<Value>(&printed).unwrap());
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_written() {
    let sandbox = Sandbox::new();
    let log = sandbox.folder.path().join("written");
    let written = format!("--log={}", log.display());
    let answers = conversation(
        &sandbox,
        &[
            call(1, "plan", &json!({ "model": "catalogue:nosuch" })),
            call(2, "plan", &json!({})),
            call(3, "erase", &json!({ "model": "catalogue:qwen3-8b" })),
            call(4, "plan", &json!({ "model": "catalogue:qwen3-8b", "options": [written] })),
            call(5, "plan", &json!({ "model": "catalogue:qwen3-8b", "colour": "red" })),
            request(6, "resources/list", &json!({})),
            call(7, "plan", &json!({ "model": "--version" })),
            call(8, "help", &json!({ "command": "plan" })),
            request(9, "ping", &json!({})),
            call(10, "plan", &json!({ "model": "catalogue:qwen3-8b", "gpu": ["6GiB"], "options": ["--fits", "vram"] })),
        ],
    );
    let text = |at: usize| answers[at]["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(answers[0]["result"]["isError"] == true && text(0).starts_with("error: "), "{}", answers[0]);
    for at in [1, 2, 3, 4] {
        assert_eq!(answers[at]["error"]["code"], -32602, "{}", answers[at]);
    }
    assert_eq!(answers[5]["error"]["code"], -32601);
    assert!(answers[6]["result"]["isError"] == true, "{}", answers[6]);
    assert!(text(7).contains("--flash-attn"), "{}", answers[7]);
    assert_eq!(answers[8]["result"], json!({}));
    // the plan is an answer, and beside it stands why it does not fit as asked
    let fits = &answers[9]["result"];
    assert!(fits.get("isError").is_none() && fits["structuredContent"]["outcome"] == "layers-in-ram", "{fits}");
    assert!(fits["content"][1]["text"].as_str().is_some_and(|said| said.contains("--fits vram: ")), "{fits}");
    assert!(!log.exists());
    let garbage = sandbox.plimsoll().arg("mcp").write_stdin("no JSON\n\n[]\n").output().unwrap();
    let answer: Value = serde_json::from_slice(&garbage.stdout).unwrap();
    assert_eq!((&answer["error"]["code"], answer["id"].is_null()), (&json!(-32700), true));
}

#[cfg(unix)]
mod shell {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::{Command, Output};

    use super::super::Sandbox;
    use crate::support::root;

    /// A folder that stands first on PATH: with this program, and one named ollama that says what it is called with.
    fn programs(sandbox: &Sandbox) -> std::path::PathBuf {
        let folder = sandbox.folder.path().join("bin");
        fs::create_dir_all(&folder).unwrap();
        let script = |name: &str, text: &str| {
            fs::write(folder.join(name), text).unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        script("plimsoll", &format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_plimsoll")));
        script("ollama", "#!/bin/sh\necho ollama \"$@\"\n");
        folder
    }

    fn command(sandbox: &Sandbox, program: &Path) -> Command {
        let path = format!("{}:{}", programs(sandbox).display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command.env("PATH", path).env("HOME", sandbox.folder.path()).current_dir(sandbox.folder.path());
        command
    }

    fn out(output: &Output) -> (Option<i32>, String, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_answer_that_cannot_be_written_ends_with_status_1() {
        use std::io::Write;
        use std::process::Stdio;

        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut mcp = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        mcp.arg("mcp").stdin(Stdio::piped()).stdout(full).stderr(Stdio::null());
        let mut child = mcp.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1));
    }

    #[test]
    fn a_model_is_pulled_only_if_it_fits() {
        let sandbox = Sandbox::new();
        let pull = |gpu: &str, anyway: &str| {
            let mut hook = command(&sandbox, &root().join("packaging/hooks/pull"));
            hook.args(["catalogue:qwen3-8b", "--gpu", gpu, "--ram", "64GiB"]).env("PLIMSOLL_ANYWAY", anyway);
            out(&hook.output().unwrap())
        };
        assert_eq!(pull("24GiB", ""), (Some(0), "ollama pull catalogue:qwen3-8b\n".to_owned(), String::new()));
        let (status, said, why) = pull("6GiB", "");
        assert_eq!((status, said.as_str()), (Some(5), ""));
        assert!(why.contains("--fits vram: ") && why.contains("plimsoll why"), "{why}");
        assert_eq!(pull("6GiB", "1").1, "ollama pull catalogue:qwen3-8b\n");
        let (status, ..) = out(&command(&sandbox, &root().join("packaging/hooks/pull")).output().unwrap());
        assert_eq!(status, Some(2));
    }

    /// The script of the action's step, which the tests run as a runner does.
    fn step() -> String {
        let action = fs::read_to_string(root().join("packaging/action/action.yml")).unwrap();
        let (_, script) = action.split_once("      run: |\n").unwrap();
        let lines: Vec<&str> = script.lines().map(|line| line.strip_prefix("        ").unwrap_or(line)).collect();
        lines.join("\n")
    }

    #[test]
    fn the_step_of_the_action_ends_as_the_plan_does() {
        let sandbox = Sandbox::new();
        let run = |options: &str, fits: &str| {
            let [output, summary] = ["output", "summary"].map(|name| sandbox.file(name, b""));
            let mut bash = command(&sandbox, Path::new("bash"));
            bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step()]);
            bash.env("MODEL", "catalogue:qwen3-14b").env("FITS", fits).env("OPTIONS", options);
            bash.env("PROGRAM", "plimsoll").env("GITHUB_OUTPUT", &output).env("GITHUB_STEP_SUMMARY", &summary);
            let (status, _, why) = out(&bash.output().unwrap());
            let read = |path| fs::read_to_string(path).unwrap();
            (status, why, read(output), read(summary))
        };
        let (status, why, output, summary) = run("--gpu \"RTX 4090\" --ram 64GiB", "vram");
        assert_eq!((status, why.as_str(), output.as_str()), (Some(0), "", "outcome=vram\n"));
        assert!(summary.contains("All in VRAM") && summary.contains("RTX 4090"), "{summary}");
        let (status, why, output, _) = run("--gpu 'RTX 4070' --ram 64GiB --ctx 32k", "vram");
        assert_eq!((status, output.as_str()), (Some(5), "outcome=layers-in-ram\n"));
        assert!(why.contains("--fits vram: "), "{why}");
        // words of options are no commands
        let (status, why, ..) = run("--gpu $(touch made) --ram 64GiB", "vram");
        assert!(status == Some(2) && !sandbox.folder.path().join("made").exists(), "{why}");
    }
}
