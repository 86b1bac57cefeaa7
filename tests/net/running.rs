//! Models of a running Ollama.

use plimsoll::gguf::{Elements, GgmlType, Value};
use plimsoll::source::{no_progress, running};
use plimsoll::units::Bytes;
use serde_json::json;

use super::TestNetwork;
use super::server::{RecordedRequest, Reply, Server};

pub fn ollama(seen: &RecordedRequest) -> Reply {
    match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", "/api/tags") => Reply::ok(json!({ "models": [{ "name": "m:8b", "size": 4_900_000_000_u64 }] }).to_string()),
        ("POST", "/api/show") if seen.body.contains("\"m:8b\"") && seen.body.contains("\"verbose\":true") => Reply::ok(
            json!({
                "parameters": "num_ctx                        8192\nstop                           \"<|x|>\"",
                "model_info": {
                    "general.architecture": "llama", "general.file_type": 15, "general.parameter_count": 8_030_261_312_u64,
                    "llama.block_count": 2, "llama.rope.freq_base": 500_000, "llama.attention.head_count_kv": [8, 4],
                    "llama.attention.layer_norm_rms_epsilon": 0.00001, "tokenizer.ggml.tokens": ["a", "b", "c"],
                    "tokenizer.ggml.merges": null, "tokenizer.ggml.scores": [0, -1, -2.5],
                },
                "tensors": [
                    { "name": "token_embd.weight", "type": "Q4_K", "shape": [4096, 3] },
                    { "name": "blk.0.attn_q.weight", "type": "F16", "shape": [4096, 4096] },
                ],
            })
            .to_string(),
        ),
        ("POST", "/api/show") if seen.body.contains("\"old:latest\"") => Reply::ok(json!({ "model_info": {} }).to_string()),
        ("POST", "/api/show") => Reply { body: b"{\"error\":\"model not found\"}".to_vec(), ..Reply::status(404) },
        ("GET", "/api/version") => Reply::ok(json!({ "version": "0.31.2" }).to_string()),
        _ => Reply::status(404),
    }
}

fn here(server: &Server) -> TestNetwork {
    let mut here = TestNetwork::new("http://127.0.0.1:9");
    here.network().ollama = Some(server.url.clone());
    here.network().ollama_is_named = true;
    here
}

#[test]
fn a_model_of_a_running_ollama_is_planned_without_its_file() {
    let server = Server::start(ollama);
    let opened = here(&server).load("m:8b").unwrap();
    assert_eq!(opened.ollama.map(|version| version.to_string()).as_deref(), Some("0.31.2"));
    let get = |key: &str| opened.header.metadata.get(key);
    assert_eq!(get("llama.rope.freq_base"), Some(&Value::F32(500_000.0)));
    assert_eq!(get("llama.block_count"), Some(&Value::U32(2)));
    assert_eq!(get("tokenizer.ggml.tokens").and_then(Value::as_array).unwrap().len, 3);
    assert_eq!(
        get("llama.attention.head_count_kv").and_then(Value::as_array).unwrap().elements,
        Elements::I32(vec![8, 4])
    );
    let tensor = &opened.header.tensors[0];
    assert_eq!((tensor.ty, tensor.dims.as_slice()), (GgmlType::Q4K, [4096, 3].as_slice()));
    assert_eq!(opened.knobs.num_ctx, Some(8192));
    assert!(
        opened.header.notes.iter().any(|note| note.contains("the running Ollama at http://127.0.0.1:")),
        "{:?}",
        opened.header.notes
    );
}

#[test]
fn the_models_of_a_running_ollama_are_listed() {
    let server = Server::start(ollama);
    let tags = running::list_models(here(&server).network(), &mut no_progress).unwrap();
    assert_eq!(tags, [running::RunningModel { name: "m:8b".into(), size: Bytes(4_900_000_000) }]);
}

#[test]
fn missing_models_are_looked_up_in_the_registry() {
    let server = Server::start(ollama);
    let said = here(&server).refused("other:1b");
    assert!(said.contains("'127.0.0.1:9' cannot be reached"), "{said}");
    let said = here(&server).refused("old");
    assert!(said.contains("does not list its tensors: update it"), "{said}");
    let silly = Server::start(|_| Reply::ok("<html>"));
    let said = here(&silly).refused("m:8b");
    assert!(said.contains("check that OLLAMA_HOST points to an Ollama server"), "{said}");
}
