//! Opening a model, and the knobs that its tag sets.

use std::sync::Arc;

use super::App;
use crate::export::ModelLocation;
use crate::settings::{Context, GpuLayers, Settings};
use crate::source::{ExplicitKnobs, Package};
use crate::tui::widget::row_writer::capitalised;

/// The knobs that the model's tag has set, with the values before; (set, before).
#[derive(Clone, Debug, Default)]
pub(super) struct TagDefaults {
    ctx: Option<(Context, Context)>,
    gpu_layers: Option<(GpuLayers, GpuLayers)>,
}

/// What a tag may set, and what it has set.
#[derive(Clone, Debug, Default)]
pub(super) struct Tag {
    /// Knobs set by the user, which the tag must not override.
    pub held: ExplicitKnobs,
    pub tag_defaults: TagDefaults,
}

impl TagDefaults {
    /// The knobs that differ between `before` and `after`.
    fn of(before: &Settings, after: &Settings) -> Self {
        Self {
            ctx: (before.ctx != after.ctx).then_some((after.ctx, before.ctx)),
            gpu_layers: (before.gpu_layers != after.gpu_layers).then_some((after.gpu_layers, before.gpu_layers)),
        }
    }

    /// `settings` as for any other model: without the quantisation, and with the values from before the tag unless the
    /// user has changed them since.
    pub(super) fn without(&self, settings: &Settings) -> Settings {
        let mut settings = Settings { quant: None, ..settings.clone() };
        if let Some((_, before)) = self.ctx.filter(|(set, _)| *set == settings.ctx) {
            settings.ctx = before;
        }
        if let Some((_, before)) = self.gpu_layers.filter(|(set, _)| *set == settings.gpu_layers) {
            settings.gpu_layers = before;
        }
        settings
    }
}

impl App {
    /// Opens `package` with the knobs that its tag sets: two undo steps. `found` is where the programs that run the
    /// model find it, if known.
    pub fn open(&mut self, package: Package, found: Option<ModelLocation>) {
        self.open_with(package, found, None);
    }

    /// As [`Self::open`], with the context `ctx` in tokens, whatever the tag sets.
    pub(super) fn open_with(&mut self, mut package: Package, found: Option<ModelLocation>, ctx: Option<u64>) {
        let mut before = self.tag.tag_defaults.without(&self.settings);
        let mut held = self.tag.held;
        if let Some(tokens) = ctx {
            (before.ctx, held.ctx) = (Context::Tokens(tokens), true);
        }
        let mut after = before.clone();
        let notes = package.apply_to(&mut after, held);
        self.push_undo();
        self.tag.tag_defaults = TagDefaults::of(&before, &after);
        if !notes.is_empty() {
            Arc::make_mut(&mut package.model).add_notes(&notes);
        }
        // a projector from the command line belongs to the first model only
        self.tag.held = ExplicitKnobs { projector: false, ..self.tag.held };
        self.locations.learn(&package.model, found);
        self.opened = Some(Arc::clone(&package.model));
        self.model = Some(package.model);
        self.settings = Settings { ctx: before.ctx, gpu_layers: before.gpu_layers, ..after.clone() };
        if after != self.settings {
            self.push_undo();
            self.settings = after;
            self.notice = Some(format!("{}; u undoes it.", capitalised(&notes.join(", and "))));
        }
        self.plan = None;
        self.panels.cursors = super::Cursors::default();
        self.replan_from_scratch();
    }
}
