//! A server that writes raw bytes to the connection and closes it.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Starts one; `answer` gets the number of the connection, the first byte of the range that is asked for, and the
/// connection. It serves one request on each and ends with the test program.
pub fn raw(answer: impl Fn(usize, usize, &mut TcpStream) + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let (counted, answer) = (Arc::clone(&count), Arc::new(answer));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let first = first_byte(&stream);
                answer(number, first, &mut stream);
            });
        }
    });
    (url, count)
}

/// Reads a request up to its empty line.
fn first_byte(stream: &TcpStream) -> usize {
    let mut first = 0;
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap_or_default().to_lowercase();
        if let Some(range) = line.strip_prefix("range: bytes=") {
            first = range.split('-').next().unwrap().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    first
}

/// Writes a 206 that promises everything from `first` on, and only `sent` bytes of it.
pub fn promise(stream: &mut TcpStream, bytes: &[u8], first: usize, sent: usize) {
    let length = bytes.len() - first;
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {length}\r\nContent-Range: bytes {first}-{}/{}\r\n\r\n",
        bytes.len() - 1,
        bytes.len()
    );
    // the client may have disconnected
    drop(stream.write_all(head.as_bytes()));
    drop(stream.write_all(&bytes[first..bytes.len().min(first + sent)]));
}
