//! The screens over the planner, a file each.
//!
//! To add one: a file whose type implements [`Screen`](super::host::Screen), its keys as rows of a scope in
//! [`keymap`](super::keymap), and a line in [`open`] for the key that opens it.

pub mod best;
pub mod compare;
pub mod engine_compare;
pub mod engines;
pub mod entry;
pub mod explain;
pub mod export;
pub mod help;
pub mod machine;
pub mod matrix;
pub mod models;
pub mod notes;
pub mod sweep;
pub mod together;
pub mod verify;
pub mod why;

use super::action::Command;
use super::app::App;
use super::effect::Effect;
use super::regions::Panel;
use crate::teach;

/// Opens the screen of `command`; none if it has none.
pub(super) fn open(app: &mut App, command: Command) -> Option<Vec<Effect>> {
    Some(match command {
        Command::Best => app.show(best::BestPage::default()),
        Command::Compare => compare::pin(app),
        Command::CompareEngines => app.show(engine_compare::EngineComparison::of(app)),
        Command::Engine => app.show(engines::EnginesPage::of(app)),
        Command::Explain => app.show(explain::ExplainPage::of(app)),
        Command::Export => app.show(export::ExportPage::of(app)),
        Command::Help => app.show(help::HelpPage::default()),
        Command::Machine => app.show(machine::MachineScreen::default()),
        Command::Matrix => app.show(matrix::MatrixPage::default()),
        Command::Models => models::open(app, false),
        Command::Notes => app.show(notes::NotesPage::default()),
        Command::Open => models::open(app, true),
        Command::Sweep => app.show(sweep::SweepPage::of(app)),
        Command::Teach => app.teach(teach::Page::ALL[0].topic()),
        Command::Together => app.show(together::TogetherPage::default()),
        Command::Verify => app.show(verify::VerifyPage::default()),
        Command::Enter if app.panels.focus == Panel::Layers => app.show(why::WhyPage::on(app.panels.cursors.layer)),
        Command::Enter if app.panels.focus != Panel::Knobs => app.show(explain::ExplainPage::of(app)),
        _ => return None,
    })
}
