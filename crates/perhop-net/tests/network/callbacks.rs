//! What hosts are told, and what they do meanwhile.

use std::collections::BTreeMap;

use perhop_core::{NodeId, Packet, Time};
use perhop_net::{Hosts, IcmpError, LinkSpec, Loss, Network, Part, PortId, TimerId};
use perhop_queue::{Cause, Limit};

use crate::lab::*;

/// Hosts that send a packet when another departs, and record all callbacks.
#[derive(Default)]
struct Reacting {
    /// By the packet that departs.
    replies: BTreeMap<Line, Packet<Line>>,
    departed: Vec<Line>,
    lost: Vec<(Line, Loss)>,
    prefetches: bool,
    /// Prefetched memory, and packets that have arrived.
    prefetched: Vec<(Line, Part)>,
    arrived: Vec<Line>,
}

impl Hosts<Line> for Reacting {
    fn receive(&mut self, _: &mut Network<Line>, _: NodeId, packet: Packet<Line>) {
        self.arrived.push(packet.body);
    }

    fn timer(&mut self, _: &mut Network<Line>, _: TimerId) {}

    fn lost(&mut self, packet: Packet<Line>, loss: Loss, _: Option<PortId>) {
        self.lost.push((packet.body, loss));
    }

    fn departed(&mut self, network: &mut Network<Line>, line: Line, _: u32) {
        self.departed.push(line);
        if let Some(reply) = self.replies.remove(&line) {
            network.send(reply.header.source, reply);
        }
    }

    fn prefetches(&self) -> bool {
        self.prefetches
    }

    fn prefetch(&mut self, line: &Line, part: Part) {
        self.prefetched.push((*line, part));
    }

    fn quote(&mut self, _: NodeId, _: &Packet<Line>, _: IcmpError) -> Option<(Line, u32)> {
        None
    }
}

/// Host 0 with a link each to hosts 1 and 2, on which a packet of 1000 bytes takes a millisecond;
/// there is no way to host 3.
fn fork(limit: Limit) -> Network<Line> {
    let slow = |to| link_with([0, to], wire(8_000_000, 0), || fifo(limit));
    let links: Vec<LinkSpec<Line>> = vec![slow(1), slow(2)];
    Network::new(&[Host; 4], links, 1).unwrap()
}

/// Packets 1 and 11 wait before two links, and depart at the same instant. When 1 departs, a host
/// sends another packet to the other link, whose transmitter then takes 11 first.
#[test]
fn a_departure_may_cause_another() {
    let mut network = fork(Limit::packets(9));
    for link in [0, 1] {
        network.report_departures(forth(link), |_, _| panic!("nothing waits"));
    }
    for line in [0, 1] {
        network.send(NodeId(0), packet(0, 1, 1000, line));
        network.send(NodeId(0), packet(0, 2, 1000, line + 10));
    }
    let replies = BTreeMap::from([(1, packet(0, 2, 1000, 12))]);
    let mut hosts = Reacting { replies, ..Reacting::default() };
    network.run(Time::from_picos(MILLISECOND), &mut hosts);
    assert_eq!(hosts.departed, [1, 11]);
    network.run(Time::MAX, &mut hosts);
    // The other queue was empty then, so that reports have ended.
    assert_eq!(hosts.departed, [1, 11]);
    assert_eq!(hosts.arrived, [0, 10, 1, 11, 12]);
}

/// Packet 2 finds the queue full, and departs with that. Then a host sends one without a route.
#[test]
fn a_loss_may_cause_another() {
    let mut network = fork(Limit::packets(1));
    for line in 0..3 {
        network.send(NodeId(0), packet(0, 1, 1000, line));
    }
    let replies = BTreeMap::from([(2, packet(0, 3, 1000, 7))]);
    let mut hosts = Reacting { replies, ..Reacting::default() };
    network.run(Time::ZERO, &mut hosts);
    assert_eq!(hosts.departed, [2]);
    assert_eq!(hosts.lost, [(2, Loss::Queue(Cause::Limit)), (7, Loss::NoRoute)]);
}

/// Losses of the same run are told one after the other, in several runs.
#[test]
fn each_loss_is_told_once() {
    let mut network = fork(Limit::packets(1));
    let mut hosts = Reacting::default();
    for round in 0..3 {
        for line in 0..4 {
            network.send(NodeId(0), packet(0, 1, 1000, 10 * round + line));
        }
        network.run(Time::from_picos(u64::from(round + 1) * SECOND), &mut hosts);
    }
    let lost: Vec<Line> = hosts.lost.iter().map(|(line, _)| *line).collect();
    assert_eq!(lost, [2, 3, 12, 13, 22, 23]);
    assert_eq!(hosts.departed, lost);
}

/// Nothing is dropped at the port of a packet that does not come to one.
#[test]
fn a_host_learns_what_becomes_of_a_packet() {
    let mut network = fork(Limit::packets(1));
    network.set_mtu(1, 999);
    let mut hosts = Reacting::default();
    for line in 0..2 {
        network.send(NodeId(0), packet(0, 1, 1000, line));
    }
    for (line, to, dropped) in [(2, 3, false), (3, 2, false), (4, 1, true)] {
        let sent = network.send(NodeId(0), packet(0, to, 1000, line));
        assert_eq!((sent.waits.is_some(), sent.dropped), (dropped, dropped), "{line}");
    }
    network.run(Time::MAX, &mut hosts);
    let expected = [(2, Loss::NoRoute), (3, Loss::TooBig), (4, Loss::Queue(Cause::Limit))];
    assert_eq!(hosts.lost, expected);
    assert_eq!(hosts.arrived, [0, 1]);
}

/// When a packet arrives, the data of the next one is prefetched, the connection of the third after
/// it and the endpoint of the sixth.
#[test]
fn memory_is_prefetched_for_packets_that_follow() {
    use Part::{Connection, Data, Endpoint};
    for prefetches in [true, false] {
        let mut network = fork(Limit::packets(99));
        for line in 0..8 {
            network.send(NodeId(0), packet(0, 1, 1000, line));
        }
        let mut hosts = Reacting { prefetches, ..Reacting::default() };
        for arrived in 1..=8 {
            hosts.prefetched.clear();
            network.run(Time::from_picos(arrived * MILLISECOND), &mut hosts);
            assert_eq!(hosts.arrived.len() as u64, arrived);
            let first = arrived as Line;
            let mut expected = vec![(first, Data), (first + 2, Connection), (first + 5, Endpoint)];
            expected.retain(|(line, _)| prefetches && *line < 8);
            assert_eq!(hosts.prefetched, expected);
        }
    }
}
