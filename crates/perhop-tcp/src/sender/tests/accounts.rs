//! What a sender says of itself, and what its segments carry. Segments have 1000 bytes, the first
//! of which begins at 1.

use super::tables::{at, newreno, open};
use super::*;

/// Bytes that the application has written, in all and not yet sent; the SYN and the FIN take a byte
/// of the stream each.
#[test]
fn written_and_sent() {
    let mut sender = Sender::new(config());
    assert_eq!((sender.unsent(), sender.flight(), sender.next_seq()), (0, 0, Seq(0)));
    sender.write(3_000);
    assert_eq!((sender.unsent(), sender.is_open()), (3_000, false));
    let syn = sender.poll(at(0)).unwrap();
    assert_eq!((sender.unsent(), sender.flight(), syn.payload), (3_000, 1, 0));
    assert_eq!(sender.poll(at(0)), None, "data waits for the answer");
    let answer = Segment {
        flags: Flags::SYN.with(Flags::ACK),
        ack: Seq(1),
        window: 1 << 20,
        ..Segment::default()
    };
    assert!(sender.is_advanced_by(&answer));
    sender.on_segment(at(20), &answer);
    assert!(sender.is_open() && !sender.is_advanced_by(&answer));
    assert_eq!(sender.smoothed_rtt(), Some(Duration::from_millis(20)));
    for left in [2_000, 1_000, 0] {
        assert_eq!(sender.poll(at(20)).unwrap().payload, 1_000);
        assert_eq!(sender.unsent(), left);
    }
    assert_eq!((sender.poll(at(20)), sender.next_seq()), (None, Seq(3_001)));
    sender.write(u64::MAX);
    sender.close();
    assert_eq!(sender.unsent(), u64::MAX - 3_001, "as much as there can be");
    sender.stop();
    assert_eq!(sender.unsent(), 0);
    let fin = sender.poll(at(21)).unwrap();
    assert_eq!((fin.seq, fin.payload), (Seq(3_001), 0));
    assert_eq!(fin.flags, Flags::FIN.with(Flags::ACK));
    assert_eq!((sender.flight(), sender.is_finished()), (3_001, false));
    // A FIN that was sent keeps its position.
    sender.stop();
    for (ack, finished) in [(3_001, false), (3_002, true)] {
        let answer = Segment { flags: Flags::ACK, ack: Seq(ack), ..answer };
        sender.on_segment(at(40), &answer);
        assert_eq!(sender.is_finished(), finished, "{ack}");
    }
    // Stopped before it is open: only the SYN and the FIN remain.
    let mut stopped = Sender::new(config());
    stopped.write(9_000);
    stopped.stop();
    assert_eq!(stopped.unsent(), 0);
    assert_eq!(stopped.written, 1);
}

/// RFC 9293, section 3.10.7.4: what is not an acknowledgement, or is one of data that was not sent,
/// has no effect; an old one has none on the window of the peer.
#[test]
fn acknowledgements_of_other_data() {
    for (flags, ack, una, window) in [
        (Flags::ACK, 2_001, 2_001, 9_000),
        (Flags::ACK, 1_001, 1_001, 9_000),
        (Flags::ACK, 1_000, 1_001, 5_000),
        (Flags::ACK, 5_001, 5_001, 9_000),
        (Flags::ACK, 5_002, 1_001, 5_000),
        (Flags::default(), 2_001, 1_001, 5_000),
    ] {
        let mut sender = open(config(), 5);
        sender.scoreboard.acknowledge(1_001, at(40), &mut Progress::default());
        sender.receive_window = 5_000;
        let answer = Segment { flags, ack: Seq(ack), window: 9_000, ..Segment::default() };
        sender.on_segment(at(50), &answer);
        assert_eq!(sender.scoreboard.acknowledged(), una, "{flags:?} {ack}");
        assert_eq!(sender.receive_window, window, "{flags:?} {ack}");
    }
}

/// tcp_ack_update_rtt: the segment that was sent once tells the round-trip time; of one that was
/// sent again only an echo does, if the acknowledgement advances. The peer's timestamp is echoed.
#[test]
fn samples_and_timestamps() {
    for (again, ack, echo, rtt) in [
        (false, 1_001, None, Some(50_000)),
        (false, 1_001, Some(20_000), Some(50_000)),
        (true, 1_001, None, None),
        (true, 1_001, Some(20_000), Some(30_000)),
        (true, 1_001, Some(0), None),
        (true, 1, Some(20_000), None),
    ] {
        let mut sender = open(SenderConfig { timestamps: true, ..newreno() }, 5);
        if again {
            sender.scoreboard.retransmit(1, at(10));
        }
        let timestamps = echo.map(|echo| (77, echo));
        let answer = Segment {
            flags: Flags::ACK,
            ack: Seq(ack),
            window: 1 << 20,
            timestamps,
            ..Segment::default()
        };
        let found = sender.on_segment(at(50), &answer);
        assert_eq!(found, rtt.map(Duration::from_micros), "{again} {ack} {echo:?}");
        sender.write(1_000);
        let data = sender.poll(at(60)).unwrap();
        let stamp = if echo.is_some() { 77 } else { 0 };
        assert_eq!(data.timestamps, Some((60_000, stamp)), "{echo:?}");
        assert_eq!((data.ack, data.window, data.flags), (Seq(1), 65_535, Flags::ACK));
    }
}
