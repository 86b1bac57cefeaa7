//! Signing in to a registry with Ollama's key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde_json::json;

use super::server::{RecordedRequest, Reply, Server, file};
use super::{TestNetwork, put, small};

const SEED: [u8; 32] = [7; 32];

fn packed(fields: &[&[u8]]) -> Vec<u8> {
    fields.iter().flat_map(|field| [&(field.len() as u32).to_be_bytes(), *field].concat()).collect()
}

/// A key file as `ssh-keygen -t ed25519` writes it, with this `cipher`.
fn key_file(cipher: &str) -> String {
    let pair = Ed25519KeyPair::from_seed_unchecked(&SEED).unwrap();
    let point = pair.public_key().as_ref();
    let public = packed(&[b"ssh-ed25519", point]);
    let check = 0x1234_5678_u32.to_be_bytes();
    let secret = [SEED.as_slice(), point].concat();
    let private = [&check, &check, packed(&[b"ssh-ed25519", point, &secret, b"me"]).as_slice(), &[1, 2, 3]].concat();
    let bytes = [
        b"openssh-key-v1\0".as_slice(),
        &packed(&[cipher.as_bytes(), b"none", b""]),
        &1_u32.to_be_bytes(),
        &packed(&[&public, &private]),
    ];
    let text = STANDARD.encode(bytes.concat());
    let lines: Vec<_> = text.as_bytes().chunks(70).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n", lines.join("\n"))
}

/// Whether a token request is signed by the key, over its own URL.
fn is_signed(seen: &RecordedRequest, url: &str) -> bool {
    let pair = Ed25519KeyPair::from_seed_unchecked(&SEED).unwrap();
    let (public, signature) = seen.field("authorization").unwrap().split_once(':').unwrap();
    let nothing = STANDARD.encode("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let text = format!("GET,{url}{},{nothing}", seen.path);
    public == STANDARD.encode(packed(&[b"ssh-ed25519", pair.public_key().as_ref()]))
        && UnparsedPublicKey::new(&ED25519, pair.public_key().as_ref())
            .verify(text.as_bytes(), &STANDARD.decode(signature).unwrap())
            .is_ok()
}

/// A registry with one private model, and its token server.
fn start() -> (Server, Server) {
    let tokens = Server::start(|seen| {
        let url = format!("http://{}", seen.field("host").unwrap());
        let right = seen.path.contains("scope=repository%3Ao%2Fm%3Apull&service=here&ts=") && is_signed(seen, &url);
        if right { Reply::ok(json!({ "token": "for-this-model" }).to_string()) } else { Reply::status(403) }
    });
    let realm = tokens.at("/token");
    let registry = Server::start(move |seen| {
        if seen.field("authorization") != Some("Bearer for-this-model") {
            let challenge = format!("Bearer realm=\"{realm}\",service=\"here\",scope=\"repository:o/m:pull\"");
            return Reply::status(401).with("WWW-Authenticate", challenge);
        }
        let digest = format!("sha256:{}", "a".repeat(64));
        let layer = json!({ "mediaType": "application/vnd.ollama.image.model", "digest": digest });
        match seen.path.as_str() {
            "/v2/o/m/manifests/latest" => Reply::ok(json!({ "layers": [layer] }).to_string()),
            _ => file(seen, &small("Private", 0)),
        }
    });
    (registry, tokens)
}

#[test]
fn ollamas_key_signs_in() {
    let (registry, _tokens) = start();
    let mut here = TestNetwork::new(&registry.url);
    let path = here.folder.path().join("id_ed25519");
    put(&path, &key_file("none"));
    here.network().ollama_key = Some(path);
    let opened = here.load("o/m").unwrap();
    assert_eq!(opened.header.metadata.get("general.name").unwrap().as_str(), Some("Private"));
}

#[test]
fn unsupported_keys_are_reported() {
    let (registry, tokens) = start();
    let mut here = TestNetwork::new(&registry.url);
    let path = here.folder.path().join("id_ed25519");
    here.network().ollama_key = Some(path.clone());
    for text in [key_file("aes256-ctr"), "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n".to_owned(), String::new()] {
        put(&path, &text);
        let said = here.refused("o/m");
        assert!(said.contains("is not an Ed25519 key without a passphrase"), "{said}");
    }
    assert!(tokens.seen().is_empty());
}
