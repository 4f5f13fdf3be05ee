//! Timers, slices, and the cost of a run.

use perhop_core::{Duration, NodeId, Packet, Time};
use perhop_net::{Hosts, IcmpError, Loss, Network, PortId, TimerId, Wire};
use perhop_queue::Limit;
use proptest::prelude::*;

use crate::lab::*;

/// Hosts that record their timers, and set a timer again as often as requested.
#[derive(Default)]
struct Clock {
    called: Vec<(u64, u32)>,
    again: u32,
}

impl Hosts<Line> for Clock {
    fn receive(&mut self, _: &mut Network<Line>, _: NodeId, _: Packet<Line>) {}

    fn timer(&mut self, network: &mut Network<Line>, TimerId(timer): TimerId) {
        self.called.push((network.now().as_picos(), timer));
        if self.again > 0 {
            self.again -= 1;
            network.set_timer(network.now(), TimerId(timer + 10));
        }
    }

    fn lost(&mut self, _: Packet<Line>, _: Loss, _: Option<PortId>) {}

    fn quote(&mut self, _: NodeId, _: &Packet<Line>, _: IcmpError) -> Option<(Line, u32)> {
        None
    }
}

fn two_hosts() -> Network<Line> {
    Network::new(&[Host, Host], vec![link([0, 1], wire(8_000_000, MILLISECOND))], 1).unwrap()
}

#[test]
fn timers_come_at_their_instant_in_the_order_of_their_numbers() {
    let mut network = two_hosts();
    for (at, timer) in [(50, 1), (20, 2), (50, 0), (20, 2), (0, 9)] {
        network.set_timer(Time::from_picos(at), TimerId(timer));
    }
    let mut clock = Clock::default();
    network.run(Time::from_picos(50), &mut clock);
    assert_eq!(clock.called, [(0, 9), (20, 2), (20, 2), (50, 0), (50, 1)]);
}

/// Two ports leave so many numbers of 31 bits.
#[test]
fn timers_are_numbered_up_to_31_bits() {
    let mut network = two_hosts();
    let numbers = [(1 << 31) - 3, 1 << 30, (1 << 30) - 3, 1 << 16, 0];
    for number in numbers {
        network.set_timer(Time::from_picos(7), TimerId(number));
    }
    // A transmitter has the greatest numbers.
    network.watch(forth(0));
    network.send(NodeId(0), packet(0, 1, 1000, 0));
    network.send(NodeId(0), packet(0, 1, 1000, 1));
    let mut clock = Clock::default();
    network.run(Time::MAX, &mut clock);
    let mut expected = numbers.map(|number| (7, number));
    expected.reverse();
    assert_eq!(clock.called, expected);
    assert_eq!(network.packet_hops(), 2);
}

#[test]
fn a_timer_set_for_now_comes_now() {
    let mut network = two_hosts();
    for timer in [0, 1] {
        network.set_timer(Time::from_picos(5), TimerId(timer));
    }
    let mut clock = Clock { again: 3, ..Clock::default() };
    network.run(Time::from_picos(5), &mut clock);
    assert_eq!(clock.called, [(5, 0), (5, 1), (5, 10), (5, 11), (5, 20)]);
}

#[test]
fn a_run_includes_its_last_instant_and_ends_there() {
    let mut network = two_hosts();
    network.set_timer(Time::from_picos(10), TimerId(0));
    let mut clock = Clock::default();
    network.run(Time::from_picos(9), &mut clock);
    assert_eq!((network.now().as_picos(), clock.called.len()), (9, 0));
    network.run(Time::from_picos(10), &mut clock);
    network.run(Time::from_picos(3), &mut clock);
    assert_eq!((network.now().as_picos(), clock.called.len()), (10, 1), "time went back");
}

#[test]
fn a_driver_may_sleep_until_the_next_event() {
    let mut network = two_hosts();
    let mut hosts = Clock::default();
    assert_eq!(network.next_event(), None);
    // A driver with real packets sends between runs.
    network.run(Time::from_picos(500), &mut hosts);
    network.send(NodeId(0), packet(0, 1, 1000, 0));
    let arrival = Time::from_picos(500 + 2 * MILLISECOND);
    assert_eq!(network.next_event(), Some(arrival));
    network.set_timer(Time::from_picos(700), TimerId(0));
    assert_eq!(network.next_event(), Some(Time::from_picos(700)));
    network.run(Time::from_picos(700), &mut hosts);
    assert_eq!(network.next_event(), Some(arrival));
    network.run(arrival, &mut hosts);
    assert_eq!(network.next_event(), None);
}

#[test]
fn what_is_lost_between_runs_is_reported_by_the_next_run() {
    let mut network = Network::new(
        &[Host, Host, Host],
        vec![link_with([0, 1], wire(8_000_000, SECOND), || fifo(Limit::packets(1)))],
        1,
    )
    .unwrap();
    let mut hosts = Scripted::default();
    network.send(NodeId(0), packet(0, 2, 1000, 7));
    // One is in transmission, one waits, and the third is dropped.
    for line in 0..3 {
        network.send(NodeId(0), packet(0, 1, 1000, line));
    }
    network.run(Time::from_picos(1), &mut hosts);
    let full = Loss::Queue(perhop_queue::Cause::Limit);
    assert_eq!(hosts.losses, [(7, Loss::NoRoute), (2, full)]);
}

/// Returns a chain of five links between two hosts.
fn chain(wire: Wire) -> Network<Line> {
    let links = (0..5).map(|hop| link([hop, hop + 1], wire)).collect();
    Network::new(&[Host, Router, Router, Router, Router, Host], links, 1).unwrap()
}

#[test]
fn an_idle_link_costs_an_event_a_hop() {
    let mut network = chain(wire(8_000_000, MILLISECOND));
    let apart = |n: u64| Send { at: n * 2 * MILLISECOND, from: 0, to: 5, size: 1000 };
    let mut hosts = Scripted::new((0..100).map(apart).collect(), &mut network);
    network.run(Time::MAX, &mut hosts);
    assert_eq!(network.packet_hops(), 500);
    assert_eq!(network.events(), 500 + 100, "an arrival a hop, and the timers");
}

/// Two senders that overload a link with jitter, loss and a short queue.
fn busy(seed: u64) -> (Network<Line>, Scripted) {
    let wire = Wire {
        jitter: Duration::from_picos(3 * MILLISECOND),
        loss: 50_000_000,
        ..wire(8_000_000, MILLISECOND)
    };
    let links = vec![
        link([0, 2], self::wire(100_000_000, 10)),
        link([1, 2], self::wire(100_000_000, 10)),
        link_with([2, 3], wire, || fifo(Limit::packets(10))),
    ];
    let mut network = Network::new(&[Host, Host, Router, Host], links, seed).unwrap();
    let send = |n: u64| Send {
        at: n * n % 89 * MILLISECOND,
        from: (n % 2) as u16,
        to: 3,
        size: 40 + (n * 131 % 1400) as u32,
    };
    let hosts = Scripted::new((0..300).map(send).collect(), &mut network);
    (network, hosts)
}

type Record = (Vec<(Time, NodeId, Line)>, Vec<(Line, Loss)>, u64);

fn record((network, hosts): (Network<Line>, Scripted)) -> Record {
    (hosts.arrivals, hosts.losses, network.events())
}

fn run_at_once(seed: u64) -> Record {
    let (mut network, mut hosts) = busy(seed);
    network.run(Time::from_picos(SECOND), &mut hosts);
    record((network, hosts))
}

#[test]
fn the_seed_decides_everything() {
    let (arrivals, losses, _) = run_at_once(1);
    assert!(losses.len() > 20 && arrivals.len() > 100, "the case is too quiet to tell");
    assert_eq!(run_at_once(1), run_at_once(1));
    assert_ne!(run_at_once(1), run_at_once(2));
}

proptest! {
    /// The result of a run does not depend on its slices.
    #[test]
    fn slices_change_nothing(slices in prop::collection::vec(0_u64..20 * MILLISECOND, 0..200)) {
        let (mut network, mut hosts) = busy(1);
        let mut until = Time::ZERO;
        for slice in slices {
            until += Duration::from_picos(slice);
            network.run(until, &mut hosts);
            prop_assert_eq!(network.now(), until);
            prop_assert!(network.next_event().is_none_or(|next| next > until));
        }
        network.run(Time::from_picos(10 * SECOND), &mut hosts);
        prop_assert_eq!(record((network, hosts)), run_at_once(1));
    }
}
