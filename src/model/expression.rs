//! Expressions of tables, such as those of the loader of llama.cpp and of the families of MLX: whole numbers, `?:`, `||`, `&&`,
//! comparisons, sums, products and `!`.

/// The values of an expression's words.
pub trait Words {
    /// The value of a word; none if it is not known.
    fn of(&self, word: &str) -> Option<i64>;
}

/// The value of a condition as 0 or 1; none if it depends on what is not known.
pub fn value(text: &str, words: &dyn Words) -> Option<i64> {
    number(text, words).map(|number| i64::from(number != 0))
}

/// The value of an expression; none if it depends on what is not known, or is none.
pub fn number(text: &str, words: &dyn Words) -> Option<i64> {
    let mut parser = Parser { rest: text, words };
    let value = parser.choice();
    if parser.rest.is_empty() { value } else { None }
}

/// Whether it may have another value in every block.
pub fn depends_on_block(text: &str) -> bool {
    let is_in_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    text.split(|c| !is_in_word(c))
        .any(|word| word == "i" || word.strip_suffix(".i").is_some() || word.starts_with("has."))
}

/// Whether a comparison holds.
type Comparison = fn(&i64, &i64) -> bool;

struct Parser<'t> {
    rest: &'t str,
    words: &'t dyn Words,
}

impl Parser<'_> {
    fn takes(&mut self, sign: &str) -> bool {
        match self.rest.trim_start().strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn choice(&mut self) -> Option<i64> {
        let condition = self.either();
        if !self.takes("?") {
            return condition;
        }
        let yes = self.choice();
        let no = if self.takes(":") { self.choice() } else { None };
        if condition? != 0 { yes } else { no }
    }

    /// `||`: true where one side is, whatever the other.
    fn either(&mut self) -> Option<i64> {
        let mut left = self.both();
        while self.takes("||") {
            let right = self.both();
            left = match (left, right) {
                (Some(one), _) | (_, Some(one)) if one != 0 => Some(1),
                (Some(_), Some(_)) => Some(0),
                _ => None,
            };
        }
        left
    }

    /// `&&`: false where one side is, whatever the other.
    fn both(&mut self) -> Option<i64> {
        let mut left = self.comparison();
        while self.takes("&&") {
            let right = self.comparison();
            left = match (left, right) {
                (Some(0), _) | (_, Some(0)) => Some(0),
                (Some(_), Some(_)) => Some(1),
                _ => None,
            };
        }
        left
    }

    fn comparison(&mut self) -> Option<i64> {
        const SIGNS: [(&str, Comparison); 6] =
            [("==", i64::eq), ("!=", i64::ne), ("<=", i64::le), (">=", i64::ge), ("<", i64::lt), (">", i64::gt)];
        let left = self.sum();
        for (sign, holds) in SIGNS {
            if self.takes(sign) {
                let right = self.sum();
                return Some(i64::from(holds(&left?, &right?)));
            }
        }
        left
    }

    fn sum(&mut self) -> Option<i64> {
        let mut left = self.product();
        loop {
            if self.takes("+") {
                left = left.zip(self.product()).and_then(|(a, b)| a.checked_add(b));
            } else if self.takes("-") {
                left = left.zip(self.product()).and_then(|(a, b)| a.checked_sub(b));
            } else {
                return left;
            }
        }
    }

    fn product(&mut self) -> Option<i64> {
        let mut left = self.single();
        loop {
            if self.takes("*") {
                left = left.zip(self.single()).and_then(|(a, b)| a.checked_mul(b));
            } else if self.takes("/") {
                left = left.zip(self.single()).and_then(|(a, b)| a.checked_div(b));
            } else if self.takes("%") {
                left = left.zip(self.single()).and_then(|(a, b)| a.checked_rem(b));
            } else {
                return left;
            }
        }
    }

    fn single(&mut self) -> Option<i64> {
        if self.takes("!") {
            return self.single().map(|value| i64::from(value == 0));
        }
        if self.takes("(") {
            let inner = self.choice();
            return if self.takes(")") { inner } else { None };
        }
        let text = self.rest.trim_start();
        let is_in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let word = text.strip_prefix('/').map_or(0, |_| 1);
        let end = text[word..].find(|c| !is_in_word(c)).map_or(text.len(), |at| at + word);
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        if word.is_empty() {
            return None;
        }
        word.parse().ok().or_else(|| self.words.of(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Few;

    impl Words for Few {
        fn of(&self, word: &str) -> Option<i64> {
            match word {
                "embd" => Some(4096),
                "heads.i" => Some(32),
                "none" => Some(0),
                "/tokenizer.types" => Some(2),
                _ => None,
            }
        }
    }

    #[test]
    fn expressions_have_values() {
        for (text, expected) in [
            ("embd", Some(4096)),
            ("3*embd", Some(12_288)),
            ("2*embd+heads.i*2-1", Some(8255)),
            ("(2+heads.i)*heads.i", Some(1088)),
            ("embd/heads.i", Some(128)),
            ("none?none:embd/2", Some(2048)),
            ("embd/none", None),
            ("!none", Some(1)),
            ("!(embd>0&&heads.i==32)", Some(0)),
            ("none&&what", Some(0)),
            ("embd||what", Some(1)),
            ("embd&&what", None),
            ("/tokenizer.types", Some(2)),
            ("(embd+1)%2==1", Some(1)),
            ("?", None),
            ("embd)", None),
        ] {
            assert_eq!(number(text, &Few), expected, "{text}");
        }
        assert!(depends_on_block("heads.i*2") && depends_on_block("i>=3") && depends_on_block("!has.attn_qkv"));
        assert!(!depends_on_block("ssm.inner_size/2"));
    }
}
