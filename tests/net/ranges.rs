//! Only the header is fetched, in few requests.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use plimsoll::gguf::{HeaderLimits, HeaderOnly, read};
use plimsoll::source::{self, SourceError};
use rstest::rstest;

use super::raw::{promise, raw};
use super::server::{Reply, Server, file};
use super::{TestNetwork, large, small};

const MIB: u64 = 1 << 20;

#[rstest]
#[case::merges(262_144, true, true)]
#[case::no_scores(270_000, false, true)]
#[case::no_merges(600_000, true, false)]
#[case::short(20_000, true, true)]
fn a_long_header_takes_few_requests_and_little_extra(
    #[case] tokens: usize,
    #[case] scores: bool,
    #[case] merges: bool,
) {
    let (bytes, header) = large(tokens, scores, merges, 20 << 20);
    let whole = read(&mut bytes.as_slice(), &HeaderLimits::default()).unwrap();
    let server = Server::slow(Duration::from_millis(50), move |seen| file(seen, &bytes));
    let start = Instant::now();
    let opened = TestNetwork::new(&server.url).load(&server.at("/m.gguf")).unwrap();
    println!(
        "header of {header} bytes: {} requests, {} bytes, {:?}",
        server.seen().len(),
        server.sent(),
        start.elapsed()
    );
    assert_eq!((opened.header, opened.name.as_str()), (whole, "m"));
    assert!(server.seen().len() <= 6, "{} requests for {header} bytes", server.seen().len());
    assert!(server.sent() <= header + MIB, "{} bytes for {header}", server.sent());
    assert!(server.seen().iter().all(|seen| seen.field("range").is_some()));
}

/// Only a question whether a cached copy is still valid can be answered so.
#[test]
fn a_304_that_nobody_asked_for_is_asked_for_once() {
    let server = Server::start(|_| Reply::status(304));
    let error = TestNetwork::new(&server.url).load(&server.at("/m.gguf")).unwrap_err();
    assert!(error.to_string().contains("304"), "{error}");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_304_behind_the_first_range_is_asked_for_once() {
    let (bytes, _) = large(270_000, true, true, 20 << 20);
    let server = Server::start(move |seen| match seen.field("range") {
        Some(range) if range.starts_with("bytes=0-") => file(seen, &bytes),
        _ => Reply::status(304),
    });
    assert!(TestNetwork::new(&server.url).load(&server.at("/m.gguf")).is_err());
    let behind =
        server.seen().iter().filter(|seen| seen.field("range").is_none_or(|at| !at.starts_with("bytes=0-"))).count();
    assert_eq!(behind, 1);
}

#[test]
fn a_range_up_to_the_largest_number_is_refused() {
    let (bytes, _) = large(270_000, true, true, 20 << 20);
    let server = Server::start(move |seen| {
        let mut reply = file(seen, &bytes);
        let first = seen.field("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-')).unwrap().0;
        if first != "0" {
            reply.fields.retain(|(name, _)| *name != "Content-Range");
            reply = reply.with("Content-Range", format!("bytes {first}-{}/*", u64::MAX));
        }
        reply
    });
    let error = TestNetwork::new(&server.url).load(&server.at("/m.gguf")).unwrap_err();
    assert!(error.to_string().contains(&u64::MAX.to_string()), "{error}");
}

#[test]
fn a_server_that_ignores_ranges_is_read_up_to_the_header() {
    let bytes = small("whole", 4 << 20);
    let server = Server::start(move |_| Reply::ok(bytes.clone()));
    let opened = TestNetwork::new(&server.url).load(&server.at("/m.gguf")).unwrap();
    assert_eq!(server.seen().len(), 1);
    let said = opened.header.notes.iter().any(|note| note.contains("sends whole files only"));
    assert!(said, "{:?}", opened.header.notes);
}

#[test]
fn broken_connections_are_resumed_where_they_stopped() {
    let (bytes, header) = large(60_000, true, true, 0);
    let whole = read(&mut HeaderOnly(&bytes), &HeaderLimits::default()).unwrap();
    let (url, count) = raw(move |_, first, stream| promise(stream, &bytes, first, 300 << 10));
    let opened = TestNetwork::new(&url).load(&format!("{url}/m.gguf")).unwrap();
    assert_eq!(opened.header.tensors, whole.tensors);
    // each connection delivered its part once
    let least = header.div_ceil(300 << 10) as usize;
    let used = count.load(std::sync::atomic::Ordering::Relaxed);
    assert!((least..=least + 1).contains(&used), "{used} connections for {header} bytes");
}

#[test]
fn shards_on_a_server_are_found_by_their_names() {
    use plimsoll::gguf::GgmlType;
    use plimsoll::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
    let shard = |index: u16| {
        let metadata = [
            ("split.no", ValueSpec::U16(index)),
            ("split.count", ValueSpec::U16(2)),
            ("split.tensors.count", ValueSpec::I32(2)),
        ];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).to_vec();
        write(
            &HeaderSpec { metadata, tensors: vec![(format!("t{index}"), GgmlType::F32, vec![1])] },
            Encoding::default(),
        )
    };
    let shards = [shard(0), shard(1)];
    let server = Server::start(move |seen| file(seen, &shards[usize::from(seen.path.contains("-00002-of"))]));
    let opened = TestNetwork::new(&server.url).load(&server.at("/a/m-00002-of-00002.gguf?download=true")).unwrap();
    assert_eq!(opened.header.tensors.len(), 2);
    let paths: Vec<_> = server.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/a/m-00002-of-00002.gguf?download=true", "/a/m-00001-of-00002.gguf?download=true"]);
}

#[test]
fn a_load_stops_immediately() {
    let server = Server::slow(Duration::from_secs(3), |_| Reply::ok("too late"));
    let here = TestNetwork::new(&server.url);
    let start = Instant::now();
    let mut watch = |_| {
        if start.elapsed() > Duration::from_millis(100) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let stopped = source::load(&server.at("/m.gguf"), &here.roots, &mut watch);
    assert!(matches!(stopped, Err(SourceError::Cancelled)), "{stopped:?}");
    assert!(here.kept().is_empty());
}

#[test]
fn progress_is_reported() {
    let (bytes, header) = large(60_000, true, true, 0);
    let server = Server::start(move |seen| file(seen, &bytes));
    let here = TestNetwork::new(&server.url);
    let mut told = Vec::new();
    let mut watch = |now: source::Progress| {
        told.push(now.done);
        ControlFlow::Continue(())
    };
    source::load(&server.at("/m.gguf"), &here.roots, &mut watch).unwrap();
    assert!(told.is_sorted(), "{told:?}");
    assert!(told.last().unwrap() + 2 * MIB > header, "{told:?}");
}
