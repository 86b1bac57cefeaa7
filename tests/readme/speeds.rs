//! The errors of modelled speeds, recomputed from the measurements.

use super::check_table;

#[test]
fn the_errors_of_speeds_are_recomputed() {
    check_table("tests/speeds/README.md", "speeds", &crate::speeds::table());
    check_table("tests/speeds/README.md", "prompts", &crate::speeds::prompt_table());
    check_table("tests/speeds/README.md", "mlx", &crate::speeds::mlx_table());
}
