//! Routers process their arrivals ahead of other nodes.
//!
//! A packet that is not yet on a link arrives at its far end after the delay of the link, at the
//! earliest. So at any instant, a router's arrivals are known for the least delay of the links that
//! lead to it, and no other node can change what it does with them: this is the lookahead of
//! conservative synchronisation (Chandy and Misra, 1979), applied to nodes in one thread. A router
//! that has an arrival processes all that it knows in the order of their times, without an event
//! for each. Packets on their way to it, one after the other, are then moved in one loop.
//!
//! Nothing else of a router has events but its transmitters, and it stops before the next of these.
//! It stops, too, before a packet that it does not simply forward. So what any node does is the
//! same as in the order of all events; only what different nodes do between two meetings has
//! another order.

use perhop_core::{Duration, Header, Time};

use super::{Network, NodeKind};
use crate::hosts::Hosts;
use crate::port::{Port, PortId, TakenOn};

/// Greatest number of links of a router that processes arrivals ahead. With many, the next arrival
/// is found faster in the agenda.
const MOST_LINKS: usize = 4;

/// Routers with few links.
#[derive(Debug)]
pub(super) struct Routers {
    /// For each of them, the ports that lead to it, in rising order.
    incoming: Vec<Vec<PortId>>,
    /// True if lookaheads are up to date.
    reviewed: bool,
}

impl Routers {
    pub fn new<B>(nodes: &[NodeKind], ports: &[Port<B>]) -> Self {
        let mut incoming = vec![Vec::new(); nodes.len()];
        for (port, number) in ports.iter().zip(0..) {
            incoming[port.to.index()].push(PortId(number));
        }
        let routers = incoming.into_iter().zip(nodes);
        let few = routers.map(|(ports, kind)| match kind {
            NodeKind::Router if ports.len() <= MOST_LINKS => ports,
            _ => Vec::new(),
        });
        Self { incoming: few.collect(), reviewed: false }
    }

    /// Has lookaheads determined anew before the next run.
    pub fn review(&mut self) {
        self.reviewed = false;
    }
}

impl<B: Copy> Network<B> {
    /// Returns a port to be changed, which may change lookaheads.
    pub(super) fn changing(&mut self, id: PortId) -> &mut Port<B> {
        self.routers.review();
        &mut self.ports[id.index()]
    }

    /// Determines the lookahead of each router, before a run.
    #[inline]
    pub(super) fn review_routers(&mut self) {
        if !self.routers.reviewed {
            self.review_all_routers();
        }
    }

    #[cold]
    fn review_all_routers(&mut self) {
        for incoming in &self.routers.incoming {
            let ports = &self.ports;
            let delays = incoming.iter().map(|id| {
                let (port, outgoing) = (&ports[id.index()], &ports[id.index() ^ 1]);
                let alone = !outgoing.watched_at_start && outgoing.place.is_none();
                port.least_delay().filter(|_| alone && !port.is_special())
            });
            let least = delays.min().flatten().unwrap_or(Duration::ZERO);
            for id in incoming {
                self.ports[id.index()].lookahead = least;
            }
        }
        self.routers.reviewed = true;
    }

    /// Continues after an arrival at a router: with what arrives there next, or with an event for
    /// it.
    #[inline(always)]
    pub(super) fn go_on(&mut self, id: PortId, hosts: &mut impl Hosts<B>) {
        let port = &self.ports[id.index()];
        if let Some(at) = port.next_arrival() {
            if at < self.now + port.lookahead {
                self.run_ahead(id, hosts);
            } else {
                self.agenda.push(at, Self::arrival_event(id));
            }
        }
    }

    /// Processes the arrivals at a router that are known, after one by `first`.
    #[inline(never)]
    fn run_ahead(&mut self, first: PortId, hosts: &mut impl Hosts<B>) {
        self.report(hosts); // what the present arrival caused, at its instant
        let Port { to: node, lookahead, .. } = self.ports[first.index()];
        let incoming = std::mem::take(&mut self.routers.incoming[node.index()]);
        // The transmitters come after the arrivals of their instant.
        let outgoing = incoming.iter().map(|id| self.ports[id.index() ^ 1].wake);
        let mut known = outgoing.fold(self.until_excluded().min(self.now + lookahead), Time::min);
        let mut processed = 1_u32 << incoming.iter().position(|id| *id == first).unwrap_or(0);
        loop {
            // The next arrival, and the first one by another port.
            let (mut next, mut other) = ((known, None), known);
            for (place, id) in incoming.iter().enumerate() {
                let at = self.ports[id.index()].next_arrival().unwrap_or(Time::MAX);
                if at < next.0 {
                    (next, other) = ((at, Some((place, *id))), next.0);
                } else {
                    other = other.min(at);
                }
            }
            let (at, Some((place, from))) = next else { break };
            let Some(wake) = self.forward(at, from, other, hosts) else { break };
            processed |= 1 << place;
            known = known.min(wake);
        }
        for (place, id) in incoming.iter().enumerate() {
            if processed & 1 << place != 0
                && let Some(at) = self.ports[id.index()].next_arrival()
            {
                self.agenda.push(at, Self::arrival_event(*id));
            }
        }
        self.routers.incoming[node.index()] = incoming;
    }

    /// Returns the instant after the end of the run.
    fn until_excluded(&self) -> Time {
        Time::from_picos(self.until.as_picos().saturating_add(1))
    }

    /// Forwards the packet that arrives `at` this instant by a port, and those behind it that go
    /// the same way and arrive before `other` ones do. Returns when the transmitter of the port to
    /// which they go is due; `None` if the packet is not simply forwarded: it is still there.
    #[inline(always)]
    fn forward(
        &mut self,
        at: Time,
        from: PortId,
        other: Time,
        hosts: &mut impl Hosts<B>,
    ) -> Option<Time> {
        let port = &self.ports[from.index()];
        let (node, (_, header)) = (port.to, port.arriving()?);
        let destination = header.destination;
        if destination == node {
            return None;
        }
        let to = self.routes.way(node, header).ok()?;
        let sole = self.routes.is_sole_way(node, destination);
        self.now = at;
        let Ok([source, port]) = self.ports.get_disjoint_mut([from.index(), to.index()]) else {
            unreachable!("both directions of a link have different ports");
        };
        debug_assert!(!port.watched_at_start && port.wake > at);
        let follows = |at: Time, header: &Header| {
            sole && at < other && header.destination == destination && header.ttl > 1
        };
        let mut moved = 0;
        let rest = loop {
            let Some((at, packet)) = source.arriving_after(moved) else { break None };
            if moved > 0 && !follows(at, &packet.header) {
                break None;
            }
            self.now = at;
            match port.take_on(at, &packet.header) {
                TakenOn::Arrives(at) => {
                    if port.copy_on_wire(at, packet) {
                        self.agenda.push(at, Self::arrival_event(to));
                    }
                    moved += 1 + port.transmit_run(source, moved, &packet.header, follows);
                }
                other => break Some(other),
            }
        };
        source.forget(moved);
        let rest = rest.and_then(|outcome| Some((outcome, source.take_off_wire()?.forwarded())));
        let wake = port.wake;
        self.count_arrivals(moved as u64 + u64::from(rest.is_some()));
        match rest {
            None => return Some(wake),
            Some((TakenOn::Lost(loss), packet)) => self.lose(packet, loss, Some(to)),
            Some((_, packet)) => self.enqueue(to, packet),
        }
        self.report(hosts);
        Some(self.ports[to.index()].wake)
    }
}
