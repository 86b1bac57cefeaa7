//! ggml as far as memory is concerned: tensors that have a shape but no data, graphs of them, the scheduler that
//! spreads a graph over devices and the allocator that finds out how many bytes each device must reserve.
//!
//! Everything here follows ggml as it comes with llama.cpp in package `llama-cpp-sys-2` 0.1.161 (release 2026-11).

pub mod allocate;
pub mod backend;
pub mod graph;
pub mod ops;
pub mod schedule;
pub mod tensor;

pub use crate::gguf::GgmlType as Type;
pub use backend::BackendProps;
pub use graph::Graph;
pub use tensor::{Op, Tensor, TensorId};
