//! What can go wrong between a controller and its agents.

use std::io;
use std::net::SocketAddr;

use perhop_traffic::TrafficError;
use rustls::{AlertDescription, CertificateError, Error as TlsError};
use thiserror::Error;

use crate::channel::Gone;
use crate::frames::ErrorCode;
use crate::key::{KeyError, PublicKey};

/// Why a live run cannot be done, or ended before its time.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The list of agents is not one.
    #[error("agents: {0}")]
    Agents(String),
    /// The controller's key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The job cannot be measured.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A name or a text is not an address.
    #[error(
        "agent {node}: {address:?} is not an address; expected one such as 192.0.2.1:4861: {error}"
    )]
    Address {
        /// Whose.
        node: String,
        /// What was given.
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// Nobody answers.
    #[error(
        "agent {node} ({address}): {error}; does `perhop-agent serve --listen {address}` run there?"
    )]
    Connect {
        /// Whose.
        node: String,
        /// Where.
        address: SocketAddr,
        /// What the kernel says.
        error: io::Error,
    },
    /// The agent has another key.
    #[error("agent {node} ({address}) does not have the key {key}; who answers there?")]
    WrongKey {
        /// Whose.
        node: String,
        /// Where.
        address: SocketAddr,
        /// The key that was expected.
        key: PublicKey,
    },
    /// The agent does not allow our key.
    #[error("agent {node} ({address}) does not allow our key; start it with --allow \"{key}\"")]
    NotAllowed {
        /// Whose.
        node: String,
        /// Where.
        address: SocketAddr,
        /// Our key.
        key: PublicKey,
    },
    /// The connection to the agent is over.
    #[error("agent {node} ({address}): {gone}")]
    Gone {
        /// Whose.
        node: String,
        /// Where.
        address: SocketAddr,
        /// Why.
        gone: Gone,
    },
    /// The agent refuses what it was asked, or has failed.
    #[error("agent {node} ({address}): {message}")]
    Refused {
        /// Whose.
        node: String,
        /// Where.
        address: SocketAddr,
        /// The kind of error.
        code: ErrorCode,
        /// What it says.
        message: String,
    },
    /// The agent did not answer in time.
    #[error("agent {node} ({address}) has not {what} within {seconds} s")]
    Late {
        /// Whose.
        node: String,
        /// Where.
        address: SocketAddr,
        /// What it was to do.
        what: &'static str,
        /// How long it had.
        seconds: u64,
    },
    /// A thread cannot be started.
    #[error("no thread can be started: {0}")]
    Thread(io::Error),
}

/// Whether the other side's key is not the one expected.
pub(super) fn is_wrong_key(error: &TlsError) -> bool {
    matches!(error, TlsError::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
}

/// Whether the other side says that our key is not allowed.
pub(super) fn is_not_allowed(error: &TlsError) -> bool {
    matches!(error, TlsError::AlertReceived(alert) if matches!(
        alert,
        AlertDescription::AccessDenied | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
    ))
}
