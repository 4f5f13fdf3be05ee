//! Limits of data in the host's own queue, by hand.

use super::super::small_queues::chunk_bytes;
use super::*;

/// tcp_tso_autosize: a 1024th of the rate, and 64 KiB, halved for every 512 us of the round trip.
#[test]
fn what_goes_to_the_device_at_once() {
    for (rate, micros, bytes) in [
        (1.024e6, 0, 65_536.0),
        (1.024e6, 511, 65_536.0),
        (1.024e6, 512, 33_768.0),
        (1.024e6, 1_023, 33_768.0),
        (1.024e6, 1_024, 17_384.0),
        (1.024e6, 512 * 15, 1_002.0),
        (1.024e6, 512 * 16, 1_000.0),
        (1.024e6, 1_000_000, 1_000.0),
        (1e9, 1_000_000, 65_536.0),
    ] {
        assert_eq!(chunk_bytes(rate, Duration::from_micros(micros)), bytes, "{rate} {micros}");
    }
    assert_eq!(chunk_bytes(1.024e6, Duration::MAX), 1_000.0);
}

/// Rates are 2 or 1.2 windows per round trip of 20 ms. The limit is twice what goes to the device
/// at once, two segments at least, or a 1024th of the rate up to 1 MiB.
#[test]
fn a_sender_waits_while_its_own_queue_has_much() {
    for (segments, threshold, base, limit) in [
        (20.0, f64::INFINITY, rack(), 4_000), // 2 MB/s: two segments of 1000 B
        (1_000.0, f64::INFINITY, rack(), 131_072), // 100 MB/s: 97,656 B, but 64 KiB
        (1_000.0, 1_000.0, rack(), 117_187),  // 60 MB/s: 2 · 58,593.75 B
        (1_000.0, 2_000.0, rack(), 117_187),  // half the threshold
        (1_000.0, 2_000.1, rack(), 131_072),  // less than half
        (2_000.0, 2_000.0, rack(), 131_072),  // 120 MB/s
        (2_000.0, 2_000.0, config(), 131_072), // without a minimum
        (10_000.0, 10_000.0, rack(), 585_937), // 600 MB/s: a 1024th
        (20_000.0, f64::INFINITY, rack(), 1_048_576), // 2 GB/s
        (1_000.0, 1_000.0, SenderConfig { pacing: true, ..rack() }, 117_187),
    ] {
        let mut connection = Connection::new(base, 1 << 20, &[]);
        connection.sender.write(1000);
        connection.run(Time::ZERO + DELAY + DELAY);
        let sender = &mut connection.sender;
        sender.window = Window { cwnd: segments * 1e3, ssthresh: threshold * 1e3 };
        assert!(!sender.is_over_queue_limit(limit), "{segments} {threshold}");
        assert!(sender.is_over_queue_limit(limit + 1), "{segments} {threshold}");
    }
    // Before a round-trip time is known.
    let sender = Sender::new(config());
    assert_eq!([4_000, 4_001].map(|bytes| sender.is_over_queue_limit(bytes)), [false, true]);
}

/// Linux counts memory: two buffers of whole segments with 960 B each, in units of a segment with
/// 960 B, of which each has 52 B of headers on the wire.
#[test]
fn linux_counts_memory() {
    let linux = SenderConfig { prr: true, decrease_from_window: true, ..rack() };
    for (segments, threshold, limit) in [
        // 2 · 2960 / 1960 segments of 1052 B are less than four segments.
        (20.0, f64::INFINITY, 4_000),
        // 15 MB/s: 14,648 B, in 14 segments: 2 · 14,960 / 1960 · 1052.
        (250.0, 250.0, 16_059),
        // 100 MB/s: 65 segments: 2 · 65,960 / 1960 · 1052; a 1024th is less.
        (1_000.0, f64::INFINITY, 70_806),
        // 200 MB/s: a 1024th, 195,312 B, is more than 131,920 B.
        (2_000.0, f64::INFINITY, 104_830),
    ] {
        let mut connection = Connection::new(linux.clone(), 1 << 20, &[]);
        connection.sender.write(1000);
        connection.run(Time::ZERO + DELAY + DELAY);
        let sender = &mut connection.sender;
        sender.window = Window { cwnd: segments * 1e3, ssthresh: threshold * 1e3 };
        assert!(!sender.is_over_queue_limit(limit), "{segments} {threshold}");
        assert!(sender.is_over_queue_limit(limit + 1), "{segments} {threshold}");
    }
}
