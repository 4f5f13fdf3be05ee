//! What a network's queues and links count, read at marks.

use perhop_core::{Rate, Time};
use perhop_net::{LinkCounters, Network, PortId};
use perhop_queue::Counters;

use crate::tables::{Links, Queues, Stretch, Table};

/// Reads a network's counters, whatever it carries.
///
/// A port is `2 · link` or, back, `2 · link + 1`; classes are numbered over all ports, each port's
/// root first and then its classes, depth first, and then over every queue that takes the place of
/// another, in the order in which they do.
#[derive(Debug)]
pub struct NetworkMeter {
    rates: Vec<Rate>,
    last_links: Vec<LinkCounters>,
    last_queues: Vec<PortQueues>,
    /// How many classes there have been.
    classes: usize,
    queues: Queues,
    links: Links,
}

/// The classes before a port's transmitter, depth first.
#[derive(Debug)]
struct PortQueues {
    /// The number of the first.
    first: usize,
    last: Vec<Counters>,
}

impl NetworkMeter {
    /// A meter of a network in which nothing has happened yet. `rates` are those of its ports.
    pub fn new<B: Clone>(network: &Network<B>, rates: Vec<Rate>) -> Self {
        let mut meter = Self {
            rates,
            last_links: vec![LinkCounters::default(); network.ports().count()],
            last_queues: Vec::new(),
            classes: 0,
            queues: Queues::default(),
            links: Links::default(),
        };
        for port in network.ports() {
            let queues = meter.number_classes(network, port);
            meter.last_queues.push(queues);
        }
        meter
    }

    fn number_classes<B: Clone>(&mut self, network: &Network<B>, port: PortId) -> PortQueues {
        let mut last = Vec::new();
        network.queue(port).visit(&mut |_, _| last.push(Counters::default()));
        let first = self.classes;
        self.classes += last.len();
        PortQueues { first, last }
    }

    /// A link has another rate.
    pub fn set_rate(&mut self, link: u32, rate: Rate) {
        self.rates[2 * link as usize..][..2].fill(rate);
    }

    /// A port has another queue.
    pub fn set_queue<B: Clone>(&mut self, network: &Network<B>, port: PortId) {
        self.last_queues[port.0 as usize] = self.number_classes(network, port);
    }

    /// Adds a row to each table for what happened since the last one.
    pub fn record<B: Clone>(&mut self, network: &Network<B>, stretch: Stretch) {
        let (from, to): (Time, Time) = stretch;
        let span = to.since(from).as_secs_f64();
        for port in network.ports() {
            let index = port.0 as usize;
            let counters = network.link_counters(port);
            let capacity = self.rates[index].bits_per_second() as f64 / 8.0 * span;
            self.links.push(index, stretch, &self.last_links[index], &counters, capacity);
            self.last_links[index] = counters;
            let PortQueues { first, last } = &mut self.last_queues[index];
            let mut classes = (*first..).zip(last);
            network.queue(port).visit(&mut |counters, backlog| {
                let (class, last) = classes.next().expect("a class was added");
                self.queues.push(class, stretch, last, counters, backlog);
                *last = *counters;
            });
        }
    }

    /// The tables, by name: `queues`, `links`.
    pub fn tables(&self) -> [(&'static str, Table); 2] {
        [("queues", self.queues.clone().into_table()), ("links", self.links.clone().into_table())]
    }
}
