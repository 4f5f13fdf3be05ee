//! Ports on a channel are ports: delays, queues, interfaces, reports and other channels.

use perhop_core::{Bytes, Duration, NodeId, Rate, Stream, Time};
use perhop_net::{Access, Loss, Network, Passage, PortId, Wifi};
use perhop_queue::{Cause, Class, Codel, CodelConfig, Limit, Queue, Shaper};

use crate::lab::*;
use crate::stations::{LTE, WIFI, arrived, lte, micros, star};
use crate::watch::Watching;

/// Both kinds of channels, and what a packet of 964 bytes takes from its sending to its arrival
/// without a delay, and each of those behind it.
fn kinds() -> [(Access, u64, u64); 2] {
    [(WIFI.into(), 1_054, 1_098), (lte(LTE), 1_000, 1_000)]
}

/// Returns packets that fill a frame or, in a cell at 7.712 Mb/s, a block.
fn sends(count: usize) -> Vec<Send> {
    vec![Send { at: 0, from: 0, to: 1, size: 964 }; count]
}

/// Returns a network of a link from host 0 to host 1 on a channel.
fn pair(access: Access, delay: u64, queue: Class<Line>) -> Network<Line> {
    let rate = if matches!(access, Access::Lte { .. }) { 7_712_000 } else { 8_000_000 };
    let mut queue = Some(queue);
    let other = || queue.take().unwrap_or_else(|| fifo(Limit::bytes(Bytes::MAX)));
    let links = vec![link_with([0, 1], wire(rate, delay), other)];
    let mut network = Network::new(&[Host, Host], links, 1).unwrap();
    let ports: Vec<PortId> = network.ports().collect();
    network.share(&ports, access, Stream::new(1, "channel"));
    network
}

fn unlimited() -> Class<Line> {
    fifo(Limit::bytes(Bytes::MAX))
}

/// The first packet is sent before the wire becomes shorter, and no other overtakes it.
#[test]
fn packets_of_a_channel_take_the_delay_of_the_wire_in_order() {
    for (access, first, each) in kinds() {
        let mut network = pair(access, 5 * MILLISECOND, unlimited());
        let mut hosts = Scripted::new(sends(8), &mut network);
        network.run(micros(500), &mut hosts);
        let shorter = wire(u64::from(network.wire(forth(0)).rate), MILLISECOND);
        network.set_wire(forth(0), shorter);
        network.run(Time::MAX, &mut hosts);
        let at = |n: u64| Some((first + n * each + 1_000).max(first + 5_000));
        assert_eq!(arrived(&hosts), (0..8).map(at).collect::<Vec<_>>(), "{access:?}");
        assert_eq!(network.packet_hops(), 8);
    }
}

/// A packet is seen when its transmission begins, and when it has arrived. Events are a timer and
/// an arrival for each packet, and one for each of three transmissions.
#[test]
fn interfaces_of_a_channel_are_watched() {
    for (access, first, each) in kinds() {
        for watched in [true, false] {
            let mut network = pair(access, 0, unlimited());
            if watched {
                network.watch(forth(0));
                network.watch(back(0));
            }
            let hosts = Scripted::new(sends(3), &mut network);
            let mut watching = Watching { hosts, ..Watching::default() };
            network.run(Time::MAX, &mut watching);
            let begin = if first == 1_000 { 0 } else { 34 };
            let mut expected = Vec::new();
            for line in 0..3 {
                let (sent, received) =
                    (begin + u64::from(line) * each, first + u64::from(line) * each);
                expected.push((sent * MICROSECOND, forth(0), Passage::Sent, line));
                expected.push((received * MICROSECOND, back(0), Passage::Received, line));
            }
            expected.sort_by_key(|(at, ..)| *at);
            expected.retain(|_| watched);
            watching.seen.sort_by_key(|(at, _, passage, _)| (*at, *passage == Passage::Sent));
            expected.sort_by_key(|(at, _, passage, _)| (*at, *passage == Passage::Sent));
            assert_eq!(watching.seen, expected, "{access:?}");
            assert_eq!(network.events(), 3 + 3 + 3, "{access:?}");
        }
    }
}

/// All packets wait for the channel when reports begin.
#[test]
fn departures_from_the_queue_of_a_channel_are_reported() {
    for (access, _, each) in kinds() {
        let mut network = pair(access, 0, unlimited());
        let mut hosts = Scripted::new(sends(3), &mut network);
        network.run(Time::ZERO, &mut hosts);
        let mut waiting = Vec::new();
        network.report_departures(forth(0), |&line, size| waiting.push((line, size)));
        // In a cell, the first TTI has taken the first packet.
        let first = if each == 1_000 { 1 } else { 0 };
        let expected: Vec<(Line, u32)> = (first..3).map(|line| (line, 964)).collect();
        assert_eq!(waiting, expected, "{access:?}");
        network.run(micros(each + 100), &mut hosts);
        assert_eq!(hosts.departed, (first..2).collect::<Vec<Line>>(), "{access:?}");
        network.run(Time::MAX, &mut hosts);
        assert_eq!(hosts.departed, (first..3).collect::<Vec<Line>>(), "{access:?}");
    }
}

/// A shaper at 0.5 Mb/s with a bucket for one packet releases one 15,424 µs after another has left
/// it. Wi-Fi begins with the next slot: number 1592 after the first one behind an exchange, 1132 µs
/// for the first. A cell begins with the next TTI: 16, 32 and 48.
#[test]
fn a_channel_waits_for_a_shaper() {
    let begins = [[0, 15_426, 30_852, 46_278].map(|at| at + 34), [0, 16_000, 32_000, 48_000]];
    for ((access, first, _), begins) in kinds().into_iter().zip(begins) {
        let shaper = Shaper::new(Rate::new(500_000).unwrap(), Bytes::new(964));
        let mut network = pair(access, 0, unlimited().shaped(shaper));
        let mut hosts = Scripted::new(sends(4), &mut network);
        network.run(Time::MAX, &mut hosts);
        let expected = begins.map(|at| Some(at + first.min(1_020)));
        assert_eq!(arrived(&hosts), expected, "{access:?}");
    }
}

/// What CoDel drops when a packet leaves its queue is lost there.
#[test]
fn a_queue_may_drop_packets_as_others_leave_it() {
    for (access, ..) in kinds() {
        let config = CodelConfig {
            limit: Limit::packets(50),
            target: Duration::from_millis(1),
            interval: Duration::from_millis(10),
            ecn: false,
        };
        let queue = Class::new(Queue::Codel(Box::new(Codel::new(config))));
        let mut network = pair(access, 0, queue);
        let mut hosts = Scripted::new(sends(60), &mut network);
        network.run(Time::MAX, &mut hosts);
        let lost =
            |cause| hosts.losses.iter().filter(|(_, loss)| *loss == Loss::Queue(cause)).count();
        assert!(lost(Cause::Limit) >= 9, "{:?}", hosts.losses);
        assert!(lost(Cause::Early) >= 3, "{:?}", hosts.losses);
        assert!(hosts.lost_at.iter().all(|at| *at == Some(forth(0))));
        assert_eq!(hosts.arrivals.len() + hosts.losses.len(), 60);
    }
}

/// Pairs of hosts on channels with the numbers 0 and 1 do not hear each other, and a link on no
/// channel is no station.
#[test]
fn channels_are_apart() {
    for (access, first, each) in kinds() {
        let rate = if first == 1_000 { 7_712_000 } else { 8_000_000 };
        let links = [[0, 1], [2, 3], [4, 5]].map(|ends| link(ends, wire(rate, 0))).into();
        let mut network = Network::new(&[Host; 6], links, 1).unwrap();
        for (channel, number) in [(0, "one"), (1, "other")] {
            let ports = [forth(channel), back(channel)];
            let access = match access {
                Access::Lte { lte, .. } => Access::Lte { base: NodeId(2 * channel as u16), lte },
                wifi @ Access::Wifi(_) => wifi,
            };
            network.share(&ports, access, Stream::new(1, number));
        }
        let script = [0, 2, 4]
            .into_iter()
            .flat_map(|from| vec![Send { at: 0, from, to: from + 1, size: 964 }; 2]);
        let mut hosts = Scripted::new(script.collect(), &mut network);
        network.run(Time::MAX, &mut hosts);
        let plain = if first == 1_000 { 1_000 } else { 964 };
        let expected = [first, first + each, first, first + each, plain, 2 * plain];
        assert_eq!(arrived(&hosts), expected.map(Some), "{access:?}");
        let numbers = [0, 1, 2].map(|link| network.station(forth(link)).map(|(number, _)| number));
        assert_eq!(numbers, [Some(0), Some(1), None]);
    }
}

/// A link of a channel that is down keeps its packets, and others go on; it continues when it is
/// up. In a cell, the TTI in which it comes up is not its own.
#[test]
fn a_link_of_a_channel_waits_while_it_is_down() {
    let mut network = star(&[8_000; 2], 0, Wifi { cw_max: 0, ..WIFI });
    let script = (0..4).map(|n| Send { at: 0, from: 0, to: 1 + n % 2, size: 964 });
    let mut hosts = Scripted::new(script.collect(), &mut network);
    network.run(Time::ZERO, &mut hosts);
    network.set_up(0, false);
    network.run(micros(9_000), &mut hosts);
    network.set_up(0, true);
    network.run(Time::MAX, &mut hosts);
    // The other link is over at 2196 µs. From 2230 µs on, slots of 9 µs: number 753 begins at 9007.
    let begin = 2_230 + 753 * 9;
    let expected = [begin + 1_020, 1_054, begin + 1_098 + 1_020, 2_152];
    assert_eq!(arrived(&hosts), expected.map(Some));
}
