//! Signals that end the program, on a thread of their own: they do so whatever the rest of it is busy with.

use std::io;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::exit;

/// How long the program may take to end by itself.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long cleaning up may take where it does not.
const TO_CLEAN_UP: Duration = Duration::from_millis(300);

/// From now on, the first signal that would end the program is told to `told` instead. If the program is still there a
/// little later, or at the next signal, `clean_up` is called, and it ends with the status that shells give it.
///
/// # Errors
/// If the system does not let them be caught: then they end the program at once.
pub(crate) fn watch(mut told: impl FnMut(i32) + Send + 'static, clean_up: fn()) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT])?;
    thread::spawn(move || {
        let mut signals = signals.forever();
        let Some(first) = signals.next() else { return };
        told(first);
        thread::spawn(move || {
            thread::sleep(PATIENCE);
            end(first, clean_up);
        });
        if let Some(second) = signals.next() {
            end(second, clean_up);
        }
    });
    Ok(())
}

fn end(signal: i32, clean_up: fn()) {
    // whatever keeps the program busy may hold what is to be cleaned up, and never let go of it
    let (send, done) = channel();
    thread::spawn(move || {
        clean_up();
        let _ = send.send(());
    });
    let _ = done.recv_timeout(TO_CLEAN_UP);
    exit(128 + signal);
}
