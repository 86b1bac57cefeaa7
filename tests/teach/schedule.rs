//! Bytes between devices are those of the copies, every pass only adds, and removed operations fall back to the CPU.

use std::collections::HashMap;

use plimsoll::engine::EngineId;
use plimsoll::engine::ggml::Op;
use plimsoll::teach::schedule::SchedulePage;
use plimsoll::teach::trace::Phase;
use plimsoll::teach::{TeachPage, Topic};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::{builds_a_graph, machine, settings_of, shown};
use crate::harness;
use crate::laws::{any_model, sane, settings};

fn schedule(content: &dyn TeachPage) -> SchedulePage {
    content.as_a::<SchedulePage>().unwrap_or_else(|| panic!("{:?} is another page", content.tab())).clone()
}

/// The bytes of each split's inputs are those allocated for the copies.
fn crosses_what_is_allocated(content: &SchedulePage) -> Result<(), TestCaseError> {
    let details = &content.trace().details;
    let bytes: HashMap<u32, (u8, u64)> =
        details.lifetimes.iter().map(|life| (life.id.0, (life.place, life.bytes))).collect();
    let mut given = vec![Bytes::ZERO; content.cuts.len()];
    for (at, _, first) in details.schedule.crossings() {
        for copy in first.0..first.0 + details.schedule.copies as u32 {
            let (place, bytes) = bytes[&copy];
            prop_assert_eq!(usize::from(place), content.cuts[at].backend, "a copy is where it is read");
            given[at] += Bytes(bytes);
        }
    }
    for (cut, given) in content.cuts.iter().zip(given) {
        let lesson: u64 = cut.crossings.iter().map(|crossing| crossing.bytes.0 * crossing.copies as u64).sum();
        prop_assert_eq!(Bytes(lesson), given);
        prop_assert!(cut.crossings.iter().all(|crossing| crossing.from != cut.backend));
    }
    Ok(())
}

fn steps_only_add(content: &SchedulePage) -> Result<(), TestCaseError> {
    let last = content.steps.len() - 1;
    let all = |step: usize| content.steps[step].counts.iter().map(|count| count.operations).sum::<usize>();
    for step in 1..=last {
        prop_assert_eq!(all(step), all(0), "no operation is lost");
        for at in 0..content.node_count() {
            let before = content.backend_of(at, step - 1);
            prop_assert!(before.is_none() || content.backend_of(at, step) == before, "what has a device keeps it");
            prop_assert!(step == last || content.is_highlighted(at, step) == (content.backend_of(at, step) != before));
        }
    }
    prop_assert_eq!(content.steps[last].counts.last().map(|count| count.operations), Some(0), "all have a device");
    prop_assert!((0..content.node_count()).all(|at| content.backend_of(at, 0).is_none()));
    let covered: usize = content.cuts.iter().map(|cut| cut.nodes.len()).sum();
    prop_assert_eq!(covered, content.node_count(), "the splits are the whole graph");
    prop_assert_eq!(content.blocks.iter().map(|block| block.nodes.len()).sum::<usize>(), covered);
    for cut in &content.cuts {
        let computing = |at: &usize| !content.is_view(*at);
        let mut here = cut.nodes.clone().filter(computing);
        prop_assert!(here.all(|at| content.backend_of(at, last) == Some(cut.backend)));
    }
    let details = &content.trace().details;
    prop_assert_eq!(details.pipeline.is_on(), details.schedule.copies > 1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn bytes_across_devices_are_those_of_the_copies(
        engine in select(&EngineId::ALL[..]), model in any_model(), machine in machine(),
        settings in prop_oneof![sane(), settings()], which in any::<Index>(),
    ) {
        let Some((plan, content)) = shown(engine, model, &machine, &settings, Topic::Schedule(None, Phase::Prompt)) else {
            return Ok(());
        };
        let builds = builds_a_graph(engine);
        // llama.cpp may refuse what an estimator accepts
        let whole = match content.map(|content| schedule(&*content)) {
            Err(_) if !builds => return Ok(()),
            content => content.map_err(TestCaseError::fail)?,
        };
        steps_only_add(&whole)?;
        crosses_what_is_allocated(&whole)?;
        for (backend, compute) in whole.backends().iter().zip(&whole.trace().measured.compute).filter(|_| builds) {
            prop_assert_eq!(Bytes(*compute), plan.devices[backend.device].graph);
        }
        if whole.common.is_empty() {
            return Ok(());
        }
        let (op, _) = whole.common[which.index(whole.common.len())];
        let (_, content) = shown(engine, model, &machine, &settings, Topic::Schedule(Some(op), Phase::Prompt)).unwrap();
        // llama.cpp refuses a cache that needs flash attention without it
        let Ok(lacking) = content.map(|content| schedule(&*content)) else { return Ok(()) };
        steps_only_add(&lacking)?;
        crosses_what_is_allocated(&lacking)?;
        prop_assert_eq!(lacking.without, Some((op, whole.crossed())));
        prop_assert!(!on_gpu(&lacking, op), "{op:?} is still on a GPU");
    }
}

fn on_gpu(content: &SchedulePage, op: Op) -> bool {
    let (last, cpu) = (content.steps.len() - 1, content.backends().len() - 1);
    let here = |at: usize| content.node(at).is_some_and(|node| node.op == op.name());
    (0..content.node_count()).any(|at| here(at) && content.backend_of(at, last).is_some_and(|backend| backend < cpu))
}

fn details(without: Option<Op>) -> SchedulePage {
    let (model, machine) = (harness::model("llama3.1-8b").into(), harness::one_gpu());
    let shown =
        shown(EngineId::LlamaCpp, &model, &machine, &settings_of(8192), Topic::Schedule(without, Phase::Prompt));
    schedule(&*shown.unwrap().1.unwrap())
}

#[test]
fn an_unsupported_rope_runs_on_the_cpu_in_every_block() {
    let (whole, lacking) = (details(None), details(Some(Op::Rope)));
    assert!(whole.common.contains(&(Op::Rope, 64)), "queries and keys of 32 blocks: {:?}", whole.common);
    assert_eq!(lacking.steps.len(), whole.steps.len());
    let net = lacking.steps.iter().position(|step| step.name() == "3 upgrade").unwrap();
    let ropes: Vec<usize> =
        (0..lacking.node_count()).filter(|at| lacking.node(*at).unwrap().op == Op::Rope.name()).collect();
    assert_eq!(ropes.len(), 64);
    for at in ropes {
        assert_eq!((lacking.backend_of(at, net - 1), lacking.backend_of(at, net)), (None, Some(1)), "the safety net");
    }
    assert!(lacking.crossed().bytes > whole.crossed().bytes);
    assert!(lacking.crossed().cuts > 64 && whole.crossed().cuts <= 3, "{:?}", whole.crossed());
    let blocks = lacking.blocks.iter().filter(|block| block.layer.is_some()).count();
    assert_eq!(blocks, 32);
}

#[test]
fn pipeline_parallelism_keeps_four_copies_and_explains_it() {
    let (model, machine) = (harness::model("llama3.1-8b").into(), harness::machine(2, "RTX 3090", 24, 64));
    let content = |settings| {
        let (_, content) =
            shown(EngineId::LlamaCpp, &model, &machine, &settings, Topic::Schedule(None, Phase::Prompt)).unwrap();
        schedule(&*content.unwrap())
    };
    let on = content(settings_of(8192));
    assert!(on.trace().details.pipeline.is_on());
    assert!(on.cuts.iter().flat_map(|cut| &cut.crossings).all(|crossing| crossing.copies == 4));
    let layers = plimsoll::settings::GpuLayers::Count(20);
    let off = content(plimsoll::settings::Settings { gpu_layers: layers, ..settings_of(8192) });
    let unmet: Vec<_> = off.trace().details.pipeline.conditions().into_iter().filter(|(_, met)| !met).collect();
    assert_eq!(unmet, [("all layers are on GPU", false)]);
}

/// A prompt's splits are not those of a token: each says which it is, and what the other has.
#[rstest::rstest]
#[case::dense("llama3.1-8b", 12, 24_576)]
#[case::split("llama3.1-8b", 6, 24_576)]
#[case::experts("gpt-oss-20b", 12, 24_576)]
#[case::recurrent("mamba-2.8b", 12, 8192)]
fn each_phase_says_which_it_is(#[case] model: &str, #[case] gib: u64, #[case] ctx: u64) {
    let (model, machine) = (harness::model(model).into(), harness::machine(1, "RTX 3060", gib, 32));
    let settings = plimsoll::settings::Settings { parallel: Some(1), ..settings_of(ctx) };
    let of = |phase| {
        let (_, content) =
            shown(EngineId::LlamaCpp, &model, &machine, &settings, Topic::Schedule(None, phase)).unwrap();
        schedule(&*content.unwrap())
    };
    let (prompt, token) = (of(Phase::Prompt), of(Phase::Token));
    assert_eq!((prompt.trace().tokens(), token.trace().tokens()), (512, 1));
    assert_eq!((prompt.other_phase, token.other_phase), (Some(token.crossed()), Some(prompt.crossed())));
    for (page, of) in [(&prompt, "a prompt of 512 tokens"), (&token, "one token")] {
        let said = page.shown_graph();
        assert!(said.contains(&format!("the graph of {of}: {}", page.crossed().sentence())), "{said}");
        steps_only_add(page).unwrap();
    }
    let weights =
        |page: &SchedulePage| page.cuts.iter().flat_map(|cut| &cut.crossings).filter(|copy| copy.weight).count();
    assert_eq!(weights(&token), 0, "the CPU computes one token with the weights where they are");
}

/// Blocks that are folded are the same in every step, and none is left out.
#[rstest::rstest]
fn folded_blocks_are_alike(
    #[values("llama3.1-8b", "gpt-oss-20b", "qwen3-coder-next", "gemma3-4b", "mamba-2.8b")] model: &str,
    #[values(6, 24)] gib: u64,
) {
    let (model, machine) = (harness::model(model).into(), harness::machine(1, "RTX 3060", gib, 64));
    let topic = Topic::Schedule(None, Phase::Prompt);
    let page = schedule(&*shown(EngineId::LlamaCpp, &model, &machine, &settings_of(8192), topic).unwrap().1.unwrap());
    let mut all: Vec<usize> = page.alike.iter().flatten().copied().collect();
    all.sort_unstable();
    assert_eq!(all, (0..page.blocks.len()).collect::<Vec<_>>());
    let operations = |block: usize, step: usize| {
        let nodes = page.blocks[block].nodes.clone();
        nodes
            .map(|node| (page.op(node), page.backend_of(node, step), page.is_highlighted(node, step)))
            .collect::<Vec<_>>()
    };
    for blocks in page.alike.iter().filter(|blocks| blocks.len() > 1) {
        for (block, step) in blocks.iter().flat_map(|block| (0..page.steps.len()).map(move |step| (*block, step))) {
            assert_eq!(operations(block, step), operations(blocks[0], step), "{block} at {step}");
        }
    }
    let layers = page.blocks.iter().filter(|block| block.layer.is_some()).count();
    assert!(page.blocks.len() <= layers + 2, "what is in no block stands before and after them");
    assert!(page.alike.len() <= 16, "{} rows are hardly folded", page.alike.len());
}

#[test]
fn a_pipeline_computes_every_ubatch_once_on_each_gpu() {
    let (model, machine) = (harness::model("llama3.1-8b").into(), harness::machine(2, "RTX 3090", 24, 64));
    let topic = Topic::Schedule(None, Phase::Prompt);
    let page = schedule(&*shown(EngineId::LlamaCpp, &model, &machine, &settings_of(8192), topic).unwrap().1.unwrap());
    let overlap = page.overlap().unwrap();
    assert_eq!((overlap.stages.as_slice(), overlap.ubatches), (["GPU0", "GPU1"].map(str::to_owned).as_slice(), 4));
    assert_eq!((overlap.turns(), overlap.turns_without()), (5, 8));
    for stage in 0..2 {
        let computed: Vec<usize> = (0..overlap.turns()).filter_map(|turn| overlap.ubatch(stage, turn)).collect();
        assert_eq!(computed, [0, 1, 2, 3], "in order, and each once");
    }
    let follows = |turn: usize| Some((overlap.ubatch(1, turn)?, overlap.ubatch(0, turn - 1)?));
    assert!((1..overlap.turns()).filter_map(follows).all(|(later, earlier)| later == earlier));
    let alone = harness::machine(1, "RTX 3090", 24, 64);
    let page = schedule(&*shown(EngineId::LlamaCpp, &model, &alone, &settings_of(8192), topic).unwrap().1.unwrap());
    assert_eq!(page.overlap(), None);
}
