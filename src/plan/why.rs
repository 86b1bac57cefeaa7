//! The reason for a layer's device, as a sentence.

use super::{DevicePlan, Why};

impl Why {
    /// `devices` are the plan's.
    pub fn sentence(&self, devices: &[DevicePlan]) -> String {
        match self {
            Self::Fits { needed, room } => format!("It needs {needed}, and {room} was free."),
            Self::InPart { needed, elsewhere } => {
                format!("{needed} of it is here; {elsewhere} of its weights is on another device to make room.")
            }
            Self::NoRoom { needed, room, device } => {
                let place = devices.get(*device).map_or("the GPU", |device| device.id.as_str());
                format!("It needs {needed}, and {place} had only {room} left.")
            }
            Self::AskedFor => "This many layers on GPU were requested.".to_owned(),
            Self::NotAskedFor => "Fewer layers on GPU were requested.".to_owned(),
            Self::OutputDropped => "Not everything fits, so the engine keeps the output layer in RAM.".to_owned(),
            Self::NoGpu => "There is no GPU.".to_owned(),
            Self::GivenUp { device, layer } => {
                let place = devices.get(*device).map_or("the GPU", |device| device.id.as_str());
                format!("The engine stopped filling {place} at layer {layer}, which did not fit.")
            }
            Self::Nothing => "It has no tensors to place.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn a_gpu_missing_in_the_plan_is_named_generically() {
        let why = Why::NoRoom { needed: Bytes::mib(512), room: Bytes::mib(100), device: 7 };
        assert_eq!(why.sentence(&[]), "It needs 512 MiB, and the GPU had only 100 MiB left.");
    }
}
