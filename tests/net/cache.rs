//! The cache of headers.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll::source::cache::Cache;

use super::server::{Server, file};
use super::{TestNetwork, put, small};

#[test]
fn a_cached_header_is_revalidated_and_works_offline() {
    let changed = Arc::new(AtomicBool::new(false));
    let new = Arc::clone(&changed);
    let server = Server::start(move |seen| {
        file(seen, &if new.load(Ordering::Relaxed) { small("Second", 3 << 20) } else { small("First", 2 << 20) })
    });
    let here = TestNetwork::new(&server.url);
    let url = server.at("/m.gguf");
    let name = |opened: &plimsoll::source::OpenedModel| {
        opened.header.metadata.get("general.name").unwrap().as_str().unwrap().to_owned()
    };
    let first = here.load(&url).unwrap();
    let sent = server.sent();
    let again = here.load(&url).unwrap();
    assert_eq!(again.header, first.header);
    assert_eq!((server.sent(), server.seen().len()), (sent, 2), "the second time nothing was sent");
    changed.store(true, Ordering::Relaxed);
    assert_eq!(name(&here.load(&url).unwrap()), "Second");
    drop(server);
    let offline = here.load(&url).unwrap();
    assert_eq!(name(&offline), "Second");
    let said = offline.header.notes.iter().find(|note| note.contains("was read from the cache, last checked just now"));
    assert!(said.is_some_and(|said| said.contains("cannot be reached")), "{:?}", offline.header.notes);
}

#[test]
fn cached_headers_are_small_and_hold_no_weights() {
    let (bytes, header) = super::large(60_000, true, true, 4 << 20);
    let server = Server::start(move |seen| file(seen, &bytes));
    let here = TestNetwork::new(&server.url);
    here.load(&server.at("/m.gguf")).unwrap();
    let cache = Cache::new(&here.folder.path().join("cache"));
    let entries = cache.list().unwrap();
    assert_eq!(entries.len(), 1);
    assert!(entries[0].size.0 < header / 2, "{} for {header}", entries[0].size);
}

#[test]
fn damaged_cache_files_are_ignored() {
    let server = Server::start(|seen| file(seen, &small("M", 0)));
    let here = TestNetwork::new(&server.url);
    let cache = Cache::new(&here.folder.path().join("cache"));
    let whole = here.load(&server.at("/m.gguf")).unwrap();
    let path = cache.list().unwrap()[0].path.clone();
    let kept = fs::read(&path).unwrap();
    for damaged in [&kept[..kept.len() - 9], &kept[..20], b"".as_slice(), b"{\"form\":9}\nxx"] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(here.load(&server.at("/m.gguf")).unwrap().header, whole.header);
        assert_eq!(fs::read(&path).unwrap().len(), kept.len(), "it was fetched again and kept");
    }
}

#[test]
fn old_and_damaged_files_are_pruned_and_the_cache_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    for key in ["a", "b", "c"] {
        cache.put(key, key, None, None, b"bytes").unwrap();
    }
    assert_eq!(cache.get("b").unwrap().1, b"bytes");
    let path = cache.list().unwrap()[0].path.clone();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    put(&folder.path().join("somebody-elses.txt"), "stays");
    assert_eq!(cache.prune(Duration::from_mins(1)).unwrap().len(), 1);
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(cache.prune(Duration::ZERO).unwrap().len(), 2);
    cache.put("d", "d", None, None, b"").unwrap();
    assert_eq!(cache.clear().unwrap().len(), 1);
    assert!(cache.list().unwrap().is_empty());
    assert!(folder.path().join("somebody-elses.txt").exists());
}

#[test]
fn concurrent_readers_see_complete_files() {
    let folder = tempfile::tempdir().unwrap();
    let workers: Vec<_> = (0_u8..4)
        .map(|worker| {
            let cache = Cache::new(folder.path());
            thread::spawn(move || {
                for _ in 0..60 {
                    cache.put("key", "name", None, None, &vec![worker; 20_000 + usize::from(worker)]).unwrap();
                    let (_, bytes) = cache.get("key").expect("once written it is always there");
                    assert_eq!(bytes.len(), 20_000 + usize::from(bytes[0]));
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(Cache::new(folder.path()).list().unwrap().len(), 1, "nothing half-written is left");
}

#[test]
fn an_unwritable_cache_folder_is_no_obstacle() {
    let server = Server::start(|seen| file(seen, &small("M", 0)));
    let mut here = TestNetwork::new(&server.url);
    let blocked = here.folder.path().join("a-file");
    fs::write(&blocked, "").unwrap();
    here.network().cache = Some(blocked.join("cache"));
    let opened = here.load(&server.at("/m.gguf")).unwrap();
    assert!(opened.header.notes.iter().any(|note| note.contains("could not be cached")), "{:?}", opened.header.notes);
}

#[test]
fn an_item_is_only_used_under_its_own_key() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let put = |key: &str| {
        let before: Vec<_> = cache.list().unwrap().into_iter().map(|entry| entry.path).collect();
        cache.put(key, key, None, None, key.as_bytes()).unwrap();
        cache.list().unwrap().into_iter().map(|entry| entry.path).find(|path| !before.contains(path)).unwrap()
    };
    let (a, b) = (put("http://a/x?token=secret"), put("http://b/x"));
    fs::copy(&a, &b).unwrap();
    assert!(cache.get("http://a/x?token=secret").is_some());
    assert!(cache.get("http://b/x").is_none(), "another key's, under its name");
    assert!(!String::from_utf8_lossy(&fs::read(&a).unwrap()).contains("\"key\":\"http"), "keys may be secret");
}

#[test]
fn what_killed_writers_left_is_removed_at_the_next_write() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let left = |name: &str, hours: u64| {
        let path = folder.path().join(name);
        let then = std::time::SystemTime::now() - Duration::from_hours(hours);
        fs::File::create(&path).unwrap().set_modified(then).unwrap();
        path
    };
    let (old, new, other) = (left(".aB3xyz.part", 25), left(".aB3xyy.part", 1), left("notes.part", 99));
    cache.put("key", "name", None, None, b"").unwrap();
    assert_eq!([old, new, other].map(|path| path.exists()), [false, true, true]);
}
