//! Repositories on Hugging Face as lists: rows, figures, what to type, and what is on this machine.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use plimsoll::gguf::FileType;
use plimsoll::gguf::write::Encoding;
use plimsoll::model::Model;
use plimsoll::source;
use serde_json::{Value, json};

use super::server::{Reply, Server, file};
use crate::cli::schema::printed;
use crate::support;
use crate::support::description;

/// A header in `Q4_K_M`, and the model.
fn header() -> (Vec<u8>, Model) {
    let json = support::model_json("llama3.2-1b");
    let bytes = description::bytes(&json, Encoding::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    fs::write(&path, &bytes).unwrap();
    let opened = source::open(&path, &mut source::no_progress).unwrap();
    (bytes, Model::from_header(opened.header, "m").unwrap())
}

/// A hub with the repository `o/r`, whose files have these names and sizes.
fn hub(files: Vec<(String, Option<u64>)>, bytes: Vec<u8>) -> Server {
    Server::start(move |seen| match seen.path.split('?').next().unwrap_or_default() {
        "/api/models/o/r" | "/api/models/o/r/revision/v2" => {
            let sized = seen.path.ends_with("?blobs=true");
            let sibling = |(name, size): &(String, Option<u64>)| match size.filter(|_| sized) {
                Some(size) => json!({ "rfilename": name, "size": size }),
                None => json!({ "rfilename": name }),
            };
            Reply::ok(json!({ "siblings": files.iter().map(sibling).collect::<Vec<_>>() }).to_string())
        }
        path if path.contains("/resolve/") => file(seen, &bytes),
        _ => Reply::status(404),
    })
}

/// The program with this home folder, and this address as every server's.
pub(super) fn plimsoll(home: &Path, url: &str, args: &[&str]) -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("plimsoll");
    command.env_clear().env("HOME", home).env("HF_ENDPOINT", url).env("OLLAMA_REGISTRY", url);
    command.env("OLLAMA_HOST", "127.0.0.1:9").current_dir(home).args(args);
    command
}

/// A described machine.
pub(super) const MACHINE: [&str; 4] = ["--gpu", "24GiB", "--ram", "64GiB"];

fn json_of(command: &mut Command) -> Value {
    let output = command.assert().success().get_output().clone();
    printed(command, &output.stdout)
}

fn list(home: &Path, url: &str, words: &[&str]) -> Value {
    let mut command = plimsoll(home, url, &["list", "--json"]);
    json_of(command.args(MACHINE).args(words))
}

/// The files of `o/r`, with the sizes of what llama-quantize makes.
fn usual_files(model: &Model) -> Vec<(String, Option<u64>)> {
    let start = model.header.data_start;
    let sized = |name: &str, to: FileType| (name.to_owned(), Some(start + model.quantised_bytes(to).unwrap().0));
    let q8 = start + model.quantised_bytes(FileType::Q8_0).unwrap().0;
    vec![
        ("README.md".to_owned(), Some(1)),
        sized("M-Q4_K_M.gguf", FileType::Q4KM),
        ("M-Q8_0-00001-of-00002.gguf".to_owned(), Some(q8 - 1_000_000_000)),
        ("M-Q8_0-00002-of-00002.gguf".to_owned(), Some(1_000_000_000)),
        ("M-UD-Q6_K_XL.gguf".to_owned(), Some(start + model.quantised_bytes(FileType::Q6K).unwrap().0 * 21 / 20)),
        ("M-F16-00002-of-00002.gguf".to_owned(), Some(1 << 30)),
        ("Other-Q5_0.gguf".to_owned(), Some(9 << 30)),
        ("M-Q5_K_S.gguf".to_owned(), Some(70 << 30)),
        ("mtp-M-Q4_K_M.gguf".to_owned(), Some(1 << 20)),
        ("imatrix.gguf".to_owned(), Some(1 << 20)),
    ]
}

#[test]
fn a_repository_is_listed_from_one_header() {
    let (bytes, model) = header();
    let files = usual_files(&model);
    let size = |name: &str| files.iter().find(|(file, _)| file == name).unwrap().1.unwrap() - model.header.data_start;
    let (server, home) = (hub(files.clone(), bytes), tempfile::tempdir().unwrap());
    let listed = list(home.path(), &server.url, &["hf://o/r", "--sort", "name"]);
    let rows = listed["models"].as_array().unwrap();
    let of = |quant: &str| rows.iter().find(|row| row["reference"] == format!("hf://o/r:{quant}")).unwrap();
    assert_eq!(rows.len(), 6, "{listed}");
    let own = of("Q4_K_M");
    assert_eq!((&own["name"], &own["source"]), (&json!("hf://o/r:Q4_K_M"), &json!("huggingface.co")));
    assert_eq!((&own["confidence"], &own["outcome"]), (&json!("exact"), &json!("vram")));
    assert_eq!(own["pull"], "llama-server -hf o/r:Q4_K_M");
    // of two shards, and of the size that llama-quantize makes
    assert_eq!(
        (&of("Q8_0")["bytes"], &of("Q8_0")["file_type"]),
        (&json!(model.quantised_bytes(FileType::Q8_0).unwrap().0), &json!("Q8_0"))
    );
    let scaled = of("UD-Q6_K_XL");
    assert_eq!((&scaled["bytes"], &scaled["confidence"]), (&json!(size("M-UD-Q6_K_XL.gguf")), &json!("modelled")));
    for (quant, why) in [
        ("F16", "shard 1 of 2"),
        ("Q5_K_S", "is not that of this model"),
        ("Q5_0", "not that of the model whose header was read"),
    ] {
        assert!(of(quant)["error"].as_str().unwrap().contains(why), "{}", of(quant));
    }
    assert!(listed["notes"].to_string().contains("the header of Q4_K_M was read"), "{}", listed["notes"]);
    let seen = server.seen();
    let (api, headers): (Vec<_>, Vec<_>) = seen.iter().partition(|seen| seen.path.starts_with("/api/"));
    assert_eq!(api.iter().map(|seen| seen.path.as_str()).collect::<Vec<_>>(), ["/api/models/o/r?blobs=true"]);
    assert!(headers.iter().all(|seen| seen.path == "/o/r/resolve/main/M-Q4_K_M.gguf"), "{headers:?}");

    // with a quantisation named, that one is exact
    let other = list(home.path(), &server.url, &["hf.co/o/r:UD-Q6_K_XL", "--fits", "vram"]);
    let exact: Vec<_> = other["models"].as_array().unwrap().iter().filter(|row| row["confidence"] == "exact").collect();
    assert!(exact.iter().any(|row| row["reference"] == "hf://o/r:UD-Q6_K_XL"), "{other}");
    assert!(other["models"].as_array().unwrap().iter().all(|row| row["outcome"] == "vram"));

    // the cached answers are enough
    let url = server.url.clone();
    drop(server);
    let again = list(home.path(), &url, &["hf://o/r", "--sort", "name"]);
    assert_eq!(again["models"], listed["models"]);
    assert!(again["notes"].to_string().contains("was read from the cache"), "{}", again["notes"]);
}

#[test]
fn what_is_listed_is_planned_alike() {
    let (bytes, model) = header();
    let (server, home) = (hub(usual_files(&model), bytes), tempfile::tempdir().unwrap());
    let listed = list(home.path(), &server.url, &["hf://o/r", "--limit", "1", "Q4_K_M"]);
    let row = &listed["models"][0];
    let mut plan = plimsoll(home.path(), &server.url, &["plan", row["name"].as_str().unwrap(), "--json"]);
    let plan = json_of(plan.args(MACHINE));
    for (of_list, of_plan) in
        [("bytes", &plan["model"]["bytes"]), ("outcome", &plan["outcome"]), ("ctx", &plan["settings"]["ctx"])]
    {
        assert_eq!(&row[of_list], of_plan, "{of_list}");
    }
    let mut text = plimsoll(home.path(), &server.url, &["list", "hf://o/r", "Q4_K_M", "--csv"]);
    let text = String::from_utf8(text.args(MACHINE).assert().success().get_output().stdout.clone()).unwrap();
    assert!(text.lines().nth(1).unwrap().ends_with(",llama-server -hf o/r:Q4_K_M,,,,false"), "{text}");
}

#[test]
fn a_revision_and_strange_names_are_typed_as_they_are() {
    let (bytes, _) = header();
    let files = vec![("a b\u{1b}[31m-Q4_K_M.gguf".to_owned(), None), ("x/M-Q4_K_M.gguf".to_owned(), None)];
    let (server, home) = (hub(files, bytes), tempfile::tempdir().unwrap());
    let listed = list(home.path(), &server.url, &["https://huggingface.co/o/r/tree/v2"]);
    let pull = |row: usize| listed["models"][row]["pull"].as_str().unwrap().to_owned();
    assert!((0..2).all(|row| pull(row).starts_with("hf download o/r --revision v2 --include ")), "{listed}");
    assert!(!listed["models"].to_string().contains("pull\":\"\u{1b}"), "{listed}");
    let mut text = plimsoll(home.path(), &server.url, &["list", "hf://o/r"]);
    let text = String::from_utf8(text.args(MACHINE).assert().success().get_output().stdout.clone()).unwrap();
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn what_cannot_be_listed_ends_with_status_3() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(|_| Reply::status(401));
    for url in [server.url.as_str(), "http://127.0.0.1:9"] {
        let output = plimsoll(home.path(), url, &["list", "hf://o/nowhere"]).assert().code(3).get_output().clone();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    }
}

/// Puts a model of `o/r` into each kind of store below `home`.
fn fill_stores(home: &Path, bytes: &[u8]) {
    let put = |path: &str, bytes: &[u8]| {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    put("hub/models--o--r/snapshots/1111111111/M-Q4_K_M.gguf", bytes);
    put("hub/models--o--r/snapshots/2222222222/M-Q4_K_M.gguf", bytes);
    put("hub/models--o--r/snapshots/2222222222/q/M-Q8_0.gguf", bytes);
    put("hub/models--o--r/refs/main", b"2222222222");
    put("hub/models--o--r/refs/v2", b"1111111111");
    put("llama/o_flat-GGUF_M-Q6_K.gguf", bytes);
    put("llama/models--o--new/snapshots/3333333333/M-Q5_K_M.gguf", bytes);
    put(".lmstudio/models/lmstudio-community/M-GGUF/M-Q3_K_L.gguf", bytes);
    let digest = "a".repeat(64);
    put(&format!("ollama/blobs/sha256-{digest}"), bytes);
    let layer =
        json!({ "mediaType": "application/vnd.ollama.image.model", "digest": format!("sha256:{digest}"), "size": 1 });
    let manifest = json!({ "layers": [layer] }).to_string();
    put("ollama/manifests/registry.ollama.ai/library/m/1b", manifest.as_bytes());
    put("ollama/manifests/hf.co/o/pulled/Q4_K_M", manifest.as_bytes());
}

fn with_stores(home: &Path, args: &[&str]) -> Command {
    let mut command = plimsoll(home, "http://127.0.0.1:9", args);
    command.env("HF_HUB_CACHE", home.join("hub")).env("LLAMA_CACHE", home.join("llama"));
    command.env("OLLAMA_MODELS", home.join("ollama"));
    command
}

#[test]
fn names_and_references_of_every_store_are_planned() {
    let home = tempfile::tempdir().unwrap();
    fill_stores(home.path(), &header().0);
    let mut listed = with_stores(home.path(), &["list", "--json", "--engine", "ollama-0.24"]);
    let listed = json_of(listed.args(MACHINE));
    let here = |row: &&Value| row["source"] != "catalogue" && row["source"] != "recent";
    let rows: Vec<&Value> = listed["models"].as_array().unwrap().iter().filter(here).collect();
    let mut names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "hf.co/o/pulled:Q4_K_M",
            "lmstudio-community/M-GGUF/M-Q3_K_L.gguf",
            "m:1b",
            "o/new/M-Q5_K_M.gguf",
            "o/r/M-Q4_K_M.gguf",
            "o/r/M-Q4_K_M.gguf@1111111",
            "o/r/q/M-Q8_0.gguf",
            "o_flat-GGUF_M-Q6_K.gguf",
        ]
    );
    for row in rows {
        for key in ["name", "reference"] {
            let text = row[key].as_str().unwrap();
            let plan = json_of(with_stores(home.path(), &["plan", text, "--json"]).args(MACHINE));
            assert_eq!(plan["model"]["bytes"], row["bytes"], "{text}");
        }
    }
}

#[test]
fn repositories_are_read_from_every_store_without_a_network() {
    let home = tempfile::tempdir().unwrap();
    fill_stores(home.path(), &header().0);
    for reference in [
        "hf://o/r",
        "hf://o/r:Q4_K_M",
        "hf://o/r:q8_0",
        "hf://o/r/q/M-Q8_0.gguf",
        "hf://o/r@v2",
        "hf://o/r@1111111:Q4_K_M",
        "hf://o/flat-GGUF:Q6_K",
        "hf://o/new",
        "hf://lmstudio-community/M-GGUF:Q3_K_L",
        "hf://o/pulled:Q4_K_M",
        "https://huggingface.co/o/r/blob/main/M-Q4_K_M.gguf",
    ] {
        let plan = json_of(with_stores(home.path(), &["plan", reference, "--json"]).args(MACHINE));
        assert!(plan["notes"].to_string().contains("on this machine"), "{reference}: {}", plan["notes"]);
    }
    for reference in ["hf://o/r:Q2_K", "hf://o/r@v3", "hf://o/other", "hf://o/r@../main"] {
        with_stores(home.path(), &["plan", reference]).assert().code(3);
    }
    let listed = json_of(with_stores(home.path(), &["list", "hf://o/r", "--json"]).args(MACHINE));
    let names: Vec<_> = listed["models"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(listed["models"].as_array().unwrap().iter().all(|row| row["confidence"] == "exact"));
    assert!(listed["notes"].to_string().contains("cannot be reached"), "{}", listed["notes"]);
}

#[test]
fn a_plan_says_which_source_answered_and_what_would_be_exact() {
    let (bytes, model) = header();
    let (server, home) = (hub(usual_files(&model), bytes), tempfile::tempdir().unwrap());
    fill_stores(home.path(), &header().0);
    let of = |url: &str, reference: &str| {
        let mut command = plimsoll(home.path(), url, &["plan", reference, "--json"]);
        json_of(command.env("OLLAMA_MODELS", home.path().join("ollama")).args(MACHINE))
    };
    let nowhere = "http://127.0.0.1:9";
    for (url, named, source, reference) in [
        (server.url.as_str(), "hf://o/r:Q4_K_M", "huggingface.co", "hf://o/r:Q4_K_M"),
        (nowhere, "m:1b", "Ollama", "m:1b"),
        (nowhere, "catalogue:qwen3-8b", "catalogue", "catalogue:qwen3-8b"),
        (nowhere, "qwen3:8b", "catalogue", "catalogue:qwen3-8b"),
        (nowhere, "qwen3-8b", "catalogue", "catalogue:qwen3-8b"),
    ] {
        let plan = of(url, named);
        assert_eq!((&plan["source"], &plan["reference"]), (&json!(source), &json!(reference)), "{named}");
        let is_sure = !["qwen3:8b", "qwen3-8b"].contains(&named);
        assert_eq!(plan["exact_after"].is_null(), is_sure, "{named}: {}", plan["exact_after"]);
    }
    let file = home.path().join("m.gguf");
    fs::write(&file, header().0).unwrap();
    let plan = of(nowhere, "m.gguf");
    assert_eq!((&plan["source"], &plan["reference"]), (&json!("file"), &json!(file.canonicalize().unwrap())));

    // the catalogue stands in for a server, or has a published size alone
    let after = |named: &str| of(nowhere, named)["exact_after"].clone();
    assert_eq!(after("qwen3:8b")["reference"], "qwen3:8b");
    let scaled = after("catalogue:qwen3.5-9b@UD-Q4_K_XL");
    assert_eq!(scaled, json!({ "reference": "hf://unsloth/Qwen3.5-9B-GGUF:UD-Q4_K_XL", "header_bytes": 10_968_032 }));
    let said =
        plimsoll(home.path(), nowhere, &["plan", "qwen3:8b"]).args(MACHINE).assert().success().get_output().clone();
    let said = String::from_utf8(said.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("exact after fetching the header: about 6.5 MiB, by 'plimsoll plan qwen3:8b'"), "{said}");
}
