//! Peers of TLS 1.3 (RFC 8446) whose Ed25519 keys are known beforehand, without authorities.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    SignatureScheme,
};

/// Verifier that accepts peers with known keys.
#[derive(Debug)]
pub struct KnownKeys {
    keys: Vec<SubjectPublicKeyInfoDer<'static>>,
    /// True if peers send zeros, which have the size of certificates, in place of their key.
    zeros: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl KnownKeys {
    fn new(keys: Vec<SubjectPublicKeyInfoDer<'static>>, zeros: bool) -> Arc<Self> {
        let algorithms = default_provider().signature_verification_algorithms;
        Arc::new(Self { keys, zeros, algorithms })
    }

    /// Returns the verifier of peers that send their raw public keys (RFC 7250), each of which is
    /// one of `keys`, a SubjectPublicKeyInfo in DER.
    pub fn raw(keys: impl IntoIterator<Item = Vec<u8>>) -> Arc<Self> {
        Self::new(keys.into_iter().map(SubjectPublicKeyInfoDer::from).collect(), false)
    }

    /// Returns the verifier of a peer with this key, which sends zeros in place of certificates.
    pub(crate) fn behind_zeros(key: SubjectPublicKeyInfoDer<'static>) -> Arc<Self> {
        Self::new(vec![key], true)
    }

    /// Returns the key of a peer by what it has sent.
    fn key(&self, sent: &CertificateDer<'_>) -> Result<&SubjectPublicKeyInfoDer<'static>, Error> {
        let mut keys = self.keys.iter();
        let key = match self.zeros {
            true => keys.next().filter(|_| sent.iter().all(|&byte| byte == 0)),
            false => keys.find(|key| key.as_ref() == sent.as_ref()),
        };
        let unknown = CertificateError::ApplicationVerificationFailure;
        key.ok_or(Error::InvalidCertificate(unknown))
    }
}

/// The methods that the verifiers of both sides share.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            sent: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = self.key(sent)?;
            verify_tls13_signature_with_raw_key(message, key, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            !self.zeros
        }
    };
}

impl ServerCertVerifier for KnownKeys {
    fn verify_server_cert(
        &self,
        sent: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.key(sent).map(|_| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for KnownKeys {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        sent: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.key(sent).map(|_| ClientCertVerified::assertion())
    }

    signatures!();
}
