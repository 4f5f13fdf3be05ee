//! Use of the window, and pauses.

use super::*;

/// RFC 5681, section 4.1, as in Linux: the timeout is 220 ms. Idle time, window, threshold; and
/// both after.
#[test]
fn a_pause_halves_the_window_for_each_timeout() {
    for (idle, cwnd, ssthresh, after) in [
        (220, 40.0, 10.0, (40.0, 10.0)),
        (221, 40.0, 10.0, (20.0, 30.0)),
        (221, 40.0, 35.0, (20.0, 35.0)),
        (440, 40.0, 10.0, (20.0, 30.0)),
        (441, 40.0, 10.0, (10.0, 30.0)),
        (441, 30.0, 10.0, (10.0, 22.5)),
        (660, 80.0, 10.0, (20.0, 60.0)),
        (661, 80.0, 10.0, (10.0, 60.0)),
        (100_000, 80.0, 10.0, (10.0, 60.0)),
        (100_000, 8.0, 4.0, (8.0, 6.0)),
    ] {
        let modelled = Congestion::bbr1(Stream::new(1, "test"));
        for (congestion, outstanding, shrinks) in [
            (Congestion::Reno, false, true),
            (Congestion::Reno, true, false),
            (modelled, false, false),
        ] {
            let mut connection =
                Connection::new(SenderConfig { congestion, ..config() }, 1 << 20, &[]);
            connection.sender.write(if outstanding { 1000 } else { 0 });
            connection.run(Time::ZERO + DELAY + DELAY);
            let sender = &mut connection.sender;
            sender.window = Window { cwnd: cwnd * 1e3, ssthresh: ssthresh * 1e3 };
            sender.restart_after_idle(connection.now, Duration::from_millis(idle));
            let after = if shrinks { after } else { (cwnd, ssthresh) };
            let Window { cwnd, ssthresh } = sender.window;
            assert_eq!((cwnd / 1e3, ssthresh / 1e3), after, "{idle} {outstanding}");
        }
    }
}
