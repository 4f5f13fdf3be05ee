//! Pacing by a leaky bucket (RFC 9002, section 7.7).

use perhop_core::{Duration, Time};

/// Bucket of the bytes that may be sent.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Greatest burst, in bytes.
    capacity: f64,
    tokens: f64,
    filled_at: Time,
    /// Time at which the packet that waits may be sent; [`Time::MAX`] if none waits.
    until: Time,
}

impl Pacer {
    pub fn new(capacity: f64) -> Self {
        Self { capacity, tokens: capacity, filled_at: Time::ZERO, until: Time::MAX }
    }

    /// Returns `true` if a packet of `bytes` has to wait at `rate` bytes per second.
    pub fn holds(&mut self, now: Time, bytes: f64, rate: f64) -> bool {
        let elapsed = now.since(self.filled_at).as_secs_f64();
        (self.tokens, self.filled_at) = ((self.tokens + elapsed * rate).min(self.capacity), now);
        let missing = bytes.min(self.capacity) - self.tokens;
        self.until = Time::MAX;
        // Sums of fractions of bytes may be a little below.
        if missing <= 1e-3 {
            return false;
        }
        self.until = now + Duration::from_picos((missing / rate * 1e12) as u64 + 1);
        true
    }

    /// Records a packet that was sent.
    pub fn on_sent(&mut self, bytes: f64) {
        self.tokens = (self.tokens - bytes).max(-self.capacity);
    }

    /// Returns when a packet that waits may be sent.
    pub fn deadline(&self) -> Time {
        self.until
    }

    /// Ends the wait at its deadline.
    pub fn on_timer(&mut self, now: Time) {
        if self.until <= now {
            self.until = Time::MAX;
        }
    }
}
