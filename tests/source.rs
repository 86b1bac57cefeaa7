//! Local files become headers.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use plimsoll::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use plimsoll::gguf::{ElementType, GgmlType, Value};
use plimsoll::source::{self, SourceError, no_progress};
use rstest::rstest;

fn put(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

/// A small header: two keys and `tensors` tensors whose names begin with `prefix`.
fn small(prefix: &str, tensors: usize, more: &[(&str, ValueSpec)]) -> Vec<u8> {
    let mut draft = HeaderSpec::default();
    draft.metadata.push(("general.architecture".into(), ValueSpec::String("llama".into())));
    draft.metadata.push(("general.name".into(), ValueSpec::String(prefix.into())));
    draft.metadata.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    draft.tensors = (0..tensors).map(|i| (format!("{prefix}.{i}"), GgmlType::F32, vec![4, 2])).collect();
    write(&draft, Encoding::default())
}

/// Shard `index` of `count`, two tensors each.
fn shard(index: u16, count: u16, tensors: i32) -> Vec<u8> {
    let split = [
        ("split.no", ValueSpec::U16(index)),
        ("split.count", ValueSpec::U16(count)),
        ("split.tensors.count", ValueSpec::I32(tensors)),
    ];
    small(&format!("s{index}"), 2, &split)
}

/// Three shards in `folder`.
fn split(folder: &Path) -> Vec<PathBuf> {
    (0..3).map(|i| put(folder, &format!("m-{:05}-of-00003.gguf", i + 1), &shard(i, 3, 6))).collect()
}

fn refusal(path: &Path) -> String {
    source::open(path, &mut no_progress).unwrap_err().to_string()
}

#[rstest]
fn any_shard_opens_the_whole_model(#[values(0, 1, 2)] which: usize) {
    let folder = tempfile::tempdir().unwrap();
    let paths = split(folder.path());
    let opened = source::open(&paths[which], &mut no_progress).unwrap();
    assert_eq!(opened.paths, paths);
    assert_eq!(opened.name, "m");
    let names: Vec<_> = opened.header.tensors.iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["s0.0", "s0.1", "s1.0", "s1.1", "s2.0", "s2.1"]);
    assert_eq!(opened.header.metadata.get("general.name").and_then(Value::as_str), Some("s0"));
    assert_eq!(opened.header.metadata.get("split.no"), None);
}

#[test]
fn a_missing_shard_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let paths = split(folder.path());
    fs::remove_file(&paths[1]).unwrap();
    let said = refusal(&paths[2]);
    assert!(said.contains("m-00002-of-00003.gguf', shard 2 of 3, is missing"), "{said}");
}

#[test]
fn shards_that_do_not_belong_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let paths = split(folder.path());
    for (bytes, reason) in [
        (shard(0, 3, 6), "says that it is shard 1 of 3"),
        (shard(1, 4, 6), "says that it is shard 2 of 4"),
        (shard(1, 3, 7), "unlike the first shard"),
        (small("s1", 2, &[]), "says that it is whole"),
        (
            small("s0", 2, &[("split.no", ValueSpec::U16(1)), ("split.count", ValueSpec::U16(3))]),
            "tensor 's0.0' is in two shards",
        ),
    ] {
        fs::write(&paths[1], bytes).unwrap();
        let said = refusal(&paths[0]);
        assert!(said.contains(reason), "{said}");
    }
    for (index, path) in (0..).zip(&paths) {
        fs::write(path, shard(index, 3, 9)).unwrap();
    }
    assert!(refusal(&paths[0]).contains("hold 6 tensors, but key 'split.tensors.count' says 9"));
    let renamed = put(folder.path(), "other.gguf", &shard(0, 3, 6));
    assert!(refusal(&renamed).contains("its name does not end in -00001-of-00003.gguf"));
    for (no, count, reason) in [(3, 3, "says that this is shard 4 of 3"), (0, 60000, "says 60000 shards")] {
        let path = put(folder.path(), "wrong.gguf", &shard(no, count, 6));
        assert!(refusal(&path).contains(reason));
    }
}

#[test]
fn files_that_cannot_be_opened_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no.gguf");
    assert!(refusal(&missing).contains("no.gguf' does not exist"));
    assert!(refusal(folder.path()).contains("is a folder"));
    let empty = put(folder.path(), "empty.gguf", b"");
    assert!(refusal(&empty).contains("the file is empty"));
    assert!(refusal(&empty.join("below")).contains("does not exist"));
    let red = folder.path().join("\u{1b}[31m.gguf");
    assert!(refusal(&red).contains("\\u{1b}[31m.gguf' does not exist"));
}

#[cfg(unix)]
#[test]
fn pipes_and_locked_files_are_reported() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    assert!(refusal(Path::new("/dev/null")).contains("pipe or a device"));
    let locked = put(folder.path(), "locked.gguf", b"GGUF");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    // root can read everything
    if fs::File::open(&locked).is_err() {
        assert!(refusal(&locked).contains("is not readable by this user"));
    }
}

/// A download may begin anew over a file while that is opened.
#[test]
fn a_file_that_is_cut_short_while_it_is_opened_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = (0..200_000).map(|token| ValueSpec::String(format!("token{token}"))).collect();
    let bytes = small("long", 2, &[("tokenizer.ggml.tokens", ValueSpec::Array(ElementType::String, tokens))]);
    assert!(bytes.len() > 3 << 20);
    for cut_at in (0..3 << 20).step_by(300_000) {
        for left in [0, 4000, cut_at] {
            let path = put(folder.path(), "long.gguf", &bytes);
            let cut = &mut |progress: source::Progress| {
                if progress.done >= cut_at {
                    fs::File::options().write(true).open(&path).unwrap().set_len(left).unwrap();
                }
                ControlFlow::Continue(())
            };
            let refused = source::open(&path, cut).unwrap_err().to_string();
            assert!(refused.contains("became shorter"), "{refused}");
        }
    }
}

#[test]
fn a_load_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let paths = split(folder.path());
    let mut heard = Vec::new();
    let result = source::open(&paths[0], &mut |progress| {
        heard.push((progress.shard, progress.shards));
        if progress.shard == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(result, Err(SourceError::Cancelled)));
    assert_eq!(heard, [(0, 1), (1, 3)]);
}
