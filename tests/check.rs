//! Plans beside real logs.

mod samples;
