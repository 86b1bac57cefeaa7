//! Whatever comes through a door ends soon and takes little: files, pasted text, options, and servers that answer wrongly,
//! too much, too slowly, or for ever. Processor time and memory are those of the program, so a busy computer changes
//! neither.
#![cfg(all(target_os = "linux", feature = "net"))]
#![allow(clippy::format_collect, reason = "made once; readability wins")]

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rstest::rstest;

use super::Sandbox;
use super::inputs::INPUTS;
use crate::net::raw::raw;

/// Seconds of processor time, after which the system ends it.
const CPU: u32 = 2;
/// The most memory.
const MEMORY: u64 = 200 << 20;
/// What no run takes, however busy the computer is.
const WALL: Duration = Duration::from_mins(1);

const MIB: usize = 1 << 20;

/// Texts that a reader may stumble over, of about so many bytes.
fn shapes(length: usize) -> Vec<(&'static str, String)> {
    let full = |part: &str| part.repeat(length / part.len());
    let aliases = |n: usize| format!("  a{}: &a{} [{}]\n", n + 1, n + 1, format!("*a{n},").repeat(9));
    vec![
        ("one character", full("a")),
        ("a short word", full("ab ")),
        ("short lines", full("a\n")),
        ("brackets", full("[")),
        ("braces", full("{")),
        ("maps", full("{\"a\":")),
        ("lists", format!("[{}0]", full("0,"))),
        ("pairs", format!("{{{}\"b\":0}}", full("\"a\":0,"))),
        ("points", full("a.")),
        ("tables", full("[[a]]\n")),
        ("keys", full("a=1\n")),
        ("aliases", format!("a0: &a0 [x]\n{}", (0..60).map(aliases).collect::<String>())),
        ("dollars", full("$a ")),
        ("quotes", full("\"'")),
    ]
}

/// Texts that begin as commands, or as files that start servers.
fn commands(length: usize) -> Vec<(&'static str, String)> {
    let full = |part: &str| part.repeat(length / part.len());
    let doubled = |n: usize| format!("A{}=$A{n}$A{n}\n", n + 1);
    let doubling: String = (0..40).map(doubled).collect();
    let macros: String = (0..3).map(|n| format!("  m{}: \"{}\"\n", n + 1, format!("${{m{n}}}").repeat(100))).collect();
    let models = |count: usize| (0..count).map(|n| format!("  x{n}:\n    cmd: ${{m3}}\n")).collect::<String>();
    let many: String = (0..length / 20).map(|n| format!("  m{n}: xxxx\n")).collect();
    vec![
        ("patterns", format!("llama-server -m a.gguf -ot \"{}\"", full("a=CPU,"))),
        ("options with patterns", format!("llama-server -m a.gguf {}", full("-ot b=CPU "))),
        ("alternatives", format!("llama-server -m a.gguf -ot \"{}=CPU\"", full("a|"))),
        ("groups", format!("llama-server -m a.gguf -ot \"{}=CPU\"", full("("))),
        ("unknown options", format!("llama-server -m a.gguf {}", full("--abc "))),
        ("unset variables", format!("llama-server -m a.gguf {}", full("%A% "))),
        ("strays", format!("llama-server -m a.gguf {}", full("$B "))),
        ("commands", full("llama-server -m a.gguf\n")),
        ("servers", full("llama-server -m a.gguf; ")),
        (
            "assignments",
            format!("{}llama-server -m a.gguf", (0..length / 10).map(|n| format!("A{n}=1\n")).collect::<String>()),
        ),
        ("doubling", format!("A0=abcdefgh\n{doubling}llama-server -m $A40")),
        ("macros in macros", format!("macros:\n  m0: llama-server -m a.gguf\n{macros}models:\n{}", models(40))),
        ("many macros", format!("macros:\n{many}models:\n  a:\n    cmd: llama-server -m a.gguf ${{m1}}\n")),
        ("sections", full("[a]\nctx-size = 1\n")),
        ("section with keys", format!("[*]\n{}{}", "threads = 1\n".repeat(length / 40), "[a]\n".repeat(400))),
        ("unit", format!("[Service]\n{}ExecStart=llama-server -m a.gguf\n", full("Environment=A=1\n"))),
    ]
}

/// What a run took.
struct Cost {
    cpu: Duration,
    memory: u64,
    wall: Duration,
    status: Option<i32>,
    said: String,
}

impl Cost {
    fn check(&self, what: &str) {
        let Self { cpu, memory, wall, status, said } = self;
        let start: String = said.chars().take(300).collect();
        assert!(status.is_some(), "{what}: ended by the system after {cpu:?} of processor time: {start}");
        assert!(*memory <= MEMORY, "{what}: {} MiB", memory >> 20);
        assert!(*wall <= WALL, "{what}: {wall:?}");
        assert!(said.len() < 8000, "{what}: {} bytes of errors: {start}", said.len());
    }
}

/// The program with these arguments, ended by the system after [`CPU`] seconds of processor time.
fn plimsoll(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let ours = sandbox.plimsoll();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -t {CPU}; exec \"$@\""), "sh"]).arg(ours.get_program()).args(arguments);
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(sandbox.folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Runs it to its end, with `text` on its standard input.
fn run(command: &mut Command, text: Option<String>) -> Cost {
    if text.is_some() {
        command.stdin(Stdio::piped());
    }
    let since = Instant::now();
    let mut child = command.spawn().unwrap();
    if let (Some(mut stdin), Some(text)) = (child.stdin.take(), text) {
        // it may end before it has read all
        thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
    }
    let mut errors = child.stderr.take().unwrap();
    let errors = thread::spawn(move || std::io::read_to_string(&mut errors).unwrap_or_default());
    let (mut cpu, mut memory) = (Duration::ZERO, 0);
    loop {
        if let Some((now, most)) = usage(&child) {
            (cpu, memory) = (now, most);
        }
        if let Some(status) = child.try_wait().unwrap() {
            let said = errors.join().unwrap();
            return Cost { cpu, memory, wall: since.elapsed(), status: status.code(), said };
        }
        if since.elapsed() > WALL {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Processor time, in hundredths of a second, and the most memory, so far.
fn usage(child: &Child) -> Option<(Duration, u64)> {
    let about = |file: &str| fs::read_to_string(Path::new("/proc").join(child.id().to_string()).join(file)).ok();
    let stat = about("stat")?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let status = about("status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = peak.trim().strip_suffix(" kB")?.parse().ok()?;
    Some((Duration::from_millis(10 * ticks), kib << 10))
}

#[test]
fn files_end_soon() {
    for input in &INPUTS {
        for (name, text) in shapes(MIB - 100).into_iter().chain(shapes(250 << 10)) {
            let sandbox = Sandbox::new();
            fs::write(input.place(&sandbox), &text).unwrap();
            run(&mut plimsoll(&sandbox, input.arguments), None)
                .check(&format!("{}: {name}", input.arguments.join(" ")));
        }
    }
}

#[test]
fn commands_end_soon() {
    for (name, text) in commands(250 << 10).into_iter().chain(commands(MIB - 4096)).chain(shapes(MIB - 100)) {
        let sandbox = Sandbox::new();
        let file = sandbox.file("a.gguf", b"GGUF");
        assert!(file.exists());
        let arguments = ["plan", "--command", "-", "--gpu", "24GiB", "--ram", "64GiB"];
        run(&mut plimsoll(&sandbox, &arguments), Some(text)).check(&format!("--command -: {name}"));
    }
}

/// A log may hold anything, a command included.
#[test]
fn logs_end_soon() {
    let told = |text: &str| format!("load_model: loading model\n{text}\nllama_context: n_ctx = 4096\n");
    for (name, text) in commands(250 << 10).into_iter().chain(shapes(MIB)).chain(shapes(250 << 10)) {
        for (given, arguments) in [(told(&text), ["check", "-", "--json"]), (text.clone(), ["check", "-", "--share"])] {
            let sandbox = Sandbox::new();
            run(&mut plimsoll(&sandbox, &arguments), Some(given)).check(&format!("{}: {name}", arguments.join(" ")));
        }
    }
}

#[test]
fn lines_end_soon() {
    for (name, text) in shapes(MIB).into_iter().chain(commands(250 << 10)) {
        let sandbox = Sandbox::new();
        let arguments = ["catalogue:qwen3-8b", "--plain", "--gpu", "24GiB", "--ram", "64GiB"];
        // as many lines are as many plans
        let first: String = text.lines().take(20).collect::<Vec<_>>().join("\n");
        run(&mut plimsoll(&sandbox, &arguments), Some(first)).check(&format!("--plain: {name}"));
    }
}

#[test]
fn options_end_soon() {
    let full = |part: &str| part.repeat((100 << 10) / part.len());
    for flag in ["-ot", "--ctx", "--gpu", "--ram", "--tensor-split", "--device", "--option", "--server-env", "--engine"]
    {
        for text in [full("a"), full("a|"), full("("), full("1,"), full("a=CPU,"), full("a=b=")] {
            let sandbox = Sandbox::new();
            let arguments = ["plan", "catalogue:qwen3-8b", "--engine", "llama.cpp", flag, &text];
            run(&mut plimsoll(&sandbox, &arguments), None).check(&format!("{flag} {}", &text[..8]));
        }
    }
}

/// Names that are looked up on a server, and how long the conversation may take.
const CONVERSATIONS: [&[&str]; 6] = [
    &["plan", "SERVER/m.gguf"],
    &["plan", "hf://owner/repository"],
    &["list", "hf://owner/repository"],
    &["plan", "owner/model:tag"],
    &["list", "m:1b"],
    &["watch", "--once"],
];

/// Sends what a server sends that answers `head`, then `body` again and again, waiting in between.
fn answer(stream: &mut TcpStream, head: &str, body: &str, times: usize, wait: Duration) {
    if stream.write_all(head.as_bytes()).is_err() {
        return;
    }
    for _ in 0..times {
        // until nobody listens
        if stream.write_all(body.as_bytes()).is_err() {
            return;
        }
        thread::sleep(wait);
    }
}

fn asked(arguments: &[&str], url: &str) -> Cost {
    let sandbox = Sandbox::new();
    let arguments: Vec<String> = arguments.iter().map(|word| word.replace("SERVER", url)).collect();
    let more = ["--gpu", "24GiB", "--ram", "64GiB", "--timeout", "2"];
    let words: Vec<&str> = arguments.iter().map(String::as_str).chain(more).collect();
    let words = if words[0] == "watch" { &words[..2] } else { &words[..] };
    let mut command = plimsoll(&sandbox, words);
    for name in ["OLLAMA_HOST", "OLLAMA_REGISTRY", "HF_ENDPOINT"] {
        command.env(name, url);
    }
    run(&mut command, None)
}

#[rstest]
#[case::endless("HTTP/1.1 200 OK\r\n\r\n", "a", 0)]
#[case::endless_json("HTTP/1.1 200 OK\r\n\r\n{\"models\":[", "{\"name\":\"a\"},", 0)]
#[case::endless_header("HTTP/1.1 200 OK\r\nX-A: ", "a", 0)]
#[case::dripping("HTTP/1.1 200 OK\r\n\r\n", "{", 20)]
#[case::dripping_head("HTTP/1.1 ", "2", 20)]
#[case::dripping_lines("HTTP/1.1 200 OK\r\n", "A: b\r\n", 20)]
fn conversations_end_soon(#[case] head: &'static str, #[case] body: &'static str, #[case] wait: u64) {
    let body = if wait == 0 { body.repeat((64 << 10) / body.len()) } else { body.to_owned() };
    for arguments in CONVERSATIONS {
        let part = body.clone();
        let (url, _) = raw(move |_, _, stream| answer(stream, head, &part, usize::MAX, Duration::from_millis(wait)));
        let cost = asked(arguments, &url);
        cost.check(&format!("{}: {head:?} {:?}", arguments.join(" "), &body[..1]));
        assert!(cost.wall < Duration::from_secs(20), "{arguments:?}: {:?}", cost.wall);
    }
}

/// One answer to all that is asked.
#[test]
fn answers_end_soon() {
    let tensors = format!("{{\"model_info\":{{\"a\":[{}0]}},\"tensors\":[]}}", "0,".repeat(8 * MIB));
    let keys: String = (0..MIB / 2).map(|n| format!("\"k{n}\":0,")).collect();
    let names: String = (0..200_000).map(|n| format!("{{\"name\":\"m{n}:latest\"}},")).collect();
    let shards: String = (0..70_000).map(|n| format!("{{\"rfilename\":\"m-{n:05}-of-70000.gguf\"}},")).collect();
    let layers = "{\"mediaType\":\"application/vnd.ollama.image.model\",\"digest\":\"sha256:a\"},".repeat(60_000);
    let long = "a.".repeat(MIB);
    let mut bodies = shapes(MIB);
    bodies.extend([
        ("elements", tensors),
        ("keys", format!("{{\"version\":\"0.30.0\",\"model_info\":{{{keys}\"a\":0}}}}")),
        ("names", format!("{{\"version\":\"0.30.0\",\"models\":[{names}{{\"name\":\"a\"}}]}}")),
        ("shards", format!("{{\"siblings\":[{shards}{{\"rfilename\":\"a.gguf\"}}]}}")),
        (
            "a long name",
            format!("{{\"siblings\":[{{\"rfilename\":\"{long}gguf\"}}],\"models\":[{{\"name\":\"{long}\"}}]}}"),
        ),
        ("layers", format!("{{\"layers\":[{layers}{{}}]}}")),
    ]);
    for (name, body) in bodies {
        let (url, _) = raw(move |_, _, stream| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            answer(stream, &head, &body, 1, Duration::ZERO);
        });
        for arguments in CONVERSATIONS {
            asked(arguments, &url).check(&format!("{}: {name}", arguments.join(" ")));
        }
    }
}
