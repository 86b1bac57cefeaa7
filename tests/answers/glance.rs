//! The answer at a glance: nothing of it is cut on a small screen, and each figure stands always in its place.

use std::sync::LazyLock;

use plimsoll::answer::{Figures, KnobLimits, Largest};
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::page::{Block, Line, Page};
use plimsoll::plan::Plan;
use plimsoll::question::glance;
use plimsoll::speed::Speeds;
use plimsoll::units::{Difference, Tokens};

use crate::random::{MODELS, Random, machine, settings};

/// Cells of a line, and rows of the verdict below its title, at 80 × 24.
const SMALL: (usize, usize) = (78, 4);
const PLANS: usize = 400;

/// A plan with its limits and speeds.
pub(super) struct Asked {
    pub request: PlanRequest,
    pub plan: Plan,
    pub limits: KnobLimits,
    pub speeds: Option<Speeds>,
}

pub(super) static ASKED: LazyLock<Vec<Asked>> = LazyLock::new(|| {
    let mut random = Random(63);
    let mut asked = Vec::new();
    while asked.len() < PLANS {
        let engine = random.of(&[EngineId::LlamaCpp, EngineId::LlamaCpp, EngineId::Ollama, EngineId::Ollama024]);
        let model = random.of(&MODELS);
        let request = PlanRequest::new(engine, model, machine(&mut random), settings(&mut random));
        let Ok(plan) = request.plan() else { continue };
        let speeds = Speeds::of(&request.model, &request.machine, &plan, 0);
        asked.push(Asked { limits: request.limits(&plan), plan, speeds, request });
    }
    asked
});

fn lines(block: Block, cells: usize) -> Vec<Line> {
    let mut page = Page::default();
    page.push(block);
    page.lines(cells)
}

fn text(line: &Line) -> String {
    line.spans.iter().map(|span| span.text.as_str()).collect()
}

#[test]
fn the_state_and_the_first_change_stand_whole_on_a_small_screen() {
    let keys = ["F2", "F3", "F4"].map(str::to_owned);
    let (mut cut, mut with_changes) = (Vec::new(), 0);
    for Asked { plan, limits, .. } in &*ASKED {
        let mut page = Page::default();
        let state = glance::state(plan);
        page.text(&state, plimsoll::page::Hue::Text);
        // on the screen a change is two cells further in
        let first = glance::ways(plan, limits, &keys).into_iter().next();
        with_changes += usize::from(first.is_some());
        let rows = page.lines(SMALL.0).len() + first.map_or(0, |first| lines(first, SMALL.0 - 2).len());
        if rows > SMALL.1 {
            cut.push(state);
        }
    }
    assert!(with_changes > PLANS / 10, "{with_changes}");
    assert!(cut.is_empty(), "{} of {PLANS}: {cut:#?}", cut.len());
}

#[test]
fn figures_stand_always_in_the_same_places_and_are_the_plans() {
    let mut ends = Vec::new();
    for Asked { plan, limits, speeds, .. } in &*ASKED {
        let figures = Figures::of(plan, Some(limits), speeds.as_ref());
        for cells in [58, 69, 70, 77, 78, 120] {
            let drawn = lines(glance::figures(&figures, true, cells, true), cells);
            let [titles, row] = drawn.as_slice() else { panic!("{} on {cells} cells: {drawn:#?}", plan.model.name) };
            assert!(titles.width() <= cells && row.width() <= cells, "{drawn:#?}");
            ends.push((cells, titles.width(), row.width()));
        }
        let bare = lines(glance::figures(&figures, true, 58, false), 58);
        assert!(bare.len() == 1 && bare[0].width() <= 58, "{bare:#?}");
        let row = text(&lines(glance::figures(&figures, true, 120, true), 120)[1]);
        assert!(row.contains(&format!("{} of {}", plan.on_gpus(), plan.layers.len())), "{row}");
        assert!(row.contains(plan.outcome().headline()), "{row}");
        if let Largest::Tokens(most) = figures.largest {
            assert!(row.contains(&Tokens(most).to_string()), "{row}");
            assert_eq!(limits.vram.context, Some(most));
        }
        let least = plan.tightest_gpu().map(|(_, headroom)| headroom.above());
        let ends = |least: Difference| least.to_string().len() > 9 || row.trim_end().ends_with(&least.to_string());
        assert!(least.is_none_or(ends), "{row}");
        let middle = speeds.as_ref().map(|speeds| speeds.start.range().short());
        assert!(middle.is_none_or(|middle| row.contains(&middle)), "{row}");
    }
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), 6, "the same width for every plan: {ends:?}");
}
