//! The screens over the planner, a file each.
//!
//! To add one: a file whose type implements [`Screen`], its keys as rows of a scope in
//! [`keymap`](super::keymap), and a line in `opened_by` for the key that opens it.

pub mod apply;
pub mod best;
pub mod check;
pub mod compare;
pub mod engine_compare;
pub mod engines;
pub mod entry;
pub mod explain;
pub mod export;
pub mod help;
pub mod history;
pub mod machine;
pub mod matrix;
pub mod models;
pub mod need;
pub mod notes;
pub mod placement;
pub mod sweep;
pub mod teach;
pub mod together;
pub mod watch;
pub mod why;

use super::action::Command;
use super::app::App;
use super::effect::Effect;
use super::regions::Panel;
use super::screen::{Closed, Screen};

/// The screen that `command` opens from the planner, and effects to run besides; none if it opens none. It may go on where
/// `closed` was.
pub(super) fn opened_by(app: &mut App, closed: &Closed, command: Command) -> Option<(Box<dyn Screen>, Vec<Effect>)> {
    let screen: Box<dyn Screen> = match command {
        Command::Apply => Box::new(apply::ApplyPage::default()),
        Command::Best => Box::new(best::BestPage::default()),
        Command::Compare => Box::new(compare::ComparePage::pin(app)?),
        Command::CompareEngines => Box::new(engine_compare::EngineComparison::of(app)),
        Command::Engine => Box::new(engines::EnginesPage::of(app)),
        Command::Explain => Box::new(explain::ExplainPage::of(app)),
        Command::Export => Box::new(export::ExportPage::of(app)),
        Command::Help => Box::new(help::HelpPage::default()),
        Command::History => Box::new(history::HistoryPage::of(app)),
        Command::Machine => Box::new(machine::MachineScreen::default()),
        Command::Matrix => Box::new(matrix::MatrixPage::default()),
        Command::Models | Command::Open => {
            let browser = models::ModelBrowser::open(app, closed.last(), command == Command::Open);
            return Some((Box::new(browser), vec![Effect::ListModels]));
        }
        Command::Notes => Box::new(notes::NotesPage::default()),
        Command::Placement => Box::new(placement::PlacementScreen::of(app)),
        Command::Sweep => Box::new(sweep::SweepPage::of(app)),
        Command::Teach => Box::new(teach::TeachScreen::reopened(app, closed.last())),
        Command::Together => Box::new(together::TogetherPage::default()),
        Command::Verify => Box::new(check::CheckPage::default()),
        Command::Watch => Box::new(watch::WatchPage::default()),
        Command::Enter => match app.panels.focus {
            Panel::Knobs => Box::new(entry::ValueEntry::suggested(app.suggested_text())),
            Panel::Layers => Box::new(why::WhyPage::on(app.panels.cursors.layer)),
            Panel::Memory | Panel::Graph => Box::new(explain::ExplainPage::of(app)),
        },
        _ => return None,
    };
    Some((screen, Vec::new()))
}
