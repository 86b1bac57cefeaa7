//! A device in another computer, served by llama.cpp's `rpc-server` (`ggml-rpc.cpp`, 0.1.161).

use super::{Backend, BackendRef};
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::Tensor;

/// Alignment, maximum buffer and sizes are asked of the device; it is asynchronous and has events, never runs an
/// operation whose weights are in RAM, and is sent the graph in the order of the scheduler.
#[derive(Clone, Debug)]
pub struct Remote(pub BackendRef);

impl Backend for Remote {
    fn alignment(&self) -> u64 {
        self.0.alignment()
    }

    fn has_host_buffers(&self) -> bool {
        false
    }

    fn max_buffer(&self) -> u64 {
        self.0.max_buffer()
    }

    fn offload_batch(&self) -> Option<u64> {
        None
    }

    fn bytes(&self, tensor: &Tensor) -> u64 {
        self.0.bytes(tensor)
    }

    fn allocation(&self, graph: &Graph, tensor: &Tensor) -> u64 {
        self.0.allocation(graph, tensor)
    }
}
