//! Plans beside real logs.

mod besides;
mod nameless;
mod published;
mod samples;
mod several;
mod shared;
mod unseen;
