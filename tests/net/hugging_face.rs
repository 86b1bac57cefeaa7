//! Hugging Face: listings, selection, errors, and the token.

use plimsoll::source::http::Secret;
use rstest::rstest;
use serde_json::json;

use super::server::{RecordedRequest, Reply, Server, file};
use super::{TestNetwork, small};

/// A hub with a public repository whose files are on another host, `cdn`.
fn hub(seen: &RecordedRequest, cdn: &str) -> Reply {
    let code = |status, code: &str| Reply::status(status).with("X-Error-Code", code);
    match seen.path.as_str() {
        "/api/models/o/r" => {
            let files = ["README.md", "M-Q4_K_M.gguf", "M-Q8_0.gguf", "mmproj-F16.gguf", "M-F16-00001-of-00002.gguf"];
            let siblings: Vec<_> = files.iter().map(|file| json!({ "rfilename": file })).collect();
            Reply::ok(json!({ "id": "o/r", "siblings": siblings, "gated": false }).to_string())
        }
        "/api/models/o/safetensors" => Reply::ok(json!({ "siblings": [{ "rfilename": "m.safetensors" }] }).to_string()),
        "/api/models/o/gated" => {
            Reply::ok(json!({ "siblings": [{ "rfilename": "M-Q4_K_M.gguf" }], "gated": "manual" }).to_string())
        }
        "/api/models/o/mirror/tree/main?recursive=true" => Reply::ok(json!([{ "path": "q/M-Q5_0.gguf" }]).to_string()),
        "/api/models/o/hidden" => code(401, "RepoNotFound"),
        path if path.starts_with("/o/gated/") => code(403, "GatedRepo"),
        path if path.starts_with("/o/r/resolve/main/nothing") => code(404, "EntryNotFound"),
        path if path.contains("/resolve/") => Reply::to(format!("{cdn}{path}?signature=secret")),
        _ => code(404, "RepoNotFound"),
    }
}

fn start() -> (Server, Server) {
    let cdn = Server::start(|seen| {
        let name = seen.path.split(['/', '?']).find(|part| part.contains(".gguf")).unwrap_or_default().to_owned();
        file(seen, &small(&name, 2 << 20))
    });
    let url = cdn.url.clone();
    (Server::start(move |seen| hub(seen, &url)), cdn)
}

#[rstest]
#[case("hf://o/r", "M-Q4_K_M.gguf")]
#[case("hf://o/r:q8_0", "M-Q8_0.gguf")]
#[case("hf.co/o/r:Q8_0", "M-Q8_0.gguf")]
#[case("https://huggingface.co/o/r/blob/main/M-Q8_0.gguf", "M-Q8_0.gguf")]
#[case("hf://o/mirror", "M-Q5_0.gguf")]
fn a_quantisation_is_selected(#[case] reference: &str, #[case] file: &str) {
    let (hub, _cdn) = start();
    let opened = TestNetwork::new(&hub.url).load(reference).unwrap();
    assert_eq!(opened.header.metadata.get("general.name").unwrap().as_str(), Some(file));
    // a model comes with its repository's projector, also if the file is named
    let projector = if reference.contains("o/r") { 4 * (256 + 4096) } else { 0 };
    assert_eq!(opened.remote_projector.as_ref().map_or(0, |projector| projector.tensor_bytes.0), projector);
    let said = opened.header.notes.iter().any(|note| note.contains("'Q4_K_M' was chosen from 3 quantisations"));
    assert_eq!(said, reference == "hf://o/r", "{:?}", opened.header.notes);
}

#[test]
fn a_file_opens_even_if_the_listing_fails() {
    let hub = Server::start(|seen| match seen.path.as_str() {
        "/o/r/resolve/main/M-Q4_0.gguf" => file(seen, &small("alone", 0)),
        _ => Reply::status(500),
    });
    let opened = TestNetwork::new(&hub.url).load("hf://o/r/M-Q4_0.gguf").unwrap();
    assert_eq!(opened.remote_projector, None);
    let said = opened.header.notes.iter().any(|note| note.contains("projector") && note.contains("status 500"));
    assert!(said, "{:?}", opened.header.notes);
}

#[rstest]
#[case("hf://o/r:Q2_K", "the repository has no 'Q2_K'; it has F16, Q4_K_M, Q8_0")]
#[case("hf://o/r:F16", "shard 2 of 2 of 'F16' is missing")]
#[case("hf://o/safetensors", "has no GGUF files: it holds safetensors")]
#[case(
    "hf://o/gated",
    "the repository is gated: accept its terms on https://huggingface.co/o/gated, then set HF_TOKEN"
)]
#[case("hf://o/hidden", "there is no such repository, or it is private or gated")]
#[case("hf://o/nowhere", "there is no such repository: check the name")]
#[case("hf://o/r/nothing.gguf", "the repository has no file 'nothing.gguf'")]
#[case("hf://o", "not a model name")]
#[case("catalogue:none", "the catalogue has no model 'none'")]
#[case("file:///etc/passwd", "'file://' is not a supported kind of address")]
#[case("ftp://example.com/m.gguf", "'ftp://' is not a supported kind of address")]
fn missing_files_and_repositories_are_reported(#[case] reference: &str, #[case] description: &str) {
    let (hub, _cdn) = start();
    let said = TestNetwork::new(&hub.url).refused(reference);
    assert!(said.contains(description), "{said}");
}

#[test]
fn a_token_is_sent_to_its_host_only_and_never_printed() {
    let (hub, cdn) = start();
    let mut here = TestNetwork::new(&hub.url);
    here.network().hf_token = Secret::new("hf_very_secret");
    let opened = here.load("hf://o/r:Q8_0").unwrap();
    assert!(hub.seen().iter().all(|seen| seen.field("authorization") == Some("Bearer hf_very_secret")));
    assert!(!cdn.seen().is_empty() && cdn.seen().iter().all(|seen| seen.field("authorization").is_none()));
    let said = here.load("hf://o/gated").unwrap_err().to_string();
    assert!(said.contains("the token in use has no access yet"), "{said}");
    for text in [said, format!("{:?}{:?}", opened.header.notes, here.roots)] {
        assert!(!text.contains("very_secret"), "{text}");
    }
    for file in std::fs::read_dir(here.folder.path().join("cache")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("secret"), "{text}");
    }
}

#[rstest]
#[case("../../x.gguf")]
#[case("a/..\\../x.gguf")]
#[case("a/.\t./x.gguf")]
fn a_list_that_leads_out_of_its_repository_is_refused(#[case] file: &'static str) {
    for tree in [false, true] {
        let hub = Server::start(move |seen| match seen.path.as_str() {
            "/api/models/o/r" if !tree => Reply::ok(json!({ "siblings": [{ "rfilename": file }] }).to_string()),
            path if path.contains("/tree/") => Reply::ok(json!([{ "path": file }]).to_string()),
            _ => Reply::status(404),
        });
        let mut here = TestNetwork::new(&hub.url);
        here.network().hf_token = Secret::new("hf_very_secret");
        let said = here.load("hf://o/r").unwrap_err().to_string();
        assert!(said.contains("which is outside of the repository"), "{said}");
        assert!(hub.seen().iter().all(|seen| seen.path.starts_with("/api/models/o/r")), "nothing else is asked for");
    }
}

#[test]
fn an_address_that_leads_elsewhere_is_refused_unasked() {
    let hub = Server::start(|_| Reply::status(404));
    let here = TestNetwork::new(&hub.url);
    for path in ["/o/r/tree/../../c", "/a/%2e%2e/x.gguf", "/o/r/resolve/main/../x.gguf"] {
        let said = here.load(&hub.at(path)).unwrap_err().to_string();
        assert!(said.contains("'..' in it leads to another path"), "{said}");
    }
    assert!(hub.seen().is_empty());
}
