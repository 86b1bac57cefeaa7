//! The options of drafting as llama-server takes them (`common/arg.cpp`, 0.1.161).

use super::super::context::ContextParams;
use super::super::draft::DraftRequest;
use super::super::release::ReleaseTraits;
use super::super::speculative::Speculation;
use super::super::{LayerSplit, LoadedModel};
use crate::engine::id::EngineError;
use crate::engine::prepared::PreparedModel;
use crate::settings::{CacheType, GpuLayers, Settings, SpecType};

/// How `prepared` drafts: as asked, or else as its draft's file says.
///
/// # Errors
/// When something that was asked for is missing, or this release does not know it.
pub fn speculation(
    prepared: &PreparedModel,
    release: &ReleaseTraits,
    settings: &Settings,
) -> Result<Speculation, EngineError> {
    let draft = prepared.draft().map(|draft| draft.model.llama_cpp(release.name)).transpose()?;
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
    Ok(Speculation { types, n_max: settings.draft.n_max.unwrap_or(default.n_max), ..default })
}

/// The draft beside a context of the model with the options `main`.
///
/// # Errors
/// When the user named a GPU that llama-server does not use.
pub fn request<'a>(
    prepared: &'a PreparedModel,
    model: &LoadedModel,
    gpus: &[usize],
    settings: &Settings,
    spread: &LayerSplit,
    main: &ContextParams,
    speculation: &Speculation,
) -> Result<Option<DraftRequest<'a>>, EngineError> {
    let own = prepared.draft().map(|draft| draft.model.llama_cpp(model.release.name)).transpose()?;
    if own.is_none() && !speculation.is_mtp() {
        return Ok(None);
    }
    let asked = &settings.draft;
    let used = |gpu: &usize| gpus.iter().position(|used| used == gpu).ok_or(*gpu);
    let named = asked.devices.as_ref().filter(|_| own.is_some());
    let devices = named.map(|named| named.iter().map(used).collect::<Result<Vec<usize>, usize>>()).transpose();
    let devices = devices.map_err(|gpu| {
        EngineError::Settings(format!("GPU{gpu} is not one that llama-server uses: name others for the draft"))
    })?;
    let format = |ty: Option<CacheType>| ty.unwrap_or(CacheType::F16).format();
    Ok(Some(DraftRequest {
        model: own,
        devices: devices.unwrap_or_else(|| (0..gpus.len()).collect()),
        gpu_layers: match (own, asked.gpu_layers) {
            (None, _) => spread.gpu_layers,
            (Some(_), GpuLayers::Count(count)) => Some(count),
            (Some(_), GpuLayers::Auto | GpuLayers::All) => None,
        },
        options: speculation.draft(main, format(asked.cache_type_k), format(asked.cache_type_v)),
        speculation: speculation.clone(),
    }))
}
