//! Original weights of repositories and folders: few requests, what can be made of them, and Hugging Face's cache.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use plimsoll::gguf::FileType;
use serde_json::{Value, json};

use super::TestNetwork;
use super::repository::{MACHINE, plimsoll};
use super::server::{Reply, Server, file};
use crate::cli::schema::printed;
use crate::original::{Files, files};

/// A hub with a repository of original weights, with these files in its list and `index`.
fn hub(Files { config, weights, .. }: Files, index: Option<String>) -> Server {
    Server::start(move |seen| match seen.path.split('?').next().unwrap_or_default() {
        "/api/models/o/new" => {
            let others = ["README.md", "config.json", "tokenizer.json", "consolidated.safetensors"];
            let index = index.iter().map(|_| "model.safetensors.index.json");
            let names = others.into_iter().chain(index).chain(weights.iter().map(|(name, _)| name.as_str()));
            let siblings: Vec<_> = names.map(|file| json!({ "rfilename": file })).collect();
            Reply::ok(json!({ "siblings": siblings }).to_string())
        }
        path => match (path.strip_prefix("/o/new/resolve/main/"), &index) {
            (Some("config.json"), _) => Reply::ok(config.clone()),
            (Some("model.safetensors.index.json"), Some(index)) => Reply::ok(index.clone()),
            (Some(name), _) => match weights.iter().find(|(known, _)| known == name) {
                Some((_, bytes)) => file(seen, bytes),
                None => Reply::status(404),
            },
            _ => Reply::status(404),
        },
    })
}

const SMALL: &str = "qwen3 moe stacked";

#[test]
fn a_repository_without_gguf_files_is_read_from_its_original_weights() {
    let hub = hub(files(SMALL, 3, 2), None);
    let here = TestNetwork::new(&hub.url);
    let opened = here.load("hf://o/new").unwrap();
    // its list, its config.json, and the header of each file
    assert_eq!(hub.seen().len(), 4, "{:?}", hub.seen().iter().map(|seen| &seen.path).collect::<Vec<_>>());
    let model = opened.model.as_ref().unwrap();
    let converted = model.mlx.as_ref().unwrap().converted(&model.name).unwrap();
    assert_eq!(
        (converted.architecture.as_str(), converted.name.as_str(), converted.file_type),
        ("qwen3moe", "new", Some("BF16"))
    );
    assert_eq!(converted.requantised(FileType::Q8_0).unwrap().file_type, Some("Q8_0"));
    // a quantisation is the file that can be made
    let made = here.load("hf://o/new:q8_0").unwrap().model.unwrap();
    assert_eq!((made.file_type, made.made_of_original), (Some("Q8_0"), true));
    assert_eq!(made.bytes, converted.requantised(FileType::Q8_0).unwrap().bytes);
    let said = TestNetwork::new(&hub.url).refused("hf://o/new:Q9_Z");
    assert!(said.contains("Q9_Z"), "{said}");
    // without a server, what was read before
    drop(hub);
    assert_eq!(here.load("hf://o/new").unwrap().model.unwrap().header.tensors, model.header.tensors);
}

/// The tensors of a model by name, with type and shape.
fn tensors(here: &TestNetwork) -> Vec<String> {
    let model = here.load("hf://o/new").unwrap().model.unwrap();
    let stored = model.mlx.as_ref().unwrap().stored.clone().unwrap();
    let mut all: Vec<_> =
        stored.tensors.iter().map(|tensor| format!("{} {:?} {:?}", tensor.name, tensor.dtype, tensor.shape)).collect();
    all.sort();
    all
}

#[test]
fn the_headers_of_two_files_tell_those_of_many() {
    let of = || files(SMALL, 24, 12);
    let every = hub(of(), None);
    let all = tensors(&TestNetwork::new(&every.url));
    assert_eq!((every.seen().len(), all.len()), (14, 3 + 24 * 11));
    let index = of().index;
    let few = hub(of(), Some(index.clone()));
    let here = TestNetwork::new(&few.url);
    assert_eq!(tensors(&here), all);
    // the list, config.json, the index, and the first and last file
    assert_eq!(few.seen().len(), 5, "{:?}", few.seen().iter().map(|seen| &seen.path).collect::<Vec<_>>());
    let notes = here.load("hf://o/new").unwrap().model.unwrap().header.notes.clone();
    assert!(notes.iter().any(|note| note.contains("of its 12 files the headers of 2 were read")), "{notes:?}");
    // an index with another sum, one without, and one of other files prove nothing
    let mut wrong: Value = serde_json::from_str(&index).unwrap();
    wrong["metadata"]["total_size"] = 1.into();
    let without = json!({ "weight_map": wrong["weight_map"] });
    for (index, requests) in [(wrong.to_string(), 15), (without.to_string(), 15), ("{}".to_owned(), 15)] {
        let hub = hub(of(), Some(index));
        assert_eq!((tensors(&TestNetwork::new(&hub.url)), hub.seen().len()), (all.clone(), requests));
    }
}

#[test]
fn layers_that_differ_are_all_read() {
    let mut of = files(SMALL, 24, 12);
    // one layer has a shorter tensor, and the sum is right
    let (_, bytes) = &mut of.weights[5];
    let length = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let (name, last) = {
        let end = |tensor: &Value| tensor["data_offsets"][1].as_u64().unwrap();
        let (name, tensor) = header.as_object().unwrap().iter().max_by_key(|(_, tensor)| end(tensor)).unwrap();
        (name.clone(), tensor.clone())
    };
    let (start, end) = (last["data_offsets"][0].as_u64().unwrap(), last["data_offsets"][1].as_u64().unwrap());
    header[&name] = json!({ "dtype": "BF16", "shape": [2], "data_offsets": [start, start + 4] });
    let text = header.to_string();
    let data = usize::try_from(start + 4).unwrap();
    *bytes = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &vec![0; data]].concat();
    let mut index: Value = serde_json::from_str(&of.index).unwrap();
    let total = index["metadata"]["total_size"].as_u64().unwrap() - (end - start) + 4;
    index["metadata"]["total_size"] = total.into();
    let hub = hub(of, Some(index.to_string()));
    let all = tensors(&TestNetwork::new(&hub.url));
    assert!(all.contains(&format!("{name} Bf16 [2]")), "{name}");
    assert_eq!(hub.seen().len(), 15);
}

const NOWHERE: &str = "http://127.0.0.1:9";

fn text_of(command: &mut Command) -> String {
    let output = command.args(MACHINE).assert().success().get_output().clone();
    String::from_utf8(output.stdout).unwrap()
}

fn json_of(command: &mut Command) -> Value {
    let text = text_of(command.arg("--json"));
    printed(command, text.as_bytes())
}

/// Writes the files of original weights into a new folder.
fn folder(path: &Path) {
    fs::create_dir_all(path).unwrap();
    let Files { config, weights, .. } = files(SMALL, 3, 2);
    fs::write(path.join("config.json"), config).unwrap();
    for (name, bytes) in weights {
        fs::write(path.join(name), bytes).unwrap();
    }
}

/// What `list` shows of each row.
fn row(row: &Value) -> (String, u64, bool) {
    assert_eq!((&row["pull"], &row["place"], &row["error"]), (&Value::Null, &Value::Null, &Value::Null), "{row}");
    (row["file_type"].as_str().unwrap().to_owned(), row["bytes"].as_u64().unwrap(), row["to_be_made"] == true)
}

#[test]
fn what_can_be_made_of_original_weights_is_listed() {
    let (hub, home) = (hub(files(SMALL, 3, 2), None), tempfile::tempdir().unwrap());
    folder(&home.path().join("New"));
    let rows_of = |listed: &Value| listed["models"].as_array().unwrap().clone();
    let list = |words: &[&str]| json_of(plimsoll(home.path(), &hub.url, &["list", "--sort", "size"]).args(words));
    let listed = list(&["hf://o/new"]);
    let rows: Vec<_> = rows_of(&listed).iter().map(row).collect();
    assert_eq!(rows[0].0, "BF16");
    assert!(rows.iter().any(|(name, ..)| name == "Q4_K_M") && rows.len() > 8, "{rows:?}");
    assert!(rows.iter().all(|(.., to_be_made)| *to_be_made) && rows.is_sorted_by(|a, b| a.1 >= b.1), "{rows:?}");
    assert_eq!(listed["notes"].to_string().matches("convert_hf_to_gguf.py").count(), 1, "{}", listed["notes"]);
    // the references open what is listed
    for listed in &rows_of(&listed)[..3] {
        let plan = json_of(&mut plimsoll(home.path(), &hub.url, &["plan", listed["reference"].as_str().unwrap()]));
        assert_eq!(plan["model"]["bytes"], listed["bytes"], "{listed}");
        assert_eq!(plan["outcome"], listed["outcome"], "{listed}");
    }
    // of a folder likewise
    let here = list(&["./New"]);
    assert_eq!(rows_of(&here).iter().map(row).collect::<Vec<_>>(), rows);
    let first = &here["models"][0];
    assert_eq!((&first["source"], &first["reference"]), (&json!("folder"), &json!("./New")));
    // in one type alone, and by its name
    for words in [&["hf://o/new", "--quant", "Q6_K"][..], &["./New", "--quant", "Q6_K"], &["./New", "Q6_K"]] {
        let one = list(words);
        assert_eq!(rows_of(&one).iter().map(row).collect::<Vec<_>>(), [rows[2].clone()], "{words:?}");
    }
    let text = text_of(&mut plimsoll(home.path(), &hub.url, &["list", "hf://o/new"]));
    assert!(text.contains("Q4_K_M*") && text.contains("* to be made"), "{text}");
    assert_eq!(text.matches("convert_hf_to_gguf.py").count(), 1, "{text}");
    let csv = text_of(&mut plimsoll(home.path(), &hub.url, &["list", "./New", "--csv"]));
    assert!(csv.lines().skip(1).all(|line| line.ends_with(",,,,,true")), "{csv}");
}

#[test]
fn what_cannot_be_made_is_listed_with_the_reason() {
    let mut of = files(SMALL, 3, 1);
    of.config = of.config.replace("qwen3_moe", "novel").replace("Qwen3MoeForCausalLM", "NovelForCausalLM");
    let (hub, home) = (hub(of, None), tempfile::tempdir().unwrap());
    let listed = json_of(&mut plimsoll(home.path(), &hub.url, &["list", "hf://o/new"]));
    let why = listed["models"][0]["error"].as_str().unwrap();
    assert!(why.contains("models of type 'novel' is not known"), "{listed}");
}

#[test]
fn best_and_need_choose_among_what_can_be_made() {
    let home = tempfile::tempdir().unwrap();
    folder(&home.path().join("New"));
    for engine in ["llama.cpp", "ollama"] {
        let best = json_of(&mut plimsoll(home.path(), NOWHERE, &["best", "New", "--engine", engine]));
        let cards = best["cards"].as_array().unwrap();
        let is_made = |card: &&Value| card["quant"] != "bf16";
        assert!(cards.iter().filter(is_made).count() > 0, "{engine}: {best}");
        assert!(cards.iter().filter(is_made).all(|card| card["to_be_made"] == true), "{engine}: {best}");
        let mut need = plimsoll(home.path(), NOWHERE, &["need", "New", "--engine", engine, "--json"]);
        let need = need.assert().success().get_output().stdout.clone();
        let need: Value = serde_json::from_slice(&need).unwrap();
        assert!(need["machines"].as_array().unwrap().len() > 10, "{engine}: {need}");
    }
}

#[test]
fn original_weights_in_the_cache_of_hugging_face_need_no_network() {
    let home = tempfile::tempdir().unwrap();
    for (root, variable) in [(home.path().join("hub"), "HF_HUB_CACHE"), (home.path().join("face/hub"), "HF_HOME")] {
        let repository = root.join("models--o--new");
        folder(&repository.join("snapshots/1234567890"));
        fs::create_dir_all(repository.join("refs")).unwrap();
        fs::write(repository.join("refs/main"), "1234567890").unwrap();
        let value = if variable == "HF_HOME" { home.path().join("face") } else { root.clone() };
        let of = |args: &[&str]| json_of(plimsoll(home.path(), NOWHERE, args).env(variable, &value));
        for reference in ["hf://o/new", "hf://o/new@1234567890", "https://huggingface.co/o/new"] {
            let plan = of(&["plan", reference, "--quant", "Q8_0"]);
            assert_eq!(plan["model"]["file_type"], "Q8_0", "{variable} {reference}");
            assert!(plan["notes"].to_string().contains("Hugging Face's cache on this machine"), "{}", plan["notes"]);
        }
        assert_eq!(of(&["plan", "hf://o/new:Q8_0"])["model"], of(&["plan", "hf://o/new", "--quant", "Q8_0"])["model"]);
        let listed = of(&["list", "hf://o/new"]);
        assert!(listed["models"].as_array().unwrap().iter().all(|row| row["to_be_made"] == true), "{listed}");
        assert!(listed["models"].as_array().unwrap().len() > 8, "{listed}");
    }
    for reference in ["hf://o/new@v2", "hf://o/other", "hf://o/new@../main"] {
        plimsoll(home.path(), NOWHERE, &["plan", reference])
            .env("HF_HUB_CACHE", home.path().join("hub"))
            .assert()
            .code(3);
    }
}
