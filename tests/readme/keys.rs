//! The table of keys, made of the table that the planner itself obeys.

use std::fmt::Write;

use plimsoll::tui::keymap::{KEYS, Scope};

#[test]
fn the_keys_are_current() {
    let mut table = String::from("| where | key | what it does |\n| --- | --- | --- |\n");
    for scope in Scope::ALL {
        let mut heading = scope.heading();
        for binding in KEYS.iter().filter(|binding| binding.scope == scope) {
            writeln!(table, "| {heading} | {} | {} |", binding.names(), binding.says).unwrap();
            heading = "";
        }
    }
    super::keeps("keys", &table);
}
