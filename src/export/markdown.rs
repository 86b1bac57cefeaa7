//! A plan as a Markdown table, for notes and issue trackers.

use crate::answer::verdict;
use crate::export::caption::Caption;
use crate::plan::{DevicePlan, Plan};
use crate::text::is_printable;
use crate::units::Tokens;

/// The model, the verdict, a row per device, and the caption.
pub fn plan(plan: &Plan, caption: &Caption) -> String {
    let (model, effect) = (&plan.model, &plan.settings);
    let mut lines = format!("**{}**", escaped(&model.name));
    for part in [model.file_type.clone(), Some(model.bytes.to_string())].into_iter().flatten() {
        lines += &format!(" · {}", escaped(&part));
    }
    lines += &format!("\n{}: {}\n\n", verdict::headline(plan), verdict::sentence(plan, None, None));
    lines += "| | memory | weights | cache | graph | total | of free | layers |\n| --- | --- | ---: | ---: | ---: | \
              ---: | ---: | ---: |\n";
    for device in &plan.devices {
        let DevicePlan { id, name, weights, cache, graph, free, layers, .. } = device;
        let (name, asked, count) = (escaped(name), device.asked(), layers.len());
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
        sequences if effect.ctx_per_sequence == effect.ctx_total => format!(" shared by {sequences} sequences"),
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
    lines += &format!("Planned for {}; {}.\n\n", plan.engine_title(), plan.confidence);
    lines += &format!("*{}*\n", escaped(&caption.to_string()));
    lines
}

/// `text` with Markdown's special characters escaped and without what is not printable.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().filter(|c| is_printable(*c)) {
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
    fn special_characters_are_escaped() {
        assert_eq!(escaped("a|b_c\n*"), r"a\|b\_c\*");
    }
}
