//! A summary as lines of text.

use std::collections::BTreeMap;
use std::fmt::Write;

use perhop_core::Dscp;

use super::pair::StatedErrors;
use super::summary::{Delays, Direction, Summary};

/// Returns the lines for a terminal.
pub(super) fn text(summary: &Summary) -> String {
    let mut out = String::new();
    let Summary { sent, received, lost, .. } = summary;
    let share = 100.0 * f64::from(*lost) / f64::from((*sent).max(1));
    line(
        &mut out,
        "packets",
        &format!("{sent} sent, {received} replies, {lost} lost ({share:.1}%)"),
    );
    if let Some(trips) = &summary.round_trip_ns {
        line(&mut out, "round trip", &delays(trips));
    }
    direction(&mut out, "forward", &summary.forward);
    direction(&mut out, "backward", &summary.backward);
    if summary.lost_last > 0 {
        let last = summary.lost_last;
        line(&mut out, "", &format!("{last} lost after the last reply: direction unknown"));
    }
    if summary.dscp_refused > 0 {
        let refused = summary.dscp_refused;
        line(&mut out, "", &format!("{refused} replies without the requested DSCP: refused"));
    }
    if let Some(clock) = &summary.clock {
        let offset = clock.offset_ns as f64 / 1e6;
        let (rate, bound) = (clock.rate_ppb / 1e3, micros(clock.bound_ns as f64));
        let head = format!("reflector {offset:+.3} ms, {rate:+.2} ppm; one-way delays ±{bound}");
        line(&mut out, "clock", &head);
        let own = match clock.reflector_synchronized {
            true => format!("UTC ±{}", micros(clock.reflector_error_ns as f64)),
            false => "not synchronised".into(),
        };
        line(&mut out, "", &format!("as reported by the reflector: {own}"));
        let stated = match clock.stated {
            StatedErrors::Unused => None,
            StatedErrors::Used => Some("within the errors that both hosts state"),
            StatedErrors::Contradicted => Some("not within the errors that both hosts state"),
        };
        if let Some(stated) = stated {
            line(&mut out, "", stated);
        }
        if clock.resets > 0 {
            line(
                &mut out,
                "",
                &format!("a clock was set {} times during the session", clock.resets),
            );
        }
    }
    out
}

fn line(out: &mut String, name: &str, rest: &str) {
    let _ = writeln!(out, "{name:<11} {rest}");
}

fn direction(out: &mut String, name: &str, direction: &Direction) {
    if let Some(some) = &direction.delay_ns {
        line(out, name, &delays(some));
    }
    let lost = direction.lost.map_or("unknown".into(), |lost| lost.to_string());
    line(out, "", &format!("lost {lost}, reordered {}", direction.reordered));
    let dscp = |value: u8| Dscp::new(value).map_or(value.to_string(), Dscp::name);
    let sent = direction.dscp_sent.map_or("unknown".into(), dscp);
    let verdict = match direction.rewritten {
        Some(true) => ": rewritten on the way",
        Some(false) => "",
        None => ": unknown whether rewritten",
    };
    let (seen, ecn) = (counts(&direction.dscp, dscp), counts(&direction.ecn, ecn_name));
    line(out, "", &format!("DSCP sent {sent}, arrived {seen}{verdict}"));
    let sent = direction.ecn_sent.map_or("unknown".into(), ecn_name);
    line(out, "", &format!("ECN sent {sent}, arrived {ecn}"));
    line(out, "", &format!("TTL arrived {}", counts(&direction.ttl, |ttl| ttl.to_string())));
}

/// Returns the name of an ECN field (RFC 3168).
pub(crate) fn ecn_name(field: u8) -> String {
    ["Not-ECT", "ECT(1)", "ECT(0)", "CE"][usize::from(field & 3)].into()
}

fn counts(counts: &BTreeMap<u8, u32>, name: impl Fn(u8) -> String) -> String {
    if counts.is_empty() {
        return "unknown".into();
    }
    let each: Vec<String> =
        counts.iter().map(|(&value, count)| format!("{} ({count})", name(value))).collect();
    each.join(", ")
}

fn delays(delays: &Delays) -> String {
    let Delays { min, mean, median, p99, max } = *delays;
    let [min, mean, median, p99, max] = [min, mean, median, p99, max].map(|it| micros(it as f64));
    format!("min {min}, mean {mean}, median {median}, 99% {p99}, max {max}")
}

fn micros(nanos: f64) -> String {
    match nanos.abs() {
        size if size < 1e6 => format!("{:.1} µs", nanos / 1e3),
        size if size < 1e9 => format!("{:.3} ms", nanos / 1e6),
        _ => format!("{:.3} s", nanos / 1e9),
    }
}
