//! A plan as a Markdown table, to be pasted where people talk about it.

use crate::answer::verdict;
use crate::plan::{DevicePlan, Plan};
use crate::units::Tokens;

/// The plan: what it is of, its verdict, and a row per device.
pub fn plan(plan: &Plan) -> String {
    let (model, effect) = (&plan.model, &plan.settings);
    let mut lines = format!("**{}**", plain(&model.name));
    for part in [model.file_type.clone(), Some(model.bytes.to_string())].into_iter().flatten() {
        lines += &format!(" · {}", plain(&part));
    }
    lines += &format!("\n{}: {}\n\n", plan.fit_status().headline(), verdict::sentence(plan, None));
    lines += "| | memory | weights | cache | graph | total | of free | layers |\n| --- | --- | ---: | ---: | ---: | \
              ---: | ---: | ---: |\n";
    for device in &plan.devices {
        let DevicePlan { id, name, weights, cache, graph, free, layers, .. } = device;
        let (name, asked, count) = (plain(name), device.asked(), layers.len());
        lines += &format!("| {id} | {name} | {weights} | {cache} | {graph} | {asked} | {free} | {count} |\n");
    }
    let sums = plan.totals;
    lines += &format!(
        "| | total | {} | {} | {} | {} | | {} |\n\n",
        sums.weights,
        sums.cache,
        sums.graph,
        sums.all,
        plan.layers.len()
    );
    let cache = if effect.cache_type_k == effect.cache_type_v {
        effect.cache_type_k.to_string()
    } else {
        format!("{} and {}", effect.cache_type_k, effect.cache_type_v)
    };
    let each = match effect.parallel {
        1 => String::new(),
        sequences => format!(" for each of {sequences} sequences"),
    };
    lines += &format!(
        "Context {}{each}, cache {cache}, flash attention {}, batch {}, {} of {} layers on GPU.\n",
        Tokens(effect.ctx_per_sequence),
        effect.flash_attn,
        effect.batch,
        plan.on_gpus(),
        plan.layers.len()
    );
    let release = effect.release.map(|release| format!(", release {release}")).unwrap_or_default();
    lines += &format!("Planned for {}{release}; {}.\n", plan.engine.title(), plan.confidence);
    lines
}

/// Text that means nothing to Markdown.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !c.is_control()) {
        if r"\`*_{}[]<>|#~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_the_table() {
        assert_eq!(plain("a|b_c\n*"), r"a\|b\_c\*");
    }
}
