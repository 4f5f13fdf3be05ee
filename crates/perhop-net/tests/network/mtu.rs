//! Links with an MTU.

use perhop_core::{NodeId, Packet, Time};
use perhop_net::{Hosts, IcmpError, Loss, Network, PortId, TimerId};

use crate::lab::*;

const RATE: u64 = 8_000_000_000;

/// Returns a network of a host, a router and a host; the second link has an MTU of 1000 bytes.
fn network() -> Network<Line> {
    let hop = |n| link([n, n + 1], wire(RATE, MILLISECOND));
    let mut network = Network::new(&[Host, Router, Host], vec![hop(0), hop(1)], 1).unwrap();
    network.set_mtu(1, 1000);
    network
}

fn sent(size: u32, from: u16, to: u16) -> Scripted {
    let mut network = network();
    let mut hosts = Scripted::new(vec![Send { at: 0, from, to, size }], &mut network);
    network.run(Time::MAX, &mut hosts);
    hosts
}

#[test]
fn a_packet_that_fits_passes() {
    let hosts = sent(1000, 0, 2);
    assert_eq!(hosts.arrivals.len(), 1);
    assert!(hosts.errors.is_empty() && hosts.losses.is_empty());
}

#[test]
fn one_that_is_longer_is_sent_back_with_what_would_fit() {
    let hosts = sent(1001, 0, 2);
    assert_eq!(hosts.losses, [(0, Loss::TooBig)]);
    let [(router, _, error)] = hosts.quoted[..] else { panic!("{:?}", hosts.quoted) };
    assert_eq!((router, error), (NodeId(1), IcmpError::TooBig { mtu: 1000 }));
    assert_eq!(
        (error.type_and_code(), error.type_and_code_v6(), error.word()),
        ((3, 4), (2, 0), 1000)
    );
    assert_eq!(hosts.errors.len(), 1);
}

#[test]
fn a_host_does_not_send_what_its_own_link_does_not_take() {
    let hosts = sent(1001, 2, 0);
    assert_eq!(hosts.losses, [(0, Loss::TooBig)]);
    assert!(hosts.errors.is_empty() && hosts.quoted.is_empty());
}

#[test]
fn the_other_links_take_any() {
    let mut network = network();
    let script = vec![Send { at: 0, from: 0, to: 1, size: 9000 }];
    let mut hosts = Scripted::new(script, &mut network);
    network.run(Time::MAX, &mut hosts);
    assert_eq!(hosts.arrivals.len(), 1);
}

/// Hosts that divide packets into two fragments.
#[derive(Default)]
struct Dividing(Vec<(Time, u32, Line)>);

impl Hosts<Line> for Dividing {
    fn receive(&mut self, network: &mut Network<Line>, _: NodeId, packet: Packet<Line>) {
        self.0.push((network.now(), packet.header.size, packet.body));
    }

    fn timer(&mut self, _: &mut Network<Line>, _: TimerId) {}

    fn lost(&mut self, packet: Packet<Line>, loss: Loss, _: Option<PortId>) {
        panic!("{packet:?} was lost: {loss:?}");
    }

    fn quote(&mut self, _: NodeId, _: &Packet<Line>, _: IcmpError) -> Option<(Line, u32)> {
        panic!("nothing is wrong");
    }

    fn divide(&mut self, packet: &Packet<Line>, mtu: u32, pieces: &mut Vec<(Line, u32)>) {
        pieces.extend([(7, mtu), (8, packet.header.size - mtu + 20)]);
    }
}

#[test]
fn what_may_be_divided_arrives_in_pieces() {
    let mut network = network();
    network.send(NodeId(0), packet(0, 2, 1500, 0));
    let mut hosts = Dividing::default();
    network.run(Time::MAX, &mut hosts);
    let first = 2 * MILLISECOND + transmission(1500, RATE) + transmission(1000, RATE);
    let second = first + transmission(520, RATE);
    let at = |picos| Time::from_picos(picos);
    assert_eq!(hosts.0, [(at(first), 1000, 7), (at(second), 520, 8)]);
}
