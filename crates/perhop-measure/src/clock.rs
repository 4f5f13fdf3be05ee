//! Offset and drift between the clocks of two hosts.
//!
//! Host A sends at `t1` of its clock, B receives at `t2` and replies at `t3` of its own, and A
//! receives the reply at `t4`. No packet arrives before it was sent, so B's clock leads A's by at
//! most `t2 - t1` when A's shows `t1`, and by at least `t3 - t4` when A's shows `t4`. Every
//! exchange is thus an upper and a lower bound of the offset, whatever the packets waited for, and
//! nothing else is assumed of the path.
//!
//! # Method
//! * The bounds that matter are the lower convex hull of the upper ones, and the upper hull of the
//!   lower ones (Zhang, Liu and Xia, "Clock Synchronization Algorithms for Network Measurements",
//!   INFOCOM 2002). Queueing only moves points away from the hulls, so the hulls are a minimum
//!   filter without windows. Each direction has its own hull: no exchange needs to be without
//!   queueing in both directions. The linear programme of Moon, Skelly and Towsley ("Estimation and
//!   Removal of Clock Skew from Network Delay Measurements", INFOCOM 1999) has its optimum on a
//!   hull, too.
//! * The rate of a clock is not constant. [`ClockModel::wander`] bounds how fast it changes, which
//!   moves the bound of an exchange away by half of that times the square of its age. A parabola
//!   keeps hulls hulls, so that this holds for every instant of a query.
//! * The lines between both hulls are all offsets that the exchanges allow. Their extremes at an
//!   instant are the stated bound. Without drift that is the intersection of intervals (Marzullo,
//!   "Maintaining the Time in a Distributed System", 1984).
//! * Of these lines, the estimate takes the slope of the hulls' edges that leaves the most of their
//!   points near the envelope, by a sum of logarithms: a queue that grows bends the hull of its
//!   direction, and the other direction, which stays straight, outvotes it. If none does better
//!   than the middle of all slopes, it is that. Between the envelopes the estimate is the middle:
//!   the offset if the shortest delays of both directions are equal.
//!
//! No exchange of packets shows how the shortest round trip is divided between the directions. From
//! exchanges alone, the bound is therefore never below half of it. If both hosts state an error of
//! their clock against UTC, the sum of both errors bounds the offset, too, and the estimate uses
//! the intersection ([`ClockEstimator::add_stated`]).

/// An exchange of packets between A and B, in nanoseconds of the clock of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Time of sending at A, by A's clock.
    pub sent: u64,
    /// Time of arrival at B, by B's clock.
    pub received: u64,
    /// Time of the reply at B, by B's clock.
    pub replied: u64,
    /// Time of arrival of the reply at A, by A's clock.
    pub returned: u64,
}

/// Assumptions about two clocks, relative to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockModel {
    /// Fastest change of the rate, in ppb per second.
    pub wander: f64,
    /// Largest difference in rate, in ppb.
    pub max_rate: f64,
    /// Largest error of a time stamp that makes a delay look shorter, in nanoseconds.
    pub resolution: f64,
}

impl Default for ClockModel {
    /// Free-running quartz: it changes by up to 1 ppm per °C, and its temperature by 1 °C within
    /// 100 s when load sets in. Linux clocks keep within 500 ppm (adjtimex(2)). Time stamps have a
    /// resolution of at least a microsecond.
    fn default() -> Self {
        Self { wander: 10.0, max_rate: 600_000.0, resolution: 1_000.0 }
    }
}

/// Offset and rate at an instant, with their bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockEstimate {
    /// The instant by A's clock, in nanoseconds.
    pub at: u64,
    /// B's clock minus A's, in nanoseconds.
    pub offset: i64,
    /// Growth of the offset, in ppb.
    pub rate_ppb: f64,
    /// Largest error of `offset`, in nanoseconds: at least half of the shortest round trip, unless
    /// the hosts state less.
    pub bound: u64,
    /// Largest error of `rate_ppb`, in ppb.
    pub rate_bound: f64,
    /// Sum of the shortest delays of both directions, in nanoseconds; less if the hosts state an
    /// error.
    pub round_trip: u64,
    /// Assumed change of the rate, in ppb per second.
    wander: f64,
}

impl ClockEstimate {
    /// Returns the offset at another instant of A's clock, in nanoseconds.
    pub fn offset_at(&self, at: u64) -> i64 {
        self.offset.saturating_add((self.rate_ppb * 1e-9 * gap(at, self.at)).round() as i64)
    }

    /// Returns the largest error of [`offset_at`](Self::offset_at), in nanoseconds.
    pub fn bound_at(&self, at: u64) -> u64 {
        let away = gap(at, self.at).abs();
        let more = self.rate_bound * 1e-9 * away + slack(self.wander, away);
        self.bound.saturating_add(more.ceil() as u64)
    }
}

/// Bounds that a hull keeps.
const POINTS: usize = 64;
/// Oldest bound that is kept, in nanoseconds: with the usual wander it is 5 ms off by then.
const HORIZON: f64 = 1e12;
/// Distance from the envelope beyond which a point counts as delayed, in nanoseconds: the variation
/// of software time stamps without queueing.
const NEAR: f64 = 1_000.0;

/// Estimator of the offset between the clocks of A and B, with constant memory.
#[derive(Clone, Debug)]
pub struct ClockEstimator {
    model: ClockModel,
    forward: Hull,
    backward: Hull,
    last: Option<Exchange>,
    resets: u64,
}

impl ClockEstimator {
    /// Returns an estimator without exchanges.
    pub fn new(model: ClockModel) -> Self {
        let hull = Hull { points: Vec::with_capacity(POINTS + 1) };
        Self { model, forward: hull.clone(), backward: hull, last: None, resets: 0 }
    }

    /// Adds an exchange. One that goes back in time is ignored. If the exchanges contradict each
    /// other, a clock was set, and all before this one are forgotten.
    pub fn add(&mut self, exchange: Exchange) {
        let Exchange { sent, received, replied, returned } = exchange;
        if returned < sent || replied < received {
            return;
        }
        let wander = self.model.wander;
        self.forward.add(Point { at: sent, bound: difference(received, sent) }, wander);
        self.backward.add(Point { at: returned, bound: difference(returned, replied) }, wander);
        self.last = Some(exchange);
        if self.lines(returned).is_none() {
            self.forward.points.clear();
            self.backward.points.clear();
            self.resets += 1;
            self.forward.add(Point { at: sent, bound: difference(received, sent) }, wander);
            self.backward.add(Point { at: returned, bound: difference(returned, replied) }, wander);
        }
    }

    /// Adds a bound that the hosts state: at the instant `at` of A's clock, B's clock is within
    /// `error` nanoseconds of it, for instance because both are synchronised with UTC. Returns
    /// false, and ignores the bound, if it contradicts the exchanges or there are none.
    pub fn add_stated(&mut self, at: u64, error: u64) -> bool {
        let mut with = self.clone();
        let point = Point { at, bound: i64::try_from(error).unwrap_or(i64::MAX) };
        with.forward.add(point, self.model.wander);
        with.backward.add(point, self.model.wander);
        let agrees = with.lines(at).is_some();
        if agrees {
            *self = with;
        }
        agrees
    }

    /// Returns the number of detected settings of a clock.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Returns the estimate at an instant of A's clock, before the last exchange or after it;
    /// `None` without exchanges that agree.
    pub fn at(&self, at: u64) -> Option<ClockEstimate> {
        let lines = self.lines(at)?;
        let (first, last) = lines.slopes();
        let high = lines.upper(highest(first, last, |slope| lines.upper(slope)));
        let low = lines.lower(highest(first, last, |slope| -lines.lower(slope)));
        let middle = f64::midpoint(first, last);
        let edges = lines.forward.windows(2).map(|pair| (pair, 1.0));
        let edges = edges.chain(lines.backward.windows(2).map(|pair| (pair, -1.0)));
        let edges = edges.map(|(pair, sign)| sign * edge(pair));
        let edges = edges.filter(|slope| (first..=last).contains(slope));
        let slope = [middle]
            .into_iter()
            .chain(edges)
            .min_by(|&a, &b| lines.strays(a).total_cmp(&lines.strays(b)))
            .unwrap_or(middle);
        let offset = f64::midpoint(lines.upper(slope), lines.lower(slope)).round();
        let round_trip = lines.width(slope) - 2.0 * self.model.resolution;
        Some(ClockEstimate {
            at,
            offset: self.origin()?.saturating_add(offset as i64),
            rate_ppb: slope * 1e9,
            bound: (high - offset).max(offset - low).ceil().max(0.0) as u64,
            rate_bound: (last - slope).max(slope - first) * 1e9,
            round_trip: round_trip.max(0.0) as u64,
            wander: self.model.wander,
        })
    }

    /// Returns the offset that others are relative to, so that they are small.
    fn origin(&self) -> Option<i64> {
        self.last.map(|last| difference(last.received, last.sent))
    }

    /// Returns the lines of offset around an instant that agree with the exchanges, if any do.
    fn lines(&self, at: u64) -> Option<Lines> {
        let origin = self.origin()?;
        let relative = |hull: &Hull, origin: i64| {
            let point = |point: &Point| {
                let away = gap(point.at, at);
                let more = slack(self.model.wander, away) + self.model.resolution;
                (away, (i128::from(point.bound) - i128::from(origin)) as f64 + more)
            };
            hull.points.iter().map(point).collect()
        };
        let forward: Vec<(f64, f64)> = relative(&self.forward, origin);
        let backward = relative(&self.backward, origin.saturating_neg());
        let limit = self.model.max_rate * 1e-9;
        let mut lines = Lines { forward, backward, limit, wander: self.model.wander, widest: 0.0 };
        lines.widest = highest(-limit, limit, |slope| lines.width(slope));
        (lines.width(lines.widest) >= 0.0).then_some(lines)
    }
}

/// Bound of the offset, or of minus the offset, from above.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// The instant by A's clock.
    at: u64,
    /// The bound in nanoseconds.
    bound: i64,
}

/// Bounds that no others make redundant, by time: a convex chain.
#[derive(Clone, Debug)]
struct Hull {
    points: Vec<Point>,
}

impl Hull {
    fn add(&mut self, point: Point, wander: f64) {
        let place = self.points.partition_point(|other| other.at < point.at);
        self.points.insert(place, point);
        // Andrew's monotone chain.
        let mut kept = 0;
        for next in 0..self.points.len() {
            let point = self.points[next];
            while kept > 0 {
                let last = self.points[kept - 1];
                let covered = if last.at == point.at {
                    last.bound >= point.bound
                } else {
                    kept > 1 && depth(&self.points[kept - 2], &last, &point, wander) <= 0.0
                };
                if !covered {
                    break;
                }
                kept -= 1;
            }
            if kept == 0 || self.points[kept - 1].at != point.at {
                self.points[kept] = point;
                kept += 1;
            }
        }
        self.points.truncate(kept);
        let Some(&newest) = self.points.last() else { return };
        self.points.retain(|point| gap(newest.at, point.at) < HORIZON);
        if self.points.len() > POINTS {
            // Remove the point whose depth is smallest, weighted by its age, so that the distances
            // between points grow with their age.
            let loss = |number: &usize| {
                let [before, point, after] = [number - 1, *number, number + 1];
                let age = gap(newest.at, self.points[point].at) + 1e9;
                let [before, point, after] = [before, point, after].map(|it| self.points[it]);
                depth(&before, &point, &after, wander) / (age * age)
            };
            let least = (1..self.points.len() - 1).min_by(|a, b| loss(a).total_cmp(&loss(b)));
            if let Some(least) = least {
                self.points.remove(least);
            }
        }
    }
}

/// Returns the distance of a point below the line between its neighbours, in nanoseconds.
fn depth(before: &Point, point: &Point, after: &Point, wander: f64) -> f64 {
    let height = |other: &Point| {
        let away = gap(other.at, point.at);
        let bound = (i128::from(other.bound) - i128::from(point.bound)) as f64;
        (away, bound + slack(wander, away))
    };
    let ((x0, y0), (x1, y1)) = (height(before), height(after));
    y0 - x0 * (y1 - y0) / (x1 - x0)
}

/// Lines of offset around an instant, between bounds of each direction: (time from then, bound).
struct Lines {
    forward: Vec<(f64, f64)>,
    backward: Vec<(f64, f64)>,
    limit: f64,
    wander: f64,
    /// Slope with the greatest width.
    widest: f64,
}

impl Lines {
    /// Returns the largest offset of a line with this slope.
    fn upper(&self, slope: f64) -> f64 {
        intercept(&self.forward, slope)
    }

    /// Returns the smallest offset of a line with this slope.
    fn lower(&self, slope: f64) -> f64 {
        -intercept(&self.backward, -slope)
    }

    /// Returns the difference between both; negative if no line has this slope.
    fn width(&self, slope: f64) -> f64 {
        self.upper(slope) - self.lower(slope)
    }

    /// Returns the range of slopes of the lines.
    fn slopes(&self) -> (f64, f64) {
        let end = |limit: f64| {
            let (mut inside, mut outside) = (self.widest, limit);
            if self.width(outside) >= 0.0 {
                return outside;
            }
            for _ in 0..60 {
                let middle = f64::midpoint(inside, outside);
                let side = if self.width(middle) >= 0.0 { &mut inside } else { &mut outside };
                *side = middle;
            }
            inside
        };
        (end(-self.limit), end(self.limit))
    }

    /// Returns the logarithmic sum of the distances of points from the envelopes of a slope, beyond
    /// those that their age explains.
    fn strays(&self, slope: f64) -> f64 {
        let sum = |points: &[(f64, f64)], slope: f64| -> f64 {
            let least = intercept(points, slope);
            let away = |(x, y): &(f64, f64)| y - slope * x - least - slack(self.wander, *x);
            points.iter().map(|point| (away(point).max(0.0) / NEAR).ln_1p()).sum()
        };
        sum(&self.forward, slope) + sum(&self.backward, -slope)
    }
}

/// Returns the offset at zero of the highest line with a slope below all points.
fn intercept(points: &[(f64, f64)], slope: f64) -> f64 {
    points.iter().map(|(x, y)| y - slope * x).fold(f64::INFINITY, f64::min)
}

fn edge(pair: &[(f64, f64)]) -> f64 {
    (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)
}

/// Returns the argument of the maximum of a concave function, by ternary search.
fn highest(mut first: f64, mut last: f64, function: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..80 {
        let third = (last - first) / 3.0;
        let (left, right) = (first + third, last - third);
        let (low, high) = (function(left), function(right));
        if low <= high {
            first = left;
        }
        if low >= high {
            last = right;
        }
    }
    f64::midpoint(first, last)
}

/// Returns the greatest distance of an offset from its tangent after `away` nanoseconds, in
/// nanoseconds.
fn slack(wander: f64, away: f64) -> f64 {
    wander * 1e-18 / 2.0 * away * away
}

/// Returns the time from one instant of a clock to another, in nanoseconds.
fn gap(to: u64, from: u64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64
}

/// Returns the difference of two clocks in nanoseconds, saturated at 292 years.
fn difference(a: u64, b: u64) -> i64 {
    i64::try_from(i128::from(a) - i128::from(b)).unwrap_or(if a > b { i64::MAX } else { i64::MIN })
}

#[cfg(test)]
mod tests;
