//! Counters of stations, and the instants of what they send, by hand.
//!
//! With a contention window of zero there is no chance: a sender begins 34 µs (SIFS and two slots)
//! after the channel has become idle. At 8 Mb/s without OFDM, a frame of 1000 bytes takes 1020 µs,
//! its preamble included, and its acknowledgement comes 16 µs later and takes 28 µs, or 32 µs for
//! several frames.

use perhop_core::{Bytes, Duration, NodeId, Stream, Time};
use perhop_net::{
    Access, Loss, Lte, LteUsage, Network, PortId, Scheduler, StationCounters, Usage, Wifi,
    WifiUsage,
};

use crate::lab::*;

/// Its headers make a packet of 964 bytes a frame of 1000.
pub const WIFI: Wifi = Wifi {
    slot: Duration::from_micros(9),
    sifs: Duration::from_micros(16),
    aifsn: 2,
    cw_min: 0,
    cw_max: 0,
    preamble: Duration::from_micros(20),
    symbol: Duration::ZERO,
    ack: Duration::from_micros(28),
    block_ack: Duration::from_micros(32),
    header: 36,
    frames: 1,
    bytes: 65_535,
    airtime: Duration::from_millis(10),
    retries: 2,
    airtime_fairness: false,
};

/// In each TTI, a kilobyte in 100 resource blocks.
pub const LTE: Lte = Lte {
    resource_blocks: 100,
    scheduler: Scheduler::ProportionalFair,
    bler: 0,
    retries: 3,
    combining: 0,
    request_period: Duration::from_millis(10),
    grant: Duration::from_millis(8),
    reordering: Duration::from_millis(35),
};

/// Returns node 0 with links to others at these rates in kb/s and with this loss, on a channel.
pub fn star(rates: &[u64], loss: u32, access: impl Into<Access>) -> Network<Line> {
    let links = rates
        .iter()
        .zip(1..)
        .map(|(rate, node)| link([0, node], perhop_net::Wire { loss, ..wire(rate * 1000, 0) }));
    let nodes = vec![Host; rates.len() + 1];
    let mut network = Network::new(&nodes, links.collect(), 1).unwrap();
    let ports: Vec<PortId> = network.ports().collect();
    network.share(&ports, access, Stream::new(1, "channel"));
    network
}

pub fn lte(lte: Lte) -> Access {
    Access::Lte { base: NodeId(0), lte }
}

pub fn micros(at: u64) -> Time {
    Time::from_picos(at * MICROSECOND)
}

fn wifi_usage(collisions: u64, airtime: u64, busy: u64) -> Usage {
    let [airtime, busy] = [airtime, busy].map(Duration::from_micros);
    Usage::Wifi(WifiUsage { collisions, airtime, busy })
}

/// Returns the arrival of each packet in microseconds.
pub fn arrived(hosts: &Scripted) -> Vec<Option<u64>> {
    hosts.arrived().into_iter().map(|at| at.map(|at| at / MICROSECOND)).collect()
}

/// The exchanges are from 34 to 1098 µs and from 1132 to 2196 µs. The third packet comes at 10 ms,
/// 7770 µs after the first slot behind them: it waits for slot 864, at 2230 + 864 · 9 µs. The
/// channel has the number 0, and the other direction sends nothing.
#[test]
fn frames_follow_each_other_in_slots() {
    let script = [0, 0, 10_000].map(|at| Send { at: at * MICROSECOND, from: 0, to: 1, size: 964 });
    let mut network = star(&[8_000], 0, WIFI);
    let mut hosts = Scripted::new(script.into(), &mut network);
    for (at, transmissions, airtime) in
        [(33, 0, 0), (34, 1, 0), (534, 1, 500), (1_098, 1, 1_064), (2_000, 2, 1_932)]
    {
        network.run(micros(at), &mut hosts);
        let expected = StationCounters {
            transmissions,
            frames: transmissions,
            bytes: Bytes::new(1000 * transmissions),
            usage: wifi_usage(0, airtime, airtime),
            ..StationCounters::default()
        };
        assert_eq!(network.station(forth(0)), Some((0, expected)), "{at} µs");
        assert_eq!(network.station(back(0)), Some((0, StationCounters::default())));
        assert_eq!(network.link_counters(forth(0)).packets, transmissions);
        assert_eq!(network.link_counters(forth(0)).bytes, Bytes::new(964 * transmissions));
    }
    network.run(Time::MAX, &mut hosts);
    assert_eq!(arrived(&hosts), [1_054, 2_152, 10_006 + 1_020].map(Some));
}

/// Each frame is lost, and given up after its second retransmission.
#[test]
fn a_frame_that_is_lost_is_sent_again_until_it_is_given_up() {
    let mut network = star(&[8_000], 1_000_000_000, WIFI);
    let script = vec![Send { at: 0, from: 0, to: 1, size: 964 }];
    let mut hosts = Scripted::new(script, &mut network);
    for (at, sent, abandoned) in [(1_131, 1, 0), (1_132, 2, 0), (2_229, 2, 0), (2_230, 3, 1)] {
        network.run(micros(at), &mut hosts);
        let (_, found) = network.station(forth(0)).unwrap();
        let expected = StationCounters {
            transmissions: sent,
            frames: sent,
            retransmissions: sent - 1,
            failed: sent,
            abandoned,
            bytes: Bytes::new(1000 * sent),
            usage: found.usage,
        };
        assert_eq!(found, expected, "{at} µs");
        assert_eq!(network.link_counters(forth(0)).lost, abandoned);
    }
    assert_eq!(hosts.losses, [(0, Loss::Link)]);
    assert_eq!(hosts.lost_at, [Some(forth(0))]);
    assert_eq!(network.next_event(), None);
}

/// Both stations begin at 34 µs. An exchange of 464 bytes takes 20 + 500 + 44 = 564 µs. Time that
/// both use counts as busy once, for the sender that comes first in the channel.
#[test]
fn stations_that_begin_at_once_collide() {
    for (sizes, airtime, busy) in
        [([964, 464], [1_064, 564], [1_064, 0]), ([464, 964], [564, 1_064], [564, 500])]
    {
        let mut network = star(&[8_000; 2], 0, Wifi { retries: 0, ..WIFI });
        let script = [1, 2].map(|from| Send { at: 0, from, to: 0, size: sizes[from as usize - 1] });
        let mut hosts = Scripted::new(script.into(), &mut network);
        network.run(micros(5_000), &mut hosts);
        for station in 0..2 {
            let (_, found) = network.station(back(station as u32)).unwrap();
            assert_eq!(found.usage, wifi_usage(1, airtime[station], busy[station]), "{sizes:?}");
            assert_eq!((found.failed, found.abandoned, found.transmissions), (1, 1, 1));
        }
        hosts.losses.sort_unstable();
        assert_eq!(hosts.losses, [(0, Loss::Link), (1, Loss::Link)]);
        // The next to send waits for the end of the longer exchange.
        network.send(NodeId(1), packet(1, 0, 964, 0));
        assert_eq!(network.next_event(), Some(micros(1_132 + 430 * 9)));
    }
}

/// A frame in an aggregate of 960 bytes has 1000: 996 with headers, and a delimiter. Three take
/// 3020 µs.
#[test]
fn an_aggregate_has_three_bounds() {
    let long = Duration::from_millis(10);
    let least = Duration::from_micros(3_020);
    let less = Duration::from_picos(3_020 * MICROSECOND - 1);
    for (frames, bytes, airtime, expected) in [
        (4, 65_535, long, vec![3]),
        (3, 3_000, least, vec![3]),
        (2, 65_535, long, vec![2, 1]),
        (4, 2_999, long, vec![2, 1]),
        (4, 65_535, less, vec![2, 1]),
        (4, 1, Duration::ZERO, vec![1, 1, 1]), // one always fits
    ] {
        let config = Wifi { frames, bytes, airtime, ..WIFI };
        let mut network = star(&[8_000], 0, config);
        let script = vec![Send { at: 0, from: 0, to: 1, size: 960 }; 3];
        let mut hosts = Scripted::new(script, &mut network);
        network.run(Time::MAX, &mut hosts);
        let (mut at, mut arrivals, mut used) = (0, Vec::new(), 0);
        for sent in &expected {
            let transmission = 20 + 1000 * sent;
            let exchange = transmission + 16 + if *sent > 1 { 32 } else { 28 };
            arrivals.extend(vec![Some(at + 34 + transmission); *sent as usize]);
            (at, used) = (at + 34 + exchange, used + exchange);
        }
        assert_eq!(arrived(&hosts), arrivals, "{config:?}");
        let counters = StationCounters {
            transmissions: expected.len() as u64,
            frames: 3,
            bytes: Bytes::new(3_000),
            usage: wifi_usage(0, used, used),
            ..StationCounters::default()
        };
        assert_eq!(network.station(forth(0)), Some((0, counters)), "{config:?}");
    }
}

/// Three frames that are lost together take 6020 µs at half of the rate, which is too long: they
/// are sent again one by one, each in 2020 µs.
#[test]
fn frames_that_are_sent_again_have_the_same_bounds() {
    let config = Wifi { frames: 4, airtime: Duration::from_micros(3_100), ..WIFI };
    let mut network = star(&[8_000], 1_000_000_000, config);
    let script = vec![Send { at: 0, from: 0, to: 1, size: 960 }; 3];
    let mut hosts = Scripted::new(script, &mut network);
    network.run(micros(1_000), &mut hosts);
    network.set_wire(forth(0), wire(4_000_000, 0));
    network.run(Time::MAX, &mut hosts);
    // The first exchange is over at 34 + 3020 + 48 µs, and others take 34 + 2020 + 44 µs.
    assert_eq!(arrived(&hosts), [5_156, 7_254, 9_352].map(Some));
}

/// With equal times, a second model: a receiver sends while it has credit, and otherwise gets
/// 256 µs and waits for its next turn. An exchange takes 1064 µs at 8 Mb/s and 2064 at 4.
#[test]
fn receivers_take_turns_by_their_credit() {
    let mut network = star(&[8_000, 4_000], 0, Wifi { airtime_fairness: true, ..WIFI });
    let script = (0..80).map(|n| Send { at: 0, from: 0, to: 1 + n % 2, size: 964 });
    let mut hosts = Scripted::new(script.collect(), &mut network);
    network.run(micros(50_000), &mut hosts);
    let order: Vec<u16> = hosts.arrivals.iter().map(|(_, node, _)| node.0 - 1).collect();
    let (mut credits, mut turn, mut expected) = ([0, 0], 0, Vec::new());
    while expected.len() < order.len() {
        if credits[turn] > 0 {
            credits[turn] -= [1_064, 2_064][turn];
            expected.push(turn as u16);
        } else {
            credits[turn] += 256;
            turn = 1 - turn;
        }
    }
    assert_eq!(order, expected);
    assert!(order.len() > 30, "{}", order.len());
}

/// The access point has packets for both stations, and the first one sends, too: its time counts
/// for what it gets, so that the other gets nearly all that the access point sends.
#[test]
fn a_station_that_sends_gets_less() {
    let config = Wifi { airtime_fairness: true, cw_min: 15, cw_max: 1023, retries: 9, ..WIFI };
    let mut network = star(&[54_000; 2], 0, config);
    let ways = [(0, 1), (0, 2), (1, 0)];
    let script = (0..6_000).map(|n| {
        let (from, to) = ways[n % 3];
        Send { at: 0, from, to, size: 1500 }
    });
    let mut hosts = Scripted::new(script.collect(), &mut network);
    network.run(micros(500_000), &mut hosts);
    let [first, second, _] =
        [0, 1, 2].map(|way| hosts.arrivals.iter().filter(|(.., line)| line % 3 == way).count());
    assert!(second > 500 && first < second / 20, "{first} {second}");
}

/// A block of 500 bytes, half of the resource blocks, fails at first and is sent again after 8 ms.
#[test]
fn a_block_that_fails_counts_twice() {
    let mut network = star(&[8_000], 0, lte(Lte { bler: 1_000_000_000, ..LTE }));
    let script = vec![Send { at: 0, from: 0, to: 1, size: 500 }];
    let mut hosts = Scripted::new(script, &mut network);
    let counters = |sent, failed, offered| StationCounters {
        transmissions: sent,
        frames: sent,
        retransmissions: sent.saturating_sub(1),
        failed,
        abandoned: 0,
        bytes: Bytes::new(500 * sent),
        usage: Usage::Lte(LteUsage { used: 50 * sent, offered }),
    };
    // A TTI counts when it has begun before.
    for (at, sent, failed, offered) in [
        (0, 0, 0, 0),
        (1, 1, 1, 100),
        (1_000, 1, 1, 100),
        (8_000, 1, 1, 800),
        (8_001, 2, 1, 900),
        (12_500, 2, 1, 1_300),
    ] {
        network.run(micros(at), &mut hosts);
        let expected = counters(sent, failed, offered);
        assert_eq!(network.station(forth(0)), Some((0, expected)), "{at} µs");
    }
    assert_eq!(arrived(&hosts), [Some(9_000)]);
    assert_eq!(network.link_counters(forth(0)).packets, 1);
}

/// With one retransmission, HARQ gives up at 8 ms; RLC learns of it 35 ms after the first
/// transmission, and sends the block again 8 ms later, and so on. A loss of the wire replaces the
/// error rate of the cell. If RLC learns of it sooner, it still waits for the end of the TTI.
#[test]
fn a_block_that_harq_gives_up_begins_again() {
    for (reordering, first) in [(35, [0, 8, 43, 51, 86, 94]), (2, [0, 8, 17, 25, 34, 42])] {
        let config = Lte {
            retries: 1,
            combining: 1_000_000_000,
            reordering: Duration::from_millis(reordering),
            ..LTE
        };
        let mut network = star(&[8_000], 1_000_000_000, lte(config));
        let script = vec![Send { at: 0, from: 0, to: 1, size: 500 }];
        let mut hosts = Scripted::new(script, &mut network);
        for (number, tti) in (1..).zip(first) {
            for (at, sent) in [(1_000 * tti, number - 1), (1_000 * tti + 1, number)] {
                network.run(micros(at), &mut hosts);
                let (_, found) = network.station(forth(0)).unwrap();
                assert_eq!((found.transmissions, found.failed), (sent, sent), "{at} µs");
                assert_eq!(found.abandoned, sent / 2, "{at} µs");
            }
        }
        assert!(hosts.arrivals.is_empty() && hosts.losses.is_empty());
    }
}

/// No block arrives, and RLC learns of the first one after 2 s. It sends 512 until then, one in
/// each TTI, which is half of its sequence numbers (TS 36.322, section 7.2).
#[test]
fn a_user_has_512_blocks_under_way() {
    let reordering = Duration::from_secs(2);
    let config = Lte { bler: 1_000_000_000, retries: 0, reordering, ..LTE };
    let mut network = star(&[8_000], 0, lte(config));
    let script = vec![Send { at: 0, from: 0, to: 1, size: 1000 }; 600];
    let mut hosts = Scripted::new(script, &mut network);
    for (at, sent) in [(510_001, 511), (511_001, 512), (2_007_999, 512), (2_008_001, 513)] {
        network.run(micros(at), &mut hosts);
        let (_, found) = network.station(forth(0)).unwrap();
        assert_eq!((found.transmissions, found.abandoned), (sent, sent), "{at} µs");
        let next = if sent == 512 { 2_008_000 } else { (at - 1) + 1_000 };
        assert_eq!(network.next_event(), Some(micros(next)), "{at} µs");
    }
}

/// Five users ask for grants two TTIs apart: user n in TTI 2 n, and then every ten. The grant
/// begins 8 ms later, and the packet arrives at the end of its TTI.
#[test]
fn users_ask_one_after_the_other() {
    let mut network = star(&[40_000; 5], 0, lte(LTE));
    let script = (1..=5).map(|from| Send { at: 1, from, to: 0, size: 100 });
    let mut hosts = Scripted::new(script.collect(), &mut network);
    network.run(Time::MAX, &mut hosts);
    // TTI 0 has begun before the packets were sent.
    assert_eq!(arrived(&hosts), [19_000, 11_000, 13_000, 15_000, 17_000].map(Some));
}

/// The downlink needs no grant, whatever the order of the ports.
#[test]
fn a_base_station_sends_at_once() {
    for reversed in [false, true] {
        let links = vec![link([0, 1], wire(8_000_000, 0))];
        let mut network = Network::new(&[Host, Host], links, 1).unwrap();
        let ports = if reversed { [back(0), forth(0)] } else { [forth(0), back(0)] };
        network.share(&ports, lte(LTE), Stream::new(1, "channel"));
        let script = [(0, 1), (1, 0)].map(|(from, to)| Send { at: 0, from, to, size: 1000 });
        let mut hosts = Scripted::new(script.into(), &mut network);
        network.run(Time::MAX, &mut hosts);
        assert_eq!(arrived(&hosts), [1_000, 9_000].map(Some), "{reversed}");
    }
}

/// Sends a block in each TTI to the user with the highest ratio of its rate to its mean: a second
/// model of the proportional-fair scheduler. The second user has data at first and from 60 ms on.
#[test]
fn the_scheduler_takes_the_best_ratio() {
    let rates = [8_000, 4_000];
    let mut network = star(&rates, 0, lte(LTE));
    let packets = |at: u64, to: u16, count: usize| {
        // Each fills a block.
        vec![Send { at: at * MILLISECOND, from: 0, to, size: 1000 / u32::from(to) }; count]
    };
    let script = [packets(0, 1, 150), packets(0, 2, 10), packets(60, 2, 30)].concat();
    let mut hosts = Scripted::new(script, &mut network);
    network.run(Time::MAX, &mut hosts);
    let found: Vec<(u64, u16)> =
        hosts.arrivals.iter().map(|(at, node, _)| (at.as_picos() / MILLISECOND, node.0)).collect();

    let (mut left, mut means, mut turn) = ([150, 10], [0.0, 0.0], 0);
    let mut expected = Vec::new();
    for tti in 0.. {
        if tti == 60 {
            left[1] += 30;
        }
        let users = [turn, 1 - turn].into_iter().filter(|user| left[*user] > 0);
        let ratio = |user: usize, other: usize| f64::from(rates[user] as u32) * means[other];
        let best = |one, other| if ratio(other, one) > ratio(one, other) { other } else { one };
        let Some(user) = users.reduce(best) else { break };
        left[user] -= 1;
        expected.push((tti + 1, user as u16 + 1));
        for (each, mean) in means.iter_mut().enumerate() {
            let sent = if each == user { rates[user] as f64 / 8.0 } else { 0.0 };
            *mean += (sent - *mean) / 100.0;
        }
        turn = 1 - user;
    }
    assert_eq!(found, expected);
    assert_eq!(found.len(), 190);
}
