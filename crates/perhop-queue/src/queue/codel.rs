//! CoDel, controlled delay (RFC 8289).

use perhop_core::{Bytes, Duration, Header, Packet, Time};

use super::signal::signal;
use super::waiting::Waiting;
use crate::{Backlog, Cause, Dequeue, Discipline, Ledger, Limit, Pass};

/// CoDel's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct CodelConfig {
    /// Limit of the queue.
    pub limit: Limit,
    /// Acceptable standing delay: 5 ms (RFC 8289, section 4).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub target: Duration,
    /// Time for which the delay must exceed the target before the queue counts as standing: about
    /// the longest usual round-trip time, 100 ms (section 4).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub interval: Duration,
    /// True if packets with an ECN-capable transport are marked instead of dropped.
    pub ecn: bool,
}

/// A queue that drops from its head once packets have waited longer than the target for an
/// interval. The time between drops is the interval divided by the square root of their number.
///
/// After RFC 8289, section 5. A marked packet counts as a dropped one and is sent, so that there
/// is at most one mark for a packet that is sent (RFC 8290, section 5.2.6).
#[derive(Debug)]
pub struct Codel<B> {
    config: CodelConfig,
    control: Control,
    longest: Bytes,
    waiting: Waiting<B>,
}

impl<B> Codel<B> {
    /// Creates an empty queue.
    pub const fn new(config: CodelConfig) -> Self {
        Self { config, control: Control::new(), longest: Bytes::ZERO, waiting: Waiting::new() }
    }
}

impl<B> Discipline<B> for Codel<B> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        self.longest = self.longest.max(packet.size());
        if self.config.limit.admits(self.waiting.backlog(), packet.size()) {
            self.waiting.push(now, packet);
        } else {
            ledger.drop(packet, Cause::Limit);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        let standing = Standing { longest: self.longest, others: Bytes::ZERO };
        match self.control.dequeue(&self.config, standing, &mut self.waiting, now, ledger) {
            Some(packet) => Dequeue::Packet(packet),
            None => Dequeue::Idle,
        }
    }

    #[inline]
    fn pass(&mut self, _now: Time, header: &Header) -> Pass {
        if self.config.limit.admits(Backlog::default(), header.size()) {
            self.longest = self.longest.max(header.size());
            Pass::Send
        } else {
            Pass::Drop(Cause::Limit)
        }
    }

    fn head(&mut self, _now: Time) -> Option<Bytes> {
        self.waiting.head()
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.waiting.backlog()
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        self.waiting.drain(packets);
    }
}

/// Backlogs that decide whether a delay counts: a queue of no more than one packet of the largest
/// size is not a standing queue, however slow the link (RFC 8289, section 5.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Longest packet so far, in bytes, in place of the link's MTU.
    pub longest: Bytes,
    /// Bytes in other queues of the same discipline that count towards the backlog.
    pub others: Bytes,
}

/// CoDel's state besides the queue itself (RFC 8289, section 5.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    /// Time at which the delay will have been above the target for an interval, if it stays there.
    first_above: Option<Time>,
    /// Time of the next drop, while `dropping`.
    drop_next: Time,
    /// Drops since the dropping state was entered.
    count: u32,
    /// Value of `count` at the last entry.
    last_count: u32,
    dropping: bool,
}

impl Control {
    pub const fn new() -> Self {
        Self { first_above: None, drop_next: Time::ZERO, count: 0, last_count: 0, dropping: false }
    }

    /// Records a delay below the target: the queue is empty.
    #[inline]
    pub fn on_idle(&mut self) {
        self.first_above = None;
    }

    /// Counts packets that were dropped for another reason.
    pub fn count_drops(&mut self, packets: u32) {
        self.count = self.count.saturating_add(packets);
    }

    /// Returns the packet to send (section 5.5).
    #[inline]
    pub fn dequeue<B>(
        &mut self,
        config: &CodelConfig,
        standing: Standing,
        waiting: &mut Waiting<B>,
        now: Time,
        ledger: &mut Ledger<B>,
    ) -> Option<Packet<B>> {
        // After an empty queue an interval begins, and the next packet ends the dropping state.
        let (mut packet, above) = self.take(config, standing, waiting, now)?;
        if !above {
            self.dropping = false;
            return Some(packet);
        }
        if !self.dropping {
            // A standing queue: drop one packet, and continue at the last episode's count if that
            // ended recently.
            let drops_last_time = self.count - self.last_count;
            let recent =
                self.drop_next > Time::ZERO && now.since(self.drop_next) < config.interval * 16;
            self.count = if drops_last_time > 1 && recent { drops_last_time } else { 1 };
            self.last_count = self.count;
            self.dropping = true;
            self.drop_next = now + self.spacing(config.interval);
            return match signal(config.ecn, packet, ledger) {
                Some(marked) => Some(marked),
                // The delay of the next packet matters only at the time of the next drop.
                None => self.take(config, standing, waiting, now).map(|(packet, _)| packet),
            };
        }
        while now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            let marked = signal(config.ecn, packet, ledger);
            if marked.is_some() {
                self.drop_next += self.spacing(config.interval);
                return marked;
            }
            let above;
            (packet, above) = self.take(config, standing, waiting, now)?;
            if !above {
                self.dropping = false;
                break;
            }
            self.drop_next += self.spacing(config.interval);
        }
        Some(packet)
    }

    /// Returns the next packet, and `true` if the delay has been above the target for an interval
    /// (`dodequeue`, section 5.6).
    #[inline]
    fn take<B>(
        &mut self,
        config: &CodelConfig,
        standing: Standing,
        waiting: &mut Waiting<B>,
        now: Time,
    ) -> Option<(Packet<B>, bool)> {
        let Some((delay, packet)) = waiting.pop(now) else {
            self.first_above = None;
            return None;
        };
        let backlog = waiting.backlog().bytes + standing.others;
        if delay < config.target || backlog <= standing.longest {
            self.first_above = None;
            return Some((packet, false));
        }
        let first_above = *self.first_above.get_or_insert(now + config.interval);
        Some((packet, now >= first_above))
    }

    /// Returns the time between a drop and the next one: the control law. The square root of IEEE
    /// 754 is rounded correctly, and so the same on all platforms.
    fn spacing(&self, interval: Duration) -> Duration {
        Duration::from_picos((interval.as_picos() as f64 / f64::from(self.count).sqrt()) as u64)
    }
}
