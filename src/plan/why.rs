//! Why a layer is where it is, in words.

use super::{DevicePlan, Why};

impl Why {
    /// One sentence; `devices` are the plan's.
    pub fn sentence(&self, devices: &[DevicePlan]) -> String {
        match self {
            Self::Fits { needed, room } => format!("It needs {needed} and there was room for {room}."),
            Self::InPart { needed, elsewhere } => {
                format!("{needed} of it are here; {elsewhere} of its weights are kept elsewhere, which makes room.")
            }
            Self::NoRoom { needed, room, device } => {
                let place = devices.get(*device).map_or("the GPU", |device| device.id.as_str());
                format!("It needs {needed} and {place} had room for {room}.")
            }
            Self::AskedFor => "That many layers were asked onto GPUs.".to_owned(),
            Self::NotAskedFor => "Fewer layers were asked onto GPUs.".to_owned(),
            Self::OutputDropped => "Not everything fits, so the engine keeps the output layer in RAM.".to_owned(),
            Self::NoGpu => "There is no GPU for it.".to_owned(),
            Self::GivenUp { device, layer } => {
                let place = devices.get(*device).map_or("the GPU", |device| device.id.as_str());
                format!("The engine stopped filling {place} at layer {layer}, which had no room there.")
            }
            Self::Nothing => "There is nothing of it to place.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn a_gpu_that_was_tried_is_named_even_if_the_plan_does_not_list_it() {
        let why = Why::NoRoom { needed: Bytes::mib(512), room: Bytes::mib(100), device: 7 };
        assert_eq!(why.sentence(&[]), "It needs 512 MiB and the GPU had room for 100 MiB.");
    }
}
