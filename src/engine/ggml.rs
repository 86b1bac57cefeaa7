//! The part of ggml that determines memory: tensors with a shape but no data, graphs, the scheduler that assigns a
//! graph to devices, and the allocator that computes how many bytes each device must reserve.
//!
//! Follows ggml as shipped with llama.cpp in package `llama-cpp-sys-2` 0.1.161 (release 2026-11).

pub mod allocate;
pub mod backend;
pub mod graph;
mod ops;
pub mod schedule;
pub mod tensor;

pub use crate::gguf::GgmlType as Type;
pub use backend::{Backend, BackendRef};
pub use graph::Graph;
pub use tensor::{Op, Tensor};
