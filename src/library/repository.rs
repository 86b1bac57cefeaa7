//! The models of a repository on Hugging Face: one by its header, the others by their names and sizes; and the files that can be
//! made of original weights, in a repository or a folder.

use std::sync::Arc;

use super::{HeaderLocation, Item, ModelOrigin, packaged};
use crate::answer::quality;
use crate::engine::EngineId;
use crate::model::mixture::{Beside, Quantisation};
use crate::model::quantise::Quantiser;
use crate::source::{
    self, Listed, OpenedModel, Package, ProgressCallback, Repository, RepositoryFile, Roots, SourceError,
};
use crate::text::one_line;

/// What is listed of a repository.
#[derive(Clone, Debug)]
pub struct RepositoryList {
    /// Its models, each in one quantisation.
    pub items: Vec<Arc<Item>>,
    /// What finds them among all models.
    pub search: String,
    /// One sentence each, without a full stop.
    pub notes: Vec<String>,
}

/// A row of a repository.
#[derive(Clone, Debug)]
pub(super) struct RepositoryRow {
    /// The model whose header was read.
    opened: Arc<Result<Package, String>>,
    file: RowFile,
}

/// The file of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RowFile {
    /// The repository has it.
    Published(Box<RepositoryFile>),
    /// It can be made of the original weights.
    ToBeMade(Quantisation),
}

impl PartialEq for RepositoryRow {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file
    }
}

impl RepositoryRow {
    /// The model.
    pub fn package(&self) -> Result<Package, String> {
        let opened = || self.opened.as_ref().as_ref().map_err(Clone::clone);
        let file = match &self.file {
            RowFile::Published(file) => file,
            RowFile::ToBeMade(to) => return opened()?.quantised(*to).map_err(|error| error.to_string()),
        };
        let RepositoryFile { repository, label, bytes, is_opened, problem, .. } = &**file;
        if let Some(problem) = problem {
            return Err(problem.clone());
        }
        let opened = opened()?;
        if *is_opened {
            return Ok(opened.clone());
        }
        let beside = Beside { repository, label, bytes: *bytes };
        let model = opened.model.beside(&beside).map_err(|error| error.to_string())?;
        Ok(Package { model: model.into(), reference: Some(file.reference.clone()), ..opened.clone() })
    }

    /// What to type to run it, or to fetch it; none of what is to be made.
    pub fn pull(&self) -> Option<&str> {
        match &self.file {
            RowFile::Published(file) => Some(&file.pull),
            RowFile::ToBeMade(_) => None,
        }
    }

    /// Whether it is to be made of original weights.
    pub const fn is_of_original(&self) -> bool {
        matches!(self.file, RowFile::ToBeMade(_))
    }
}

/// Lists a repository by its address or name, `hf://owner/name`, or a folder of original weights by its path. Of original weights
/// the files that can be made of them for `engine` are listed: in `quant` alone, or in each type that makes a smaller file.
///
/// # Errors
/// As [`source::repository`].
pub fn repository(
    reference: &str,
    roots: &Roots,
    (engine, quant): (EngineId, Option<Quantisation>),
    on_progress: &mut ProgressCallback<'_>,
) -> Result<RepositoryList, SourceError> {
    match source::repository(reference, roots, on_progress)? {
        Listed::Repository(found) if found.files.is_empty() => {
            let Repository { name, opened, .. } = *found;
            let of = |to: Quantisation| {
                let named = if is_as_it_is(engine, to) { name.clone() } else { format!("{name}:{to}") };
                (named.clone(), named)
            };
            Ok(of_original(opened, (engine, quant), (ModelOrigin::Repository, &name), of))
        }
        Listed::Repository(found) => Ok(of_server(*found)),
        Listed::Folder(opened) => {
            let name = opened.name.clone();
            let of = |_| (name.clone(), reference.to_owned());
            Ok(of_original(*opened, (engine, quant), (ModelOrigin::Folder, reference), of))
        }
        Listed::Local(wanted, entries, error) => {
            let items = entries.into_iter().map(|entry| Arc::new(Item::stored(entry))).collect();
            // stores have names of their own for it
            let search = wanted.repository.rsplit('/').next().unwrap_or_default().to_owned();
            Ok(RepositoryList { items, search, notes: vec![format!("listed is what is on this machine: {error}")] })
        }
    }
}

/// The files that can be made of original weights, each with its name and reference; weights of which none can be made are listed
/// as they are.
fn of_original(
    opened: OpenedModel,
    (engine, quant): (EngineId, Option<Quantisation>),
    (origin, search): (ModelOrigin, &str),
    named: impl Fn(Quantisation) -> (String, String),
) -> RepositoryList {
    let package = packaged(Ok(opened));
    if !engine.facts().runs_gguf {
        return in_modes(package, (engine, quant), (origin, search), named);
    }
    let made = package.clone().and_then(|package| package.converted().map_err(|error| error.to_string()));
    let own = made.as_ref().ok().filter(|made| made.model.made_of_original);
    let types: Vec<Quantisation> = match (own, quant) {
        (None, _) => Vec::new(),
        (Some(_), Some(to)) => vec![to],
        (Some(made), None) => {
            let quantiser = Quantiser::of(&made.model);
            let smaller = |to: &Quantisation| quantiser.bytes_in(*to).is_ok_and(|bytes| bytes < made.model.bytes);
            let own = made.model.file_type.and_then(|name| name.parse().ok());
            own.into_iter().chain(quality::ladder().map(Quantisation::from).filter(smaller)).collect()
        }
    };
    let search = search.to_owned();
    if types.is_empty() {
        let shown = made.as_ref().map_or_else(|why| Err(why.clone()), |_| package);
        return RepositoryList {
            items: vec![Arc::new(Item::given(&search, origin, shown))],
            search,
            notes: Vec::new(),
        };
    }
    let notes = own.map(|made| made.model.header.notes.clone()).unwrap_or_default();
    let opened = Arc::new(made);
    let row = |to: Quantisation| to_be_made(&opened, to, named(to), origin);
    RepositoryList { items: types.into_iter().map(row).collect(), search, notes }
}

/// The row of what can be made of original weights, with its name and reference.
fn to_be_made(
    opened: &Arc<Result<Package, String>>,
    to: Quantisation,
    (name, reference): (String, String),
    origin: ModelOrigin,
) -> Arc<Item> {
    let row = RepositoryRow { opened: Arc::clone(opened), file: RowFile::ToBeMade(to) };
    let item = Item::new(name, reference, origin, HeaderLocation::InRepository(row));
    Arc::new(Item { aliases: vec![to.name().to_owned()], ..item })
}

/// Whether weights in this type are the original ones, for an engine that runs those.
fn is_as_it_is(engine: EngineId, to: Quantisation) -> bool {
    !engine.facts().runs_gguf && to.file_type().is_some()
}

/// The modes of MLX in which mlx-lm can make original weights; what is quantised already, and what mlx-lm does not know, as it is.
fn in_modes(
    package: Result<Package, String>,
    (engine, quant): (EngineId, Option<Quantisation>),
    (origin, search): (ModelOrigin, &str),
    named: impl Fn(Quantisation) -> (String, String),
) -> RepositoryList {
    let search = search.to_owned();
    let of_mlx = |package: &Package| {
        let mlx = package.model.mlx.as_ref()?;
        (mlx.architecture.is_ok() && mlx.config.quantization().is_none()).then_some(())
    };
    if package.as_ref().ok().and_then(of_mlx).is_none() {
        let item = Arc::new(Item::given(&search, origin, package));
        return RepositoryList { items: vec![item], search, notes: Vec::new() };
    }
    let opened = Arc::new(package);
    let row = |to: Quantisation| {
        if !is_as_it_is(engine, to) {
            return to_be_made(&opened, to, named(to), origin);
        }
        let (name, reference) = named(to);
        Arc::new(Item { reference, ..Item::given(&name, origin, opened.as_ref().clone()) })
    };
    let types = quant.map_or_else(|| quality::ladder_of(engine), |to| vec![to]);
    RepositoryList { items: types.into_iter().map(row).collect(), search, notes: vec![TO_BE_CONVERTED.to_owned()] }
}

/// The command that makes a mode of original weights.
const TO_BE_CONVERTED: &str = "to be made: mlx_lm.convert --hf-path FOLDER --mlx-path MODEL -q --q-bits BITS";

fn of_server(found: Repository) -> RepositoryList {
    let Repository { name, files, opened } = found;
    let mut notes: Vec<String> = opened.header.notes.clone();
    let own = files.iter().find(|file| file.is_opened);
    if let Some(own) = own.filter(|_| files.len() > 1) {
        notes.push(format!(
            "of these files the header of {} was read; the others are this model by the names and sizes of their files, and \
             'plimsoll plan' reads the header of one",
            one_line(&own.label)
        ));
    }
    let opened = Arc::new(packaged(Ok(opened)));
    let row = |file: RepositoryFile| {
        let (name, reference) = (file.reference.clone(), file.reference.clone());
        let row = RepositoryRow { opened: Arc::clone(&opened), file: RowFile::Published(Box::new(file)) };
        Arc::new(Item::new(name, reference, ModelOrigin::Repository, HeaderLocation::InRepository(row)))
    };
    RepositoryList { items: files.into_iter().map(row).collect(), search: name, notes }
}
