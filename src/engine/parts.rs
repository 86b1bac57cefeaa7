//! What of the layers that count as on GPUs is in RAM all the same: experts, or parts of a feed-forward.

use super::ggml::{Backend, Tensor};
use super::llama_cpp::weights::Slot;
use crate::gguf;
use crate::model::{Group, Model};
use crate::plan::{DeviceKind, DevicePlan};
use crate::units::Bytes;

/// What llama.cpp only looks rows up in, and keeps in RAM whatever else goes to GPUs (`load_tensors` in
/// `llama-model.cpp`, 0.1.161).
const LOOKED_UP: [Slot; 4] = [Slot::TokenEmbd, Slot::PerLayerTokenEmbd, Slot::PositionEmbd, Slot::TokenTypes];

/// Counts it on the CPU of `devices`, as llama.cpp filled them with `model`, where every layer is on GPUs.
pub(super) fn count(model: &Model, devices: &mut [DevicePlan]) {
    let Some(cpu) = devices.iter_mut().find(|device| device.kind == DeviceKind::Cpu) else { return };
    if cpu.layers.is_empty() {
        cpu.parts = cpu.weights - looked_up(model);
    }
}

/// Bytes of the tensors that are in RAM wherever the layers are.
fn looked_up(model: &Model) -> Bytes {
    let is_one = |tensor: &&gguf::Tensor| {
        let own = |slot: Slot| {
            tensor
                .name
                .strip_prefix(slot.name())
                .is_some_and(|rest| matches!(rest, "" | ".weight" | ".bias" | ".scale"))
        };
        LOOKED_UP.into_iter().any(own)
    };
    let taken = |tensor: &gguf::Tensor| {
        let mut ne = [1; 4];
        ne.iter_mut().zip(&tensor.dims).for_each(|(to, dim)| *to = *dim);
        Bytes(Backend::CPU.align(Backend::CPU.allocation(&Tensor::new(tensor.ty, ne))))
    };
    model.tensors(Group::Input).filter(is_one).map(taken).sum()
}
