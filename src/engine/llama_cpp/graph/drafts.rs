//! Graphs of drafts: MTP blocks, and models that draft for another.

mod dflash;
mod eagle3;
mod gemma4_assistant;
mod mtp;
