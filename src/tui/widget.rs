//! Widgets of the panels.

pub mod area;
pub mod bar;
pub mod columns;
pub mod field;
pub(crate) mod list;
pub mod page;
pub mod panel;
pub mod row_writer;
pub mod slider;
pub mod stack;
