//! The reader: it reads the counters of this process's ends at every mark.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use perhop_core::{Duration, Time, TrafficClass};
use perhop_measure::{Density, Histogram, Marks, SRTT_EVERY, Samples, Stalls};

use crate::clock::{nanos, time};
use crate::readings::{
    DatagramReceiver, DatagramSender, DestinationReading, ProcessReading, Readings,
    ReceiverReadings, SenderReadings, SourceReading,
};
use crate::shared::Shared;
use crate::stream::{ClassCounts, DatagramsReceived, FlowState, StreamState, lock};
use perhop_socket::Nanos;

mod connections;

use connections::{
    completed, connection_receiver, connection_sender, connections, sample_connection,
};

/// The interval at which smoothed round-trip times are read; it is longer with many connections.
const SAMPLE: Nanos = SRTT_EVERY.as_picos() / 1_000;
/// The share of the interval per stream: `n` streams are sampled every `n` times this, or more
/// seldom.
const SAMPLE_SHARE: Nanos = 20_000;

/// Number of samples for which an overtaken datagram may still arrive.
const SETTLED: usize = 5;

/// The interval at which the number of datagrams sent is noted.
const NOTED: Nanos = 100_000_000;

/// The interval at which displacements are counted, beside the last reading.
const DISPLACEMENTS: Nanos = 1_000_000_000;

/// Samples of a stream between readings.
#[derive(Debug, Default)]
struct StreamHistory {
    /// Smoothed round-trip times since the last mark. Linux does not report those of single
    /// segments.
    srtt: Samples,
    /// Segments that the connection had received at the last sample.
    segments: u32,
    /// Greatest number of unsent bytes in its buffer.
    unsent: u32,
    /// Number of datagrams sent, by instant.
    sent: Vec<(Nanos, u64)>,
    noted: Option<Nanos>,
    /// One above the highest number of a datagram at the last samples.
    reached: VecDeque<u64>,
    /// Greatest window that the receiver has offered, in bytes.
    window: u32,
}

/// State of a flow between readings.
#[derive(Debug)]
struct FlowHistory {
    streams: Vec<StreamHistory>,
    srtts: Histogram,
    /// Packets that had arrived at its destination and its source.
    classes: [ClassCounts; 2],
}

/// Reader of the counters of this process's ends at every mark.
#[derive(Debug)]
pub(crate) struct Reader {
    marks: Marks,
    /// The number of the next mark.
    number: u32,
    flows: Vec<FlowHistory>,
    streams: Nanos,
    sampled: Nanos,
    displaced: Nanos,
    /// Lateness of the reading thread, which stands for all threads of its priority.
    pub stalls: Stalls,
}

impl Reader {
    pub fn new(shared: &Shared, marks: Marks, stall_threshold: Duration) -> Self {
        let flow = |flow: &FlowState| FlowHistory {
            streams: flow.streams.iter().map(|_| StreamHistory::default()).collect(),
            srtts: Histogram::default(),
            classes: [[0; 256]; 2],
        };
        Self {
            marks,
            number: 0,
            flows: shared.flows.iter().map(flow).collect(),
            streams: connections(shared),
            sampled: 0,
            displaced: 0,
            stalls: Stalls::longer_than(stall_threshold),
        }
    }

    /// Returns whether the last mark is reached.
    pub fn is_done(&self) -> bool {
        self.marks.next().is_none()
    }

    /// Returns the instant of the next reading or sample.
    pub fn deadline(&self, shared: &Shared) -> Nanos {
        let open = if shared.flows.is_empty() { Nanos::MAX } else { self.next_sample() };
        self.marks.next().map_or(Nanos::MAX, |mark| nanos(mark.as_picos())).min(open)
    }

    fn next_sample(&self) -> Nanos {
        self.sampled + SAMPLE.max(SAMPLE_SHARE * self.streams)
    }

    /// Reads the counters and samples that are due. Returns the readings.
    pub fn run(&mut self, shared: &Shared) -> Vec<Readings> {
        let now = shared.clock.now();
        if now >= self.next_sample() {
            self.sample(shared, now);
            self.sampled = now;
        }
        let mut readings = Vec::new();
        while let Some(mark) = self.marks.due(time(now)) {
            let (_, at) = self.marks.read(mark);
            readings.push(self.read(shared, at));
        }
        readings
    }

    /// Ends the run. Returns the readings since the last mark.
    pub fn stop(&mut self, shared: &Shared) -> Option<Readings> {
        let now = self.marks.stop(time(shared.clock.now()))?;
        let (_, at) = self.marks.read(now);
        Some(self.read(shared, at))
    }

    fn sample(&mut self, shared: &Shared, now: Nanos) {
        for (index, (flow, kept)) in shared.flows.iter().zip(&mut self.flows).enumerate() {
            let udp = shared.is_udp(index);
            for (number, (stream, history)) in
                flow.streams.iter().zip(&mut kept.streams).enumerate()
            {
                match udp {
                    true => sample_datagrams((flow, number), stream, history, now),
                    false => sample_connection(flow, stream, history, &mut kept.srtts),
                }
            }
        }
        self.streams = connections(shared);
    }

    fn read(&mut self, shared: &Shared, at: Time) -> Readings {
        let read = shared.clock.now();
        let displaced = self.is_done() || read >= self.displaced + DISPLACEMENTS;
        if displaced {
            self.displaced = read;
        }
        let mut readings = Readings {
            mark: self.number,
            at,
            read,
            process: process(shared, &self.stalls),
            missing: if self.number == 0 { shared.missing.clone() } else { Vec::new() },
            ..Readings::default()
        };
        self.number += 1;
        for (index, (flow, kept)) in shared.flows.iter().zip(&mut self.flows).enumerate() {
            let udp = shared.is_udp(index);
            if flow.here.destination {
                let (streams, segments) = receivers(flow, kept, udp, time(read));
                let mut received = lock(&flow.received);
                let (counted, last) = (received.classes[0].clone(), &mut kept.classes[0]);
                let counted = counted.as_deref();
                let displacements = (displaced && udp).then(|| {
                    Density::sums(received.datagrams.iter().map(|each| &each.meter.order.density))
                });
                readings.destinations.push(DestinationReading {
                    flow: index as u32,
                    streams,
                    arrived: arrived((flow, 0), counted, segments, flow.watched.destination, last),
                    delays: std::mem::take(&mut received.delays),
                    displacements,
                    completed: completed(flow, at),
                    offset_bound: received.offset_bound.take(),
                });
            }
            if flow.here.source {
                let (streams, segments) = senders(flow, kept, udp);
                let received = lock(&flow.received);
                let (counted, last) = (received.classes[1].as_deref(), &mut kept.classes[1]);
                readings.sources.push(SourceReading {
                    flow: index as u32,
                    streams,
                    arrived: arrived((flow, 1), counted, segments, flow.watched.source, last),
                    srtts: std::mem::take(&mut kept.srtts),
                });
            }
        }
        readings.pings = shared.pings.iter().filter_map(|ping| ping.read()).collect();
        readings
    }
}

/// Returns the counters of this process.
pub(crate) fn process(shared: &Shared, stalls: &Stalls) -> ProcessReading {
    let counters = &shared.counters;
    ProcessReading {
        unknown_senders: counters.unknown_senders.load(Ordering::Relaxed),
        late_datagrams: counters.late.load(Ordering::Relaxed),
        latest_datagram_us: counters.latest.load(Ordering::Relaxed) / 1_000,
        unseen_packets: counters.unseen.load(Ordering::Relaxed),
        real_time: counters.real_time.load(Ordering::Relaxed),
        stalls: stalls.number(),
        stalled_us: stalls.total().as_picos() / 1_000_000,
    }
}

fn sample_datagrams(
    (flow, number): (&FlowState, usize),
    stream: &StreamState,
    history: &mut StreamHistory,
    now: Nanos,
) {
    if flow.here.destination {
        let reached = lock(&flow.received).datagrams[number].next;
        if history.reached.len() == SETTLED {
            history.reached.pop_front();
        }
        history.reached.push_back(reached);
    }
    if flow.here.source && history.noted.is_none_or(|at| now - at >= NOTED) {
        history.noted = Some(now);
        history.sent.push((now, stream.sent.load(Ordering::Relaxed)));
    }
}

/// Reads the streams of a flow at their receiver. Returns the readings, and the number of segments
/// that all connections have received.
fn receivers(
    flow: &FlowState,
    kept: &mut FlowHistory,
    udp: bool,
    now: Time,
) -> (ReceiverReadings, Option<u64>) {
    let mut segments = None;
    let streams = flow.streams.iter().zip(&mut kept.streams);
    let readings = match udp {
        true => {
            let mut received = lock(&flow.received);
            let streams = received.datagrams.iter_mut().zip(streams);
            let read = |(received, (_, history)): (&mut DatagramsReceived, _)| {
                let history: &mut StreamHistory = history;
                // Datagrams that were overtaken that long ago and have not arrived since. With
                // several paths, some datagrams are overtaken at every instant, but not the same
                // ones.
                let overtaken = match history.reached.front() {
                    Some(&reached) if history.reached.len() == SETTLED => received
                        .missing()
                        .saturating_sub(received.meter.order.missing_since(reached)),
                    _ => 0,
                };
                let reading = received.meter.reading(overtaken);
                received.meter.pass_mark();
                DatagramReceiver {
                    delivered: reading.counters.delivered,
                    packets: reading.counters.packets,
                    marked: reading.counters.marked,
                    order: reading.counters.order.unwrap_or_default(),
                    overtaken,
                    longest: received.longest,
                    delay: reading.delay,
                    jitter: reading.jitter,
                    call: received.playout.as_mut().map(|playout| playout.settle(now)),
                }
            };
            ReceiverReadings::Udp(streams.map(read).collect())
        }
        false => ReceiverReadings::Tcp(
            streams
                .map(|(stream, _)| {
                    let (reading, arrived) = connection_receiver(flow, stream);
                    segments = segments.into_iter().chain(arrived).reduce(|sum, more| sum + more);
                    reading
                })
                .collect(),
        ),
    };
    (readings, segments)
}

/// Reads the streams of a flow at their sender. Returns the readings, and the number of segments
/// that all connections have received.
fn senders(flow: &FlowState, kept: &mut FlowHistory, udp: bool) -> (SenderReadings, Option<u64>) {
    let mut segments = None;
    let streams = flow.streams.iter().zip(&mut kept.streams);
    let readings = match udp {
        true => SenderReadings::Udp(
            streams
                .map(|(stream, history)| DatagramSender {
                    sent: stream.sent.load(Ordering::Relaxed),
                    history: std::mem::take(&mut history.sent),
                })
                .collect(),
        ),
        false => SenderReadings::Tcp(
            streams
                .map(|(stream, history)| {
                    let (reading, arrived) = connection_sender(stream, history);
                    segments = segments.into_iter().chain(arrived).reduce(|sum, more| sum + more);
                    reading
                })
                .collect(),
        ),
    };
    (readings, segments)
}

/// Returns the packets that have arrived at an end of a flow since the last reading, by DSCP and
/// ECN field. `counted` were observed one by one; the other `segments` of TCP have those of most
/// packets. `None` if packets were not observed.
fn arrived(
    (flow, end): (&FlowState, usize),
    counted: Option<&ClassCounts>,
    segments: Option<u64>,
    watched: bool,
    last: &mut ClassCounts,
) -> Option<Vec<(TrafficClass, u64)>> {
    let mut counts = counted.copied().unwrap_or([0; 256]);
    if let Some(segments) = segments {
        if !watched {
            return None;
        }
        let others: u64 = counts.iter().sum();
        counts[usize::from(flow.classes[end].octet())] = segments.saturating_sub(others);
    }
    let each = (0..=u8::MAX).zip(last.iter_mut().zip(counts));
    let more = each.map(|(class, (last, now))| {
        // An estimate may decrease; reported counts do not.
        let more = now.saturating_sub(*last);
        *last += more;
        (TrafficClass::from_octet(class), more)
    });
    Some(more.filter(|(_, more)| *more > 0).collect())
}
