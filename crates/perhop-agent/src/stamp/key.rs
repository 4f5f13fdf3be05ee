//! Keys of the authenticated mode.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use perhop_wire::STAMP_HMAC;
use ring::hmac;
use thiserror::Error;

/// Bytes that a key has at least.
const SHORTEST: usize = 16;

/// Why there is no key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// The file is no key.
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
    /// Returns the key of some bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Reads a key from a file of hexadecimal digits.
    ///
    /// # Errors
    /// If the file cannot be read, or is no key.
    pub fn read(file: &Path) -> Result<Self, KeyFileError> {
        let text =
            fs::read_to_string(file).map_err(|error| KeyFileError::File(file.into(), error))?;
        let digit = |letter: u8| char::from(letter).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
        let bytes: Option<Vec<u8>> = text.trim().as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.filter(|bytes| bytes.len() >= SHORTEST);
        Ok(Self::new(&bytes.ok_or_else(|| KeyFileError::Malformed(file.into()))?))
    }

    /// The HMAC of some bytes.
    pub(super) fn tag(&self, parts: &[&[u8]]) -> [u8; STAMP_HMAC] {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        let mut tag = [0; STAMP_HMAC];
        tag.copy_from_slice(&context.sign().as_ref()[..STAMP_HMAC]);
        tag
    }

    /// Whether an HMAC is right, in constant time.
    pub(super) fn is_tag(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        let pairs = self.tag(parts).into_iter().zip(tag);
        let difference = pairs.fold(0, |all, (own, other)| all | (own ^ other));
        std::hint::black_box(difference) == 0 && tag.len() == STAMP_HMAC
    }
}
