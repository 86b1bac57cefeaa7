//! Words and commands of a shell's text, as far as commands that start servers are written: quotes, comments, lines that
//! go on, variables that are set in the text, and what ends a command.

use std::collections::BTreeMap;

use crate::budget::{Budget, Spend};

/// A word with its variables put in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The text; a variable that is not set stays as it is written.
    pub text: String,
    /// A variable in it that is not set.
    pub unset: Option<String>,
}

/// The variables that a text has set so far.
pub type Variables = BTreeMap<String, String>;

/// The commands in `text`, each as its words. Assignments alone, `export`, `set` and `$env:` set variables.
/// What `budget` has no room for stays as it is written, or is not read.
pub fn commands(text: &str, variables: &mut Variables, budget: &Budget) -> Vec<Vec<Word>> {
    let mut reader = Reader { rest: text, variables, budget };
    let mut commands: Vec<Vec<Word>> = Vec::new();
    let mut on_new_line = false;
    while let Some((words, end)) = reader.command() {
        if budget.take(Spend::Words, words.len() as u64).is_err() {
            break;
        }
        let goes_on = on_new_line && words.first().is_some_and(|word| word.text.starts_with('-'));
        on_new_line = end == End::Line;
        if let Some(last) = commands.last_mut().filter(|_| goes_on) {
            // lines whose marks were lost on a page
            last.extend(words);
        } else if !reader.assigns(&words) && !words.is_empty() {
            commands.push(words);
        }
    }
    commands
}

/// The words of a text that is one command, whatever its lines.
pub fn words(text: &str, variables: &mut Variables, budget: &Budget) -> Vec<Word> {
    commands(&text.replace('\n', " \\\n"), variables, budget).concat()
}

/// What ended a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Line,
    Mark,
}

/// Characters between braces.
const MAX_BRACES: usize = 512;

struct Reader<'t, 'v> {
    rest: &'t str,
    variables: &'v mut Variables,
    /// A variable that has itself in it twice, again and again, has no end.
    budget: &'v Budget,
}

impl Reader<'_, '_> {
    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn eat(&mut self, start: &str) -> bool {
        let after = self.rest.strip_prefix(start);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// The next command; none at the end of the text.
    fn command(&mut self) -> Option<(Vec<Word>, End)> {
        if self.rest.is_empty() {
            return None;
        }
        let (mut words, mut word): (Vec<Word>, Option<Word>) = (Vec::new(), None);
        let mut end = End::Mark;
        let mut redirected = false;
        while let Some(c) = self.take() {
            let goes_on = self.rest.starts_with('\n') || self.rest.starts_with("\r\n") || self.rest.is_empty();
            match c {
                '\\' | '^' | '`' if goes_on => {
                    let _ = self.eat("\r\n") || self.eat("\n");
                    words.extend(word.take().filter(|_| !std::mem::take(&mut redirected)));
                }
                '\\' if self.rest.starts_with(['"', '\'', '\\', ' ', '$', '&', ';', '(', ')', '|']) => {
                    word.get_or_insert_default().text.extend(self.take());
                }
                '\'' => self.quoted('\'', word.get_or_insert_default()),
                '"' => self.quoted('"', word.get_or_insert_default()),
                '$' => self.variable(word.get_or_insert_default()),
                '%' => self.batch_variable(word.get_or_insert_default()),
                '#' if word.is_none() => self.comment(),
                '\n' => {
                    end = End::Line;
                    break;
                }
                ';' | '|' | '&' if word.as_ref().is_none_or(|word| !word.text.contains("://")) => {
                    // a stream of errors that is sent elsewhere
                    if c == '&' && word.is_none() && redirected {
                        word = Some(Word::default());
                        continue;
                    }
                    break;
                }
                // the prompt of Windows' shells
                '>' if word.as_ref().is_some_and(|word| word.text.get(1..3) == Some(":\\")) => {
                    word.get_or_insert_default().text.push(c);
                }
                '>' | '<' => {
                    // the number of a stream belongs to the mark
                    words.extend(word.take().filter(|word| !word.text.chars().all(|c| c.is_ascii_digit())));
                    let _ = self.eat(">") || self.eat("<<") || self.eat("<");
                    redirected = true;
                }
                c if c.is_whitespace() => {
                    if let Some(whole) = word.take()
                        && !std::mem::take(&mut redirected)
                    {
                        words.push(whole);
                    }
                }
                c => word.get_or_insert_default().text.push(c),
            }
        }
        words.extend(word.filter(|_| !redirected));
        Some((words, end))
    }

    /// The value of the variable, unless it is not set or there is no room for it.
    fn value(&mut self, name: &str) -> Option<String> {
        let value = self.variables.get(name)?;
        self.budget.take(Spend::Expansion, value.len() as u64).ok()?;
        Some(value.clone())
    }

    fn comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }

    fn quoted(&mut self, quote: char, word: &mut Word) {
        while let Some(c) = self.take() {
            match c {
                c if c == quote => return,
                '\\' if quote == '"' && self.rest.starts_with(['"', '\\', '$', '`']) => word.text.extend(self.take()),
                '$' if quote == '"' => self.variable(word),
                '%' if quote == '"' => self.batch_variable(word),
                c => word.text.push(c),
            }
        }
    }

    /// What stands behind a per cent sign: a name and another one, as batch files have it.
    fn batch_variable(&mut self, word: &mut Word) {
        let name = self.rest.split_once('%').filter(|(name, _)| assignment(&format!("{name}=")).is_some());
        let Some((name, after)) = name else { return word.text.push('%') };
        if let Some(value) = self.value(name) {
            word.text.push_str(&value);
        } else {
            word.text += &format!("%{name}%");
            word.unset = Some(name.to_owned());
        }
        self.rest = after;
    }

    /// What stands behind a dollar sign: a name, or a name in braces with what holds where it is not set.
    fn variable(&mut self, word: &mut Word) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if let Some(inner) = self.rest.strip_prefix('{') {
            let Some(end) = closing(inner) else { return word.text.push('$') };
            let (inside, after) = (&inner[..end], &inner[end + 1..]);
            let name = inside.strip_prefix("env:").unwrap_or(inside);
            let length = name.find(|c: char| !is_name(c) && c != '-' && c != '.').unwrap_or(name.len());
            // names of macros may have dashes, which also divide a name from its default
            let shorter = name.find([':', '-', '=', '?']).unwrap_or(name.len());
            let known = [&name[..length], &name[..shorter]].into_iter().find_map(|name| self.value(name));
            let otherwise = inside
                .split_once(":-")
                .or_else(|| inside.split_once('-').filter(|_| shorter < length || shorter < name.len()));
            self.rest = after;
            match (known, otherwise) {
                (Some(value), _) => word.text.push_str(&value),
                (None, Some((_, otherwise))) => {
                    let otherwise = otherwise.to_owned();
                    word.text.push_str(&otherwise);
                }
                (None, None) => {
                    word.text += &format!("${{{inside}}}");
                    word.unset = Some(name[..shorter].to_owned());
                }
            }
            return;
        }
        let rest = self.rest.strip_prefix("env:").unwrap_or(self.rest);
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(length);
        let starts_a_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !starts_a_name {
            // a prompt, or part of a pattern
            word.text.push('$');
            return;
        }
        if let Some(value) = self.value(name) {
            word.text.push_str(&value);
        } else {
            word.text += &format!("${name}");
            word.unset = Some(name.to_owned());
        }
        self.rest = after;
    }

    /// Sets variables if the words do nothing else.
    fn assigns(&mut self, words: &[Word]) -> bool {
        let mut words = words;
        if let [first, rest @ ..] = words
            && ["export", "set", "SET", "local", "readonly", "declare", "setx"].contains(&first.text.as_str())
        {
            words = rest;
        }
        // PowerShell: `$env:NAME = "value"`
        if let [name, equals, value] = words
            && equals.text == "="
            && let Some(name) = name.unset.clone()
        {
            self.variables.insert(name, value.text.clone());
            return true;
        }
        let pairs: Option<Vec<(&str, &str)>> = words.iter().map(|word| assignment(&word.text)).collect();
        let Some(pairs) = pairs.filter(|pairs| !pairs.is_empty()) else { return false };
        for (name, value) in pairs {
            self.variables.insert(name.to_owned(), value.to_owned());
        }
        true
    }
}

/// The place of the brace that closes what was opened before.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices().take(MAX_BRACES) {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            '\n' => return None,
            _ => {}
        }
    }
    None
}

/// `NAME=VALUE`
pub fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Allowance;

    fn commands(text: &str, variables: &mut Variables) -> Vec<Vec<Word>> {
        super::commands(text, variables, &Budget::new(Allowance::COMMAND))
    }

    fn of(text: &str) -> Vec<Vec<String>> {
        let commands = commands(text, &mut Variables::new());
        commands.into_iter().map(|words| words.into_iter().map(|word| word.text).collect()).collect()
    }

    fn one(text: &str) -> Vec<String> {
        let mut all = of(text);
        assert_eq!(all.len(), 1, "{text}: {all:?}");
        all.remove(0)
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(one("a 'b c'\td\"e\\\"f\" g\\ h ''"), ["a", "b c", "de\"f", "g h", ""]);
        for mark in ["\\", "^", "`"] {
            assert_eq!(one(&format!("a {mark}\n -b {mark}\r\n -c C:\\m.gguf {mark}")), ["a", "-b", "-c", "C:\\m.gguf"]);
        }
        assert_eq!(one("a#b # c\n-d #"), ["a#b", "-d"]);
        assert_eq!(
            one("-ot '\\.ffn_.*=CPU|x' -ot \"blk\\.[0-9]$=CPU\""),
            ["-ot", "\\.ffn_.*=CPU|x", "-ot", "blk\\.[0-9]$=CPU"]
        );
        assert_eq!(one("a -m x > log 2>&1"), ["a", "-m", "x"]);
        assert_eq!(one("a\n  -b 1\n  -c 2"), ["a", "-b", "1", "-c", "2"]);
        assert_eq!(one("a http://x?b=1&c=2"), ["a", "http://x?b=1&c=2"]);
    }

    #[test]
    fn marks_end_a_command() {
        assert_eq!(
            of("cd x && ./a -b; c | d & e"),
            [vec!["cd", "x"], vec!["./a", "-b"], vec!["c"], vec!["d"], vec!["e"]]
        );
    }

    #[test]
    fn variables_are_put_in() {
        let script = "#!/bin/sh\nM=/m/x.gguf\nexport CTX=8192\nN=\"${CTX}\"\na -m \"$M\" -c $N -d '${M}' -e ${E:-5} -f ${F-6} -g $G";
        let words = commands(script, &mut Variables::new()).concat();
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let expected = ["a", "-m", "/m/x.gguf", "-c", "8192", "-d", "${M}", "-e", "5", "-f", "6", "-g", "$G"];
        assert_eq!(texts, expected);
        assert_eq!(words.last().unwrap().unset.as_deref(), Some("G"));
        assert_eq!(one("$env:A = \"b c\"\nx $env:A"), ["x", "b c"]);
        assert_eq!(one("set A=b\nx %A%\\c.exe 50%"), ["x", "b\\c.exe", "50%"]);
        let mut macros = Variables::from([("llama-server".to_owned(), "/bin/llama-server".to_owned())]);
        assert_eq!(words_of("${llama-server} --port ${PORT}", &mut macros), ["/bin/llama-server", "--port", "${PORT}"]);
    }

    fn words_of(text: &str, variables: &mut Variables) -> Vec<String> {
        commands(text, variables).concat().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn no_text_fails() {
        for text in ["${", "$", "'", "\"", "\\", "${a", "${a{b}", "a=", "=", "<", "2>", "&", "$env:", "\u{0}$é${é:-ß}"]
        {
            of(text);
        }
    }
}
