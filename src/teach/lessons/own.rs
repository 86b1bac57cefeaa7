//! Lessons of a teacher's own, in the form of the built-in ones: what is wrong in them is said before one is told.

use std::sync::OnceLock;

use super::claim::{Comparison, names};
use super::recipe::FigureSource;
use super::{LESSONS, Lesson, LessonFile, built_in};
use crate::machine::spec::MachineSpec;
use crate::text;

/// Maximum number of lessons of one's own.
const MAX_LESSONS: usize = 100;
/// Maximum number of cases of one, each of which is planned.
const MAX_CASES: usize = 32;

static FOLDER: OnceLock<String> = OnceLock::new();

/// The folder that `--lessons` names, if it is given.
pub fn folder() -> Option<&'static str> {
    FOLDER.get().map(String::as_str)
}

/// The lessons that are appended to the built-in ones.
#[derive(Debug, Default)]
pub struct OwnLessons(Vec<Lesson>);

impl OwnLessons {
    /// Reads the lessons of a file; `known` says whether the catalogue has a model.
    ///
    /// # Errors
    /// What is wrong, where, and what to do, as the end of a sentence that begins with the file.
    pub fn read(&mut self, text: &str, known: &dyn Fn(&str) -> bool) -> Result<(), String> {
        let file: LessonFile = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let before = text.get(..at).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let headings = text.lines().take(line).filter(|line| line.trim() == "[[lesson]]").count();
            let lesson = if headings == 0 { String::new() } else { format!(" (lesson {headings})") };
            format!("line {line}{lesson}: {}: correct it", text::one_line(error.message()))
        })?;
        if file.lesson.is_empty() {
            return Err("there is no lesson in it: begin one with [[lesson]]".to_owned());
        }
        let built_in = built_in();
        for (number, lesson) in (1..).zip(file.lesson) {
            let wrong = |why: String| format!("lesson {number}, '{}': {why}", text::quoted(&lesson.id));
            if self.0.len() == MAX_LESSONS {
                return Err(wrong(format!("there are more than {MAX_LESSONS} lessons of your own: remove some")));
            }
            if built_in.iter().chain(&self.0).any(|other| other.id == lesson.id) {
                return Err(wrong("another lesson has this id: choose another".to_owned()));
            }
            lesson.check_form(known).map_err(wrong)?;
            self.0.push(lesson);
        }
        Ok(())
    }

    /// The lessons.
    pub fn lessons(&self) -> &[Lesson] {
        &self.0
    }

    /// Appends them to the built-in ones; nothing may have asked for [`super::all`] before. The folder is what the option
    /// says that names them.
    pub fn append(self, folder: Option<String>) {
        if let Some(folder) = folder {
            FOLDER.get_or_init(|| folder);
        }
        let mut all = built_in();
        all.extend(self.0);
        let set = LESSONS.set(all);
        debug_assert!(set.is_ok(), "own lessons are appended before any is asked for");
    }
}

impl Lesson {
    /// Checks what its form leaves open: names, numbers and characters.
    fn check_form(&self, known: &dyn Fn(&str) -> bool) -> Result<(), String> {
        if self.id.trim().is_empty() || self.title.trim().is_empty() || self.sentences().next().is_none() {
            return Err("it has no id, no title or no sentence: write them".to_owned());
        }
        if let Some(text) = self.words().find(|text| text.chars().any(|c| c != '\n' && !text::is_printable(c))) {
            return Err(format!("'{}' has a character that cannot be shown: remove it", text::quoted(text)));
        }
        if let Some(model) = [Some(&self.model), self.draft.as_ref()].into_iter().flatten().find(|name| !known(name)) {
            return Err(format!("the catalogue has no model '{model}': use one that 'plimsoll list' shows"));
        }
        let described = MachineSpec::read(&self.gpus, Some(&self.ram)).map_err(|why| format!("its machine: {why}"))?;
        if described.gpus.is_none_or(|gpus| gpus.is_empty()) {
            return Err("its machine has no GPU: name one in gpus".to_owned());
        }
        if self.cases.len() > MAX_CASES {
            return Err(format!("it has more than {MAX_CASES} cases: remove some"));
        }
        self.knobs.check().map_err(|why| format!("knobs, {why}"))?;
        for (name, case) in &self.cases {
            case.check().map_err(|why| format!("case '{name}', {why}"))?;
        }
        for (name, figure) in &self.figures {
            figure.check(&self.cases).map_err(|why| format!("figure '{name}': {why}"))?;
        }
        if let Some(name) = self.names().find(|name| !self.figures.contains_key(*name)) {
            return Err(format!("there is no figure '{name}': add it to figures, or correct the name"));
        }
        if let Some((name, _)) = self.figures.iter().find(|(_, figure)| figure.is_too_deep(&self.figures)) {
            return Err(format!(
                "figure '{name}' is computed from too many others, or from itself: compute it from fewer"
            ));
        }
        match self.sentences().find(|sentence| sentence.shows.is_empty() && sentence.from.is_none()) {
            Some(sentence) => {
                let say = &sentence.say;
                Err(format!("nothing shows “{say}”: add what figures show, as shows, or where it is from, as from"))
            }
            None => Ok(()),
        }
    }

    /// Everything in it that is shown.
    fn words(&self) -> impl Iterator<Item = &str> {
        let quoted = self.figures.values().filter_map(|figure| match figure {
            FigureSource::Quoted { quoted } => Some(quoted.as_str()),
            _ => None,
        });
        self.filled_texts().chain([&*self.id, &self.title]).chain(quoted).chain(self.figures.keys().map(String::as_str))
    }

    /// The texts into which figures are filled.
    fn filled_texts(&self) -> impl Iterator<Item = &str> {
        let bars = self.bars.iter().map(|bar| &*bar.label);
        let claims = self.claims.iter().map(|claim| &*claim.otherwise);
        self.texts().into_iter().chain(self.guess.texts()).chain(bars).chain(claims)
    }

    /// The names of figures in it.
    fn names(&self) -> impl Iterator<Item = &str> {
        let compared = self.claims.iter().map(|claim| &claim.holds).flat_map(Comparison::figures);
        let parts = self.figures.values().flat_map(FigureSource::parts).map(String::as_str);
        let bars = self.bars.iter().map(|bar| &*bar.figure);
        let said = self.sentences().flat_map(super::Sentence::figures);
        compared
            .chain(parts)
            .chain(bars)
            .chain(said)
            .chain(self.guess.figures())
            .chain(self.filled_texts().flat_map(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_lessons_are_of_this_form() {
        for lesson in built_in() {
            assert_eq!(lesson.check_form(&|_| true), Ok(()), "{}", lesson.id);
        }
    }
}
