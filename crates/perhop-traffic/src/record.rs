//! Readings: every counter at every mark.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use perhop_core::{Dscp, Duration, NodeId, Time};
use perhop_measure::{
    Codepoints, Delays, Displacements, Histogram, Intervals, Labels, Marks, Pings, Rtts,
    SRTT_EVERY, Samples, Stalls, StreamCounters, StreamReading, Table,
};

use crate::clock::{duration, nanos, time};
use crate::open::hold_window;
use crate::shared::{Shared, StreamId};
use crate::stream::{DscpCounts, FlowState, StreamState, lock};
use crate::tcp;
use perhop_socket::{Nanos, TcpInfo};

/// How often smoothed round-trip times are asked for; less often where there are many connections.
const SAMPLE: Nanos = SRTT_EVERY.as_picos() / 1_000;
/// What one connection may take of that.
const SAMPLE_SHARE: Nanos = 20_000;

/// For how many samples a datagram that was overtaken may still come.
const SETTLED: usize = 5;

/// How long a datagram may be under way before it counts as lost, beyond twice the longest that one
/// was. Those that one of a higher number has overtaken count sooner.
const PATIENCE: Nanos = 1_000_000_000;

/// The last reading of a stream, and what was sampled since.
#[derive(Debug, Default)]
struct StreamHistory {
    last: StreamReading,
    /// Smoothed round-trip times since the last mark. What single segments measured Linux keeps to
    /// itself.
    srtt: Samples,
    /// What the connection had received when it was last sampled.
    segments: u32,
    /// How much may wait unsent in it.
    unsent: u32,
    /// How many datagrams had been sent when, since long ago.
    sent: VecDeque<(Nanos, u64)>,
    /// Up to where datagrams had come at the last samples.
    reached: VecDeque<u64>,
    /// The greatest window that was offered.
    window: u32,
}

/// Reads every counter at every mark.
#[derive(Debug)]
pub(crate) struct Recorder {
    marks: Marks,
    ids: Vec<StreamId>,
    histories: Vec<StreamHistory>,
    srtts: Vec<Histogram>,
    /// Of each flow: packets that had arrived at its destination and its source.
    last_dscps: Vec<[DscpCounts; 2]>,
    /// The nodes at each flow's ends, its destination first.
    ends: Vec<[NodeId; 2]>,
    intervals: Intervals,
    codepoints: Codepoints,
    delays: Delays,
    sampled: Nanos,
    /// How often and long the thread that reads was late, and others of its priority with it.
    pub stalls: Stalls,
}

impl Recorder {
    pub fn new(shared: &Shared, marks: Marks, ends: Vec<[NodeId; 2]>, bearable: Duration) -> Self {
        let ids: Vec<_> = shared.stream_ids().collect();
        Self {
            marks,
            histories: ids.iter().map(|_| StreamHistory::default()).collect(),
            ids,
            srtts: vec![Histogram::default(); shared.flows.len()],
            last_dscps: vec![[[0; Dscp::COUNT]; 2]; shared.flows.len()],
            ends,
            intervals: Intervals::default(),
            codepoints: Codepoints::default(),
            delays: Delays::default(),
            sampled: 0,
            stalls: Stalls::longer_than(bearable),
        }
    }

    /// Whether the last mark is reached.
    pub fn is_done(&self) -> bool {
        self.marks.next().is_none()
    }

    /// Up to where the tables go.
    pub fn recorded(&self) -> Time {
        self.marks.recorded()
    }

    /// When there is something to read.
    pub fn deadline(&self, shared: &Shared) -> Nanos {
        let open = if shared.flows.is_empty() { Nanos::MAX } else { self.next_sample() };
        self.marks.next().map_or(Nanos::MAX, |mark| nanos(mark.as_picos())).min(open)
    }

    fn next_sample(&self) -> Nanos {
        self.sampled + SAMPLE.max(SAMPLE_SHARE * self.ids.len() as Nanos)
    }

    /// Reads what is due.
    pub fn run(&mut self, shared: &Shared) {
        let now = shared.clock.now();
        if now >= self.next_sample() {
            self.sample(shared, now);
            self.sampled = now;
        }
        while let Some(mark) = self.marks.due(time(now)) {
            self.record(shared, mark);
        }
    }

    /// Records what was measured since the last mark, and no more.
    pub fn stop(&mut self, shared: &Shared) {
        if let Some(now) = self.marks.stop(time(shared.clock.now())) {
            self.record(shared, now);
        }
    }

    fn sample(&mut self, shared: &Shared, now: Nanos) {
        for (id, history) in self.ids.iter().zip(&mut self.histories) {
            let (flow, stream) = shared.at(*id);
            if shared.is_udp(id.flow) {
                let reached = lock(&flow.received).datagrams[id.stream].next;
                if history.reached.len() == SETTLED {
                    history.reached.pop_front();
                }
                history.reached.push_back(reached);
                let sent = stream.sent.load(Ordering::Relaxed);
                if history.sent.back().is_none_or(|&(at, _)| now - at >= PATIENCE / 10) {
                    history.sent.push_back((now, sent));
                }
                continue;
            }
            if !stream.open.load(Ordering::Relaxed) {
                continue;
            }
            if let Some(receiver) = stream.receiver.get() {
                hold_window(receiver, shared.flows[id.flow].window);
            }
            let Ok(info) = TcpInfo::of(&stream.sender) else { continue };
            history.window = history.window.max(info.snd_wnd);
            if info.segs_in != history.segments && info.rtt > 0 {
                history.segments = info.segs_in;
                let srtt = Duration::from_micros(info.rtt.into());
                history.srtt.add(srtt);
                self.srtts[id.flow].add(srtt);
            }
            let unsent = tcp::unsent(info.delivery_rate);
            if unsent / 2 >= history.unsent || unsent <= history.unsent / 2 {
                history.unsent = unsent;
                let option = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
                let _ = stream.sender.set_bytes(option, &unsent.to_ne_bytes());
            }
        }
    }

    fn record(&mut self, shared: &Shared, mark: Time) {
        let stretch = self.marks.read(mark);
        let now = shared.clock.now();
        let flows = shared.flows.len();
        let mut arrived = vec![[0_u64; 2]; flows];
        for (id, history) in self.ids.iter().zip(&mut self.histories) {
            let (flow, stream) = shared.at(*id);
            let reading = if shared.is_udp(id.flow) {
                datagrams(flow, stream, id.stream, history, now)
            } else {
                let (reading, segments) = connection(flow, stream, history);
                for (sum, more) in arrived[id.flow].iter_mut().zip(segments) {
                    *sum += more;
                }
                reading
            };
            let reading = since(&history.last.counters, reading);
            self.intervals.push((id.flow, id.stream), stretch, &history.last.counters, &reading);
            history.last = reading;
            history.srtt = Samples::default();
        }
        for (index, flow) in shared.flows.iter().enumerate() {
            let counts = dscps(flow, shared.is_udp(index), arrived[index]);
            for (end, node) in self.ends[index].into_iter().enumerate() {
                let before = self.last_dscps[index][end].iter_mut();
                let arrived =
                    Dscp::all().zip(before.zip(counts[end])).map(|(dscp, (last, now))| {
                        // An estimate may fall; what was counted stays.
                        let more = now.saturating_sub(*last);
                        *last += more;
                        (dscp, more)
                    });
                self.codepoints.push((index, node, flow.dscp), stretch, arrived);
            }
        }
        if let Some(since_cut) = self.marks.cut() {
            for (index, flow) in shared.flows.iter().enumerate() {
                let delays = &mut lock(&flow.received).delays;
                self.delays.push_flow(index, since_cut, delays);
                delays.clear();
            }
        }
    }

    /// The tables up to the last mark.
    pub fn tables(&self, shared: &Shared, labels: &Labels) -> Vec<(&'static str, Table)> {
        let mut pings = Pings::default();
        for (index, ping) in shared.pings.iter().enumerate() {
            let arrived = lock(&ping.arrived);
            for (sequence, record) in lock(&ping.pinger).records.iter().enumerate() {
                let mut record = *record;
                // Where the request was seen to arrive, nobody needs to guess from the reply.
                if let (Some(answer), Some(&dscp)) =
                    (&mut record.answer, arrived.get(&(sequence as u32)))
                    && answer.error.is_none()
                {
                    answer.dscp_arrived = dscp;
                }
                pings.push(index, sequence, ping.dscp, &record);
            }
        }
        let mut srtts = Rtts::default();
        srtts.push_flows(&self.srtts);
        let mut delays = self.delays.clone();
        let mut displacements = Displacements::default();
        for (index, flow) in shared.flows.iter().enumerate() {
            let received = lock(&flow.received);
            // Right after a cut there may be packets already, but no stretch yet to put them in.
            if let Some(since_cut) = self.marks.since_cut(self.marks.recorded()) {
                delays.push_flow(index, since_cut, &received.delays);
            }
            let streams = received.datagrams.iter().map(|stream| &stream.meter.order.density);
            displacements.push_flow(index, streams);
        }
        vec![
            ("intervals", self.intervals.clone().into_table(labels)),
            ("pings", pings.into_table(labels)),
            ("codepoints", self.codepoints.clone().into_table(labels)),
            ("rtts", Rtts::default().into_table(labels)),
            ("srtts", srtts.into_table(labels)),
            ("delays", delays.into_table(labels)),
            ("displacements", displacements.into_table(labels)),
        ]
    }

    /// The greatest window that was offered to a stream of each flow; zero for one of datagrams.
    pub fn windows(&self, shared: &Shared) -> Vec<u32> {
        let mut windows = vec![0; shared.flows.len()];
        for (id, history) in self.ids.iter().zip(&self.histories) {
            windows[id.flow] = history.window.max(windows[id.flow]);
        }
        windows
    }
}

/// A reading whose counters are never below those of the one before: some are estimates.
fn since(before: &StreamCounters, mut reading: StreamReading) -> StreamReading {
    let now = reading.counters;
    reading.counters = StreamCounters {
        delivered: now.delivered.max(before.delivered),
        packets: now.packets.max(before.packets),
        lost: now.lost.max(before.lost),
        reordered: now.reordered.max(before.reordered),
        marked: now.marked.max(before.marked),
        echoed: now.echoed.max(before.echoed),
        retransmits: now.retransmits.max(before.retransmits),
        acks: now.acks.max(before.acks),
        ..now
    };
    reading
}

/// What there is to know of a stream of datagrams.
fn datagrams(
    flow: &FlowState,
    stream: &StreamState,
    number: usize,
    history: &mut StreamHistory,
    now: Nanos,
) -> StreamReading {
    let sent = stream.sent.load(Ordering::Relaxed);
    let mut received = lock(&flow.received);
    let received = &mut received.datagrams[number];
    let patience = duration(PATIENCE) + received.longest * 2;
    let long_ago = now.saturating_sub(patience.as_picos() / 1_000);
    while let [_, (second, _), ..] = history.sent.make_contiguous()
        && *second <= long_ago
    {
        history.sent.pop_front();
    }
    let given_up =
        history.sent.front().filter(|(at, _)| *at <= long_ago).map_or(0, |(_, sent)| *sent);
    let given_up = given_up.min(sent).saturating_sub(received.meter.packets);
    // Those that had been overtaken that long ago and have not come since. Where packets take
    // several ways some are always on the way, others at every moment.
    let overtaken = match history.reached.front() {
        Some(&reached) if history.reached.len() == SETTLED => {
            received.missing().saturating_sub(received.meter.order.missing_since(reached))
        }
        _ => 0,
    };
    let reading = received.meter.reading(overtaken.max(given_up));
    received.meter.pass_mark();
    reading
}

/// What there is to know of a connection, and how many segments its two ends received, the
/// receiver's first.
fn connection(
    flow: &FlowState,
    stream: &StreamState,
    history: &StreamHistory,
) -> (StreamReading, [u64; 2]) {
    if !stream.open.load(Ordering::Relaxed) {
        return (history.last, [0; 2]);
    }
    let sender = TcpInfo::of(&stream.sender).unwrap_or_default();
    let receiver = stream.receiver.get().and_then(|socket| TcpInfo::of(socket).ok());
    let receiver = receiver.unwrap_or_default();
    let completion = stream.completion.load(Ordering::Relaxed);
    let retransmits = u64::from(sender.total_retrans);
    let counters = StreamCounters {
        delivered: stream.delivered.load(Ordering::Relaxed),
        packets: receiver.data_segs_in.into(),
        // Those that were sent again, but for what the receiver says it has twice (RFC 3708).
        lost: retransmits.saturating_sub(sender.dsack_dups.into()),
        reordered: sender.reord_seen.into(),
        marked: stream.marked.load(Ordering::Relaxed),
        echoed: sender.delivered_ce.into(),
        retransmits,
        acks: receiver.segs_out.saturating_sub(receiver.data_segs_out).into(),
        completion: flow.volume.filter(|_| completion > 0).map(|_| duration(completion)),
        ..StreamCounters::default()
    };
    let reading = StreamReading {
        counters,
        cwnd: Some(u64::from(sender.snd_cwnd) * u64::from(sender.snd_mss)),
        srtt: history.srtt,
        ..StreamReading::default()
    };
    (reading, [receiver.segs_in.into(), sender.segs_in.into()])
}

/// With which marks packets have arrived at both ends, `arrived` being how many of TCP's did.
fn dscps(flow: &FlowState, udp: bool, arrived: [u64; 2]) -> [DscpCounts; 2] {
    let received = lock(&flow.received);
    let mut counts =
        [0, 1].map(|end| received.dscps[end].as_deref().copied().unwrap_or([0; Dscp::COUNT]));
    if !udp {
        for (counts, arrived) in counts.iter_mut().zip(arrived) {
            let others: u64 = counts.iter().sum();
            counts[usize::from(flow.dscp.get())] = arrived.saturating_sub(others);
        }
    }
    counts
}
