//! Loads NVML and explains failures.

use std::ffi::OsStr;
use std::path::Path;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

/// Names of the library: in the loader's search path, then WSL's folder.
#[cfg(not(windows))]
const PLACES: [&str; 3] = ["libnvidia-ml.so.1", "libnvidia-ml.so", "/usr/lib/wsl/lib/libnvidia-ml.so.1"];
#[cfg(windows)]
const PLACES: [&str; 2] = ["nvml.dll", "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll"];

/// What keeps a static binary from NVIDIA's library: musl's loader is not in it (musl's own `dlopen` fails there).
const STATIC: &str = "this static build cannot load NVIDIA's driver library, so NVIDIA GPUs are not detected: describe \
                      them with --gpu, or use a build for glibc";

/// Loads `path`, or the first library of [`PLACES`] that works. Also returns its name.
pub(super) fn load(path: Option<&Path>) -> Result<(Nvml, String), String> {
    if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        return Err(STATIC.to_owned());
    }
    let places: Vec<&OsStr> = match path {
        Some(path) => vec![path.as_os_str()],
        None => PLACES.iter().map(|place| OsStr::new(*place)).collect(),
    };
    let mut reasons = Vec::new();
    for place in places {
        let name = place.to_string_lossy().into_owned();
        match Nvml::builder().lib_path(place).init() {
            Ok(nvml) => return Ok((nvml, name)),
            // the library exists: other names would load the same one
            Err(error) if !matches!(error, NvmlError::LibloadingError(_)) => {
                return Err(format!("{name}: {}", driver_error(&error)));
            }
            Err(error) => reasons.push(format!("{name}: {}", loader_error(&error, &name))),
        }
    }
    Err(format!("no NVIDIA driver library ({})", reasons.join("; ")))
}

/// The driver's error, with advice for the two common ones.
fn driver_error(error: &NvmlError) -> String {
    match error {
        NvmlError::DriverNotLoaded => "the NVIDIA driver is not loaded: load it, or restart the computer".to_owned(),
        NvmlError::LibRmVersionMismatch => {
            "this library and the loaded driver have different versions: restart the computer after an update"
                .to_owned()
        }
        other => other.to_string(),
    }
}

/// The loader's error without its prefix and the library's name, which the message already has.
fn loader_error(error: &NvmlError, name: &str) -> String {
    let text = error.to_string();
    let reason = text.strip_prefix("a libloading error occurred: ").unwrap_or(&text);
    let reason = reason.strip_prefix(name).map_or(reason, |rest| rest.trim_start_matches([':', ' ']));
    if reason.contains("No such file") {
        return "not found".to_owned();
    }
    reason.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_library_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libnvidia-ml.so.1");
        std::fs::write(&path, b"not a library").unwrap();
        let reason = load(Some(&path)).map(|_| ()).unwrap_err();
        assert!(reason.contains("libnvidia-ml.so.1") && !reason.contains('\n'), "{reason}");
    }
}
