//! Nodes, links, and the loop that forwards packets.

mod ahead;
mod parts;
mod sharing;
mod tunnelled;

use perhop_core::{Bytes, Encapsulation, Header, NodeId, Packet, Stream, Time};
use perhop_queue::{Class, Dequeue, Discipline, Ledger, Reserved};

use self::ahead::Routers;
use crate::agenda::{Agenda, EventId};
use crate::balance::Balance;
use crate::channel::Channel;
use crate::hosts::{Hosts, Loss, Part, Passage, Sent, TimerId};
use crate::icmp::{ErrorBudget, IcmpError, IcmpErrors};
use crate::marker::Marker;
use crate::port::{Port, PortId, TakenOn};
use crate::routes::{Fault, RouteError, Routes};
use crate::trace::Trace;
use crate::tunnel::Tunnel;
use crate::wire::{LinkCounters, Wire};

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum NodeKind {
    /// A host sends and receives, and forwards nothing.
    Host,
    /// A router forwards.
    Router,
}

/// A link between two nodes.
#[derive(Debug)]
pub struct LinkSpec<B> {
    /// Name, which seeds the link's random streams together with the run's seed.
    pub name: String,
    /// Nodes that it joins.
    pub ends: [NodeId; 2],
    /// Transmission medium in each direction: from the first end, and back.
    pub wires: [Wire; 2],
    /// Class before the transmitter at each end.
    pub queues: [Class<B>; 2],
}

/// Event of the first transmitter. At an instant, arrivals come first, then timers, and then the
/// transmitters of links and channels: they send what is there at their instant.
const TRANSMITTERS: EventId = 1 << 31;

/// What hosts prefetch of later packets on a link when one arrives, and the number of packets
/// between the two.
const PREFETCHED: [(usize, Part); 3] =
    [(0, Part::Data), (2, Part::Connection), (5, Part::Endpoint)];

/// A packet that is set aside.
#[derive(Debug)]
enum Aside<B> {
    /// It was sent at a watched interface, of which the hosts are to know.
    Sent(PortId, Packet<B>),
    /// Its source has sent it, and it enters a tunnel.
    Enters(u32, Packet<B>),
}

/// The network and all packets in transit.
#[derive(Debug)]
pub struct Network<B> {
    now: Time,
    agenda: Agenda,
    ports: Vec<Port<B>>,
    /// Channels that ports share.
    channels: Vec<Channel<B>>,
    /// Ports from here into other parts of the network.
    exits: Vec<PortId>,
    /// Routers, which may process their arrivals ahead of other nodes.
    routers: Routers,
    /// End of the current run.
    until: Time,
    routes: Routes,
    tunnels: Vec<Tunnel>,
    /// Limit of each node's ICMP errors.
    errors: Vec<ErrorBudget>,
    /// Lost packets that were not reported to the hosts yet.
    losses: Vec<(Packet<B>, Loss, Option<PortId>)>,
    /// Packets that are set aside until the current event is processed.
    aside: Vec<Aside<B>>,
    /// Packets that have left a queue with reported departures, and were not reported to the hosts
    /// yet.
    departed: Vec<(B, u32)>,
    /// Ledger for drops of disciplines; empty between calls.
    ledger: Ledger<B>,
    events: u64,
    hops: u64,
}

impl<B: Copy> Network<B> {
    /// Creates a network at time zero, without packets.
    ///
    /// # Errors
    /// [`RouteError`] if a link ends at an unknown node or at the node where it begins, or if there
    /// are too many nodes or links.
    pub fn new(nodes: &[NodeKind], links: Vec<LinkSpec<B>>, seed: u64) -> Result<Self, RouteError> {
        RouteError::of_size(nodes.len(), links.len())?;
        for link in &links {
            let [a, b] = link.ends;
            if let Some(node) = [a, b].into_iter().find(|node| node.index() >= nodes.len()) {
                return Err(RouteError::NoSuchNode(node.0, nodes.len()));
            }
            if a == b {
                return Err(RouteError::Loop(a.0));
            }
        }
        let routes = Routes::new(nodes, &links, seed);
        let mut ports = Vec::with_capacity(2 * links.len());
        for LinkSpec { name, ends: [a, b], wires: [there, back], queues: [at_a, at_b] } in links {
            for (side, to, wire, queue) in [(0, b, there, at_a), (1, a, back, at_b)] {
                let random = Stream::new(seed, &format!("{name}/{side}"));
                ports.push(Port::new(wire, to, queue, random));
            }
        }
        Ok(Self {
            now: Time::ZERO,
            agenda: Agenda::new(),
            routers: Routers::new(nodes, &ports),
            until: Time::ZERO,
            ports,
            channels: Vec::new(),
            exits: Vec::new(),
            routes,
            tunnels: Vec::new(),
            errors: vec![ErrorBudget::default(); nodes.len()],
            losses: Vec::new(),
            aside: Vec::new(),
            departed: Vec::new(),
            ledger: Ledger::new(),
            events: 0,
            hops: 0,
        })
    }

    /// Returns the instant up to which all events were processed.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the time of the next event, if any: until then a driver may sleep.
    pub fn next_event(&self) -> Option<Time> {
        self.agenda.peek()
    }

    /// Returns the number of events processed so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the number of links crossed so far by packets.
    pub fn packet_hops(&self) -> u64 {
        self.hops
    }

    /// Returns the class at the sending end of a port.
    pub fn queue(&self, port: PortId) -> &Class<B> {
        &self.ports[port.index()].queue
    }

    /// Returns the counters of a port's link.
    pub fn link_counters(&self, port: PortId) -> LinkCounters {
        self.ports[port.index()].counters
    }

    /// Returns all ports: two for each link, and then the devices of tunnels.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + use<B> {
        (0..self.ports.len() as u32).map(PortId)
    }

    /// Returns the ports by which a node sends into links.
    fn ports_of(&self, node: NodeId) -> impl Iterator<Item = PortId> {
        let links = self.ports().filter(|port| !self.is_device(*port));
        links.filter(move |port| self.near_end(*port) == node)
    }

    /// Returns the port of a `node` that has exactly one; otherwise `None`.
    pub fn only_port(&self, node: NodeId) -> Option<PortId> {
        let mut own = self.ports_of(node);
        own.next().filter(|_| own.next().is_none())
    }

    /// Sets how `node` chooses among links and paths of equal cost, from now on.
    pub fn set_balance(&mut self, node: NodeId, balance: Balance) {
        self.routes.set_balance(node, balance);
    }

    /// Sets the marker for packets that arrive at the far end of `port`, from now on; it precedes
    /// all other processing.
    pub fn set_marker(&mut self, port: PortId, marker: Marker) {
        self.changing(port).set_marker(marker);
    }

    /// Limits the packets of a link to `mtu` bytes, without layer-2 overhead, from now on. Routers
    /// [fragment](Hosts::divide) longer packets, or send an ICMP error.
    pub fn set_mtu(&mut self, link: u32, mtu: u32) {
        let both = [2 * link, 2 * link + 1].map(|port| port as usize);
        for port in both {
            self.ports[port].mtu = mtu;
        }
        let ends = both.map(|port| self.ports[port].to);
        for port in self.ports.iter_mut().filter(|port| ends.contains(&port.to)) {
            port.inspect_arrivals();
        }
    }

    /// Has all packets on a link carry a tag or label, from now on. Without any such link, no
    /// packet has a class at layer 2.
    pub fn set_encapsulation(&mut self, link: u32, encapsulation: Encapsulation) {
        for port in [2 * link, 2 * link + 1] {
            self.ports[port as usize].encapsulation = Some(encapsulation);
        }
        // A packet loses its class on the first link without.
        self.ports.iter_mut().for_each(Port::inspect_arrivals);
    }

    /// Returns the least MTU of the links and tunnels at `node`, in bytes; [`u32::MAX`] if none has
    /// one.
    pub fn least_mtu(&self, node: NodeId) -> u32 {
        let tunnels = self.tunnels.iter().filter(|tunnel| tunnel.entry == node);
        let mtus = self.ports_of(node).map(|port| self.ports[port.index()].mtu);
        mtus.chain(tunnels.map(|tunnel| tunnel.spec.mtu)).min().unwrap_or(u32::MAX)
    }

    /// Replaces the rate, and perhaps delay, jitter and loss, of the wire into which a port sends
    /// by those of a trace, which begins at time zero. It stays when the wire changes.
    pub fn set_trace(&mut self, port: PortId, trace: Trace) {
        let now = self.now;
        self.changing(port).set_trace(now, trace);
    }

    /// Returns the trace of a port, if it has one.
    pub fn trace(&self, port: PortId) -> Option<&Trace> {
        self.ports[port.index()].trace()
    }

    /// Limits the ICMP errors of `node`, from now on.
    pub fn set_icmp_errors(&mut self, node: NodeId, errors: IcmpErrors) {
        self.errors[node.index()] = ErrorBudget::new(errors);
    }

    /// Sets a link down or up, in both directions, and changes routes at once. Transmitted packets
    /// arrive; packets before a link that is down wait until it is up.
    pub fn set_up(&mut self, link: u32, up: bool) {
        for id in [PortId(2 * link), PortId(2 * link + 1)] {
            let now = self.now;
            let arrival = self.changing(id).set_up(now, up);
            self.resume(id, arrival);
        }
        self.routes.set_up(link as usize, up);
    }

    /// Returns the transmission medium into which a port sends.
    pub fn wire(&self, id: PortId) -> &Wire {
        self.ports[id.index()].wire()
    }

    /// Changes the transmission medium into which a port sends, from the next packet on.
    /// Transmitted packets are not affected, nor are routes.
    pub fn set_wire(&mut self, id: PortId, wire: Wire) {
        let now = self.now;
        let arrival = self.changing(id).set_wire(now, wire);
        self.resume(id, arrival);
    }

    /// Replaces the class before a port's transmitter. Waiting packets move to the new class as if
    /// they arrived now, and those that it refuses are lost. Reserved classes stay before it.
    pub fn set_queue(&mut self, id: PortId, queue: Class<B>) {
        self.change_queue(id, |class, now, ledger| class.replace(now, queue, ledger));
    }

    /// Sets the classes that precede all others at a port, from now on.
    pub fn set_reserved(&mut self, id: PortId, wanted: &[Reserved]) {
        self.change_queue(id, |class, now, ledger| class.set_reserved(now, wanted, ledger));
    }

    fn change_queue(
        &mut self,
        id: PortId,
        change: impl FnOnce(&mut Class<B>, Time, &mut Ledger<B>),
    ) {
        let (now, ledger) = (self.now, &mut self.ledger);
        let port = &mut self.ports[id.index()];
        let arrival = port.change_queue(now, |class| change(class, now, ledger));
        self.resume(id, arrival);
        self.report_drops(id);
    }

    /// Schedules the next event of a port after a change: an arrival, or the next transmission.
    fn resume(&mut self, id: PortId, arrival: Option<Time>) {
        if let Some(at) = arrival {
            self.agenda.push(at, Self::arrival_event(id));
        }
        let event = Self::transmitter_event(id);
        let port = &mut self.ports[id.index()];
        let due = port.busy_until().max(self.now);
        if due == Time::MAX {
            self.contend_again(id);
        } else if !port.schedules() && port.has_backlog() && due < port.wake {
            port.wake = due;
            self.agenda.push(due, event);
        }
    }

    /// Returns the class before a port's transmitter, mutably.
    pub fn queue_mut(&mut self, id: PortId) -> &mut Class<B> {
        &mut self.ports[id.index()].queue
    }

    /// Reports every packet that passes this interface to the hosts from now on. The interface is
    /// that of the node which sends through this port.
    pub fn watch(&mut self, interface: PortId) {
        let now = self.now;
        self.changing(interface).watch(now);
        self.changing(PortId(interface.0 ^ 1)).watch_arrivals();
        self.resume(interface, None);
    }

    /// Ends the reports of packets that pass this interface.
    pub fn unwatch(&mut self, interface: PortId) {
        let now = self.now;
        let arrival = self.changing(interface).unwatch(now);
        self.changing(PortId(interface.0 ^ 1)).unwatch_arrivals();
        self.resume(interface, arrival);
    }

    /// Sends a packet from a host, now.
    #[inline]
    pub fn send(&mut self, host: NodeId, packet: Packet<B>) -> Sent {
        let losses = self.losses.len();
        match self.routes.next_hop(host, &packet.header) {
            Ok(id) if packet.header.size <= self.ports[id.index()].mtu => {
                self.offer(id, packet);
                let port = &self.ports[id.index()];
                let waits = port.has_backlog().then(|| port.waits(id));
                return Sent { waits, dropped: self.losses.len() > losses };
            }
            Ok(id) => self.lose(packet, Loss::TooBig, Some(id)),
            Err(detour) => match detour.tunnel() {
                None => self.lose(packet, Loss::NoRoute, None),
                Some(number) => self.enter_later(number, packet),
            },
        }
        Sent { waits: None, dropped: false }
    }

    /// Reports every packet that leaves the queue before a port to the hosts, until the queue is
    /// empty and departures can be scheduled again. Calls `waiting` with the body and the bytes of
    /// each packet that waits there now.
    ///
    /// Packets that do not wait are not reported.
    pub fn report_departures(&mut self, id: PortId, mut waiting: impl FnMut(&B, u32)) {
        let port = &mut self.ports[id.index()];
        port.report_departures(self.now);
        port.queue.waiting().for_each(|packet| waiting(&packet.body, packet.header.size));
        self.resume(id, None);
    }

    /// Sends an ICMP error about `packet` from `node` to the packet's source, unless `node` sends
    /// no errors or its limit is reached.
    pub fn send_icmp_error(
        &mut self,
        node: NodeId,
        packet: &Packet<B>,
        error: IcmpError,
        hosts: &mut impl Hosts<B>,
    ) {
        if self.errors[node.index()].allows(self.now)
            && let Some((body, size)) = hosts.quote(node, packet, error)
        {
            self.errors[node.index()].spend(self.now);
            let error = Packet { header: error.header(node, &packet.header, size), body };
            if error.header.destination == node && self.routes.is_host(node) {
                // A host's own packet is too long for the tunnel that begins there.
                hosts.receive(self, node, error);
            } else {
                self.send(node, error);
            }
        }
    }

    /// Sets a timer of the hosts to `at`, which must not be before now. Timers cannot be cancelled;
    /// a host ignores one that it no longer needs.
    pub fn set_timer(&mut self, at: Time, timer: TimerId) {
        debug_assert!(at >= self.now);
        self.agenda.push(at, self.timer_event(timer));
    }

    /// Processes all events that are due up to and including `until`.
    pub fn run(&mut self, until: Time, hosts: &mut impl Hosts<B>) {
        self.run_on(until, hosts);
        for port in &mut self.ports {
            port.settle(self.now);
        }
    }

    /// As [`run`](Self::run), where counters are not read before the next run.
    #[inline]
    pub fn run_on(&mut self, until: Time, hosts: &mut impl Hosts<B>) {
        self.report(hosts); // reports on packets that were sent since the last run
        self.review_routers();
        self.until = until;
        while let Some((at, event)) = self.agenda.take(until) {
            self.now = at;
            self.step(event, hosts);
            self.report(hosts);
        }
        self.now = self.now.max(until);
    }

    /// Reports watched packets, departures and losses to the hosts.
    #[inline(always)]
    fn report(&mut self, hosts: &mut impl Hosts<B>) {
        // One branch for all of them, because they are rare.
        if !(self.losses.is_empty() & self.aside.is_empty() & self.departed.is_empty()) {
            self.report_all(hosts);
        }
    }

    /// Reports watched packets first, because the body of a lost packet is released with it.
    #[cold]
    fn report_all(&mut self, hosts: &mut impl Hosts<B>) {
        loop {
            for packet in std::mem::take(&mut self.aside) {
                match packet {
                    Aside::Sent(interface, packet) => {
                        hosts.observe(self.now, interface, Passage::Sent, &packet);
                    }
                    Aside::Enters(tunnel, packet) => self.enter(tunnel, packet, hosts),
                }
            }
            if self.losses.is_empty() & self.departed.is_empty() & self.aside.is_empty() {
                return;
            }
            // Packets that hosts send now may be lost, or may cause departures from queues.
            let mut departed = std::mem::take(&mut self.departed);
            for (body, size) in departed.drain(..) {
                hosts.departed(self, body, size);
            }
            if self.departed.is_empty() {
                self.departed = departed; // keeps its memory
            }
            let mut losses = std::mem::take(&mut self.losses);
            for (packet, loss, at) in losses.drain(..) {
                if let Loss::Queue(_) = loss {
                    hosts.departed(self, packet.body, packet.header.size);
                }
                hosts.lost(packet, loss, at);
            }
            if self.losses.is_empty() {
                self.losses = losses;
            }
        }
    }

    /// Processes an event.
    #[inline]
    fn step(&mut self, event: EventId, hosts: &mut impl Hosts<B>) {
        let ports = self.ports.len() as u32;
        if event < ports {
            self.arrive(PortId(event), hosts);
        } else if event >= TRANSMITTERS {
            self.events += 1;
            self.transmit_next(PortId(event - TRANSMITTERS));
        } else {
            self.events += 1;
            hosts.timer(self, TimerId(event - ports));
        }
    }

    fn arrival_event(port: PortId) -> EventId {
        port.0
    }

    fn transmitter_event(port: PortId) -> EventId {
        TRANSMITTERS + port.0
    }

    fn timer_event(&self, timer: TimerId) -> EventId {
        self.ports.len() as u32 + timer.0
    }

    /// Handles the arrival of a packet at the far end of a link.
    #[inline(always)]
    fn arrive(&mut self, id: PortId, hosts: &mut impl Hosts<B>) {
        let port = &self.ports[id.index()];
        if port.is_special() {
            return self.arrive_specially(id, hosts);
        }
        let node = port.to;
        let Some((_, header)) = port.arriving().filter(|(at, _)| *at == self.now) else {
            return; // the packet of this event was processed ahead
        };
        let (destination, size) = (header.destination, header.size());
        if destination == node {
            self.count_arrivals(1);
            let packet = self.take_off_wire(id);
            for (after, part) in hosts.prefetches().then_some(PREFETCHED).into_iter().flatten() {
                if let Some(body) = self.ports[id.index()].body_after(after) {
                    hosts.prefetch(body, part);
                }
            }
            return hosts.receive(self, node, packet);
        }
        let way = self.routes.way(node, header);
        self.count_arrivals(1);
        match way {
            Ok(to) => {
                self.relay(id, to, size);
                self.go_on(id, hosts);
            }
            Err(fault) => {
                let packet = self.take_off_wire(id);
                self.discard(node, packet, fault, None, hosts);
            }
        }
    }

    /// Forwards the packet that arrives now at a router, from one port to another.
    #[inline(always)]
    fn relay(&mut self, from: PortId, to: PortId, size: Bytes) {
        let Ok([source, port]) = self.ports.get_disjoint_mut([from.index(), to.index()]) else {
            unreachable!("both directions of a link have different ports");
        };
        if !port.schedules() {
            let packet = source.take_off_wire().expect("a packet arrives").forwarded();
            return self.offer_to_discipline(to, packet);
        }
        match port.schedule(self.now, size) {
            Ok(at) => {
                if source.hand_on(port, at) {
                    self.agenda.push(at, Self::arrival_event(to));
                }
            }
            Err(cause) => {
                let packet = source.take_off_wire().expect("a packet arrives").forwarded();
                self.lose(packet, Loss::Queue(cause), Some(to));
            }
        }
    }

    fn count_arrivals(&mut self, number: u64) {
        self.events += number;
        self.hops += number;
    }

    /// Takes the arriving packet off the wire, and schedules the arrival of the next one.
    #[inline(always)]
    fn take_off_wire(&mut self, id: PortId) -> Packet<B> {
        let port = &mut self.ports[id.index()];
        let packet = port.take_off_wire().expect("an arrival is due only with a packet");
        if let Some(at) = port.next_arrival() {
            self.agenda.push(at, Self::arrival_event(id));
        }
        packet
    }

    /// Handles arrivals with reordering, duplicates, watched interfaces, markers, MTUs, classes at
    /// layer 2 or tunnels.
    #[cold]
    fn arrive_specially(&mut self, id: PortId, hosts: &mut impl Hosts<B>) {
        let port = &mut self.ports[id.index()];
        if port.leaves() || port.next_arrival() != Some(self.now) {
            // It arrives in another part; it was processed ahead; or it was overtaken, and arrived
            // with an event of the packet that overtook it.
            return;
        }
        port.bring_up();
        self.events += 1;
        let packet = self.take_off_wire(id);
        let port = &mut self.ports[id.index()];
        if let Some(tunnel) = port.tunnel() {
            return self.enter_behind_device(tunnel, packet, hosts);
        }
        let copy = match port.duplicates() {
            true => hosts.copy(&packet).map(|body| Packet { header: packet.header, body }),
            false => None,
        };
        let port = &mut self.ports[id.index()];
        port.counters.duplicated += u64::from(copy.is_some());
        let (node, watched) = (port.to, port.are_arrivals_watched());
        let encapsulation = port.encapsulation;
        for mut packet in [Some(packet), copy].into_iter().flatten() {
            if watched {
                hosts.observe(self.now, PortId(id.0 ^ 1), Passage::Received, &packet);
            }
            let header = &mut packet.header;
            header.set_link_class(header.link_class().over(encapsulation, header.dscp()));
            if let Some(marker) = self.ports[id.index()].marker() {
                marker.mark(&mut packet.header);
            }
            self.hops += 1;
            if packet.header.destination == node {
                self.emerge(node, packet, hosts);
                continue;
            }
            match self.routes.way(node, &packet.header) {
                Ok(to) => self.offer_if_short(node, to, packet, hosts),
                Err(fault) => self.discard(node, packet, fault, None, hosts),
            }
        }
    }

    /// Forwards a packet that may exceed the MTU of the next link.
    fn offer_if_short(
        &mut self,
        node: NodeId,
        to: PortId,
        packet: Packet<B>,
        hosts: &mut impl Hosts<B>,
    ) {
        let mtu = self.ports[to.index()].mtu;
        if packet.header.size <= mtu {
            return self.offer(to, packet.forwarded());
        }
        let mut pieces = Vec::new();
        hosts.divide(&packet, mtu, &mut pieces);
        if pieces.is_empty() {
            let fault = Fault::Error(IcmpError::TooBig { mtu }, Loss::TooBig);
            return self.discard(node, packet, fault, Some(to), hosts);
        }
        for (body, size) in pieces {
            let header = Header { size, ..packet.header };
            self.offer(to, Packet { header, body }.forwarded());
        }
    }

    /// Handles a packet that a router does not forward.
    #[cold]
    fn discard(
        &mut self,
        node: NodeId,
        packet: Packet<B>,
        fault: Fault,
        at: Option<PortId>,
        hosts: &mut impl Hosts<B>,
    ) {
        match fault {
            Fault::Error(error, loss) => {
                self.send_icmp_error(node, &packet, error, hosts);
                self.losses.push((packet, loss, at));
            }
            Fault::Tunnel(number) => self.enter(number, packet.forwarded(), hosts),
        }
    }

    /// Continues at a port with waiting packets when its transmitter may be free or its discipline
    /// may release one.
    #[inline]
    fn transmit_next(&mut self, id: PortId) {
        let event = Self::transmitter_event(id);
        let port = &mut self.ports[id.index()];
        if port.wake != self.now {
            // Another packet has arrived since, and this wake-up was for it; or it is a channel's.
            return self.run_channel(id);
        }
        let next = port.queue.dequeue(self.now, &mut self.ledger);
        let arrival = match &next {
            Dequeue::Packet(packet) => port.transmit(self.now, packet.size()),
            _ => Err(Loss::Link),
        };
        port.wake = match &next {
            Dequeue::Packet(_) if port.has_backlog() => port.busy_until(),
            Dequeue::NotBefore(at) => *at,
            Dequeue::Packet(_) | Dequeue::Idle => Time::MAX,
        };
        debug_assert!(port.wake > self.now);
        if port.wake < Time::MAX {
            self.agenda.push(port.wake, event);
        }
        if port.reports_departures() {
            if let Dequeue::Packet(packet) = &next {
                self.departed.push((packet.body, packet.header.size));
            }
            port.end_reports(self.now);
        }
        if let Dequeue::Packet(packet) = next {
            self.follow(id, packet, arrival);
        }
        self.report_drops(id);
    }

    /// Offers a packet to a port.
    #[inline(always)]
    fn offer(&mut self, id: PortId, packet: Packet<B>) {
        let port = &mut self.ports[id.index()];
        if port.schedules() {
            match port.schedule(self.now, packet.size()) {
                Ok(at) => self.put_on_wire(id, at, packet),
                Err(cause) => self.lose(packet, Loss::Queue(cause), Some(id)),
            }
        } else {
            self.offer_to_discipline(id, packet);
        }
    }

    /// Offers a packet to a port that does not schedule packets.
    #[inline(never)]
    fn offer_to_discipline(&mut self, id: PortId, packet: Packet<B>) {
        self.make_room(id);
        match self.ports[id.index()].take_on(self.now, &packet.header) {
            TakenOn::Arrives(at) => self.follow(id, packet, Ok(at)),
            TakenOn::Lost(loss @ Loss::Queue(_)) => self.lose(packet, loss, Some(id)),
            TakenOn::Lost(loss) => self.follow(id, packet, Err(loss)),
            TakenOn::Waits => self.enqueue(id, packet),
        }
    }

    /// Has a port transmit the packet that is due now. Room that becomes free at this instant is
    /// available to another packet, in whatever order the events were scheduled.
    #[inline(always)]
    fn make_room(&mut self, id: PortId) {
        if self.ports[id.index()].wake == self.now {
            self.transmit_next(id);
        }
    }

    #[inline(always)]
    fn put_on_wire(&mut self, id: PortId, at: Time, packet: Packet<B>) {
        if self.ports[id.index()].put_on_wire(at, packet) {
            self.agenda.push(at, Self::arrival_event(id));
        }
    }

    #[cold]
    fn lose(&mut self, packet: Packet<B>, loss: Loss, at: Option<PortId>) {
        self.losses.push((packet, loss, at));
    }

    /// Enqueues a packet before a port's transmitter.
    #[inline(never)]
    fn enqueue(&mut self, id: PortId, packet: Packet<B>) {
        let port = &mut self.ports[id.index()];
        port.queue.enqueue(self.now, packet, &mut self.ledger);
        let due = port.busy_until().max(self.now);
        if due < port.wake && port.has_backlog() {
            port.wake = due;
            self.agenda.push(due, Self::transmitter_event(id));
        } else if due == Time::MAX {
            self.contend(id);
        }
        self.report_drops(id);
    }

    #[inline]
    fn report_drops(&mut self, at: PortId) {
        if !self.ledger.drops.is_empty() {
            let drops = self.ledger.drops.drain(..);
            let losses = drops.map(|drop| (drop.packet, Loss::Queue(drop.cause), Some(at)));
            self.losses.extend(losses);
        }
    }

    /// Puts a transmitted packet on the wire, or records its loss.
    #[inline(always)]
    fn follow(&mut self, id: PortId, packet: Packet<B>, arrival: Result<Time, Loss>) {
        if self.ports[id.index()].watched_at_start {
            self.aside.push(Aside::Sent(id, packet));
        }
        match arrival {
            Ok(at) => self.put_on_wire(id, at, packet),
            Err(loss) => self.lose(packet, loss, Some(id)),
        }
    }
}
