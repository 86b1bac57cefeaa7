//! Plans beside real logs.

mod besides;
mod samples;
mod several;
mod unseen;
