//! Plans and answers as SVG charts.

mod canvas;
mod charts;
mod matrix;
mod plan;
mod sweep;

pub use matrix::matrix;
pub use plan::plan;
pub use sweep::sweep;
