//! Headers: whatever the bytes, a header or one clear sentence.

mod allocations;
mod arrival;
mod corpus;
mod laws;
mod models;
mod round_trip;
