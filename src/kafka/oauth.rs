//! SASL OAUTHBEARER with a token from a file, such as a projected service account token. The file
//! is read again each time librdkafka asks for a fresh token, at 80 % of its lifetime.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rdkafka::client::OAuthToken;

use crate::clock;

/// Reads a JWT and takes its lifetime and subject from its claims.
pub(super) fn read_token(file: &Path) -> Result<OAuthToken, String> {
    let token = std::fs::read_to_string(file)
        .map_err(|error| format!("token file {}: {error}", file.display()))?;
    let token = parse(token.trim()).and_then(|token| match token.lifetime_ms > clock::wall_ms() {
        true => Ok(token),
        false => Err("the token has expired".to_owned()),
    });
    token.map_err(|fault| format!("token file {}: {fault}", file.display()))
}

fn parse(token: &str) -> Result<OAuthToken, String> {
    let payload = token.split('.').nth(1).ok_or("not a JWT: it has no second part")?;
    let claims = URL_SAFE_NO_PAD
        .decode(payload.trim_end_matches('='))
        .map_err(|error| format!("not a JWT: {error}"))?;
    let claims: serde_json::Value =
        serde_json::from_slice(&claims).map_err(|error| format!("not a JWT: {error}"))?;
    let expiry_s = claims["exp"].as_i64().ok_or("the JWT has no `exp` claim")?;
    Ok(OAuthToken {
        token: token.to_owned(),
        principal_name: claims["sub"].as_str().unwrap_or_default().to_owned(),
        lifetime_ms: expiry_s.saturating_mul(1_000),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jwt(claims: &str) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn lifetime_and_principal_come_from_the_claims() {
        let token = parse(&jwt(r#"{"sub":"orders","exp":1800000000}"#)).unwrap();
        assert_eq!(token.principal_name, "orders");
        assert_eq!(token.lifetime_ms, 1_800_000_000_000);
    }

    #[test]
    fn a_file_that_is_no_token_says_so_without_showing_it() {
        for (text, needle) in
            [("secret", "no second part"), ("a.!!.c", "not a JWT"), (&jwt("{}"), "`exp`")]
        {
            let fault = parse(text).map(|token| token.principal_name).unwrap_err();
            assert!(fault.contains(needle) && !fault.contains("secret"), "{fault}");
        }
        let missing = read_token(Path::new("/no/such/file"));
        assert!(missing.is_err_and(|fault| fault.contains("/no/such/file")));
    }
}
