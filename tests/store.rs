//! Local models are found where other programs keep them.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll::gguf::GgmlType;
use plimsoll::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use plimsoll::source::store::{EntryState, Store, StoreEntry, list, ollama::OllamaName};
use plimsoll::source::{Roots, TagParameters, load, no_progress};
use plimsoll::units::Bytes;
use rstest::rstest;
use serde_json::json;

fn put(root: &Path, path: &str, bytes: &[u8]) -> PathBuf {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

fn gguf(name: &str) -> Vec<u8> {
    let metadata = vec![("general.name".to_owned(), ValueSpec::String(name.to_owned()))];
    write(&HeaderSpec { metadata, tensors: vec![("t".into(), GgmlType::F32, vec![1])] }, Encoding::default())
}

fn digest(letter: char) -> String {
    letter.to_string().repeat(64)
}

/// Writes a manifest with `(kind, digest letter)` layers.
fn manifest(root: &Path, path: &str, layers: &[(&str, char)]) {
    let layers: Vec<_> = layers
        .iter()
        .map(|(kind, letter)| {
            json!({"mediaType": format!("application/vnd.ollama.image.{kind}"), "digest": format!("sha256:{}", digest(*letter)), "size": 1})
        })
        .collect();
    put(root, &format!("manifests/{path}"), json!({"schemaVersion": 2, "layers": layers}).to_string().as_bytes());
}

fn blob(root: &Path, letter: char, bytes: &[u8]) -> PathBuf {
    put(root, &format!("blobs/sha256-{}", digest(letter)), bytes)
}

/// Each model's name, and why it is broken if it is.
fn said(entries: &[StoreEntry]) -> Vec<(&str, &str)> {
    entries
        .iter()
        .map(|entry| match &entry.state {
            EntryState::Whole { .. } => (entry.name.as_str(), ""),
            EntryState::Tensors { .. } => (entry.name.as_str(), "safetensors"),
            EntryState::Broken(reason) => (entry.name.as_str(), reason.as_str()),
        })
        .collect()
}

#[test]
fn the_ollama_store_is_read_from_manifests() {
    let store = tempfile::tempdir().unwrap();
    let root = store.path();
    let model = blob(root, 'a', &gguf("A"));
    let projector = blob(root, 'b', &gguf("B"));
    let adapter = blob(root, 'c', b"ggla");
    blob(root, 'e', b"<html>no</html>");
    manifest(
        root,
        "registry.ollama.ai/library/llava/7b",
        &[("model", 'a'), ("template", 'f'), ("projector", 'b'), ("adapter", 'c')],
    );
    manifest(root, "registry.ollama.ai/me/mine/latest", &[("model", 'a')]);
    manifest(root, "hf.co/owner/repo/Q4_K_M", &[("model", 'a')]);
    manifest(root, "registry.ollama.ai/library/gone/1b", &[("model", 'd')]);
    manifest(root, "registry.ollama.ai/library/html/1b", &[("model", 'e')]);
    manifest(root, "registry.ollama.ai/library/none/1b", &[("params", 'a')]);
    manifest(root, "registry.ollama.ai/library/mlx/1b", &[("tensor", 'a'), ("tensor", 'b')]);
    put(root, "manifests/registry.ollama.ai/library/torn/1b", b"{\"layers\": [");
    put(
        root,
        "manifests/registry.ollama.ai/library/evil/1b",
        br#"{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../../etc/passwd"}]}"#,
    );
    put(root, "manifests/.DS_Store", b"");
    let roots = Roots { ollama: vec![root.to_owned(), root.join("not-there")], ..Roots::default() };

    let entries = list(&roots);
    insta::assert_debug_snapshot!(said(&entries));
    let llava = entries.iter().find(|entry| entry.name == "llava:7b").unwrap();
    assert_eq!(llava.path, model);
    let size = [&model, &projector, &adapter].iter().map(|path| Bytes(fs::metadata(path).unwrap().len())).sum();
    assert_eq!(
        llava.state,
        EntryState::Whole {
            size,
            projector: Some(projector.clone()),
            draft: None,
            adapters: vec![adapter],
            knobs: TagParameters::default()
        }
    );

    let opened = load("llava:7b", &roots, &mut no_progress).unwrap();
    assert_eq!((opened.name.as_str(), opened.projector), ("llava:7b", Some(projector)));
    for name in ["me/mine", "ollama://me/mine:latest", "hf.co/owner/repo:Q4_K_M", "registry.ollama.ai/library/llava:7b"]
    {
        assert_eq!(load(name, &roots, &mut no_progress).unwrap().paths, std::slice::from_ref(&model), "{name}");
    }
    for (name, reason) in [
        ("gone:1b", "its blob sha256-dddddddddddd is missing"),
        ("llava:13b", "neither a file nor an Ollama model"),
        ("../../etc/passwd:x", "does not exist"),
        ("https://example.org/a.gguf", "is on the network"),
        ("hf.co/owner/other:Q4_K_M", "is on the network"),
        ("", "neither a file"),
        (store.path().to_str().unwrap(), "is a folder"),
    ] {
        let said = load(name, &roots, &mut no_progress).unwrap_err().to_string();
        assert!(said.contains(reason), "{name}: {said}");
    }
}

#[test]
fn newer_manifests_are_read() {
    let store = tempfile::tempdir().unwrap();
    let root = store.path();
    let model = blob(root, 'a', &gguf("A"));
    manifest(root, "registry.ollama.ai/library/m/1b", &[("model", 'a')]);
    fs::create_dir_all(root.join("manifests-v2/ollama.com/library/m")).unwrap();
    let old = root.join("manifests/registry.ollama.ai/library/m/1b");
    fs::copy(&old, root.join("manifests-v2/ollama.com/library/m/1b")).unwrap();
    let roots = Roots { ollama: vec![root.to_owned()], ..Roots::default() };
    assert_eq!(said(&list(&roots)), [("m:1b", "")]);
    fs::remove_file(old).unwrap();
    assert_eq!(said(&list(&roots)), [("m:1b", "")]);
    assert_eq!(load("m:1b", &roots, &mut no_progress).unwrap().paths, [model]);
}

#[cfg(unix)]
#[test]
fn the_hugging_face_cache_is_read_through_snapshots() {
    use std::os::unix::fs::symlink;
    let cache = tempfile::tempdir().unwrap();
    let root = cache.path();
    let one = put(root, "models--own--repo/blobs/1", &gguf("one"));
    let two = put(root, "models--own--repo/blobs/2", &gguf("two"));
    for (revision, file, blob) in [
        ("1111111111", "m-Q4.gguf", &one),
        ("2222222222", "m-Q4.gguf", &two),
        ("2222222222", "same.gguf", &one),
        ("1111111111", "same.gguf", &one),
        ("2222222222", "sub/gone.gguf", &root.join("nothing")),
        ("2222222222", "mmproj-f16.gguf", &one),
    ] {
        let link = root.join("models--own--repo/snapshots").join(revision).join(file);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(blob, link).unwrap();
    }
    put(root, "models--own--repo/refs/main", b"2222222222\n");
    put(root, "datasets--own--data/snapshots/1/a.gguf", &gguf("no"));
    put(root, "models--own--repo/snapshots/2222222222/config.json", b"{}");
    let entries = list(&Roots { hugging_face: vec![root.to_owned()], ..Roots::default() });
    insta::assert_debug_snapshot!(said(&entries));
    let newest = entries.iter().find(|entry| entry.name == "own/repo/m-Q4.gguf").unwrap();
    assert_eq!(newest.path.canonicalize().unwrap(), two.canonicalize().unwrap());
    assert!(
        matches!(&newest.state, EntryState::Whole { projector: Some(path), .. } if path.ends_with("mmproj-f16.gguf"))
    );
}

#[test]
fn folders_are_read_with_shards_grouped() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for file in [
        "pub/model/big-00001-of-00002.gguf",
        "pub/model/big-00002-of-00002.gguf",
        "pub/model/torn-00001-of-00003.gguf",
        "pub/model/torn-00003-of-00003.gguf",
        "pub/model/small.GGUF",
        "pub/other/v.gguf",
        "pub/other/mmproj-v.gguf",
    ] {
        put(root, file, &gguf(file));
    }
    put(root, "pub/other/pointer.gguf", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    put(root, "pub/other/empty.gguf", b"");
    put(root, "pub/other/notes.txt", b"no model");
    let roots = Roots { lm_studio: vec![root.to_owned(), root.join("not-there")], ..Roots::default() };
    let entries = list(&roots);
    insta::assert_debug_snapshot!(said(&entries));
    assert!(entries.iter().all(|entry| entry.store == Store::LmStudio));
    let v = entries.iter().find(|entry| entry.name == "pub/other/v.gguf").unwrap();
    assert!(matches!(&v.state, EntryState::Whole { projector: Some(path), .. } if path.ends_with("mmproj-v.gguf")));
    let small = entries.iter().find(|entry| entry.name == "pub/model/small.GGUF").unwrap();
    assert!(matches!(&small.state, EntryState::Whole { projector: None, .. }));
}

#[test]
fn projectors_in_the_llama_cpp_cache_belong_to_their_repository() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for file in [
        "org_gemma-GGUF_gemma-Q4.gguf",
        "org_gemma-GGUF_mmproj-f16.gguf",
        "org_qwen-GGUF_qwen-Q4.gguf",
        "org_qwen-GGUF_mmproj-f16.gguf",
        "org_llama_llama.gguf",
    ] {
        put(root, file, &gguf(file));
    }
    put(root, "models--org--new/snapshots/1/n.gguf", &gguf("new layout"));
    let entries = list(&Roots { llama_cpp: vec![root.to_owned()], ..Roots::default() });
    let projectors: Vec<_> = entries
        .iter()
        .map(|entry| match &entry.state {
            EntryState::Whole { projector, .. } => {
                (entry.name.as_str(), projector.as_ref().map(|path| path.file_name().unwrap().to_str().unwrap()))
            }
            EntryState::Tensors { .. } => panic!("no GGUF file"),
            EntryState::Broken(reason) => panic!("{reason}"),
        })
        .collect();
    assert_eq!(
        projectors,
        [
            ("org/new/n.gguf", None),
            ("org_gemma-GGUF_gemma-Q4.gguf", Some("org_gemma-GGUF_mmproj-f16.gguf")),
            ("org_llama_llama.gguf", None),
            ("org_qwen-GGUF_qwen-Q4.gguf", Some("org_qwen-GGUF_mmproj-f16.gguf")),
        ]
    );
}

#[rstest]
#[case("llama3.1", "registry.ollama.ai/library/llama3.1:latest", "llama3.1:latest")]
#[case("llama3.1:8b", "registry.ollama.ai/library/llama3.1:8b", "llama3.1:8b")]
#[case("me/x:q4", "registry.ollama.ai/me/x:q4", "me/x:q4")]
#[case("ollama://x", "registry.ollama.ai/library/x:latest", "x:latest")]
#[case("localhost:5000/me/x:1", "localhost:5000/me/x:1", "localhost:5000/me/x:1")]
fn ollamas_names_are_completed(#[case] text: &str, #[case] full: &str, #[case] short: &str) {
    let name = OllamaName::parse(text).unwrap();
    let OllamaName { host, namespace, model, tag } = &name;
    assert_eq!(format!("{host}/{namespace}/{model}:{tag}"), full);
    assert_eq!(name.short(), short);
}

#[rstest]
fn invalid_ollama_names_are_refused(
    #[values("", "a:b:c", "../x", "a/../b", "a//b", "a/b/c/d", "x:", "x y", "/a", ".hidden")] text: &str,
) {
    assert_eq!(OllamaName::parse(text), None);
}

#[test]
fn the_environment_names_the_folders() {
    let home = Path::new("/home/me");
    let cache = Path::new("/home/me/.cache");
    let none = Roots::of(&|_| None, Some(home), Some(cache));
    assert_eq!(none.ollama[0], home.join(".ollama/models"));
    assert_eq!(none.hugging_face, [home.join(".cache/huggingface/hub")]);
    assert_eq!(none.lm_studio, [home.join(".lmstudio/models"), home.join(".cache/lm-studio/models")]);
    assert_eq!(none.llama_cpp, [home.join(".cache/llama.cpp")]);
    let env = |name: &str| match name {
        "OLLAMA_MODELS" => Some("/o".into()),
        "HF_HOME" => Some("/hf".into()),
        "LLAMA_CACHE" => Some("/l".into()),
        "HF_HUB_CACHE" => Some(String::new().into()),
        _ => None,
    };
    let some = Roots::of(&env, Some(home), Some(cache));
    assert_eq!(some.ollama, [Path::new("/o")]);
    assert_eq!(some.hugging_face, [Path::new("/hf/hub")]);
    assert_eq!(some.llama_cpp, [Path::new("/l")]);
    assert_eq!(Roots::of(&|_| None, None, None).hugging_face, [] as [PathBuf; 0]);
}

#[test]
fn a_path_may_begin_at_home() {
    let home = tempfile::tempdir().unwrap();
    let path = put(home.path(), "models/a.gguf", &gguf("a"));
    let roots = Roots { home: Some(home.path().to_owned()), ..Roots::default() };
    let opened = load("~/models/a.gguf", &roots, &mut no_progress).unwrap();
    assert_eq!((opened.paths, opened.name.as_str()), (vec![path], "a"));
    let said = load("~/models/b.gguf", &roots, &mut no_progress).unwrap_err().to_string();
    assert!(said.contains("models/b.gguf' does not exist"), "{said}");
}
