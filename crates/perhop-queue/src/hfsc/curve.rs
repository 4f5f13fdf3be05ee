//! Service curves: amounts of service over time.

use perhop_core::{Bytes, Duration};

/// A service curve of two slopes, in bit/s: `m1` for the time `d`, then `m2`. It is concave if
/// `m1` is greater, and convex if `m2` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct ServiceCurve {
    /// First slope in bit/s.
    pub m1: u64,
    /// Time for which the first slope lasts.
    pub d: Duration,
    /// Second slope in bit/s; not zero.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub m2: u64,
}

/// Curves of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct HfscCurves {
    /// Guarantee, regardless of all other classes; of leaves only.
    pub realtime: Option<ServiceCurve>,
    /// Share of the parent's bandwidth; a leaf without one sends by its guarantee only.
    pub linkshare: Option<ServiceCurve>,
    /// Limit of what link sharing gives.
    pub upperlimit: Option<ServiceCurve>,
}

/// An amount of service, in 10⁻¹² bit: a slope in bit/s times picoseconds.
pub(super) type Service = u128;

/// A point of time or of virtual time, in picoseconds.
pub(super) type Instant = u128;

/// Returns the service of these bytes.
pub(super) fn service(bytes: Bytes) -> Service {
    u128::from(bytes.get()) * 8_000_000_000_000
}

/// A service curve that begins at the point `x`, `y`; the first slope ends `dx`, `dy` later.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuntimeCurve {
    x: Instant,
    y: Service,
    dx: Instant,
    dy: Service,
    m1: u128,
    m2: u128,
}

impl RuntimeCurve {
    /// Creates a curve that begins at time and service zero.
    pub fn new(curve: ServiceCurve) -> Self {
        let dx = Instant::from(curve.d.as_picos());
        let (m1, m2) = (curve.m1.into(), curve.m2.into());
        Self { x: 0, y: 0, dx, dy: dx * m1, m1, m2 }
    }

    /// Returns the service at a time.
    fn service_at(&self, x: Instant) -> Service {
        let since = x.saturating_sub(self.x);
        if since <= self.dx {
            self.y + self.m1 * since
        } else {
            // Virtual times of classes with other slopes may be far away.
            let more = self.m2.saturating_mul(since - self.dx);
            more.saturating_add(self.y + self.dy)
        }
    }

    /// Returns the time at which the service exceeds `y`, rounded up.
    pub fn time_of(&self, y: Service) -> Instant {
        if y < self.y {
            return self.x;
        }
        let more = y - self.y;
        if more > self.dy || self.dy == 0 {
            self.x + self.dx + (more - self.dy).div_ceil(self.m2)
        } else {
            self.x + more.div_ceil(self.m1)
        }
    }

    /// Lowers the curve to `curve` from the point `x`, `y` on, where that is lower.
    ///
    /// The minimum of both has two slopes again, except where a convex curve crosses the present
    /// one from below: the present one is kept then (paper, section IV.B).
    pub fn lower(&mut self, curve: ServiceCurve, x: Instant, y: Service) {
        let new = Self { x, y, ..Self::new(curve) };
        let now = self.service_at(x);
        if now < y || now == y && self.m1 > self.m2 {
            return;
        }
        if self.m1 <= self.m2 || self.service_at(x + new.dx) >= y + new.dy {
            *self = new;
            return;
        }
        // A concave curve below the present one at first: they cross where the new one's first
        // slope has made up for the difference.
        let mut dx = (now - y) / (self.m1 - self.m2);
        if self.x + self.dx > x {
            dx += self.x + self.dx - x;
        }
        *self = Self { dx, dy: dx * self.m1, ..new };
    }

    /// Returns the curve from which a real-time guarantee must be served: the deadlines of a
    /// concave curve, and the second slope of a convex one, so that its later, steeper slope can be
    /// kept.
    pub fn eligible(self) -> Self {
        if self.m1 <= self.m2 { Self { dx: 0, dy: 0, ..self } } else { self }
    }
}
