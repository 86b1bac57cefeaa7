//! Whatever servers answer: no panic, no request without end, and one sentence of error.
//!
//! From the repository's root: as `scenario`. The first byte chooses the door, and whether the rest is a whole response or
//! the body of one; a zero byte stands between the answers to one question after the other.

#![no_main]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use plimsoll::running::router::RunningRouter;
use plimsoll::source::http::Timeouts;
use plimsoll::source::{Network, Roots, load, no_progress, running};

/// The answers that are left.
static ANSWERS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The address of a server that gives them.
fn server() -> &'static str {
    static SERVER: OnceLock<String> = OnceLock::new();
    SERVER.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("it is bound"));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if has_request(&stream) {
                    let answer = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
                    // whoever asked may have gone
                    let _ = stream.write_all(&answer);
                }
            }
        });
        address
    })
}

/// Reads a request up to its empty line.
fn has_request(stream: &TcpStream) -> bool {
    let mut lines = BufReader::new(stream).lines();
    lines.any(|line| line.is_ok_and(|line| line.is_empty()))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&door, rest)) = bytes.split_first() else { return };
    let whole = |body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let answers = rest.split(|&byte| byte == 0).map(|body| if door & 1 == 0 { whole(body) } else { body.to_vec() });
    let mut answers: Vec<_> = answers.take(20).collect();
    answers.reverse();
    *ANSWERS.lock().unwrap_or_else(PoisonError::into_inner) = answers;
    let address = server().to_owned();
    let timeouts = Timeouts { tries: 2, back_off: Duration::ZERO, ..Timeouts::within(Duration::from_millis(400)) };
    let network = Network {
        registry: address.clone(),
        hugging_face: address.clone(),
        ollama: Some(address.clone()),
        timeouts,
        ..Network::default()
    };
    let roots = Roots { network: Some(network.clone()), ..Roots::default() };
    match (door >> 1) % 5 {
        0 => drop(running::list_models(&network, &mut no_progress)),
        1 => drop(load("ollama://anything", &roots, &mut no_progress)),
        2 => drop(load("hf://owner/repo:Q4_K_M", &roots, &mut no_progress)),
        3 => drop(load(&format!("{address}/model.gguf"), &roots, &mut no_progress)),
        _ => drop(RunningRouter::at(&address, &roots).models()),
    }
});
