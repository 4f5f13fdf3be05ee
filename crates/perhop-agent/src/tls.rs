//! TLS 1.3 (RFC 8446) with raw public keys (RFC 7250) instead of certificates on both sides. Each
//! side knows the other's public key beforehand.

use std::sync::Arc;

use perhop_traffic::KnownKeys;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::crypto::ring::default_provider;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, Error, ServerConfig, ServerConnection};

use crate::key::{Identity, PublicKey};

/// The application protocol (RFC 7301), so that messages of other protocols are not accepted.
const PROTOCOL: &[u8] = b"perhop-agent";

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
        .with_client_cert_verifier(KnownKeys::raw(allowed.iter().map(PublicKey::spki)))
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
        .with_custom_certificate_verifier(KnownKeys::raw([agent.spki()]))
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
