//! Counters of a network's queues, links, channels and tunnels, read at marks.

use perhop_core::Time;
use perhop_net::{LinkCounters, Network, PortId, StationCounters, TunnelCounters};
use perhop_queue::ClassCounters;

use crate::tables::{Labels, Links, Queues, Stations, Stretch, Table, Tunnels};

/// Reads a network's counters, for any body of packets.
///
/// A link with classes has a row for the whole, whose class has no name.
#[derive(Debug)]
pub struct NetworkMeter {
    last_links: Vec<LinkCounters>,
    last_queues: Vec<PortQueues>,
    /// Names of all classes so far.
    classes: Vec<String>,
    queues: Queues,
    links: Links,
    /// Ports on channels, and their counters at the last reading.
    last_stations: Vec<(PortId, StationCounters)>,
    stations: Stations,
    last_tunnels: Vec<TunnelCounters>,
    tunnels: Tunnels,
}

/// Classes before a port's transmitter, depth first.
#[derive(Debug)]
struct PortQueues {
    /// Number of the first class.
    first: usize,
    last: Vec<ClassCounters>,
}

impl NetworkMeter {
    /// Creates a meter of a network at time zero.
    pub fn new<B: Copy>(network: &Network<B>) -> Self {
        let mut meter = Self {
            last_links: vec![LinkCounters::default(); network.ports().count()],
            last_queues: Vec::new(),
            classes: Vec::new(),
            queues: Queues::default(),
            links: Links::default(),
            last_stations: Vec::new(),
            stations: Stations::default(),
            last_tunnels: network.tunnels().map(|(_, counters)| counters).collect(),
            tunnels: Tunnels::default(),
        };
        let station = |port| network.station(port).map(|(_, counters)| (port, counters));
        meter.last_stations.extend(network.ports().filter_map(station));
        for port in network.ports() {
            let queues = meter.number_classes(network, port);
            meter.last_queues.push(queues);
        }
        meter
    }

    fn number_classes<B: Copy>(&mut self, network: &Network<B>, port: PortId) -> PortQueues {
        let mut last = Vec::new();
        let first = self.classes.len();
        network.queue(port).visit(&mut |name, _, _| {
            self.classes.push(name.to_owned());
            last.push(ClassCounters::default());
        });
        PortQueues { first, last }
    }

    /// Continues with another class before the transmitter of a port.
    pub fn set_queue<B: Copy>(&mut self, network: &Network<B>, port: PortId) {
        self.last_queues[port.0 as usize] = self.number_classes(network, port);
    }

    /// Adds rows to each table for the interval since the last reading.
    pub fn record<B: Copy>(&mut self, network: &Network<B>, stretch: Stretch) {
        self.record_parts(network, |_| network, stretch);
    }

    /// As [`record`](Self::record), for a network in parts: `of` returns the part of a port. There
    /// are no tunnels but in the part `network`.
    pub fn record_parts<'a, B: Copy + 'a>(
        &mut self,
        network: &Network<B>,
        of: impl Fn(PortId) -> &'a Network<B>,
        stretch: Stretch,
    ) {
        let (from, to): (Time, Time) = stretch;
        let span = to.since(from).as_secs_f64();
        for port in network.ports() {
            let (index, network) = (port.0 as usize, of(port));
            let PortQueues { first, last } = &mut self.last_queues[index];
            let mut classes = (*first..).zip(last);
            network.queue(port).visit(&mut |_, counters, backlog| {
                let (class, last) = classes.next().expect("a class was added");
                self.queues.push((index, class), stretch, last, counters, backlog);
                *last = *counters;
            });
            if network.is_device(port) {
                continue; // it sends into no link
            }
            let counters = network.link_counters(port);
            let capacity = match network.trace(port) {
                None => network.wire(port).rate.bits_per_second() as f64 / 8.0 * span,
                // A packet counts when its transmission begins, perhaps before its opportunity.
                Some(trace) => {
                    let bytes = (counters.bytes - self.last_links[index].bytes).get() as f64;
                    trace.capacity(from, to).max(bytes).max(1.0)
                }
            };
            self.links.push(index, stretch, &self.last_links[index], &counters, capacity);
            self.last_links[index] = counters;
        }
        for (port, last) in &mut self.last_stations {
            if let Some((channel, counters)) = of(*port).station(*port) {
                self.stations.push((channel, port.0 as usize), stretch, last, &counters);
                *last = counters;
            }
        }
        for (way, (entry, counters)) in network.tunnels().enumerate() {
            // Each tunnel has two directions.
            let last = std::mem::replace(&mut self.last_tunnels[way], counters);
            self.tunnels.push((way / 2, entry), stretch, &last, &counters);
        }
    }

    /// Returns the tables, by name: `queues`, `links`, `stations`, `tunnels`.
    pub fn tables(&self, labels: &Labels) -> [(&'static str, Table); 4] {
        let labels = Labels { classes: self.classes.clone().into(), ..labels.clone() };
        [
            ("queues", self.queues.table(&labels)),
            ("links", self.links.table(&labels)),
            ("stations", self.stations.table(&labels)),
            ("tunnels", self.tunnels.table(&labels)),
        ]
    }
}
