//! The fingerprint of a certificate as Proxmox VE shows it: SHA-256 in pairs of hexadecimal digits, with colons between.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a fingerprint is 32 pairs of hexadecimal digits with colons between, as `pvenode cert info` shows it"
)]
pub struct NotAFingerprint;

impl Fingerprint {
    pub fn of(certificate_der: &[u8]) -> Self {
        Self(Sha256::digest(certificate_der).into())
    }
}

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let mut bytes = Vec::with_capacity(32);
        for pair in text.trim().split(':') {
            if pair.len() != 2 || !pair.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(NotAFingerprint);
            }
            bytes.push(u8::from_str_radix(pair, 16).map_err(|_| NotAFingerprint)?);
        }
        bytes.try_into().map(Self).map_err(|_| NotAFingerprint)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let colon = if place == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_it_is_read() {
        let text = Fingerprint::of(b"a certificate").to_string();
        assert_eq!(text.len(), 95);
        assert_eq!(text.parse(), Ok(Fingerprint::of(b"a certificate")));
        assert_eq!(text.to_lowercase().parse(), Ok(Fingerprint::of(b"a certificate")));
    }

    #[test]
    fn anything_else_is_refused() {
        let good = Fingerprint::of(b"").to_string();
        for text in ["", "AB:CD", &good.replace(':', ""), &format!("{good}:00"), &good.replace('E', "G")] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text:?}");
        }
    }
}
