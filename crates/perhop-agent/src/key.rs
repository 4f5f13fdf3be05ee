//! Keys, by which a controller and an agent authenticate each other.
//!
//! Both have a pair of Ed25519 keys (RFC 8032) and are given the other's public key beforehand, as
//! with SSH; there are no names and no certificate authorities. A public key is written
//! `perhop-ed25519 BASE64 [COMMENT]`, where BASE64 (RFC 4648) stands for its 32 bytes. A private
//! key is PKCS #8 (RFC 8410) in PEM (RFC 7468), in a file that only its owner can read.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error;

use crate::options::Usage;

/// First word of the text of a public key.
const KIND: &str = "perhop-ed25519";
/// The header of an Ed25519 key as SubjectPublicKeyInfo (RFC 8410, section 4).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const LENGTH: usize = 32;
/// Maximum size of a file of keys in bytes.
const LONGEST_FILE: u64 = 1 << 20;
/// Characters in a line of PEM.
const PEM_LINE: usize = 64;

/// Reason why a key cannot be read or made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not a public key.
    #[error("{0:?} is not a public key; expected `{KIND} BASE64`, as `perhop-agent key` prints it")]
    Public(String),
    /// The file is not a private key.
    #[error("{0}: not a private key; `perhop-agent key FILE` makes one in a new file")]
    Private(PathBuf),
    /// Other users can read the file.
    #[error("{0}: other users can read this private key; run `chmod 600 {0}`")]
    Exposed(PathBuf),
    /// The file does not exist, or cannot be read or written.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// No file was named, and the environment has no home directory.
    #[error("no home directory to keep the key in; name a file")]
    Homeless,
}

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; LENGTH]);

impl PublicKey {
    /// Returns the key as a SubjectPublicKeyInfo in DER, the form in TLS (RFC 7250).
    pub fn spki(&self) -> Vec<u8> {
        [&SPKI[..], &self.0].concat()
    }

    /// Reads every public key of a file: one in each line, as in `authorized_keys`. Empty lines and
    /// lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// [`KeyError`] if the file cannot be read, or a line is not a key.
    pub fn read_file(path: &Path) -> Result<Vec<Self>, KeyError> {
        let text = read(path)?;
        let lines = text.lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::parse).collect()
    }

    /// Reads a public key, or the public keys of a file if the text is its name.
    ///
    /// # Errors
    /// As [`read_file`](Self::read_file).
    pub fn read_argument(text: &str) -> Result<Vec<Self>, KeyError> {
        match text.starts_with(KIND) {
            true => Ok(vec![text.parse()?]),
            false => Self::read_file(Path::new(text)),
        }
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut words = text.split_ascii_whitespace();
        let kind = words.next() == Some(KIND);
        let key = words.next().and_then(|word| STANDARD.decode(word).ok());
        let key = key.and_then(|bytes| <[u8; LENGTH]>::try_from(bytes).ok()).filter(|_| kind);
        // A long text is not a key: show only its beginning.
        key.map(Self).ok_or_else(|| KeyError::Public(text.chars().take(80).collect()))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{KIND} {}", STANDARD.encode(self.0))
    }
}

/// A pair of keys.
pub struct Identity {
    pkcs8: Vec<u8>,
    public: PublicKey,
}

impl fmt::Debug for Identity {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("Identity").field(&self.public).finish()
    }
}

impl Identity {
    /// Makes a new pair of keys.
    ///
    /// # Panics
    /// If the kernel provides no random numbers.
    pub fn generate() -> Self {
        let random = SystemRandom::new();
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random).expect("random numbers");
        Self::from_pkcs8(pkcs8.as_ref()).expect("a pair that was just made")
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).ok()?;
        let public = pair.public_key().as_ref().try_into().ok()?;
        Some(Self { pkcs8: pkcs8.to_vec(), public: PublicKey(public) })
    }

    /// Reads the private key in a file.
    ///
    /// # Errors
    /// [`KeyError`] if the file has none, or if other users can read it.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let text = read(path)?;
        let mode = fs::metadata(path).map_err(|error| KeyError::File(path.into(), error))?.mode();
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed(path.into()));
        }
        let wrong = || KeyError::Private(path.into());
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_| wrong())?;
        Self::from_pkcs8(key.secret_pkcs8_der()).ok_or_else(wrong)
    }

    /// Writes the private key to a new file of mode 0600, and the public key to one beside it whose
    /// name ends in `.pub`.
    ///
    /// # Errors
    /// [`KeyError::File`] if the file exists, or cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |error| KeyError::File(path.clone(), error)
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(at(folder))?;
        }
        let encoded = STANDARD.encode(&self.pkcs8);
        let mut text = String::from("-----BEGIN PRIVATE KEY-----\n");
        for line in encoded.as_bytes().chunks(PEM_LINE) {
            text += str::from_utf8(line).expect("base64 is ASCII");
            text.push('\n');
        }
        text += "-----END PRIVATE KEY-----\n";
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(at(path))?;
        file.write_all(text.as_bytes()).map_err(at(path))?;
        let public = public_file(path);
        fs::write(&public, format!("{}\n", self.public)).map_err(at(&public))
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Returns the private key as PKCS #8.
    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }
}

/// Returns the default file of a user's key: `perhop/agent.key` in `$XDG_CONFIG_HOME` or
/// `~/.config`.
///
/// # Errors
/// [`KeyError::Homeless`] if the environment has neither.
pub fn default_file() -> Result<PathBuf, KeyError> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    folder("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| folder("HOME").map(|home| Path::new(&home).join(".config")))
        .map(|folder| folder.join("perhop").join("agent.key"))
        .ok_or(KeyError::Homeless)
}

fn public_file(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

/// Returns the text of a file of at most [`LONGEST_FILE`] bytes.
fn read(path: &Path) -> Result<String, KeyError> {
    let read = || {
        let mut text = String::new();
        io::Read::read_to_string(
            &mut io::Read::take(fs::File::open(path)?, LONGEST_FILE),
            &mut text,
        )?;
        Ok(text)
    };
    read().map_err(|error| KeyError::File(path.into(), error))
}

const USAGE: Usage = Usage {
    command: "key",
    positional: "[FILE]",
    about: "Print the public key of this host or user; create the pair of keys if missing.",
    options: &[],
};

/// Runs the command `perhop-agent key [FILE]`.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let arguments = match USAGE.read(arguments) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let path = match &arguments.positional[..] {
        [] => default_file(),
        [path] => Ok(PathBuf::from(path)),
        _ => return crate::options::wrong("key", "expected one file"),
    };
    match path.and_then(|path| open(&path)) {
        Ok(identity) => {
            println!("{}", identity.public());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("perhop-agent key: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the pair of keys in a file, or creates the file with a new pair.
///
/// # Errors
/// As [`Identity::read`] and [`Identity::write`].
pub fn open(path: &Path) -> Result<Identity, KeyError> {
    match Identity::read(path) {
        Err(KeyError::File(_, error)) if error.kind() == io::ErrorKind::NotFound => {
            let identity = Identity::generate();
            identity.write(path)?;
            Ok(identity)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("perhop-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_pair_is_made_once_and_read_again() {
        let folder = folder("keys");
        let path = folder.join("new").join("agent.key");
        let made = open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(open(&path).unwrap().public(), made.public());
        assert_eq!(PublicKey::read_file(&public_file(&path)).unwrap(), [made.public()]);
        assert!(matches!(made.write(&path), Err(KeyError::File(..))), "nothing is overwritten");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Identity::read(&path), Err(KeyError::Exposed(_))));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn text_is_read_as_it_was_written() {
        let key = Identity::generate().public();
        assert_eq!(key.to_string().parse::<PublicKey>().unwrap(), key);
        assert_eq!(format!(" {key} me@host").parse::<PublicKey>().unwrap(), key);
        assert_eq!(key.spki().len(), 44);
        for wrong in ["", KIND, "perhop-ed25519 AAAA", "ssh-ed25519 AAAA", "perhop-ed25519 ="] {
            assert!(wrong.parse::<PublicKey>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_of_keys_have_comments_and_no_rubbish() {
        let folder = folder("allowed");
        fs::create_dir_all(&folder).unwrap();
        let (one, two) = (Identity::generate().public(), Identity::generate().public());
        let path = folder.join("allowed");
        fs::write(&path, format!("# ours\n\n{one} a\n  {two}\n")).unwrap();
        assert_eq!(PublicKey::read_argument(path.to_str().unwrap()).unwrap(), [one, two]);
        fs::write(&path, format!("{one}\nrubbish\n")).unwrap();
        assert!(matches!(PublicKey::read_file(&path), Err(KeyError::Public(_))));
        fs::remove_dir_all(folder).unwrap();
    }
}
