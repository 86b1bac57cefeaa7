//! Plans and answers as SVG pictures, drawn as charts: shapes that scale, text that can be selected.

mod canvas;
mod charts;
mod matrix;
mod plan;
mod sweep;

pub use matrix::matrix;
pub use plan::plan;
pub use sweep::sweep;
