//! Containers that run a plan: compose and Kubernetes, with what RAM they are given as a sum.
//! Formats: the Compose specification (`deploy`), and Kubernetes' `apps/v1`.

use std::path::Path;

use super::{ExportInput, comment, llama_server, ollama};
use crate::answer::ram::RamUse;
use crate::machine::Backend;
use crate::settings::LlamaProgram;
use crate::settings::written::NO_LIMIT;
use crate::text::in_quotes;
use crate::units::Bytes;

/// What a server takes of RAM besides buffers and weights: its code, the driver's libraries, the vocabulary. Assumed.
const PROGRAM: Bytes = Bytes::gib(1);

/// A container.
struct Container {
    /// Its name: lower-case letters, digits and dashes.
    name: &'static str,
    image: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    port: u16,
    /// Folders that it reads, under the same paths.
    folders: Vec<String>,
    /// What no file sets, and how the memory is added up, as comments.
    comments: String,
    /// RAM that it needs.
    needs: Bytes,
    /// RAM that it may grow to; none without a limit.
    most: Option<Bytes>,
    /// The vendor of its GPUs, and how many it has.
    gpus: Option<(Vendor, usize)>,
    /// It locks weights in RAM.
    locks: bool,
}

/// Who makes GPUs, as far as containers ask.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vendor {
    Nvidia,
    Amd,
    /// Devices of the kernel's graphics drivers.
    Other,
}

impl Vendor {
    const fn of(backend: Backend) -> Self {
        match backend {
            Backend::Cuda => Self::Nvidia,
            Backend::Rocm => Self::Amd,
            _ => Self::Other,
        }
    }
}

/// As a service of compose.
///
/// # Errors
/// One sentence, if the plan is of a program that serves nothing, or llama-server refuses it.
pub fn compose(input: &ExportInput<'_>) -> Result<String, String> {
    let container = Container::of(input)?;
    let mut text = container.comments.clone();
    text += &format!("services:\n  {}:\n    image: {}\n", container.name, in_quotes(&container.image));
    // a dollar sign of its own is written twice
    let own = |text: &String| text.replace('$', "$$");
    list(&mut text, "    command:", container.arguments.iter().map(own).collect::<Vec<_>>().iter());
    if !container.variables.is_empty() {
        text += "    environment:\n";
        for (name, value) in &container.variables {
            text += &format!("      {name}: {}\n", in_quotes(&own(value)));
        }
    }
    text += &format!("    ports:\n      - \"{0}:{0}\"\n", container.port);
    if !container.folders.is_empty() {
        text += "    volumes:\n";
    }
    // the long form, since the short one ends a path at a colon
    for folder in &container.folders {
        let folder = in_quotes(&own(folder));
        text += &format!(
            "      - type: bind\n        source: {folder}\n        target: {folder}\n        read_only: true\n"
        );
    }
    if container.locks {
        text += "    ulimits:\n      memlock: -1\n";
    }
    match container.gpus {
        Some((Vendor::Amd, _)) => list(&mut text, "    devices:", ["/dev/kfd", "/dev/dri"].map(str::to_owned).iter()),
        Some((Vendor::Other, _)) => list(&mut text, "    devices:", ["/dev/dri".to_owned()].iter()),
        Some((Vendor::Nvidia, _)) | None => {}
    }
    let mib = |bytes: Bytes| format!("{}M", mib(bytes));
    text +=
        &format!("    deploy:\n      resources:\n        reservations:\n          memory: {}\n", mib(container.needs));
    if let Some((Vendor::Nvidia, count)) = container.gpus {
        text += &format!(
            "          devices:\n            - driver: nvidia\n              count: {count}\n              \
             capabilities: [gpu]\n"
        );
    }
    if let Some(most) = container.most {
        text += &format!("        limits:\n          memory: {}\n", mib(most));
    }
    Ok(text)
}

/// As a deployment of Kubernetes.
///
/// # Errors
/// As [`compose`].
pub fn kubernetes(input: &ExportInput<'_>) -> Result<String, String> {
    let Container { name, image, arguments, variables, port, folders, comments, needs, most, gpus, .. } =
        Container::of(input)?;
    if let Some(folder) = folders.iter().find(|folder| folder.contains(':')) {
        return Err(format!("Kubernetes mounts nothing at a path with a colon: move the model out of '{folder}'"));
    }
    // two dollar signs are one, and one may begin a variable (`third_party/forked/golang/expansion`)
    let own = |text: &String| text.replace('$', "$$");
    let mut text = comments;
    if gpus.is_some_and(|(vendor, _)| vendor == Vendor::Other) {
        text += &comment("the GPUs: no resource of Kubernetes is known here for them; name that of your device plugin");
    }
    text += &format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  replicas: 1\n  selector:\n    \
         matchLabels:\n      app: {name}\n  template:\n    metadata:\n      labels:\n        app: {name}\n    spec:\n      \
         containers:\n        - name: {name}\n          image: {}\n",
        in_quotes(&image)
    );
    list(&mut text, "          args:", arguments.iter().map(own).collect::<Vec<_>>().iter());
    if !variables.is_empty() {
        text += "          env:\n";
        for (name, value) in &variables {
            text += &format!("            - name: {name}\n              value: {}\n", in_quotes(&own(value)));
        }
    }
    text += &format!("          ports:\n            - containerPort: {port}\n");
    text += &format!("          resources:\n            requests:\n              memory: {}Mi\n", mib(needs));
    let card = match gpus {
        Some((Vendor::Nvidia, count)) => Some(("nvidia.com/gpu", count)),
        Some((Vendor::Amd, count)) => Some(("amd.com/gpu", count)),
        Some((Vendor::Other, _)) | None => None,
    };
    if most.is_some() || card.is_some() {
        text += "            limits:\n";
    }
    if let Some(most) = most {
        text += &format!("              memory: {}Mi\n", mib(most));
    }
    if let Some((resource, count)) = card {
        text += &format!("              {resource}: {count}\n");
    }
    if !folders.is_empty() {
        text += "          volumeMounts:\n";
        for (at, folder) in folders.iter().enumerate() {
            text += &format!(
                "            - name: folder{at}\n              mountPath: {}\n              readOnly: true\n",
                in_quotes(folder)
            );
        }
        text += "      volumes:\n";
        for (at, folder) in folders.iter().enumerate() {
            text +=
                &format!("        - name: folder{at}\n          hostPath:\n            path: {}\n", in_quotes(folder));
        }
    }
    Ok(text)
}

impl Container {
    fn of(input: &ExportInput<'_>) -> Result<Self, String> {
        let engine = input.plan.engine;
        let gpus: Vec<_> = input.request.machine.gpus.iter().filter(|gpu| gpu.computer.is_none()).collect();
        let backend = gpus.first().map(|gpu| gpu.backend);
        let gpus =
            backend.map(|backend| (Vendor::of(backend), gpus.iter().filter(|gpu| gpu.backend == backend).count()));
        let sum = Sum::of(input);
        let mut container =
            if engine.facts().is_ollama { of_ollama(input, backend) } else { of_llama_server(input, backend)? };
        container.comments += &sum.comments();
        if gpus.is_some() {
            let driver = match gpus {
                Some((Vendor::Nvidia, _)) => "what NVIDIA's driver keeps on the cards",
                _ => "memory of GPUs, also where they share RAM,",
            };
            container.comments += &comment(&format!("{driver} is not part of these figures"));
        }
        Ok(Self { needs: sum.needs(), most: sum.most(), gpus, locks: sum.ram.load_mode.locks(), ..container })
    }
}

/// What a container is given of RAM.
struct Sum {
    ram: RamUse,
    cache: Bytes,
}

impl Sum {
    fn of(input: &ExportInput<'_>) -> Self {
        let ram = RamUse::of(input.request, input.plan);
        Self { ram, cache: ram.prompt_cache.unwrap_or_default() }
    }

    fn needs(&self) -> Bytes {
        self.ram.needed() + PROGRAM
    }

    fn most(&self) -> Option<Bytes> {
        (self.cache != NO_LIMIT).then(|| self.ram.at_most() + PROGRAM)
    }

    /// The sums, a term each.
    fn comments(&self) -> String {
        let Self { ram, cache } = self;
        let mut lines = comment("RAM, in MiB, rounded up:");
        let mut term = |sign: &str, bytes: Bytes, what: &str| {
            if bytes > Bytes::ZERO {
                lines += &comment(&format!("{sign} {:>8}  {what}", mib(bytes)));
            }
        };
        term(" ", ram.must, "must stay: caches, compute buffers, weights that are not mapped");
        term("+", ram.warm, "mapped weights that every token reads");
        term("+", ram.idle_experts, "mapped experts that the next token may need");
        term("+", PROGRAM, "the program and its libraries, assumed");
        term("=", self.needs(), "is reserved");
        if *cache == NO_LIMIT {
            return lines + &comment("no limit is set: the prompt cache has none; --cache-ram sets one");
        }
        term("+", *cache, "the prompt cache at most (--cache-ram)");
        term("+", ram.checkpoints, "checkpoints at most (--ctx-checkpoints)");
        term("=", ram.at_most() + PROGRAM, "is the limit");
        lines
    }
}

fn of_llama_server(input: &ExportInput<'_>, backend: Option<Backend>) -> Result<Container, String> {
    let program = input.request.settings.program;
    if program != LlamaProgram::Server {
        return Err(format!("{program} serves nothing: leave --program out"));
    }
    let (comments, words) = llama_server::command_words(input)?;
    let mut comments = comments;
    let mut folders: Vec<String> = Vec::new();
    let is_file =
        |word: &&String| Path::new(word).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
    for word in words.iter().filter(is_file) {
        match Path::new(word).parent().and_then(Path::to_str).filter(|folder| folder.starts_with('/')) {
            Some(folder) if !folders.iter().any(|known| known == folder) => folders.push(folder.to_owned()),
            Some(_) => {}
            None => comments += &comment(&format!("replace {word} with its whole path, and mount its folder")),
        }
    }
    // tags of the project's own images (`.github/workflows/docker.yml`, llama.cpp)
    let tag = match backend {
        Some(Backend::Cuda) => "server-cuda",
        Some(Backend::Rocm) => "server-rocm",
        Some(Backend::Vulkan) => "server-vulkan",
        Some(Backend::Sycl) => "server-intel",
        Some(Backend::Metal | Backend::Plain) | None => "server",
    };
    if backend == Some(Backend::Metal) {
        comments += &comment("containers on a Mac have no GPU: this one runs on the CPU, other than planned");
    }
    Ok(Container {
        name: "llama-server",
        image: format!("ghcr.io/ggml-org/llama.cpp:{tag}"),
        arguments: words.into_iter().skip(1).collect(),
        variables: Vec::new(),
        port: 8080,
        folders,
        comments,
        needs: Bytes::ZERO,
        most: None,
        gpus: None,
        locks: false,
    })
}

fn of_ollama(input: &ExportInput<'_>, backend: Option<Backend>) -> Container {
    let tag = if backend == Some(Backend::Rocm) { "rocm" } else { "latest" };
    let variables = ollama::variables(input).into_iter().map(|one| (one.name.to_owned(), one.value));
    Container {
        name: "ollama",
        image: format!("ollama/ollama:{tag}"),
        arguments: Vec::new(),
        variables: variables.collect(),
        port: 11_434,
        folders: Vec::new(),
        comments: ollama::comments(input) + &comment("mount /root/.ollama to keep models"),
        needs: Bytes::ZERO,
        most: None,
        gpus: None,
        locks: false,
    }
}

/// Whole MiB, rounded up.
const fn mib(bytes: Bytes) -> u64 {
    bytes.0.div_ceil(Bytes::mib(1).0)
}

/// Adds a list of texts, if there are any.
fn list<'a>(text: &mut String, key: &str, items: impl ExactSizeIterator<Item = &'a String>) {
    if items.len() == 0 {
        return;
    }
    let indent = " ".repeat(key.len() - key.trim_start().len() + 2);
    *text += &format!("{key}\n");
    for item in items {
        *text += &format!("{indent}- {}\n", in_quotes(item));
    }
}
