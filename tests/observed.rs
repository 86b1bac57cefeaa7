//! What programs print gives what they said that they took.

mod laws;
mod loads;
mod samples;
mod status;
