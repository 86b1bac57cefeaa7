//! The keys to learn first, from the table that the planner itself reads.

use std::fmt::Write;

use plimsoll::tui::action::Command;
use plimsoll::tui::keymap::{KEYS, Scope};

/// The other keys are on the help screen.
const FIRST: [(Scope, Command); 12] = [
    (Scope::Knobs, Command::MaxInVram),
    (Scope::Knobs, Command::NextCliff),
    (Scope::Knobs, Command::Lock),
    (Scope::Lists, Command::Enter),
    (Scope::Plan, Command::Explain),
    (Scope::Plan, Command::Best),
    (Scope::Plan, Command::Compare),
    (Scope::Plan, Command::Models),
    (Scope::Plan, Command::Machine),
    (Scope::Plan, Command::Engine),
    (Scope::Plan, Command::Export),
    (Scope::Plan, Command::Teach),
];

#[test]
fn the_first_keys_are_current() {
    let mut table = "| key | what it does |\n| --- | --- |\n".to_owned();
    for (scope, command) in FIRST {
        let binding = KEYS.iter().find(|binding| binding.scope == scope && binding.command == command).unwrap();
        writeln!(table, "| `{}` | {} |", binding.names(), binding.description).unwrap();
    }
    super::check_table("README.md", "keys", &table);
}
