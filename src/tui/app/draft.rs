//! Choosing a draft for the open model in the model browser, as `--model-draft` does.

use std::sync::Arc;

use super::App;
use super::browse::ModelBrowser;
use crate::engine::{DraftFile, PreparedModel};
use crate::settings::knob::Knob;
use crate::source::Package;
use crate::tui::effect::Effect;

impl App {
    /// Loads the selected model as a draft.
    ///
    /// # Errors
    /// Why it cannot be one, in a sentence.
    pub(super) fn begin_draft(&mut self, browse: &mut ModelBrowser) -> Result<Vec<Effect>, String> {
        let Some(open) = &self.model else {
            return Err("Open a model first: a draft works for another model.".to_owned());
        };
        if !self.engine.facts().offers(Knob::Draft) {
            let engine = self.engine.title();
            return Err(format!("{engine} does not take a draft from here: choose llama.cpp with e in the planner."));
        }
        let (name, reference) = browse.choice(&self.library)?;
        if let Some(known) = browse.chosen(&self.library).and_then(|row| row.item.known()) {
            open.drafted_by(&known.model).map_err(|why| format!("{why}."))?;
        }
        let effects = self.begin_load(name, reference);
        self.loading.as_draft = true;
        Ok(effects)
    }

    /// Puts `package` beside the open model: one undo step.
    ///
    /// # Errors
    /// Why it cannot draft for that, without a full stop.
    pub(super) fn use_draft(&mut self, package: &Package, reference: String) -> Result<(), String> {
        let Some(opened) = self.opened.clone() else { return Err("no model is open".to_owned()) };
        let kind = opened.drafted_by(&package.model)?;
        let draft = DraftFile { model: Arc::clone(&package.model), file: reference };
        let drafting: Arc<PreparedModel> = PreparedModel::clone(&opened).with_draft(Some(draft)).into();
        self.push_undo();
        let found = self.locations.of(&opened);
        self.locations.learn(&drafting, Some(found));
        self.opened = Some(Arc::clone(&drafting));
        self.model = self.in_quantisation(self.settings.quant).ok().flatten().or(Some(drafting));
        self.settings.draft.types = Some(vec![kind]);
        self.replan_from_scratch();
        self.notice = Some(format!("{} drafts for {}; u undoes it.", package.model.name, opened.name));
        Ok(())
    }
}
