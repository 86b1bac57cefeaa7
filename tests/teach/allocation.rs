//! The timeline's peak is the reserved buffer, live tensors never overlap, and only live memory is reused in place.

use plimsoll::engine::EngineId;
use plimsoll::plan::Plan;
use plimsoll::teach::allocation::{AllocationPage, AllocationWalk, Timeline, Variation};
use plimsoll::teach::trace::Phase;
use plimsoll::teach::{TeachPage, Topic};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use rstest::rstest;

use super::{builds_a_graph, machine, settings_of, shown};
use crate::harness;
use crate::laws::{any_model, sane, settings};

fn allocation(content: &dyn TeachPage) -> AllocationPage {
    content.as_a::<AllocationPage>().unwrap_or_else(|| panic!("{:?} is another page", content.tab())).clone()
}

fn reserves_what_the_plan_says(walk: &AllocationWalk, remark: Option<&str>, plan: &Plan) -> Result<(), TestCaseError> {
    for timeline in &walk.timelines {
        let graph = plan.devices[timeline.device].graph;
        let said = remark.is_some_and(|remark| remark.contains(&format!("{graph} on {}", timeline.id)));
        prop_assert!(timeline.reserved == graph || timeline.reserved < graph && said, "{} {remark:?}", timeline.id);
        prop_assert_eq!(&timeline.id, &plan.devices[timeline.device].id);
    }
    let seen: Vec<usize> = walk.timelines.iter().map(|timeline| timeline.device).collect();
    for (at, device) in plan.devices.iter().enumerate().filter(|(at, _)| !seen.contains(at)) {
        prop_assert_eq!(device.graph, Bytes::ZERO, "{} takes part, and is not shown", at);
    }
    Ok(())
}

fn holds_together(timeline: &Timeline, moments: usize) -> Result<(), TestCaseError> {
    let last = timeline.grown.last().copied().unwrap_or(0);
    prop_assert_eq!(Bytes(last), timeline.reserved, "{} grows to what is reserved", timeline.id);
    prop_assert_eq!((timeline.grown.len(), timeline.alive.len()), (moments, moments));
    prop_assert!(timeline.naive >= timeline.reserved);
    if let Some(before) = timeline.peak.checked_sub(1) {
        prop_assert!(timeline.grown[before] < timeline.reserved.0, "the peak is the first moment that is as large");
    }
    prop_assert!(timeline.grown.get(timeline.peak).is_none_or(|grown| *grown == timeline.reserved.0));
    for moment in (0..moments).step_by(moments.div_ceil(60).max(1)).chain([timeline.peak]).filter(|at| *at < moments) {
        let lives = timeline.alive_at(moment);
        for pair in lives.windows(2) {
            prop_assert!(pair[0].offset + pair[0].bytes <= pair[1].offset, "{:?} at {moment}", pair);
        }
        let held: Bytes = lives.iter().map(|life| Bytes(life.bytes)).sum();
        prop_assert_eq!(held, timeline.alive[moment].iter().map(|bytes| Bytes(*bytes)).sum());
        prop_assert!(held.0 <= timeline.grown[moment]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_peak_is_the_reserved_buffer_on_every_device(
        engine in select(&EngineId::ALL[..]), model in any_model(), machine in machine(),
        settings in prop_oneof![sane(), settings()], versus in proptest::option::of(select(&Variation::ALL[..])),
    ) {
        if let Some((plan, content)) = shown(engine, model, &machine, &settings, Topic::Allocation(versus, Phase::Prompt)) {
            let builds = builds_a_graph(engine);
            // llama.cpp may refuse what an estimator accepts
            let content = match content.map(|content| allocation(&*content)) {
                Err(_) if !builds => return Ok(()),
                content => content.map_err(TestCaseError::fail)?,
            };
            if builds {
                reserves_what_the_plan_says(&content.walk, content.remark.as_deref(), &plan)?;
            } else {
                prop_assert!(content.remark.is_some(), "whose graph this is");
            }
            let other = content.other.as_ref().and_then(|other| other.walk.as_ref().ok());
            for walk in [&content.walk].into_iter().chain(other) {
                for timeline in &walk.timelines {
                    holds_together(timeline, walk.moments.len())?;
                }
            }
        }
    }
}

fn walked(settings: &plimsoll::settings::Settings, versus: Option<Variation>) -> (Plan, AllocationPage) {
    let model = harness::model("llama3.1-8b").into();
    let (plan, content) =
        shown(EngineId::LlamaCpp, &model, &harness::one_gpu(), settings, Topic::Allocation(versus, Phase::Prompt))
            .unwrap();
    (plan, allocation(&*content.unwrap()))
}

/// The comparison equals the engine's plan with that one change.
#[rstest]
#[case::flash(Variation::FlashAttention)]
#[case::ubatch(Variation::Ubatch)]
#[case::layers(Variation::Layers)]
fn the_comparison_is_another_plan(#[case] versus: Variation) {
    use plimsoll::settings::{FlashAttn, GpuLayers};
    let mut settings = settings_of(16_384);
    let (_, content) = walked(&settings, Some(versus));
    match versus {
        Variation::FlashAttention => settings.flash_attn = FlashAttn::Off,
        Variation::Ubatch => settings.ubatch = Some(2048),
        Variation::Layers => settings.gpu_layers = GpuLayers::Count(32),
    }
    let (plan, _) = walked(&settings, None);
    let other = content.other.unwrap().walk.unwrap();
    reserves_what_the_plan_says(&other, None, &plan).unwrap();
    let reserved = |walk: &AllocationWalk| walk.timelines.iter().map(|timeline| timeline.reserved).collect::<Vec<_>>();
    assert_ne!(reserved(&content.walk), reserved(&other), "{versus:?} changes nothing");
}

#[test]
fn attention_scores_appear_only_without_flash_attention() {
    use plimsoll::teach::allocation::TimelineKind;
    let (_, content) = walked(&settings_of(16_384), Some(Variation::FlashAttention));
    let most = |walk: &AllocationWalk| {
        walk.timelines[0].alive.iter().map(|kinds| kinds[TimelineKind::Scores.index()]).max().unwrap()
    };
    assert_eq!(most(&content.walk), 0);
    // 32 heads · 512 tokens · 16 384 keys · 4 bytes
    let other = content.other.unwrap();
    assert_eq!(other.label, "flash attention off");
    assert_eq!(most(&other.walk.unwrap()), 4 * 512 * 16_384 * 32);
}

#[test]
fn estimators_show_llama_cpps_graph_and_say_so() {
    let (model, machine, settings) = (harness::model("llama3.1-8b").into(), harness::one_gpu(), settings_of(8192));
    for engine in [EngineId::Ollama024, EngineId::Ollama011] {
        let (plan, content) =
            shown(engine, &model, &machine, &settings, Topic::Allocation(None, Phase::Prompt)).unwrap();
        let content = allocation(&*content.unwrap());
        assert!(content.remark.is_some_and(|remark| remark.starts_with(engine.title())));
        let translated = plimsoll::settings::Settings {
            batch: Some(plan.settings.batch),
            ubatch: Some(plan.settings.ubatch),
            flash_attn: plan.settings.flash_attn,
            ..settings.clone()
        };
        let (theirs, _) =
            shown(EngineId::LlamaCpp, &model, &machine, &translated, Topic::Allocation(None, Phase::Prompt)).unwrap();
        reserves_what_the_plan_says(&content.walk, None, &theirs).unwrap();
    }
}

/// One token uses what a prompt's graph reserved, and the page says how much of it.
#[test]
fn one_token_uses_what_a_prompt_reserved() {
    let model = harness::model("llama3.1-8b").into();
    let of = |phase| {
        let topic = Topic::Allocation(None, phase);
        let (plan, content) =
            shown(EngineId::LlamaCpp, &model, &harness::one_gpu(), &settings_of(16_384), topic).unwrap();
        (plan, allocation(&*content.unwrap()))
    };
    let ((plan, prompt), (_, token)) = (of(Phase::Prompt), of(Phase::Token));
    for (timeline, of_prompt) in token.walk.timelines.iter().zip(&prompt.walk.timelines) {
        assert!(timeline.reserved < of_prompt.reserved, "{}", timeline.id);
        holds_together(timeline, token.walk.moments.len()).unwrap();
        let graph = plan.devices[timeline.device].graph;
        let said = format!("{} of {graph} on {}", timeline.reserved, timeline.id);
        assert!(token.batch.contains(&said), "{}: {said}", token.batch);
    }
}

/// Folding leaves out nothing but repetition, and one block is one block.
#[rstest]
fn zooming_shows_steps_of_the_walk(
    #[values("llama3.1-8b", "gpt-oss-20b", "qwen3-coder-next", "gemma3-4b")] model: &str,
) {
    use plimsoll::teach::allocation::Zoom;
    let (model, machine) = (harness::model(model).into(), harness::machine(1, "RTX 3060", 12, 64));
    let topic = Topic::Allocation(None, Phase::Prompt);
    let (_, content) = shown(EngineId::LlamaCpp, &model, &machine, &settings_of(8192), topic).unwrap();
    let walk = allocation(&*content.unwrap()).walk;
    let peak = walk.timelines[0].peak;
    let all = walk.view(Zoom::All, peak);
    assert_eq!(all.moments, (0..walk.moments.len()).collect::<Vec<_>>());
    let folded = walk.view(Zoom::Alike, peak);
    assert!(folded.moments.len() < all.moments.len() && folded.moments.is_sorted());
    let most = |moments: &[usize]| moments.iter().map(|at| walk.timelines[0].alive[*at].iter().sum::<u64>()).max();
    assert_eq!(most(&folded.moments), most(&all.moments), "what is folded is shown once");
    let block = walk.view(Zoom::Block, peak);
    assert!(block.moments.contains(&peak), "{:?}", block.moments);
    let layers: std::collections::BTreeSet<_> = block.moments.iter().map(|at| walk.moments[*at].layer).collect();
    assert_eq!(layers.len(), 1);
    assert!(block.moments.len() > 10, "a block has more operations: {}", block.moments.len());
}
