//! A device that lacks an operation, to show what that changes.

use super::{AllocDeps, Backend, BackendRef, Cpu, SplitGraph};
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Op, Tensor};

/// The same device without one operation; never one that writes to a cache, since caches do not move.
#[derive(Clone, Debug)]
pub struct Without {
    /// The device.
    pub backend: BackendRef,
    /// The operation.
    pub op: Op,
}

impl Backend for Without {
    fn alignment(&self) -> u64 {
        self.backend.alignment()
    }

    fn host(&self) -> Option<Cpu> {
        self.backend.host()
    }

    fn has_host_buffers(&self) -> bool {
        self.backend.has_host_buffers()
    }

    fn max_buffer(&self) -> u64 {
        self.backend.max_buffer()
    }

    fn offload_batch(&self) -> Option<u64> {
        self.backend.offload_batch()
    }

    fn pipelines(&self) -> bool {
        self.backend.pipelines()
    }

    fn bytes(&self, tensor: &Tensor) -> u64 {
        self.backend.bytes(tensor)
    }

    fn allocation(&self, graph: &Graph, tensor: &Tensor) -> u64 {
        self.backend.allocation(graph, tensor)
    }

    fn supports(&self, graph: &Graph, tensor: &Tensor) -> bool {
        tensor.op != self.op && self.backend.supports(graph, tensor)
    }

    fn offloads(&self, tensor: &Tensor) -> bool {
        self.backend.offloads(tensor)
    }

    fn graph_optimize(&self, split: &mut SplitGraph<'_>, kept: &mut AllocDeps) {
        self.backend.graph_optimize(split, kept);
    }
}
