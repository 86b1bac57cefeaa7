//! The models of a repository on Hugging Face: one by its header, the others by their names and sizes.

use std::sync::Arc;

use super::{HeaderLocation, Item, ModelOrigin, packaged};
use crate::model::mixture::Beside;
use crate::source::{self, Listed, Package, ProgressCallback, Repository, RepositoryFile, Roots, SourceError};
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
    pub file: RepositoryFile,
}

impl PartialEq for RepositoryRow {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file
    }
}

impl RepositoryRow {
    /// The model.
    pub fn package(&self) -> Result<Package, String> {
        let RepositoryFile { repository, label, bytes, is_opened, problem, .. } = &self.file;
        if let Some(problem) = problem {
            return Err(problem.clone());
        }
        let opened = self.opened.as_ref().as_ref().map_err(Clone::clone)?;
        if *is_opened {
            return Ok(opened.clone());
        }
        let file = Beside { repository, label, bytes: *bytes };
        let model = opened.model.beside(&file).map_err(|error| error.to_string())?;
        Ok(Package { model: model.into(), reference: Some(self.file.reference.clone()), ..opened.clone() })
    }
}

/// Lists a repository by its address or name: `hf://owner/name`.
///
/// # Errors
/// As [`source::repository`].
pub fn repository(
    reference: &str,
    roots: &Roots,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<RepositoryList, SourceError> {
    match source::repository(reference, roots, on_progress)? {
        Listed::Repository(found) => Ok(of_server(*found)),
        Listed::Local(wanted, entries, error) => {
            let items = entries.into_iter().map(|entry| Arc::new(Item::stored(entry))).collect();
            // stores have names of their own for it
            let search = wanted.repository.rsplit('/').next().unwrap_or_default().to_owned();
            Ok(RepositoryList { items, search, notes: vec![format!("listed is what is on this machine: {error}")] })
        }
    }
}

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
        let row = RepositoryRow { opened: Arc::clone(&opened), file };
        Arc::new(Item::new(name, reference, ModelOrigin::Repository, HeaderLocation::InRepository(row)))
    };
    RepositoryList { items: files.into_iter().map(row).collect(), search: name, notes }
}
