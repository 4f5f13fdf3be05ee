//! What is sent and what waits, compared with Linux's code by hand.

use super::super::tests::{Parts, at};
use super::*;
use crate::LossDetection::{Duplicates, Rack};

/// tcp_tso_should_defer with 18 of 20 segments outstanding, which waits: a segment was sent 1 ms
/// ago, and the first is acknowledged in another. Each row departs from that in one respect.
#[test]
fn small_shares_of_the_window_wait_for_acknowledgements() {
    type Change = fn(&mut Parts);
    let end = 18_001;
    let cases: [(&str, Change, Option<bool>); 22] = [
        ("as needed", |_| {}, Some(true)),
        ("no divisor", |parts| parts.sender.config.tso_divisor = 0, None),
        ("reduced by marks", |parts| parts.linux.state = State::Cwr, Some(true)),
        ("recovery", |parts| parts.linux.state = State::Recovery, None),
        ("part of a chunk", |parts| parts.linux.chunk_end = 18_002, None),
        ("a whole chunk", |parts| parts.linux.chunk_end = 18_001, Some(true)),
        ("sent long ago", |parts| parts.linux.sent_at = Time::from_picos(37_999_999_999), None),
        ("no room", |parts| parts.linux.window = 18, None),
        ("room for one", |parts| parts.linux.window = 19, Some(true)),
        // What is written ends the buffer.
        ("one segment", |parts| parts.sender.written = 19_001, None),
        ("more than one", |parts| parts.sender.written = 19_002, Some(false)),
        ("as much as the room", |parts| parts.sender.written = 20_001, Some(true)),
        // A buffer of 9,501 bytes: the second ends 1,001 bytes beyond what was sent.
        (
            "a whole buffer of several",
            |parts| (parts.linux.buffer, parts.linux.buffers_from) = (9_501, 0),
            None,
        ),
        ("a chunk of two", |parts| parts.linux.chunk = 2, None),
        ("a chunk of three", |parts| parts.linux.chunk = 3, Some(true)),
        ("a tenth of the window", |parts| parts.sender.config.tso_divisor = 10, None),
        ("a ninth of it", |parts| parts.sender.config.tso_divisor = 9, Some(true)),
        // The receiver's window limits it to 1,500 bytes; then a third of it is the share.
        ("the receiver's limit", |parts| parts.sender.receive_window = 19_500, Some(false)),
        ("as much of both", |parts| parts.sender.receive_window = 20_000, Some(false)),
        (
            "a third of the receiver's window",
            |parts| {
                parts.linux.window = 26;
                (parts.sender.receive_window, parts.linux.chunk) = (24_000, 50);
            },
            Some(false),
        ),
        ("no acknowledgement soon", |parts| parts.sender.rtt = longer(40_001), None),
        ("half a short round trip", |parts| parts.sender.rtt = longer(39_500), Some(true)),
    ];
    for (case, change, expected) in cases {
        let mut parts = Parts::new(Rack, 18);
        assert_eq!(parts.sender.scoreboard.end(), end);
        parts.sender.config.tso_divisor = 3;
        parts.sender.written = 1 << 30;
        let linux = &mut *parts.linux;
        (linux.chunk, linux.buffer, linux.buffers_from) = (10, 65_000, 1);
        (linux.sent_at, linux.limited) = (at(38), false);
        change(&mut parts);
        assert_eq!(parts.run(39, |machine| machine.defers()), expected, "{case}");
    }
}

/// An estimator with this round-trip time in µs.
fn longer(micros: u64) -> crate::RttEstimator {
    let mut rtt = crate::RttEstimator::new(crate::RtoRule::Linux, Duration::from_millis(200));
    rtt.sample(Duration::from_micros(micros), 1, 1);
    rtt
}

/// tcp_sendmsg_locked: buffers have whole segments, at most half of the widest window of the peer
/// and 64 KiB less the headers; one that was begun takes what is written next.
#[test]
fn buffers_take_what_is_written() {
    for (widest, size) in [
        (1 << 20, 65_000),
        (130_430, 65_000),
        (129_999, 64_000),
        (10_000, 5_000),
        (9_999, 4_000),
        (1_999, 1_000),
        (0, 1_000),
    ] {
        // So much of what was written before is not sent yet: less than a buffer, or more.
        for (unsent, refills) in [(0, true), (size - 1, true), (size, false), (size + 1, false)] {
            let mut parts = Parts::new(Rack, 18);
            (parts.linux.widest, parts.linux.written) = (widest, 18_001 + unsent);
            parts.sender.written = 18_001 + unsent;
            parts.run(39, |machine| machine.note_writes());
            assert_eq!((parts.linux.refills, parts.linux.buffer), (false, u64::MAX), "nothing new");
            parts.sender.written += 10;
            parts.run(39, |machine| machine.note_writes());
            assert_eq!(parts.linux.buffer, size, "{widest}");
            assert_eq!(parts.linux.refills, refills, "{widest} {unsent}");
            assert_eq!(parts.linux.written, 18_011 + unsent);
        }
    }
    // Buffers of 5,000 bytes from 1 on: the fourth ends at 20,001.
    for (refills, from, written, end) in [
        (false, 1, 1 << 30, 20_001),
        (false, 1, 20_000, 20_000),
        (false, 3_001, 1 << 30, 23_001),
        (false, 3_002, 1 << 30, 18_002),
        (false, 18_001, 1 << 30, 23_001),
        (true, 1, 1 << 30, 1 << 30),
        (false, 1, u64::MAX, 20_001),
    ] {
        let mut parts = Parts::new(Rack, 18);
        (parts.linux.refills, parts.linux.buffers_from, parts.linux.buffer) =
            (refills, from, 5_000);
        parts.sender.written = written;
        assert_eq!(parts.run(39, |machine| machine.buffer_end()), end, "{refills} {from}");
    }
}

/// tcp_xmit_retransmit_queue and tcp_retransmit_skb.
#[test]
fn retransmissions_have_room_and_are_counted() {
    for (window, sends) in [(5, true), (4, false)] {
        // Four of five are under way.
        let mut parts = Parts::new(Rack, 5);
        parts.sender.scoreboard.mark_first();
        parts.linux.window = window;
        assert_eq!(parts.run(50, |machine| machine.next_lost()).is_some(), sends, "{window}");
    }
    for (unreported, after) in [(-1, 1), (0, 1), (1, 2)] {
        let mut parts = Parts::new(Rack, 5);
        parts.sender.scoreboard.mark_first();
        parts.linux.unreported = unreported;
        let span = parts.run(50, |machine| machine.next_lost()).unwrap();
        let sent = parts.run(50, |machine| machine.send_again(span));
        assert!(sent.flags.has(Flags::RETRANSMISSION) && sent.seq.0 == 1);
        let linux = &*parts.linux;
        assert_eq!((linux.unreported, linux.first_resent), (after, Some(50)));
        assert_eq!((linux.last_sent, linux.sent_at), (12, at(50)));
        assert_eq!((parts.sender.retransmits, parts.sender.scoreboard.counts().resent), (1, 1));
        assert!(parts.run(60, |machine| machine.next_lost()).is_none(), "all were sent again");
        parts.run(60, |machine| machine.send_again(span));
        assert_eq!(parts.linux.first_resent, Some(50), "the first");
    }
}

/// tcp_write_xmit: within the windows, and counted in the reduction; what is handed to the device
/// at once ends with the window and a segment more.
#[test]
fn new_data_has_room_and_is_counted() {
    for (window, outstanding, chunk, state, chunk_end, sent) in [
        (20, 5, 4, State::Open, Some(9_001), 0),
        (20, 5, 4, State::Cwr, Some(9_001), 1),
        (20, 5, 4, State::Recovery, Some(9_001), 1),
        (20, 5, 4, State::Loss, Some(9_001), 0),
        (8, 5, 4, State::Open, Some(8_001), 0), // room for three with the one that is sent
        (6, 5, 4, State::Open, Some(6_001), 0),
        (5, 5, 4, State::Open, None, 0),
    ] {
        let mut parts = Parts::new(Rack, outstanding);
        (parts.linux.window, parts.linux.chunk, parts.linux.state) = (window, chunk, state);
        parts.sender.written = 1 << 30;
        let segment = parts.run(50, |machine| machine.send_new());
        assert_eq!(segment.is_some(), chunk_end.is_some(), "{window}");
        assert_eq!(parts.linux.chunk_end, chunk_end.unwrap_or(0), "{window} {chunk}");
        let linux = &*parts.linux;
        let begun = u32::from(segment.is_some());
        assert_eq!((linux.sent, linux.burst), (sent, begun), "{window} {state:?}");
        let at = if segment.is_some() { (12, at(50)) } else { (0, Time::ZERO) };
        assert_eq!((linux.last_sent, linux.sent_at), at);
    }
    // The first segment starts the timer, and one after a probe's timer that of retransmissions.
    for (outstanding, pending, starts) in [
        (0, Pending::Nothing, true),
        (3, Pending::Nothing, false),
        (3, Pending::Retransmission, false),
        (3, Pending::Probe, true),
    ] {
        let mut parts = Parts::new(Rack, outstanding);
        (parts.sender.written, parts.sender.deadline) = (1 << 30, at(7));
        parts.linux.pending = pending;
        assert!(parts.run(50, |machine| machine.send_new()).is_some());
        assert_eq!(parts.sender.deadline != at(7), starts, "{outstanding} {pending:?}");
    }
}

/// tcp_send_loss_probe: new data whatever the window, or the last segment again; and the timeout
/// from then on.
#[test]
fn probes_are_new_data_or_the_last_segment() {
    for (written, start, again) in [(1 << 30, 5_001, false), (5_001, 4_001, true)] {
        let mut parts = Parts::new(Rack, 5);
        (parts.linux.window, parts.sender.written) = (5, written);
        parts.linux.pending = Pending::Probe;
        let probe = parts.run(100, |machine| machine.probe()).unwrap();
        assert_eq!(
            (u64::from(probe.seq.0), probe.flags.has(Flags::RETRANSMISSION)),
            (start, again)
        );
        let end = if again { 5_001 } else { 6_001 };
        assert_eq!((parts.linux.probe, parts.linux.burst), (Some((end, again)), 0));
        assert_eq!(
            (parts.linux.limited, parts.linux.most),
            if again { (false, 0) } else { (true, 6) }
        );
        assert_eq!(parts.linux.first_resent, None, "it is no retransmission");
        assert_eq!(parts.sender.retransmits, u64::from(again));
        assert_eq!(
            (parts.linux.pending, parts.sender.deadline),
            (Pending::Retransmission, at(344))
        );
    }
}

/// tcp_write_xmit: the end of a burst notes whether the window was the limit, and schedules a
/// probe after new data.
#[test]
fn bursts_end_with_the_use_of_the_window() {
    for (burst, window, more, limited, probes) in [
        (2, 20, true, Some(false), true),
        (2, 5, true, Some(true), true),
        (0, 5, true, Some(true), false),
        (0, 20, true, None, false),
        (0, 5, false, None, false), // nothing was sent and nothing is left
        (2, 5, false, Some(true), true),
    ] {
        let mut parts = Parts::new(Rack, 5);
        parts.sender.written = if more { 1 << 30 } else { 5_001 };
        let linux = &mut *parts.linux;
        (linux.burst, linux.window, linux.refills) = (burst, window, true);
        parts.run(50, |machine| machine.end_burst());
        let linux = &*parts.linux;
        let used = (linux.most == 5).then_some(linux.limited);
        assert_eq!((used, linux.burst), (limited, 0), "{burst} {window} {more}");
        assert_eq!(linux.pending == Pending::Probe, probes, "{burst} {window} {more}");
        let ended = burst > 0 || more;
        assert_eq!((linux.refills, linux.chunk_end), (!ended, if ended { 5_001 } else { 0 }));
        assert_eq!(linux.buffers_from, if ended { 5_001 } else { 0 });
    }
}

/// tcp_retransmit_timer's segment is sent whatever the window; new data to detect a spurious
/// timeout comes before what is lost, or F-RTO ends if there is none.
#[test]
fn what_is_due_comes_first() {
    for (due, resend, written, sent, frto, after) in [
        (Due::First, Resend::No, 1 << 30, Some(1), true, Resend::No),
        (Due::Nothing, Resend::Lost, 1 << 30, Some(1), true, Resend::Lost),
        (Due::Nothing, Resend::New, 1 << 30, Some(5_001), true, Resend::New),
        (Due::Nothing, Resend::New, 5_001, Some(1), false, Resend::Lost),
        (Due::Nothing, Resend::No, 1 << 30, Some(5_001), true, Resend::No),
        (Due::Nothing, Resend::No, 5_001, None, true, Resend::No),
    ] {
        let mut parts = Parts::new(Rack, 5);
        parts.sender.scoreboard.mark_first();
        let linux = &mut *parts.linux;
        (linux.due, linux.resend, linux.frto, linux.high) = (due, resend, true, 5_001);
        linux.window = if due == Due::First { 1 } else { 20 };
        parts.sender.written = written;
        let segment = parts.run(50, |machine| machine.poll());
        assert_eq!(segment.map(|segment| segment.seq.0), sent, "{due:?} {resend:?} {written}");
        assert_eq!((parts.linux.frto, parts.linux.resend), (frto, after), "{due:?} {resend:?}");
        assert_eq!(parts.linux.due, Due::Nothing);
    }
    // Retransmissions count in a reduction; that of the first restarts the timer, but not one of
    // reordering.
    for (state, pending, sent, restarts) in [
        (State::Recovery, Pending::Retransmission, 1, true),
        (State::Loss, Pending::Probe, 0, true),
        (State::Recovery, Pending::Reordering, 1, false),
    ] {
        let mut parts = Parts::new(Duplicates, 5);
        parts.sender.scoreboard.mark_first();
        let linux = &mut *parts.linux;
        (linux.state, linux.pending, linux.resend) = (state, pending, Resend::Lost);
        parts.sender.deadline = at(7);
        assert!(parts.run(100, |machine| machine.poll()).is_some());
        assert_eq!(parts.linux.sent, sent, "{state:?}");
        assert_eq!(parts.sender.deadline, at(if restarts { 344 } else { 7 }), "{pending:?}");
    }
}
