//! Measurement of a stream of iperf3 datagrams at its receiver.

use perhop_core::{Duration, Ecn, TrafficClass};
use perhop_measure::{DatagramMeter, StreamReading};
use perhop_socket::{Control, Nanos, monotonic, realtime};

use super::datagram::Header;
use super::record::Counts;

/// Sequence numbers from here on are invalid.
const MAX_SEQUENCE: u64 = 1 << 48;
/// Offset in nanoseconds that is added to delays, which are relative to the first datagram, so that
/// none is negative.
const BIAS: i64 = 1 << 40;

/// Packets by octet of the DSCP and the ECN field on arrival.
#[derive(Clone, Debug)]
pub(crate) struct Arrived([u64; 256]);

impl Default for Arrived {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl Arrived {
    /// Counts packets with a traffic class.
    pub fn add(&mut self, class: u8, packets: u64) {
        self.0[usize::from(class)] += packets;
    }

    /// Takes packets from the traffic class with the most.
    pub fn remove(&mut self, packets: u64) {
        let most = self.0.iter_mut().max();
        most.into_iter().for_each(|most| *most = most.saturating_sub(packets));
    }

    /// Returns the traffic classes that occurred, in rising order, with the numbers of packets.
    pub fn counts(&self) -> impl Iterator<Item = (TrafficClass, u64)> {
        let counts = (0..=u8::MAX).zip(self.0).filter(|(_, packets)| *packets > 0);
        counts.map(|(class, packets)| (TrafficClass::from_octet(class), packets))
    }
}

/// Meter of a stream of datagrams at its receiver.
#[derive(Debug)]
pub(crate) struct Meter {
    wide: bool,
    order: DatagramMeter,
    /// Highest sequence number, counted from 0, plus one.
    next: u64,
    pub malformed: u64,
    marked: u64,
    arrived: Arrived,
    /// The difference between the clocks of both ends and the delay of the first datagram, in ns.
    first: Option<i64>,
    /// The least difference.
    least: i64,
    /// Delays since the last mark.
    delays: Delays,
}

/// Differences between arrival and sending, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delays {
    pub count: u64,
    least: i64,
    most: i64,
    sum: i128,
}

impl Delays {
    fn add(&mut self, delay: i64) {
        let none = self.count == 0;
        self.least = if none { delay } else { self.least.min(delay) };
        self.most = if none { delay } else { self.most.max(delay) };
        self.sum += i128::from(delay);
        self.count += 1;
    }

    /// Returns the minimum, mean and maximum above `floor`, in seconds.
    pub fn above(&self, floor: i64) -> Option<[f64; 3]> {
        if self.count == 0 {
            return None;
        }
        let mean = self.sum as f64 / self.count as f64 - floor as f64;
        let [least, most] = [self.least, self.most].map(|each| each.saturating_sub(floor) as f64);
        Some([least, mean, most].map(|nanos| nanos / 1e9))
    }
}

/// Monotonic and real-time clock of this host, read together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    monotonic: Nanos,
    realtime: Nanos,
}

impl Clocks {
    pub fn read() -> Self {
        Self { monotonic: monotonic(), realtime: realtime() }
    }

    /// Returns the monotonic time of a recent time stamp of the kernel.
    fn of_stamp(self, stamp: Option<Nanos>) -> Nanos {
        stamp.map_or(self.monotonic, |stamp| {
            self.monotonic.saturating_sub(self.realtime.saturating_sub(stamp))
        })
    }
}

impl Meter {
    pub fn new(wide: bool) -> Self {
        Self {
            wide,
            order: DatagramMeter::default(),
            next: 0,
            malformed: 0,
            marked: 0,
            arrived: Arrived::default(),
            first: None,
            least: i64::MAX,
            delays: Delays::default(),
        }
    }

    /// Counts a datagram, or several that the kernel has merged.
    pub fn add(&mut self, bytes: &[u8], control: &Control, clocks: Clocks) {
        let arrived = clocks.of_stamp(control.stamp);
        let class = control.traffic_class.unwrap_or(0);
        let size = control.segment.unwrap_or(bytes.len()).max(1);
        for datagram in bytes.chunks(size) {
            self.add_one(datagram, class, arrived);
        }
    }

    fn add_one(&mut self, bytes: &[u8], class: u8, arrived: Nanos) {
        let header = Header::read(bytes, self.wide);
        let Some(header) = header.filter(|each| (1..=MAX_SEQUENCE).contains(&each.sequence)) else {
            self.malformed += 1;
            return;
        };
        self.arrived.add(class, 1);
        // Both fit: microseconds of 32-bit seconds, and a clock that began when the host did.
        let delay = arrived as i64 - (header.sent * 1_000) as i64;
        let first = *self.first.get_or_insert(delay);
        let biased = (delay - first).clamp(-BIAS, BIAS) + BIAS;
        let sequence = header.sequence - 1;
        let marked = class & 3 == Ecn::Ce as u8;
        let since_first = Duration::from_picos(biased as u64 * 1_000);
        if self.order.add(sequence, bytes.len() as u64, since_first, marked) {
            self.next = self.next.max(sequence + 1);
            self.marked += u64::from(marked);
            self.least = self.least.min(delay);
            self.delays.add(delay);
        }
    }

    /// Returns the counters so far; `sent` is the number of sent datagrams, if known.
    pub fn counts(&self, sent: Option<u64>) -> Counts {
        let order = self.order.order.counts();
        Counts {
            bytes: self.order.delivered,
            packets: self.order.packets,
            lost: Some(self.next.max(sent.unwrap_or(0)).saturating_sub(self.order.packets)),
            reordered: Some(order.reordered),
            duplicates: Some(order.duplicates),
            marked: Some(self.marked),
            retransmits: None,
        }
    }

    /// Returns the packets by DSCP and ECN field.
    pub fn arrived(&self) -> &Arrived {
        &self.arrived
    }

    /// Returns the measurements, and begins the next interval.
    pub fn reading(&mut self) -> StreamReading {
        let reading = self.order.reading(0);
        self.pass_mark();
        reading
    }

    /// Returns the highest sequence number that has arrived.
    pub fn highest(&self) -> u64 {
        self.next
    }

    /// Returns the jitter in seconds.
    pub fn jitter(&self) -> Option<f64> {
        self.order.reading(0).jitter.map(Duration::as_secs_f64)
    }

    /// Returns the least difference between arrival and sending in nanoseconds: the delay plus the
    /// offset of the clocks.
    pub fn least(&self) -> Option<i64> {
        self.first.map(|_| self.least)
    }

    /// Returns the delays since the last mark.
    pub fn pass_mark(&mut self) -> Delays {
        self.order.pass_mark();
        std::mem::take(&mut self.delays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(meter: &mut Meter, sequence: u64, sent_us: u64, arrived_ns: Nanos) {
        let (bytes, _) = Header { sent: sent_us, sequence }.write(true);
        let control = Control { traffic_class: Some(0xbb), ..Control::default() };
        meter.add(&bytes, &control, Clocks { monotonic: arrived_ns, realtime: 0 });
    }

    #[test]
    fn losses_at_the_end_count_and_late_ones_do_not() {
        let mut meter = Meter::new(true);
        for sequence in [1, 2, 5, 3, 3, 7] {
            receive(&mut meter, sequence, 0, 0);
        }
        let counts = meter.counts(None);
        assert_eq!((counts.packets, counts.lost), (5, Some(2)), "4 and 6");
        assert_eq!((counts.reordered, counts.duplicates), (Some(1), Some(1)));
        assert_eq!(meter.counts(Some(10)).lost, Some(5), "4, 6, 8, 9 and 10");
        let arrived: Vec<_> = meter.arrived().counts().collect();
        assert_eq!(arrived, [(TrafficClass::from_octet(0xbb), 6)]);
        assert_eq!(counts.marked, Some(5));
    }

    #[test]
    fn the_variation_does_not_depend_on_the_clocks() {
        for ahead in [0, 5_000_000_000] {
            let mut meter = Meter::new(true);
            for (number, delay) in [300_000, 100_000, 500_000].into_iter().enumerate() {
                let sent = 10_000_000 + 20_000 * number as u64;
                receive(&mut meter, number as u64 + 1, sent, sent * 1_000 + delay + ahead);
            }
            let least = meter.least().unwrap();
            assert_eq!(least, 100_000 + ahead as i64);
            let [low, mean, high] = meter.pass_mark().above(least).unwrap();
            assert!(low == 0.0 && (mean - 200e-6).abs() < 1e-9 && (high - 400e-6).abs() < 1e-9);
        }
    }

    #[test]
    fn hostile_numbers_and_times_do_no_harm() {
        let mut meter = Meter::new(true);
        for sequence in [0, u64::MAX, MAX_SEQUENCE + 1, MAX_SEQUENCE, 1] {
            for sent in [0, u64::from(u32::MAX) * 1_000_000] {
                receive(&mut meter, sequence, sent, u64::from(u32::MAX));
            }
        }
        assert_eq!((meter.malformed, meter.counts(None).packets), (6, 3), "1 is not remembered");
        assert!(meter.jitter().is_some());
    }
}
