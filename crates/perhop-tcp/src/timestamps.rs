//! The clock of timestamps (RFC 7323). Their values count microseconds here, so that round-trip
//! times are exact; Linux's count milliseconds, by which it decides.

use perhop_core::{Duration, Time};

/// Lateness that is accepted, in milliseconds (`TCP_PAWS_WINDOW`).
const PAWS_WINDOW: u64 = 1;

/// Returns the timestamp clock, in microseconds.
pub(crate) fn micros(now: Time) -> u32 {
    (now.as_picos() / 1_000_000) as u32
}

/// Returns how long ago a timestamp was sent; `None` if that is not possible.
pub(crate) fn elapsed_since(echo: u32, now: Time) -> Option<Duration> {
    let elapsed = micros(now).wrapping_sub(echo);
    (echo > 0 && elapsed <= i32::MAX as u32).then(|| Duration::from_micros(elapsed.into()))
}

/// Returns the same in whole milliseconds of the clock; `None` within one.
pub(crate) fn elapsed_in_millis(echo: u32, now: Time) -> Option<Duration> {
    let elapsed = millis(now) - sent_in(echo, now)?;
    (elapsed > 0).then(|| Duration::from_millis(elapsed))
}

/// Returns by how many milliseconds of the clock the timestamp `value` is older than `recent`; zero
/// if it is not, or if there is none.
#[inline]
pub(crate) fn millis_before(value: u32, recent: u32, now: Time) -> u64 {
    // Nearly all are newer, for which no division is made.
    if recent.wrapping_sub(value) as i32 <= 0 {
        return 0;
    }
    match (sent_in(value, now), sent_in(recent, now)) {
        (Some(value), Some(recent)) => recent.saturating_sub(value),
        _ => 0,
    }
}

/// Returns `true` if a segment is too old to be accepted whose timestamp is so many milliseconds
/// older than the most recent one (PAWS: RFC 7323, section 5; `tcp_paws_check`).
pub(crate) fn is_outdated(millis: u64) -> bool {
    millis > PAWS_WINDOW
}

/// Returns the millisecond in which a timestamp was sent.
fn sent_in(value: u32, now: Time) -> Option<u64> {
    let elapsed = elapsed_since(value, now)?;
    now.as_picos().checked_sub(elapsed.as_picos()).map(|sent| sent / 1_000_000_000)
}

fn millis(now: Time) -> u64 {
    now.as_picos() / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of timestamps wraps after 2³² µs; half of that is in the past. Zero is no echo.
    #[test]
    fn echoes_are_from_the_past() {
        let wrap = 1 << 32;
        for (now, echo, elapsed) in [
            (10_000, 10_000, Some(0)),
            (10_000, 9_999, Some(1)),
            (10_000, 10_001, None),
            (10_000, 0, None),
            (1 << 31, 1, Some((1 << 31) - 1)),
            ((1 << 31) + 1, 1, None),
            (wrap + 5, u32::MAX, Some(6)),
        ] {
            let found = elapsed_since(echo, Time::ZERO + Duration::from_micros(now));
            assert_eq!(found, elapsed.map(Duration::from_micros), "{now} {echo}");
        }
        assert_eq!(micros(Time::ZERO + Duration::from_micros(wrap + 5)), 5);
    }

    /// Linux: tcp_rtt_tsopt_us.
    #[test]
    fn timestamps_measure_whole_milliseconds() {
        let elapsed = |from, to| elapsed_in_millis(from, Time::ZERO + Duration::from_micros(to));
        assert_eq!(elapsed(1_900, 101_899), Some(Duration::from_millis(100)));
        assert_eq!(elapsed(1_100, 101_999), Some(Duration::from_millis(100)));
        assert_eq!(elapsed(1_900, 2_100), Some(Duration::from_millis(1)));
        assert_eq!(elapsed(1_100, 1_900), None);
        assert_eq!(elapsed(0, 1_900), None);
    }

    /// Ticks that begin between two timestamps make the difference. The last pair is on both sides
    /// of the clock's wrap.
    #[test]
    fn lateness_is_in_whole_milliseconds() {
        let wrap = 1 << 32;
        for (value, recent, now, late) in [
            (5_000, 5_000, 9_000, 0),
            (5_000, 4_000, 9_000, 0),
            (5_000, 5_999, 9_000, 0),
            (5_999, 6_000, 9_000, 1),
            (5_000, 6_999, 9_000, 1),
            (5_999, 7_000, 9_000, 2),
            (5_000, 25_000, 30_000, 20),
            (5_000, 0, 9_000, 0), // no timestamp was taken before
            (0, 5_000, 9_000, 0),
            (9_500, 5_000, 9_000, 0), // not of this clock
            (u32::MAX, 2_000, wrap + 9_000, 2),
        ] {
            let now = Time::ZERO + Duration::from_micros(now);
            assert_eq!(millis_before(value, recent, now), late, "{value} {recent}");
        }
        assert_eq!([0, 1, 2].map(is_outdated), [false, false, true]);
    }
}
