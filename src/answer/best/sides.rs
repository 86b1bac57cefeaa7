//! One model as a GGUF file and with MLX, on one Mac: what would be taken of each.

use std::sync::Arc;

use super::BestRequest;
use crate::answer::FitSummary;
use crate::catalogue;
use crate::engine::{EngineId, PlanRequest, PreparedModel};
use crate::machine::Backend;
use crate::plan::Plan;
use crate::settings::Settings;

/// The balanced settings of one of both.
#[derive(Clone, Debug)]
pub struct Side {
    /// Their plan.
    pub plan: Plan,
    /// How far its context reaches, and how fast it is.
    pub fit: FitSummary,
}

impl PlanRequest {
    /// The balanced settings of the model as a GGUF file and with MLX; none on another machine than a Mac, and of a model of which
    /// not both are known.
    pub fn sides(&self, question: &BestRequest) -> Option<[Side; 2]> {
        (self.machine.gpus.first()?.backend == Backend::Metal).then_some(())?;
        let other = |engine: EngineId, model: Arc<PreparedModel>| {
            let settings = Settings { ctx: self.settings.ctx, ..Settings::default() };
            Self::new(engine, model, Arc::clone(&self.machine), settings)
        };
        let is_of_mlx = self.opened.mlx.is_some();
        let (gguf, mlx) = if self.engine.facts().runs_gguf {
            let gguf = if is_of_mlx { self.with_opened(self.opened.converted().ok()??.into()) } else { self.clone() };
            let model = if is_of_mlx { Arc::clone(&self.opened) } else { self.opened.for_mlx().ok()??.into() };
            (gguf, other(EngineId::Mlx, model))
        } else {
            let entry = catalogue::find(self.opened.entry.as_deref()?)?;
            let file = PreparedModel::from(entry.model(entry.quantisation).ok()?);
            (other(EngineId::LlamaCpp, file.into()), self.clone())
        };
        Some([gguf.side(question)?, mlx.side(question)?])
    }

    fn with_opened(&self, opened: Arc<PreparedModel>) -> Self {
        Self { model: Arc::clone(&opened), opened, ..self.clone() }
    }

    fn side(&self, question: &BestRequest) -> Option<Side> {
        let (found, trial) = self.balanced_in_any(question).ok()?;
        let plan = found.explained(trial);
        let fit = found.fit_summary(&plan, 0);
        Some(Side { plan, fit })
    }
}
