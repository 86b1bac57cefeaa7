//! The page of the glossary.

use serde_json::{Value, json};

use super::super::page::{Paper, Tab, TeachPage};
use super::{GlossaryEntry, GlossaryPage};
use crate::page::{Hue, Page, Span};

impl TeachPage for GlossaryPage {
    fn tab(&self) -> Tab {
        Tab::Glossary
    }

    /// `{"terms":[{"name","group","meaning","here","lesson"}]}`
    fn json(&self) -> Value {
        let entry = |entry: &GlossaryEntry| {
            let mut object = json!(entry);
            object["group"] = entry.term.group().into();
            object
        };
        json!({ "terms": self.entries.iter().map(entry).collect::<Vec<_>>() })
    }

    fn printed(&self, _: Paper) -> Page {
        self.page()
    }
}

impl GlossaryPage {
    /// The terms under the headings of their groups.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        page.heading("What the words mean");
        let mut group = "";
        for entry in &self.entries {
            if entry.term.group() != group {
                group = entry.term.group();
                page.heading(group);
            }
            page.spans("- ", vec![Span::new(&entry.name, Hue::Text.bold()), format!(": {}", entry.sentence()).into()]);
        }
        page
    }
}

impl GlossaryEntry {
    fn sentence(&self) -> String {
        let here = self.here.as_ref().map(|here| format!(" Here: {here}.")).unwrap_or_default();
        format!("{}{here}", self.meaning)
    }
}
