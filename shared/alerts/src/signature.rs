//! How a receiver knows that a message is ours, and of now: an HMAC over the time of sending and the body together.

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// `sha256=` and in hex the HMAC-SHA256 of `TIMESTAMP.BODY`, where the timestamp is in whole seconds since 1970.
pub fn signature(secret: &SecretString, timestamp: u64, body: &[u8]) -> String {
    let mut mac = keyed(secret.expose_secret().as_bytes());
    mac.update(timestamp.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

/// A key of one block, so that making the HMAC can't fail: filled up with zeros, or hashed where it is longer, as HMAC itself does.
fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    let mut block = [0; 64];
    let hashed = Sha256::digest(secret);
    let key = if secret.len() > block.len() { hashed.as_slice() } else { secret };
    for (place, byte) in block.iter_mut().zip(key) {
        *place = *byte;
    }
    <Hmac<Sha256> as KeyInit>::new(&block.into())
}
