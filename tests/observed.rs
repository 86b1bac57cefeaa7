//! What programs print gives what they said that they took.

mod laws;
mod loads;
mod pasted;
pub mod samples;
mod status;
