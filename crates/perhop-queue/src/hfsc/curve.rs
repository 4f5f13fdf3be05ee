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
        let first_slope = (self.x + self.dx).saturating_sub(x);
        let dx = first_slope + (now - y) / (self.m1 - self.m2);
        *self = Self { dx, dy: dx * self.m1, ..new };
    }

    /// Returns the curve from which a real-time guarantee must be served: the deadlines of a
    /// concave curve, and the second slope of a convex one, so that its later, steeper slope can be
    /// kept.
    pub fn eligible(self) -> Self {
        if self.m1 <= self.m2 { Self { dx: 0, dy: 0, ..self } } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Instant = 1_000_000;

    /// 8 Mb/s are a byte in a microsecond, for a millisecond; then a tenth of it.
    const CONCAVE: ServiceCurve =
        ServiceCurve { m1: 8_000_000, d: Duration::from_micros(1000), m2: 800_000 };
    const CONVEX: ServiceCurve = ServiceCurve { m1: 800_000, m2: 8_000_000, ..CONCAVE };
    const LATE: ServiceCurve = ServiceCurve { m1: 0, ..CONVEX };
    const LINEAR: ServiceCurve = ServiceCurve { m1: 800_000, ..CONCAVE };

    fn bytes(bytes: u64) -> Service {
        service(Bytes::new(bytes))
    }

    /// Times in microseconds and service in bytes, both ways.
    #[test]
    fn curves_by_hand() {
        for (curve, points) in [
            (CONCAVE, [(0, 0), (500, 500), (1000, 1000), (1010, 1001), (2000, 1100)]),
            (CONVEX, [(0, 0), (500, 50), (1000, 100), (1010, 110), (2000, 1100)]),
            (LATE, [(1000, 0), (1001, 1), (1010, 10), (1100, 100), (2000, 1000)]),
        ] {
            let line = RuntimeCurve::new(curve);
            let moved = RuntimeCurve { x: 7 * MICROSECOND, y: bytes(3), ..line };
            for (at, served) in points {
                assert_eq!(line.service_at(at * MICROSECOND), bytes(served));
                assert_eq!(line.time_of(bytes(served)), at * MICROSECOND);
                assert_eq!(moved.service_at((at + 7) * MICROSECOND), bytes(served + 3));
                assert_eq!(moved.time_of(bytes(served + 3)), (at + 7) * MICROSECOND);
            }
            // Before its begin there is no service, and less than it begins with is there at once.
            assert_eq!((moved.service_at(0), moved.time_of(bytes(2))), (bytes(3), moved.x));
        }
        // Times are rounded up: 10⁻¹² bit more than a slope of 0.8 or 8 Mb/s gives.
        let line = RuntimeCurve::new(CONCAVE);
        assert_eq!(line.time_of(bytes(500) + 1), 500 * MICROSECOND + 1);
        assert_eq!(line.time_of(bytes(1000) + 1), 1000 * MICROSECOND + 1);
        assert_eq!(line.time_of(bytes(1001) + 1), 1010 * MICROSECOND + 1);
        // Beyond any service, it saturates.
        assert_eq!(line.service_at(Instant::MAX), Service::MAX);
    }

    /// Curves of one class that begin at zero, and again at a point. Where the new one is lower all
    /// the way, it begins anew; where it is not lower at first, the present one stays.
    #[test]
    fn a_curve_is_kept_or_begins_anew() {
        for (curve, at, served, anew) in [
            // The present one has 1100 bytes at 2 ms, 1200 at 3 ms and 1011.1 at 1.111 ms.
            (CONCAVE, 2000, 1101, false),
            (CONCAVE, 2000, 1100, false),
            (CONCAVE, 2000, 200, true), // 1200 at 3 ms, too
            (CONCAVE, 2000, 0, true),
            (CONVEX, 2000, 1101, false),
            (CONVEX, 2000, 1100, true),
            (CONVEX, 2000, 0, true),
            (CONVEX, 500, 51, false),
            (CONVEX, 500, 50, true),
            (LINEAR, 2000, 201, false),
            (LINEAR, 2000, 200, true),
            (LINEAR, 2000, 199, true),
        ] {
            let mut line = RuntimeCurve::new(curve);
            line.lower(curve, at * MICROSECOND, bytes(served));
            let new = RuntimeCurve::new(curve);
            let (x, y) = if anew { (at * MICROSECOND, bytes(served)) } else { (0, 0) };
            assert_eq!((line.x, line.y), (x, y), "{curve:?} {at} {served}");
            assert_eq!((line.dx, line.dy, line.m1, line.m2), (new.dx, new.dy, new.m1, new.m2));
        }
    }

    /// A concave curve that begins 100 bytes below the present one gains on it by 0.9 bytes in a
    /// microsecond once that has its second slope, until both have the same.
    #[test]
    fn concave_curves_cross() {
        for (at, served, knee) in [(2000, 1000, 0), (1000, 900, 0), (500, 400, 500), (10, 5, 990)] {
            let present = RuntimeCurve::new(CONCAVE);
            let behind = present.service_at(at * MICROSECOND) - bytes(served);
            let mut line = present;
            line.lower(CONCAVE, at * MICROSECOND, bytes(served));
            assert_eq!((line.x, line.y), (at * MICROSECOND, bytes(served)));
            // 7.2 Mb/s are the difference of the slopes.
            assert_eq!(line.dx, knee * MICROSECOND + behind / 7_200_000);
            assert_eq!(line.dy, line.dx * 8_000_000);
            let begin = line.x + line.dx;
            for later in [0, 1, 1000, 100_000] {
                let time = begin + later * MICROSECOND;
                let (one, other) = (line.service_at(time), present.service_at(time));
                assert!(one.abs_diff(other) <= 8_000_000, "{at} {later}: {one}, not {other}");
            }
            let before = begin - MICROSECOND / 2;
            assert!(line.service_at(before) < present.service_at(before));
        }
    }

    /// A guarantee is eligible by its concave curve, or by the second slope of a convex one.
    #[test]
    fn eligible_curves_by_hand() {
        let at = |curve, micros: Instant| {
            let line = RuntimeCurve { x: MICROSECOND, ..RuntimeCurve::new(curve) };
            line.eligible().service_at((1 + micros) * MICROSECOND)
        };
        for (curve, expected) in [
            (CONCAVE, [500, 1100]),
            (CONVEX, [500, 2000]),
            (LATE, [500, 2000]),
            (LINEAR, [50, 200]),
        ] {
            assert_eq!([500, 2000].map(|micros| at(curve, micros)), expected.map(bytes));
        }
    }
}
