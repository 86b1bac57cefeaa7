//! The models to choose from: recently opened, in local stores, in a running Ollama, in a repository on Hugging Face, and in
//! the built-in catalogue.
//!
//! The model of an [`Item`] is loaded lazily. [`survey()`] plans all of them for a machine, for the planner's screen
//! and `plimsoll list`.

pub mod check;
pub mod filter;
pub mod order;
mod repository;
pub mod survey;

use std::cmp::Reverse;
use std::sync::OnceLock;

use crate::catalogue::{self, CatalogueEntry, Place};
use crate::model::mixture::Quantisation;
use crate::model::{MissingProjector, Modalities};
use crate::plan::Plan;
use crate::source::roots::Recent;
use crate::source::store::{self, EntryState, Store};
use crate::source::{self, OpenedModel, Package, ReadFrom, Roots, SourceError};
use crate::text::shell_word;
use crate::units::Bytes;
use repository::RepositoryRow;

pub use filter::{ModelFilter, meant, parameters};
pub use order::{SortBy, Standing};
pub use repository::{RepositoryList, repository};
pub use survey::{ModelStatus, SurveyRequest, survey};

/// Where a model comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelOrigin {
    /// A recently opened reference.
    Recent,
    /// A store on this machine.
    Store(Store),
    /// A running Ollama, local or remote.
    Running,
    /// A repository on Hugging Face.
    Repository,
    /// A folder of original weights.
    Folder,
    /// The built-in catalogue.
    Catalogue,
}

impl ModelOrigin {
    /// Its name on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recent => "recent",
            Self::Store(store) => store.name(),
            Self::Running => "running Ollama",
            Self::Repository => "huggingface.co",
            Self::Folder => "folder",
            Self::Catalogue => "catalogue",
        }
    }

    /// Whether its models are on this machine.
    pub const fn is_here(self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// A model that can be opened.
#[derive(Debug)]
pub struct Item {
    /// Its name: `qwen3:8b`.
    pub name: String,
    /// Its reference for [`source::load`].
    pub reference: String,
    /// Where it comes from.
    pub origin: ModelOrigin,
    /// Other names that a search matches.
    pub aliases: Vec<String>,
    header: HeaderLocation,
    package: OnceLock<Result<Package, String>>,
}

/// Where its header is read from.
#[derive(Clone, Debug, PartialEq)]
enum HeaderLocation {
    Stored(store::StoreEntry),
    /// The built-in catalogue, in this quantisation.
    BuiltIn(&'static CatalogueEntry, Quantisation),
    /// Its reference, without access to servers unless `asks_servers`.
    Reference {
        asks_servers: bool,
    },
    /// A repository, of which one header was read.
    InRepository(RepositoryRow),
    /// Nowhere: it was given as loaded, or with the error.
    Fixed(Result<(), String>),
}

impl HeaderLocation {
    fn is_of_original(&self) -> bool {
        matches!(self, Self::InRepository(row) if row.is_of_original())
    }
}

impl Item {
    fn new(name: String, reference: String, origin: ModelOrigin, header: HeaderLocation) -> Self {
        Self { name, reference, origin, aliases: Vec::new(), header, package: OnceLock::new() }
    }

    /// An entry of a store.
    pub fn stored(entry: store::StoreEntry) -> Self {
        let by_name = entry.store == Store::Ollama;
        // an Ollama model is loaded by name, with its adapters and parameters
        let reference = if by_name { entry.name.clone() } else { entry.path.to_string_lossy().into_owned() };
        Self::new(entry.name.clone(), reference, ModelOrigin::Store(entry.store), HeaderLocation::Stored(entry))
    }

    /// An entry of the catalogue, in `quant` or else in its default quantisation.
    pub fn built_in(entry: &'static CatalogueEntry, quant: Option<Quantisation>) -> Self {
        let reference = match quant {
            Some(quant) => format!("catalogue:{}@{quant}", entry.name),
            None => format!("catalogue:{}", entry.name),
        };
        let header = HeaderLocation::BuiltIn(entry, quant.unwrap_or(entry.quantisation.into()));
        let aliases = entry.tags.iter().chain([&entry.title]).cloned().collect();
        Self { aliases, ..Self::new(entry.name.clone(), reference, ModelOrigin::Catalogue, header) }
    }

    /// Of a model of the catalogue that is listed in two conversions, which one this is.
    pub fn conversion(&self) -> Option<String> {
        match &self.header {
            HeaderLocation::BuiltIn(entry, _) => entry.conversion(),
            _ => None,
        }
    }

    /// Whether it is the older of two conversions in the catalogue.
    pub fn is_older_conversion(&self) -> bool {
        matches!(&self.header, HeaderLocation::BuiltIn(entry, _) if entry.is_older_conversion())
    }

    /// A recently opened reference.
    pub fn recent(reference: String) -> Self {
        Self::new(reference.clone(), reference, ModelOrigin::Recent, HeaderLocation::Reference { asks_servers: false })
    }

    /// A model of a running Ollama.
    pub fn running(name: String) -> Self {
        Self::new(name.clone(), name, ModelOrigin::Running, HeaderLocation::Reference { asks_servers: true })
    }

    /// An item that is already loaded, or has already failed to load.
    pub fn given(name: &str, origin: ModelOrigin, package: Result<Package, String>) -> Self {
        let header = HeaderLocation::Fixed(package.as_ref().map(|_| ()).map_err(Clone::clone));
        let item = Self::new(name.to_owned(), name.to_owned(), origin, header);
        Self { package: OnceLock::from(package), ..item }
    }

    /// Whether each of `words` is part of one of its names.
    pub fn is_named(&self, words: &[String]) -> bool {
        let names: Vec<String> =
            std::iter::once(&self.name).chain(&self.aliases).map(|name| name.to_lowercase()).collect();
        words.iter().all(|word| names.iter().any(|name| name.contains(&word.to_lowercase())))
    }

    /// Whether both are the same entry, so that the status of one holds for the other.
    pub fn is(&self, other: &Self) -> bool {
        (self.origin, &self.name, &self.header) == (other.origin, &other.name, &other.header)
    }

    /// The beginning of its name, shared by its family: `qwen` of `owner/Qwen3-8B`.
    pub fn family(&self) -> String {
        let name = self.name.rsplit(['/', '\\']).next().unwrap_or(&self.name);
        let name = name.strip_prefix("catalogue:").unwrap_or(name);
        name.chars().take_while(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect()
    }

    /// The reference that opens it in the quantisation of `plan`, its plan.
    pub fn reference_in(&self, plan: Option<&Plan>) -> String {
        let quantisation = plan.and_then(|plan| plan.model.file_type.as_ref());
        match (&self.header, quantisation) {
            (HeaderLocation::BuiltIn(entry, own), Some(quantisation)) if own.name() != quantisation => {
                format!("catalogue:{}@{quantisation}", entry.name)
            }
            _ => self.reference.clone(),
        }
    }

    /// What the catalogue says of it: its own entry, or the one that its name means.
    pub fn entry(&self) -> Option<&'static CatalogueEntry> {
        match &self.header {
            HeaderLocation::BuiltIn(entry, _) => Some(entry),
            _ => catalogue::described_by(&self.name).map(|(entry, _)| entry),
        }
    }

    /// Of a model of the catalogue, where it can be had in the quantisation of `plan`; none of others, and if no such place is
    /// known.
    pub fn place(&self, plan: Option<&Plan>) -> Option<Place> {
        let HeaderLocation::BuiltIn(entry, _) = &self.header else { return None };
        entry.place(plan?.model.file_type.as_deref()?)
    }

    /// Whether it must be made first in the quantisation of `plan`: no place is known that has it so, or it is of original
    /// weights.
    pub fn is_to_be_made(&self, plan: Option<&Plan>) -> bool {
        match &self.header {
            HeaderLocation::BuiltIn(..) => plan.is_some() && self.place(plan).is_none(),
            header => header.is_of_original() && plan.is_some(),
        }
    }

    /// Whether it stands for the file in one quantisation that can be made of original weights.
    pub fn is_of_original(&self) -> bool {
        self.header.is_of_original()
    }

    /// What to type to have it, or to run it where it is here already, in the quantisation of `plan`; none if no place is
    /// known that has it so.
    pub fn pull(&self, plan: Option<&Plan>) -> Option<String> {
        match &self.header {
            HeaderLocation::BuiltIn(..) => self.place(plan).map(|place| place.command()),
            HeaderLocation::Stored(entry) if entry.store == Store::Ollama => Some(format!("ollama run {}", self.name)),
            HeaderLocation::Stored(store::StoreEntry { state: EntryState::Tensors { .. }, .. }) => {
                Some(format!("mlx_lm.server --model {}", shell_word(&self.reference)))
            }
            HeaderLocation::Stored(_) => Some(format!("llama-server -m {}", shell_word(&self.reference))),
            HeaderLocation::Reference { asks_servers: true } => Some(format!("ollama run {}", self.name)),
            HeaderLocation::InRepository(row) => row.pull().map(str::to_owned),
            HeaderLocation::Reference { .. } | HeaderLocation::Fixed(_) => None,
        }
    }

    /// What it reads besides text, with a projector that may have to be fetched.
    pub fn can_read(&self) -> Modalities {
        let Modalities { vision, audio } = self.modalities();
        let missing = self.missing_projector().map(|missing| missing.reads).unwrap_or_default();
        Modalities { vision: vision || missing.vision, audio: audio || missing.audio }
    }

    /// What it reads besides text; nothing as long as that is not known.
    pub fn modalities(&self) -> Modalities {
        match &self.header {
            HeaderLocation::BuiltIn(entry, _) => entry.projector().map(|it| it.modalities()).unwrap_or_default(),
            _ => self.read_before().map(Package::modalities).unwrap_or_default(),
        }
    }

    /// The projector that it would need to read more than text, if that is known to be missing.
    pub fn missing_projector(&self) -> Option<MissingProjector> {
        if let HeaderLocation::BuiltIn(entry, _) = &self.header {
            return entry.missing_projector();
        }
        self.read_before().filter(|known| known.projector.is_none())?.model.missing_projector
    }

    /// The mark in a list for what it reads besides text, or for that it is planned as text only; and the same for narrow
    /// columns.
    pub fn mark(&self) -> Option<(&'static str, &'static str)> {
        self.modalities().words().or_else(|| self.missing_projector().map(|_| MissingProjector::MARK))
    }

    /// Its size on disk if it is in a store, or why it cannot be opened.
    pub fn on_disk(&self) -> Option<Result<Bytes, &str>> {
        match &self.header {
            HeaderLocation::Stored(store::StoreEntry {
                state: EntryState::Whole { size, .. } | EntryState::Tensors { size },
                ..
            }) => Some(Ok(*size)),
            HeaderLocation::Stored(store::StoreEntry { state: EntryState::Broken(why), .. }) => Some(Err(why)),
            _ => None,
        }
    }

    /// The model with its adapters, projector and tag parameters, loaded on the first call; one of the catalogue on every
    /// call, as that takes no time and hundreds would be kept.
    ///
    /// # Errors
    /// One sentence, if it cannot be loaded.
    pub fn package(&self, roots: &Roots) -> Result<Package, String> {
        match &self.header {
            HeaderLocation::BuiltIn(..) => self.read(roots),
            _ => self.package.get_or_init(|| self.read(roots)).clone(),
        }
    }

    /// The model, if it is in the catalogue or was read before.
    pub fn known(&self) -> Option<Package> {
        match &self.header {
            HeaderLocation::BuiltIn(..) => self.read(&Roots::default()).ok(),
            _ => self.read_before().cloned(),
        }
    }

    fn read_before(&self) -> Option<&Package> {
        self.package.get()?.as_ref().ok()
    }

    fn read(&self, roots: &Roots) -> Result<Package, String> {
        match &self.header {
            HeaderLocation::Stored(entry) => match &entry.state {
                EntryState::Whole { .. } | EntryState::Tensors { .. } => {
                    packaged(source::stored(entry, &mut source::no_progress))
                }
                EntryState::Broken(why) => Err(why.clone()),
            },
            HeaderLocation::BuiltIn(entry, quant) => {
                let package = entry.model(*quant).map(Package::from).map_err(|error| error.to_string())?;
                let read_from = ReadFrom::Catalogue { stands_for: None };
                Ok(Package { projector: entry.projector().cloned(), read_from, ..package })
            }
            HeaderLocation::Reference { asks_servers } => {
                let roots = if *asks_servers { roots.clone() } else { roots.clone().offline() };
                packaged(source::load(&self.reference, &roots, &mut source::no_progress))
            }
            HeaderLocation::InRepository(row) => row.package(),
            HeaderLocation::Fixed(known) => Err(known.as_ref().err().cloned().unwrap_or_default()),
        }
    }
}

/// An opened model with its adapters, projector and tag parameters.
fn packaged(opened: Result<OpenedModel, SourceError>) -> Result<Package, String> {
    let package = opened.and_then(|opened| opened.package(&mut source::no_progress));
    package.map_err(|error| error.to_string())
}

/// The models known without asking a server: recently opened, then in stores, then the catalogue. Catalogue entries are
/// in `quant`, or each in its default quantisation.
pub fn local_models(roots: &Roots, quant: Option<Quantisation>) -> Vec<Item> {
    let stored: Vec<Item> = store::list(roots).into_iter().map(Item::stored).collect();
    // the newest first: people look for these
    let mut entries: Vec<_> = catalogue::all().iter().collect();
    entries.sort_by_key(|entry| Reverse(entry.released.as_deref()));
    let built_in: Vec<Item> = entries.into_iter().map(|entry| Item::built_in(entry, quant)).collect();
    let recent = roots.recent.as_deref().map(|file| Recent::new(file).list()).unwrap_or_default();
    let listed = |reference: &str| stored.iter().chain(&built_in).any(|item| item.reference == reference);
    let recent: Vec<Item> = recent.into_iter().filter(|reference| !listed(reference)).map(Item::recent).collect();
    recent.into_iter().chain(stored).chain(built_in).collect()
}

/// The models of the running Ollama that are not among `known`; empty if none is running.
///
/// # Errors
/// One sentence, if an Ollama that the user named does not list its models.
#[cfg(feature = "net")]
pub fn running(roots: &Roots, known: &[String], watch: &mut source::ProgressCallback<'_>) -> Result<Vec<Item>, String> {
    let Some(network) = &roots.network else { return Ok(Vec::new()) };
    match source::running::list_models(network, watch) {
        Ok(tags) => {
            let tags = tags.into_iter().map(|tag| tag.name).filter(|name| !known.contains(name));
            Ok(tags.map(Item::running).collect())
        }
        Err(error) if network.ollama_is_named => Err(error.to_string()),
        // no Ollama is running, or something else listens on its default port
        Err(_) => Ok(Vec::new()),
    }
}

/// Empty: built without network access.
///
/// # Errors
/// Never.
#[cfg(not(feature = "net"))]
pub fn running(_: &Roots, _: &[String], _: &mut source::ProgressCallback<'_>) -> Result<Vec<Item>, String> {
    Ok(Vec::new())
}
