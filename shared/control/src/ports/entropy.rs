//! Where fresh ids come from: the operating system, or a seed in a simulation.

use motorpool_domain::{ClaimId, IdError, LaunchId, RunnerId};
use rand::Rng;
use std::sync::Mutex;

pub trait Entropy: Send + Sync + std::fmt::Debug {
    fn bits(&self) -> u128;
}

#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn bits(&self) -> u128 {
        rand::rng().next_u64() as u128 | (u128::from(rand::rng().next_u64()) << 64)
    }
}

/// The same seed, the same ids.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<rand::rngs::StdRng>);

impl SeededEntropy {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(rand::SeedableRng::seed_from_u64(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn bits(&self) -> u128 {
        let mut rng = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        rng.next_u64() as u128 | (u128::from(rng.next_u64()) << 64)
    }
}

pub fn fresh_claim(entropy: &dyn Entropy) -> Result<ClaimId, IdError> {
    ClaimId::parse(format!("c-{}", word(entropy)))
}

pub fn fresh_launch(entropy: &dyn Entropy) -> Result<LaunchId, IdError> {
    LaunchId::parse(format!("l-{}", word(entropy)))
}

pub fn fresh_runner(entropy: &dyn Entropy) -> Result<RunnerId, IdError> {
    RunnerId::parse(format!("r-{}", word(entropy)))
}

/// 80 bits, in an alphabet without letters that are easily misread.
fn word(entropy: &dyn Entropy) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bits = entropy.bits();
    (0..16)
        .filter_map(|_| {
            let letter = ALPHABET.get((bits & 31) as usize).copied();
            bits >>= 5;
            letter.map(char::from)
        })
        .collect()
}
