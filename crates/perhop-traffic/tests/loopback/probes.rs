use serde_json::{Value, json};

use crate::lab::{MS, floats, integers, job, names, run};

fn ping(more: Value) -> Value {
    let mut ping = json!({
        "name": "idle", "from": "near", "to": "far", "dscp": 10,
        "every": 20 * MS, "size": 56, "start": 0,
        "stop": 200 * MS,
    });
    crate::lab::merge(&mut ping, &more);
    ping
}

#[test]
fn echoes_come_back_as_they_went() {
    for v6 in [false, true] {
        let (traffic, tables) = run(&job(v6, &[400 * MS], vec![], vec![ping(json!({"train": 2}))]));
        assert_eq!(traffic.take_warnings(), Vec::<String>::new());
        assert_eq!(integers(&tables, "pings", "sequence"), (0..20).collect::<Vec<_>>());
        assert_eq!(names(&tables, "pings", "answer"), ["echo reply"; 20]);
        for column in ["dscp_sent", "dscp_arrived", "dscp_echoed"] {
            assert_eq!(integers(&tables, "pings", column), [10; 20], "{column}");
        }
        assert!(names(&tables, "pings", "node").iter().all(|&node| node == "far" || v6));
        let rtts = floats(&tables, "pings", "rtt_s");
        assert!(rtts.iter().all(|&rtt| (0.0..0.1).contains(&rtt)), "{rtts:?}");
    }
}

#[test]
fn nobody_listens_where_datagrams_go() {
    let _alone = crate::lab::alone();
    for v6 in [false, true] {
        let port = crate::lab::ports();
        // The kernel answers some six of these at once, and then one a second.
        let ping = ping(json!({"udp_port": port, "stop": 80 * MS}));
        let (_, tables) = run(&job(v6, &[300 * MS], vec![], vec![ping]));
        assert_eq!(names(&tables, "pings", "answer")[..4], ["port unreachable"; 4]);
        assert_eq!(integers(&tables, "pings", "dscp_arrived")[..4], [10; 4]);
    }
}
