//! DSCP and ECN field of received TCP packets.

use std::net::SocketAddr;

use perhop_core::TrafficClass;
use perhop_socket::{Batch, Socket, TcpInfo};
use perhop_traffic::tap::{self, Expected};

use super::meter::Arrived;
use super::stream::Stream;

/// Packets that are read at once, and the number of times.
const BATCH: usize = 256;
const MAX_BATCHES: usize = 16;

/// Observer of the data packets of a test's received TCP streams. A packet socket copies those with
/// another DSCP or ECN field than the client has announced, and the connections count all.
pub(crate) struct Observer {
    pub socket: Socket,
    batch: Batch,
    streams: Vec<Observed>,
    /// True if packets were not seen for lack of room.
    missed: bool,
}

struct Observed {
    peer: SocketAddr,
    usual: TrafficClass,
    /// Data packets of the connection before the test: the client's cookie.
    before: u64,
    others: Arrived,
}

impl Observer {
    /// Begins to observe the received streams, before they carry data. `None` without the right to
    /// open packet sockets.
    pub fn open(streams: &[Stream], tos: u8) -> Option<Self> {
        let observed = |stream: &Stream| {
            let info = TcpInfo::of(&stream.socket).unwrap_or_default();
            let usual = TrafficClass::from_octet(tos & !3 | if info.ecn { 2 } else { 0 });
            let before = info.data_segs_in.into();
            Observed { peer: stream.peer, usual, before, others: Arrived::default() }
        };
        let received = streams.iter().filter(|stream| !stream.sends);
        let streams: Vec<Observed> = received.map(observed).collect();
        let expected = streams.iter().map(|stream| Expected {
            port: stream.peer.port(),
            to_port: false,
            class: stream.usual,
        });
        let socket = tap::open(&expected.collect::<Vec<_>>()).ok()?;
        Some(Self { socket, batch: Batch::new(BATCH, tap::SNAP), streams, missed: false })
    }

    /// Counts the packets that have arrived. `segment` returns the segment size of a stream, for
    /// segments that the kernel has merged.
    pub fn read(&mut self, streams: &[Stream]) {
        for _ in 0..MAX_BATCHES {
            let Ok(count) = self.batch.receive(&self.socket) else { break };
            for number in 0..count {
                let packet = tap::parse(self.batch.get(number).bytes);
                let Some(packet) = packet.filter(|packet| packet.payload > 0) else { continue };
                let place = self.streams.iter().position(|stream| stream.peer == packet.from);
                let Some(place) = place else { continue };
                let of = streams.iter().find(|stream| stream.peer == packet.from);
                let info = of.and_then(|stream| TcpInfo::of(&stream.socket).ok());
                // The estimate of received segments begins low.
                let segment = info.map_or(1460, |info| info.rcv_mss.max(info.snd_mss).max(1));
                let segment = segment as usize;
                let segments = packet.payload.div_ceil(segment) as u64;
                self.streams[place].others.add(packet.class.octet(), segments);
            }
            if count < BATCH {
                break;
            }
        }
        self.missed |= self.socket.take_packets_dropped() > 0;
    }

    /// Returns the data packets of a stream by DSCP and ECN field; `None` if some were not seen.
    pub fn arrived(&self, stream: &Stream) -> Option<Arrived> {
        let observed = self.streams.iter().find(|each| each.peer == stream.peer)?;
        let mut arrived = observed.others.clone();
        let others: u64 = arrived.counts().map(|(_, packets)| packets).sum();
        let all = stream.counts(None).packets.saturating_sub(observed.before);
        arrived.add(observed.usual.octet(), all.saturating_sub(others));
        // Merged segments may be shorter than is assumed.
        arrived.remove(others.saturating_sub(all));
        (!self.missed).then_some(arrived)
    }
}
