//! Sets up the terminal, and restores it on every way out.

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
use terminal_colorsaurus::{QueryOptions, ThemeMode};

use super::host::Host;
use super::theme::Tone;

/// Whether the terminal is set up. Cleared by whoever restores it, so that this happens once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while the planner uses it; restored on drop.
pub struct TerminalGuard {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// Dark or light, by the colours that the terminal says it has; none if it does not say.
pub fn background() -> Option<Tone> {
    match terminal_colorsaurus::theme_mode(QueryOptions::default()).ok()? {
        ThemeMode::Dark => Some(Tone::Dark),
        ThemeMode::Light => Some(Tone::Light),
    }
}

impl TerminalGuard {
    /// Enters raw mode and the alternate screen, and enables mouse events and bracketed paste. A panic on this thread
    /// restores the terminal before it is reported.
    ///
    /// # Errors
    /// If standard output is not a terminal.
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
    /// If the terminal does not report its size.
    pub fn size() -> io::Result<(u16, u16)> {
        size()
    }

    /// Draws `app`, as one synchronised update where the terminal supports it.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, host: &Host) -> io::Result<()> {
        queue!(stdout(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| host.draw(frame.buffer_mut()))?;
        execute!(stdout(), EndSynchronizedUpdate)
    }

    /// Copies `text` to the terminal's clipboard (OSC 52), which also works over SSH. Terminals without support ignore
    /// it.
    ///
    /// # Errors
    /// If the terminal is gone, or, as [`io::ErrorKind::Unsupported`], known to have no clipboard.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), CopyToClipboard::to_clipboard_from(text))
    }

    /// Restores the terminal for the shell, and sets it up again when the program is resumed.
    ///
    /// # Errors
    /// If the terminal is gone.
    #[cfg_attr(
        not(unix),
        allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "other systems do not suspend programs")
    )]
    pub fn suspend(&mut self) -> io::Result<()> {
        #[cfg(unix)]
        {
            stop()?;
            self.renew()?;
        }
        Ok(())
    }

    /// Draws everything again next time.
    ///
    /// # Errors
    /// If the terminal is gone.
    #[cfg(unix)]
    pub fn renew(&mut self) -> io::Result<()> {
        // a new terminal redraws everything, without querying the cursor position
        self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal, stops the program until the shell resumes it, and sets the terminal up again.
///
/// # Errors
/// If the terminal is gone.
#[cfg(unix)]
pub(super) fn stop() -> io::Result<()> {
    give_back();
    signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
    take_modes()
}

fn take_modes() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    let taken = execute!(stdout(), EnterAlternateScreen, EnableMouseCapture);
    // consoles of Windows before version 10 have no bracketed paste, and can do without
    let taken = taken.and_then(|()| match execute!(stdout(), EnableBracketedPaste) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        other => other,
    });
    if taken.is_err() {
        give_back();
    }
    taken
}

/// Restores the terminal. Errors are ignored: the terminal may be gone.
pub(super) fn give_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = stdout();
    let _gone =
        execute!(out, EndSynchronizedUpdate, DisableBracketedPaste, DisableMouseCapture, LeaveAlternateScreen, Show);
    let _gone = disable_raw_mode();
    let _gone = out.flush();
}

/// Installs a panic hook: a panic on this thread restores the terminal and is reported afterwards. Panics on other
/// threads are caught where those are started, and must not print over the screen.
fn hook_panics() {
    let ours = thread::current().id();
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if thread::current().id() == ours {
            give_back();
            before(panic);
        } else if TAKEN.load(Ordering::SeqCst) {
            tracing::error!("{panic}");
        } else {
            before(panic);
        }
    }));
}
