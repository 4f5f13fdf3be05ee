//! Keys of the authenticated mode.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use perhop_wire::STAMP_HMAC;
use ring::hmac;
use thiserror::Error;

/// Minimum length of a key in bytes.
const SHORTEST: usize = 16;
/// Maximum size of a file of a key in bytes.
const LONGEST: u64 = 4096;

/// Reason why a key cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// Other users can read the file.
    #[error("{0}: other users can read this key; run `chmod 600 {0}`")]
    Exposed(PathBuf),
    /// The file does not contain a key.
    #[error(
        "{0}: expected a key of at least {SHORTEST} bytes as hexadecimal digits; \
         `openssl rand -hex 32` makes one"
    )]
    Malformed(PathBuf),
}

/// A key that a session-sender and a session-reflector share: HMAC-SHA-256, truncated to 128 bits
/// (RFC 8762, section 4.4).
#[derive(Clone, Debug)]
pub struct Key(hmac::Key);

impl Key {
    /// Returns a key with these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Reads a key from a file of hexadecimal digits.
    ///
    /// # Errors
    /// If the file cannot be read, other users can read it, or it does not contain a key.
    pub fn read(file: &Path) -> Result<Self, KeyFileError> {
        let failed = |error| KeyFileError::File(file.into(), error);
        let mut opened = File::open(file).map_err(failed)?;
        if opened.metadata().map_err(failed)?.mode() & 0o077 != 0 {
            return Err(KeyFileError::Exposed(file.into()));
        }
        let mut text = String::new();
        opened.by_ref().take(LONGEST).read_to_string(&mut text).map_err(failed)?;
        let digit = |letter: u8| char::from(letter).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
        let bytes: Option<Vec<u8>> = text.trim().as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.filter(|bytes| bytes.len() >= SHORTEST);
        Ok(Self::new(&bytes.ok_or_else(|| KeyFileError::Malformed(file.into()))?))
    }

    /// Returns the HMAC of the concatenated parts.
    pub(super) fn tag(&self, parts: &[&[u8]]) -> [u8; STAMP_HMAC] {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        let mut tag = [0; STAMP_HMAC];
        tag.copy_from_slice(&context.sign().as_ref()[..STAMP_HMAC]);
        tag
    }

    /// Returns whether an HMAC is right, in constant time.
    pub(super) fn is_tag(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        let pairs = self.tag(parts).into_iter().zip(tag);
        let difference = pairs.fold(0, |all, (own, other)| all | (own ^ other));
        std::hint::black_box(difference) == 0 && tag.len() == STAMP_HMAC
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// RFC 4231, test case 2, truncated.
    #[test]
    fn it_is_hmac_sha_256() {
        let tag = Key::new(b"Jefe").tag(&[b"what do ya want ", b"for nothing?"]);
        assert_eq!(tag[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(tag[12..], [0x08, 0x95, 0x75, 0xc7]);
    }

    #[test]
    fn files_of_keys() {
        let file = std::env::temp_dir().join(format!("perhop-stamp-key-{}", std::process::id()));
        let try_read = |text: &str, mode| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let read = Key::read(&file);
            fs::remove_file(&file).unwrap();
            read
        };
        let good = "000102030405060708090a0b0c0d0e0F\n";
        let key = try_read(good, 0o600).unwrap();
        let bytes: Vec<u8> = (0..16).collect();
        assert!(key.is_tag(&[b"x"], &Key::new(&bytes).tag(&[b"x"])));
        assert!(matches!(try_read(good, 0o640), Err(KeyFileError::Exposed(_))));
        for wrong in
            ["", "0001", "000102030405060708090a0b0c0d0e0", &"g".repeat(32), &"é".repeat(16)]
        {
            assert!(matches!(try_read(wrong, 0o600), Err(KeyFileError::Malformed(_))), "{wrong}");
        }
        assert!(matches!(Key::read(&file), Err(KeyFileError::File(..))));
    }
}
