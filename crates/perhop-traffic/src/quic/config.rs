//! Settings of quinn's connections, and the keys of TLS.

use std::sync::Arc;
use std::time::Duration;

use perhop_workload::{CongestionPlan, QuicPlan};
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt,
};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::Resumption;
use rustls::crypto::ring::{default_provider, sign::any_eddsa_type};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::version;

use crate::keys::KnownKeys;

/// Data of a handshake that may arrive before data that precedes it: certificates of any size.
const CRYPTO_BUFFER: usize = 1 << 17;

/// Key of all servers of a run, which their clients know.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    key: Arc<dyn SigningKey>,
    public: SubjectPublicKeyInfoDer<'static>,
}

impl Identity {
    /// Returns a new key.
    pub fn generate() -> Result<Self, String> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let pkcs8 = pkcs8.map_err(|_| "the system has no random numbers for a key".to_owned())?;
        let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec());
        let key = any_eddsa_type(&pkcs8).map_err(|error| error.to_string())?;
        let public = key.public_key().ok_or("a key without a public key")?.into_owned();
        Ok(Self { key, public })
    }
}

/// Bytes in place of certificates, with the key of the run. They have the size of certificates;
/// their contents do not matter, because the client knows the key.
#[derive(Debug)]
struct Stand(Arc<CertifiedKey>);

impl ResolvesServerCert for Stand {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// Returns the settings of the end that opens the connection: the sender, or a client.
pub(super) fn client(
    identity: &Identity,
    plan: &QuicPlan,
    requests: Option<u32>,
) -> Result<ClientConfig, String> {
    let known = KnownKeys::behind_zeros(identity.public.clone());
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| error.to_string())?;
    let mut tls = tls.dangerous().with_custom_certificate_verifier(known).with_no_client_auth();
    tls.resumption = Resumption::disabled();
    let tls = QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?;
    let mut transport = transport(plan)?;
    send_data(&mut transport, plan)?;
    if requests.is_none() {
        ask_for_acks(&mut transport, plan)?;
    }
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Returns the settings of the end that accepts the connection: the receiver, or the server of
/// clients with as many `requests` at once.
pub(super) fn server(
    identity: &Identity,
    plan: &QuicPlan,
    requests: Option<u32>,
) -> Result<ServerConfig, String> {
    let certificates = vec![CertificateDer::from(vec![0; plan.certificates as usize])];
    let key = CertifiedKey::new(certificates, Arc::clone(&identity.key));
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| error.to_string())?;
    let mut tls = tls.with_no_client_auth().with_cert_resolver(Arc::new(Stand(Arc::new(key))));
    tls.session_storage = Arc::new(NoServerSessionStorage {});
    tls.send_tls13_tickets = 0;
    let tls = QuicServerConfig::try_from(tls).map_err(|error| error.to_string())?;
    let mut transport = transport(plan)?;
    match requests {
        Some(requests) => {
            transport.max_concurrent_bidi_streams(VarInt::from_u32(requests));
            send_data(&mut transport, plan)?;
            ask_for_acks(&mut transport, plan)?;
        }
        None => {
            transport.max_concurrent_uni_streams(VarInt::from_u32(plan.streams));
        }
    }
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(Arc::new(transport)).migration(false);
    Ok(config)
}

/// Returns the settings of all ends.
fn transport(plan: &QuicPlan) -> Result<TransportConfig, String> {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(None)
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(number(plan.stream_window)?)
        .receive_window(number(plan.window)?)
        // The window of flow control limits what is in flight, not the sender's buffer.
        .send_window(plan.window.saturating_mul(2))
        .initial_mtu(plan.datagram)
        .mtu_discovery_config(None)
        .crypto_buffer_size(CRYPTO_BUFFER)
        .datagram_receive_buffer_size(None)
        .enable_segmentation_offload(false);
    Ok(transport)
}

/// Adds the settings of an end that sends data.
fn send_data(transport: &mut TransportConfig, plan: &QuicPlan) -> Result<(), String> {
    transport.congestion_controller_factory(congestion(plan)?);
    if plan.max_datagram > plan.datagram {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(plan.max_datagram);
        transport.mtu_discovery_config(Some(discovery));
    }
    Ok(())
}

/// Adds the frequency of acknowledgements that the source of the flow's data requests.
fn ask_for_acks(transport: &mut TransportConfig, plan: &QuicPlan) -> Result<(), String> {
    if let Some(asked) = &plan.ack_frequency {
        let mut frequency = AckFrequencyConfig::default();
        frequency
            .ack_eliciting_threshold(number(asked.threshold)?)
            .reordering_threshold(number(asked.reordering)?)
            .max_ack_delay(Some(Duration::from_nanos(asked.max_delay.as_picos() / 1_000)));
        transport.ack_frequency_config(Some(frequency));
    }
    Ok(())
}

fn number(value: u64) -> Result<VarInt, String> {
    VarInt::from_u64(value).map_err(|_| format!("{value} does not fit a number of QUIC"))
}

/// Returns the factory of a congestion control.
fn congestion(plan: &QuicPlan) -> Result<Arc<dyn ControllerFactory + Send + Sync>, String> {
    let datagram = u64::from(plan.datagram);
    // RFC 9002, section 7.2.
    let usual = (10 * datagram).min(14_720.max(2 * datagram));
    let window = plan.initial_window.map_or(usual, |packets| u64::from(packets) * datagram);
    Ok(match plan.congestion_control {
        CongestionPlan::Cubic => {
            let mut cubic = CubicConfig::default();
            cubic.initial_window(window);
            Arc::new(cubic)
        }
        CongestionPlan::Reno => {
            let mut reno = NewRenoConfig::default();
            reno.initial_window(window);
            Arc::new(reno)
        }
        CongestionPlan::Bbr1 => {
            let mut bbr = BbrConfig::default();
            bbr.initial_window(window);
            Arc::new(bbr)
        }
        other => return Err(format!("quinn has no congestion control {other:?}")),
    })
}
