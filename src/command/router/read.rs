//! What a file says of the router that starts its servers.

use super::{Group, MODELS_MAX, Matrix, Router};
use crate::command::Start;
use crate::command::file::{Kind, Tree, documents};

/// The router of `text`, which starts `all`: llama-server's for presets, llama-swap for its configuration.
///
/// # Errors
/// One sentence if it names what it has not, as llama-swap refuses that too.
pub fn router(text: &str, all: &[Start]) -> Result<Router, String> {
    let text = text.replace("\r\n", "\n");
    match Kind::of(&text) {
        Some(Kind::Presets) => Ok(Router::LlamaServer(MODELS_MAX)),
        Some(Kind::Yaml) => {
            let documents = documents(&text)?;
            documents.iter().find(|tree| is_llama_swap(tree)).map_or(Ok(Router::None), |tree| llama_swap(tree, all))
        }
        Some(Kind::Unit) | None => Ok(Router::None),
    }
}

fn is_llama_swap(tree: &Tree) -> bool {
    let Some(Tree::Map(models)) = tree.get("models") else { return false };
    models.iter().any(|(_, model)| model.get("cmd").is_some())
}

/// Groups and matrix stand in `routing`, or by themselves as they did before (`internal/config/load.go`, August 2026).
fn llama_swap(tree: &Tree, all: &[Start]) -> Result<Router, String> {
    let number = |name: &str| all.iter().position(|start| start.name == name);
    let router = tree.get("routing").and_then(|routing| routing.get("router"));
    let settings = router.and_then(|router| router.get("settings"));
    let uses_matrix = router.and_then(|router| router.get("use")).and_then(Tree::text) == Some("matrix");
    let matrix = match settings {
        Some(settings) if uses_matrix => settings.get("matrix"),
        Some(_) => None,
        None => tree.get("matrix"),
    };
    if let Some(matrix) = matrix {
        return read_matrix(matrix, &number).map(Router::Matrix);
    }
    let Some(Tree::Map(groups)) = settings.unwrap_or(tree).get("groups") else {
        return Ok(Router::one_at_a_time(all.len()));
    };
    let group = |(name, tree): &(String, Tree)| {
        let usual = Group::default();
        let is = |key: &str, usual: bool| tree.get(key).and_then(Tree::text).map_or(usual, |text| text == "true");
        let members = match tree.get("members") {
            Some(Tree::List(members)) => members.iter().filter_map(Tree::text).filter_map(number).collect(),
            _ => Vec::new(),
        };
        Group {
            name: name.clone(),
            members,
            swap: is("swap", usual.swap),
            exclusive: is("exclusive", usual.exclusive),
            persistent: is("persistent", usual.persistent),
        }
    };
    Ok(Router::Groups(groups.iter().map(group).collect()))
}

fn read_matrix(tree: &Tree, number: &dyn Fn(&str) -> Option<usize>) -> Result<Matrix, String> {
    let texts = |key: &str| match tree.get(key) {
        Some(Tree::Map(entries)) => {
            entries.iter().filter_map(|(name, value)| Some((name.clone(), value.text()?.to_owned()))).collect()
        }
        _ => Vec::new(),
    };
    let aliases: Vec<(String, String)> = texts("vars");
    // a name of its own stands over a model's
    let model = |name: &str| match aliases.iter().find(|(alias, _)| alias == name) {
        Some((_, model)) => number(model),
        None => number(name),
    };
    let mut matrix = Matrix::read(&texts("sets"), &model)?;
    for (name, cost) in texts("evict_costs") {
        let Some(model) = model(&name) else { continue };
        let cost = cost.parse().map_err(|_| format!("evict_costs of the matrix: '{cost}' is no whole number"))?;
        matrix.cost(model, cost);
    }
    Ok(matrix)
}
