//! The models that there are to choose from: on this machine, in a running Ollama, opened lately, in the catalogue.
//!
//! An [`Item`] is a name and where it leads; its model is read when somebody first asks for it. What a machine would make
//! of each is found by [`survey()`], which the planner's screen and `plimsoll list` share.

pub mod survey;

use std::sync::OnceLock;

use crate::gguf::FileType;
use crate::source::catalogue::{self, CatalogueEntry};
use crate::source::recent::Recent;
use crate::source::store::{self, EntryState, Store};
use crate::source::{self, Package, Roots};
use crate::units::Bytes;

pub use survey::{ModelStatus, SurveyRequest, inspect, survey};

/// Where a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelOrigin {
    /// Wherever its reference leads, which was opened lately.
    Recent,
    /// In a store of this machine.
    Store(Store),
    /// In an Ollama that runs, here or elsewhere.
    Running,
    /// In the built-in catalogue.
    Catalogue,
}

impl ModelOrigin {
    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recent => "recent",
            Self::Store(store) => store.name(),
            Self::Running => "running Ollama",
            Self::Catalogue => "catalogue",
        }
    }

    /// Whether a model there needs no fetching.
    pub const fn is_here(self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// A model that can be opened.
#[derive(Debug)]
pub struct Item {
    /// What it is called: `qwen3:8b`.
    pub name: String,
    /// What opens it, for [`source::load`].
    pub reference: String,
    /// Where it is.
    pub origin: ModelOrigin,
    /// Other names that it may be looked for by.
    pub aliases: Vec<String>,
    header: HeaderLocation,
    package: OnceLock<Result<Package, String>>,
}

/// Where its header is to be had.
#[derive(Clone, Debug, PartialEq)]
enum HeaderLocation {
    Stored(store::StoreEntry),
    /// Built in, in this quantisation.
    BuiltIn(&'static CatalogueEntry, FileType),
    /// Behind its reference: on a server only where a person may wait for it.
    Reference {
        asks_servers: bool,
    },
    /// Nowhere that is read here: this is all there is of it.
    Fixed(Result<(), String>),
}

impl Item {
    fn new(name: String, reference: String, origin: ModelOrigin, header: HeaderLocation) -> Self {
        Self { name, reference, origin, aliases: Vec::new(), header, package: OnceLock::new() }
    }

    /// An entry of a store.
    pub fn stored(entry: store::StoreEntry) -> Self {
        let by_name = entry.store == Store::Ollama;
        // by its name, a model of Ollama's comes with its adapters and knobs
        let reference = if by_name { entry.name.clone() } else { entry.path.to_string_lossy().into_owned() };
        Self::new(entry.name.clone(), reference, ModelOrigin::Store(entry.store), HeaderLocation::Stored(entry))
    }

    /// An entry of the catalogue, in a quantisation or else in its own.
    pub fn built_in(entry: &'static CatalogueEntry, quant: Option<FileType>) -> Self {
        let reference = match quant {
            Some(quant) => format!("catalogue:{}@{quant}", entry.name),
            None => format!("catalogue:{}", entry.name),
        };
        let header = HeaderLocation::BuiltIn(entry, quant.unwrap_or(entry.quantisation));
        let aliases = entry.tags.iter().chain([&entry.title]).cloned().collect();
        Self { aliases, ..Self::new(entry.name.clone(), reference, ModelOrigin::Catalogue, header) }
    }

    /// A reference that was opened lately.
    pub fn recent(reference: String) -> Self {
        Self::new(reference.clone(), reference, ModelOrigin::Recent, HeaderLocation::Reference { asks_servers: false })
    }

    /// A model of a running Ollama.
    pub fn running(name: String) -> Self {
        Self::new(name.clone(), name, ModelOrigin::Running, HeaderLocation::Reference { asks_servers: true })
    }

    /// An item that is already read, or of which it is known why it cannot be.
    pub fn given(name: &str, origin: ModelOrigin, package: Result<Package, String>) -> Self {
        let header = HeaderLocation::Fixed(package.as_ref().map(|_| ()).map_err(Clone::clone));
        let item = Self::new(name.to_owned(), name.to_owned(), origin, header);
        Self { package: OnceLock::from(package), ..item }
    }

    /// Whether this is what `other` is, so that what is known of one holds for the other.
    pub fn is(&self, other: &Self) -> bool {
        (self.origin, &self.name, &self.header) == (other.origin, &other.name, &other.header)
    }

    /// The beginning of its name, which its kin share: `qwen` of `owner/Qwen3-8B`.
    pub fn family(&self) -> String {
        let name = self.name.rsplit(['/', '\\']).next().unwrap_or(&self.name);
        let name = name.strip_prefix("catalogue:").unwrap_or(name);
        name.chars().take_while(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect()
    }

    /// Its size on the disk, where it lies in a store; or why it cannot be opened.
    pub fn on_disk(&self) -> Option<Result<Bytes, &str>> {
        match &self.header {
            HeaderLocation::Stored(store::StoreEntry { state: EntryState::Whole { size, .. }, .. }) => Some(Ok(*size)),
            HeaderLocation::Stored(store::StoreEntry { state: EntryState::Broken(why), .. }) => Some(Err(why)),
            _ => None,
        }
    }

    /// The model with what comes with it, read now if nobody asked before; or why there is none.
    ///
    /// # Errors
    /// One sentence.
    pub fn package(&self, roots: &Roots) -> Result<&Package, &str> {
        self.package.get_or_init(|| self.read(roots)).as_ref().map_err(String::as_str)
    }

    fn read(&self, roots: &Roots) -> Result<Package, String> {
        let sentence = |error: source::SourceError| error.to_string();
        match &self.header {
            HeaderLocation::Stored(entry) => match &entry.state {
                EntryState::Whole { .. } => {
                    let opened = source::stored(entry, &mut source::no_progress);
                    opened.and_then(|opened| opened.package(&mut source::no_progress)).map_err(sentence)
                }
                EntryState::Broken(why) => Err(why.clone()),
            },
            HeaderLocation::BuiltIn(entry, quant) => {
                entry.model(*quant).map(Package::from).map_err(|error| error.to_string())
            }
            HeaderLocation::Reference { asks_servers } => {
                let roots = if *asks_servers { roots.clone() } else { roots.clone().offline() };
                let opened = source::load(&self.reference, &roots, &mut source::no_progress);
                opened.and_then(|opened| opened.package(&mut source::no_progress)).map_err(sentence)
            }
            HeaderLocation::Fixed(known) => Err(known.as_ref().err().cloned().unwrap_or_default()),
        }
    }
}

/// What is known without asking a server: what was opened lately, what lies in the stores, and the catalogue, in this
/// order. The catalogue comes as `quant`, or each model as it is mostly run.
pub fn local_models(roots: &Roots, quant: Option<FileType>) -> Vec<Item> {
    let stored: Vec<Item> = store::list(roots).into_iter().map(Item::stored).collect();
    let built_in: Vec<Item> = catalogue::all().iter().map(|entry| Item::built_in(entry, quant)).collect();
    let recent = roots.recent.as_deref().map(|file| Recent::new(file).list()).unwrap_or_default();
    let listed = |reference: &str| stored.iter().chain(&built_in).any(|item| item.reference == reference);
    let recent: Vec<Item> = recent.into_iter().filter(|reference| !listed(reference)).map(Item::recent).collect();
    recent.into_iter().chain(stored).chain(built_in).collect()
}

/// The models of the running Ollama that are not among `known`; none where none runs.
///
/// # Errors
/// Why one that a person named does not tell its models.
#[cfg(feature = "net")]
pub fn running(roots: &Roots, known: &[String], watch: &mut source::ProgressCallback<'_>) -> Result<Vec<Item>, String> {
    let Some(network) = &roots.network else { return Ok(Vec::new()) };
    match source::running::list_models(network, watch) {
        Ok(tags) => {
            let tags = tags.into_iter().map(|tag| tag.name).filter(|name| !known.contains(name));
            Ok(tags.map(Item::running).collect())
        }
        Err(error) if network.ollama_is_named => Err(error.to_string()),
        // none runs, or something else listens where an Ollama usually does
        Err(_) => Ok(Vec::new()),
    }
}

/// None: this program was built without asking servers.
///
/// # Errors
/// Never.
#[cfg(not(feature = "net"))]
pub fn running(_: &Roots, _: &[String], _: &mut source::ProgressCallback<'_>) -> Result<Vec<Item>, String> {
    Ok(Vec::new())
}
