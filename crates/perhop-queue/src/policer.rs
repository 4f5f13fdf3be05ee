//! Policers: token buckets that measure packets and do not queue them.

use perhop_core::{Bytes, Dscp, Rate, Time, TokenBucket};

use crate::Framing;

/// Verdict of a policer, from best to worst: green, yellow and red in RFC 2697.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Within the committed rate and burst (green).
    Conformed,
    /// Beyond them, within the excess burst or the peak rate (yellow). In a two-colour policer,
    /// every packet that does not conform.
    Exceeded,
    /// Beyond those, too (red).
    Violated,
}

impl Verdict {
    /// Returns the colour of a packet's mark: the drop precedence of assured forwarding (RFC 2597,
    /// section 2), and green for all other DSCPs.
    pub fn of_mark(dscp: Dscp) -> Self {
        match (dscp.get() >> 3, dscp.get() & 0b111) {
            (1..=4, 0b100) => Self::Exceeded,
            (1..=4, 0b110) => Self::Violated,
            _ => Self::Conformed,
        }
    }
}

/// Action on a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Action {
    /// Send the packet unchanged.
    #[default]
    Send,
    /// Drop the packet.
    Drop,
    /// Change the DSCP; the packet stays in its class.
    Remark(Dscp),
}

/// Actions by verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actions {
    /// Action on conforming packets.
    pub conform: Action,
    /// Action on exceeding packets.
    pub exceed: Action,
    /// Action on violating packets.
    pub violate: Action,
}

impl Actions {
    /// Sends conforming packets, drops violating ones, and does `exceed` with exceeding ones.
    pub const fn exceed(exceed: Action) -> Self {
        Self { conform: Action::Send, exceed, violate: Action::Drop }
    }

    /// Returns the action for a verdict.
    pub const fn of(&self, verdict: Verdict) -> Action {
        match verdict {
            Verdict::Conformed => self.conform,
            Verdict::Exceeded => self.exceed,
            Verdict::Violated => self.violate,
        }
    }
}

/// A meter of IP bytes, or of those of [frames](Policer::framed). Its buckets are full at first.
///
/// The arithmetic is exact: over any interval of length t, the conforming packets have at most
/// `burst + rate · t` bytes.
#[derive(Clone, Debug)]
pub struct Policer {
    meter: Meter,
    /// True if the colour of a packet's mark bounds the verdict; otherwise the mark is ignored
    /// (colour-blind).
    colour_aware: bool,
    /// Bytes that buckets count for a packet.
    framing: Framing,
}

#[derive(Clone, Debug)]
enum Meter {
    TwoColour(TokenBucket),
    SingleRate { committed: TokenBucket, excess: TokenBucket },
    TwoRate { committed: TokenBucket, peak: TokenBucket },
}

impl Policer {
    /// Creates a single-rate two-colour policer. A packet conforms if a bucket of `burst` bytes,
    /// filled at `rate`, holds its length, which is then taken from the bucket; otherwise it
    /// exceeds.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        Self::of(Meter::TwoColour(TokenBucket::new(rate, burst)))
    }

    /// Creates the single-rate three-colour marker of RFC 2697: tokens that overflow the committed
    /// bucket fill the excess bucket.
    pub fn single_rate(rate: Rate, burst: Bytes, excess_burst: Bytes) -> Self {
        let committed = TokenBucket::new(rate, burst);
        Self::of(Meter::SingleRate { committed, excess: TokenBucket::new(rate, excess_burst) })
    }

    /// Creates the two-rate three-colour marker of RFC 2698: each rate fills its own bucket.
    pub fn two_rate(rate: Rate, burst: Bytes, peak_rate: Rate, peak_burst: Bytes) -> Self {
        let committed = TokenBucket::new(rate, burst);
        Self::of(Meter::TwoRate { committed, peak: TokenBucket::new(peak_rate, peak_burst) })
    }

    fn of(meter: Meter) -> Self {
        Self { meter, colour_aware: false, framing: Framing::default() }
    }

    /// Returns the same policer, colour-aware: a verdict is never better than the packet's mark.
    #[must_use]
    pub fn colour_aware(self) -> Self {
        Self { colour_aware: true, ..self }
    }

    /// Returns the same policer with buckets that count the bytes of layer 2, too.
    #[must_use]
    pub fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// Changes the committed rate and burst from `now` on; the other buckets stay as they are.
    pub fn set(&mut self, now: Time, rate: Rate, burst: Bytes) {
        match &mut self.meter {
            Meter::TwoColour(committed) | Meter::TwoRate { committed, .. } => {
                let _ = committed.set(now, rate, burst);
            }
            Meter::SingleRate { committed, excess } => {
                let overflow = committed.set(now, rate, burst);
                let _ = excess.add(overflow);
            }
        }
    }

    /// Measures a packet of `size` IP bytes with this mark that arrives at `now`, which is not
    /// before the last call.
    #[inline]
    pub fn police(&mut self, now: Time, size: Bytes, mark: Dscp) -> Verdict {
        let colour = if self.colour_aware { Verdict::of_mark(mark) } else { Verdict::Conformed };
        let size = self.framing.charge(size);
        match &mut self.meter {
            Meter::TwoColour(bucket) => {
                let _ = bucket.fill(now);
                if colour > Verdict::Conformed || !bucket.holds(size) {
                    return Verdict::Exceeded;
                }
                bucket.take(size);
                Verdict::Conformed
            }
            Meter::SingleRate { committed, excess } => {
                let overflow = committed.fill(now);
                let _ = excess.add(overflow);
                if colour == Verdict::Conformed && committed.holds(size) {
                    committed.take(size);
                    Verdict::Conformed
                } else if colour <= Verdict::Exceeded && excess.holds(size) {
                    excess.take(size);
                    Verdict::Exceeded
                } else {
                    Verdict::Violated
                }
            }
            Meter::TwoRate { committed, peak } => {
                let _ = (committed.fill(now), peak.fill(now));
                if colour == Verdict::Violated || !peak.holds(size) {
                    return Verdict::Violated;
                }
                peak.take(size);
                if colour == Verdict::Exceeded || !committed.holds(size) {
                    return Verdict::Exceeded;
                }
                committed.take(size);
                Verdict::Conformed
            }
        }
    }
}

#[cfg(test)]
mod tests;
