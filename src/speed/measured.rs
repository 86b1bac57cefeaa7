//! What a measured speed says of the machine: the bandwidth at which it reads RAM.

use super::constants::FITTED;
use super::family::Family;
use super::work::Work;
use crate::units::Bandwidth;

/// The bandwidth of RAM at which devices do `work` at a measured speed.
///
/// Reading RAM is the only part of a token's time that goes with its bandwidth, so two bandwidths tell how large it is.
///
/// # Errors
/// One clause, if no RAM takes part or no plausible bandwidth explains the speed.
pub fn ram_bandwidth(work: &Work, tokens_per_second: f64) -> Result<Bandwidth, String> {
    let ram = work.devices.iter().find(|device| device.family == Family::Cpu);
    let ram = ram.ok_or("nothing of this plan is read from RAM, so the measurement tells nothing of it")?.bandwidth;
    let seconds = |work: &Work| work.seconds(&FITTED, None);
    let once = seconds(work);
    let reading = 2.0 * (once - seconds(&work.clone().with_ram(2.0)));
    let others = once - reading;
    let left = tokens_per_second.recip() - others;
    if left <= 0.0 {
        return Err(format!(
            "{tokens_per_second} tokens per second cannot be: what does not depend on RAM allows {:.0} at most",
            others.recip()
        ));
    }
    Bandwidth::checked((ram.per_second() * reading / left) as u64)
}
