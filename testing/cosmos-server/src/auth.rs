//! Verifies that a request is signed with the master key, and recently.

use crate::call::{Call, header};
use crate::reply::Refusal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use percent_encoding::percent_decode_str;
use sha2::Sha256;
use std::io;
use std::time::{Duration, UNIX_EPOCH};
use subtle::ConstantTimeEq;

/// How far a request's date may be from the server's.
const MAX_SKEW: Duration = Duration::from_secs(15 * 60);

/// The master key.
pub(crate) struct MasterKey(Vec<u8>);

impl MasterKey {
    pub fn decode(key: &str) -> io::Result<Self> {
        let bytes = STANDARD.decode(key).map_err(|_| {
            let message = "the server's master key is not base64: use the default or encode yours";
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        Ok(Self(bytes))
    }

    /// Refuses a request that is not signed with this key, or was signed long ago.
    pub fn check(&self, call: &Call, now_ms: u64) -> Result<(), Refusal> {
        let token = call
            .header(header::AUTHORIZATION)
            .ok_or_else(|| refused("The request has no authorization header."))?;
        let date = call
            .header(header::DATE)
            .or_else(|| call.header("date"))
            .ok_or_else(|| refused("The request has neither x-ms-date nor date."))?;
        let token = percent_decode_str(token).decode_utf8_lossy();
        let signature = signature_of(&token)?;
        let expected = self.sign(&string_to_sign(call, date))?;
        if !bool::from(expected.as_bytes().ct_eq(signature.as_bytes())) {
            return Err(refused(
                "The signature is not that of the server's key over verb, resource type, resource link and date.",
            ));
        }
        check_date(date, now_ms)
    }

    fn sign(&self, text: &str) -> Result<String, Refusal> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(|_| refused("The server's key is unusable."))?;
        mac.update(text.as_bytes());
        Ok(STANDARD.encode(mac.finalize().into_bytes()))
    }
}

fn refused(message: &str) -> Refusal {
    Refusal::new(401, 0, "Unauthorized", message)
}

fn signature_of(token: &str) -> Result<&str, Refusal> {
    // The signature ends in `=`, so that splitting at every one of them would cut it.
    let mut fields = token.split('&').filter_map(|field| field.split_once('='));
    let (mut is_master, mut is_v1, mut signature) = (false, false, None);
    for (name, value) in &mut fields {
        match name {
            "type" => is_master = value == "master",
            "ver" => is_v1 = value == "1.0",
            "sig" => signature = Some(value),
            _ => {}
        }
    }
    match signature {
        Some(signature) if is_master && is_v1 => Ok(signature),
        _ => Err(refused(
            "Only master key tokens are understood: type=master&ver=1.0&sig=...",
        )),
    }
}

/// The text that the client signs. Ids are unescaped in the link, and in their own case.
fn string_to_sign(call: &Call, date: &str) -> String {
    let verb = call.method.as_str().to_ascii_lowercase();
    let parts = &call.segments;
    let (kind, link) = match parts.as_slice() {
        [] => (String::new(), String::new()),
        // Offers are known by their resource id alone, in lower case.
        [kind, id] if kind == "offers" => (kind.clone(), id.to_ascii_lowercase()),
        [holder @ .., kind] if parts.len() % 2 == 1 => (kind.clone(), holder.join("/")),
        [.., kind, _] => (kind.clone(), parts.join("/")),
        [kind] => (kind.clone(), String::new()),
    };
    format!("{verb}\n{kind}\n{link}\n{}\n\n", date.to_ascii_lowercase())
}

fn check_date(date: &str, now_ms: u64) -> Result<(), Refusal> {
    let sent = httpdate::parse_http_date(date)
        .map_err(|_| refused("The date of the request is not an RFC 7231 date."))?
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = Duration::from_millis(now_ms);
    if sent.abs_diff(now) > MAX_SKEW {
        let message = "The date of the request is more than 15 minutes off: set the clock, or sign anew.";
        return Err(Refusal::new(403, 0, "Forbidden", message));
    }
    Ok(())
}
