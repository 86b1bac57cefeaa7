//! Texts for logs and reports, without what may be secret.

/// `text` without users' names, passwords and queries in the addresses in it.
pub fn without_secrets(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        out += before;
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '<' | '>')).unwrap_or(after.len());
        let (address, more) = after.split_at(end);
        let address = address.split(['?', '#']).next().unwrap_or_default();
        let (host, path) = address.find(['/', '\\']).map_or((address, ""), |slash| address.split_at(slash));
        out += host.rsplit('@').next().unwrap_or(host);
        out += path;
        rest = more;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::without_secrets;
    use rstest::rstest;

    #[rstest]
    #[case("https://me:pass@host:80/a/b.gguf?token=x#y", "https://host:80/a/b.gguf")]
    #[case("'https://host/a?X-Amz-Signature=x' was not found: HTTP 404", "'https://host/a' was not found: HTTP 404")]
    #[case("http://u@h and http://v:w@i/", "http://h and http://i/")]
    #[case("hf://owner/repo:Q4_K_M", "hf://owner/repo:Q4_K_M")]
    #[case("catalogue:qwen3-8b@q8_0", "catalogue:qwen3-8b@q8_0")]
    #[case("http://a@b@c/d@e", "http://c/d@e")]
    #[case("", "")]
    fn addresses_lose_what_may_be_secret(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(without_secrets(text), shown);
    }
}
