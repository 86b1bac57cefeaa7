//! The table of keys, as the planner itself obeys it.

use plimsoll::tui::keymap;

#[test]
fn the_keys_are_current() {
    super::keeps("keys", &keymap::markdown());
}
