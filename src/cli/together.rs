//! `plimsoll together`: several models loaded on one machine.

use std::path::Path;

use super::args::TogetherArgs;
use super::error::CliError;
use super::questions::json;
use super::resolve::{self, ParsedArgs};
use super::style::Style;
use crate::answer::together::LoadOutcome;
use crate::answer::together::{LoadRequest, load_together};
use crate::export::answers::{self, AnswerSource};
use crate::page::answers as pages;
use crate::settings::knob::Knob;
use crate::source::Package;

pub(super) fn run(args: &TogetherArgs) -> Result<String, CliError> {
    let asked: Vec<ModelAndKnobs<'_>> = args.models.iter().map(|text| named(text)).collect::<Result<_, _>>()?;
    // a file that is named several times is opened once
    let mut opened: Vec<(&str, Package)> = Vec::new();
    for (model, _) in &asked {
        if !opened.iter().any(|(known, _)| known == model) {
            let package = resolve::package(Path::new(model), &args.knobs)?;
            opened.push((model, package));
        }
    }
    let mut ready = ParsedArgs::read(&args.knobs, &args.machine)?.complete();
    let mut loads = Vec::with_capacity(asked.len());
    for (model, knobs) in &asked {
        let Some((_, package)) = opened.iter().find(|(known, _)| known == model) else { continue };
        let (settings, notes) = ready.settings_for(package, knobs)?;
        ready.notes.extend(notes.into_iter().map(|note| format!("{model}: {note}")));
        loads.push((package, settings));
    }
    let requests: Vec<LoadRequest<'_>> = loads
        .iter()
        .map(|(package, settings)| LoadRequest { model: &package.model, path: package.blob(), settings })
        .collect();
    let loaded_models = load_together(ready.engine, &ready.machine, &requests)?;
    let source = AnswerSource::of_engine(ready.engine, &ready.settings, loaded_models.confidence());
    if args.json {
        return json(answers::together_json(source, &args.models, &ready.machine, &loaded_models));
    }
    let names = args.models.iter().enumerate().map(|(at, name)| ((at + 1).to_string(), name.clone()));
    let mut page = pages::together(&names.collect::<Vec<_>>(), &ready.machine, &loaded_models, "");
    let unloads = loaded_models.outcomes.iter().any(|outcome| matches!(outcome, LoadOutcome::Evicted { .. }));
    pages::together_source(&source.to_string(), unloads, &ready.notes, &mut page);
    Ok(Style::of_stdout().page(&page))
}

/// A model's name, and its knobs with their values.
type ModelAndKnobs<'a> = (&'a str, Vec<(Knob, &'a str)>);

/// Parses a model with its own knobs: `llama3.1:8b,ctx=32k,kv-type=q8_0`.
fn named(text: &str) -> Result<ModelAndKnobs<'_>, CliError> {
    let (mut model, mut knobs) = (text, Vec::new());
    while let Some((rest, (name, value))) =
        model.rsplit_once(',').and_then(|(rest, last)| Some((rest, last.split_once('=')?)))
    {
        let several = |knob: &&Knob| matches!(knob, Knob::TensorSplit | Knob::Quant);
        let known = Knob::ALL.iter().filter(|knob| !several(knob));
        let Some(&knob) = known.clone().find(|knob| knob.name() == name.trim()) else {
            let names: Vec<_> = known.map(|knob| knob.name()).collect();
            let sentence = format!("'{name}' in '{text}' is not a knob of a model: use one of {}", names.join(", "));
            return Err(CliError::Arguments(sentence));
        };
        knobs.insert(0, (knob, value));
        model = rest;
    }
    Ok((model, knobs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_follow_the_model() {
        assert_eq!(named("llama3.1:8b").unwrap(), ("llama3.1:8b", Vec::new()));
        let knobs = vec![(Knob::Context, "32k"), (Knob::CacheType, "q8_0")];
        assert_eq!(named("a,b.gguf,ctx=32k,kv-type=q8_0").unwrap(), ("a,b.gguf", knobs));
        assert!(matches!(named("m,size=3"), Err(CliError::Arguments(error)) if error.contains("'size'")));
    }
}
