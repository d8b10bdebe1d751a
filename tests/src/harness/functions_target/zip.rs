//! An archive of one program, as Lambda takes it: stored as it is, which is quick.

use anyhow::{Context, Result};

/// Executable for all.
const MODE: u32 = 0o100_755;
const UNIX: u16 = 3;

pub(super) fn of_one(name: &str, content: &[u8]) -> Result<Vec<u8>> {
    let size = u32::try_from(content.len()).context("a program of less than 4 GB")?;
    let length = u16::try_from(name.len()).context("a short name")?;
    let common = [
        // Version 2.0, no flags, stored, midnight of the first day that there is.
        20_u16.to_le_bytes().to_vec(),
        [0; 6].to_vec(),
        0x21_u16.to_le_bytes().to_vec(),
        crc32(content).to_le_bytes().to_vec(),
        size.to_le_bytes().to_vec(),
        size.to_le_bytes().to_vec(),
        length.to_le_bytes().to_vec(),
        [0; 2].to_vec(),
    ]
    .concat();
    let file = [b"PK\x03\x04".as_slice(), &common, name.as_bytes(), content].concat();
    let directory = [
        b"PK\x01\x02".as_slice(),
        &(20 | (UNIX << 8)).to_le_bytes(),
        &common,
        // No comment, the first disk, not text.
        &[0; 6],
        &(MODE << 16).to_le_bytes(),
        &0_u32.to_le_bytes(),
        name.as_bytes(),
    ]
    .concat();
    let (at, long) = (u32::try_from(file.len())?, u32::try_from(directory.len())?);
    let one = 1_u16.to_le_bytes();
    let end =
        [b"PK\x05\x06".as_slice(), &[0; 4], &one, &one, &long.to_le_bytes(), &at.to_le_bytes(), &[0; 2]]
            .concat();
    Ok([file, directory, end].concat())
}

fn crc32(content: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256_u32)
        .map(|byte| {
            (0..8).fold(byte, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
        })
        .collect();
    !content.iter().fold(!0_u32, |crc, byte| {
        let index = usize::from(u8::try_from(crc & 0xff).unwrap_or(0) ^ byte);
        (crc >> 8) ^ table[index]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
