//! The real program with remote models.

use assert_cmd::Command;
use serde_json::{Value, json};

use super::server::{Reply, Server, file};
use crate::cli::schema::printed;
use crate::support;
use crate::support::description;
use plimsoll::gguf::write::Encoding;

fn model() -> Vec<u8> {
    let mut bytes = description::bytes(&support::model_json("llama3.2-1b"), Encoding::default()).unwrap();
    bytes.resize(bytes.len() + (2 << 20), 0);
    bytes
}

/// A registry with one tag that sets `num_ctx` and `num_gpu`.
fn registry() -> Server {
    let bytes = model();
    Server::start(move |seen| {
        let layer = |kind: &str, letter: &str| json!({ "mediaType": format!("application/vnd.ollama.image.{kind}"), "digest": format!("sha256:{}", letter.repeat(64)), "size": 1 });
        match seen.path.as_str() {
            "/v2/library/m/manifests/1b" => {
                Reply::ok(json!({ "layers": [layer("model", "a"), layer("params", "b")] }).to_string())
            }
            path if path.contains("aaaa") => file(seen, &bytes),
            path if path.contains("bbbb") => Reply::ok("{\"num_ctx\": 12288, \"num_gpu\": 5}"),
            _ => Reply::status(404),
        }
    })
}

fn plimsoll(home: &std::path::Path, server: &Server) -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("plimsoll");
    command.env_clear().env("HOME", home).env("OLLAMA_REGISTRY", &server.url).env("HF_ENDPOINT", &server.url);
    command.env("OLLAMA_HOST", "127.0.0.1:9").current_dir(home);
    command
}

#[test]
fn a_plan_starts_with_the_tags_knobs() {
    let (server, home) = (registry(), tempfile::tempdir().unwrap());
    let plan = |more: &[&str]| -> Value {
        let args = ["plan", "m:1b", "--gpu", "24GiB", "--ram", "64GiB", "--json"];
        let output = plimsoll(home.path(), &server).args(args).args(more).assert().success().get_output().clone();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let own = plan(&[]);
    assert_eq!((&own["settings"]["ctx"], &own["offloaded"]), (&json!(12288), &json!(5)));
    let notes = own["notes"].to_string();
    assert!(notes.contains("12288 tokens by the model's tag") && notes.contains("(num_gpu)"), "{notes}");
    let named = plan(&["--ctx", "4096", "--gpu-layers", "all"]);
    assert_eq!(named["settings"]["ctx"], json!(4096));
    assert_ne!(named["offloaded"], json!(5));
}

#[test]
fn a_reference_that_cannot_be_opened_ends_with_status_3() {
    let (server, home) = (registry(), tempfile::tempdir().unwrap());
    for reference in ["m:70b", "hf://o/r", "http://127.0.0.1:9/m.gguf"] {
        let output = plimsoll(home.path(), &server).args(["plan", reference]).assert().code(3).get_output().clone();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn the_cache_is_shown_pruned_and_cleared() {
    let (server, home) = (registry(), tempfile::tempdir().unwrap());
    let cache = |args: &[&str]| -> String {
        let output = plimsoll(home.path(), &server).arg("cache").args(args).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(cache(&[]).starts_with("Nothing is cached"));
    plimsoll(home.path(), &server).args(["plan", "m:1b"]).assert().success();
    let shown = cache(&["show"]);
    assert!(shown.contains("/v2/library/m/blobs/sha256:aaaa") && shown.contains("(just now)"), "{shown}");
    assert_eq!(cache(&["prune"]), "Nothing to remove.\n");
    assert!(cache(&["clear"]).starts_with("Removed 3 answers"));
    assert!(cache(&[]).starts_with("Nothing is cached"));
}

#[test]
fn the_list_names_the_models_of_a_running_ollama() {
    let server = Server::start(super::running::ollama);
    let home = tempfile::tempdir().unwrap();
    let list = |host: &str| -> Value {
        let args = ["list", "--gpu", "24GiB", "--ram", "64GiB", "--engine", "ollama-0.24", "--ctx", "4096", "--json"];
        let mut command = plimsoll(home.path(), &server);
        let output = command.env("OLLAMA_HOST", host).args(args).assert().success().get_output().clone();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let told = list(&server.url);
    let first = &told["models"][0];
    assert_eq!((&first["name"], &first["source"]), (&json!("m:8b"), &json!("running Ollama")));
    assert_eq!((&first["verdict"], &first["reference"]), (&json!("gpu"), &json!("m:8b")));
    // a server that does not answer is reported and the rest is listed
    let refused = list("127.0.0.1:9");
    assert_eq!(refused["models"].as_array().unwrap().len(), told["models"].as_array().unwrap().len() - 1);
    assert!(refused["notes"].to_string().contains("cannot be reached"), "{}", refused["notes"]);
}

#[test]
fn check_compares_what_a_running_ollama_lists() {
    let home = tempfile::tempdir().unwrap();
    let check = |size: u64, vram: u64, status: i32| -> Value {
        let ps = json!({ "models": [{ "name": "qwen3-8b", "model": "qwen3-8b", "digest": "0123456789abcdef",
                                      "size": size, "size_vram": vram, "context_length": 8192 }] });
        let server = Server::start(move |seen| match seen.path.as_str() {
            "/api/ps" => Reply::ok(ps.to_string()),
            _ => Reply::status(404),
        });
        let mut command = plimsoll(home.path(), &server);
        command.env("OLLAMA_HOST", &server.url).args(["check", "--json", "--gpu", "24GiB", "--ram", "64GiB"]);
        let output = command.assert().code(status).get_output().clone();
        printed(&command, &output.stdout)
    };
    let other = check(1, 1, 1);
    let listed = &other["running"][0];
    assert_eq!((&listed["ctx"], &listed["agrees"]), (&json!(8192), &json!(false)));
    let planned = |key: &str| listed["ollama_ps"]["planned"][key].as_u64().unwrap();
    let (size, vram) = (planned("size"), planned("size_vram"));
    assert!(size == vram && size > 5_000_000_000, "{other}");
    assert_eq!(check(size + 1000, vram, 0)["agrees"], true);
}

#[test]
fn offline_asks_no_server() {
    let (server, home) = (registry(), tempfile::tempdir().unwrap());
    let run = |arguments: &[&str], variable: &str| {
        let mut command = plimsoll(home.path(), &server);
        command.env("OLLAMA_HOST", &server.url).env("PLIMSOLL_OFFLINE", variable);
        command.args(arguments).args(["--gpu", "24GiB", "--ram", "64GiB"]).output().unwrap()
    };
    let said = |arguments: &[&str], variable: &str| {
        let output = run(arguments, variable);
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8(output.stderr).unwrap()
    };
    for reference in ["m:1b", "hf://o/r", &format!("{}/m.gguf", server.url)] {
        for (arguments, variable) in [(&["plan", reference, "--offline"][..], ""), (&["plan", reference], "1")] {
            let said = said(arguments, variable);
            assert!(said.contains("is not asked while offline: name a model that"), "{said}");
        }
    }
    // what the catalogue knows is planned by it
    let output = run(&["--offline", "plan", "llama3.1:8b"], "");
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success() && words.contains("not asked while offline"), "{text}");
    let listed = run(&["list", "llama", "--offline"], "");
    assert!(listed.status.success() && !listed.stdout.is_empty());
    assert!(server.seen().is_empty(), "{:?}", server.seen());
    // and what was fetched before, from the cache
    for variable in ["0", "false", ""] {
        assert!(run(&["plan", "m:1b"], variable).status.success(), "{variable}");
    }
    let asked = server.seen().len();
    let output = run(&["plan", "m:1b", "--offline"], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.seen().len(), asked);
}

/// A port that accepts and says nothing.
fn silent() -> String {
    let (url, _) = super::raw::raw(|_, _, _| std::thread::sleep(std::time::Duration::from_mins(1)));
    url
}

#[test]
fn a_silent_port_on_this_machine_costs_little() {
    let (server, home, url) = (registry(), tempfile::tempdir().unwrap(), silent());
    let since = std::time::Instant::now();
    let mut command = plimsoll(home.path(), &server);
    let output = command.env("OLLAMA_HOST", &url).args(["plan", "m:1b", "--gpu", "24GiB"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("OLLAMA_HOST is ignored"), "{text}");
    assert!(since.elapsed().as_secs() < 20, "{:?}", since.elapsed());
}

#[test]
fn the_time_for_servers_can_be_set() {
    let (server, home, url) = (registry(), tempfile::tempdir().unwrap(), silent());
    let since = std::time::Instant::now();
    let address = format!("{url}/m.gguf");
    let mut command = plimsoll(home.path(), &server);
    let output = command.args(["--timeout", "3", "plan", &address]).assert().code(3).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("sent nothing for 1 s: try again later, or wait longer with --timeout"), "{said}");
    assert!(since.elapsed().as_secs() < 12, "{:?}", since.elapsed());
    for wrong in ["0", "-1", "never", "1e9"] {
        let output =
            plimsoll(home.path(), &server).args(["plan", "m:1b", &format!("--timeout={wrong}")]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_proxy_that_is_none_is_said_with_its_variable() {
    let (server, home) = (registry(), tempfile::tempdir().unwrap());
    for (variable, value) in
        [("HTTPS_PROXY", "http://u:hush@[x"), ("all_proxy", "a b"), ("HTTP_PROXY", "http://h:port")]
    {
        let mut away = plimsoll(home.path(), &server);
        let output = away.env(variable, value).args(["plan", "http://hub.invalid/m.gguf"]).assert().code(3);
        let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(said.contains(&format!("{variable} names no proxy")) && !said.contains("hush"), "{said}");
        // none is used on this machine
        let mut here = plimsoll(home.path(), &server);
        here.env(variable, value).args(["plan", "m:1b"]).assert().success();
    }
}
