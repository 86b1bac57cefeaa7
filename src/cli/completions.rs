//! Completion scripts: clap's, and behind them what only the program knows: models, saved machines, cards.
//!
//! In bash, zsh and fish the script asks `plimsoll complete-values KIND PREFIX`, which is hidden and asks no server.

use std::io::{self, Write as _};

use clap_complete::Shell;

use super::error::{CliError, written};
use super::manual;
use super::value::Completed;
use crate::hardware::remembered::{SavedMachines, THIS_MACHINE};
use crate::library;
use crate::machine::presets;
use crate::source::Roots;

impl Completed {
    /// The options that take such a value; models are named without one, too.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Model => &["model"],
            Self::Machine => &["machine", "join"],
            Self::Card => &["gpu", "presets"],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Machine => "machine",
            Self::Card => "card",
        }
    }
}

/// The values that begin with `prefix`, one a line; of what cannot be read there are none. Names come with downloads: one
/// that means something to a shell is typed by hand, or not at all.
pub(super) fn values(kind: Completed, prefix: &str) -> String {
    let all: Vec<String> = match kind {
        Completed::Model => {
            let models = library::local_models(&Roots::of_this_machine().offline(), None);
            models.into_iter().map(|model| model.reference).collect()
        }
        Completed::Machine => {
            let saved = SavedMachines::here().and_then(|saved| saved.list()).unwrap_or_default();
            saved.into_iter().map(|(name, _)| name).chain([THIS_MACHINE.to_owned()]).collect()
        }
        Completed::Card => presets::all().iter().map(|preset| preset.name.to_owned()).collect(),
    };
    let begins = |value: &str| value.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let fits = all.iter().map(String::as_str).filter(|value| begins(value) && value.chars().all(is_harmless));
    fits.flat_map(|value| [value, "\n"]).collect()
}

/// Whether a character is only itself to every shell, at least behind a backslash or in quotes.
fn is_harmless(c: char) -> bool {
    c.is_alphanumeric() || "-_./:@+=,% ".contains(c) || cfg!(windows) && c == '\\'
}

/// Prints the script for `shell`.
pub(super) fn print(shell: Shell) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut manual::command(), "plimsoll", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match shell {
        // files are left to bash itself, which quotes their names
        Shell::Bash => {
            let script = script.replace("COMPREPLY=($(compgen -f \"${cur}\"))", "COMPREPLY=()");
            script.replace("complete -F _plimsoll ", "complete -F _plimsoll_known ") + &bash()
        }
        Shell::Zsh => zsh(&script),
        Shell::Fish => script.into_owned() + &fish(),
        _ => script.into_owned(),
    };
    written(io::stdout().lock().write_all(script.as_bytes()))
}

/// The commands that name a model without an option.
fn with_model() -> Vec<String> {
    let all = manual::command();
    let has_model = |command: &&clap::Command| {
        command.get_positionals().any(|argument| ["model", "models"].contains(&argument.get_id().as_str()))
    };
    all.get_subcommands().filter(has_model).map(|command| command.get_name().to_owned()).collect()
}

/// bash takes a word with `:` or `@` for several, of which it replaces the last. What it completes is a word as it is typed:
/// with backslashes where a shell needs them, or as it is within quotes that are open.
fn bash() -> String {
    let options =
        |kind: Completed| kind.options().iter().map(|option| format!("--{option}")).collect::<Vec<_>>().join("|");
    format!(
        r#"
_plimsoll_known() {{
    local kind="" line="${{COMP_LINE:0:COMP_POINT}}" typed="" quoted="" value
    local open='[[:space:]]["'"'"']([^"'"'"']*)$' word='(([^[:space:]\\]|\\.)*)$'
    if [[ $line =~ $open ]]; then
        typed="${{BASH_REMATCH[1]}}" quoted=1
    elif [[ $line =~ $word ]]; then
        typed="${{BASH_REMATCH[1]//\\/}}"
    fi
    _plimsoll "$@"
    case "$3" in
        {model}) kind=model ;;
        {machine}) kind=machine ;;
        {card}) kind=card ;;
        -*) ;;
        *) case " plimsoll {commands} " in
            *" ${{COMP_WORDS[1]}} "*) [[ $COMP_CWORD -gt 1 ]] && kind=model ;;
            *) [[ $COMP_CWORD -eq 1 || $typed == *[:@]* ]] && kind=model ;;
        esac ;;
    esac
    [[ -z $kind || $typed == -* ]] && return
    local cut="${{typed%"${{typed##*[:@]}}"}}"
    [[ -z $quoted ]] || cut=""
    while IFS= read -r value; do
        value="${{value:${{#cut}}}}"
        [[ -n $quoted ]] || printf -v value %q "$value"
        COMPREPLY+=("$value")
    done < <(plimsoll complete-values "$kind" "$typed" 2>/dev/null)
}}
"#,
        model = options(Completed::Model),
        machine = options(Completed::Machine),
        card = options(Completed::Card),
        commands = with_model().join(" "),
    )
}

/// zsh is told with each option and argument what completes it. A command stands in the place of a model: both are of the
/// first word, which would else be taken for a model.
fn zsh(script: &str) -> String {
    let known = r#"
_plimsoll_known() {
    local -a known
    known=("${(@f)$(plimsoll complete-values $1 "${(Q)PREFIX}" 2>/dev/null)}")
    [[ -z $known ]] || compadd -a known
}
_plimsoll_model() { _plimsoll_known model; _files }
_plimsoll_machine() { _plimsoll_known machine; _files }
_plimsoll_card() { _plimsoll_known card }
_plimsoll_first() { _plimsoll_commands; _plimsoll_model }
"#;
    let mut lines: Vec<String> = Vec::new();
    for line in script.lines() {
        let is_first = line.starts_with("\":: :_plimsoll_commands\"");
        if is_first {
            lines.pop_if(|last| last.starts_with("'::model -- "));
        }
        let is_of = |kind: &Completed| kind.options().iter().any(|option| line.contains(&format!("--{option}=[")));
        let kind = [Completed::Machine, Completed::Card, Completed::Model].into_iter().find(is_of);
        let names_model = [":model -- ", ":models -- "].iter().any(|argument| line.contains(argument));
        let kind = kind.or(Some(Completed::Model).filter(|_| names_model)).map(Completed::name);
        let action = [":_files'", ":_default'"].into_iter().find(|action| line.contains(action));
        lines.push(match (kind, action) {
            (Some(kind), Some(action)) => line.replace(action, &format!(":_plimsoll_{kind}'")),
            _ if is_first => line.replace("_plimsoll_commands", "_plimsoll_first"),
            _ => line.replace("$line[2]", "$line[1]"),
        });
    }
    // behind the line that tells zsh what the file completes
    lines.insert(1, known.to_owned());
    lines.join("\n") + "\n"
}

/// fish adds what these lines say to the rest.
fn fish() -> String {
    let known = |kind: Completed| format!("-a \"(plimsoll complete-values {})\"", kind.name());
    let mut lines: Vec<String> = Vec::new();
    for kind in [Completed::Model, Completed::Machine, Completed::Card] {
        lines
            .extend(kind.options().iter().map(|option| format!("complete -c plimsoll -l {option} -r {}", known(kind))));
    }
    for condition in
        ["__fish_use_subcommand".to_owned(), format!("__fish_seen_subcommand_from {}", with_model().join(" "))]
    {
        lines.push(format!("complete -c plimsoll -n \"{condition}\" {}", known(Completed::Model)));
    }
    lines.join("\n") + "\n"
}
