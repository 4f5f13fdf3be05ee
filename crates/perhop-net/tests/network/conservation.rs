//! In any network, under any traffic, every packet arrives once or is reported as lost once.

use perhop_core::{Bytes, Dscp, Duration, Overhead, Rate, Time};
use perhop_net::{
    LinkSpec, Loss, Network, NodeKind, PortId, Reorder, Variation, VariationDistribution, Wire,
};
use perhop_queue::{
    Action, Actions, Backlog, Cause, Class, ClassService, ClassSpec, Classes, Discipline, Limit,
    Match, Policer, Queue, Weight,
};
use proptest::prelude::*;

use crate::lab::*;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Packets(u64),
    Bytes(u64),
    /// Two weighted classes by source node, the first of them policed.
    Classes {
        limit: u64,
        police: u64,
    },
}

impl Kind {
    fn queue(self) -> Class<Line> {
        match self {
            Self::Packets(limit) => fifo(Limit::packets(limit)),
            Self::Bytes(limit) => fifo(Limit::bytes(Bytes::new(limit))),
            Self::Classes { limit, police } => {
                let policer = Policer::new(Rate::new(police).unwrap(), Bytes::new(3_000));
                let policed =
                    fifo(Limit::packets(limit)).policed(policer, Actions::exceed(Action::Drop));
                let even = (0..8).step_by(2).map(perhop_core::NodeId).collect();
                let class = |matches: Match, weight, class| ClassSpec {
                    matches: matches.into(),
                    service: ClassService::Share(Weight::new(weight).unwrap(), 0),
                    class,
                };
                Class::new(Queue::Classes(Box::new(Classes::new(vec![
                    class(Match { sources: even, ..Match::default() }, 3, policed),
                    class(
                        Match { dscps: vec![Dscp::DEFAULT], ..Match::default() },
                        1,
                        fifo(Limit::packets(limit)),
                    ),
                ]))))
            }
        }
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        (0_u64..20).prop_map(Kind::Packets),
        (0_u64..20_000).prop_map(Kind::Bytes),
        (1_u64..20, 100_000_u64..5_000_000)
            .prop_map(|(limit, police)| Kind::Classes { limit, police }),
    ]
}

prop_compose! {
    fn a_wire()(
        rate in 100_000_u64..1_000_000_000,
        delay in 0..20 * MILLISECOND,
        jitter in prop_oneof![Just(0), 0..10 * MILLISECOND],
        loss in prop_oneof![Just(0), 0_u32..300_000_000],
        reorder in prop::option::of((0_u32..300_000_000, 0..30 * MILLISECOND, 0_u32..4)),
        variation in prop::option::of((0..20 * MILLISECOND, any::<bool>())),
        delay_limit in prop::option::of(1_u32..50),
        overhead in prop_oneof![(0_u32..40).prop_map(Overhead::Fixed), Just(Overhead::Atm)],
    ) -> Wire {
        let jitter = Duration::from_picos(jitter);
        let reorder =
            reorder.map(|(share, by, gap)| Reorder { share, by: Duration::from_picos(by), gap });
        let distribution = VariationDistribution::ParetoNormal;
        let variation = variation.map(|(by, in_order)| Variation {
            by: Duration::from_picos(by),
            distribution,
            in_order,
        });
        Wire { jitter, loss, reorder, variation, delay_limit, overhead, ..wire(rate, delay) }
    }
}

/// Ends, wire and queues.
type Link = ([u16; 2], Wire, Kind);

prop_compose! {
    /// Links between two of `nodes` nodes, also parallel ones.
    fn links(nodes: u16)(
        links in prop::collection::vec((0..nodes, 1..nodes, a_wire(), kind()), 1..12),
    ) -> Vec<Link> {
        let ends = |a, distance| [a, (a + distance) % nodes];
        links.into_iter().map(|(a, distance, wire, kind)| (ends(a, distance), wire, kind)).collect()
    }
}

fn kinds_of_nodes(nodes: u16) -> impl Strategy<Value = Vec<NodeKind>> {
    let kind = prop::bool::weighted(0.4).prop_map(|host| if host { Host } else { Router });
    prop::collection::vec(kind, usize::from(nodes))
}

prop_compose! {
    fn script(nodes: u16)(
        sends in prop::collection::vec(
            (0..50 * MILLISECOND, 0..nodes, 0..nodes, 20_u32..1500, 1_usize..8), 0..60,
        ),
    ) -> Vec<Send> {
        // Some arrive in bursts, which fill queues.
        let burst = |(at, from, to, size, count)| vec![Send { at, from, to, size }; count];
        sends.into_iter().flat_map(burst).collect()
    }
}

fn a_case() -> impl Strategy<Value = (Vec<NodeKind>, Vec<Link>, Vec<Send>)> {
    (2_u16..8).prop_flat_map(|nodes| (kinds_of_nodes(nodes), links(nodes), script(nodes)))
}

proptest! {
    #[test]
    fn every_packet_has_one_fate((nodes, links, script) in a_case(), seed in 0_u64..100) {
        let spec = |(ends, wire, kind): &Link| {
            link_with(*ends, *wire, || kind.queue())
        };
        let links: Vec<LinkSpec<Line>> = links.iter().map(spec).collect();
        let (network, hosts) = play(&nodes, links, seed, script.clone());
        prop_assert_eq!(network.next_event(), None);

        let arrived = hosts.arrivals.iter().map(|&(.., line)| line);
        let mut fates: Vec<Line> =
            arrived.chain(hosts.losses.iter().map(|&(line, _)| line)).collect();
        // The record also has ICMP errors that were lost.
        fates.retain(|line| line & ERROR == 0);
        fates.sort_unstable();
        prop_assert!(fates.into_iter().eq(0..script.len() as Line), "not one fate each");
        check_counters(&network, &hosts)?;
    }
}

/// Checks that the ports' counters agree with the record.
fn check_counters(network: &Network<Line>, hosts: &Scripted) -> Result<(), TestCaseError> {
    let lost_at = |port: PortId, cause: Loss| {
        let told = hosts.losses.iter().zip(&hosts.lost_at);
        told.filter(|((_, loss), at)| *loss == cause && **at == Some(port)).count() as u64
    };
    let sum = |count: &dyn Fn(PortId) -> u64| network.ports().map(count).sum::<u64>();
    for port in network.ports() {
        let queue = network.queue(port);
        prop_assert_eq!(queue.backlog(), Backlog::default());
        prop_assert_eq!(queue.counters().sent.packets, network.link_counters(port).packets);
        for cause in Cause::ALL {
            prop_assert_eq!(queue.counters().dropped(cause), lost_at(port, Loss::Queue(cause)));
        }
        let lost = lost_at(port, Loss::Link) + lost_at(port, Loss::DelayLine);
        prop_assert_eq!(network.link_counters(port).lost, lost);
    }
    let crossed =
        sum(&|port| network.link_counters(port).packets - network.link_counters(port).lost);
    prop_assert_eq!(crossed, network.packet_hops());
    prop_assert!(network.now() == Time::MAX);
    Ok(())
}
