//! A path for models: a bottleneck that sends a segment of 1000 bytes each millisecond, without
//! losses of its own, and 39 ms in all beside it.

use std::collections::VecDeque;

use perhop_core::{Duration, Time};

use super::{Delivered, PathModel, Window};
use crate::delivery::{DeliveredPacket, Deliveries, Snapshot};

const SEGMENT: u32 = 1000;
const MS: fn(u64) -> Duration = Duration::from_millis;

/// A greedy sender, its segments on the path, and the time.
pub(in crate::congestion) struct Path {
    pub now: Time,
    pub window: Window,
    pub in_flight: u64,
    pub delivered: u64,
    /// If not zero, of so many segments the last is lost.
    pub lose_every: u32,
    deliveries: Deliveries,
    /// When a segment is acknowledged or found lost, which of both, and the segment.
    flight: VecDeque<(Time, bool, DeliveredPacket, Snapshot)>,
    /// End of the last transmission at the bottleneck.
    busy: Time,
    next: Time,
    order: u32,
}

impl Path {
    /// Begins with a model and a window of ten segments.
    pub fn new(model: &mut dyn PathModel) -> Self {
        let window = Window::new(10.0 * f64::from(SEGMENT));
        model.begin(&window, SEGMENT.into());
        Self {
            now: Time::ZERO,
            window,
            in_flight: 0,
            delivered: 0,
            lose_every: 0,
            deliveries: Deliveries::default(),
            flight: VecDeque::new(),
            busy: Time::ZERO,
            next: Time::ZERO,
            order: 0,
        }
    }

    /// Sends a segment or takes an acknowledgement, whichever is next.
    pub fn step(&mut self, model: &mut dyn PathModel) {
        let answer = self.flight.front().map_or(Time::MAX, |sent| sent.0);
        let room = (self.in_flight + u64::from(SEGMENT)) as f64 <= self.window.cwnd;
        if room && self.next.max(self.now) <= answer {
            self.now = self.next.max(self.now);
            self.send(model);
            return;
        }
        if !room {
            model.on_window_full();
        }
        let Some((at, lost, packet, snapshot)) = self.flight.pop_front() else { return };
        (self.now, self.in_flight) = (at, self.in_flight - u64::from(SEGMENT));
        if lost {
            self.deliveries.lose(SEGMENT, &snapshot);
            let total = self.deliveries.delivered();
            for lost in self.deliveries.take_losses() {
                model.on_lost(&self.window, at, lost, total);
            }
            return;
        }
        self.delivered += u64::from(SEGMENT);
        self.deliveries.deliver(packet, snapshot, at);
        let Some(sample) = self.deliveries.take(model.min_rtt(), at) else { return };
        let ack = Delivered {
            now: at,
            sample,
            newly: SEGMENT.into(),
            in_flight: self.in_flight,
            recovering: false,
            smoothed_rtt: at.since(packet.at),
        };
        if model.on_ack(&mut self.window, ack) {
            self.deliveries.limit(self.in_flight);
        }
    }

    fn send(&mut self, model: &dyn PathModel) {
        self.in_flight += u64::from(SEGMENT);
        let snapshot = self.deliveries.snapshot(self.in_flight, SEGMENT, self.now);
        self.busy = self.busy.max(self.now) + MS(1);
        let (at, order) = (self.now, self.order);
        let packet = DeliveredPacket { at, length: SEGMENT, order, data: true, ambiguous: false };
        self.order += 1;
        let lost = self.lose_every > 0 && self.order.is_multiple_of(self.lose_every);
        self.flight.push_back((self.busy + MS(39), lost, packet, snapshot));
        if let Some(rate) = model.pacing_rate() {
            let gap = f64::from(SEGMENT) / rate * 1e12;
            self.next = self.now + Duration::from_picos(gap as u64);
        }
    }
}
