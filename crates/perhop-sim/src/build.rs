//! Builds endpoints from flows and pings.

use std::collections::BTreeSet;

use perhop_app::ApplicationPlan;
use perhop_core::{AckHint, Duration, Ecn, Header, NodeId, Protocol, Stream, Time, TrafficClass};
use perhop_measure::{Pinger, Samples};
use perhop_plan::BuildError;
use perhop_quic::{AckFrequency, sizes};
use perhop_tcp::{
    Congestion, CubicConfig, Handshake, LossDetection, Receiver, ReceiverConfig, Sender,
    SenderConfig, TIMESTAMP_BYTES, autotuned_shift, window_shift,
};
use perhop_workload::{
    CallCounters, CongestionPlan, CubicPlan, DecreaseFromPlan, FIRST_SOURCE_PORT, FlowPlan,
    MAX_PAYLOAD, PingPlan, QuicPlan, TcpPlan, TransportPlan, UdpPlan, WorkloadError, pattern,
    playout,
};

use crate::hosts::{
    ClientHost, ConnectionConfig, DATAGRAM_HEADER, Endpoint, Line, OverQuic, OverTcp, PacedWriter,
    QuicReceiver, QuicSender, Role, Schedule, Socket, SrttReadings, StreamPhase, TcpReceiver,
    TcpSender, Transport, UdpReceiver, UdpSender,
};

/// Returns the two endpoints of a stream, the sender first.
pub(crate) fn stream(
    flow: &FlowPlan,
    owner: usize,
    (from, to): (NodeId, NodeId),
    number: usize,
    sender: usize,
    seed: u64,
) -> Result<[Endpoint; 2], BuildError> {
    let schedule = Schedule {
        start: flow.start_of(number),
        stop: flow.stop.unwrap_or(Time::MAX),
        volume: flow.volume.unwrap_or(u64::MAX),
    };
    let ecn = match &flow.transport {
        TransportPlan::Udp(UdpPlan { ecn: Some(ecn), .. }) => *ecn,
        _ => Ecn::NotEct,
    };
    let (protocol, [sends, receives], [asks, answers]) = match &flow.transport {
        TransportPlan::Tcp(plan) => {
            (Protocol::Tcp, tcp(flow, plan, schedule, number, seed)?, handshakes(plan).map(Some))
        }
        TransportPlan::Udp(plan) => {
            (Protocol::Udp, udp(flow, plan, schedule, number, seed)?, [None; 2])
        }
        TransportPlan::Quic(plan) => {
            (Protocol::Udp, quic(flow, plan, schedule, number, seed)?, [None; 2])
        }
    };
    // Plans have at most 65535 streams of a flow.
    let stream = number as u16;
    let source_port = flow.required_source_port(stream)?;
    let there = Header {
        size: Line::beyond_ipv4(flow.version()),
        source: from,
        destination: to,
        source_port: source_port.unwrap_or(FIRST_SOURCE_PORT.wrapping_add(stream)),
        destination_port: flow.port,
        protocol: protocol.over(flow.version()).into(),
        traffic_class: TrafficClass::new(flow.dscp).with_ecn(ecn),
        ttl: Header::TTL,
        ack: AckHint::NONE,
    };
    let back = Header {
        source: to,
        destination: from,
        source_port: there.destination_port,
        destination_port: there.source_port,
        ..there
    };
    let endpoint = |header, peer: usize, handshake, role| {
        Endpoint::new(Line { header, peer: peer as u32, handshake }, owner as u32, role)
    };
    Ok([endpoint(there, sender + 1, asks, sends), endpoint(back, sender, answers, receives)])
}

/// Returns the options that both ends of a connection exchange. The sender receives no data and
/// never offers more than 65535 bytes of window, but window scaling needs both sides (RFC 7323,
/// section 2.2).
fn handshakes(plan: &TcpPlan) -> [Handshake; 2] {
    // The MSS is the size of a packet without options; later options do not reduce it (RFC 9293,
    // section 3.7.1).
    let options = if plan.timestamps { TIMESTAMP_BYTES as u16 } else { 0 };
    let says = |shift| Handshake {
        mss: plan.mss.saturating_add(options),
        window_shift: plan.window_scaling.then_some(shift),
        sack: plan.sack,
    };
    let shift = if plan.autotuning { autotuned_shift } else { window_shift };
    [says(0), says(shift(plan.receive_window))]
}

fn tcp(
    flow: &FlowPlan,
    plan: &TcpPlan,
    schedule: Schedule,
    number: usize,
    seed: u64,
) -> Result<[Role; 2], BuildError> {
    let (sender, receiver) = configs(flow, plan, number, seed)?;
    let sender = TcpSender {
        sender: Sender::new(sender),
        schedule,
        phase: StreamPhase::Waiting,
        rtt: Samples::default(),
        srtt: Samples::default(),
        srtt_readings: SrttReadings::NONE,
        lost: 0,
        small_queues: plan.small_queues,
        socket: Socket::default(),
        writer: plan.writes.map(|writes| Box::new(PacedWriter::new(writes, schedule))),
    };
    let receiver = TcpReceiver { receiver: Receiver::new(receiver), delay: Samples::default() };
    Ok([Role::TcpSender(Box::new(sender)), Role::TcpReceiver(Box::new(receiver))])
}

/// Returns the settings of a stream's sender and receiver.
fn configs(
    flow: &FlowPlan,
    plan: &TcpPlan,
    number: usize,
    seed: u64,
) -> Result<(SenderConfig, ReceiverConfig), BuildError> {
    if plan.mss == 0 {
        return Err(BuildError::Zero("a segment size"));
    }
    let sender = SenderConfig {
        mss: plan.mss,
        window: plan.send_window,
        initial_window: plan.initial_window,
        rto_rule: plan.rto_rule,
        min_rto: plan.min_rto,
        congestion: congestion(plan.congestion_control, cubic(plan), flow, number, seed),
        decrease_from_window: plan.decrease_from == DecreaseFromPlan::Window,
        loss_detection: match (plan.sack, plan.rack) {
            (false, _) => LossDetection::Duplicates,
            (true, false) => LossDetection::Sack,
            (true, true) => LossDetection::Rack,
        },
        adaptive_reordering: plan.adaptive_reordering,
        undo: plan.undo,
        frto: plan.frto && plan.undo,
        prr: plan.prr,
        limited_transmit: plan.limited_transmit,
        timestamps: plan.timestamps,
        ecn: plan.ecn,
        pacing: plan.pacing,
        tick_phase: tick_phase(&flow.name, number, seed),
        tso_divisor: TSO_DIVISOR,
    };
    let receiver = ReceiverConfig {
        window: plan.receive_window,
        autotuning: plan.autotuning.then_some(plan.mss),
        quick_acks: plan.quick_acks.then_some(plan.mss),
        delayed_ack: plan.delayed_ack,
        sack: plan.sack,
        dsack: plan.dsack,
        window_scaling: plan.window_scaling,
        timestamps: plan.timestamps,
        ecn: plan.ecn,
    };
    Ok((sender, receiver))
}

/// Returns the phase of the ticks of a host's timers, up to 4 ms.
fn tick_phase(name: &str, number: usize, seed: u64) -> Duration {
    let mut random = Stream::new(seed, &format!("{name} {number} ticks"));
    Duration::from_micros(random.up_to(3_999))
}

/// Returns the endpoint of a client of an application.
pub(crate) fn client(
    flow: &FlowPlan,
    application: &ApplicationPlan,
    owner: usize,
    (from, to): (NodeId, NodeId),
    number: usize,
    seed: u64,
) -> Result<Endpoint, BuildError> {
    let span = (flow.start_of(number), flow.stop.unwrap_or(Time::MAX));
    let client = application.client(&flow.name, number, span, seed).map_err(WorkloadError::from)?;
    let (protocol, control, transport) = match &flow.transport {
        TransportPlan::Tcp(plan) => {
            let (sender, receiver) = configs(flow, plan, number, seed)?;
            let [_, handshake] = handshakes(plan);
            let small_queues = plan.small_queues;
            let tcp = OverTcp { sender, receiver, handshake, small_queues };
            (Protocol::Tcp, plan.congestion_control, Transport::Tcp(tcp))
        }
        TransportPlan::Quic(plan) => {
            let sender = quic_sender(flow, plan, number, seed)?;
            let quic = OverQuic { sender, certificates: plan.certificates, waits: plan.waits };
            (Protocol::Udp, plan.congestion_control, Transport::Quic(quic))
        }
        TransportPlan::Udp(_) => {
            return Err(WorkloadError::NoConnections(flow.name.clone()).into());
        }
    };
    let header = Header {
        size: Line::beyond_ipv4(flow.version()),
        source: to,
        destination: from,
        source_port: FIRST_SOURCE_PORT.wrapping_add(number as u16),
        destination_port: flow.port,
        protocol: protocol.over(flow.version()).into(),
        traffic_class: TrafficClass::new(flow.dscp),
        ttl: Header::TTL,
        ack: AckHint::NONE,
    };
    let config = ConnectionConfig {
        transport,
        header,
        clients: flow.streams,
        congestion: match control {
            CongestionPlan::Bbr => Some(|seed, name| Congestion::bbr(Stream::new(seed, name))),
            CongestionPlan::Bbr1 => Some(|seed, name| Congestion::bbr1(Stream::new(seed, name))),
            _ => None,
        },
        seed,
        name: format!("{} {number}", flow.name),
    };
    let role = Role::Client(Box::new(ClientHost::new(client, config)));
    let line = Line { header, peer: 0, handshake: None };
    Ok(Endpoint::new(line, owner as u32, role))
}

/// Returns a stream's congestion control in its initial state.
fn congestion(
    plan: CongestionPlan,
    cubic: CubicConfig,
    flow: &FlowPlan,
    number: usize,
    seed: u64,
) -> Congestion {
    let probes = || Stream::new(seed, &format!("{} {number} probes", flow.name));
    match plan {
        CongestionPlan::Reno => Congestion::Reno,
        CongestionPlan::Cubic => Congestion::cubic(cubic),
        CongestionPlan::Ledbat => Congestion::ledbat(),
        CongestionPlan::Dctcp => Congestion::dctcp(),
        CongestionPlan::Prague => Congestion::prague(),
        CongestionPlan::Bbr => Congestion::bbr(probes()),
        CongestionPlan::Bbr1 => Congestion::bbr1(probes()),
    }
}

/// Share of the window that Linux's senders do not defer: a third (tcp_tso_win_divisor).
const TSO_DIVISOR: u32 = 3;

/// Greatest number of streams of a connection of QUIC.
const MOST_QUIC_STREAMS: u32 = 1000;

/// Returns the settings of the end of a connection that opens it.
fn quic_sender(
    flow: &FlowPlan,
    plan: &QuicPlan,
    number: usize,
    seed: u64,
) -> Result<perhop_quic::SenderConfig, BuildError> {
    if plan.streams == 0 || plan.window == 0 || plan.stream_window == 0 {
        return Err(BuildError::Zero("the number of streams of a connection, and a window"));
    }
    if plan.streams > MOST_QUIC_STREAMS {
        return Err(BuildError::TooLarge("a connection has more than 1000 streams"));
    }
    if plan.datagram < sizes::LEAST_DATAGRAM || plan.max_datagram > MAX_PAYLOAD {
        return Err(BuildError::TooLarge("datagrams of QUIC have 1200 to 65507 bytes"));
    }
    if plan.certificates > sizes::MOST_CERTIFICATES {
        return Err(BuildError::TooLarge("certificates have at most 65535 bytes"));
    }
    let hystart = CubicConfig { hystart: plan.hystart, reno_friendly: true, linux: false };
    Ok(perhop_quic::SenderConfig {
        congestion: congestion(plan.congestion_control, hystart, flow, number, seed),
        datagram: plan.datagram,
        most_datagram: plan.max_datagram,
        initial_window: plan.initial_window.map(|n| u64::from(n) * u64::from(plan.datagram)),
        pacing: plan.pacing,
        ecn: plan.ecn,
        ack_frequency: plan.ack_frequency.map(|plan| AckFrequency {
            threshold: plan.threshold,
            max_delay: plan.max_delay,
            reordering: plan.reordering,
        }),
        streams: plan.streams,
        limits: [plan.stream_window, plan.window],
        certificates: None,
    })
}

fn quic(
    flow: &FlowPlan,
    plan: &QuicPlan,
    schedule: Schedule,
    number: usize,
    seed: u64,
) -> Result<[Role; 2], BuildError> {
    let config = quic_sender(flow, plan, number, seed)?;
    let receiver = perhop_quic::Receiver::new(&perhop_quic::ReceiverConfig {
        streams: plan.streams,
        windows: config.limits,
        certificates: plan.certificates,
    });
    let sender = QuicSender {
        sender: perhop_quic::Sender::new(config),
        schedule,
        phase: StreamPhase::Waiting,
        rtt: Samples::default(),
        srtt: Samples::default(),
        srtt_readings: SrttReadings::NONE,
        lost: 0,
        waits: plan.waits,
        socket: Socket::default(),
    };
    let receiver = QuicReceiver { receiver, delay: Samples::default() };
    Ok([Role::QuicSender(Box::new(sender)), Role::QuicReceiver(Box::new(receiver))])
}

fn cubic(plan: &TcpPlan) -> CubicConfig {
    CubicConfig {
        hystart: plan.hystart,
        reno_friendly: plan.reno_friendly,
        linux: plan.cubic == CubicPlan::Linux,
    }
}

fn udp(
    flow: &FlowPlan,
    plan: &UdpPlan,
    schedule: Schedule,
    number: usize,
    seed: u64,
) -> Result<[Role; 2], BuildError> {
    let mut pattern = pattern(plan, &flow.name, number, seed)?;
    let sender = UdpSender {
        stop: schedule.stop,
        left: schedule.volume,
        sent: 0,
        lost: 0,
        due: schedule.start + pattern.first(),
        pattern,
        when_full: plan.when_full,
        socket: Socket::default(),
        unconfirmed: None,
        refused: None,
        not_before: Time::ZERO,
        link_mtu: u32::MAX,
        mtu: u32::MAX,
        lost_parts: BTreeSet::new(),
    };
    let call = playout(flow, number, seed)?.map(|playout| (playout, CallCounters::default()));
    let receiver = UdpReceiver { call, ..UdpReceiver::default() };
    Ok([Role::UdpSender(Box::new(sender)), Role::UdpReceiver(Box::new(receiver))])
}

pub(crate) fn pinger(
    plan: &PingPlan,
    owner: usize,
    (source, destination): (NodeId, NodeId),
    id: usize,
) -> Result<Endpoint, BuildError> {
    plan.check()?;
    let [first, last] = plan.ttl;
    let (protocol, source_port, destination_port) = match plan.udp_port {
        Some(port) => (Protocol::Udp, FIRST_SOURCE_PORT.wrapping_add(owner as u16), port),
        None => (Protocol::Icmp, 0, 0),
    };
    let header = Header {
        size: Line::beyond_ipv4(plan.version()) + DATAGRAM_HEADER + u32::from(plan.size),
        source,
        destination,
        source_port,
        destination_port,
        protocol: protocol.over(plan.version()).into(),
        traffic_class: plan.traffic_class(),
        ttl: first,
        ack: AckHint::NONE,
    };
    let span = (plan.start, plan.stop);
    let pinger = Pinger::new(span, plan.every, first..=last, plan.train);
    let role = Role::Pinger(Box::new(pinger));
    let line = Line { header, peer: id as u32, handshake: None };
    Ok(Endpoint::new(line, owner as u32, role))
}
