//! Launch secrets and token hashes. A secret is compared in constant time and never kept.

use crate::ports::entropy::Entropy;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use motorpool_domain::{LaunchId, RunnerId};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The control plane's own secret, from which each launch's is derived.
#[derive(Clone)]
pub struct ServerSecret(Hmac<Sha256>);

impl std::fmt::Debug for ServerSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerSecret(…)")
    }
}

impl ServerSecret {
    pub fn new(bytes: &[u8]) -> Self {
        // A key of one block, so that making the HMAC can't fail.
        let mut block = [0; 64];
        for (place, byte) in block.iter_mut().zip(Sha256::digest(bytes)) {
            *place = byte;
        }
        Self(<Hmac<Sha256> as KeyInit>::new(&block.into()))
    }

    /// What the agent of one runner of a launch redeems. Following from both ids, it need not be stored.
    pub(crate) fn runner_secret(&self, launch: &LaunchId, runner: &RunnerId) -> String {
        self.derived(&[launch.as_str().as_bytes(), b"/", runner.as_str().as_bytes()])
    }

    /// What any agent of a launch redeems, where all its machines are told the same.
    pub(crate) fn launch_secret(&self, launch: &LaunchId) -> String {
        self.derived(&[launch.as_str().as_bytes()])
    }

    /// A short name for everything that belongs to this secret: what carries another's, in a cloud account or a CI system that is
    /// shared, is none of ours.
    pub fn installation(&self) -> String {
        let mut mac = self.0.clone();
        mac.update(b"installation");
        mac.finalize().into_bytes().iter().take(3).map(|byte| format!("{byte:02x}")).collect()
    }

    fn derived(&self, parts: &[&[u8]]) -> String {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(part);
        }
        format!("mp_launch_{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }
}

/// A token for a runner whose operator hands it out: 256 bits, which nobody keeps but who is given it.
pub(crate) fn fresh_runner_token(entropy: &dyn Entropy) -> String {
    let bytes: Vec<u8> = [entropy.bits(), entropy.bits()].into_iter().flat_map(u128::to_be_bytes).collect();
    format!("mp_runner_{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// SHA-256 in hex: the only form in which a token is stored.
pub fn token_sha256(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn same(left: &str, right: &str) -> bool {
    bool::from(left.as_bytes().ct_eq(right.as_bytes()))
}
