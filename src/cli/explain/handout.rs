//! A handout: the pages as Markdown in one file, each with its picture beside it.

use std::fs;
use std::path::Path;

use super::super::error::CliError;
use super::{captioned, picture};
use crate::engine::PlanRequest;
use crate::page::palette::Tone;
use crate::plan::Plan;
use crate::source::catalogue;
use crate::teach::Topic;

/// Writes `handout.md` and a picture for each of `topics` into `folder`, which is made if there is none; returns what
/// was written. A page that does not exist for the model is named with the reason.
pub(super) fn write(folder: &Path, request: &PlanRequest, plan: &Plan, topics: &[Topic]) -> Result<String, CliError> {
    let failed = |path: &Path, error: std::io::Error| {
        CliError::Terminal(format!("'{}' cannot be written: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let save = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, error))
    };
    let (mut pages, mut pictures) = (Vec::new(), 0);
    for &topic in topics {
        let page = match topic.content(request, plan, &catalogue::model_and_projector) {
            Ok(page) => page,
            Err(error) => {
                pages.push(format!("# {}\n\nNot for this model: {error}.\n", topic.page().title()));
                continue;
            }
        };
        let name = match topic {
            Topic::Lessons(at) => format!("lesson-{:02}.svg", at + 1),
            topic => format!("{}.svg", topic.page().name()),
        };
        save(&name, &picture(&page, request, plan, Tone::Light))?;
        pictures += 1;
        // the picture stands below the heading
        let text = captioned(&page, request, plan);
        let (heading, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let title = heading.trim_start_matches('#').trim();
        pages.push(format!("{heading}\n\n![{title}]({name})\n{rest}"));
    }
    save("handout.md", &pages.join("\n"))?;
    Ok(format!("{} and {pictures} pictures\n", folder.join("handout.md").display()))
}
