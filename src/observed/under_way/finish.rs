//! The end of a load: what its lines add up to.

use super::super::buffers::sum;
use super::super::load::is_gpu;
use super::super::{CacheSize, Load, ObservedSettings, Program, Term};
use super::LoadUnderWay;

impl LoadUnderWay {
    /// The load as it stands, if anything is known of it besides the machine.
    pub fn finish(mut self) -> Option<Load> {
        let any_cache = |mib: f64| {
            let terms = self.load.contexts.iter().flat_map(|context| context.observed.values());
            terms.filter_map(|terms| terms.get(&Term::Kv)).any(|kv| kv.0 > mib)
        };
        self.load.is_trial = self.no_alloc || self.tried && any_cache(-1.0) && !any_cache(0.0);
        let llama_cpp = self.load.models.iter().any(|model| !model.observed.is_empty()) || any_cache(-1.0);
        let settings = self.asked_and_in_force();
        let load = &mut self.load;
        for model in &load.models {
            sum(&mut load.observed, &model.observed);
        }
        for context in &mut load.contexts {
            sum(&mut load.observed, &context.observed);
            let observed = &context.observed;
            let now = |device: &str| observed.get(device).and_then(|terms| terms.get(&Term::Compute));
            context.reserved_before.retain(|device, mib| now(device).is_some_and(|now| now != mib));
        }
        // where llama.cpp says itself what it took, Ollama's lines are its estimate of the same
        if !llama_cpp {
            sum(&mut load.observed, &self.own);
        }
        sum(&mut load.observed, &self.projector);
        load.settings = settings;
        load.complete = load.completeness();
        let llama = load.has_memory() || load.build.is_some() || !load.models.is_empty() || !load.contexts.is_empty();
        let program = load.program.or(llama.then_some(Program::LlamaCpp));
        let says = !load.is_bare() || load.devices.iter().any(|device| is_gpu(&device.name));
        self.load.program = program;
        says.then_some(self.load)
    }

    /// What a context says is in force stands over what was asked for.
    fn asked_and_in_force(&self) -> ObservedSettings {
        let load = &self.load;
        let mut settings = ObservedSettings::default();
        if let Some(context) = load.contexts.first() {
            settings = context.settings.clone();
            let types = context.caches.iter().map(CacheSize::types).find(|(k, _)| k.is_some()).unwrap_or_default();
            (settings.cache_type_k, settings.cache_type_v) = types;
            let saved = context.caches.iter().find_map(|cache| cache.saved_states);
            settings.n_rs_seq = settings.n_rs_seq.or(saved);
        }
        if let Some(model) = load.models.first() {
            settings.load_mode.clone_from(&model.load_mode);
            settings.n_ctx_train = settings.n_ctx_train.or(model.n_ctx_train);
        }
        let command = load.command.as_ref().map(|command| command.settings.clone()).unwrap_or_default();
        let mut settings = settings.or(command).or(self.asked.clone());
        settings.n_ctx = settings.n_ctx.or(load.fit.context.map(|(_, reduced)| reduced));
        settings
    }
}
