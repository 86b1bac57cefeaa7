//! The report on a terminal: bars, and colours unless they are turned off.
#![cfg(unix)]

use std::io::Read;
use std::num::NonZero;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rstest::rstest;

use super::Sandbox;

/// The output of `plimsoll plan` on a terminal of 100 columns, with these variables.
fn on_a_terminal(variables: &[(&str, &str)]) -> String {
    let sandbox = Sandbox::new();
    let command = sandbox.plan("llama3.1-8b");
    let mut on_terminal = CommandBuilder::new(command.get_program());
    on_terminal.args(command.get_args());
    on_terminal.args(["--gpu", "name=RTX 3060,total=12GiB,free=11GiB", "--ctx", "32768"]);
    on_terminal.env_clear();
    on_terminal.env("HOME", sandbox.folder.path());
    for (name, value) in variables {
        on_terminal.env(name, value);
    }
    let size = PtySize { rows: 50, cols: 100, pixel_width: 0, pixel_height: 0 };
    let terminal = native_pty_system().openpty(size).unwrap();
    let mut child = terminal.slave.spawn_command(on_terminal).unwrap();
    drop(terminal.slave);
    let mut written = Vec::new();
    // reading from a closed pseudo-terminal may give an error instead of end of file
    drop(terminal.master.try_clone_reader().unwrap().read_to_end(&mut written));
    assert!(child.wait().unwrap().success());
    String::from_utf8(written).unwrap()
}

#[test]
fn a_terminal_gets_bars_and_colours() {
    let text = on_a_terminal(&[("TERM", "xterm-256color")]);
    assert!(text.contains("weights") && text.contains("\u{1b}[1m"), "{text}");
    assert!(text.contains("\u{1b}[38;5;"), "{text}");
    let mut screen = vt100::Parser::new(NonZero::new(90).unwrap(), NonZero::new(100).unwrap(), 0);
    screen.process(text.as_bytes());
    let seen = screen.screen().contents();
    let bar = seen.lines().find(|line| line.contains('┃')).unwrap();
    for glyph in ['█', '▓', '▒', '░', '╱'] {
        assert!(bar.contains(glyph), "{glyph} in {bar}");
    }
    assert!(seen.lines().all(|line| line.chars().count() <= 100), "{seen}");
}

#[rstest]
#[case(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")], '┃')]
#[case(&[("TERM", "dumb"), ("COLORTERM", "truecolor")], '|')]
fn colours_can_be_turned_off(#[case] variables: &[(&str, &str)], #[case] end: char) {
    let text = on_a_terminal(variables);
    assert!(!text.contains('\u{1b}') && text.contains(end), "{text}");
}
