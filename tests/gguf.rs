//! Headers: any bytes give a header or one clear error.

mod allocations;
mod arrival;
mod corpus;
mod laws;
mod models;
mod round_trip;
