//! Drafting: which draft llama-server uses and how, its context beside the model's (MTP blocks of the model itself, or a
//! file of its own), and what it uses of the model's.

use super::context::ContextParams;
use super::devices::{self, Device};
use super::draft_target::DraftTarget;
use super::error::LoadError;
use super::loaded::LoadedModel;
use super::measure::{Before, Measurer, MemoryBreakdown, Reservation};
use super::overrides::UserOverrides;
use super::placement::LayerSplit;
use super::prepared::PreparedModel;
use super::release::ReleaseTraits;
use super::speculation::Speculation;
use super::weight_buffers::WeightsInRam;
use crate::engine::error::EngineError;
use crate::machine::Machine;
use crate::settings::{CacheType, DeviceName, GpuLayers, Settings, SpecType, SplitMode};

/// A draft as requested.
#[derive(Clone, Debug)]
pub struct DraftRequest<'a> {
    /// The model of its own file; none for the MTP blocks of the model itself.
    pub model: Option<&'a LoadedModel>,
    /// Its devices, as indices among those of the model.
    pub devices: Vec<usize>,
    /// Its layers on GPUs; none for all.
    pub gpu_layers: Option<u64>,
    /// Its tensors that the user places.
    pub overrides: UserOverrides,
    /// The options of its context. That has the context size of the model's.
    pub options: ContextParams,
    /// How it drafts.
    pub speculation: Speculation,
}

/// The memory that drafting takes and changes, in bytes per device of the model, RAM last.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftMemory {
    /// Of the draft, as reserved.
    pub draft: DeviceBytes,
    /// Tokens of a batch of the draft with logits.
    pub n_outputs_max: u64,
    /// Its compute buffers once drafting is set up.
    pub draft_ready: Vec<u64>,
    /// The compute buffers of the model's context once drafting is set up; none if they stay as they were.
    pub main_ready: Option<Vec<u64>>,
    /// The compute buffers of the draft's pipeline that could not be allocated, so that it has none.
    pub refused_pipeline: Option<Vec<u64>>,
}

/// The model's context that a draft is made beside.
#[derive(Clone, Copy, Debug)]
pub struct MainContext<'m> {
    /// The model.
    pub model: &'m LoadedModel,
    /// Its devices.
    pub devices: &'m [Device],
    /// Its layers per device.
    pub spread: &'m LayerSplit,
    /// The options of its context.
    pub options: &'m ContextParams,
    /// What it takes.
    pub measured: &'m MemoryBreakdown,
    /// Bytes per device of what is loaded after the draft, before drafting begins: a projector.
    pub later: &'m [u64],
    /// How both are reserved.
    pub reservation: Reservation,
}

/// Bytes per device of the model, RAM last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Weights.
    pub model: Vec<u64>,
    /// KV caches and recurrent states.
    pub context: Vec<u64>,
    /// Compute buffers.
    pub compute: Vec<u64>,
    /// The weights in RAM by buffers.
    pub in_ram: WeightsInRam,
}

impl DeviceBytes {
    /// All bytes on a device.
    pub(super) fn total(&self, device: usize) -> u64 {
        self.model[device] + self.context[device] + self.compute[device]
    }
}

impl MemoryBreakdown {
    /// The same with `more` bytes.
    pub(super) fn with(&self, more: &DeviceBytes) -> Self {
        let sum = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a + b).collect();
        Self {
            model: sum(&self.model, &more.model),
            context: sum(&self.context, &more.context),
            compute: sum(&self.compute, &more.compute),
            ..self.clone()
        }
    }
}

impl<'a> DraftRequest<'a> {
    fn own_devices(&self, devices: &[Device]) -> Vec<Device> {
        self.devices.iter().filter_map(|at| devices.get(*at).cloned()).collect()
    }

    /// What `--fit` counts for it with a context of `n_ctx` tokens: it is measured alone, and one that cannot be made
    /// without its target is not counted.
    pub fn for_fit(&self, main: &'a LoadedModel, devices: &[Device], n_ctx: u64, spread: &LayerSplit) -> DeviceBytes {
        let own = self.own_devices(devices);
        let options = ContextParams { n_ctx, ..self.options.clone() };
        let spread = self.spread(spread);
        let model = self.model.unwrap_or(main);
        let measured = Measurer::new(model, &own).measure(&model.place(&own, &spread), &options, Reservation::Measured);
        if let Ok(measured) = measured {
            return self.among(&measured, devices.len());
        }
        let none = || vec![0; devices.len() + 1];
        DeviceBytes { model: none(), context: none(), compute: none(), in_ram: WeightsInRam::default() }
    }

    /// Measures it beside the model.
    ///
    /// # Errors
    /// When llama.cpp refuses it.
    pub fn measure(&self, main: &MainContext<'_>) -> Result<DraftMemory, LoadError> {
        let MainContext { devices, spread, options, measured, later, reservation, .. } = *main;
        let own = self.own_devices(devices);
        let placement = &main.model.place(devices, spread);
        let memory = Measurer::new(main.model, devices).memory(placement, options)?;
        let target =
            DraftTarget { model: main.model, placement: placement.clone(), memory, devices: self.devices.clone() };
        let model = self.model.unwrap_or(main.model);
        if model.needs_target() && !target.is_reachable(model) {
            let why = "the draft uses tensors of the model that are not on its GPUs, where llama.cpp would end with an \
                       error: let it use those of the model";
            return Err(LoadError::settings(why));
        }
        let place = match self.model {
            Some(model) => model.place(&own, &self.spread(spread)),
            None => placement.clone(),
        };
        // the weights of MTP blocks are the model's
        let held =
            |main: &MemoryBreakdown, at: usize| main.total(at) - if self.model.is_none() { main.model[at] } else { 0 };
        let before = Before { taken: self.devices.iter().map(|at| held(measured, *at)).collect(), ..Before::default() };
        let mut options_of_draft = ContextParams { n_ctx: measured.parameters.n_ctx, ..self.options.clone() };
        let measurer = Measurer::new(model, &own).beside(&target).after(before);
        let draft = measurer.measure(&place, &options_of_draft, reservation)?;
        let bytes = self.among(&draft, devices.len());
        let later = |at: usize| later.get(at).copied().unwrap_or(0);
        let main_ready = match self.speculation.main_outputs(model, main.model.hparams.n_layer()) {
            Some(drafting) => {
                let taken = (0..devices.len()).map(|at| bytes.total(at) + later(at)).collect();
                let before = Before { taken, gave_up_pipeline: measured.refused_pipeline.is_some() };
                let options = ContextParams { drafting, ..options.clone() };
                let again = Measurer::new(main.model, devices).after(before);
                Some(again.measure(placement, &options, reservation)?)
            }
            None => None,
        };
        let draft_ready = match self.speculation.draft_outputs(model) {
            Some(outputs) => {
                options_of_draft.drafting = outputs;
                let main = main_ready.as_ref().unwrap_or(measured);
                let taken = self.devices.iter().map(|at| held(main, *at) + later(*at)).collect();
                let gave_up_pipeline = draft.refused_pipeline.is_some();
                let again = measurer.after(Before { taken, gave_up_pipeline });
                again.measure(&place, &options_of_draft, reservation)?.compute
            }
            None => draft.compute.clone(),
        };
        Ok(DraftMemory {
            n_outputs_max: draft.parameters.n_outputs_max,
            draft: bytes,
            draft_ready: self.spread_over(&draft_ready, devices.len()),
            main_ready: main_ready.map(|ready| ready.compute),
            refused_pipeline: draft.refused_pipeline.map(|bytes| self.spread_over(&bytes, devices.len())),
        })
    }

    /// Its layers per device: the number is its own, the shares are the model's.
    fn spread(&self, main: &LayerSplit) -> LayerSplit {
        let of_main = self.model.is_none();
        LayerSplit {
            gpu_layers: self.gpu_layers,
            tensor_split: main.tensor_split.clone(),
            overrides: if of_main { main.overrides.clone() } else { Vec::new() },
            by_user: if of_main { main.by_user.clone() } else { self.overrides.clone() },
            no_host: main.no_host,
            by_rows: main.by_rows,
            load_mtp: self.speculation.is_mtp(),
            repack_for: main.repack_for,
        }
    }

    /// A breakdown over its devices as one over `count` devices and RAM, without the weights that it shares.
    fn among(&self, measured: &MemoryBreakdown, count: usize) -> DeviceBytes {
        let MemoryBreakdown { model, context, compute, in_ram, .. } = measured;
        DeviceBytes {
            model: if self.model.is_some() { self.spread_over(model, count) } else { vec![0; count + 1] },
            context: self.spread_over(context, count),
            compute: self.spread_over(compute, count),
            in_ram: if self.model.is_some() { *in_ram } else { WeightsInRam::default() },
        }
    }

    fn spread_over(&self, bytes: &[u64], count: usize) -> Vec<u64> {
        let mut all = vec![0; count + 1];
        for (at, bytes) in bytes.iter().enumerate() {
            let place = self.devices.get(at).copied().unwrap_or(count);
            if let Some(place) = all.get_mut(place) {
                *place += bytes;
            }
        }
        all
    }
}

// The options of drafting as llama-server takes them (`common/arg.cpp`, 0.1.161).

/// How `prepared` drafts: as asked, or else as its draft's file says.
///
/// # Errors
/// When something that was asked for is missing, or this release does not know it.
pub(super) fn speculation(
    prepared: &PreparedModel,
    release: &'static ReleaseTraits,
    settings: &Settings,
) -> Result<Speculation, EngineError> {
    let draft = prepared.draft().map(|draft| draft.model.loaded_by(release)).transpose()?;
    let types = match (&settings.draft.types, draft) {
        (Some(types), _) => types.clone(),
        (None, Some(draft)) => vec![Speculation::type_of(draft)],
        (None, None) => Vec::new(),
    };
    let refuse = |why: String| Err(EngineError::Settings(why));
    for kind in &types {
        let needs_file = matches!(
            kind,
            SpecType::DraftSimple | SpecType::DraftEagle3 | SpecType::DraftDflash | SpecType::DraftDspark
        );
        if needs_file && draft.is_none() {
            return refuse(format!("{kind} needs a draft model: name its file with --model-draft"));
        }
        if !release.drafts.contains(kind) {
            return refuse(format!("llama.cpp release {} does not know {kind}: use a newer release", release.name));
        }
        if draft.is_some_and(|draft| !Speculation::suits(*kind, draft)) {
            return refuse(format!("the draft model is not one for {kind}: use another --spec-type"));
        }
    }
    let default = Speculation::default();
    let (n_max, ngram) = (settings.draft.n_max.unwrap_or(default.n_max), settings.draft.ngram);
    Ok(Speculation { types, n_max, ngram, backend_sampling: !settings.draft.no_backend_sampling })
}

/// The draft beside a context of the model with the options `main`.
///
/// # Errors
/// When the user named a GPU that llama-server does not use.
#[allow(clippy::too_many_arguments, reason = "each decides something of its own")]
pub(super) fn request<'a>(
    prepared: &'a PreparedModel,
    model: &LoadedModel,
    machine: &Machine,
    gpus: &[usize],
    settings: &Settings,
    spread: &LayerSplit,
    main: &ContextParams,
    speculation: &Speculation,
) -> Result<Option<DraftRequest<'a>>, EngineError> {
    let own = prepared.draft().map(|draft| draft.model.loaded_by(model.release)).transpose()?;
    if own.is_none() && !speculation.is_mtp() {
        return Ok(None);
    }
    let asked = &settings.draft;
    let place = |name: &DeviceName| devices::place(machine, gpus, name).map(usize::from);
    let named = asked.devices.as_ref().filter(|_| own.is_some());
    let devices = named.map(|named| named.iter().map(place).collect::<Result<Vec<usize>, _>>()).transpose()?;
    let all = if settings.split_mode == SplitMode::Tensor { gpus.len().min(1) } else { gpus.len() };
    let devices = devices.unwrap_or_else(|| (0..all).collect());
    let overrides = match prepared.draft().zip(own) {
        Some((draft, loaded)) => {
            let used: Vec<usize> = devices.iter().filter_map(|at| gpus.get(*at).copied()).collect();
            UserOverrides::new((&settings.draft).into(), loaded, &draft.model.header, machine, &used, devices.len())?
        }
        None => UserOverrides::default(),
    };
    let format = |ty: Option<CacheType>| ty.unwrap_or(CacheType::F16).format();
    Ok(Some(DraftRequest {
        model: own,
        devices,
        overrides,
        gpu_layers: match (own, asked.gpu_layers) {
            (None, _) => spread.gpu_layers,
            (Some(_), GpuLayers::Count(count)) => Some(count),
            (Some(_), GpuLayers::Auto | GpuLayers::All) => None,
        },
        options: speculation.draft(main, format(asked.cache_type_k), format(asked.cache_type_v)),
        speculation: speculation.clone(),
    }))
}
