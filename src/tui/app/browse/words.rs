//! Labels and messages above the list of models.

use ratatui::layout::Rect;

use super::ModelBrowser;
use crate::model::Modalities;
use crate::plan::Outcome;
use crate::tui::action::Command;
use crate::tui::app::library::{Gathering, Library};
use crate::tui::widget::row_writer::{width, wrap};
use crate::units::short;

/// Minimum rows of a list that leaves room for long messages.
const ROOMY: u16 = 16;

/// A filter, or the sort order.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The key that toggles it.
    pub key: &'static str,
    /// Its label.
    pub word: String,
    /// Whether it is on; none for the sort order.
    pub on: Option<bool>,
    /// The command of a mouse press on it.
    pub command: Command,
}

impl Filter {
    /// Its width on the screen.
    pub fn cells(&self) -> u16 {
        width(self.key) + 1 + 2 * u16::from(self.on.is_some()) + width(&self.word)
    }
}

impl ModelBrowser {
    /// The filters, from left to right.
    pub fn filters(&self) -> [Filter; 7] {
        let only = &self.only;
        let family = only.family.as_ref().map_or_else(|| "family".to_owned(), |family| format!("family {family}"));
        let order = format!("order: {}{}", self.sort.word(), if self.reversed { ", reversed" } else { "" });
        let filter = |key, word, on, command| Filter { key, word, on, command };
        let fits = match only.limits.fits {
            None | Some(Outcome::LayersInRam) => "fits",
            Some(Outcome::ExpertsInRam) => "layers in VRAM",
            Some(_) => "all in VRAM",
        };
        let kind = if only.limits.experts == Some(false) { "dense" } else { "experts" };
        let modality = if only.limits.reads.audio { "audio" } else { "vision" };
        let context = self.need.map_or_else(|| "as planned".to_owned(), short);
        [
            filter("^F", fits.to_owned(), Some(only.limits.fits.is_some()), Command::OnlyFitting),
            filter("^X", kind.to_owned(), Some(only.limits.experts.is_some()), Command::OnlyKind),
            filter("^N", format!("context: {context}"), None, Command::JudgeBy),
            filter("^L", "local".to_owned(), Some(only.here), Command::OnlyHere),
            filter("^P", modality.to_owned(), Some(only.limits.reads != Modalities::default()), Command::OnlyModality),
            filter("^G", family, Some(only.family.is_some()), Command::OnlyFamily),
            filter("^S", order, None, Command::Sort),
        ]
    }

    /// Messages above `list`: why nothing could be opened, that there are no local models, or that the Ollama server
    /// which the user named does not list its models.
    pub fn messages(&self, library: &Library, list: Rect) -> Vec<String> {
        if let Some(wrong) = &self.wrong {
            return wrap(wrong, list.width);
        }
        let none_here = match (self.none_here, list.height < ROOMY) {
            (false, _) => None,
            (true, true) => Some(
                "No models found on this machine (Ollama, Hugging Face, LM Studio, llama.cpp). Choose one from the \
                 catalogue, or type a path or a name.",
            ),
            (true, false) => Some(
                "No models found on this machine in the folders of Ollama, Hugging Face, LM Studio and llama.cpp \
                 ('plimsoll list' names them; OLLAMA_MODELS, HF_HOME and LLAMA_CACHE change them). Choose one from \
                 the catalogue to see how it would fit, or type a path or a name: only the header of a remote model \
                 is fetched.",
            ),
        };
        let refused = match &library.gathered {
            // a short list has room for one message
            Gathering::Refused(why) if none_here.is_none() || list.height >= ROOMY => {
                Some(format!("OLLAMA_HOST: {why}"))
            }
            _ => None,
        };
        let texts = none_here.into_iter().chain(refused.as_deref());
        texts.flat_map(|text| wrap(text, list.width)).collect()
    }
}
