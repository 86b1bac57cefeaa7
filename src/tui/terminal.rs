//! The terminal: taken once, given back on every way out.

use std::io::{self, Stdout, Write, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::clipboard::CopyToClipboard;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use ratatui::crossterm::{execute, queue};

use super::app::App;
use super::view;

/// The terminal is ours; what must be given back only once is given back when this turns false.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while the planner has it. Dropping it gives the terminal back.
pub struct TerminalGuard {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl TerminalGuard {
    /// Takes the terminal: raw mode, the alternate screen, the mouse, and paste as one event. A panic on this thread
    /// gives it back before it is reported.
    ///
    /// # Errors
    /// When standard output is no terminal that can be controlled.
    pub fn take() -> io::Result<Self> {
        hook_panics();
        take_modes()?;
        match Terminal::new(CrosstermBackend::new(stdout())) {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Columns and rows.
    ///
    /// # Errors
    /// When the terminal does not say.
    pub fn size() -> io::Result<(u16, u16)> {
        size()
    }

    /// Draws `app`, in one piece where the terminal can.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn draw(&mut self, app: &App) -> io::Result<()> {
        queue!(stdout(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| view::draw(app, frame.buffer_mut()))?;
        execute!(stdout(), EndSynchronizedUpdate)
    }

    /// Puts `text` on the clipboard of whoever sits at the terminal (OSC 52), also through SSH; a terminal that does not
    /// know how ignores it.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), CopyToClipboard::to_clipboard_from(text))
    }

    /// Gives the terminal to the shell until the program is continued.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn suspend(&mut self) -> io::Result<()> {
        #[cfg(unix)]
        {
            give_back();
            signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
            take_modes()?;
            // a fresh one draws everything anew, and asks the terminal nothing
            self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        }
        Ok(())
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        give_back();
    }
}

fn take_modes() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    let taken = execute!(stdout(), EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste);
    if taken.is_err() {
        give_back();
    }
    taken
}

/// Puts the terminal into the state in which it was taken. The terminal may be gone: then there is nobody to tell.
fn give_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = stdout();
    let _gone =
        execute!(out, EndSynchronizedUpdate, DisableBracketedPaste, DisableMouseCapture, LeaveAlternateScreen, Show);
    let _gone = disable_raw_mode();
    let _gone = out.flush();
}

/// From now on a panic on this thread gives the terminal back and is reported after that. Panics on other threads
/// are caught where those are started, and say nothing over the planner's screen.
fn hook_panics() {
    let ours = thread::current().id();
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if thread::current().id() == ours {
            give_back();
            before(panic);
        } else if !TAKEN.load(Ordering::SeqCst) {
            before(panic);
        }
    }));
}
