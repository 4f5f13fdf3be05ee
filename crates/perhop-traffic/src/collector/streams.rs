//! Readings of both ends of a stream, joined.

use perhop_measure::{Known, OrderCounts, StreamCounters, StreamReading};
use perhop_workload::CallCounters;

use super::{FlowRecord, StreamRecord};
use crate::live::End;
use crate::readings::{
    ConnectionReceiver, ConnectionSender, DatagramReceiver, DatagramSender, DestinationReading,
    ReceiverReadings, SenderReadings, SourceReading, StreamResult,
};
use perhop_socket::Nanos;

/// Time in transit after which a datagram counts as lost, beyond twice the longest delay so far.
/// Datagrams that one with a higher number has overtaken count as lost sooner.
const LOSS_TIMEOUT: Nanos = 1_000_000_000;

pub(super) fn total(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

impl SourceReading {
    /// Returns the greatest window that was offered to one of its connections, in bytes; zero for
    /// datagrams.
    pub(super) fn window(&self) -> u32 {
        match &self.streams {
            SenderReadings::Tcp(streams) => {
                streams.iter().map(|stream| stream.window).max().unwrap_or(0)
            }
            SenderReadings::Udp(_) => 0,
        }
    }
}

impl DestinationReading {
    /// Returns the counters of a call, given by its number in the flow.
    pub(super) fn call(&self, number: usize) -> Option<CallCounters> {
        match &self.streams {
            ReceiverReadings::Udp(streams) => streams.get(number)?.call,
            ReceiverReadings::Tcp(_) => None,
        }
    }
}

impl StreamResult {
    /// Returns the result as the reading of an interval.
    pub(super) fn reading(&self) -> (StreamReading, Known) {
        let StreamResult { bytes, packets, lost, jitter, retransmits } = *self;
        let counters = StreamCounters {
            delivered: bytes.unwrap_or(0),
            packets: packets.unwrap_or(0),
            lost: lost.unwrap_or(0),
            retransmits: retransmits.unwrap_or(0),
            ..StreamCounters::default()
        };
        let known = Known {
            bytes: bytes.is_some(),
            packets: packets.is_some(),
            lost: lost.is_some(),
            retransmits: retransmits.is_some(),
            ..Known::default()
        };
        (StreamReading { counters, jitter, ..StreamReading::default() }, known)
    }
}

impl FlowRecord {
    /// Returns whether only a server of iperf3 can count its packets.
    pub(super) fn is_counted_by_server(&self) -> bool {
        self.udp && self.server == Some(End::Destination)
    }

    /// Returns the joined reading of both ends of a stream.
    pub(super) fn stream(
        &mut self,
        number: usize,
        source: Option<&SourceReading>,
        destination: Option<&(Nanos, DestinationReading)>,
    ) -> (StreamReading, Known) {
        let last = self.streams[number].counters;
        if self.udp {
            let sender = source.and_then(|source| match &source.streams {
                SenderReadings::Udp(streams) => streams.get(number),
                SenderReadings::Tcp(_) => None,
            });
            let receiver = destination.and_then(|(read, reading)| match &reading.streams {
                ReceiverReadings::Udp(streams) => streams.get(number).map(|each| (*read, each)),
                ReceiverReadings::Tcp(_) => None,
            });
            let alone = self.server.is_some();
            return self.streams[number].datagrams(sender, receiver, alone);
        }
        let sender = source.and_then(|source| match &source.streams {
            SenderReadings::Tcp(streams) => streams.get(number).copied(),
            SenderReadings::Udp(_) => None,
        });
        let receiver = destination.and_then(|(_, reading)| match &reading.streams {
            ReceiverReadings::Tcp(streams) => streams.get(number).copied(),
            ReceiverReadings::Udp(_) => None,
        });
        if let Some(sender) = sender {
            self.window = self.window.max(sender.window);
        }
        let (reading, mut known) = connection(last, sender, receiver);
        // quinn does not count these.
        known.reordered &= !self.quic;
        known.echoed &= !self.quic;
        (reading, known)
    }
}

impl StreamRecord {
    /// Returns the reading of a stream of datagrams. Its receiver is `alone` if the sender reports
    /// nothing; then it counts losses by the gaps between sequence numbers.
    fn datagrams(
        &mut self,
        sender: Option<&DatagramSender>,
        receiver: Option<(Nanos, &DatagramReceiver)>,
        alone: bool,
    ) -> (StreamReading, Known) {
        if let Some(sender) = sender {
            self.sent.extend(&sender.history);
        }
        let known = Known {
            bytes: receiver.is_some(),
            packets: receiver.is_some(),
            lost: receiver.is_some() && (sender.is_some() || alone),
            reordered: receiver.is_some(),
            marked: receiver.is_some(),
            echoed: true,
            retransmits: true,
            acks: true,
        };
        let Some((read, receiver)) = receiver else {
            let counters = StreamCounters { order: None, ..self.counters };
            return (StreamReading { counters, ..StreamReading::default() }, known);
        };
        let patience = LOSS_TIMEOUT.saturating_add(receiver.longest.as_picos() / 500);
        let long_ago = read.saturating_sub(patience);
        while let [_, (second, _), ..] = self.sent.make_contiguous()
            && *second <= long_ago
        {
            self.sent.pop_front();
        }
        let front = self.sent.front().filter(|(at, _)| *at <= long_ago);
        let given_up = front.map_or(0, |(_, sent)| *sent);
        let by_gaps = if alone { receiver.overtaken } else { self.counters.lost };
        let lost = sender.map_or(by_gaps, |sender| {
            let given_up = given_up.min(sender.sent).saturating_sub(receiver.packets);
            // At most as many as were sent: a forged datagram may have any number.
            let missing = sender.sent.saturating_sub(receiver.packets);
            receiver.overtaken.max(given_up).min(missing)
        });
        let counters = StreamCounters {
            delivered: receiver.delivered,
            packets: receiver.packets,
            lost,
            reordered: receiver.order.reordered,
            marked: receiver.marked,
            sacks: Some(0),
            order: Some(receiver.order),
            ..StreamCounters::default()
        };
        let (delay, jitter) = (receiver.delay, receiver.jitter);
        (StreamReading { counters, delay, jitter, ..StreamReading::default() }, known)
    }
}

/// Returns the reading of a connection, from its counters at the last mark.
fn connection(
    last: StreamCounters,
    sender: Option<ConnectionSender>,
    receiver: Option<ConnectionReceiver>,
) -> (StreamReading, Known) {
    let known = Known {
        bytes: receiver.is_some() || sender.is_some_and(|sender| sender.acked.is_some()),
        packets: receiver.is_some(),
        lost: sender.is_some(),
        reordered: sender.is_some(),
        marked: receiver.is_some_and(|receiver| receiver.marked.is_some()),
        echoed: sender.is_some(),
        retransmits: sender.is_some(),
        acks: receiver.is_some(),
    };
    let mut reading = StreamReading { counters: last, ..StreamReading::default() };
    let counters = &mut reading.counters;
    if let Some(receiver) = receiver {
        counters.delivered = receiver.delivered;
        counters.packets = receiver.packets;
        counters.marked = receiver.marked.unwrap_or(counters.marked);
        counters.acks = receiver.acks;
        counters.completion = receiver.completion;
    }
    if let Some(sender) = sender {
        if let (None, Some(acked)) = (receiver, sender.acked) {
            counters.delivered = acked;
        }
        // Retransmitted segments, except for those that the receiver reports as duplicates (RFC
        // 3708).
        counters.lost = sender.retransmits.saturating_sub(sender.repeated);
        counters.reordered = sender.reordered;
        counters.echoed = sender.echoed;
        counters.retransmits = sender.retransmits;
        (reading.cwnd, reading.srtt) = (sender.cwnd, sender.srtt);
    }
    (reading, known)
}

/// Returns a reading whose counters are not below those of the reading before, because some are
/// estimates.
pub(super) fn since(before: &StreamCounters, mut reading: StreamReading) -> StreamReading {
    let now = reading.counters;
    let order = match (now.order, before.order) {
        (Some(now), Some(before)) => Some(OrderCounts {
            reordered: now.reordered.max(before.reordered),
            by_three: now.by_three.max(before.by_three),
            extents: now.extents.max(before.extents),
            duplicates: now.duplicates.max(before.duplicates),
            ..now
        }),
        (now, _) => now,
    };
    reading.counters = StreamCounters {
        delivered: now.delivered.max(before.delivered),
        packets: now.packets.max(before.packets),
        lost: now.lost.max(before.lost),
        reordered: now.reordered.max(before.reordered),
        marked: now.marked.max(before.marked),
        echoed: now.echoed.max(before.echoed),
        retransmits: now.retransmits.max(before.retransmits),
        acks: now.acks.max(before.acks),
        completion: before.completion.or(now.completion),
        order,
        ..now
    };
    reading
}
