//! Models of MLX from everywhere: a repository of mlx-community, a tag of Ollama's registry with a file for each tensor, and what
//! Hugging Face's cache and LM Studio keep on this machine.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::TestNetwork;
use super::repository::plimsoll;
use super::server::{RecordedRequest, Reply, Server};
use crate::cli::schema::printed;
use crate::mlx::stores;
use crate::original::{Files, files};

/// A Mac.
const MAC: [&str; 4] = ["--gpu", "M4 Max 64GB", "--ram", "64GiB"];
/// The folder of a model in 4 bits, and its weights in bytes.
const FOLDER: &str = "hf/qwen3-30b-a3b-two-layers-4bit";
const BYTES: u64 = 1_051_350_016;

fn json_of(mut command: Command) -> Value {
    let output = command.arg("--json").assert().success().get_output().clone();
    printed(&command, &output.stdout)
}

/// A range of a file that may be larger than memory.
fn sparse(seen: &RecordedRequest, path: &Path) -> Reply {
    let Ok(mut file) = File::open(path) else { return Reply::status(404) };
    let size = file.metadata().unwrap().len();
    let Some(range) = seen.field("range").and_then(|range| range.strip_prefix("bytes=")) else {
        assert!(size < 1 << 20, "all {size} bytes of {} are asked for", path.display());
        return Reply::ok(fs::read(path).unwrap());
    };
    let (first, last) = range.split_once('-').unwrap();
    let first: u64 = first.parse().unwrap();
    let last = last.parse().unwrap_or(u64::MAX).min(size - 1);
    assert!(last - first < 1 << 20, "{range}");
    file.seek(SeekFrom::Start(first)).unwrap();
    let mut bytes = vec![0; usize::try_from(last - first + 1).unwrap()];
    file.read_exact(&mut bytes).unwrap();
    Reply { status: 206, ..Reply::ok(bytes) }.with("Content-Range", format!("bytes {first}-{last}/{size}"))
}

/// A hub with the folder as `o/mlx`, and the files.
fn hub() -> (Server, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    stores(folder.path());
    let root = folder.path().join(FOLDER);
    let server = Server::start(move |seen| match seen.path.split('?').next().unwrap_or_default() {
        "/api/models/o/mlx" => {
            let names = fs::read_dir(&root).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
            let siblings: Vec<_> = names.map(|name| json!({ "rfilename": name })).collect();
            Reply::ok(json!({ "siblings": siblings }).to_string())
        }
        path => match path.strip_prefix("/o/mlx/resolve/main/") {
            Some(name) => sparse(seen, &root.join(name)),
            None => Reply::status(404),
        },
    });
    (server, folder)
}

#[test]
fn a_repository_of_mlx_is_planned_listed_and_searched() {
    let ((hub, _folder), home) = (hub(), tempfile::tempdir().unwrap());
    let of = |args: &[&str]| {
        json_of({
            let mut command = plimsoll(home.path(), &hub.url, args);
            command.args(MAC);
            command
        })
    };
    let plan = of(&["plan", "hf://o/mlx", "--engine", "mlx", "--ctx", "4096"]);
    assert_eq!((&plan["model"]["bytes"], &plan["model"]["file_type"]), (&json!(BYTES), &json!("4bit")));
    // 63 headers of a few hundred bytes each, and not their weights
    assert!(hub.sent() < 1 << 20, "{}", hub.sent());
    assert!(hub.seen().len() <= 5, "{:?}", hub.seen().iter().map(|seen| &seen.path).collect::<Vec<_>>());
    // Ollama's importer keeps what is quantised already
    let ollama = of(&["plan", "hf://o/mlx", "--ctx", "4096"]);
    assert_eq!(ollama["devices"][0]["cache"], plan["devices"][0]["cache"]);
    // a list of it has it with the engine that runs it
    for engine in ["mlx", "ollama", "llama.cpp"] {
        let rows = of(&["list", "hf://o/mlx", "--engine", engine]);
        let row = &rows["models"][0];
        assert_eq!(
            (&row["engine"], &row["file_type"], &row["error"]),
            (&json!("mlx"), &json!("4bit"), &Value::Null),
            "{rows}"
        );
        assert!(row["speed"]["tokens_per_second"].as_f64().unwrap() > 20.0, "{row}");
    }
    let best = of(&["best", "hf://o/mlx", "--engine", "mlx"]);
    assert!(!best["cards"].as_array().unwrap().is_empty(), "{best}");
    let need = json_of(plimsoll(home.path(), &hub.url, &["need", "hf://o/mlx", "--engine", "mlx"]));
    let machines = need["machines"].as_array().unwrap();
    assert!(machines.len() > 5, "{need}");
    assert!(machines.iter().all(|one| one["preset"].as_str().unwrap().starts_with('M')), "{need}");
}

#[test]
fn original_weights_are_listed_in_modes_of_mlx() {
    let home = tempfile::tempdir().unwrap();
    let Files { config, weights, .. } = files("qwen3 moe stacked", 3, 2);
    let root = home.path().join("New");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("config.json"), config).unwrap();
    for (name, bytes) in weights {
        fs::write(root.join(name), bytes).unwrap();
    }
    let list = |words: &[&str]| {
        let mut command =
            plimsoll(home.path(), "http://127.0.0.1:9", &["list", "./New", "--engine", "mlx", "--sort", "size"]);
        command.args(MAC).args(words);
        json_of(command)["models"].as_array().unwrap().clone()
    };
    let rows = list(&[]);
    let modes: Vec<&str> = rows.iter().map(|row| row["file_type"].as_str().unwrap()).collect();
    assert_eq!(modes, ["bf16", "8bit", "6bit", "5bit", "4bit", "3bit"]);
    let to_be_made: Vec<bool> = rows.iter().map(|row| row["to_be_made"] == true).collect();
    assert_eq!(to_be_made, [false, true, true, true, true, true]);
    for mode in ["nvfp4", "mixed_3_6"] {
        let rows = list(&["--quant", mode]);
        let of = (rows.len(), rows[0]["file_type"].as_str().unwrap().to_lowercase());
        assert_eq!(of, (1, mode.to_owned()));
    }
}

/// A registry with the tags of a store, whose blobs are behind a redirect.
fn registry(store: PathBuf) -> Server {
    Server::start(move |seen| {
        let path = seen.path.as_str();
        if let Some(digest) = path.strip_prefix("/cdn/") {
            return sparse(seen, &store.join("blobs").join(digest.replace(':', "-")));
        }
        let Some((model, rest)) = path.strip_prefix("/v2/library/").and_then(|rest| rest.split_once('/')) else {
            return Reply::status(404);
        };
        match rest.split_once('/') {
            Some(("manifests", tag)) => {
                let manifest = store.join("manifests/registry.ollama.ai/library").join(model).join(tag);
                fs::read(manifest).map_or_else(|_| Reply::status(404), Reply::ok)
            }
            Some(("blobs", digest)) => Reply::to(format!("/cdn/{digest}")),
            _ => Reply::status(404),
        }
    })
}

#[test]
fn a_tag_of_tensors_is_read_from_the_registry_as_from_a_store() {
    let folder = tempfile::tempdir().unwrap();
    stores(folder.path());
    for (store, name) in [
        ("tiny", "qwen3.5:tiny-nvfp4"),
        ("tiny", "qwen3.5:tiny-int4"),
        ("headers", "qwen3.5:9b-four-layers-nvfp4"),
        ("headers", "qwen3.5:9b-four-layers-mxfp8"),
        ("headers", "with-draft:nvfp4"),
    ] {
        let store = folder.path().join(store);
        let server = registry(store.clone());
        let here = TestNetwork::new(&server.url);
        let opened = here.load(name).unwrap();
        let stored = |opened: &plimsoll::source::OpenedModel| {
            let mut stored = opened.model.as_ref().unwrap().mlx.as_ref().unwrap().stored.clone().unwrap();
            stored.tensors.sort_by(|a, b| a.name.cmp(&b.name));
            (stored.tensors, stored.manifest, stored.bytes)
        };
        let roots = plimsoll::source::Roots { ollama: vec![store], ..plimsoll::source::Roots::default() };
        let of_store = plimsoll::source::load(name, &roots, &mut plimsoll::source::no_progress).unwrap();
        assert_eq!(stored(&opened), stored(&of_store), "{name}");
        // fewer headers than tensors: layers of one kind are alike
        let blobs = server.seen().iter().filter(|seen| seen.path.starts_with("/cdn/")).count();
        let layers = stored(&opened).1.unwrap().layers;
        assert!(name.starts_with("with") || blobs < layers, "{name}: {blobs} of {layers}");
        assert!(server.sent() < 1 << 20, "{name}: {}", server.sent());
        assert_eq!(opened.knobs, of_store.knobs);
    }
}

#[test]
fn the_check_before_a_load_is_known_before_anything_is_pulled() {
    let folder = tempfile::tempdir().unwrap();
    stores(folder.path());
    let (server, home) = (registry(folder.path().join("headers")), tempfile::tempdir().unwrap());
    let plan = |gpu: &str| {
        let mut command =
            plimsoll(home.path(), &server.url, &["plan", "qwen3.5:9b-four-layers-nvfp4", "--ctx", "4096"]);
        command.args(["--gpu", gpu, "--ram", "64GiB"]);
        json_of(command)
    };
    let fits = plan("name=M,backend=Metal,total=8GiB,free=8GiB");
    assert_eq!((&fits["load_check"], &fits["refused"]), (&json!(3_833_726_713_u64), &Value::Null), "{fits}");
    let short = plan("name=M,backend=Metal,total=4GiB,free=4GiB");
    assert_eq!(
        short["refused"],
        json!("model requires 3.6 GiB but only 3.5 GiB are available (after 512.0 MiB overhead)")
    );
}

#[test]
fn what_hugging_face_and_lm_studio_keep_is_listed_and_opened() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    stores(folder.path());
    let copy = |to: &Path| {
        fs::create_dir_all(to).unwrap();
        for file in fs::read_dir(folder.path().join(FOLDER)).unwrap() {
            let file = file.unwrap();
            fs::hard_link(file.path(), to.join(file.file_name())).unwrap();
        }
    };
    copy(&home.path().join(".lmstudio/models/mlx-community/studio-4bit"));
    let cached = home.path().join(".cache/huggingface/hub/models--mlx-community--hub-4bit");
    copy(&cached.join("snapshots/1234567890"));
    fs::create_dir_all(cached.join("refs")).unwrap();
    fs::write(cached.join("refs/main"), "1234567890").unwrap();
    let nowhere = "http://127.0.0.1:9";
    let of = |args: &[&str]| {
        let mut command = plimsoll(home.path(), nowhere, args);
        command.args(MAC);
        json_of(command)
    };
    for engine in ["mlx", "ollama", "llama.cpp"] {
        let listed = of(&["list", "4bit", "--engine", engine]);
        let row = |name: &str| {
            let rows = listed["models"].as_array().unwrap();
            rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{engine}: {name} in {listed}"))
        };
        for (name, source) in [("mlx-community/studio-4bit", "LM Studio"), ("mlx-community/hub-4bit", "Hugging Face")] {
            let row = row(name);
            assert_eq!(
                (&row["source"], &row["engine"], &row["bytes"]),
                (&json!(source), &json!("mlx"), &json!(BYTES)),
                "{row}"
            );
            assert!(row["pull"].as_str().unwrap().starts_with("mlx_lm.server --model "), "{row}");
            // the reference opens it
            let plan = of(&["plan", row["reference"].as_str().unwrap(), "--engine", "mlx"]);
            assert_eq!(plan["model"]["bytes"], json!(BYTES), "{name}");
        }
    }
    for name in ["studio", "hub"] {
        let plan = of(&["plan", &format!("hf://mlx-community/{name}-4bit"), "--engine", "mlx"]);
        assert_eq!(plan["model"]["bytes"], json!(BYTES), "{name}");
        assert!(plan["notes"].to_string().contains("on this machine"), "{}", plan["notes"]);
    }
    // a shard that is missing is said where the model is listed
    fs::remove_file(home.path().join(".lmstudio/models/mlx-community/studio-4bit/model-00002-of-00002.safetensors"))
        .unwrap();
    let listed = of(&["list", "studio-4bit", "--engine", "mlx"]);
    assert!(listed["models"][0]["error"].as_str().unwrap().contains("shard 2 of 2"), "{listed}");
}

/// Lists of models that are GGUF files have modes where MLX is the engine, and modes that are asked for have a plan.
#[test]
fn lists_of_the_catalogue_choose_modes() {
    let home = tempfile::tempdir().unwrap();
    let rows = |words: &[&str]| {
        let mut command = plimsoll(home.path(), "http://127.0.0.1:9", &["list", "qwen3-8b"]);
        command.args(MAC).args(words);
        json_of(command)["models"].as_array().unwrap().clone()
    };
    for row in rows(&["--engine", "mlx"]) {
        let mode = row["file_type"].as_str().unwrap_or_else(|| panic!("{row}"));
        assert!(["bf16", "8bit", "6bit", "5bit"].contains(&mode.to_lowercase().as_str()), "{row}");
        let mut command = plimsoll(
            home.path(),
            "http://127.0.0.1:9",
            &["plan", row["reference"].as_str().unwrap(), "--engine", "mlx"],
        );
        command.args(MAC);
        assert_eq!(json_of(command)["model"]["bytes"], row["bytes"], "{row}");
    }
    for (engine, mode) in [("mlx", "nvfp4"), ("mlx", "mxfp8"), ("ollama", "nvfp4"), ("ollama", "int4")] {
        for row in rows(&["--engine", engine, "--quant", mode]) {
            assert_eq!(
                (&row["error"], row["file_type"].as_str().map(str::to_lowercase)),
                (&Value::Null, Some(mode.to_owned())),
                "{row}"
            );
        }
    }
}

/// LM Studio's line for the same model on another Mac: its terms follow from config.json, its contexts from what was taken.
#[test]
fn the_line_of_lm_studio_is_checked_term_by_term() {
    let home = tempfile::tempdir().unwrap();
    let line = "2026-08-22 10:00:00 [INFO] Model context auto-fit: family=qwen3 max=40,960 fitted=18,688 working_set=10.67GiB \
                reserve=3.00GiB baseline=4.40GiB full_kv=147456B/token prompt_inputs=8192B/token \
                attention_coefficient=64B/context/step rotating_constant=0.00GiB rotating_per_step=0B \
                steps=2048:12,288,1024:16,128,512:18,688";
    let check = |line: &str, code: i32| {
        fs::write(home.path().join("studio.log"), line).unwrap();
        let args = ["check", "studio.log", "--model", "catalogue:qwen3-8b", "--quant", "4bit", "--json"];
        let mut command = plimsoll(home.path(), "http://127.0.0.1:9", &args);
        let output = command.assert().code(code).get_output().clone();
        printed(&command, &output.stdout)
    };
    let same = check(line, 0);
    assert_eq!((&same["fitted"], &same["agrees"]), (&json!(18_688), &json!(true)));
    let differing = |answer: &Value| {
        let terms = answer["terms"].as_array().unwrap();
        let off = terms.iter().filter(|term| term["agrees"] == false);
        off.map(|term| term["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(differing(&check(&line.replace("147456B", "147400B"), 1)), ["full_kv"]);
    assert_eq!(differing(&check(&line.replace("fitted=18,688", "fitted=28,672"), 1)), ["fitted"]);
    // less was taken than the weights are: it is another model
    assert_eq!(differing(&check(&line.replace("baseline=4.40", "baseline=2.40"), 1)).first().unwrap(), "steps 2048");
    let mut unnamed = plimsoll(home.path(), "http://127.0.0.1:9", &["check", "studio.log"]);
    let said = String::from_utf8(unnamed.assert().failure().get_output().stderr.clone()).unwrap();
    assert!(said.contains("--model"), "{said}");
}

/// The size of a model of MLX changes while it is loaded, so that its row of 'ollama ps' agrees within a range.
#[test]
fn rows_of_ollama_ps_are_checked_within_their_range() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    stores(folder.path());
    let check = |size: &str, code: i32| {
        let row = format!(
            "NAME ID SIZE PROCESSOR CONTEXT UNTIL\nqwen3.5:9b-four-layers-nvfp4 abcdef123456 {size} 100% GPU 32768 4 minutes\n"
        );
        fs::write(home.path().join("ps.txt"), row).unwrap();
        let mut command = plimsoll(home.path(), "http://127.0.0.1:9", &["check", "ps.txt", "--json"]);
        command.env("OLLAMA_MODELS", folder.path().join("headers")).args(MAC);
        let output = command.assert().code(code).get_output().clone();
        printed(&command, &output.stdout)
    };
    let fresh = check("4.1 GB", 0);
    let range = &fresh["running"][0]["ollama_ps"]["range"];
    assert!(range[0].as_u64().unwrap() < 4_200_000_000 && range[1].as_u64().unwrap() > 8 << 30, "{fresh}");
    assert_eq!(check("12 GB", 0)["agrees"], json!(true));
    for size in ["1.9 GB", "40 GB"] {
        assert_eq!(check(size, 1)["agrees"], json!(false), "{size}");
    }
}
