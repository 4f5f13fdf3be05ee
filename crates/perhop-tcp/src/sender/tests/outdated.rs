//! Acknowledgements whose timestamps are older than the last one's.

use super::tables::{at, open};
use super::*;

/// Linux, tcp_disordered_ack_check: an acknowledgement, how many milliseconds before the last one
/// it was sent, and whether it is taken. The timeout is 240 ms, and the window 8000 bytes.
#[test]
fn outdated_acknowledgements_are_discarded() {
    let bare = Segment { flags: Flags::ACK, ack: Seq(1_001), window: 8_000, ..Segment::default() };
    let fin = Flags::ACK.with(Flags::FIN);
    for (segment, before, taken) in [
        (bare, -5, true),
        (bare, 1, true),
        (bare, 2, true), // out of order, and says nothing new
        (bare, 288, true),
        (bare, 289, false), // not after 1.2 timeouts
        (Segment { window: 7_000, ..bare }, 2, true),
        (Segment { window: 8_001, ..bare }, 1, true),
        (Segment { window: 8_001, ..bare }, 2, false),
        (Segment { window: 0, ..bare }, 2, false),
        (Segment { ack: Seq(1), ..bare }, 1, true),
        (Segment { ack: Seq(1), ..bare }, 2, false),
        (Segment { ack: Seq(2_001), ..bare }, 2, false),
        (Segment { payload: 1, ..bare }, 2, false),
        (Segment { flags: fin, ..bare }, 2, false),
    ] {
        let mut sender = open(SenderConfig { timestamps: true, ..config() }, 5);
        let newest = Some((1_000_000, 1));
        let first = Segment { timestamps: newest, ..bare };
        sender.on_segment(at(1_000), &first);
        sender.rtt = RttEstimator::new(RtoRule::Linux, Duration::from_millis(200));
        sender.rtt.sample(Duration::from_millis(40), 1, 1);
        let mut sack = SackBlocks::default();
        sack.push(3_001, 4_001);
        let timestamps = Some(((1_000_000 - 1_000 * before) as u32, 1));
        sender.on_segment(at(1_010), &Segment { timestamps, sack, ..segment });
        let sacked = sender.scoreboard.highest_sacked() == 4_001;
        assert_eq!(sacked, taken, "{before} ms {segment:?}");
        let echo = if before < 0 { timestamps } else { newest };
        assert_eq!(Some(sender.echo), echo.map(|(value, _)| value), "{before} ms");
    }
}

/// In Linux, only what it takes makes it send data that it had deferred (tcp_data_snd_check).
#[test]
fn a_discarded_segment_causes_no_transmission() {
    let rack = SenderConfig { loss_detection: LossDetection::Rack, ..config() };
    let linux = SenderConfig { timestamps: true, prr: true, decrease_from_window: true, ..rack };
    let mut sender = Sender::new(linux);
    assert!(sender.poll(at(0)).is_some());
    let opened = Segment { flags: Flags::ACK, ack: Seq(1), window: 1 << 20, ..Segment::default() };
    let stamped = |ms: u32| Segment { timestamps: Some((1_000 * ms, 1)), ..opened };
    sender.on_segment(at(40), &stamped(30));
    sender.write(1_000);
    sender.on_segment(at(41), &Segment { ack: Seq(0), ..stamped(28) });
    assert_eq!(sender.poll(at(41)), None);
    assert_eq!(sender.poll(at(41)), None);
    assert!(sender.poll(at(42)).is_some_and(|segment| segment.payload == 1_000));
    // An acknowledgement that is taken does.
    sender.write(1_000);
    sender.on_segment(at(43), &Segment { ack: Seq(0), ..stamped(28) });
    sender.on_segment(at(43), &stamped(31));
    assert!(sender.poll(at(43)).is_some_and(|segment| segment.payload == 1_000));
}
