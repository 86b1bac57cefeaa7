//! Ollama's key: Ed25519 in OpenSSH's format (PROTOCOL.key of OpenSSH 9.9), without a passphrase.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::Ed25519KeyPair;

const KIND: &[u8] = b"ssh-ed25519";

pub(super) struct SigningKey {
    pair: Ed25519KeyPair,
    public: String,
}

impl SigningKey {
    /// Reads the key in the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read or is of another kind: one sentence without a full stop.
    pub fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("the key '{shown}' cannot be read: {error}"))?;
        Self::read(&text).ok_or_else(|| {
            format!("the key '{shown}' is not an Ed25519 key without a passphrase: sign in with 'ollama signin'")
        })
    }

    fn read(text: &str) -> Option<Self> {
        let packed: String = text.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
        let bytes = STANDARD.decode(packed).ok()?;
        let mut rest = Fields(bytes.strip_prefix(b"openssh-key-v1\0")?);
        // cipher, key derivation function and its options: without a passphrase none, none and empty
        let open = rest.field()? == b"none" && rest.field()? == b"none" && rest.field()?.is_empty();
        if !open || rest.number()? != 1 {
            return None;
        }
        let public = rest.field()?;
        let mut private = Fields(rest.field()?);
        if private.number()? != private.number()? || private.field()? != KIND {
            return None;
        }
        let (point, secret) = (private.field()?, private.field()?);
        let seed = secret.get(..32)?;
        let pair = Ed25519KeyPair::from_seed_and_public_key(seed, point).ok()?;
        Some(Self { pair, public: STANDARD.encode(public) })
    }

    /// The public key as in `id_ed25519.pub`, without its kind and comment.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The signature of `text`, as base64.
    pub fn sign(&self, text: &[u8]) -> String {
        STANDARD.encode(self.pair.sign(text))
    }
}

/// SSH's encoding: big-endian numbers, and fields preceded by their length.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn field(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }
}
