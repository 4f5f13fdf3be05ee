//! Readings of connections: those of streams, and those of clients of applications.

use std::sync::atomic::Ordering;

use perhop_core::{Duration, Time};
use perhop_measure::Histogram;
use perhop_socket::{Nanos, TcpInfo};

use super::StreamHistory;
use crate::app::{self, Completed};
use crate::clock::duration;
use crate::open::clamp_window;
use crate::readings::{ConnectionReceiver, ConnectionSender};
use crate::shared::Shared;
use crate::stream::{FlowState, StreamState, lock};
use crate::tcp;

/// Returns the number of streams, and of connections of clients.
pub(super) fn connections(shared: &Shared) -> Nanos {
    let streams = shared.flows.iter().flat_map(|flow| &flow.streams);
    let number = |stream: &StreamState| match (&stream.quic, &stream.client) {
        (Some(quic), _) => lock(quic).connections(),
        (None, Some(client)) => lock(client).connections(),
        (None, None) => 1,
    };
    streams.map(|stream| number(stream) as Nanos).sum()
}

pub(super) fn sample_connection(
    flow: &FlowState,
    stream: &StreamState,
    history: &mut StreamHistory,
    srtts: &mut Histogram,
) {
    let mut add = |srtt| {
        history.srtt.add(srtt);
        srtts.add(srtt);
    };
    if let Some(quic) = &stream.quic {
        return lock(quic).take_srtts().for_each(add);
    }
    if let Some(client) = &stream.client {
        return app::sample(client, add);
    }
    if let Some(receiver) = stream.receiver.get() {
        clamp_window(receiver, flow.window);
    }
    let Some(sender) = stream.open_sender() else { return };
    let Ok(info) = TcpInfo::of(sender) else { return };
    history.window = history.window.max(info.snd_wnd);
    if info.segs_in != history.segments && info.rtt > 0 {
        history.segments = info.segs_in;
        add(Duration::from_micros(info.rtt.into()));
    }
    let unsent = tcp::unsent(info.delivery_rate);
    if unsent / 2 >= history.unsent || unsent <= history.unsent / 2 {
        history.unsent = unsent;
        let option = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
        let _ = sender.set_bytes(option, &unsent.to_ne_bytes());
    }
}

/// Returns the reading of a stream's receiver, and the segments that have arrived there, unless
/// packets are observed one by one.
pub(super) fn connection_receiver(
    flow: &FlowState,
    stream: &StreamState,
) -> (ConnectionReceiver, Option<u64>) {
    let delivered = stream.delivered.load(Ordering::Relaxed);
    let marked = flow.watched.destination.then(|| stream.marked.load(Ordering::Relaxed));
    let completion = stream.completion.load(Ordering::Relaxed);
    let completion = flow.volume.filter(|_| completion > 0).map(|_| duration(completion));
    if let Some(quic) = &stream.quic {
        return (lock(quic).receiver(delivered, completion), None);
    }
    if let Some(client) = &stream.client {
        let (reading, arrived) = app::receiver(client);
        return (ConnectionReceiver { delivered, marked, ..reading }, Some(arrived));
    }
    let info = stream.receiver.get().and_then(|socket| TcpInfo::of(socket).ok());
    let info = info.unwrap_or_default();
    let before = stream.before(0);
    let acks = |info: &TcpInfo| info.segs_out.saturating_sub(info.data_segs_out);
    let reading = ConnectionReceiver {
        delivered,
        packets: info.data_segs_in.saturating_sub(before.data_segs_in).into(),
        marked,
        acks: acks(&info).saturating_sub(acks(&before)).into(),
        completion,
    };
    (reading, Some(info.segs_in.saturating_sub(before.segs_in).into()))
}

/// Returns the reading of a stream's sender, and the segments that have arrived there, unless
/// packets are observed one by one.
pub(super) fn connection_sender(
    stream: &StreamState,
    history: &mut StreamHistory,
) -> (ConnectionSender, Option<u64>) {
    if let Some(quic) = &stream.quic {
        return (lock(quic).sender(std::mem::take(&mut history.srtt)), None);
    }
    if let Some(client) = &stream.client {
        let (reading, arrived) = app::sender(client);
        let srtt = std::mem::take(&mut history.srtt);
        return (ConnectionSender { srtt, ..reading }, Some(arrived));
    }
    let Some(socket) = stream.open_sender() else { return (Default::default(), Some(0)) };
    let info = TcpInfo::of(socket).unwrap_or_default();
    let before = stream.before(1);
    let reading = ConnectionSender {
        retransmits: info.total_retrans.saturating_sub(before.total_retrans).into(),
        repeated: info.dsack_dups.saturating_sub(before.dsack_dups).into(),
        reordered: info.reord_seen.into(),
        echoed: info.delivered_ce.saturating_sub(before.delivered_ce).into(),
        cwnd: Some(u64::from(info.snd_cwnd) * u64::from(info.snd_mss)),
        window: history.window,
        acked: None,
        srtt: std::mem::take(&mut history.srtt),
    };
    (reading, Some(info.segs_in.saturating_sub(before.segs_in).into()))
}

/// Returns what each client of a flow has completed; nothing without clients.
pub(super) fn completed(flow: &FlowState, at: Time) -> Vec<Completed> {
    let clients = flow.streams.iter().filter_map(|stream| stream.client.as_ref());
    clients.map(|client| lock(client).completed(at)).collect()
}
