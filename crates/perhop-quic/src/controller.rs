//! Congestion control (RFC 9002, section 7), with the growth and decrease of `perhop-tcp`.

use perhop_core::{Duration, Ecn, Time};
use perhop_tcp::{
    Acked, Congestion, DecreaseFrom, Delivered, DeliveredPacket, Deliveries, Marked, Snapshot,
    Window,
};

use crate::pacer::Pacer;
use crate::{RttEstimator, SentPacket};

/// Windows per round trip at which a sender paces (section 7.7: N, with the RFC's example).
const PACING: f64 = 1.25;

/// Returns the initial window (section 7.2), in bytes.
pub fn initial_window(datagram: u16) -> f64 {
    let datagram = f64::from(datagram);
    (10.0 * datagram).min(14_720.0_f64.max(2.0 * datagram))
}

/// State of the sender when a packet was sent.
pub type Sent = Option<Snapshot>;

/// An acknowledgement, as congestion control takes it.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent<'a> {
    pub now: Time,
    pub rtt: &'a RttEstimator,
    /// Round-trip time that it measured.
    pub sample: Option<Duration>,
    /// Number after the largest acknowledged one, and that of the next packet.
    pub numbers: (u64, u64),
    /// Bytes in flight after it.
    pub in_flight: u64,
}

/// Congestion window and pacing of a connection.
#[derive(Clone, Debug)]
pub struct Controller {
    congestion: Congestion,
    window: Window,
    datagram: f64,
    /// Beginning of the recovery period (section 7.3.2): packets sent before neither grow the
    /// window nor reduce it again.
    recovery: Option<Time>,
    /// True until a packet sent in the recovery period is acknowledged.
    recovering: bool,
    /// Time of the last response to marks.
    answered: Option<Time>,
    deliveries: Option<Box<Deliveries>>,
    pacer: Option<Pacer>,
    /// True if the window or the pacing, and not the application or flow control, limits the sender
    /// (section 7.8).
    limited: bool,
    /// True if one packet may be sent beyond the window: the first one of a recovery period
    /// (section 7.3.2).
    urgent: bool,
    /// Without pacing: bytes that may be sent before the next acknowledgement or timeout.
    burst: f64,
}

impl Controller {
    /// Creates a congestion control for datagrams with this payload, with pacing if `paced`; some
    /// pace in any case.
    pub fn new(mut congestion: Congestion, datagram: u16, window: f64, paced: bool) -> Self {
        let capacity = match congestion.needs_pacing() {
            true => f64::from(datagram), // one by one, as they need it
            false => initial_window(datagram),
        };
        let pacer = (paced || congestion.needs_pacing()).then(|| Pacer::new(capacity));
        if pacer.is_some() {
            congestion.pace();
        }
        let window = Window::new(window);
        let mut deliveries = None;
        if let Some(model) = congestion.model() {
            model.begin(&window, datagram.into());
            deliveries = Some(Box::default());
        }
        Self {
            congestion,
            window,
            datagram: datagram.into(),
            recovery: None,
            recovering: false,
            answered: None,
            deliveries,
            pacer,
            limited: false,
            urgent: false,
            burst: initial_window(datagram),
        }
    }

    /// Returns the congestion window in bytes.
    pub fn window(&self) -> u64 {
        self.window.cwnd as u64
    }

    /// Returns the ECN field of packets of a connection that uses ECN.
    pub fn ect(&self) -> Ecn {
        self.congestion.ect()
    }

    /// Sets the payload of a full datagram.
    pub fn resize(&mut self, datagram: u16) {
        self.datagram = datagram.into();
        self.window.cwnd = self.window.cwnd.max(self.least());
        if let Some(model) = self.congestion.model() {
            model.resize(datagram.into());
        }
    }

    /// Returns the least window (section 7.2: kMinimumWindow).
    fn least(&self) -> f64 {
        2.0 * self.datagram
    }

    /// Returns `true` if a packet of `bytes` may be sent now; otherwise the limit is the window or
    /// the pacing. The sender has `available` bytes to send: what pacing holds back counts as the
    /// window's limit only if it would fill the window (section 7.8).
    pub fn permits(
        &mut self,
        now: Time,
        (bytes, available): (u16, u64),
        in_flight: u64,
        rtt: &RttEstimator,
    ) -> bool {
        let fits = (in_flight + u64::from(bytes)) as f64 <= self.window.cwnd;
        let held = match (self.rate(rtt), &mut self.pacer) {
            (Some(rate), Some(pacer)) => pacer.holds(now, bytes.into(), rate),
            (_, None) => f64::from(bytes) > self.burst,
            _ => false,
        };
        let permitted = (fits || self.urgent) && !held;
        if !permitted {
            let fills = in_flight.saturating_add(available).saturating_add(bytes.into());
            self.limited = !fits || fills as f64 > self.window.cwnd;
            if !fits && let Some(model) = self.congestion.model() {
                model.on_window_full();
            }
        }
        permitted
    }

    /// Records that the application or flow control limits the sender.
    pub fn on_idle(&mut self, in_flight: u64) {
        self.limited = false;
        if let Some(deliveries) = &mut self.deliveries {
            deliveries.limit(in_flight);
        }
    }

    /// Records a packet that is sent; `in_flight` includes it.
    pub fn on_sent(&mut self, now: Time, bytes: u16, in_flight: u64) -> Sent {
        self.urgent = false;
        self.burst -= f64::from(bytes);
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(bytes.into());
        }
        let deliveries = self.deliveries.as_mut()?;
        if in_flight == u64::from(bytes)
            && deliveries.is_limited()
            && let Some(model) = self.congestion.model()
        {
            model.on_restart(&mut self.window, now, deliveries.delivered());
        }
        Some(deliveries.snapshot(in_flight, bytes.into(), now))
    }

    /// Takes acknowledged packets: their numbers, times, bytes and states.
    pub fn on_acked<T: Copy>(
        &mut self,
        event: AckEvent<'_>,
        packets: &[SentPacket<T>],
        sent: impl Fn(&T) -> Sent,
    ) {
        self.burst = initial_window(self.datagram as u16);
        let after = |packet: &&SentPacket<T>| self.recovery.is_none_or(|began| packet.at > began);
        let bytes: u64 = packets.iter().filter(after).map(|packet| u64::from(packet.bytes)).sum();
        let total: u64 = packets.iter().map(|packet| u64::from(packet.bytes)).sum();
        if let Some(deliveries) = &mut self.deliveries {
            for packet in packets {
                let Some(snapshot) = sent(&packet.content) else { continue };
                let delivered = DeliveredPacket {
                    at: packet.at,
                    length: packet.bytes.into(),
                    order: packet.number as u32 & (u32::MAX >> 4),
                    data: true,
                    ambiguous: false,
                };
                deliveries.deliver(delivered, snapshot, event.now);
            }
        }
        if bytes > 0
            && std::mem::take(&mut self.recovering)
            && let Some(model) = self.congestion.model()
        {
            model.on_recovered(&mut self.window);
        }
        let smoothed_rtt = event.rtt.assumed();
        let (ack, end) = event.numbers;
        if bytes > 0 {
            let acked = Acked {
                now: event.now,
                bytes,
                smoothed_rtt,
                rtt: event.sample,
                ack,
                end,
                limited: self.limited,
                stretched: true,
                bytewise: true,
            };
            self.congestion.on_ack(&mut self.window, self.datagram, acked);
        }
        let Some(deliveries) = &mut self.deliveries else { return };
        let Some(model) = self.congestion.model() else { return };
        let Some(sample) = deliveries.take(model.min_rtt(), event.now) else { return };
        let delivered = Delivered {
            now: event.now,
            sample,
            newly: total,
            in_flight: event.in_flight,
            recovering: self.recovering,
            smoothed_rtt,
        };
        if model.on_ack(&mut self.window, delivered) {
            deliveries.limit(event.in_flight);
        }
        self.window.cwnd = self.window.cwnd.max(self.least());
    }

    /// Takes lost packets, before acknowledged ones of the same event. `persistent` if they show
    /// persistent congestion.
    pub fn on_lost<T: Copy>(
        &mut self,
        now: Time,
        packets: &[SentPacket<T>],
        sent: impl Fn(&T) -> Sent,
        persistent: bool,
    ) {
        let Some(last) = packets.iter().map(|packet| packet.at).max() else { return };
        if let (Some(deliveries), Some(model)) = (&mut self.deliveries, self.congestion.model()) {
            for packet in packets {
                let Some(snapshot) = sent(&packet.content) else { continue };
                deliveries.lose(packet.bytes.into(), &snapshot);
            }
            let total = deliveries.delivered();
            for lost in deliveries.take_losses() {
                model.on_lost(&self.window, now, lost, total);
            }
        }
        if self.recovery.is_none_or(|began| last > began) {
            self.begin_recovery(now);
            if let Some(model) = self.congestion.model() {
                model.on_recovery(&self.window, false);
            } else {
                let from = DecreaseFrom::Flight(self.window.cwnd);
                self.congestion.on_loss(&mut self.window, self.datagram, from);
            }
        }
        if persistent {
            // Section 7.6.2. A new recovery period may begin at once (appendix B.8).
            (self.recovery, self.recovering) = (None, false);
            self.congestion.on_timeout();
            self.window.cwnd = self.least();
        }
    }

    fn begin_recovery(&mut self, now: Time) {
        (self.recovery, self.answered) = (Some(now), Some(now));
        (self.recovering, self.urgent) = (true, true);
    }

    /// Takes the acknowledgement of `delivered` bytes, of which `marked` had CE. `last` is the
    /// transmission time of the largest acknowledged packet (section 7.1 and appendix B.7).
    pub fn on_marks(&mut self, event: AckEvent<'_>, (delivered, marked): (u64, u64), last: Time) {
        let (ack, end) = event.numbers;
        let smoothed_rtt = event.rtt.assumed();
        let at = Marked { now: event.now, ack, end, delivered, marked, smoothed_rtt };
        self.congestion.on_delivered(at);
        let again = self.recovery.max(self.answered).is_some_and(|began| last <= began);
        if marked == 0 || again || self.congestion.is_modelled() {
            return;
        }
        let from = DecreaseFrom::Flight(self.window.cwnd);
        if self.congestion.on_mark(&mut self.window, self.datagram, from, at) {
            match self.congestion.is_scalable() {
                true => self.answered = Some(event.now), // its window goes on growing
                false => self.begin_recovery(event.now),
            }
        }
    }

    /// Returns `true` if one packet may be sent beyond the window.
    #[cfg(test)]
    pub fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Returns the pacing rate in bytes per second.
    fn rate(&self, rtt: &RttEstimator) -> Option<f64> {
        if let Some(rate) = self.congestion.pacing_rate() {
            return Some(rate);
        }
        let round = rtt.smoothed()?.as_secs_f64();
        let factor = self.congestion.pacing_factor().unwrap_or(PACING);
        (round > 0.0).then_some(factor * self.window.cwnd / round)
    }

    /// Returns when a packet that pacing holds back may be sent.
    pub fn deadline(&self) -> Time {
        self.pacer.as_ref().map_or(Time::MAX, Pacer::deadline)
    }

    /// Handles a timer.
    pub fn on_timer(&mut self, now: Time) {
        self.burst = self.burst.max(initial_window(self.datagram as u16));
        if let Some(pacer) = &mut self.pacer {
            pacer.on_timer(now);
        }
    }
}
