//! Effects on the local computer: files, folders, stores.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::effect::{ApplyPreview, CheckRequest, Followed, LogSource, Services};
use crate::engine::EngineId;
use crate::files;
use crate::hardware::remembered::{SavedMachine, SavedMachines};
use crate::hardware::{DetectOptions, processes, watch};
use crate::library::check::{self, Checked, example};
use crate::library::{self, Item, ModelStatus, RepositoryList, SurveyRequest};
use crate::machine::Machine;
use crate::observed::{Load, Observation};
use crate::running::apply::{self, Failure, Prepared, Report, Target};
use crate::running::follow::Follower;
use crate::running::plans::Plans;
use crate::running::server::ServerChild;
use crate::source::roots::{self, Recent};
use crate::source::{self, Package, ProgressCallback, Roots};

/// Maximum number of completions.
const MAX_PATHS: usize = 200;

/// The local computer.
#[derive(Default)]
pub struct LocalServices {
    /// The server that was started here, and whether it is kept.
    server: Mutex<Option<ServerChild>>,
}

impl LocalServices {
    /// The server that was started. A panic while it was held leaves it as it is.
    fn server(&self) -> MutexGuard<'_, Option<ServerChild>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Services for LocalServices {
    fn load(&self, reference: &str, watch: &mut ProgressCallback<'_>) -> Result<Package, String> {
        let opened = source::load(reference, &Roots::of_this_machine(), watch);
        opened.and_then(|opened| opened.package(watch)).map_err(|error| error.to_string())
    }

    fn namesake(&self, reference: &str) -> Option<Package> {
        check::namesake(reference, &Roots::of_this_machine())
    }

    fn check(&self, request: &CheckRequest) -> Result<Checked, String> {
        let seen = match &request.log {
            LogSource::Text(text) => Observation::of(text),
            LogSource::File(path) if example(path).is_some() => Observation::of(example(path).unwrap_or_default()),
            LogSource::File(path) => {
                let path = expand_home(Path::new(path));
                let seen = Observation::read(&mut files::log(&path)?);
                seen.map_err(|why| files::cannot_read(&path, &why.to_string()))?
            }
            LogSource::Running => {
                let outputs = processes::outputs(&processes::servers()).into_iter();
                let mut read = outputs.filter_map(|mut output| Observation::read(&mut output.text).ok());
                let seen = read.find(|seen| seen.load().is_some_and(Load::has_memory));
                seen.ok_or("no output of Ollama or llama-server with a load in it is readable here: paste its log")?
            }
        };
        check::check(&seen, &Roots::of_this_machine(), request.open.as_ref())
    }

    fn prepare(&self, target: &Target) -> Result<ApplyPreview, String> {
        let Prepared { what, unloads, mut notes, .. } = apply::prepare(target.clone(), Roots::of_this_machine())?;
        if self.server().is_some() {
            notes.push("the server that was started before is ended first".to_owned());
        }
        Ok(ApplyPreview { what, unloads, notes })
    }

    fn apply(&self, target: &Target, report: &mut Report<'_>) -> Result<Checked, Failure> {
        // it would hold the memory that this one needs
        drop(self.server().take());
        let prepared = apply::prepare(target.clone(), Roots::of_this_machine());
        let prepared = prepared.map_err(|sentence| Failure { sentence, advice: Vec::new() })?;
        let mut applied = prepared.run(report)?;
        let also = applied.also();
        let server = applied.server.take().map(|server| {
            let about = format!(
                "llama-server (process {}) runs at {}, its log is in {}",
                server.pid,
                server.address,
                server.log.display()
            );
            *self.server() = Some(server);
            about
        });
        let program = if server.is_some() { "llama-server" } else { "Ollama" };
        let about = format!(
            "{}, loaded by {program}, beside its plan for {}",
            target.plan.model.name,
            target.plan.engine_title()
        );
        Ok(Checked { load: (1, 1), about, check: applied.check, also, server })
    }

    fn leave_server(&self, keep: bool) {
        if let Some(server) = self.server().take()
            && keep
        {
            server.keep();
        }
    }

    fn follow(&self, tell: &mut dyn FnMut(Followed) -> bool) {
        let (_, mut follower) = Follower::start(&DetectOptions::here(), Roots::of_this_machine());
        let mut plans: Plans = Plans::default();
        loop {
            let since = Instant::now();
            let (sample, machine) = follower.sample();
            let found = plans.of(&sample, Some(&machine), follower.roots());
            if !tell(Followed { sample, plans: found }) {
                return;
            }
            thread::sleep(watch::DEFAULT_INTERVAL.saturating_sub(since.elapsed()));
        }
    }

    fn add_recent(&self, reference: &str) -> Result<(), String> {
        let Some(file) = Roots::of_this_machine().recent else { return Ok(()) };
        let reference = roots::reference(reference);
        let kept = Recent::new(&file).add(&reference);
        kept.map_err(|why| format!("'{reference}' could not be added to the recent models: {why}"))
    }

    fn list_models(&self) -> Vec<Item> {
        library::local_models(&Roots::of_this_machine(), None)
    }

    fn running(&self, known: &[String]) -> Result<Vec<Item>, String> {
        library::running(&Roots::of_this_machine(), known, &mut source::no_progress)
    }

    fn repository(&self, reference: &str) -> Result<RepositoryList, String> {
        let listed = library::repository(
            reference,
            &Roots::of_this_machine(),
            (EngineId::default(), None),
            &mut source::no_progress,
        );
        listed.map_err(|error| error.to_string())
    }

    fn survey(
        &self,
        items: &[Arc<Item>],
        question: &SurveyRequest,
        tell: &(dyn Fn(usize, ModelStatus) -> bool + Sync),
    ) {
        library::survey(items, question, &Roots::of_this_machine(), tell);
    }

    fn machines(&self) -> Result<Vec<SavedMachine>, String> {
        SavedMachines::here()?.list()
    }

    fn save_machine(&self, name: &str, machine: &Machine) -> Result<String, String> {
        let path = SavedMachines::here()?.save(name, machine, false)?;
        Ok(format!("Saved in {}; --machine '{name}' plans for it.", path.display()))
    }

    fn save(&self, path: &str, text: &str) -> Result<PathBuf, String> {
        let place = expand_home(Path::new(path));
        files::write(&place, text, false).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => format!("'{path}' already exists: choose another name."),
            _ => format!("'{path}' cannot be written: {error}."),
        })?;
        // absolute, since the screen does not show the working directory
        Ok(place.canonicalize().unwrap_or(place))
    }

    fn complete(&self, typed: &str) -> Vec<String> {
        let (shown, start) = match typed.rfind(std::path::is_separator) {
            Some(slash) => typed.split_at(slash + 1),
            None => ("", typed),
        };
        let folder = if shown.is_empty() { PathBuf::from(".") } else { expand_home(Path::new(shown)) };
        // an unreadable folder has no completions
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let mut paths: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let hidden = name.starts_with('.') && !start.starts_with('.');
                let folder = entry.path().is_dir();
                let wanted = folder || name.to_lowercase().ends_with(".gguf");
                let slash = if folder { "/" } else { "" };
                (name.starts_with(start) && wanted && !hidden).then(|| format!("{shown}{name}{slash}"))
            })
            .collect();
        paths.sort_unstable();
        paths.truncate(MAX_PATHS);
        paths
    }
}

/// `path` with a leading `~` replaced by the home folder.
fn expand_home(path: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => directories::BaseDirs::new().map_or_else(|| path.to_owned(), |dirs| dirs.home_dir().join(rest)),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_completed_to_folders_and_models() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["llama.gguf", "llama.txt", ".hidden.gguf"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("library")).unwrap();
        let base = format!("{}/", folder.path().display());
        assert_eq!(LocalServices::default().complete(&base), [format!("{base}library/"), format!("{base}llama.gguf")]);
        assert_eq!(LocalServices::default().complete(&format!("{base}ll")), [format!("{base}llama.gguf")]);
        assert!(LocalServices::default().complete("/no such folder/").is_empty());
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.md").display().to_string();
        let saved = LocalServices::default().save(&path, "one\n").unwrap();
        assert_eq!(fs::read_to_string(saved).unwrap(), "one\n");
        assert_eq!(
            LocalServices::default().save(&path, "two\n"),
            Err(format!("'{path}' already exists: choose another name."))
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        let nowhere = LocalServices::default().save(&format!("{path}/below"), "").unwrap_err();
        assert!(nowhere.contains("cannot be written"), "{nowhere}");
    }
}
