//! The help: all keys of the key table.

use crate::page::{Block, Hue, Page};
use crate::tui::action::Command;
use crate::tui::app::App;
use crate::tui::keymap::Scope;
use crate::tui::screen::{Response, Screen};
use crate::tui::widget::page::{self, Overlay, WIDTH};

/// The state of the page.
#[derive(Debug, Default)]
pub struct HelpPage {
    scroll: u16,
    /// The scopes of the screen that it explains, which come first.
    scopes: &'static [Scope],
}

impl HelpPage {
    /// The page about a screen with these scopes.
    pub fn of(scopes: &'static [Scope]) -> Self {
        Self { scroll: 0, scopes }
    }
}

impl Screen for HelpPage {
    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn press(&mut self, _: &mut App, command: Command) -> Response {
        match command {
            Command::Help | Command::Back | Command::Enter => Response::CLOSE,
            _ => Response::Ignored,
        }
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn page(&self, app: &App) -> Option<Overlay> {
        Some(Overlay::new(keys(app, self.scopes), "Keys", self.scroll))
    }
}

/// The page, in two columns if there is room; the scopes `first` come first.
fn keys(app: &App, first: &[Scope]) -> Page {
    let mut page = Page::default();
    let mut scopes = Scope::ALL;
    scopes.sort_by_key(|scope| !first.contains(scope));
    if app.panels.regions.screen.width >= WIDTH {
        let (mut left, mut right) = (Page::default(), Page::default());
        let height = |page: &Page| page.lines(page::columns(app) / 2 - 1).len();
        rest(&mut right);
        for scope in scopes {
            let shorter = if height(&left) <= height(&right) { &mut left } else { &mut right };
            of_scope(app, scope, shorter);
        }
        page.push(Block::Columns(vec![left, right]));
    } else {
        for scope in scopes {
            of_scope(app, scope, &mut page);
            // the last scope of the planner: those of other pages come after the general remarks
            if scope == Scope::Plan {
                rest(&mut page);
            }
        }
    }
    page
}

fn of_scope(app: &App, scope: Scope, page: &mut Page) {
    page.heading(scope.heading());
    for binding in app.preferences.keys.bindings(scope) {
        page.pair(&binding.names(), 9, binding.description, Hue::Text);
    }
}

fn rest(page: &mut Page) {
    page.heading("Mouse");
    page.text(
        "Drag sliders, click anything to open it, scroll over a knob to change it. The top line opens the \
               model, the engine, the machine and this help.",
        Hue::Text,
    );
    page.heading("Symbols");
    page.text("● set by you", Hue::Text);
    page.text("○ auto: chosen by the engine", Hue::Text);
    page.text("→ the value that the engine uses", Hue::Text);
    page.text("┊ largest value with all in VRAM (m)", Hue::Text);
    page.text("╎ largest with all layers on GPU, experts in RAM (M)", Hue::Text);
    page.text("┄ beyond it, fewer layers on GPU", Hue::Text);
    page.text("╵ threshold: fewer layers on GPU", Hue::Text);
    page.text("◇ threshold: the engine changes a setting", Hue::Text);
    page.text("◆ locked: suggestions do not change it", Hue::Text);
    page.text("▲▼ just changed", Hue::Text);
    page.text("0 1 R device of a layer: GPU0, GPU1, RAM", Hue::Text);
    page.text("/ layers of this column are on several devices", Hue::Text);
    page.text("✓ all in VRAM", Hue::Text);
    page.text("◐ all layers on GPU, parts run from RAM", Hue::Text);
    page.text("▲ some layers in RAM", Hue::Text);
    page.text("✗ does not fit", Hue::Text);
    page.text("≈ column is cut off: taller than shown", Hue::Text);
}
