//! TLS 1.3 (RFC 8446) with raw public keys (RFC 7250) instead of certificates on both sides. Each
//! side knows the other's public key beforehand.

use std::sync::Arc;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    Error, PeerIncompatible, ServerConfig, ServerConnection, SignatureScheme,
};

use crate::key::{Identity, PublicKey};

/// The application protocol (RFC 7301), so that messages of other protocols are not accepted.
const PROTOCOL: &[u8] = b"perhop-agent";

/// Verifier that accepts given public keys.
#[derive(Debug)]
struct Pinned {
    keys: Vec<Vec<u8>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn new(keys: &[PublicKey]) -> Arc<Self> {
        let keys = keys.iter().map(PublicKey::spki).collect();
        let algorithms = default_provider().signature_verification_algorithms;
        Arc::new(Self { keys, algorithms })
    }

    fn check(&self, key: &CertificateDer<'_>) -> Result<(), Error> {
        match self.keys.iter().any(|allowed| allowed == key.as_ref()) {
            true => Ok(()),
            false => {
                Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
            }
        }
    }
}

/// The methods that both verifiers share: signatures of TLS 1.3 with raw Ed25519 keys.
macro_rules! raw_public_keys {
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
            key: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key).map(|()| ServerCertVerified::assertion())
    }

    raw_public_keys!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key).map(|()| ClientCertVerified::assertion())
    }

    raw_public_keys!();
}

fn certified(identity: &Identity) -> Result<Arc<CertifiedKey>, Error> {
    let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(identity.pkcs8()))?;
    let public = CertificateDer::from(identity.public().spki());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

/// Returns the TLS configuration of an agent that accepts only these keys.
pub fn agent(identity: &Identity, allowed: &[PublicKey]) -> Result<Arc<ServerConfig>, Error> {
    let keys = AlwaysResolvesServerRawPublicKeys::new(certified(identity)?);
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Pinned::new(allowed))
        .with_cert_resolver(Arc::new(keys));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // No resumption: every connection proves its keys.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Returns the TLS configuration of a controller for the agent with this key.
pub fn controller(identity: &Identity, agent: PublicKey) -> Result<Arc<ClientConfig>, Error> {
    let keys = AlwaysResolvesClientRawPublicKeys::new(certified(identity)?);
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Pinned::new(&[agent]))
        .with_client_cert_resolver(Arc::new(keys));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.enable_sni = false;
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Returns an agent's side of a new connection.
pub fn accept(config: &Arc<ServerConfig>) -> Result<rustls::Connection, Error> {
    Ok(ServerConnection::new(Arc::clone(config))?.into())
}

/// Returns a controller's side of a new connection.
pub fn connect(config: &Arc<ClientConfig>) -> Result<rustls::Connection, Error> {
    // The name is not verified; the key is.
    let name = ServerName::try_from("perhop-agent").expect("a name");
    Ok(ClientConnection::new(Arc::clone(config), name)?.into())
}
