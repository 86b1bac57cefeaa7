//! The real program in a pseudo-terminal: keys, mouse and resizing work, and the terminal's
//! modes are restored on every way out.
#![cfg(unix)]

mod live;

use std::io::{Read, Write};
use std::num::NonZero;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plimsoll::engine::{EngineId, KnobContext};
use plimsoll::page::Hue;
use plimsoll::page::palette::Tone;
use plimsoll::settings::knob::Knob;
use plimsoll::tui::regions::{KnobRow, Regions};
use plimsoll::tui::widget::slider;
use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use rstest::rstest;
use tempfile::TempDir;

/// Timeout, generous for a busy computer.
const TIMEOUT: Duration = Duration::from_secs(30);

struct Session {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// All output so far.
    written: Vec<u8>,
    /// The terminal's settings before the program ran.
    before: String,
    size: (u16, u16),
    /// The program's home folder.
    home: TempDir,
}

impl Session {
    /// The planner on a described machine.
    fn start(columns: u16, rows: u16, env: &[(&str, &str)]) -> Self {
        Self::run((columns, rows), &["--gpu", "RTX 3090", "--ram", "64GiB"], env)
    }

    fn run((columns, rows): (u16, u16), arguments: &[&str], env: &[(&str, &str)]) -> Self {
        let pty =
            native_pty_system().openpty(PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(arguments);
        command.env_clear();
        let common = [
            ("TERM", "xterm-256color"),
            ("COLORTERM", "truecolor"),
            ("LANG", "C.UTF-8"),
            ("RUST_BACKTRACE", "0"),
            ("COLORFGBG", "15;0"),
        ];
        let home = tempfile::tempdir().unwrap();
        command.env("HOME", home.path());
        command.cwd(home.path());
        for (name, value) in common.iter().chain(env) {
            command.env(name, value);
        }
        let before = format!("{:?}", pty.master.get_termios());
        let child = pty.slave.spawn_command(command).unwrap();
        // the reader sees the end only once this side is closed
        drop(pty.slave);
        let mut reader = pty.master.try_clone_reader().unwrap();
        let (send, output) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if send.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let keys = pty.master.take_writer().unwrap();
        let screen = vt100::Parser::new(some(rows), some(columns), 0);
        Self {
            child,
            master: pty.master,
            keys,
            output,
            screen,
            written: Vec::new(),
            before,
            size: (columns, rows),
            home,
        }
    }

    /// Reads output until `done`, and fails with the screen on timeout.
    fn until(&mut self, what: &str, done: impl Fn(&vt100::Screen) -> bool) {
        let started = Instant::now();
        while !done(self.screen.screen()) {
            assert!(started.elapsed() < TIMEOUT, "never: {what}\n{}", self.screen.screen().contents());
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(50)) {
                self.screen.process(&bytes);
                self.written.extend(bytes);
            }
        }
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.size = (columns, rows);
        self.master.resize(PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }).unwrap();
        self.screen.screen_mut().set_size(some(rows), some(columns));
    }

    fn until_text(&mut self, text: &str) {
        self.until(text, |screen| screen.contents().contains(text));
    }

    fn send(&mut self, bytes: &str) {
        self.keys.write_all(bytes.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn signal(&self, name: &str) {
        let id = self.child.process_id().unwrap().to_string();
        assert!(Command::new("kill").args([format!("-{name}"), id]).status().unwrap().success());
    }

    fn mouse(&mut self, button: u8, x: u16, y: u16, end: char) {
        self.send(&format!("\x1b[<{button};{};{}{end}", x + 1, y + 1));
    }

    /// The value shown in a knob's row.
    /// What was copied first.
    fn copied(&self) -> String {
        // OSC 52: the clipboard, and the text in base64
        let written = String::from_utf8_lossy(&self.written);
        let (_, after) = written.split_once("\x1b]52;c;").expect("a sequence for the clipboard");
        let (copied, _) = after.split_once("\x1b\\").expect("the end of it");
        String::from_utf8(STANDARD.decode(copied).unwrap()).unwrap()
    }

    fn value(&self, knob: Knob) -> String {
        value(self.screen.screen(), self.size, knob)
    }

    fn until_value(&mut self, knob: Knob, wanted: &str) {
        let size = self.size;
        self.until(&format!("{knob:?} is {wanted}"), |screen| value(screen, size, knob) == wanted);
    }

    fn is_taken(&self) -> bool {
        let screen = self.screen.screen();
        screen.alternate_screen()
            && screen.bracketed_paste()
            && screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None
    }

    /// Waits for the program to end and checks that the terminal was restored.
    fn ends(mut self) -> (ExitStatus, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < TIMEOUT, "it does not end\n{}", self.screen.screen().contents());
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(20)) {
                self.screen.process(&bytes);
                self.written.extend(bytes);
            }
        };
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(200)) {
            self.screen.process(&bytes);
            self.written.extend(bytes);
        }
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left");
        assert!(!screen.bracketed_paste(), "bracketed paste is off");
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None, "the mouse is given back");
        assert!(!screen.hide_cursor(), "the cursor is shown");
        assert_eq!(format!("{:?}", self.master.get_termios()), self.before, "raw mode is off");
        let synchronized = |end: &str| String::from_utf8_lossy(&self.written).rfind(end);
        assert!(synchronized("\x1b[?2026l") >= synchronized("\x1b[?2026h"), "no update is left open");
        (status, screen.contents())
    }
}

fn some(cells: u16) -> NonZero<u16> {
    NonZero::new(cells).unwrap()
}

/// The row of `knob` with the default engine's knobs.
fn knob_row((columns, rows): (u16, u16), knob: Knob) -> KnobRow {
    let machine = crate::harness::one_gpu();
    let knobs = EngineId::default().facts().knobs(&KnobContext {
        model: None,
        machine: &machine,
        settings: &plimsoll::settings::Settings::default(),
        two_cache_types: false,
    });
    let at = knobs.iter().position(|&other| other == knob).unwrap();
    Regions::of(columns, rows, knobs.len()).knob(at).unwrap()
}

fn value(screen: &vt100::Screen, (columns, rows): (u16, u16), knob: Knob) -> String {
    let place = knob_row((columns, rows), knob).value;
    screen.contents_between(place.y, place.x, place.y, place.right()).trim().to_owned()
}

#[test]
fn keys_and_the_mouse_move_a_slider_and_q_restores_the_terminal() {
    let mut session = Session::start(120, 40, &[]);
    session.until_text("Verdict");
    session.until_text("All in VRAM");
    assert!(session.is_taken());
    assert_ne!(format!("{:?}", session.master.get_termios()), session.before, "raw mode is on");

    session.send("\x1b[H");
    session.until_value(Knob::Context, "1\u{2009}024");
    session.send("\x1b[C\x1b[C");
    session.until_value(Knob::Context, "2\u{2009}048");
    session.send("\x1b[1;2C");
    session.until_value(Knob::Context, "2\u{2009}304");

    let track = knob_row((120, 40), Knob::Context).track;
    session.mouse(0, slider::column(track, 0.1), track.y, 'M');
    for x in track.left() + 3..track.right() {
        session.mouse(32, x, track.y, 'M');
    }
    session.mouse(0, track.right() - 1, track.y, 'm');
    session.until_value(Knob::Context, "131\u{2009}072");

    session.resize(80, 24);
    session.until_value(Knob::Context, "131\u{2009}072");
    session.until("the footer on the last row", |screen| screen.contents_between(23, 0, 23, 80).contains("q quit"));

    session.resize(20, 5);
    session.until_text("plimsoll needs");

    session.send("q");
    let (status, _) = session.ends();
    assert!(status.success(), "{status:?}");
}

/// The colours are those for the background that the terminal says it has, and its answer is not taken for keys.
#[test]
fn the_terminal_is_asked_for_its_background() {
    for (text, background, tone) in
        [("0000/0000/0000", "ffff/ffff/ffff", Tone::Light), ("ffff/ffff/ffff", "1111/1616/1d1d", Tone::Dark)]
    {
        let mut session = Session::start(120, 40, &[("COLORFGBG", "")]);
        let started = Instant::now();
        while !String::from_utf8_lossy(&session.written).contains("\x1b]11;?") {
            assert!(started.elapsed() < TIMEOUT, "the terminal is not asked");
            if let Ok(bytes) = session.output.recv_timeout(Duration::from_millis(50)) {
                session.written.extend(bytes);
            }
        }
        session.send(&format!("\x1b]10;rgb:{text}\x1b\\\x1b]11;rgb:{background}\x1b\\\x1b[?62;22c"));
        session.until_text("Verdict");
        let ink = |tone: Tone| {
            let (r, g, b) = Hue::Weights.rgb(tone);
            format!("38;2;{r};{g};{b}")
        };
        let written = String::from_utf8_lossy(&session.written).into_owned();
        assert!(written.contains(&ink(tone)), "{tone:?}");
        let parallel = session.value(Knob::Parallel);
        assert!(parallel.starts_with("auto") && parallel.ends_with(" 1"), "{parallel}");
        session.send("q");
        assert!(session.ends().0.success());
    }
}

#[test]
fn a_typed_value_is_taken() {
    let mut session = Session::start(80, 24, &[]);
    session.until_text("Verdict");
    session.send("12345\r");
    session.until_value(Knob::Context, "12\u{2009}345");
    assert_eq!(session.value(Knob::Parallel), "auto   1");
    session.send("\x03");
    assert!(session.ends().0.success());
}

// only debug builds have the option to panic
#[cfg(debug_assertions)]
#[test]
fn a_plan_is_copied_through_the_terminal_and_saved_to_a_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Modelfile").display().to_string();
    let mut session = Session::start(140, 45, &[]);
    session.until_text("Verdict");
    session.send("3000\rx");
    session.until_text("PARAMETER num_ctx 3000");
    session.send("y");
    session.until_text("Modelfile copied");
    let copied = session.copied();
    assert!(copied.contains("PARAMETER num_ctx 3000\n"), "{copied}");

    session.send("s\x15");
    session.send(&path);
    session.send("\r");
    session.until_text("Saved as");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), copied);
    session.send("s\x15");
    session.send(&path);
    session.send("\r");
    session.until_text("already exists");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), copied);
    session.send("\x1b");
    // the footer of the page: the field is closed
    session.until_text("Enter copy");
    session.send("\x03");
    let (status, _) = session.ends();
    assert!(status.success());
}

/// `y` on a page of teaching copies the command that opens the planner there again.
#[test]
fn a_copied_command_reopens_its_page() {
    let size = (140, 45);
    let body = |screen: &vt100::Screen| screen.rows(0, size.0).skip(1).take(40).collect::<Vec<_>>();
    let course = tempfile::tempdir().unwrap();
    let lesson = include_str!("../assets/lessons.toml").split("[[lesson]]").nth(1).unwrap();
    let own = format!("[[lesson]]\n{}", lesson.replace("id = \"kinds\"", "id = \"own\""));
    std::fs::write(course.path().join("own.toml"), own).unwrap();
    let course = course.path().to_str().unwrap();
    let fifth = format!("5 of {}", plimsoll::teach::lessons::all().len() + 1);
    for (page, more, keys, shown, expected) in [
        ("layers", vec!["--step", "3"], "\x1b[C\x1b[C", "Layers", "--page layers --step 5"),
        ("schedule", vec![], "\x1b[C", "Schedule", "--page schedule --step 2"),
        ("allocation", vec!["--step", "7"], "", "Allocation", "--page allocation --step 7"),
        ("cache", vec!["--step", "9"], "", "Cache", "--page cache --step 9"),
        (
            "lessons",
            vec!["--lesson", "4", "--lessons", course],
            "\x1b[B",
            fifth.as_str(),
            "--page lessons --lesson 5 --lessons ",
        ),
        ("formulas", vec![], "", "Formulas", "--page formulas"),
    ] {
        let asked =
            ["catalogue:qwen3-8b", "--engine", "llama.cpp", "--ctx", "8192", "--gpu", "RTX 3060", "--ram", "64GiB"];
        let arguments = [&asked[..], &["--page", page], more.as_slice()].concat();
        let mut session = Session::run(size, &arguments, &[]);
        session.until_text("Tab page");
        session.until("computed", |screen| !screen.contents().contains("Computing"));
        session.send(keys);
        session.until_text(shown);
        session.send("y");
        session.until_text("Copied: ");
        let copied = session.copied();
        assert!(copied.contains(expected), "{copied}");
        let words =
            Command::new("sh").args(["-c", &copied.replacen("plimsoll", "printf '%s\\n'", 1)]).output().unwrap();
        let words = String::from_utf8(words.stdout).unwrap();
        let mut again = Session::run(size, &words.lines().collect::<Vec<_>>(), &[]);
        let wanted = body(session.screen.screen());
        again.until(&copied, |screen| body(screen) == wanted);
        session.send("q");
        again.send("q");
    }
}

#[test]
fn a_panic_restores_the_terminal_before_its_message() {
    let session = Session::start(80, 24, &[("PLIMSOLL_TEST_PANIC", "1")]);
    let (status, contents) = session.ends();
    assert!(!status.success());
    assert!(contents.contains("asked to panic") && contents.contains("a bug in plimsoll"), "{contents}");
}

#[test]
fn signals_restore_the_terminal() {
    for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1), ("QUIT", 3)] {
        let mut session = Session::start(100, 30, &[]);
        session.until_text("Verdict");
        assert!(session.is_taken());
        session.signal(signal);
        let (status, _) = session.ends();
        assert_eq!(status.exit_code(), 128 + number, "{signal}");
    }
}

/// Only debug builds can be asked to be busy.
#[cfg(debug_assertions)]
#[test]
fn signals_end_a_program_that_is_busy() {
    for (signal, number, twice) in [("TERM", 15, false), ("INT", 2, false), ("HUP", 1, false), ("TERM", 15, true)] {
        let mut session = Session::start(100, 30, &[("PLIMSOLL_TEST_BUSY", "1")]);
        session.until_text("Verdict");
        let started = Instant::now();
        for _ in 0..=usize::from(twice) {
            session.signal(signal);
            // two signals at once are one
            thread::sleep(Duration::from_millis(50));
        }
        let (status, _) = session.ends();
        assert_eq!(status.exit_code(), 128 + number, "{signal}");
        // with what `ends` waits for the last output
        let limit = Duration::from_millis(if twice { 1400 } else { 2600 });
        assert!(started.elapsed() < limit, "{signal}: {:?}", started.elapsed());
    }
}

#[rstest]
#[case::by_key(Some("\x1a"), &[])]
#[case::from_outside(None, &[])]
// only debug builds can be asked to be busy
#[cfg_attr(debug_assertions, case::busy(None, &[("PLIMSOLL_TEST_BUSY", "1")]))]
fn it_is_suspended_to_the_shell(#[case] key: Option<&str>, #[case] env: &[(&str, &str)]) {
    let mut session = Session::start(100, 30, env);
    session.until_text("Verdict");
    match key {
        Some(key) => session.send(key),
        None => session.signal("TSTP"),
    }
    session.until("the shell's screen", |screen| !screen.alternate_screen());
    let started = Instant::now();
    while format!("{:?}", session.master.get_termios()) != session.before {
        assert!(started.elapsed() < TIMEOUT, "raw mode is off for the shell");
        thread::sleep(Duration::from_millis(5));
    }
    let id = session.child.process_id().unwrap().to_string();
    // a signal sent before the process has stopped is lost
    let again = thread::spawn(move || {
        for _ in 0..20 {
            assert!(Command::new("kill").args(["-CONT", &id]).status().unwrap().success());
            thread::sleep(Duration::from_millis(50));
        }
    });
    if env.is_empty() {
        session.until("the planner again", |screen| screen.alternate_screen() && screen.contents().contains("Verdict"));
    } else {
        session.until("the planner's modes again", vt100::Screen::alternate_screen);
    }
    let is_taken = |screen: &vt100::Screen| screen.alternate_screen() && screen.bracketed_paste();
    session.until("its modes", is_taken);
    again.join().unwrap();
    if env.is_empty() {
        session.send("q");
        assert!(session.ends().0.success());
    } else {
        session.signal("TERM");
        assert_eq!(session.ends().0.exit_code(), 128 + 15);
    }
}

#[test]
fn no_color_is_respected() {
    let mut session = Session::start(80, 24, &[("NO_COLOR", "1")]);
    session.until_text("Verdict");
    let coloured = (0..24).flat_map(|y| (0..80).map(move |x| (y, x))).any(|(y, x)| {
        let cell = session.screen.screen().cell(y, x).unwrap();
        cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default
    });
    assert!(!coloured, "{}", session.screen.screen().contents());
    session.send("q");
    assert!(session.ends().0.success());
}

#[test]
fn a_dumb_terminal_gets_ascii() {
    let mut session = Session::start(80, 24, &[("TERM", "dumb")]);
    session.until_text("Verdict");
    let contents = session.screen.screen().contents();
    assert!(contents.is_ascii(), "{contents}");
    session.send("q");
    assert!(session.ends().0.success());
}

#[test]
fn the_configuration_file_sets_the_planner_up() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("plimsoll");
    std::fs::create_dir(&folder).unwrap();
    let file = "engine = 'ollama-0.24'\ntheme = 'mono'\nglyphs = 'ascii'\nneed = 12288\nrefresh = 'off'\n";
    std::fs::write(folder.join("config.toml"), file).unwrap();
    let config = home.path().display().to_string();
    let mut session = Session::start(120, 40, &[("XDG_CONFIG_HOME", &config)]);
    session.until_text("Verdict");
    session.until_text("Ollama <=0.24");
    assert!(session.screen.screen().contents().is_ascii(), "{}", session.screen.screen().contents());
    session.send("b");
    session.until_text("context: 12k");
    session.send("\x03");
    assert!(session.ends().0.success());
}

#[test]
fn the_log_tells_what_the_planner_planned() {
    let mut session = Session::start(100, 30, &[("PLIMSOLL_LOG", "plimsoll.log")]);
    session.until_text("Verdict");
    session.send("3000\r");
    session.until_value(Knob::Context, "3\u{2009}000");
    // a changed plan would be asked about
    session.send("\x03");
    let home = std::mem::replace(&mut session.home, tempfile::tempdir().unwrap());
    assert!(session.ends().0.success());
    let log = std::fs::read_to_string(home.path().join("plimsoll.log")).unwrap();
    assert!(log.contains("planned in ") && log.contains("context 3000,"), "{log}");
}

#[test]
fn errors_wrap_at_words() {
    let session = Session::run((40, 20), &["plan", "/no/such/model.gguf", "--gpu", "none"], &[]);
    let (status, contents) = session.ends();
    assert_eq!(status.exit_code(), 3);
    assert!(contents.starts_with("error: '/no/such/model.gguf' does not\nexist: check the path,"), "{contents}");
    assert!(contents.lines().all(|line| line.chars().count() <= 40), "{contents}");
}
