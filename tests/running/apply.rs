//! `plimsoll apply` on stand-ins of Ollama and llama-server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::export::ModelLocation;
use plimsoll::machine::Machine;
use plimsoll::running::apply::{Target, prepare};
use plimsoll::settings::{Context, Settings};
use plimsoll::source::{Network, Roots};
use serde_json::Value;

use super::StandIn;
use crate::fixtures;
use crate::net::server::{Reply, Server};

const NAME: &str = "llama3.1:8b";

fn target(engine: EngineId, location: ModelLocation) -> Target {
    let machine = Machine::described(&["RTX 3060"], "64GiB").unwrap();
    let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
    let request = PlanRequest::new(engine, fixtures::model("llama3.1-8b"), machine, settings);
    let plan = request.plan().unwrap();
    Target { request, plan, location, server: None, stays: false }
}

fn roots(url: &str) -> Roots {
    let network = Network { ollama: Some(url.to_owned()), ollama_is_named: true, ..nowhere() };
    Roots { network: Some(network), ..Roots::default() }
}

/// A network without servers.
fn nowhere() -> Network {
    Network { registry: "http://127.0.0.1:9".to_owned(), ..Network::default() }
}

/// Whether it agrees with what else is said, or why it did not load.
type Outcome = Result<(bool, Vec<String>), String>;

/// Applies to a stand-in: what is said before, the outcome, and the bodies of the loads.
fn applied(stand_in: StandIn, latency: Duration) -> (Vec<String>, Outcome, Vec<Value>) {
    let server = Server::slow(latency, move |seen| stand_in.answer(seen));
    let target = target(EngineId::default(), ModelLocation::Ollama(NAME.to_owned()));
    let prepared = prepare(target, roots(&server.url)).unwrap();
    let loads = |path: &str| ["/api/generate", "/api/embed"].contains(&path);
    assert!(!server.seen().iter().any(|seen| loads(&seen.path)), "nothing happens before it is asked for");
    let before = [vec![prepared.what.clone()], prepared.unloads.clone(), prepared.notes.clone()].concat();
    let outcome = prepared.run(&mut |_, _| std::ops::ControlFlow::Continue(()));
    let outcome = outcome.map(|applied| (applied.agrees(), applied.also()));
    let loads = server.seen().into_iter().filter(|seen| loads(&seen.path));
    let loads = loads.map(|seen| serde_json::from_str(&seen.body).unwrap()).collect();
    (before, outcome.map_err(|failure| [vec![failure.sentence], failure.advice].concat().join("\n")), loads)
}

/// What the plan says that `/api/ps` lists.
fn planned() -> (u64, u64) {
    let ps = target(EngineId::default(), ModelLocation::Ollama(NAME.to_owned())).plan.ollama_ps.unwrap();
    (ps.size.0, ps.vram.0)
}

#[test]
fn a_model_is_loaded_with_the_options_that_the_plan_sets() {
    let (size, vram) = planned();
    let stand_in = StandIn { then: vec![(NAME, size, vram, 8192)], ..StandIn::new() };
    let (before, outcome, loads) = applied(stand_in, Duration::ZERO);
    assert!(before[0].contains("num_ctx 8192"), "{before:?}");
    assert_eq!(loads.len(), 1);
    assert_eq!((&loads[0]["model"], &loads[0]["options"]), (&NAME.into(), &serde_json::json!({ "num_ctx": 8192 })));
    assert!(loads[0].get("prompt").is_none() && loads[0].get("keep_alive").is_none());
    assert!(outcome.unwrap().0);
}

#[test]
fn another_size_or_context_is_no_plan_come_true() {
    let (size, vram) = planned();
    let half = StandIn { then: vec![(NAME, size, vram / 2, 8192)], ..StandIn::new() };
    assert!(!applied(half, Duration::ZERO).1.unwrap().0);
    let short = StandIn { then: vec![(NAME, size, vram, 4096)], ..StandIn::new() };
    let (agrees, also) = applied(short, Duration::ZERO).1.unwrap();
    assert!(!agrees && also.iter().any(|said| said.contains("4\u{2009}096")), "{also:?}");
}

#[test]
fn what_is_loaded_already_is_said_before() {
    let stand_in = StandIn { loaded: vec![("mistral:7b", 6 << 30, 6 << 30, 4096)], ..StandIn::new() };
    let (before, ..) = applied(stand_in, Duration::ZERO);
    assert!(before.iter().any(|said| said.contains("mistral:7b")), "{before:?}");
}

#[test]
fn a_load_that_fails_is_said_in_ollamas_words_with_advice() {
    let error = r#"{"error":"model requires more system memory (8.4 GiB) than is available (5.6 GiB)\u001b[31m"}"#;
    let refusal = Reply { body: error.into(), ..Reply::status(500) };
    let failed = applied(StandIn { load: Some(refusal), ..StandIn::new() }, Duration::ZERO).1.unwrap_err();
    assert!(failed.contains("requires more system memory (8.4 GiB) than is available (5.6 GiB)"), "{failed}");
    assert!(failed.lines().count() > 1 && !failed.contains('\u{1b}'), "{failed}");
}

#[test]
fn rubbish_and_silence_are_one_sentence() {
    let rubbish = applied(StandIn { load: Some(Reply::ok("<html>")), ..StandIn::new() }, Duration::ZERO).1.unwrap_err();
    assert!(rubbish.contains("no Ollama"), "{rubbish}");
    let busy = Reply::status(503);
    let busy = applied(StandIn { load: Some(busy), ..StandIn::new() }, Duration::ZERO).1.unwrap_err();
    assert!(busy.contains("503"), "{busy}");
    let lost = applied(StandIn::new(), Duration::ZERO).1.unwrap_err();
    assert!(lost.contains("does not list it"), "{lost}");
    let target = target(EngineId::default(), ModelLocation::Ollama(NAME.to_owned()));
    let silent = prepare(target, roots("http://127.0.0.1:9")).map(|_| ()).unwrap_err();
    assert!(silent.contains("does not answer at http://127.0.0.1:9") && !silent.contains('\n'), "{silent}");
}

#[test]
fn a_slow_load_can_be_left() {
    let server = Server::slow(Duration::from_millis(300), |seen| StandIn::new().answer(seen));
    let target = target(EngineId::default(), ModelLocation::Ollama(NAME.to_owned()));
    let prepared = prepare(target, roots(&server.url)).unwrap();
    let mut reports = 0;
    let left = prepared.run(&mut |_, _| {
        reports += 1;
        std::ops::ControlFlow::Break(())
    });
    assert!(left.unwrap_err().sentence.contains("goes on loading"));
    assert_eq!(reports, 1);
}

#[test]
fn a_file_is_not_given_to_ollama_and_a_name_not_to_llama_server() {
    let file = target(EngineId::default(), ModelLocation::File("m.gguf".to_owned()));
    assert!(prepare(file, roots("http://127.0.0.1:9")).map(|_| ()).unwrap_err().contains("ollama create"));
    let name = target(EngineId::LlamaCpp, ModelLocation::Ollama(NAME.to_owned()));
    assert!(prepare(name, roots("http://127.0.0.1:9")).map(|_| ()).unwrap_err().contains("name a .gguf file"));
}

/// A router with two models; its answers to `GET /models` in order, the last one for ever.
fn router(statuses: &'static [&'static str], load: Reply) -> Server {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Server::slow(Duration::ZERO, move |seen| match seen.path.as_str() {
        "/models/load" => load.clone(),
        "/models" => {
            let now = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed).min(statuses.len() - 1);
            let command = r#"["llama-server","-m","/m/m.gguf","-c","4096"]"#;
            let mine = format!(r#"{{"id":"mine","aliases":["m2"],"status":{{"args":{command},{}}}}}"#, statuses[now]);
            let other = r#"{"id":"ggml-org/other-GGUF:Q4_K_M","status":{"value":"unloaded","args":[]}}"#;
            Reply::ok(format!(r#"{{"data":[{mine},{other}],"object":"list"}}"#))
        }
        _ => Reply::status(404),
    })
}

const UNLOADED: &str = r#""value":"unloaded""#;
const LOADING: &str = r#""value":"loading""#;
const LOADED: &str = r#""value":"loaded""#;
const FAILED: &str = r#""value":"unloaded","failed":true,"exit_code":1"#;

/// What a router's load comes to: what is said before, and the outcome.
fn routed(server: &Server, location: ModelLocation) -> Result<(Vec<String>, Outcome), String> {
    let target = target(EngineId::LlamaCpp, location);
    let prepared = prepare(Target { server: Some(server.url.clone().into()), ..target }, roots("http://127.0.0.1:9"))?;
    assert!(!server.seen().iter().any(|seen| seen.path == "/models/load"), "nothing happens before it is asked for");
    let before = [vec![prepared.what.clone()], prepared.notes.clone()].concat();
    let outcome = prepared.run(&mut |_, _| std::ops::ControlFlow::Continue(()));
    let outcome = outcome.map(|applied| (applied.agrees(), applied.also()));
    Ok((before, outcome.map_err(|failure| [vec![failure.sentence], failure.advice].concat().join("\n"))))
}

#[test]
fn a_router_is_asked_to_load_the_model_that_is_meant() {
    let success = || Reply::ok(r#"{"success":true}"#);
    for location in [
        ModelLocation::File("/m/m.gguf".to_owned()),
        ModelLocation::File("/other/mine.gguf".to_owned()),
        ModelLocation::Unknown("m2".to_owned()),
    ] {
        let server = router(&[UNLOADED, UNLOADED, LOADING, LOADED], success());
        let (before, outcome) = routed(&server, location).unwrap();
        assert!(before[0].contains("loads mine") && before[1].contains("-c 4096"), "{before:?}");
        outcome.unwrap();
        let loads: Vec<_> = server.seen().into_iter().filter(|seen| seen.path == "/models/load").collect();
        assert_eq!(loads.len(), 1);
        assert_eq!(serde_json::from_str::<Value>(&loads[0].body).unwrap(), serde_json::json!({ "model": "mine" }));
    }
}

#[test]
fn a_router_that_does_not_load_says_why_in_one_sentence() {
    let file = || ModelLocation::File("/m/m.gguf".to_owned());
    let success = || Reply::ok(r#"{"success":true}"#);
    let ended = routed(&router(&[UNLOADED, UNLOADED, LOADING, FAILED], success()), file()).unwrap().1.unwrap_err();
    assert!(ended.contains("ended with status 1") && ended.lines().count() > 1, "{ended}");
    let words = r#"{"error":{"code":400,"message":"model is already running","type":"invalid_request_error"}}"#;
    let refusal = Reply { body: words.into(), ..Reply::status(400) };
    let refused = routed(&router(&[UNLOADED], refusal), file()).unwrap().1.unwrap_err();
    assert!(refused.contains("model is already running"), "{refused}");
    let already = routed(&router(&[LOADED], success()), file()).unwrap_err();
    assert!(already.contains("is loaded by the router"), "{already}");
    let unknown = routed(&router(&[UNLOADED], success()), ModelLocation::Unknown("x".to_owned())).unwrap_err();
    assert!(unknown.contains("it has mine, ggml-org/other-GGUF:Q4_K_M"), "{unknown}");
    let rubbish = Server::slow(Duration::ZERO, |_| Reply::ok("<html>"));
    assert!(routed(&rubbish, file()).unwrap_err().contains("no router"));
}

/// A program in place of llama-server.
fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("llama-server");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, path)
}

fn started(text: &str, mut report: impl FnMut() -> bool) -> Result<(), String> {
    let (_folder, path) = script(text);
    let target = target(EngineId::LlamaCpp, ModelLocation::File("/m/m.gguf".to_owned()));
    let prepared = prepare(Target { server: Some(path), ..target }, Roots::default()).unwrap();
    let outcome = prepared.run(&mut |_, _| {
        if report() { std::ops::ControlFlow::Continue(()) } else { std::ops::ControlFlow::Break(()) }
    });
    outcome.map(|_| ()).map_err(|failure| failure.sentence)
}

#[test]
fn a_server_that_dies_is_said_in_its_words() {
    let said = started(
        "echo '0.01.2 E srv  load_model: failed to load model, unable to allocate CUDA0 buffer' >&2; exit 1",
        || true,
    );
    let said = said.unwrap_err();
    assert!(said.contains("unable to allocate CUDA0 buffer") && said.contains("exit status: 1"), "{said}");
    let log = said.rsplit("Its log: ").next().unwrap();
    assert!(fs::read_to_string(log).unwrap().contains("unable to allocate"));
    fs::remove_file(log).unwrap();
}

#[test]
fn a_server_that_hangs_is_ended_with_the_user_s_patience() {
    let pids = tempfile::tempdir().unwrap();
    let file = pids.path().join("pid");
    let mut waited = 0;
    let said = started(&format!("echo $$ > {}; exec sleep 1000", file.display()), || {
        waited += 1;
        !fs::exists(&file).unwrap() || waited < 3
    });
    assert!(said.unwrap_err().contains("has ended"));
    let pid = fs::read_to_string(&file).unwrap();
    assert!(!fs::exists(format!("/proc/{}", pid.trim())).unwrap());
}

#[test]
fn a_program_that_is_not_there_is_one_sentence() {
    let target = target(EngineId::LlamaCpp, ModelLocation::File("/m/m.gguf".to_owned()));
    let prepared =
        prepare(Target { server: Some("/nowhere/llama-server".into()), ..target }, Roots::default()).unwrap();
    let failed = prepared.run(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap_err();
    assert!(failed.sentence.contains("was not found") && failed.sentence.contains("--server"), "{}", failed.sentence);
}
