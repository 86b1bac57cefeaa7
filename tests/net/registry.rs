//! Ollama's registry.

use plimsoll::source::TagParameters;
use plimsoll::units::Bytes;
use serde_json::json;

use super::server::{RecordedRequest, Reply, Server, file};
use super::{TestNetwork, small};

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn layer(kind: &str, letter: char, size: u64) -> serde_json::Value {
    json!({ "mediaType": format!("application/vnd.ollama.image.{kind}"), "digest": digest(letter), "size": size })
}

/// A registry with one model, whose blobs are behind a redirect as in the real one.
fn registry(seen: &RecordedRequest) -> Reply {
    let manifest = json!({ "schemaVersion": 2, "layers": [
        layer("model", 'a', 5_000_000), layer("params", 'b', 40), layer("projector", 'c', 900), layer("adapter", 'd', 400),
    ]});
    match seen.path.strip_prefix("/v2/library/m/") {
        Some("manifests/8b") => Reply::ok(manifest.to_string()),
        Some("manifests/safetensors") => Reply::ok(json!({ "layers": [layer("tensor", 'a', 1)] }).to_string()),
        Some("manifests/none") => Reply::ok("<html>"),
        Some("manifests/broken") => Reply::ok(
            json!({ "layers": [{ "mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x" }] })
                .to_string(),
        ),
        Some("manifests/private") => Reply::status(401)
            .with("WWW-Authenticate", "Bearer realm=\"http://127.0.0.1:1/token\",service=\"r\",scope=\"s\""),
        Some(path) if path.starts_with("blobs/") => Reply::to(format!("/cdn/{}", &path["blobs/".len()..])),
        _ => match seen.path.strip_prefix("/cdn/sha256:").and_then(|hex| hex.chars().next()) {
            Some('a') => file(seen, &small("From the registry", 5_000_000)),
            Some('b') => Reply::ok("{\"num_ctx\":16384,\"num_gpu\":12,\"stop\":[\"x\"]}"),
            Some('c') => file(seen, &small("Projector", 0)),
            Some('d') => file(seen, &small("Adapter", 0)),
            _ => Reply::status(404),
        },
    }
}

#[test]
fn a_model_is_opened_by_its_name() {
    let server = Server::start(registry);
    let here = TestNetwork::new(&server.url);
    for name in ["m:8b", "ollama://m:8b", "library/m:8b"] {
        let opened = here.load(name).unwrap();
        assert_eq!(opened.name, "m:8b");
        assert_eq!(opened.header.metadata.get("general.name").unwrap().as_str(), Some("From the registry"));
        assert_eq!(
            opened.knobs,
            TagParameters { num_ctx: Some(16_384), num_gpu: Some(12), ..TagParameters::default() }
        );
        // two tensors of f32 each: 64 × 4 and 64 × 64
        let bytes = Bytes(4 * (256 + 4096));
        assert_eq!(
            (opened.remote_projector.map_or(Bytes::ZERO, |projector| projector.tensor_bytes), opened.remote_adapters),
            (bytes, bytes)
        );
    }
    assert!(server.sent() < 2 << 20, "{}", server.sent());
    // blobs never change: the second time only the manifest and the parameters are fetched
    let blobs = server.seen().iter().filter(|seen| seen.path.contains("aaaa")).count();
    assert_eq!(blobs, 2, "one redirect, one piece");
    assert!(
        server
            .seen()
            .iter()
            .filter(|seen| seen.path.contains("manifests"))
            .all(|seen| seen.field("accept").unwrap().contains("manifest.v2"))
    );
}

#[test]
fn missing_registry_entries_are_reported() {
    let server = Server::start(registry);
    let here = TestNetwork::new(&server.url);
    for (name, description) in [
        ("m:70b", "'m:70b' is neither a file nor an Ollama model on this machine or in its registry"),
        ("other", "neither a file"),
        ("m:safetensors", "stored as safetensors"),
        ("m:none", "did not return a manifest"),
        ("m:broken", "an invalid digest"),
        ("m:private", "there is no Ollama key: sign in with 'ollama signin'"),
    ] {
        let said = here.refused(name);
        assert!(said.contains(description), "{name}: {said}");
    }
}

#[test]
fn without_a_network_the_reason_is_reported() {
    let url = { Server::start(registry).url.clone() };
    let said = TestNetwork::new(&url).refused("m:8b");
    assert!(
        said.starts_with("'m:8b' was not found: it is neither a file nor a model on this machine, and '127.0.0.1:"),
        "{said}"
    );
}

#[test]
fn a_header_is_that_of_the_registry_it_came_from() {
    let with = |name: &'static str| {
        Server::start(move |seen| match seen.path.as_str() {
            "/v2/library/m/manifests/8b" => Reply::ok(json!({ "layers": [layer("model", 'a', 900)] }).to_string()),
            path if path.contains("/blobs/") => file(seen, &small(name, 0)),
            _ => Reply::status(404),
        })
    };
    let (first, second) = (with("false"), with("true"));
    let mut here = TestNetwork::new(&first.url);
    let name = |here: &TestNetwork| {
        let opened = here.load("m:8b").unwrap();
        opened.header.metadata.get("general.name").unwrap().as_str().unwrap().to_owned()
    };
    assert_eq!(name(&here), "false");
    here.network().registry.clone_from(&second.url);
    assert_eq!(name(&here), "true", "the same digest, which no header proves");
    let asked = second.seen().len();
    assert_eq!((name(&here), second.seen().len()), ("true".to_owned(), asked + 1), "only its manifest again");
}
