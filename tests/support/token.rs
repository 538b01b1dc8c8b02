//! Signed tokens for OAUTHBEARER, and the key set by which a broker verifies them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::sign::Signer;

/// Who issues tokens.
pub struct Issuer {
    key: PKey<Private>,
}

impl Issuer {
    /// One with a key of its own.
    pub fn new() -> Self {
        let key = Rsa::generate(2048).expect("a key");
        Self { key: PKey::from_rsa(key).expect("a key") }
    }

    /// The public key as a JWKS document.
    pub fn key_set(&self) -> String {
        let rsa = self.key.rsa().expect("an RSA key");
        let (n, e) = (encode(&rsa.n().to_vec()), encode(&rsa.e().to_vec()));
        let key = format!(r#"{{"kty":"RSA","kid":"test","use":"sig","alg":"RS256","n":"{n}","#);
        format!(r#"{{"keys":[{key}"e":"{e}"}}]}}"#)
    }

    /// A token for `subject` that is valid from a minute ago until `expiry_s` (seconds since 1970).
    pub fn token(&self, subject: &str, audience: &str, expiry_s: i64) -> String {
        let issued_s = super::now_ms() / 1_000 - 60;
        let claims = format!(
            r#"{{"sub":"{subject}","aud":"{audience}","iat":{issued_s},"exp":{expiry_s}}}"#
        );
        let head = encode(br#"{"alg":"RS256","kid":"test","typ":"JWT"}"#);
        let signed = format!("{head}.{}", encode(claims.as_bytes()));
        let mut signer = Signer::new(MessageDigest::sha256(), &self.key).expect("a signer");
        let signature = signer.sign_oneshot_to_vec(signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", encode(&signature))
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
