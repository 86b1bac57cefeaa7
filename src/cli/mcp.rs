//! `plimsoll mcp`: the commands as tools of the Model Context Protocol, a JSON-RPC message a line on standard input and output
//! (modelcontextprotocol.io, revisions 2024-11-05 to 2025-11-25). A tool runs this program with `--json`, so what it answers is
//! what a script gets, by the same schema.

use std::io::{self, BufRead, Read, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::error::{CliError, written};
use super::{manual, schema};

/// Revisions of the protocol that are spoken, the newest first.
const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Bytes of a message at most.
const LONGEST: u64 = 1 << 20;

/// A command that is offered as a tool.
struct Tool {
    /// Its name, and that of its schema.
    command: &'static str,
    /// What it is asked about: the name of the property, what that is, and whether it must be given.
    about: Option<(&'static str, &'static str, bool)>,
}

const MODEL: Option<(&str, &str, bool)> = Some((
    "model",
    "the model: a name of Ollama's library (qwen3:14b), hf://owner/repository:QUANT, catalogue:NAME (needs no network), or \
     the path of a .gguf file",
    true,
));

/// The tools.
const TOOLS: [Tool; 7] = [
    Tool { command: "plan", about: MODEL },
    Tool { command: "max", about: MODEL },
    Tool { command: "why", about: MODEL },
    Tool { command: "best", about: MODEL },
    Tool { command: "need", about: MODEL },
    Tool { command: "list", about: Some(("search", "words that a model's name or use has: qwen3 coding", false)) },
    Tool {
        command: "check",
        about: Some(("log", "the path of a file with the output of llama-server or Ollama", true)),
    },
];

/// The tool that has no schema.
const HELP: &str = "help";

/// Properties of every tool that are options: the name of each, what it is, and whether it may be given several times.
const OPTIONS: [(&str, &str, bool); 7] = [
    (
        "gpu",
        "the GPUs of the machine, one each: RTX 4090, 24GiB, M4 Max 64GB; none for no GPU; else those of this machine",
        true,
    ),
    ("ram", "main memory: 64GiB", false),
    ("engine", "ollama, llama.cpp, mlx, ollama-0.24 or ollama-0.11", false),
    ("ctx", "context in tokens: 32768, 32k, max", false),
    ("quant", "the quantisation: Q4_K_M, Q8_0", false),
    ("kv-type", "the type of the KV cache: f16, q8_0, q4_0", false),
    ("parallel", "sequences at once: 4", false),
];

/// Options that write something, which no tool may.
const WRITING: [&str; 5] = ["--log", "--measured", "--measured-prompt", "--remember", "--share"];

/// Answers messages until standard input ends; `offline` is whether tools may ask no server for models.
///
/// # Errors
/// If standard output is gone.
pub(super) fn run(offline: bool) -> Result<(), CliError> {
    let (mut input, mut out) = (io::stdin().lock(), io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        if read.map_err(|error| CliError::Terminal(format!("standard input: {error}")))? == 0 {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = match serde_json::from_slice(&line) {
            Ok(message) => answer(&message, offline),
            Err(error) => Some(failure(&Value::Null, -32700, &format!("the line is not JSON: {error}"))),
        };
        if let Some(answer) = answer {
            written(writeln!(out, "{answer}").and_then(|()| out.flush()))?;
        }
    }
}

/// The answer to a message; none to a notification.
fn answer(message: &Value, offline: bool) -> Option<Value> {
    let id = message.get("id").filter(|id| !id.is_null())?;
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let params = message.get("params").unwrap_or(&Value::Null);
    let result = match method {
        "initialize" => Ok(initialised(params)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": tools() })),
        "tools/call" => called(params, offline).map_err(|why| (-32602, why)),
        _ => Err((-32601, format!("there is no method '{method}': tools/list and tools/call are answered"))),
    };
    Some(match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err((code, why)) => failure(id, code, &why),
    })
}

fn failure(id: &Value, code: i32, why: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": why } })
}

fn initialised(params: &Value) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let revision = REVISIONS.into_iter().find(|known| Some(*known) == asked).unwrap_or(REVISIONS[0]);
    json!({
        "protocolVersion": revision,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "plimsoll", "title": "plimsoll", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "Plans the memory of local language models to the byte: whether a model fits, at which context, and how \
                         fast. Sizes are in bytes. Nothing is loaded and nothing is written.",
    })
}

/// The tools with their schemas.
fn tools() -> Vec<Value> {
    let commands = manual::command();
    let about = |command: &str| {
        let about = commands.find_subcommand(command).and_then(clap::Command::get_about);
        about.map(ToString::to_string).unwrap_or_default()
    };
    let mut tools: Vec<Value> = TOOLS
        .iter()
        .map(|tool| {
            let mut own = described(tool);
            own["description"] = about(tool.command).into();
            own
        })
        .collect();
    let commands: Vec<&str> = TOOLS.iter().map(|tool| tool.command).collect();
    tools.push(json!({
        "name": HELP,
        "description": "Print the options of a command, for the property 'options' of its tool.",
        "inputSchema": {
            "type": "object",
            "properties": { "command": { "type": "string", "enum": commands } },
            "required": ["command"],
            "additionalProperties": false,
        },
    }));
    tools
}

fn described(tool: &Tool) -> Value {
    let mut properties = serde_json::Map::new();
    let text = |what: &str| json!({ "type": "string", "description": what });
    let list = |what: &str| json!({ "type": "array", "items": { "type": "string" }, "description": what });
    properties.extend(tool.about.map(|(name, what, _)| (name.to_owned(), text(what))));
    for (name, what, is_list) in OPTIONS {
        properties.insert(name.to_owned(), if is_list { list(what) } else { text(what) });
    }
    let further =
        "further options as on the command line, a word an item: [\"--flash-attn\", \"on\"]; the tool help lists them";
    properties.insert("options".to_owned(), list(further));
    let required: Vec<&str> = tool.about.filter(|(.., needed)| *needed).into_iter().map(|(name, ..)| name).collect();
    json!({
        "name": tool.command,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        },
        "outputSchema": schema::of_name(tool.command),
        "annotations": { "readOnlyHint": true },
    })
}

/// What a tool answers.
fn called(params: &Value, offline: bool) -> Result<Value, String> {
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    let given = params.get("arguments").unwrap_or(&Value::Null);
    if name == HELP {
        let command = given.get("command").and_then(Value::as_str).unwrap_or_default();
        let tool = tool(command)?;
        let (out, _) = ran(&[tool.command.to_owned(), "--help".to_owned()])?;
        return Ok(json!({ "content": [text(&out)] }));
    }
    let mut words = arguments(tool(name)?, given)?;
    if offline {
        words.insert(1, "--offline".to_owned());
    }
    let (out, said) = ran(&words)?;
    // a command that ends with another status than 0 may have an answer: a log that differs, a plan that does not fit as asked
    let structured = serde_json::from_str::<Value>(&out).ok().filter(Value::is_object);
    let content: Vec<Value> =
        [&out, &said].into_iter().filter(|said| !said.trim().is_empty()).map(|said| text(said)).collect();
    Ok(match structured {
        Some(structured) => json!({ "content": content, "structuredContent": structured }),
        None => json!({ "content": content, "isError": true }),
    })
}

fn tool(name: &str) -> Result<&'static Tool, String> {
    let named = TOOLS.iter().find(|tool| tool.command == name);
    named.ok_or_else(|| format!("there is no tool '{name}': tools/list lists them"))
}

fn text(what: &str) -> Value {
    json!({ "type": "text", "text": what.trim_end() })
}

/// The command line that a tool's arguments mean.
fn arguments(tool: &Tool, given: &Value) -> Result<Vec<String>, String> {
    let empty = serde_json::Map::new();
    let given = given.as_object().unwrap_or(&empty);
    let mut words = vec![tool.command.to_owned(), "--json".to_owned()];
    let mut about = None;
    for (name, value) in given {
        let values = texts(value).ok_or_else(|| format!("'{name}' is neither a text nor a list of texts"))?;
        if tool.about.is_some_and(|(of, ..)| of == name) {
            about = Some(values);
        } else if name == "options" {
            words.extend(values);
        } else if OPTIONS.iter().any(|(of, ..)| of == name) {
            words.extend(values.into_iter().map(|value| format!("--{name}={value}")));
        } else {
            return Err(format!("the tool '{}' has no property '{name}'", tool.command));
        }
    }
    let is_writing = |word: &&String| WRITING.iter().any(|option| word.split('=').next() == Some(option));
    if let Some(word) = words.iter().find(is_writing) {
        return Err(format!("{word}: tools write nothing"));
    }
    match (about, tool.about) {
        (Some(of), _) => words.extend(std::iter::once("--".to_owned()).chain(of)),
        (None, Some((name, _, true))) => return Err(format!("the tool '{}' needs '{name}'", tool.command)),
        (None, _) => {}
    }
    Ok(words)
}

/// One text, a number, or several.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Number(number) => Some(vec![number.to_string()]),
        Value::Array(values) => values.iter().map(|value| texts(value)?.pop()).collect(),
        _ => None,
    }
}

/// What this program prints when it is run with `arguments`: on standard output, and on standard error.
fn ran(arguments: &[String]) -> Result<(String, String), String> {
    let cannot = |error: io::Error| format!("this program cannot be run again: {error}");
    let program = std::env::current_exe().map_err(cannot)?;
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).output().map_err(cannot)?;
    Ok((String::from_utf8_lossy(&ran.stdout).into_owned(), String::from_utf8_lossy(&ran.stderr).into_owned()))
}
