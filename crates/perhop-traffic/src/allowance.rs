//! Limits that the owner of a host sets for all traffic of a process, whoever requests it. They are
//! checked where packets are handed to the kernel.

use std::sync::{Arc, Mutex};

use perhop_core::{Bytes, Rate, TokenBucket};
use perhop_socket::Nanos;

use crate::stream::lock;

const HOUR: Nanos = 3_600_000_000_000;
/// Hours of which the volume is the sum: the current one and the 24 before it.
const HOURS: usize = 25;
/// Burst as a time at the rate, in milliseconds.
const BURST_MS: u64 = 10;
/// Minimum burst in bytes: a train of datagrams.
const MIN_BURST: u64 = 64 << 10;
/// Maximum size in bytes that a sender may need at once: a train of datagrams with headers.
const MAX_TRAIN: u64 = 72 << 10;
/// Share of the rate that probes get at least and at most, whatever other senders take.
const PROBES_PART: u64 = 16;
/// Share of the burst that a sender of a byte stream gets at least, once no more is left.
const PART: u64 = 8;

/// Tokens of a packet.
const PACKET: Bytes = Bytes::new(1);
/// First packets per second to addresses that have proved nothing, and at once.
const FIRST_PACKETS: u32 = 100;
/// Maximum time between the turns of waiting senders, in nanoseconds.
const MAX_QUEUE: Nanos = 200_000_000;

/// Answer to a request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Permission to send this many bytes, at least one.
    Bytes(u64),
    /// Nothing may be sent before this instant of the monotonic clock, in nanoseconds.
    Wait(Nanos),
    /// The volume is exhausted.
    Over,
}

/// Limits of an [`Allowance`]; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllowanceLimits {
    /// Bits per second: payload, and the headers of datagrams.
    pub rate: Option<u64>,
    /// Bytes in any 24 hours, counted as for `rate`.
    pub volume: Option<u64>,
    /// Packets of probes per second to addresses that have not proved that they want data. A probe
    /// of more than 1280 B counts as several packets.
    pub ping_rate: Option<u32>,
}

/// Limits of all traffic of a process together. Clones share them.
///
/// In any time t, all together send at most `rate · t` and a burst: 10 ms of the rate, or 64 KiB if
/// that is more, and a train of datagrams. Senders that must wait take turns.
#[derive(Clone, Debug)]
pub struct Allowance {
    limits: AllowanceLimits,
    state: Arc<Mutex<State>>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self::new(AllowanceLimits::default())
    }
}

#[derive(Debug)]
struct State {
    bytes: Option<TokenBucket<Nanos>>,
    probes: Option<TokenBucket<Nanos>>,
    volume: Volume,
    pings: Option<TokenBucket<Nanos>>,
    first_packets: TokenBucket<Nanos>,
    /// End of the last turn that a waiting sender was given.
    turns_end: Nanos,
}

impl Allowance {
    /// Returns an allowance of which nothing is used.
    pub fn new(limits: AllowanceLimits) -> Self {
        let AllowanceLimits { rate, ping_rate, .. } = limits;
        let bucket = |rate: u64| {
            let rate = rate.max(1);
            TokenBucket::new(Rate::new(rate).expect("not zero"), Bytes::new(burst(rate)))
        };
        let bytes = rate.map(bucket);
        let probes = rate.map(|rate| bucket(rate / PROBES_PART));
        let pings = ping_rate.and_then(packets);
        let first_packets = packets(FIRST_PACKETS).expect("not zero");
        let volume = Volume::default();
        let state = Mutex::new(State { bytes, probes, volume, pings, first_packets, turns_end: 0 });
        Self { limits, state: Arc::new(state) }
    }

    /// Returns the rate in bit/s.
    pub fn rate(&self) -> Option<u64> {
        self.limits.rate
    }

    /// Returns whether bytes are unlimited.
    fn is_unlimited(&self) -> bool {
        self.limits.rate.is_none() && self.limits.volume.is_none()
    }

    /// Returns whether the volume of the last 24 hours is exhausted. `now` is an instant of the
    /// monotonic clock in nanoseconds, here and below.
    pub fn is_spent(&self, now: Nanos) -> bool {
        let left = |volume| lock(&self.state).volume.left(now, volume);
        self.limits.volume.is_some_and(|volume| left(volume) == 0)
    }

    /// Takes bytes: at least `least`, and up to `most` of those that are left.
    #[inline]
    pub fn take(&self, now: Nanos, least: u64, most: u64) -> Grant {
        match self.is_unlimited() {
            true => Grant::Bytes(most),
            false => lock(&self.state).take(&self.limits, now, least.max(1), most),
        }
    }

    /// Returns bytes that were taken and not sent.
    pub fn give_back(&self, bytes: u64) {
        if bytes == 0 || self.is_unlimited() {
            return;
        }
        let mut state = lock(&self.state);
        state.volume.give_back(bytes);
        if let Some(bucket) = &mut state.bytes {
            bucket.give_back(Bytes::new(bytes));
        }
    }

    /// Takes a first packet to an address that has proved nothing yet, such as the attempt to
    /// connect. Returns whether it may be sent.
    pub fn may_begin(&self, now: Nanos) -> bool {
        lock(&self.state).first_packets.take_at(now, PACKET)
    }

    /// Takes probes of `bytes` in total, of which `unproved` packets go to an address that has not
    /// proved that it wants data. Returns whether they may be sent now.
    pub fn may_probe(&self, now: Nanos, unproved: u64, bytes: u64) -> bool {
        let (mut state, packets) = (lock(&self.state), Bytes::new(unproved));
        if unproved > 0 && self.limits.ping_rate.is_some() {
            let taken = state.pings.as_mut().is_some_and(|bucket| bucket.take_at(now, packets));
            if !taken {
                return false;
            }
        }
        let may = state.take_probes(&self.limits, now, bytes);
        if let (false, Some(bucket)) = (may, &mut state.pings) {
            bucket.give_back(packets);
        }
        may
    }
}

impl State {
    /// Takes the bytes of probes, which do not wait for their turn: they may overdraw the bucket of
    /// all senders, but only by a share of the rate. Returns whether they may be sent now.
    fn take_probes(&mut self, limits: &AllowanceLimits, now: Nanos, bytes: u64) -> bool {
        let size = Bytes::new(bytes);
        if limits.volume.is_some_and(|limit| self.volume.left(now, limit) < bytes) {
            return false;
        }
        if let (Some(probes), Some(all)) = (&mut self.probes, &mut self.bytes) {
            if !probes.take_at(now, size) {
                return false;
            }
            let _ = all.fill(now);
            all.take(size);
        }
        if limits.volume.is_some() {
            self.volume.add(bytes);
        }
        true
    }

    fn take(&mut self, limits: &AllowanceLimits, now: Nanos, least: u64, most: u64) -> Grant {
        let Self { bytes, volume, turns_end, .. } = self;
        let left = limits.volume.map_or(u64::MAX, |limit| volume.left(now, limit));
        if left < least {
            return Grant::Over;
        }
        let most_at_once = limits.rate.map_or(u64::MAX, burst).max(MAX_TRAIN);
        if least > most_at_once {
            return Grant::Wait(Nanos::MAX);
        }
        let mut granted = most.min(left);
        if let (Some(bucket), Some(rate)) = (bytes, limits.rate) {
            let _ = bucket.fill(now);
            let part = granted.min(burst(rate) / PART).max(least);
            // A sender waits until the bucket is not empty, and then may overdraw it: one that
            // needs much at once does not have to wait longer than others.
            if let Some(until) = bucket.not_before(Bytes::new(1)) {
                let last = until.saturating_add(MAX_QUEUE);
                let turn = until.max(now + 1).max((*turns_end).min(last));
                let time = u128::from(part) * 8_000_000_000 / u128::from(rate.max(1));
                *turns_end = turn.saturating_add(time.try_into().unwrap_or(Nanos::MAX));
                return Grant::Wait(turn);
            }
            granted = granted.min(bucket.available().get()).max(part);
            bucket.take(Bytes::new(granted));
        }
        if limits.volume.is_some() {
            volume.add(granted);
        }
        Grant::Bytes(granted)
    }
}

/// Returns a bucket of packets with a rate per second, and as many at once; `None` if that is zero.
fn packets(rate: u32) -> Option<TokenBucket<Nanos>> {
    Some(TokenBucket::new(Rate::new(u64::from(rate) * 8)?, Bytes::new(rate.into())))
}

/// Returns the burst of a rate in bit/s, in bytes.
fn burst(rate: u64) -> u64 {
    (rate / 8_000).saturating_mul(BURST_MS).max(MIN_BURST)
}

/// Bytes of the current hour and of the 24 hours before it.
#[derive(Debug, Default)]
struct Volume {
    hours: [u64; HOURS],
    /// The current hour of the monotonic clock.
    hour: u64,
    sum: u64,
}

impl Volume {
    /// Returns the bytes that may be sent now.
    fn left(&mut self, now: Nanos, limit: u64) -> u64 {
        let hour = now / HOUR;
        for next in (self.hour + 1..=hour).take(HOURS) {
            self.sum -= std::mem::take(&mut self.hours[next as usize % HOURS]);
        }
        self.hour = self.hour.max(hour);
        limit.saturating_sub(self.sum)
    }

    fn current(&mut self) -> &mut u64 {
        &mut self.hours[self.hour as usize % HOURS]
    }

    fn add(&mut self, bytes: u64) {
        *self.current() += bytes;
        self.sum += bytes;
    }

    /// Takes back bytes; those that an earlier hour has sent stay counted.
    fn give_back(&mut self, bytes: u64) {
        let current = self.current();
        let bytes = bytes.min(*current);
        *current -= bytes;
        self.sum -= bytes;
    }
}

#[cfg(test)]
mod tests;
