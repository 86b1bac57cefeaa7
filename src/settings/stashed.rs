//! What was set on knobs that are not offered now: another engine, model or machine may offer them again.

use super::knob::{Knob, value::one_type};
use super::{CacheType, Settings};

/// Knobs laid aside, each with the settings that it was laid aside from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StashedKnobs {
    knobs: Vec<(Knob, Settings)>,
    /// Types of K and V as they were wished for last where they could be had apart.
    cache: Option<(Option<CacheType>, Option<CacheType>)>,
}

impl StashedKnobs {
    /// Makes `settings`, which were set with the knobs in `from`, settings for the knobs in `to`. A knob in both keeps its
    /// value; one that is no longer there is laid aside and left to the engine; one that is there again gets back what was
    /// laid aside.
    pub fn switch_knobs(&mut self, settings: &mut Settings, from: &[Knob], to: &[Knob]) {
        let alone = |knob: &&Knob| !CACHE.contains(*knob);
        for &knob in from.iter().filter(alone).filter(|knob| !to.contains(knob)) {
            self.knobs.retain(|(kept, _)| *kept != knob);
            self.knobs.push((knob, settings.clone()));
            knob.reset(settings);
        }
        for &knob in to.iter().filter(alone).filter(|knob| !from.contains(knob)) {
            if let Some(at) = self.knobs.iter().position(|(kept, _)| *kept == knob) {
                let (knob, kept) = self.knobs.swap_remove(at);
                knob.copy(&kept, settings);
            }
        }
        self.switch_cache_knobs(settings, CacheKnobs::of(from), CacheKnobs::of(to));
    }

    /// One knob for both types and one for each of them share the same settings.
    fn switch_cache_knobs(&mut self, settings: &mut Settings, from: CacheKnobs, to: CacheKnobs) {
        let now = (settings.cache_type_k, settings.cache_type_v);
        let wished = match from {
            CacheKnobs::Apart => now,
            CacheKnobs::Alike => self.cache.filter(|&(k, v)| one_type(k, v) == now.0).unwrap_or(now),
            CacheKnobs::None => self.cache.unwrap_or(now),
        };
        self.cache = Some(wished);
        (settings.cache_type_k, settings.cache_type_v) = match to {
            CacheKnobs::Apart => wished,
            CacheKnobs::Alike => {
                let one = one_type(wished.0, wished.1);
                (one, one)
            }
            CacheKnobs::None => (None, None),
        };
    }
}

/// The knobs that share the types of the cache.
const CACHE: [Knob; 3] = [Knob::CacheType, Knob::CacheTypeK, Knob::CacheTypeV];

/// How the types of the cache can be chosen.
#[derive(Clone, Copy)]
enum CacheKnobs {
    Apart,
    Alike,
    None,
}

impl CacheKnobs {
    fn of(knobs: &[Knob]) -> Self {
        if knobs.contains(&Knob::CacheTypeK) {
            Self::Apart
        } else if knobs.contains(&Knob::CacheType) {
            Self::Alike
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

    const ALIKE: [Knob; 2] = [Knob::Context, Knob::CacheType];
    const APART: [Knob; 4] = [Knob::Context, Knob::CacheTypeK, Knob::CacheTypeV, Knob::Ubatch];

    #[test]
    fn a_knob_that_both_know_keeps_its_value_and_others_come_back() {
        let mut settings = Settings { ubatch: Some(256), ..Settings::default() };
        settings.cache_type_k = Some(CacheType::Q5_1);
        Knob::Context.set(&mut settings, 4096);
        let first = settings.clone();
        let mut aside = StashedKnobs::default();
        aside.switch_knobs(&mut settings, &APART, &ALIKE);
        assert_eq!((settings.ubatch, settings.cache_type_k, settings.ctx), (None, None, first.ctx));
        aside.switch_knobs(&mut settings, &ALIKE, &APART);
        assert_eq!(settings, first);
    }

    #[test]
    fn a_type_that_was_changed_meanwhile_counts_for_both() {
        let mut settings = Settings::default();
        (settings.cache_type_k, settings.cache_type_v) = (Some(CacheType::Q8_0), Some(CacheType::F16));
        let mut aside = StashedKnobs::default();
        aside.switch_knobs(&mut settings, &APART, &ALIKE);
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q8_0), Some(CacheType::Q8_0)));
        Knob::CacheType.set(&mut settings, 2);
        aside.switch_knobs(&mut settings, &ALIKE, &APART);
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q4_0), Some(CacheType::Q4_0)));
    }

    proptest! {
        #[test]
        fn whatever_was_set_comes_back_when_its_knobs_do(
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
            let mut aside = StashedKnobs::default();
            let mut before = all.clone();
            for knobs in stops {
                aside.switch_knobs(&mut settings, &before, &knobs);
                for &knob in &knobs {
                    let mut here = settings.clone();
                    knob.copy(&first, &mut here);
                    prop_assert!(CACHE.contains(&knob) || here == settings, "{knob:?} lost its value");
                }
                before = knobs;
            }
            aside.switch_knobs(&mut settings, &before, &all);
            prop_assert_eq!(settings, first);
        }
    }
}
