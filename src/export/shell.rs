//! Quoting for a POSIX shell.

use crate::text::one_line;

/// `word` as one printable shell word, quoted if necessary.
pub(super) fn word(word: &str) -> String {
    let word = &*one_line(word);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `text` as a comment of one line.
pub(super) fn comment(text: &str) -> String {
    format!("# {}\n", one_line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_if_necessary() {
        assert_eq!(word("models/a-1.gguf"), "models/a-1.gguf");
        assert_eq!(word("my model.gguf"), "'my model.gguf'");
        assert_eq!(word("it's; rm -rf"), r"'it'\''s; rm -rf'");
        assert_eq!(word(""), "''");
    }

    #[test]
    fn line_breaks_cannot_end_a_comment() {
        assert_eq!(comment("a\nrm b"), "# a rm b\n");
    }
}
