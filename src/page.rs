//! An answer as a page, and what all renderers of pages share.

pub mod palette;
