//! Values of knobs that the current engine, model or machine does not offer, kept until one does again.

use super::knob::{Knob, value::one_type};
use super::{CacheType, Settings};

/// Stashed knobs, each with the settings that hold its value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StashedKnobs {
    knobs: Vec<(Knob, Settings)>,
    /// The last types of K and V that were set separately.
    cache: Option<(Option<CacheType>, Option<CacheType>)>,
}

impl StashedKnobs {
    /// Converts `settings` from an engine with the knobs `from` to one with the knobs `to`. A knob in both keeps its
    /// value; one only in `from` is stashed and reset to auto; one only in `to` gets its stashed value back.
    pub fn switch_knobs(&mut self, settings: &mut Settings, from: &[Knob], to: &[Knob]) {
        let not_cache = |knob: &&Knob| !CACHE.contains(*knob);
        for &knob in from.iter().filter(not_cache).filter(|knob| !to.contains(knob)) {
            self.knobs.retain(|(kept, _)| *kept != knob);
            self.knobs.push((knob, settings.clone()));
            knob.reset(settings);
        }
        for &knob in to.iter().filter(not_cache).filter(|knob| !from.contains(knob)) {
            if let Some(at) = self.knobs.iter().position(|(kept, _)| *kept == knob) {
                let (knob, kept) = self.knobs.swap_remove(at);
                knob.copy(&kept, settings);
            }
        }
        self.switch_cache_knobs(settings, CacheKnobs::of(from), CacheKnobs::of(to));
    }

    /// The knob for both types and the knobs for each of them use the same settings, so they are converted together.
    fn switch_cache_knobs(&mut self, settings: &mut Settings, from: CacheKnobs, to: CacheKnobs) {
        let now = (settings.cache_type_k, settings.cache_type_v);
        let types = match from {
            CacheKnobs::Separate => now,
            CacheKnobs::Shared => self.cache.filter(|&(k, v)| one_type(k, v) == now.0).unwrap_or(now),
            CacheKnobs::None => self.cache.unwrap_or(now),
        };
        self.cache = Some(types);
        (settings.cache_type_k, settings.cache_type_v) = match to {
            CacheKnobs::Separate => types,
            CacheKnobs::Shared => {
                let one = one_type(types.0, types.1);
                (one, one)
            }
            CacheKnobs::None => (None, None),
        };
    }
}

/// The knobs that set cache types.
const CACHE: [Knob; 3] = [Knob::CacheType, Knob::CacheTypeK, Knob::CacheTypeV];

/// How the cache types can be set.
#[derive(Clone, Copy)]
enum CacheKnobs {
    Separate,
    Shared,
    None,
}

impl CacheKnobs {
    fn of(knobs: &[Knob]) -> Self {
        if knobs.contains(&Knob::CacheTypeK) {
            Self::Separate
        } else if knobs.contains(&Knob::CacheType) {
            Self::Shared
        } else {
            Self::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    const SHARED: [Knob; 2] = [Knob::Context, Knob::CacheType];
    const SEPARATE: [Knob; 4] = [Knob::Context, Knob::CacheTypeK, Knob::CacheTypeV, Knob::Ubatch];

    #[test]
    fn shared_knobs_keep_their_values_and_others_are_restored() {
        let mut settings = Settings { ubatch: Some(256), ..Settings::default() };
        settings.cache_type_k = Some(CacheType::Q5_1);
        Knob::Context.set(&mut settings, 4096);
        let first = settings.clone();
        let mut stashed = StashedKnobs::default();
        stashed.switch_knobs(&mut settings, &SEPARATE, &SHARED);
        assert_eq!((settings.ubatch, settings.cache_type_k, settings.ctx), (None, None, first.ctx));
        stashed.switch_knobs(&mut settings, &SHARED, &SEPARATE);
        assert_eq!(settings, first);
    }

    #[test]
    fn a_type_changed_in_between_applies_to_k_and_v() {
        let mut settings = Settings::default();
        (settings.cache_type_k, settings.cache_type_v) = (Some(CacheType::Q8_0), Some(CacheType::F16));
        let mut stashed = StashedKnobs::default();
        stashed.switch_knobs(&mut settings, &SEPARATE, &SHARED);
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q8_0), Some(CacheType::Q8_0)));
        Knob::CacheType.set(&mut settings, 2);
        stashed.switch_knobs(&mut settings, &SHARED, &SEPARATE);
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q4_0), Some(CacheType::Q4_0)));
    }

    proptest! {
        #[test]
        fn values_are_restored_with_their_knobs(
            values in prop::collection::vec(0u64..9, Knob::ALL.len()),
            mut stops in prop::collection::vec(subsequence(Knob::ALL.to_vec(), 0..=Knob::ALL.len()), 1..5),
            both in select(vec![true, false]),
        ) {
            // an engine has either one knob for the cache or two
            for knobs in &mut stops {
                knobs.retain(|knob| !CACHE.contains(knob));
                knobs.extend(if both { &CACHE[..1] } else { &CACHE[1..] });
            }
            let all: Vec<Knob> = Knob::ALL.into_iter().filter(|&knob| knob != Knob::CacheType).collect();
            let mut settings = Settings::default();
            for (knob, value) in all.iter().zip(values) {
                knob.set(&mut settings, value);
            }
            let first = settings.clone();
            let mut stashed = StashedKnobs::default();
            let mut before = all.clone();
            for knobs in stops {
                stashed.switch_knobs(&mut settings, &before, &knobs);
                for &knob in &knobs {
                    let mut here = settings.clone();
                    knob.copy(&first, &mut here);
                    prop_assert!(CACHE.contains(&knob) || here == settings, "{knob:?} lost its value");
                }
                before = knobs;
            }
            stashed.switch_knobs(&mut settings, &before, &all);
            prop_assert_eq!(settings, first);
        }
    }
}
