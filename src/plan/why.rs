//! The reason for a layer's device, as a sentence.

use super::{DevicePlan, LayerPlan, Why};

impl LayerPlan {
    /// Why it is on its device; `devices` are the plan's.
    pub fn reason(&self, devices: &[DevicePlan]) -> String {
        let place = |device: usize| devices.get(device).map_or("the GPU", |device| device.id.as_str());
        match &self.why {
            Why::Fits { needed, room } => format!("It needs {needed}, and {room} was free."),
            Why::InPart { needed, elsewhere } => {
                format!("{needed} of it is here; {elsewhere} of its weights is on another device to make room.")
            }
            Why::NoRoom { needed, room, device } => {
                format!("It needs {needed}, and {} had only {room} left.", place(*device))
            }
            Why::AskedFor => "This many layers on GPU were requested.".to_owned(),
            Why::NotAskedFor => "Fewer layers on GPU were requested.".to_owned(),
            Why::OutputDropped => "Not everything fits, so the engine keeps the output layer in RAM.".to_owned(),
            Why::NoGpu => "There is no GPU.".to_owned(),
            Why::GivenUp { device, layer, needed, room, own } => format!(
                "Layer {layer}, {needed}, was the first without room on {}, which had {room} left; this one would have \
                 needed {own}.",
                place(*device),
            ),
            Why::NotCounted => "llama.cpp's fit does not count the NextN (MTP) block, so one layer fewer is on GPU \
                                than there is room for."
                .to_owned(),
            Why::Nothing => "It has no tensors to place.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::Term;
    use crate::units::Bytes;

    #[test]
    fn a_gpu_missing_in_the_plan_is_named_generically() {
        let why = Why::NoRoom { needed: Bytes::mib(512), room: Bytes::mib(100), device: 7 };
        let cache_term = Arc::new(Term::nothing("no cache"));
        let layer = LayerPlan { index: 0, device: 1, weights: Bytes::mib(512), cache: Bytes::ZERO, cache_term, why };
        assert_eq!(layer.reason(&[]), "It needs 512 MiB, and the GPU had only 100 MiB left.");
    }
}
