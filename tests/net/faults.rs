//! Faulty servers: one clear error, and nothing is cached.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rstest::rstest;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::raw::{promise, raw};
use super::server::{Reply, Server, file};
use super::{TestNetwork, large, small};

#[rstest]
#[case::html(Reply::ok("<!DOCTYPE html><html>log in</html>"), "a web page")]
#[case::json(Reply::ok("{\"error\": \"no\"}"), "JSON text")]
#[case::empty(Reply::ok(""), "the file is empty")]
#[case::missing(Reply::status(404), "returned status 404 (not found)")]
#[case::login(Reply::status(401), "login required")]
#[case::forbidden(Reply::status(403), "(forbidden)")]
#[case::busy(Reply::status(503), "is busy (status 503) after 3 tries")]
#[case::limited(Reply::status(429), "is busy (status 429) after 3 tries")]
#[case::long_wait(Reply::status(429).with("Retry-After", "3600"), "is busy (status 429) after 1 tries")]
#[case::to_file(Reply::to("file:///etc/passwd"), "redirects to 'file:///etc/passwd', which is not followed")]
#[case::other_bytes(Reply::status(206).with("Content-Range", "bytes 5-9/10"), "asked for bytes from 0 but returned others (bytes 5-9/10)")]
#[case::no_range(Reply::status(206), "unspecified")]
#[case::beyond(Reply::status(206).with("Content-Range", "bytes 0-10/5"), "returned others")]
#[case::compressed(Reply::ok("x").with("Content-Encoding", "gzip"), "returned compressed data (gzip)")]
fn responses_that_are_no_model_are_reported(#[case] reply: Reply, #[case] description: &str) {
    let server = Server::start(move |_| reply.clone());
    let said = TestNetwork::new(&server.url).refused(&server.at("/m.gguf?token=secret"));
    assert!(said.contains(description), "{said}");
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn endless_redirects_are_given_up() {
    let server = Server::start(|seen| Reply::to(format!("{}x", seen.path)));
    let said = TestNetwork::new(&server.url).refused(&server.at("/m.gguf"));
    assert!(said.contains("redirects more than 10 times"), "{said}");
    assert_eq!(server.seen().len(), 11);
}

#[test]
fn a_forged_header_is_refused_early() {
    let mut forged = small("forged", 4 << 20);
    forged[8..16].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    let server = Server::start(move |seen| file(seen, &forged));
    let said = TestNetwork::new(&server.url).refused(&server.at("/m.gguf"));
    assert!(said.contains("the number of tensors at byte 8 is 1152921504606846976"), "{said}");
    assert!(server.sent() < 1 << 20);
}

#[test]
fn connections_that_keep_breaking_are_given_up() {
    let (url, _) = raw(|_, first, stream| promise(stream, &small("cut", 0), first, 0));
    let said = TestNetwork::new(&url).refused(&format!("{url}/m.gguf"));
    assert!(said.contains("dropped the connection 3 times, most recently at byte 0"), "{said}");
    let (url, _) = raw(|_, _, _| {});
    let said = TestNetwork::new(&url).refused(&format!("{url}/m.gguf"));
    assert!(said.contains("dropped the connection 3 times"), "{said}");
}

#[test]
fn a_false_content_length_is_detected() {
    // a 200 that promises 1 MiB and ends in the middle of the header
    let (url, _) = raw(|_, _, stream| {
        let bytes = small("lie", 0);
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"));
        drop(stream.write_all(&bytes[..bytes.len() / 2]));
    });
    let said = TestNetwork::new(&url).refused(&format!("{url}/m.gguf"));
    assert!(said.contains("dropped the connection"), "{said}");
    // a range whose total is shorter than the header
    let server = Server::start(|seen| {
        let mut bytes = small("lie", 0);
        bytes.truncate(150);
        file(seen, &bytes)
    });
    let said = TestNetwork::new(&server.url).refused(&server.at("/m.gguf"));
    assert!(said.contains("the file ends inside"), "{said}");
}

#[test]
fn a_trickling_server_times_out() {
    let (url, _) = raw(|_, first, stream| {
        promise(stream, &small("slow", 0), first, 0);
        for byte in b"GGUF".iter().cycle().take(60) {
            thread::sleep(Duration::from_millis(50));
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
        }
    });
    let said = TestNetwork::new(&url).refused(&format!("{url}/m.gguf"));
    assert!(said.contains("is too slow"), "{said}");
}

#[test]
fn a_silent_server_times_out() {
    let (url, _) = raw(|_, _, _| thread::sleep(Duration::from_secs(5)));
    let said = TestNetwork::new(&url).refused(&format!("{url}/m.gguf"));
    assert!(said.contains("sent nothing for 0.7 s"), "{said}");
}

/// Servers that stall, each in its own way; what was received between two stalls makes no difference.
#[rstest]
#[case::after_some("the first 64 KiB of each connection")]
#[case::in_the_head("a byte of the head at a time")]
#[case::in_a_redirect("a byte of a redirect's body at a time")]
#[case::in_turns("every other connection is silent")]
fn stalls_are_counted_over_a_whole_load(#[case] way: &'static str) {
    let (bytes, _) = large(200_000, true, true, 0);
    let (url, _) = raw(move |number, first, stream| match way {
        "a byte of the head at a time" => drip(stream, b"HTTP/1.1 200 OK\r\n"),
        "a byte of a redirect's body at a time" => {
            drop(stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: /x.gguf\r\nContent-Length: 60000\r\n\r\n"));
            drip(stream, &[b'.'; 64]);
        }
        "every other connection is silent" if number % 2 == 0 => thread::sleep(Duration::from_secs(5)),
        _ => {
            promise(stream, &bytes, first, 64 << 10);
            thread::sleep(Duration::from_secs(5));
        }
    });
    let since = Instant::now();
    let said = TestNetwork::new(&url).refused(&format!("{url}/m.gguf"));
    assert!(
        said.starts_with("'127.0.0.1:") && said.contains(" sent nothing for 0.7 s") && said.contains("--timeout"),
        "{said}"
    );
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
}

/// Writes a byte ten times a second.
fn drip(stream: &mut impl Write, bytes: &[u8]) {
    for byte in bytes {
        thread::sleep(Duration::from_millis(100));
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
    }
    thread::sleep(Duration::from_secs(5));
}

#[test]
fn a_server_that_is_not_http_is_reported() {
    let (url, _) = raw(|_, _, stream| drop(stream.write_all(b"220 mail.example ESMTP\r\n\r\n")));
    let said = TestNetwork::new(&url).refused(&format!("{url}/m.gguf"));
    assert!(said.contains("does not speak valid HTTP or HTTPS"), "{said}");
}

#[test]
fn a_server_without_tls_is_reported() {
    let (url, _) = raw(|_, _, stream| drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")));
    let said = TestNetwork::new(&url).refused(&format!("{}/m.gguf", url.replace("http://", "https://")));
    assert!(said.contains("no encryption"), "{said}");
}

#[test]
fn an_untrusted_certificate_is_reported() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/m.gguf", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            // the client closes the connection during the handshake
            drop(StreamOwned::new(connection, stream.unwrap()).read(&mut [0]));
        }
    });
    let said = TestNetwork::new("http://127.0.0.1:9").refused(&url);
    assert!(said.contains("is not trusted"), "{said}");
}

#[test]
fn a_refused_connection_is_reported() {
    let url = { Server::start(|_| Reply::ok("")).url.clone() };
    let said = TestNetwork::new(&url).refused(&format!("{url}/m.gguf"));
    assert!(said.contains("cannot be reached"), "{said}");
}

#[test]
fn a_file_that_changes_meanwhile_is_detected() {
    let (bytes, _) = super::large(60_000, true, true, 0);
    let server = Server::start(move |seen| {
        let mut reply = file(seen, &bytes);
        let etag = format!("\"{}\"", seen.field("range").unwrap_or_default());
        reply.fields.retain(|(name, _)| *name != "ETag");
        reply.with("ETag", etag)
    });
    let said = TestNetwork::new(&server.url).refused(&server.at("/m.gguf"));
    assert!(said.contains("changed while it was being read"), "{said}");
}
