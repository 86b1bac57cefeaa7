//! Answering a registry that wants to know who asks: with a token that Ollama's own key gets.
//!
//! The challenge names a realm; a request there, signed with the key, is answered with a token for one model
//! (server/auth.go and auth/auth.go, Ollama 0.24).

mod key;

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Deserialize;

use super::http::{Document, HttpRequest, Secret, Url, WireError};
use super::progress::ProgressCallback;
use super::remote::RemoteSession;
use key::SigningKey;

/// What is signed for a request without a body: SHA-256 of nothing, in hexadecimal digits.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// A token's answer is a few hundred bytes.
const MAX_TOKEN_ANSWER: u64 = 64 << 10;

#[derive(Deserialize)]
struct TokenResponse {
    token: String,
}

/// Asks again with a token, which stays in `ask`.
///
/// # Errors
/// Why there is no token: one sentence without its full stop.
pub(super) fn again(
    session: &mut RemoteSession<'_>,
    ask: &mut HttpRequest,
    refused: &Document,
    watch: &mut ProgressCallback<'_>,
) -> Result<Document, String> {
    let host = refused.url.host().to_owned();
    let key = session.network.ollama_key.as_deref().filter(|path| path.exists());
    let Some(path) = key else {
        return Err(format!("'{host}' requires a login, and there is no Ollama key: sign in with 'ollama signin'"));
    };
    let challenge = refused.challenge.as_deref().and_then(Challenge::read);
    let challenge =
        challenge.ok_or_else(|| format!("'{host}' requires a kind of login that Ollama's registry does not use"))?;
    let realm = challenge.realm(&ask.url)?;
    let key = SigningKey::open(path)?;
    let url = challenge.signed_url(&realm)?;
    let text = format!("GET,{},{}", url.whole(), STANDARD.encode(NOTHING));
    let mut token = HttpRequest::get(url);
    token.fields.push(("authorization", format!("{}:{}", key.public(), key.sign(text.as_bytes()))));
    let said = |error: WireError| error.to_string();
    let answer = session.ask(&token, MAX_TOKEN_ANSWER, watch).map_err(said)?;
    let parsed: Option<TokenResponse> = serde_json::from_slice(&answer.bytes).ok().filter(|_| answer.status == 200);
    let secret = parsed.and_then(|answer| Secret::new(&answer.token));
    let no_token =
        || format!("'{}' issued no token for this user's Ollama key: sign in with 'ollama signin'", realm.host());
    ask.bearer = Some(secret.ok_or_else(no_token)?);
    session.small(ask, watch).map_err(said)
}

/// What a `WWW-Authenticate` field asks for.
#[derive(Debug, PartialEq, Eq)]
struct Challenge<'f> {
    realm: &'f str,
    service: &'f str,
    scope: &'f str,
}

impl<'f> Challenge<'f> {
    /// Reads `Bearer realm="…",service="…",scope="…"`.
    fn read(field: &'f str) -> Option<Self> {
        let rest = field.trim_start().strip_prefix("Bearer ")?;
        let value = |key: &str| {
            let (_, rest) = rest.split_once(&format!("{key}=\""))?;
            rest.split_once('"').map(|(value, _)| value)
        };
        let (service, scope) = (value("service").unwrap_or_default(), value("scope").unwrap_or_default());
        Some(Self { realm: value("realm")?, service, scope })
    }

    /// The realm, if it is the registry's own: a signature for another host would let that one act in this user's name.
    fn realm(&self, registry: &Url) -> Result<Url, String> {
        let realm = Url::parse(self.realm).map_err(|why| format!("the login address is invalid: {why}"))?;
        let owner = |url: &Url| {
            let ollamas = ["ollama.ai", "ollama.com"];
            let host = url.host();
            let its_own = ollamas.iter().any(|own| host == *own || host.ends_with(&format!(".{own}")));
            if its_own { ollamas[0].to_owned() } else { host.to_owned() }
        };
        let local = realm.is_loopback() && registry.is_loopback();
        if local || (realm.is_secure() && owner(&realm) == owner(registry)) {
            Ok(realm)
        } else {
            Err(format!("'{}' redirects the login to '{}', which is not followed", registry.host(), realm.host()))
        }
    }

    /// The realm with everything that is to be signed, in the order in which Go writes a query: by name.
    fn signed_url(&self, realm: &Url) -> Result<Url, String> {
        let mut random = [0; 16];
        SystemRandom::new().fill(&mut random).map_err(|_| "this system provides no random numbers".to_owned())?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let scopes: Vec<_> = self.scope.split(' ').map(|scope| format!("&scope={}", in_query(scope))).collect();
        let (nonce, service) = (URL_SAFE_NO_PAD.encode(random), in_query(self.service));
        Ok(realm.with_query(&format!("nonce={nonce}{}&service={service}&ts={seconds}", scopes.concat())))
    }
}

/// A text as part of a query.
fn in_query(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let field = "Bearer realm=\"https://ollama.com/token\",service=\"ollama.com\",scope=\"repository:o/m:pull\"";
        let challenge = Challenge::read(field).unwrap();
        let registry = Url::parse("https://registry.ollama.ai/v2").unwrap();
        let realm = challenge.realm(&registry).unwrap();
        let signed = challenge.signed_url(&realm).unwrap();
        let signed = signed.whole();
        assert!(signed.starts_with("https://ollama.com/token?nonce="), "{signed}");
        assert!(signed.contains("&scope=repository%3Ao%2Fm%3Apull&service=ollama.com&ts="), "{signed}");
        assert_eq!(Challenge::read("Basic realm=\"x\""), None);
    }

    #[test]
    fn nothing_is_signed_for_others() {
        let registry = Url::parse("https://registry.ollama.ai/v2").unwrap();
        for realm in ["https://evil.example/token", "http://ollama.com/token", "https://ollama.com.evil.example/"] {
            let field = format!("Bearer realm=\"{realm}\"");
            assert!(Challenge::read(&field).unwrap().realm(&registry).is_err(), "{realm}");
        }
    }
}
