//! Errors of a controller and its agents.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use perhop_traffic::TrafficError;
use rustls::{AlertDescription, CertificateError, Error as TlsError};
use thiserror::Error;

use crate::channel::ChannelError;
use crate::frames::ErrorCode;
use crate::key::{KeyError, PublicKey};

/// Reason why a live run cannot be started, or ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The list of agents is malformed.
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
        /// Its node.
        node: String,
        /// The text.
        address: String,
        /// The reason.
        error: io::Error,
    },
    /// The agent cannot be reached.
    #[error("agent {node} ({address}): {error}; {}", connecting(error, *address))]
    Connect {
        /// Its node.
        node: String,
        /// Its address.
        address: SocketAddr,
        /// The kernel's error.
        error: io::Error,
    },
    /// The agent has another key.
    #[error("agent {node} ({address}) does not have the key {key}; check its address and its key")]
    WrongKey {
        /// Its node.
        node: String,
        /// Its address.
        address: SocketAddr,
        /// The key that was expected.
        key: PublicKey,
    },
    /// The agent does not allow our key.
    #[error("agent {node} ({address}) does not allow our key; start it with --allow \"{key}\"")]
    NotAllowed {
        /// Its node.
        node: String,
        /// Its address.
        address: SocketAddr,
        /// Our key.
        key: PublicKey,
    },
    /// The connection to the agent has ended.
    #[error("agent {node} ({address}): {error}")]
    Disconnected {
        /// Its node.
        node: String,
        /// Its address.
        address: SocketAddr,
        /// The reason.
        error: ChannelError,
    },
    /// The agent refused a request, or failed.
    #[error("agent {node} ({address}): {message}")]
    Refused {
        /// Its node.
        node: String,
        /// Its address.
        address: SocketAddr,
        /// The kind of error.
        code: ErrorCode,
        /// Its message.
        message: String,
    },
    /// The agent did not answer in time.
    #[error("agent {node} ({address}) has not {what} within {seconds} s")]
    Late {
        /// Its node.
        node: String,
        /// Its address.
        address: SocketAddr,
        /// The request.
        what: &'static str,
        /// The time limit.
        seconds: u64,
    },
    /// A thread cannot be started.
    #[error("no thread can be started: {0}")]
    Thread(io::Error),
}

/// Returns what to check after a failed attempt to connect.
fn connecting(error: &io::Error, address: SocketAddr) -> String {
    match error.kind() {
        ErrorKind::NetworkUnreachable => {
            format!("check the address, and this host's routes (`ip route get {}`)", address.ip())
        }
        ErrorKind::HostUnreachable => {
            "check the address, and whether the host is up and its firewall admits you".into()
        }
        ErrorKind::TimedOut => format!(
            "check the address, and whether firewalls admit TCP to port {}; `perhop-agent serve` \
             listens on loopback without --listen",
            address.port()
        ),
        _ => format!("does `perhop-agent serve --listen {address}` run there?"),
    }
}

/// Returns whether the other side's key is not the expected one.
pub(super) fn is_wrong_key(error: &TlsError) -> bool {
    matches!(error, TlsError::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
}

/// Returns whether the other side does not allow our key.
pub(super) fn is_not_allowed(error: &TlsError) -> bool {
    matches!(error, TlsError::AlertReceived(alert) if matches!(
        alert,
        AlertDescription::AccessDenied | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_connecting_say_what_to_check() {
        let text = |number| {
            let address = "192.0.2.1:4861".parse().unwrap();
            let error = io::Error::from_raw_os_error(number);
            LiveError::Connect { node: "a".into(), address, error }.to_string()
        };
        let refused = text(libc::ECONNREFUSED);
        assert!(refused.contains("`perhop-agent serve --listen 192.0.2.1:4861`"), "{refused}");
        let no_route = text(libc::ENETUNREACH);
        assert!(no_route.contains("ip route get 192.0.2.1"), "{no_route}");
        assert!(!no_route.contains("run there?"), "{no_route}");
        assert!(text(libc::EHOSTUNREACH).contains("host is up"));
        assert!(text(libc::ETIMEDOUT).contains("port 4861"));
    }
}
