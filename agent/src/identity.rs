//! Who this agent, this machine and this boot are. It stores nothing.

use std::fmt::Write;
use std::{fs, io};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use motorpool_domain::RunnerId;
use secrecy::SecretString;
use sha2::{Digest, Sha256};

const TOKEN_PREFIX: &str = "mp_runner_";

/// Made here and sent to nobody: the control plane only gets its hash.
pub(crate) fn new_token() -> SecretString {
    let random: [u8; 32] = rand::random();
    format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(random)).into()
}

/// Of this process, as long as it lives: written nowhere, so that nobody who copies the agent's files has it.
pub(crate) fn new_session() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>())
}

/// Of the machine and the runner: the same after a restart, and no two runners of one machine have the same.
/// A machine that has no id of its own gets one for as long as the agent's state lives.
pub(crate) fn machine_id(runner: &RunnerId) -> String {
    let own = fs::read_to_string("/etc/machine-id").ok().filter(|id| !id.trim().is_empty());
    match own {
        Some(id) => sha256_hex(&format!("motorpool machine {} runner {runner}", id.trim())),
        None => sha256_hex(&format!("motorpool machine {:032x}", rand::random::<u128>())),
    }
}

/// Changes with every boot of the host.
pub(crate) fn boot_id() -> io::Result<String> {
    let id = if cfg!(target_os = "linux") {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")?
    } else {
        let output = std::process::Command::new("sysctl").args(["-n", "kern.bootsessionuuid"]).output()?;
        String::from_utf8(output.stdout).map_err(io::Error::other)?
    };
    match id.trim() {
        "" => Err(io::Error::other("it is empty")),
        id => Ok(id.to_owned()),
    }
}

pub(crate) fn sha256_hex(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string does not fail.
        let _always_ok = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    #[test]
    fn a_token_has_its_prefix_and_256_random_bits() {
        let (one, two) = (new_token(), new_token());
        assert_ne!(one.expose_secret(), two.expose_secret());
        let random = one.expose_secret().strip_prefix(TOKEN_PREFIX).unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(random).unwrap().len(), 32);
        assert!(!format!("{one:?}").contains(random));
    }

    #[test]
    fn the_hash_is_that_of_everybody_else() {
        assert_eq!(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
