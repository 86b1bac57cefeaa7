//! What is kept at most of a text of any length.

/// Bytes of a line; the rest of a longer one is passed over.
pub const LINE: usize = 64 << 10;
/// Loads; of more, the last ones are kept.
pub const LOADS: usize = 128;
/// Writers whose lines are mixed in one text; of more, the ones that were silent longest are closed.
pub const WRITERS: usize = 32;
/// Devices of a load, and buffers of one kind in a context.
pub const DEVICES: usize = 64;
/// Models of a load (with drafts), and contexts.
pub const PARTS: usize = 16;
/// Events of a load.
pub const EVENTS: usize = 64;
/// Rows of `ollama ps`, cards and processes.
pub const ROWS: usize = 1024;
/// Lines that a load keeps, where they are kept.
pub const KEPT: usize = 1000;
/// Bytes of a JSON document over several lines.
pub const JSON: usize = 256 << 10;
