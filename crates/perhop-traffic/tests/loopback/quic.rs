//! QUIC between two addresses.

use serde_json::{Value, json};

use crate::lab::{MS, floats, integers, job, live, merge, open, ports, run, sum};

/// Returns the settings of a connection.
pub fn settings(more: &Value) -> Value {
    let mut quic = json!({
        "congestion_control": "cubic", "streams": 1, "window": 1 << 20, "stream_window": 1 << 20,
        "datagram": 1200, "max_datagram": 1452, "pacing": true, "ecn": false,
        "certificates": 2000, "waits": true,
    });
    merge(&mut quic, more);
    quic
}

/// Returns a flow of two connections.
fn flow(stop: Option<u64>, volume: Option<u64>, more: Value) -> Value {
    let quic = settings(&more);
    json!({
        "name": "bulk", "from": "near", "to": "far", "dscp": 46, "port": ports(), "streams": 2,
        "start": 0, "stop": stop, "volume": volume, "transport": {"quic": quic},
    })
}

#[test]
fn a_volume_arrives_whole_whatever_the_settings() {
    // The last bytes are not the same for all streams.
    let volume = 1_000_001;
    let cases = [
        (false, json!({"streams": 3, "ecn": true})),
        (true, json!({"streams": 7, "ecn": true, "congestion_control": "reno"})),
        (false, json!({"window": 20_000, "certificates": 60_000})),
        (true, json!({"streams": 2, "stream_window": 5_000, "congestion_control": "bbr1"})),
        (
            false,
            json!({
                "initial_window": 2, "max_datagram": 1200,
                "ack_frequency": {"threshold": 9, "max_delay": 5 * MS, "reordering": 3},
            }),
        ),
    ];
    for (v6, settings) in cases {
        let ecn = settings["ecn"] == true;
        let flow = flow(None, Some(volume), settings.clone());
        let (traffic, tables) = run(&job(v6, &[200 * MS, 400 * MS], vec![flow], vec![]));
        assert_eq!(traffic.take_warnings(), Vec::<String>::new(), "{settings}");
        assert_eq!(traffic.delivered(), [2 * volume], "{settings}");
        assert_eq!(sum(&tables, "intervals", "bytes"), 2 * volume as i64);
        let completed = floats(&tables, "intervals", "completion_s");
        assert_eq!(completed.iter().filter(|time| **time > 0.0).count(), 2, "{settings}");
        assert!(integers(&tables, "codepoints", "dscp_arrived").iter().all(|&dscp| dscp == 46));
        // Only data is ECN-capable.
        let fields = integers(&tables, "codepoints", "ecn_arrived");
        assert_eq!(fields.contains(&2), ecn, "{settings}");
        assert!(fields.contains(&0) && fields.iter().all(|&field| field == 0 || field == 2));
        assert!(sum(&tables, "intervals", "packets") >= 2 * volume as i64 / 1452);
        assert!(sum(&tables, "intervals", "acks") > 0);
        assert!(sum(&tables, "srtts", "samples") > 0);
        assert!(integers(&tables, "intervals", "cwnd").iter().all(|&cwnd| cwnd >= 2400));
    }
}

#[test]
fn a_connection_stops_when_it_is_told_to() {
    let flow = flow(Some(100 * MS), None, json!({}));
    let (traffic, tables) = run(&job(false, &[100 * MS, 200 * MS, 300 * MS], vec![flow], vec![]));
    assert_eq!(traffic.take_warnings(), Vec::<String>::new());
    let bytes = integers(&tables, "intervals", "bytes");
    assert!(bytes[0] > 100_000, "{bytes:?}");
    assert_eq!(bytes[4..], [0, 0], "{bytes:?}");
}

#[test]
fn what_quinn_lacks_is_refused() {
    let refused = |settings: Value| {
        let job = job(false, &[100 * MS], vec![flow(None, None, settings)], vec![]);
        open(&job).unwrap_err().to_string()
    };
    let bbr = refused(json!({"congestion_control": "bbr"}));
    assert_eq!(bbr, "flow bulk: quinn has no congestion control Bbr");
    let window = refused(json!({"window": 1_u64 << 62}));
    assert_eq!(window, "flow bulk: 4611686018427387904 does not fit a number of QUIC");
    let [near, ..] =
        live(&job(false, &[100 * MS], vec![flow(None, None, json!({}))], vec![]), "source");
    let live = open(&near).unwrap_err().to_string();
    assert_eq!(live, "flow bulk: QUIC cannot run in a live job; expected tcp or udp");
}
