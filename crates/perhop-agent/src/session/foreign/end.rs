//! The agent's end of a flow to or from a server of iperf3, read at the marks of the job.

use perhop_core::{Duration, Time, TrafficClass};
use perhop_measure::{Histogram, SRTT_EVERY, Samples};
use perhop_socket::{Nanos, TcpInfo, monotonic};
use perhop_traffic::{
    ConnectionReceiver, ConnectionSender, DatagramReceiver, DatagramSender, DestinationReading,
    ReceiverReadings, SenderReadings, ServerReading, SourceReading, StreamResult,
};

use super::test::Test;
use super::{Phase, Shared};
use crate::iperf3::{self, Meter, Results, Stream, Watch};

/// The readings of the agent's end.
#[derive(Clone, Debug)]
pub(super) enum EndReading {
    Source(SourceReading),
    Destination(DestinationReading),
}

/// Counters of a connection at the start of its data, and its samples since the last mark.
#[derive(Debug, Default)]
struct History {
    begun: TcpInfo,
    srtt: Samples,
    segments: u32,
    window: u32,
}

/// Reader of the agent's end of a flow, while its test runs.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    shared: &'a Shared,
    test: &'a Test,
    /// Start of the scenario by the monotonic clock.
    zero: Nanos,
    histories: Vec<History>,
    srtts: Histogram,
    /// Datagrams that had arrived at the last mark, by traffic class.
    arrived: [u64; 256],
    /// Number of the next mark.
    mark: usize,
    sampled: Nanos,
}

const SAMPLE: Nanos = SRTT_EVERY.as_picos() / 1_000;

fn nanos(time: Time) -> Nanos {
    time.as_picos().div_ceil(1_000)
}

impl<'a> Reader<'a> {
    /// Begins with these streams; `zero` is the start of the scenario by the monotonic clock.
    pub fn new(shared: &'a Shared, test: &'a Test, zero: Nanos, streams: &[Stream]) -> Self {
        let info = |stream: &Stream| TcpInfo::of(&stream.socket).unwrap_or_default();
        let history = |stream: &Stream| History {
            begun: if test.udp { TcpInfo::default() } else { info(stream) },
            ..History::default()
        };
        let now = monotonic().saturating_sub(zero);
        Self {
            shared,
            test,
            zero,
            histories: streams.iter().map(history).collect(),
            srtts: Histogram::default(),
            arrived: [0; 256],
            mark: shared.job.marks.partition_point(|mark| nanos(*mark) <= now),
            sampled: 0,
        }
    }

    /// Returns the readings of a flow that has carried nothing.
    pub fn none(test: &Test, flow: u32) -> EndReading {
        let tcp = |_| ConnectionSender { acked: Some(0), ..ConnectionSender::default() };
        let count = 0..test.streams;
        match (test.sends, test.udp) {
            (true, false) => source(flow, SenderReadings::Tcp(count.map(tcp).collect())),
            (true, true) => {
                source(flow, SenderReadings::Udp(vec![DatagramSender::default(); test.streams]))
            }
            (false, false) => destination(
                flow,
                ReceiverReadings::Tcp(vec![ConnectionReceiver::default(); test.streams]),
            ),
            (false, true) => destination(
                flow,
                ReceiverReadings::Udp(vec![DatagramReceiver::default(); test.streams]),
            ),
        }
    }

    /// Tells the session which marks are read.
    pub fn begin(&self) {
        let mut flow = self.shared.flow(self.test.flow);
        flow.first = self.mark as u32;
        flow.phase = Phase::Running;
    }

    fn sample(&mut self, streams: &[Stream]) {
        for (stream, history) in streams.iter().zip(&mut self.histories) {
            let Ok(info) = TcpInfo::of(&stream.socket) else { continue };
            history.window = history.window.max(info.snd_wnd);
            if info.segs_in != history.segments && info.rtt > 0 {
                history.segments = info.segs_in;
                let srtt = Duration::from_micros(info.rtt.into());
                history.srtt.add(srtt);
                self.srtts.add(srtt);
            }
        }
    }

    /// Reads the counters. The number of datagrams that each stream's server has sent may be known.
    fn read(&mut self, streams: &mut [Stream], server: Option<&Results>) -> EndReading {
        let flow = self.test.flow as u32;
        let pairs = streams.iter_mut().zip(&mut self.histories);
        match (self.test.sends, self.test.udp) {
            (true, false) => {
                let streams = pairs.map(|(stream, history)| sender(stream, history)).collect();
                let srtts = std::mem::take(&mut self.srtts);
                EndReading::Source(SourceReading {
                    flow,
                    streams: SenderReadings::Tcp(streams),
                    arrived: None,
                    srtts,
                })
            }
            (true, true) => {
                let sent = |(stream, _): (&mut Stream, _)| DatagramSender {
                    sent: stream.counts(None).packets,
                    history: Vec::new(),
                };
                source(flow, SenderReadings::Udp(pairs.map(sent).collect()))
            }
            (false, false) => {
                let volume = self.test.volume;
                let started = self.zero.saturating_add(nanos(self.test.start));
                let read = |(stream, history): (&mut Stream, &mut History)| {
                    receiver(stream, history, volume, started)
                };
                destination(flow, ReceiverReadings::Tcp(pairs.map(read).collect()))
            }
            (false, true) => {
                let mut counts = [0; 256];
                let read = |(stream, _): (&mut Stream, _)| {
                    let sent = server.and_then(|all| all.of(stream.id)?.packets);
                    let Some(meter) = &mut stream.meter else { return DatagramReceiver::default() };
                    for (class, packets) in meter.arrived().counts() {
                        counts[usize::from(class.octet())] += packets;
                    }
                    datagrams(meter, sent)
                };
                let streams = ReceiverReadings::Udp(pairs.map(read).collect());
                let since = counts.iter().zip(self.arrived).map(|(now, before)| now - before);
                let arrived = (0..=u8::MAX).map(TrafficClass::from_octet).zip(since);
                let arrived = arrived.filter(|(_, packets)| *packets > 0).collect();
                self.arrived = counts;
                match destination(flow, streams) {
                    EndReading::Destination(reading) => {
                        EndReading::Destination(DestinationReading {
                            arrived: Some(arrived),
                            ..reading
                        })
                    }
                    source => source,
                }
            }
        }
    }

    /// Ends with the last counters, and with the server's results if the test was completed.
    pub fn close(
        &mut self,
        streams: &mut [Stream],
        began: Nanos,
        outcome: Option<&(Nanos, Results)>,
    ) {
        let reading = self.read(streams, outcome.map(|(_, results)| results));
        let mut flow = self.shared.flow(self.test.flow);
        flow.rest = Some(reading);
        flow.phase = Phase::Over;
        if let Some((ended, results)) = outcome {
            let since_zero =
                |at: Nanos| Time::from_picos(at.saturating_sub(self.zero).saturating_mul(1_000));
            let last = self.shared.job.marks.last().copied().unwrap_or(Time::ZERO);
            let interval = (since_zero(began), since_zero(*ended).min(last));
            let streams = streams.iter().map(|stream| {
                let told = results.of(stream.id);
                told.map_or_else(StreamResult::default, |told| result(told, self.test))
            });
            let streams: Vec<_> = streams.collect();
            if interval.0 < interval.1 {
                let flow_number = self.test.flow as u32;
                flow.results.push(ServerReading { flow: flow_number, interval, streams });
            }
        }
    }

    /// Returns whether every stream has carried its volume.
    fn has_carried_all(&self, streams: &[Stream]) -> bool {
        let Some(volume) = self.test.volume else { return false };
        let pairs = streams.iter().zip(&self.histories);
        let mut all = pairs.map(|(stream, history)| match (self.test.sends, self.test.udp) {
            (true, false) => acked(stream, history).is_some_and(|acked| acked >= volume),
            _ => stream.carried() >= volume,
        });
        all.all(|done| done)
    }
}

impl Watch for Reader<'_> {
    fn next(&self) -> Nanos {
        let mark = self.shared.job.marks.get(self.mark).map_or(Nanos::MAX, |mark| nanos(*mark));
        let sample = if self.test.udp { Nanos::MAX } else { self.sampled + SAMPLE };
        self.zero.saturating_add(mark).min(sample)
    }

    fn look(&mut self, streams: &mut [Stream], _: u64, now: Nanos) -> bool {
        if !self.test.udp && now >= self.sampled + SAMPLE {
            self.sample(streams);
            self.sampled = now;
        }
        let since = now.saturating_sub(self.zero);
        while let Some(mark) = self.shared.job.marks.get(self.mark)
            && nanos(*mark) <= since
        {
            let reading = self.read(streams, None);
            let mut flow = self.shared.flow(self.test.flow);
            flow.readings.push_back((self.mark as u32, reading));
            self.mark += 1;
        }
        self.has_carried_all(streams)
    }
}

impl EndReading {
    /// Returns the reading without what counts since the last one.
    pub fn emptied(&self) -> Self {
        let mut reading = self.clone();
        match &mut reading {
            Self::Source(source) => {
                source.srtts = Histogram::default();
                if let SenderReadings::Tcp(streams) = &mut source.streams {
                    streams.iter_mut().for_each(|stream| stream.srtt = Samples::default());
                }
            }
            Self::Destination(destination) => {
                destination.arrived = destination.arrived.as_ref().map(|_| Vec::new());
                if let ReceiverReadings::Udp(streams) = &mut destination.streams {
                    streams.iter_mut().for_each(|stream| stream.order.extent_max = 0);
                }
            }
        }
        reading
    }
}

fn source(flow: u32, streams: SenderReadings) -> EndReading {
    EndReading::Source(SourceReading { flow, streams, arrived: None, srtts: Histogram::default() })
}

fn destination(flow: u32, streams: ReceiverReadings) -> EndReading {
    EndReading::Destination(DestinationReading {
        completed: Vec::new(),
        flow,
        streams,
        arrived: None,
        delays: Histogram::default(),
        displacements: None,
        offset_bound: None,
    })
}

/// Returns the bytes that a stream's receiver has acknowledged since its data began.
fn acked(stream: &Stream, history: &History) -> Option<u64> {
    let info = TcpInfo::of(&stream.socket).ok()?;
    Some(info.bytes_acked.saturating_sub(history.begun.bytes_acked))
}

fn sender(stream: &Stream, history: &mut History) -> ConnectionSender {
    let info = TcpInfo::of(&stream.socket).unwrap_or_default();
    let begun = &history.begun;
    ConnectionSender {
        retransmits: info.total_retrans.saturating_sub(begun.total_retrans).into(),
        repeated: info.dsack_dups.saturating_sub(begun.dsack_dups).into(),
        reordered: info.reord_seen.into(),
        echoed: info.delivered_ce.saturating_sub(begun.delivered_ce).into(),
        cwnd: Some(u64::from(info.snd_cwnd) * u64::from(info.snd_mss)),
        window: history.window,
        acked: Some(info.bytes_acked.saturating_sub(begun.bytes_acked)),
        srtt: std::mem::take(&mut history.srtt),
    }
}

fn receiver(
    stream: &Stream,
    history: &History,
    volume: Option<u64>,
    started: Nanos,
) -> ConnectionReceiver {
    let info = TcpInfo::of(&stream.socket).unwrap_or_default();
    let acks = |info: &TcpInfo| info.segs_out.saturating_sub(info.data_segs_out);
    let delivered = stream.carried();
    let complete = volume.is_some_and(|volume| delivered >= volume);
    let took = Duration::from_picos(stream.last.saturating_sub(started).saturating_mul(1_000));
    ConnectionReceiver {
        delivered,
        packets: info.data_segs_in.saturating_sub(history.begun.data_segs_in).into(),
        marked: None,
        acks: acks(&info).saturating_sub(acks(&history.begun)).into(),
        completion: complete.then_some(took),
    }
}

fn datagrams(meter: &mut Meter, sent: Option<u64>) -> DatagramReceiver {
    let lost = meter.counts(sent).lost.unwrap_or(0);
    let reading = meter.reading();
    let counters = reading.counters;
    DatagramReceiver {
        delivered: counters.delivered,
        packets: counters.packets,
        marked: counters.marked,
        order: counters.order.unwrap_or_default(),
        overtaken: lost,
        longest: Duration::ZERO,
        delay: Samples::default(),
        jitter: reading.jitter,
        call: None,
    }
}

fn result(told: &iperf3::StreamResult, test: &Test) -> StreamResult {
    if !test.udp {
        let retransmits = told.retransmits.filter(|_| !test.sends);
        return StreamResult { retransmits, ..StreamResult::default() };
    }
    // `packets` is the highest sequence number that has arrived.
    let received = told.packets.zip(told.errors).map(|(all, lost)| all.saturating_sub(lost));
    let jitter = Some(told.jitter).filter(|jitter| (0.0..1e6).contains(jitter));
    StreamResult {
        bytes: told.bytes,
        packets: received,
        lost: told.errors,
        jitter: jitter.map(|seconds| Duration::from_picos((seconds * 1e12) as u64)),
        retransmits: None,
    }
}
