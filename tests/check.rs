//! Plans beside real logs.

mod besides;
mod published;
mod samples;
mod several;
mod unseen;
