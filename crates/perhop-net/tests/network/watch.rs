//! Watching an interface: packets that pass, with time and direction.

use perhop_core::{NodeId, Packet, Time};
use perhop_net::{Hosts, IcmpError, Loss, Network, Passage, PortId, TimerId, Wire};
use perhop_queue::Limit;
use proptest::prelude::*;

use crate::lab::*;

/// A packet that passed: time, interface, direction, packet.
pub type Sight = (u64, PortId, Passage, Line);

/// Scripted hosts that also record packets that pass.
#[derive(Default)]
pub struct Watching {
    pub hosts: Scripted,
    pub seen: Vec<Sight>,
    /// Number of losses that had been reported at each of them.
    pub losses_before: Vec<usize>,
}

impl Hosts<Line> for Watching {
    fn receive(&mut self, network: &mut Network<Line>, host: NodeId, packet: Packet<Line>) {
        self.hosts.receive(network, host, packet);
    }

    fn timer(&mut self, network: &mut Network<Line>, timer: TimerId) {
        self.hosts.timer(network, timer);
    }

    fn lost(&mut self, packet: Packet<Line>, loss: Loss, at: Option<PortId>) {
        self.hosts.lost(packet, loss, at);
    }

    fn quote(&mut self, _: NodeId, _: &Packet<Line>, _: IcmpError) -> Option<(Line, u32)> {
        None
    }

    fn observe(&mut self, at: Time, port: PortId, passage: Passage, packet: &Packet<Line>) {
        self.seen.push((at.as_picos(), port, passage, packet.body));
        self.losses_before.push(self.hosts.losses.len());
    }
}

/// Two hosts and a router between them; the second link loses a share and has a short queue.
fn play_watched(script: Vec<Send>, loss: u32, interfaces: &[PortId]) -> Watching {
    let lossy = Wire { loss, ..wire(8_000_000, MILLISECOND) };
    let links = vec![
        link([0, 1], wire(80_000_000, MILLISECOND)),
        link_with([1, 2], lossy, || fifo(Limit::packets(3))),
    ];
    let mut network = Network::new(&[Host, Router, Host], links, 1).unwrap();
    interfaces.iter().for_each(|&interface| network.watch(interface));
    let hosts = Scripted::new(script, &mut network);
    let mut watching = Watching { hosts, seen: Vec::new(), losses_before: Vec::new() };
    network.run(Time::MAX, &mut watching);
    watching
}

/// A thousand bytes take 100 µs on the first link and 1 ms on the second, and each link delays them
/// by 1 ms.
#[test]
fn packets_are_seen_when_they_begin_to_leave_and_when_they_have_come() {
    let send = |from, to| Send { at: 0, from, to, size: 1000 };
    let script = vec![send(0, 2), send(0, 2), send(2, 0)];
    let at = |micros| micros * MICROSECOND;
    let (sent, received) = (Passage::Sent, Passage::Received);

    let router = play_watched(script.clone(), 0, &[forth(1)]);
    let expected = [
        (at(1100), forth(1), sent, 0),
        (at(2000), forth(1), received, 2),
        (at(2100), forth(1), sent, 1), // the first is in transmission until then
    ];
    assert_eq!(router.seen, expected);

    let both = play_watched(script.clone(), 0, &[forth(0), back(1)]);
    let expected = [
        (0, forth(0), sent, 0),
        (0, back(1), sent, 2),
        (at(100), forth(0), sent, 1),
        (at(3100), forth(0), received, 2),
        (at(3100), back(1), received, 0),
        (at(4100), back(1), received, 1),
    ];
    assert_eq!(both.seen, expected);

    assert_eq!(play_watched(script.clone(), 0, &[]).seen, []);
    assert_eq!(play_watched(script, 1, &[]).seen, []);
}

#[test]
fn what_the_link_loses_was_sent() {
    let script = vec![Send { at: 0, from: 0, to: 2, size: 1000 }];
    let run = play_watched(script, 1_000_000_000, &[forth(1), back(1)]);
    assert_eq!(run.seen, [(1100 * MICROSECOND, forth(1), Passage::Sent, 0)]);
    assert_eq!(run.hosts.losses, [(0, Loss::Link)]);
    assert_eq!(run.losses_before, [0], "a body was gone before it was seen");
}

/// Packets of 1000 bytes are sent both ways, one every 2 ms, of which each takes 1.1 ms to the
/// router. It is watched from 3 ms to 9 ms.
#[test]
fn an_interface_is_watched_until_no_more() {
    let script: Vec<Send> = (0..14)
        .map(|n| {
            let (from, to) = [(0, 1), (1, 0)][n as usize % 2];
            Send { at: n / 2 * 2 * MILLISECOND, from, to, size: 1000 }
        })
        .collect();
    let links = vec![link([0, 1], wire(80_000_000, MILLISECOND))];
    let mut network = Network::new(&[Host, Host], links, 1).unwrap();
    let hosts = Scripted::new(script, &mut network);
    let mut watching = Watching { hosts, ..Watching::default() };
    network.run(Time::from_picos(3 * MILLISECOND), &mut watching);
    network.watch(back(0));
    network.run(Time::from_picos(9 * MILLISECOND), &mut watching);
    network.unwatch(back(0));
    network.run(Time::MAX, &mut watching);
    let expected: Vec<Sight> = [2, 3, 4]
        .into_iter()
        .flat_map(|n| {
            let (sent, received) = (20 * n, 20 * n + 11);
            [(sent, Passage::Sent, 2 * n + 1), (received, Passage::Received, 2 * n)]
        })
        .map(|(at, passage, line)| (at * 100 * MICROSECOND, back(0), passage, line as Line))
        .collect();
    // The second packet has arrived at 3.1 ms.
    let first = (3_100 * MICROSECOND, back(0), Passage::Received, 2);
    let mut expected = [vec![first], expected].concat();
    expected.retain(|sight| sight.0 < 9 * MILLISECOND);
    assert_eq!(watching.seen, expected);
    assert_eq!(watching.hosts.arrivals.len(), 14);
}

proptest! {
    /// At every interface, the sent packets are those offered less the drops of queues, the
    /// received ones are those sent at the other end less the losses of the link, and order and
    /// times are the network's.
    #[test]
    fn nothing_passes_unseen(
        sends in prop::collection::vec((0_u64..20_000, any::<bool>(), 40_u32..2_000), 0..80),
        loss in prop::sample::select(vec![0, 200_000_000]),
    ) {
        let script: Vec<Send> = sends
            .iter()
            .map(|&(at, forward, size)| {
                let (from, to) = if forward { (0, 2) } else { (2, 0) };
                Send { at: at * MICROSECOND, from, to, size }
            })
            .collect();
        let all = [forth(0), back(0), forth(1), back(1)];
        let run = play_watched(script.clone(), loss, &all);
        prop_assert!(run.seen.is_sorted_by_key(|sight| sight.0));
        let lines = |port, passage| {
            let here = run.seen.iter().filter(move |s| s.1 == port && s.2 == passage);
            let mut lines: Vec<Line> = here.map(|sight| sight.3).collect();
            lines.sort_unstable();
            lines
        };
        let lost = |how| {
            let here = run.hosts.losses.iter().filter(move |loss| loss.1 == how);
            here.map(|loss| loss.0).collect::<Vec<_>>()
        };
        for link in [0, 1] {
            for (here, there) in [(forth(link), back(link)), (back(link), forth(link))] {
                let mut arrived = lines(there, Passage::Received);
                arrived.extend(lost(Loss::Link).iter().filter(|&&line| {
                    link == 1 && lines(here, Passage::Sent).contains(&line)
                }));
                arrived.sort_unstable();
                prop_assert_eq!(lines(here, Passage::Sent), arrived);
            }
        }
        for (node, port) in [(0, forth(0)), (2, back(1))] {
            let mut received: Vec<(u64, Line)> = run.hosts.arrivals.iter()
                .filter(|arrival| arrival.1 == NodeId(node))
                .map(|arrival| (arrival.0.as_picos(), arrival.2))
                .collect();
            received.sort_unstable();
            let mut seen: Vec<(u64, Line)> = run.seen.iter()
                .filter(|sight| sight.1 == port && sight.2 == Passage::Received)
                .map(|sight| (sight.0, sight.3))
                .collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, received);
        }
        // Watching does not change the results.
        let unwatched = play_watched(script, loss, &[]);
        prop_assert_eq!(unwatched.hosts.arrivals, run.hosts.arrivals);
        // The order of losses at different nodes is not that of their times.
        let [mut losses, mut watched] = [unwatched.hosts.losses, run.hosts.losses];
        losses.sort_unstable();
        watched.sort_unstable();
        prop_assert_eq!(losses, watched);
    }
}
