//! A flow as a test of iperf3.

use perhop_core::{Time, TrafficClass};
use perhop_traffic::{End, linux_name};
use perhop_workload::{
    CongestionPlan, DatagramSizesPlan, DistributionPlan, FlowPlan, TransportPlan,
};

use crate::iperf3::Parameters;

/// A flow as a test of iperf3.
#[derive(Clone, Debug)]
pub(super) struct Test {
    /// Number of the flow.
    pub flow: usize,
    /// Its name.
    pub name: String,
    pub parameters: Parameters,
    /// True if this agent sends.
    pub sends: bool,
    pub udp: bool,
    pub streams: usize,
    pub start: Time,
    /// Its stop, or the end of the scenario.
    pub end: Time,
    /// Greatest volume of each stream in bytes.
    pub volume: Option<u64>,
    /// End of the test that uses the server before.
    pub after: Option<Time>,
}

impl Test {
    /// Returns the test of a flow whose `server` is the end that is a server of iperf3. `last` is
    /// the end of the scenario.
    ///
    /// # Errors
    /// A message that names the flow and the setting that iperf3 does not have.
    pub fn new(number: usize, flow: &FlowPlan, server: End, last: Time) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("flow {}: iperf3 has no {what}", flow.name));
        if flow.source_port.is_some() {
            return wrong("setting of the source ports of its streams");
        }
        if !flow.starts.is_empty() {
            return wrong("streams that start at different times");
        }
        let sends = server == End::Destination;
        let end = flow.stop.map_or(last, |stop| stop.min(last));
        let seconds = end.as_picos().saturating_sub(flow.start.as_picos()).div_ceil(SECOND);
        let mut parameters = Parameters {
            // The client ends the test, and some servers limit its declared duration.
            time: Some(seconds.max(1)),
            parallel: Some(flow.streams.into()),
            reverse: !sends,
            client_version: Some("3.12".to_owned()),
            ..Parameters::default()
        };
        let mut class = TrafficClass::new(flow.dscp);
        match &flow.transport {
            TransportPlan::Tcp(tcp) => {
                parameters.tcp = true;
                parameters.len = Some(tcp.writes.map_or(BLOCK, |writes| writes.block.get()));
                parameters.bandwidth = tcp.writes.map(|writes| writes.rate.bits_per_second());
                // The default of the server's host, unless the flow has another one than that.
                if !matches!(tcp.congestion_control, CongestionPlan::Cubic) {
                    parameters.congestion = Some(linux_name(tcp.congestion_control).to_owned());
                }
                // It does not include TCP options (RFC 9293, section 3.7.1).
                let options = if tcp.timestamps { 12 } else { 0 };
                let mss = (tcp.mss != USUAL_MSS).then(|| u64::from(tcp.mss) + options);
                parameters.mss = mss;
            }
            TransportPlan::Udp(udp) => {
                let constant = matches!(udp.gaps, DistributionPlan::Constant)
                    && matches!(udp.sizes, DatagramSizesPlan::Constant);
                if !constant || udp.bursts.is_some() || udp.replay.is_some() {
                    return wrong("datagrams of random sizes or at random times");
                }
                let size = udp.size.saturating_sub(udp.layer.header());
                let rate = u128::from(udp.rate) * u128::from(size) / u128::from(udp.size.max(1));
                parameters.udp = true;
                parameters.len = Some(size.into());
                parameters.bandwidth = Some((rate as u64).max(1));
                parameters.udp_counters_64bit = size >= WIDE;
                class = class.with_ecn(udp.ecn.unwrap_or(perhop_core::Ecn::NotEct));
            }
            TransportPlan::Quic(_) => return wrong("QUIC"),
        }
        parameters.tos = Some(class.octet().into());
        Ok(Self {
            flow: number,
            name: flow.name.clone(),
            udp: parameters.udp,
            parameters,
            sends,
            streams: flow.streams.into(),
            start: flow.start,
            end,
            volume: flow.volume,
            after: None,
        })
    }
}

/// Picoseconds in a second.
const SECOND: u64 = 1_000_000_000_000;
/// Block of TCP in bytes, iperf3's default.
const BLOCK: u64 = 128 << 10;
/// Maximum segment size with Ethernet's MTU and time stamps, in bytes.
const USUAL_MSS: u16 = 1448;
/// Size of the least datagram that has room for a sequence number of 64 bits, in bytes.
const WIDE: u16 = 16;
